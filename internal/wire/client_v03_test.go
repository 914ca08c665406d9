package wire_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
	"handoff.example/handoff/client"
)

// card03 returns the part of a combined card that is for clients of 0.3.
func card03(t *testing.T, origin, binding string) []byte {
	yes := true
	at := map[string]string{a2a.BindingJSONRPC: origin + "/agents/quote/rpc", a2a.BindingREST: origin + "/agents/quote/", a2a.BindingGRPC: strings.TrimPrefix(origin, "http://")}[binding]
	combined := v03.AppendCard(nil, &a2a.AgentCard{
		Name: "Quote", Description: "Quotes.", Version: "1",
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Capabilities:        a2a.AgentCapabilities{Streaming: &yes, PushNotifications: &yes, ExtendedAgentCard: &yes},
		SupportedInterfaces: []a2a.AgentInterface{{URL: at, ProtocolBinding: binding, ProtocolVersion: "0.3"}},
	})
	var members map[string]json.RawMessage
	if err := json.Unmarshal(combined, &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "supportedInterfaces")
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// requests are what a node was asked.
type requests struct {
	mu   sync.Mutex
	list []string
}

func (r *requests) add(request string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, request)
}

func (r *requests) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// dial03 returns a client that finds the node only at the place and in the form
// that cards have had before 1.0, and the requests that the node gets of it.
func dial03(t *testing.T, binding string) (*client.Client, *requests) {
	t.Helper()
	asked := new(requests)
	set := setting{agent: both}
	set.wrap = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/agent-card.json"):
				http.NotFound(w, r)
			case strings.HasSuffix(r.URL.Path, "/agent.json"):
				_, _ = w.Write(card03(t, "http://"+r.Host, binding))
			default:
				asked.add(r.Method + " " + strings.TrimPrefix(r.URL.RequestURI(), "/agents/quote/"))
				next.ServeHTTP(w, r)
			}
		})
	}
	n := pushing(t, set)
	c, err := client.Dial(t.Context(), n.url, client.Options{HTTPClient: n.client})
	if err != nil {
		t.Fatal(err)
	}
	if f := c.Interface(); f.ProtocolVersion != "0.3" || f.ProtocolBinding != binding {
		t.Fatalf("interface %+v", f)
	}
	return c, asked
}

// dialGRPC returns a client of version 1.0 over gRPC.
func dialGRPC(t *testing.T) *client.Client {
	t.Helper()
	n := pushing(t, setting{agent: both})
	yes := true
	c, err := client.New(&a2a.AgentCard{
		Name: "Quote", Capabilities: a2a.AgentCapabilities{Streaming: &yes, PushNotifications: &yes, ExtendedAgentCard: &yes},
		SupportedInterfaces: []a2a.AgentInterface{{URL: strings.TrimPrefix(n.base, "http://"), ProtocolBinding: a2a.BindingGRPC, ProtocolVersion: "1.0", Tenant: "quote"}},
	}, client.Options{HTTPClient: n.client})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// says returns a message of parts.
func says(parts ...a2a.Part) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: client.NewMessage(parts...)}
}

func told(t *testing.T, s *client.Stream, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var told []string
	for {
		e, err := s.Next()
		if err == io.EOF {
			return strings.Join(told, " ")
		}
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Task != nil:
			told = append(told, "task")
		case e.ArtifactUpdate != nil:
			told = append(told, e.ArtifactUpdate.Artifact.Parts[0].Text)
		case e.StatusUpdate != nil:
			told = append(told, e.StatusUpdate.Status.State.String())
		}
	}
}

// The client and the node speak 0.3 to each other, and 1.0 over gRPC.
func TestClientOfVersion03(t *testing.T) {
	t.Parallel()
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC, "GRPC of 1.0"} {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			var c *client.Client
			asked, old := new(requests), binding != "GRPC of 1.0"
			if old {
				c, asked = dial03(t, binding)
			} else {
				c = dialGRPC(t)
			}
			ctx := t.Context()

			parts := []a2a.Part{a2a.Text("echo hi"), a2a.Raw([]byte{0, 1, 0xFF}, "application/pdf", "f"), {Kind: a2a.PartData, Data: a2a.JSON(`{"n":[1]}`)}}
			answer, err := c.SendMessage(ctx, says(parts...))
			if err != nil || answer.Task == nil || answer.Task.Status.State != a2a.StateCompleted {
				t.Fatalf("send: %+v, %v", answer, err)
			}
			if d := cmp.Diff(append([]a2a.Part{a2a.Text("hi")}, parts[1:]...), answer.Task.Artifacts[0].Parts); d != "" {
				t.Errorf("parts (-want +got):\n%s", d)
			}
			if answer, err = c.SendMessage(ctx, says(a2a.Text("message hi"))); err != nil || answer.Message == nil || answer.Message.Text() != "hi" {
				t.Errorf("message: %+v, %v", answer, err)
			}
			stream, err := c.SendStreamingMessage(ctx, says(a2a.Text("burst 2")))
			if got := told(t, stream, err); got != "task TASK_STATE_WORKING 0 1 TASK_STATE_COMPLETED" {
				t.Errorf("stream: %s", got)
			}
			_, err = c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: stream.TaskID()})
			if a2a.CodeOf(err) != a2a.CodeTaskNotCancelable {
				t.Errorf("cancel what is over: %v", err)
			}

			if answer, err = c.SendMessage(ctx, says(a2a.Text("ask"))); err != nil || answer.Task == nil || answer.Task.Status.State != a2a.StateInputRequired {
				t.Fatalf("ask: %+v, %v", answer, err)
			}
			id, one := answer.Task.ID, 1
			if got, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: id, HistoryLength: &one}); err != nil || len(got.History) != 1 || got.Status.Message.Text() != "What next?" {
				t.Errorf("get: %+v, %v", got, err)
			}
			hook := &a2a.TaskPushNotificationConfig{TaskID: id, ID: "h", URL: "https://h.example/", Token: "tok", Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "cred"}}
			if got, err := c.CreateTaskPushNotificationConfig(ctx, hook); err != nil || got.ID != "h" || got.TaskID != id || got.URL != hook.URL {
				t.Errorf("set: %+v, %v", got, err)
			}
			if got, err := c.GetTaskPushNotificationConfig(ctx, &a2a.GetTaskPushNotificationConfigRequest{TaskID: id, ID: "h"}); err != nil || got.TaskID != id || got.URL != hook.URL || got.Authentication == nil {
				t.Errorf("get webhook: %+v, %v", got, err)
			}
			list := &a2a.ListTaskPushNotificationConfigsRequest{TaskID: id}
			if got, err := c.ListTaskPushNotificationConfigs(ctx, list); err != nil || len(got.Configs) != 1 || got.Configs[0].ID != "h" {
				t.Errorf("list webhooks: %+v, %v", got, err)
			}
			if err := c.DeleteTaskPushNotificationConfig(ctx, &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: id, ID: "h"}); err != nil {
				t.Errorf("delete webhook: %v", err)
			}
			if got, err := c.ListTaskPushNotificationConfigs(ctx, list); err != nil || len(got.Configs) != 0 {
				t.Errorf("list no webhooks: %+v, %v", got, err)
			}
			sub, err := c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			if e, err := sub.Next(); err != nil || e.Task == nil || e.Task.ID != id {
				t.Errorf("subscribe: %+v, %v", e, err)
			}
			if got, err := c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: id}); err != nil || got.Status.State != a2a.StateCanceled {
				t.Errorf("cancel: %+v, %v", got, err)
			}
			if got := told(t, sub, nil); got != "TASK_STATE_CANCELED" {
				t.Errorf("the rest of the subscription: %s", got)
			}
			sent := len(asked.all())
			tasks, err := c.ListTasks(ctx, &a2a.ListTasksRequest{Status: a2a.StateCanceled, IncludeArtifacts: true})
			switch {
			case strings.HasPrefix(binding, a2a.BindingGRPC): // which has it in 0.3 too
				if err != nil || len(tasks.Tasks) != 1 || tasks.Tasks[0].ID != id || tasks.TotalSize != 1 {
					t.Errorf("ListTasks: %+v, %v", tasks, err)
				}
			case a2a.CodeOf(err) != a2a.CodeUnsupportedOperation || len(asked.all()) != sent:
				t.Errorf("ListTasks: %v", err)
			}
			if _, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: "no"}); a2a.CodeOf(err) != a2a.CodeTaskNotFound {
				t.Errorf("no such task: %v", err)
			}
			none := a2a.CodeExtendedAgentCardNotConfigured
			if !old {
				none = a2a.CodeUnsupportedOperation
			}
			if _, err := c.GetExtendedAgentCard(ctx); a2a.CodeOf(err) != none {
				t.Errorf("no extended card: %v", err)
			}
			if _, err := c.SendMessage(ctx, says()); a2a.CodeOf(err) != a2a.CodeInvalidParams {
				t.Errorf("no parts: %v", err)
			}
			if binding != a2a.BindingREST {
				return
			}
			at := "v1/tasks/" + id
			if d := cmp.Diff([]string{
				"POST v1/message:send", "POST v1/message:send", "POST v1/message:stream", "POST v1/tasks/" + stream.TaskID() + ":cancel", "POST v1/message:send",
				"GET " + at + "?historyLength=1", "POST " + at + "/pushNotificationConfigs", "GET " + at + "/pushNotificationConfigs/h", "GET " + at + "/pushNotificationConfigs",
				"DELETE " + at + "/pushNotificationConfigs/h", "GET " + at + "/pushNotificationConfigs", "GET " + at + ":subscribe", "POST " + at + ":cancel",
				"GET v1/tasks/no", "GET v1/card", "POST v1/message:send",
			}, asked.all()); d != "" {
				t.Errorf("requests (-want +got):\n%s", d)
			}
		})
	}
}
