package wire_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	official "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/wire"
)

// officialClient returns the client of the official kit for Go, over gRPC.
func (n *node) officialClient(tenant string) *a2aclient.Client {
	n.t.Helper()
	client, err := a2aclient.NewFromEndpoints(n.t.Context(), []*official.AgentInterface{{
		URL: strings.TrimPrefix(n.base, "http://"), ProtocolBinding: official.TransportProtocolGRPC, ProtocolVersion: "1.0", Tenant: tenant,
	}}, a2agrpc.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = client.Destroy() })
	return client
}

func officialMessage(text string) *official.SendMessageRequest {
	return &official.SendMessageRequest{Message: official.NewMessage(official.MessageRoleUser, official.NewTextPart(text))}
}

// officialTask sends a message that is answered with a task.
func officialTask(t *testing.T, client *a2aclient.Client, q *official.SendMessageRequest) *official.Task {
	t.Helper()
	result, err := client.SendMessage(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	task, ok := result.(*official.Task)
	if !ok {
		t.Fatalf("answered with a %T", result)
	}
	return task
}

func collect(t *testing.T, events iter.Seq2[official.Event, error]) []string {
	t.Helper()
	var list []string
	for e, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case *official.Task:
			list = append(list, "task "+e.Status.State.String())
		case *official.Message:
			list = append(list, "message")
		case *official.TaskStatusUpdateEvent:
			list = append(list, "status "+e.Status.State.String())
		case *official.TaskArtifactUpdateEvent:
			list = append(list, "artifact "+e.Artifact.Parts[0].Text())
		}
	}
	return list
}

func TestGRPC_OfficialClient(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	for _, tenant := range []string{"", "quote"} {
		client := n.officialClient(tenant)
		task := officialTask(t, client, officialMessage("echo hello"))
		if task.Status.State != official.TaskStateCompleted || task.Artifacts[0].Parts[0].Text() != "hello" {
			t.Errorf("echo: %+v", task)
		}
		if result, err := client.SendMessage(t.Context(), officialMessage("message hi")); err != nil {
			t.Error(err)
		} else if m, ok := result.(*official.Message); !ok || m.Parts[0].Text() != "hi" {
			t.Errorf("message: %+v", result)
		}
		want := []string{"task TASK_STATE_SUBMITTED", "status TASK_STATE_WORKING", "artifact 0", "artifact 1", "status TASK_STATE_COMPLETED"}
		got := collect(t, client.SendStreamingMessage(t.Context(), officialMessage("burst 2")))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("stream: %s", diff)
		}

		parked := officialTask(t, client, officialMessage("ask"))
		if parked.Status.State != official.TaskStateInputRequired {
			t.Errorf("ask: %v", parked.Status.State)
		}
		next, stop := iter.Pull2(client.SubscribeToTask(t.Context(), &official.SubscribeToTaskRequest{ID: parked.ID}))
		if e, err, _ := next(); err != nil {
			t.Error(err)
		} else if task, ok := e.(*official.Task); !ok || task.Status.State != official.TaskStateInputRequired {
			t.Errorf("subscription began with %+v", e)
		}
		answer := officialMessage("go")
		answer.Message.TaskID = parked.ID
		if task := officialTask(t, client, answer); task.Status.State != official.TaskStateCompleted {
			t.Errorf("after the answer: %v", task.Status.State)
		}
		for e, err, ok := next(); ok; e, err, ok = next() {
			if err != nil {
				t.Errorf("subscription: %+v, %v", e, err)
			}
		}
		stop()

		page, err := client.ListTasks(t.Context(), &official.ListTasksRequest{ContextID: parked.ContextID})
		if err != nil || len(page.Tasks) != 1 || page.Tasks[0].ID != parked.ID || page.PageSize != 50 || page.TotalSize != 1 {
			t.Errorf("list: %+v, %v", page, err)
		}
		begun := officialMessage("never")
		begun.Config = &official.SendMessageConfig{ReturnImmediately: true}
		running := officialTask(t, client, begun)
		if task, err := client.CancelTask(t.Context(), &official.CancelTaskRequest{ID: running.ID}); err != nil || task.Status.State != official.TaskStateCanceled {
			t.Errorf("cancel: %+v, %v", task, err)
		}
		if task, err := client.GetTask(t.Context(), &official.GetTaskRequest{ID: running.ID}); err != nil || task.Status.State != official.TaskStateCanceled {
			t.Errorf("get: %+v, %v", task, err)
		}
		officialErrors(t, client)
	}
}

// officialErrors checks that the client tells the errors apart.
func officialErrors(t *testing.T, client *a2aclient.Client) {
	t.Helper()
	ctx := t.Context()
	_, missing := client.GetTask(ctx, &official.GetTaskRequest{ID: "nope"})
	_, invalid := client.SendMessage(ctx, &official.SendMessageRequest{Message: official.NewMessage(official.MessageRoleUser)})
	_, push := client.CreateTaskPushConfig(ctx, &official.PushConfig{TaskID: "nope", URL: "https://example.com"})
	_, got := client.GetTaskPushConfig(ctx, &official.GetTaskPushConfigRequest{TaskID: "nope", ID: "x"})
	_, listed := client.ListTaskPushConfigs(ctx, &official.ListTaskPushConfigRequest{TaskID: "nope"})
	deleted := client.DeleteTaskPushConfig(ctx, &official.DeleteTaskPushConfigRequest{TaskID: "nope", ID: "x"})
	_, card := client.GetExtendedAgentCard(ctx, &official.GetExtendedAgentCardRequest{})
	for _, c := range []struct {
		err  error
		want error
	}{
		{missing, official.ErrTaskNotFound},
		{invalid, official.ErrInvalidParams},
		{push, official.ErrPushNotificationNotSupported},
		{got, official.ErrPushNotificationNotSupported},
		{listed, official.ErrPushNotificationNotSupported},
		{deleted, official.ErrPushNotificationNotSupported},
		{card, official.ErrUnsupportedOperation},
	} {
		if c.err == nil || official.ErrorReason(c.err) != official.ErrorReason(c.want) {
			t.Errorf("got %v, want %v", c.err, c.want)
		}
	}
}

// Every method of the official service is answered by the operation of its name,
// and a task of somebody else is one that does not exist.
func TestGRPC_EveryMethod(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	task := n.sent(overGRPC, send("ask"), as("acme/ann"))
	for i := range service.Methods().Len() {
		op := string(service.Methods().Get(i).Name())
		params := func(id string) object {
			p := object{}
			fields := service.Methods().Get(i).Input().Fields()
			for name, value := range map[string]any{"id": id, "task_id": id, "message": message("go", object{"taskId": id}), "url": "https://example.com"} {
				if fields.ByName(protoreflect.Name(name)) != nil {
					p[name] = value
				}
			}
			return p
		}
		foreign, unknown := n.callGRPC(op, params(task.ID), []func(*http.Request){as("acme/bob")}), n.callGRPC(op, params("nope"), []func(*http.Request){as("acme/bob")})
		if op == "ListTasks" {
			if compact(string(foreign.Result)) != `{"pageSize":50}` {
				t.Errorf("%s shows %s", op, foreign.Body)
			}
			continue
		}
		if foreign.Error == nil || foreign.grpc.Code() == codes.Unimplemented || foreign.grpc.Code() == codes.Internal {
			t.Errorf("%s answered %s", op, foreign.Body)
			continue
		}
		if a, b := strings.ReplaceAll(string(foreign.Body), task.ID, "nope"), string(unknown.Body); compact(a) != compact(b) {
			t.Errorf("%s tells a foreign task from an unknown one:\n%s\n%s", op, a, b)
		}
	}
}

func compact(text string) string { return strings.ReplaceAll(text, " ", "") }

func TestRow101_ErrorInfoOverGRPC(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	a := n.call(overGRPC, "GetTask", object{"id": "nope"})
	a.isError(t, a2a.CodeTaskNotFound)
	if a.Error.Metadata["taskId"] != "nope" || len(a.grpc.Details()) != 1 {
		t.Errorf("details %v", a.grpc.Details())
	}
	a = n.call(overGRPC, "SendMessage", object{"message": object{"messageId": "m", "role": "ROLE_USER"}})
	a.isError(t, a2a.CodeInvalidParams)
	if a.grpc.Code() != codes.InvalidArgument || !a.field("message.parts") {
		t.Errorf("details %v", a.grpc.Details())
	}
	a = n.call(overGRPC, "SendMessage", object{"message": object{}})
	for _, field := range []string{"message.messageId", "message.role", "message.parts"} {
		if !a.field(field) {
			t.Errorf("%s is missing in %v", field, a.grpc.Details())
		}
	}
}

// The Go client sends a page of size 0 for unset.
func TestRow67_PagesOverGRPC(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	if got := n.list(overGRPC, object{"pageSize": 0}); got.PageSize != 50 {
		t.Errorf("page size %d", got.PageSize)
	}
	for field, p := range map[string]object{"pageToken": {"pageToken": "junk"}, "pageSize": {"pageSize": 101}, "historyLength": {"historyLength": -1}, "status": {"status": 99}} {
		a := n.call(overGRPC, "ListTasks", p)
		a.isError(t, a2a.CodeInvalidParams)
		if !a.field(field) {
			t.Errorf("%v: %s", p, a.Body)
		}
	}
	negative := &pb.ListTasksRequest{Status: -1}
	err := n.grpcConn().Invoke(outgoing(t, "a2a-version", "1.0"), pb.A2AService_ListTasks_FullMethodName, negative, &pb.ListTasksResponse{})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("status -1: %v", err)
	}
}

func outgoing(t *testing.T, pairs ...string) context.Context {
	t.Helper()
	return metadata.NewOutgoingContext(t.Context(), metadata.Pairs(pairs...))
}

func TestRow110_VersionsOverGRPC(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	assuming := newNode(t, setting{agent: func(a *wire.Agent) { a.Assume = a2a.Version10 }})
	for i := range service.Methods().Len() {
		op := string(service.Methods().Get(i).Name())
		for _, version := range []string{"", "0.3", "9.9"} {
			n.callGRPC(op, object{}, []func(*http.Request){header("A2A-Version", version)}).isError(t, a2a.CodeVersionNotSupported)
		}
	}
	assuming.ok(overGRPC, "ListTasks", object{}, header("A2A-Version", ""))
}

func TestRow114And115_ExtensionsOverGRPC(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: func(a *wire.Agent) {
		a.Extensions = []a2a.AgentExtension{{URI: "https://x/one"}, {URI: "https://x/two", Required: true}}
	}})
	n.call(overGRPC, "ListTasks", object{}).isError(t, a2a.CodeExtensionSupportRequired)
	a := n.call(overGRPC, "ListTasks", object{}, header("A2A-Extensions", "https://x/two, https://x/one,https://x/three"))
	if got := a.Header.Get("A2A-Extensions"); got != "https://x/one, https://x/two" && got != "https://x/one,https://x/two" {
		t.Errorf("activated %q", got)
	}
	s, refused := n.openGRPC("SendStreamingMessage", send("echo x"), []func(*http.Request){header("A2A-Extensions", "https://x/two")})
	if refused != nil {
		t.Fatalf("%s", refused.Body)
	}
	if md, err := s.messages.Header(); err != nil || !slices.Equal(md.Get("a2a-extensions"), []string{"https://x/two"}) {
		t.Errorf("activated %v, %v", md, err)
	}
}

// A tenant of gRPC is an agent's id, or the id and a tenant of it.
func TestGRPC_Tenants(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{set: func(a *wire.Agent) []*wire.Agent {
		a.Tenants = []string{"acme", "globex"}
		other, hidden := *a, *a
		otherSpec, hiddenSpec := *a.Spec, *a.Spec
		otherSpec.ID, hiddenSpec.ID = "other", "hidden"
		other.Spec, hidden.Spec, hidden.GRPC = &otherSpec, &hiddenSpec, false
		return []*wire.Agent{a, &other, &hidden}
	}})
	call := func(tenant, who string) error {
		ctx := outgoing(t, "a2a-version", "1.0", "authorization", "Bearer "+who)
		return n.grpcConn().Invoke(ctx, pb.A2AService_ListTasks_FullMethodName, &pb.ListTasksRequest{Tenant: tenant}, &pb.ListTasksResponse{})
	}
	for _, tenant := range []string{"quote", "quote/acme", "other", "other/acme"} {
		if err := call(tenant, "acme/ann"); err != nil {
			t.Errorf("%q: %v", tenant, err)
		}
	}
	for _, tenant := range []string{"", "nobody", "hidden", "hidden/acme", "acme", "quote/globex", "quote/nobody", "quote/acme/x", "/acme", "/", "quote/"} {
		if err := call(tenant, "acme/ann"); status.Code(err) != codes.NotFound {
			t.Errorf("%q: %v", tenant, err)
		}
	}
	if err := call("quote/globex", "globex/gus"); err != nil {
		t.Error(err)
	}
}

func TestRow84_CredentialsOverGRPC(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{options: func(o *wire.Options) { o.Auth = nobody{} }})
	a := n.call(overGRPC, "GetTask", object{"id": "x"})
	a.isError(t, a2a.CodeUnauthenticated)
	if a.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("no challenge in %v", a.Header)
	}
	_, refused := n.openGRPC("SendStreamingMessage", send("echo x"), nil)
	refused.isError(t, a2a.CodeUnauthenticated)
	viewer := newNode(t, setting{})
	viewer.call(overGRPC, "SendMessage", send("echo x"), as("acme/viewer")).isError(t, a2a.CodePermissionDenied)
	viewer.ok(overGRPC, "ListTasks", object{}, as("acme/viewer"))
}

func TestRow07_ThousandEventsOverGRPC(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	n := newNode(t, setting{spec: runs(func(turn *agent.Turn) error {
		<-gate
		for i := range 1000 {
			if err := turn.Emit(chunkStep(i)); err != nil {
				return err
			}
		}
		return turn.Complete()
	})})
	s := n.stream(overGRPC, "SendStreamingMessage", send("x"))
	id := s.must().Task.ID
	all := []*sse{s, n.stream(overGRPC, "SubscribeToTask", object{"id": id}), n.stream(rpc, "SubscribeToTask", object{"id": id})}
	close(gate)
	for i, s := range all {
		events := s.rest()
		if got := events[len(events)-1].shape(); got != "status TASK_STATE_COMPLETED" {
			t.Errorf("stream %d ends with %s", i, got)
		}
		if diff := cmp.Diff(numbers(1000), rebuilt(events)); diff != "" {
			t.Errorf("stream %d: %s", i, diff)
		}
	}
}

// A client that goes away, or whose deadline passes, cancels nothing.
func TestRow40_DeparturesOverGRPC(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{begun: make(chan string, 2)})
	ctx, cancel := context.WithTimeout(outgoing(t, "a2a-version", "1.0"), 300*time.Millisecond)
	defer cancel()
	q := n.message(service.Methods().ByName("SendMessage").Input(), send("slow 6"))
	err := n.grpcConn().Invoke(ctx, pb.A2AService_SendMessage_FullMethodName, q, &pb.SendMessageResponse{})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("after the deadline: %v", err)
	}
	s := n.stream(overGRPC, "SendStreamingMessage", send("slow 6"))
	s.must()
	s.close()
	for range 2 {
		n.until(<-n.fixture.begun, a2a.StateCompleted)
	}
	if got := n.fixture.canceled.Load(); got != 0 {
		t.Errorf("%d turns were canceled", got)
	}
	eventually(t, "nobody watches", func() bool { return n.fixture.watchers.Load() == 0 })
}

// The deadline that a client sends is also heeded here: the client of this test
// does not give up by itself.
func TestGRPC_DeadlineOfTheClient(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{begun: make(chan string, 1)})
	body, err := proto.Marshal(n.message(service.Methods().ByName("SendMessage").Input(), send("never")))
	if err != nil {
		t.Fatal(err)
	}
	r := n.framed(body)
	r.Header.Set("Grpc-Timeout", "200m")
	within(t, 5*time.Second, func() {
		if code, message := n.trailers(r); code != codes.DeadlineExceeded {
			t.Errorf("%v %s", code, message)
		}
	})
	if task := n.task(rpc, <-n.fixture.begun); task.Status.State.Terminal() {
		t.Errorf("the task is %v", task.Status.State)
	}
}

func TestRow93_SizesOverGRPC(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{options: func(o *wire.Options) { o.BodyBytes = 64 << 10 }})
	n.ok(overGRPC, "SendMessage", send("echo "+strings.Repeat("x", 60<<10)))
	for _, op := range []string{"SendMessage", "SendStreamingMessage"} {
		a := n.callGRPC(op, send("echo "+strings.Repeat("x", 65<<10)), nil)
		if a.grpc == nil || a.grpc.Code() != codes.ResourceExhausted {
			t.Errorf("%s: %s", op, a.Body)
		}
	}
	n.ok(overGRPC, "SendMessage", send("echo y"))
}

// nested returns a value of so many lists in each other.
func nested(levels int) *structpb.Value {
	v := structpb.NewStringValue("x")
	for range levels {
		v = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
	}
	return v
}

func dataMessage(v *structpb.Value) *pb.SendMessageRequest {
	return &pb.SendMessageRequest{Message: &pb.Message{
		MessageId: "m-" + strconv.FormatInt(messageCount.Add(1), 10), Role: pb.Role_ROLE_USER,
		Parts: []*pb.Part{{Content: &pb.Part_Text{Text: "echo"}}, {Content: &pb.Part_Data{Data: v}}},
	}}
}

func TestRow96_DepthOverGRPC(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	call := func(v *structpb.Value) (*pb.SendMessageResponse, error) {
		reply, q := &pb.SendMessageResponse{}, dataMessage(v)
		q.Message.Parts[0].Content = &pb.Part_Text{Text: "keep"} // an agent's own data may nest less
		return reply, n.grpcConn().Invoke(outgoing(t, "a2a-version", "1.0"), pb.A2AService_SendMessage_FullMethodName, q, reply)
	}
	const deepest = 94
	reply, err := call(nested(deepest))
	if err != nil {
		t.Fatal(err)
	}
	if got := reply.GetTask().GetHistory()[0].GetParts()[1].GetData(); !proto.Equal(got, nested(deepest)) {
		t.Error("the deepest value came back changed")
	}
	// It fits into the events that a stream repeats it in, too.
	again := dataMessage(nested(deepest))
	again.Message.Parts[0].Content = &pb.Part_Text{Text: "keep"}
	stream, err := pb.NewA2AServiceClient(n.grpcConn()).SendStreamingMessage(outgoing(t, "a2a-version", "1.0"), again)
	if err != nil {
		t.Fatal(err)
	}
	var events []*pb.StreamResponse
	for err == nil {
		var e *pb.StreamResponse
		if e, err = stream.Recv(); err == nil {
			events = append(events, e)
		}
	}
	if err != io.EOF || len(events) < 2 || !proto.Equal(events[0].GetTask().GetHistory()[0].GetParts()[1].GetData(), nested(deepest)) {
		t.Errorf("%d events, then %v", len(events), err)
	}
	for _, levels := range []int{deepest + 1, 200, 4900} {
		if _, err := call(nested(levels)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%d levels: %v", levels, err)
		}
	}
	// A client of Go cannot even write what nests deeper, so that these are bytes.
	if code, text := n.trailers(n.framed(deepStruct(10_000))); code != codes.InvalidArgument || !strings.Contains(text, "messages in each other") {
		t.Errorf("%v %s", code, text)
	}
}

// How deep data may nest is counted from limits.json_depth: what stands around it
// counts, and over gRPC also what an answer may put around it.
func TestRow96_DepthOfData(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{64, a2a.MaxDepth} {
		n := newNode(t, setting{options: func(o *wire.Options) { o.Depth = depth }})
		for _, c := range []struct {
			binding binding
			levels  int
		}{{rest, depth - 4}, {rpc, depth - 5}, {overGRPC, depth - 6}} {
			for _, more := range []int{0, 1} {
				data := json.RawMessage(strings.Repeat("[", c.levels+more) + strings.Repeat("]", c.levels+more))
				q := send("keep")
				q["message"].(object)["parts"] = []any{object{"text": "keep"}, object{"data": data}}
				a := n.call(c.binding, "SendMessage", q)
				if refused := a.Error != nil; refused != (more > 0) {
					t.Errorf("depth %d on %s, %d levels: %s", depth, c.binding, c.levels+more, a.Body)
				}
			}
		}
	}
}

// deepStruct returns a SendMessageRequest whose metadata is an object in an
// object, so many times.
func deepStruct(levels int) []byte {
	var inner []byte
	wrap := func(tag byte, b []byte) []byte { return append(varint([]byte{tag}, len(b)), b...) }
	for range levels {
		value := wrap(0x2a, inner)                                  // Value.struct_value
		entry := append([]byte{0x0a, 1, 'k'}, wrap(0x12, value)...) // the member k
		inner = wrap(0x0a, entry)                                   // Struct.fields
	}
	return wrap(0x22, inner)
}

func varint(dst []byte, n int) []byte {
	for ; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

func TestS12_ManyElementsOverGRPC(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	parts := dataMessage(nested(1))
	for range 20_001 {
		parts.Message.Parts = append(parts.Message.Parts, &pb.Part{})
	}
	values := &structpb.ListValue{}
	for range 250_001 {
		values.Values = append(values.Values, &structpb.Value{})
	}
	for name, q := range map[string]*pb.SendMessageRequest{"parts": parts, "values": dataMessage(structpb.NewListValue(values))} {
		err := n.grpcConn().Invoke(outgoing(t, "a2a-version", "1.0"), pb.A2AService_SendMessage_FullMethodName, q, &pb.SendMessageResponse{})
		if s := status.Convert(err); s.Code() != codes.InvalidArgument || errorOf(s).Code != a2a.CodeInvalidParams {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What JSON says of free values, over gRPC and back. docs/grpc.md lists the losses.
func TestRow89And90_FreeJSONOverGRPC(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	for sent, want := range map[string]string{
		`{"b":1,"a":[true,false,null,"x"],"c":{}}`: `{"a":[true,false,null,"x"],"b":1,"c":{}}`,
		`[1,2.5,-0.25,1e3,123456789012]`:           `[1,2.5,-0.25,1000,123456789012]`,
		`[1.0,1e21,1e-7,0.1]`:                      `[1,1e+21,1e-7,0.1]`,
		`[9007199254740993]`:                       `[9007199254740992]`,
		`[1e400,-1e400]`:                           `[1.7976931348623157e+308,-1.7976931348623157e+308]`,
		`{"":"","\u0000":"<&>\u2028","é":"😀"}`:     `{"":"","\u0000":"<&>` + "\u2028" + `","é":"😀"}`,
		`null`:   `null`,
		`"text"`: `"text"`,
		`[]`:     `[]`,
	} {
		// In as JSON, out over gRPC: the value that protobuf makes of it.
		task := n.sent(rpc, object{"message": object{
			"messageId": "m", "role": "ROLE_USER", "parts": []any{object{"text": "echo"}, object{"data": json.RawMessage(sent)}},
		}})
		var reply pb.Task
		if err := n.grpcConn().Invoke(outgoing(t, "a2a-version", "1.0"), pb.A2AService_GetTask_FullMethodName, &pb.GetTaskRequest{Id: task.ID}, &reply); err != nil {
			t.Fatal(err)
		}
		data := reply.GetArtifacts()[0].GetParts()[1].GetData()
		text, err := protojson.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		var got, meant any
		if json.Unmarshal(text, &got) != nil || json.Unmarshal([]byte(want), &meant) != nil || !cmp.Equal(got, meant) {
			t.Errorf("%s went out as %s", sent, text)
		}
		// In over gRPC, out as JSON.
		var again pb.SendMessageResponse
		if err := n.grpcConn().Invoke(outgoing(t, "a2a-version", "1.0"), pb.A2AService_SendMessage_FullMethodName, dataMessage(data), &again); err != nil {
			t.Fatal(err)
		}
		if got := string(n.task(rest, again.GetTask().GetId()).Artifacts[0].Parts[1].Data); got != want {
			t.Errorf("%s came in as %s, want %s", sent, got, want)
		}
	}
	for _, odd := range []*structpb.Value{structpb.NewNumberValue(nan()), structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(1 / zero())}})} {
		err := n.grpcConn().Invoke(outgoing(t, "a2a-version", "1.0"), pb.A2AService_SendMessage_FullMethodName, dataMessage(odd), &pb.SendMessageResponse{})
		if e := errorOf(status.Convert(err)); e.Code != a2a.CodeInvalidParams || e.Violations[0].Field != "message.parts[1].data" {
			t.Errorf("%v: %v", odd, err)
		}
	}
}

func zero() float64 { return float64(len("")) }

func nan() float64 { return zero() / zero() }

func TestGRPC_PanicsDoNotLeak(t *testing.T) {
	t.Parallel()
	inAuth := newNode(t, setting{options: func(o *wire.Options) { o.Auth = panicking{} }})
	inCall := newNode(t, setting{options: func(o *wire.Options) { o.Engine = nil }})
	for _, n := range []*node{inAuth, inCall} {
		a := n.call(overGRPC, "GetTask", object{"id": "x"})
		a.isError(t, a2a.CodeInternal)
		if strings.Contains(string(a.Body), "secret") || !strings.Contains(a.grpc.Message(), a.Header.Get("X-Request-Id")) {
			t.Errorf("%s", a.Body)
		}
	}
}
