package wire_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	pb03 "github.com/a2aproject/a2a-go/a2apb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/wire"
)

// oldClient returns the official client of 0.3 for gRPC.
func (n *node) oldClient() pb03.A2AServiceClient { return pb03.NewA2AServiceClient(n.grpcConn()) }

func oldRequest(text, task string, more ...*pb03.Part) *pb03.SendMessageRequest {
	return &pb03.SendMessageRequest{
		Request: &pb03.Message{
			MessageId: fmt.Sprintf("m-%d", messageCount.Add(1)), TaskId: task, Role: pb03.Role_ROLE_USER,
			Parts: append([]*pb03.Part{{Part: &pb03.Part_Text{Text: text}}}, more...),
		},
		Configuration: &pb03.SendMessageConfiguration{Blocking: true},
	}
}

func (n *node) sendOld(r *pb03.SendMessageRequest) *pb03.Task {
	n.t.Helper()
	response, err := n.oldClient().SendMessage(n.t.Context(), r)
	if err != nil {
		n.t.Fatal(err)
	}
	return response.GetTask()
}

func TestOldGRPC_Send(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both})
	data, err := structpb.NewStruct(map[string]any{"n": 1.5, "list": []any{1.0, nil, "ß<"}, "yes": true})
	if err != nil {
		t.Fatal(err)
	}
	parts := []*pb03.Part{
		{Part: &pb03.Part_Data{Data: &pb03.DataPart{Data: data}}},
		{Part: &pb03.Part_File{File: &pb03.FilePart{Name: "a.pdf", MimeType: "application/pdf", File: &pb03.FilePart_FileWithBytes{
			FileWithBytes: []byte(base64.StdEncoding.EncodeToString([]byte{0, 255, 1})),
		}}}},
		{Part: &pb03.Part_File{File: &pb03.FilePart{MimeType: "text/html", File: &pb03.FilePart_FileWithUri{FileWithUri: "https://f.example/b"}}}},
	}
	task := n.sendOld(oldRequest("echo hello", "", parts...))
	if task.GetStatus().GetState() != pb03.TaskState_TASK_STATE_COMPLETED || task.GetStatus().GetTimestamp() == nil || task.GetContextId() == "" {
		t.Fatalf("got %v", task)
	}
	got := task.GetArtifacts()[0].GetParts()
	if len(got) != 4 || got[0].GetText() != "hello" || !got[1].GetData().GetData().GetFields()["yes"].GetBoolValue() ||
		got[1].GetData().GetData().GetFields()["n"].GetNumberValue() != 1.5 ||
		string(got[2].GetFile().GetFileWithBytes()) != "AP8B" || got[2].GetFile().GetName() != "a.pdf" || got[3].GetFile().GetFileWithUri() != "https://f.example/b" {
		t.Errorf("got %v", got)
	}
	answer, err := n.oldClient().SendMessage(t.Context(), oldRequest("message hi", ""))
	if err != nil || answer.GetMsg().GetRole() != pb03.Role_ROLE_AGENT || answer.GetMsg().GetParts()[0].GetText() != "hi" {
		t.Errorf("got %v, %v", answer, err)
	}
}

func TestOldGRPC_Tasks(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both})
	ctx, client := t.Context(), n.oldClient()
	task := n.sendOld(oldRequest("ask", ""))
	if task.GetStatus().GetState() != pb03.TaskState_TASK_STATE_INPUT_REQUIRED || task.GetStatus().GetUpdate().GetParts()[0].GetText() != "What next?" {
		t.Fatalf("got %v", task)
	}
	name := "tasks/" + task.GetId()
	got, err := client.GetTask(ctx, &pb03.GetTaskRequest{Name: name, HistoryLength: 1})
	if err != nil || got.GetId() != task.GetId() || len(got.GetHistory()) != 1 {
		t.Errorf("get: %v, %v", got, err)
	}
	list, err := client.ListTasks(ctx, &pb03.ListTasksRequest{ContextId: task.GetContextId(), Status: pb03.TaskState_TASK_STATE_INPUT_REQUIRED})
	if err != nil || list.GetTotalSize() != 1 || list.GetTasks()[0].GetId() != task.GetId() || len(list.GetTasks()[0].GetHistory()) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	got, err = client.CancelTask(ctx, &pb03.CancelTaskRequest{Name: name})
	if err != nil || got.GetStatus().GetState() != pb03.TaskState_TASK_STATE_CANCELLED {
		t.Errorf("cancel: %v, %v", got, err)
	}
}

// oldEvents reads a stream to its end.
func oldEvents(t *testing.T, stream grpc.ServerStreamingClient[pb03.StreamResponse], err error) (events []*pb03.StreamResponse) {
	t.Helper()
	for err == nil {
		var e *pb03.StreamResponse
		if e, err = stream.Recv(); err == nil {
			events = append(events, e)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return events
}

func TestOldGRPC_Streams(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both})
	stream, err := n.oldClient().SendStreamingMessage(t.Context(), oldRequest("burst 3", ""))
	events := oldEvents(t, stream, err)
	text, finals := "", []bool{}
	for _, e := range events[1:] {
		if u := e.GetArtifactUpdate(); u != nil {
			text += u.GetArtifact().GetParts()[0].GetText()
		}
		if u := e.GetStatusUpdate(); u != nil {
			finals = append(finals, u.GetFinal())
		}
	}
	if events[0].GetTask() == nil || text != "012" || !finals[len(finals)-1] || slices.Index(finals, true) != len(finals)-1 {
		t.Errorf("got %v", events)
	}

	task := n.sendOld(&pb03.SendMessageRequest{Request: oldRequest("slow 2", "").GetRequest(), Configuration: &pb03.SendMessageConfiguration{}})
	if state := task.GetStatus().GetState(); state != pb03.TaskState_TASK_STATE_SUBMITTED && state != pb03.TaskState_TASK_STATE_WORKING {
		t.Fatalf("got %v", state)
	}
	subscription, err := n.oldClient().TaskSubscription(t.Context(), &pb03.TaskSubscriptionRequest{Name: "tasks/" + task.GetId()})
	events = oldEvents(t, subscription, err)
	last := events[len(events)-1].GetStatusUpdate()
	if events[0].GetTask().GetId() != task.GetId() || !last.GetFinal() || last.GetStatus().GetState() != pb03.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("got %v", events)
	}

	// It ends where the agent asks, as it does over JSON-RPC.
	stream, err = n.oldClient().SendStreamingMessage(t.Context(), oldRequest("ask", ""))
	events = oldEvents(t, stream, err)
	if last := events[len(events)-1].GetStatusUpdate(); !last.GetFinal() || last.GetStatus().GetState() != pb03.TaskState_TASK_STATE_INPUT_REQUIRED {
		t.Errorf("got %v", events)
	}
}

func TestOldGRPC_Webhooks(t *testing.T) {
	t.Parallel()
	n := pushing(t, setting{agent: both})
	ctx, client := t.Context(), n.oldClient()
	task := n.sendOld(oldRequest("ask", ""))
	parent := "tasks/" + task.GetId()
	config := &pb03.PushNotificationConfig{
		Url: "http://127.0.0.1:9/h", Token: "tok",
		Authentication: &pb03.AuthenticationInfo{Schemes: []string{"Bearer"}, Credentials: "secret"},
	}
	for id, want := range map[string]string{"mine": "mine", "": task.GetId()} {
		set, err := client.CreateTaskPushNotificationConfig(ctx, &pb03.CreateTaskPushNotificationConfigRequest{
			Parent: parent, ConfigId: id, Config: &pb03.TaskPushNotificationConfig{PushNotificationConfig: config},
		})
		if err != nil || set.GetName() != parent+"/pushNotificationConfigs/"+want || set.GetPushNotificationConfig().GetUrl() != config.GetUrl() {
			t.Errorf("set: %v, %v", set, err)
		}
	}
	name := parent + "/pushNotificationConfigs/mine"
	got, err := client.GetTaskPushNotificationConfig(ctx, &pb03.GetTaskPushNotificationConfigRequest{Name: name})
	if err != nil || got.GetPushNotificationConfig().GetId() != "mine" || got.GetPushNotificationConfig().GetAuthentication().GetSchemes()[0] != "Bearer" {
		t.Errorf("get: %v, %v", got, err)
	}
	list, err := client.ListTaskPushNotificationConfig(ctx, &pb03.ListTaskPushNotificationConfigRequest{Parent: parent})
	if err != nil || len(list.GetConfigs()) != 2 {
		t.Errorf("list: %v, %v", list, err)
	}
	if _, err := client.DeleteTaskPushNotificationConfig(ctx, &pb03.DeleteTaskPushNotificationConfigRequest{Name: name}); err != nil {
		t.Error(err)
	}
	_, err = client.GetTaskPushNotificationConfig(ctx, &pb03.GetTaskPushNotificationConfigRequest{Name: name})
	isOldError(t, err, codes.NotFound, a2a.CodeTaskNotFound)
}

// isOldError checks an error and its details.
func isOldError(t *testing.T, err error, code codes.Code, want a2a.Code) *a2a.Error {
	t.Helper()
	s := status.Convert(err)
	e := errorOf(s)
	if s.Code() != code || e.Code != want {
		t.Errorf("got %v %v, want %v %v", s.Proto(), e.Code, code, want)
	}
	return e
}

func TestOldGRPC_Errors(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both})
	ctx, client := t.Context(), n.oldClient()
	_, err := client.GetTask(ctx, &pb03.GetTaskRequest{Name: "tasks/nope"})
	isOldError(t, err, codes.NotFound, a2a.CodeTaskNotFound)
	done := n.sendOld(oldRequest("echo x", ""))
	_, err = client.CancelTask(ctx, &pb03.CancelTaskRequest{Name: "tasks/" + done.GetId()})
	isOldError(t, err, codes.FailedPrecondition, a2a.CodeTaskNotCancelable)
	_, err = client.SendMessage(ctx, &pb03.SendMessageRequest{Request: &pb03.Message{MessageId: "m", Role: pb03.Role_ROLE_USER}})
	if e := isOldError(t, err, codes.InvalidArgument, a2a.CodeInvalidParams); len(e.Violations) == 0 {
		t.Errorf("no violations: %v", err)
	}
	metadata := &structpb.Struct{Fields: map[string]*structpb.Value{"n": structpb.NewNumberValue(math.NaN())}}
	_, err = client.SendMessage(ctx, &pb03.SendMessageRequest{Request: oldRequest("echo", "").GetRequest(), Metadata: metadata})
	isOldError(t, err, codes.InvalidArgument, a2a.CodeInvalidParams)
	stream, err := client.TaskSubscription(ctx, &pb03.TaskSubscriptionRequest{Name: "tasks/nope"})
	if err == nil {
		_, err = stream.Recv()
	}
	isOldError(t, err, codes.NotFound, a2a.CodeTaskNotFound)
	_, err = client.GetAgentCard(ctx, &pb03.GetAgentCardRequest{})
	isOldError(t, err, codes.FailedPrecondition, a2a.CodeExtendedAgentCardNotConfigured)
	_, err = client.CreateTaskPushNotificationConfig(ctx, &pb03.CreateTaskPushNotificationConfigRequest{})
	isOldError(t, err, codes.FailedPrecondition, a2a.CodePushNotificationNotSupported)
	if err := n.grpcConn().Invoke(ctx, "/a2a.v1.A2AService/SubscribeToTask", &pb03.TaskSubscriptionRequest{}, &pb03.Task{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method of 1.0: %v", err)
	}
}

func TestOldGRPC_Versions(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both})
	get := &pb03.GetTaskRequest{Name: "tasks/nope"}
	for version, want := range map[string]a2a.Code{"": a2a.CodeTaskNotFound, "0.3": a2a.CodeTaskNotFound, "1.0": a2a.CodeVersionNotSupported, "9.0": a2a.CodeVersionNotSupported} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "a2a-version", version)
		_, err := n.oldClient().GetTask(ctx, get)
		if e := errorOf(status.Convert(err)); e.Code != want {
			t.Errorf("version %q: %v", version, err)
		}
	}
	assuming := newNode(t, setting{agent: func(a *wire.Agent) { both(a); a.Assume = a2a.Version10 }})
	_, err := assuming.oldClient().GetTask(t.Context(), get)
	isOldError(t, err, codes.NotFound, a2a.CodeTaskNotFound)

	// Another agent speaks 0.3, and the default one does not.
	mixed := newNode(t, setting{set: func(a *wire.Agent) []*wire.Agent {
		other, spec := *a, *a.Spec
		spec.ID = "other"
		other.Spec = &spec
		both(&other)
		return []*wire.Agent{a, &other}
	}})
	_, err = mixed.oldClient().GetTask(t.Context(), get)
	isOldError(t, err, codes.NotFound, a2a.CodeTaskNotFound) // there is no default agent
	none := newNode(t, setting{})
	if _, err := none.oldClient().GetTask(t.Context(), get); status.Code(err) != codes.Unimplemented {
		t.Errorf("without 0.3: %v", err)
	}
}

// Numbers beyond a double are the largest one.
func TestOldGRPC_LargeNumbers(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both, spec: runs(func(t *agent.Turn) error {
		return t.Artifact(a2a.Part{Kind: a2a.PartData, Data: a2a.JSON(`{"n":1e400,"list":[-1e999,"a",{}]}`)})
	})})
	task := n.sendOld(oldRequest("x", ""))
	fields := task.GetArtifacts()[0].GetParts()[0].GetData().GetData().GetFields()
	list := fields["list"].GetListValue().GetValues()
	if fields["n"].GetNumberValue() != math.MaxFloat64 || list[0].GetNumberValue() != -math.MaxFloat64 || list[1].GetStringValue() != "a" {
		t.Errorf("got %v", fields)
	}
}

func TestOldGRPC_ReflectionAndHealth(t *testing.T) {
	t.Parallel()
	for _, speaks := range []bool{true, false} {
		n := newNode(t, setting{agent: func(a *wire.Agent) {
			if speaks {
				both(a)
			}
		}})
		stream := grpcreflect.NewClient(h2c(t), n.base, connect.WithGRPC()).NewStream(t.Context())
		names, err := stream.ListServices()
		_, _ = stream.Close()
		if err != nil || slices.Contains(names, "a2a.v1.A2AService") != speaks {
			t.Errorf("services %v, %v", names, err)
		}
		_, err = healthpb.NewHealthClient(n.grpcConn()).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "a2a.v1.A2AService"})
		if (err == nil) != speaks {
			t.Errorf("health: %v", err)
		}
	}
}

func TestOldGRPC_ExtendedCard(t *testing.T) {
	t.Parallel()
	extended := &a2a.AgentCard{
		Name: "Quote", Description: "Quotes.", Version: "1",
		SupportedInterfaces:  []a2a.AgentInterface{{URL: "https://a.example/rpc", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "0.3"}},
		Capabilities:         a2a.AgentCapabilities{Streaming: new(true), ExtendedAgentCard: new(true)},
		SecuritySchemes:      map[string]a2a.SecurityScheme{"key": {APIKey: &a2a.APIKeySecurityScheme{Location: "header", Name: "X-API-Key"}}},
		SecurityRequirements: []a2a.SecurityRequirement{{Schemes: map[string][]string{"key": {"read"}}}},
		Skills:               []a2a.AgentSkill{{ID: "s", Name: "S", Description: "S.", Tags: []string{"x"}}},
		DefaultInputModes:    []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
	}
	n := newNode(t, setting{agent: func(a *wire.Agent) {
		both(a)
		a.ExtendedCard = true
		a.Extended = func(_ *http.Request, _ string, _ *auth.Principal, old bool) (card.Document, bool, error) {
			return card.NewDocument(extended.AppendJSON(nil)), old, nil
		}
	}})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer /alice")
	got, err := n.oldClient().GetAgentCard(ctx, &pb03.GetAgentCardRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetName() != "Quote" || got.GetUrl() != "https://a.example/rpc" || got.GetPreferredTransport() != "JSONRPC" || got.GetProtocolVersion() != "0.3.0" ||
		!got.GetCapabilities().GetStreaming() || !got.GetSupportsAuthenticatedExtendedCard() || got.GetSkills()[0].GetId() != "s" ||
		got.GetSecuritySchemes()["key"].GetApiKeySecurityScheme().GetName() != "X-API-Key" ||
		!slices.Equal(got.GetSecurity()[0].GetSchemes()["key"].GetList(), []string{"read"}) {
		t.Errorf("got %v", got)
	}

	yes := true
	c, err := client.New(&a2a.AgentCard{
		Name: "Quote", Capabilities: a2a.AgentCapabilities{ExtendedAgentCard: &yes},
		SupportedInterfaces: []a2a.AgentInterface{{URL: n.base, ProtocolBinding: a2a.BindingGRPC, ProtocolVersion: "0.3"}},
	}, client.Options{HTTPClient: n.client, Credentials: client.Bearer("/alice"), CardURL: n.base})
	if err != nil {
		t.Fatal(err)
	}
	ours, err := c.GetExtendedAgentCard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ours.SupportedInterfaces[0] != extended.SupportedInterfaces[0] || ours.SecuritySchemes["key"].APIKey.Name != "X-API-Key" ||
		!slices.Equal(ours.SecurityRequirements[0].Schemes["key"], []string{"read"}) || ours.Skills[0].ID != "s" {
		t.Errorf("our client got %+v", ours)
	}
}
