package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// Every operation goes out in the form of its binding, with version and tenant,
// and its answer is decoded.
func TestOperations(t *testing.T) {
	two := 2
	operations := []struct {
		op     string
		answer string
		rest   string         // method and path
		params map[string]any // beside the tenant
		call   func(ctx context.Context, c *client.Client) (any, error)
		want   any
	}{
		{
			op: "SendMessage", answer: taskEvent("t-1", "TASK_STATE_COMPLETED"), rest: "POST /agent/acme/message:send",
			params: map[string]any{"message": map[string]any{"messageId": "m-1", "role": "ROLE_USER", "parts": []any{map[string]any{"text": "x"}}}},
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.SendMessage(ctx, &a2a.SendMessageRequest{Message: &a2a.Message{MessageID: "m-1", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("x")}}})
			},
			want: &a2a.SendMessageResponse{Task: &a2a.Task{ID: "t-1", ContextID: "c-1", Status: a2a.TaskStatus{State: a2a.StateCompleted}}},
		},
		{
			op: "GetTask", answer: task("a/b", "TASK_STATE_WORKING"), rest: "GET /agent/acme/tasks/a%2Fb",
			params: map[string]any{"id": "a/b", "historyLength": 2.0},
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.GetTask(ctx, &a2a.GetTaskRequest{ID: "a/b", HistoryLength: &two})
			},
			want: &a2a.Task{ID: "a/b", ContextID: "c-1", Status: a2a.TaskStatus{State: a2a.StateWorking}},
		},
		{
			op: "ListTasks", answer: `{"tasks":[` + task("t-1", "TASK_STATE_WORKING") + `],"nextPageToken":"n","pageSize":2,"totalSize":3}`, rest: "GET /agent/acme/tasks",
			params: map[string]any{
				"contextId": "c 1", "status": "TASK_STATE_WORKING", "pageSize": 2.0, "pageToken": "p&",
				"statusTimestampAfter": "2026-01-02T03:04:05.006Z", "includeArtifacts": true,
			},
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.ListTasks(ctx, &a2a.ListTasksRequest{
					ContextID: "c 1", Status: a2a.StateWorking, PageSize: &two, PageToken: "p&",
					StatusTimestampAfter: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), IncludeArtifacts: true,
				})
			},
			want: &a2a.ListTasksResponse{
				Tasks:         []a2a.Task{{ID: "t-1", ContextID: "c-1", Status: a2a.TaskStatus{State: a2a.StateWorking}}},
				NextPageToken: "n", PageSize: 2, TotalSize: 3,
			},
		},
		{
			op: "CancelTask", answer: task("t-1", "TASK_STATE_CANCELED"), rest: "POST /agent/acme/tasks/t-1:cancel",
			params: map[string]any{"id": "t-1", "metadata": map[string]any{"why": "late"}},
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: "t-1", Metadata: a2a.JSON(`{"why":"late"}`)})
			},
			want: &a2a.Task{ID: "t-1", ContextID: "c-1", Status: a2a.TaskStatus{State: a2a.StateCanceled}},
		},
		{
			op: "CreateTaskPushNotificationConfig", answer: `{"id":"p-1","taskId":"t-1","url":"https://h/x"}`, rest: "POST /agent/acme/tasks/t-1/pushNotificationConfigs",
			params: map[string]any{"taskId": "t-1", "url": "https://h/x"},
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.CreateTaskPushNotificationConfig(ctx, &a2a.TaskPushNotificationConfig{TaskID: "t-1", URL: "https://h/x"})
			},
			want: &a2a.TaskPushNotificationConfig{ID: "p-1", TaskID: "t-1", URL: "https://h/x"},
		},
		{
			op: "GetTaskPushNotificationConfig", answer: `{"id":"p-1","taskId":"t-1","url":"https://h/x"}`, rest: "GET /agent/acme/tasks/t-1/pushNotificationConfigs/p-1",
			params: map[string]any{"taskId": "t-1", "id": "p-1"},
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.GetTaskPushNotificationConfig(ctx, &a2a.GetTaskPushNotificationConfigRequest{TaskID: "t-1", ID: "p-1"})
			},
			want: &a2a.TaskPushNotificationConfig{ID: "p-1", TaskID: "t-1", URL: "https://h/x"},
		},
		{
			op: "ListTaskPushNotificationConfigs", answer: `{"configs":[{"id":"p-1","taskId":"t-1","url":"https://h/x"}]}`, rest: "GET /agent/acme/tasks/t-1/pushNotificationConfigs",
			params: map[string]any{"taskId": "t-1", "pageSize": 5.0},
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.ListTaskPushNotificationConfigs(ctx, &a2a.ListTaskPushNotificationConfigsRequest{TaskID: "t-1", PageSize: 5})
			},
			want: &a2a.ListTaskPushNotificationConfigsResponse{Configs: []a2a.TaskPushNotificationConfig{{ID: "p-1", TaskID: "t-1", URL: "https://h/x"}}},
		},
		{
			op: "DeleteTaskPushNotificationConfig", answer: `{}`, rest: "DELETE /agent/acme/tasks/t-1/pushNotificationConfigs/p-1",
			params: map[string]any{"taskId": "t-1", "id": "p-1"},
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return nil, c.DeleteTaskPushNotificationConfig(ctx, &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: "t-1", ID: "p-1"})
			},
		},
		{
			op: "GetExtendedAgentCard", answer: `{"name":"More","supportedInterfaces":[{"url":"https://h","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`, rest: "GET /agent/acme/extendedAgentCard",
			params: map[string]any{},
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.GetExtendedAgentCard(ctx)
			},
			want: &a2a.AgentCard{Name: "More", SupportedInterfaces: []a2a.AgentInterface{{URL: "https://h", ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}}},
		},
	}
	onEach(t, func(t *testing.T, binding string) {
		for _, tt := range operations {
			t.Run(tt.op, func(t *testing.T) {
				var got *exchange
				p := newPeer(t, binding, func(x *exchange) {
					got = x
					x.result(tt.answer)
				})
				p.card.SupportedInterfaces[0].Tenant = "acme"
				c := p.client(t, client.Options{Extensions: []string{"https://x.example/1", "https://x.example/2"}, Headers: http.Header{"X-Trace": {"7"}}})
				answer, err := tt.call(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if tt.want != nil {
					if d := cmp.Diff(tt.want, answer); d != "" {
						t.Errorf("answer (-want +got):\n%s", d)
					}
				}
				if got.op != tt.op {
					t.Errorf("the peer got %s", got.op)
				}
				h := got.r.Header
				if h.Get("A2A-Version") != "1.0" || h.Get("A2A-Extensions") != "https://x.example/1, https://x.example/2" || h.Get("X-Trace") != "7" {
					t.Errorf("headers: %v", h)
				}
				checkForm(t, binding, got, tt.rest, tt.params)
			})
		}
	})
}

// checkForm compares what arrived with what the binding prescribes.
func checkForm(t *testing.T, binding string, x *exchange, rest string, params map[string]any) {
	t.Helper()
	if binding == a2a.BindingJSONRPC {
		want := map[string]any{"tenant": "acme"}
		for k, v := range params {
			want[k] = v
		}
		if d := cmp.Diff(want, x.params); d != "" {
			t.Errorf("params (-want +got):\n%s", d)
		}
		if got := x.r.Method + " " + x.r.URL.Path; got != "POST /agent" {
			t.Errorf("the request went to %s", got)
		}
		return
	}
	if binding == a2a.BindingGRPC {
		want := map[string]any{"tenant": "acme"}
		for k, v := range params {
			want[k] = v
		}
		if d := cmp.Diff(want, x.params); d != "" {
			t.Errorf("message (-want +got):\n%s", d)
		}
		if got := x.r.Method + " " + x.r.URL.Path; got != "POST /lf.a2a.v1.A2AService/"+x.op {
			t.Errorf("the request went to %s", got)
		}
		return
	}
	if got := x.r.Method + " " + x.r.URL.EscapedPath(); got != rest {
		t.Errorf("the request went to %s, want %s", got, rest)
	}
	if x.r.Method == http.MethodPost && x.r.Header.Get("Content-Type") != "application/a2a+json" {
		t.Errorf("Content-Type is %s", x.r.Header.Get("Content-Type"))
	}
	for name, want := range params {
		got, ok := x.params[name]
		if !ok {
			if strings.Contains(rest, "t-1") || strings.Contains(rest, "a%2Fb") {
				continue // it is in the path
			}
			t.Errorf("%s is missing", name)
		}
		if text, isText := got.(string); isText {
			if d := cmp.Diff(text, stringOf(want)); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func stringOf(v any) string {
	switch v := v.(type) {
	case float64:
		return string('0' + rune(v))
	case bool:
		return map[bool]string{true: "true", false: "false"}[v]
	}
	return v.(string)
}

func TestTenantOfNestedPushConfig(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		var got *exchange
		p := newPeer(t, binding, func(x *exchange) { got = x; x.result(agentMessage) })
		p.card.SupportedInterfaces[0].Tenant = "acme"
		req := hello()
		req.Tenant = "other"
		req.Configuration = &a2a.SendMessageConfiguration{TaskPushNotificationConfig: &a2a.TaskPushNotificationConfig{URL: "https://h/x"}}
		if _, err := p.client(t, client.Options{}).SendMessage(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		push := got.params["configuration"].(map[string]any)["taskPushNotificationConfig"].(map[string]any)
		if got.params["tenant"] != "acme" || push["tenant"] != "acme" {
			t.Errorf("params: %v", got.params)
		}
		if req.Tenant != "other" || req.Configuration.TaskPushNotificationConfig.Tenant != "" {
			t.Error("the caller's request was changed")
		}
	})
}

func TestAllTasks(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			switch x.params["pageToken"] {
			case nil:
				x.result(`{"tasks":[` + task("t-1", "TASK_STATE_WORKING") + `,` + task("t-2", "TASK_STATE_WORKING") + `],"nextPageToken":"2"}`)
			case "2":
				x.result(`{"tasks":[],"nextPageToken":"3"}`)
			case "3":
				x.result(`{"tasks":[` + task("t-3", "TASK_STATE_WORKING") + `],"nextPageToken":""}`)
			}
		})
		var ids []string
		for task, err := range p.client(t, client.Options{}).AllTasks(t.Context(), &a2a.ListTasksRequest{}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, task.ID)
		}
		if d := cmp.Diff([]string{"t-1", "t-2", "t-3"}, ids); d != "" {
			t.Error(d)
		}
	})
}

func TestAllTasksEndsOnRepeatedToken(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.result(`{"tasks":[],"nextPageToken":"again"}`) })
		var last error
		for _, err := range p.client(t, client.Options{}).AllTasks(t.Context(), &a2a.ListTasksRequest{}) {
			last = err
		}
		if e, ok := errors.AsType[*client.TransportError](last); !ok || e.Kind != client.KindProtocol {
			t.Errorf("got %v", last)
		}
	})
}

func TestCapabilitiesAreChecked(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.result(`{}`) })
		p.card.Capabilities = a2a.AgentCapabilities{}
		c := p.client(t, client.Options{})
		ctx := t.Context()
		_, subscribe := c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: "t"})
		_, extended := c.GetExtendedAgentCard(ctx)
		remove := c.DeleteTaskPushNotificationConfig(ctx, &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: "t", ID: "p"})
		for _, tt := range []struct {
			err  error
			code a2a.Code
		}{{subscribe, a2a.CodeUnsupportedOperation}, {extended, a2a.CodeUnsupportedOperation}, {remove, a2a.CodePushNotificationNotSupported}} {
			if !errors.Is(tt.err, &a2a.Error{Code: tt.code}) {
				t.Errorf("got %v, want %v", tt.err, tt.code)
			}
		}
		if p.seen() != "" {
			t.Errorf("the peer got %s", p.seen())
		}
		unchecked := p.client(t, client.Options{IgnoreCapabilities: true})
		if err := unchecked.DeleteTaskPushNotificationConfig(ctx, &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: "t", ID: "p"}); err != nil {
			t.Error(err)
		}
	})
}

func TestIDsThatNameOtherPaths(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.result(task("t", "TASK_STATE_WORKING")) })
		for _, id := range []string{"", ".", ".."} {
			_, err := p.client(t, client.Options{}).GetTask(t.Context(), &a2a.GetTaskRequest{ID: id})
			if !errors.Is(err, &a2a.Error{Code: a2a.CodeInvalidParams}) {
				t.Errorf("id %q: got %v", id, err)
			}
		}
		if p.seen() != "" {
			t.Errorf("the peer got %s", p.seen())
		}
	})
}

// A REST interface may have a query and a slash at its end.
func TestInterfaceURLWithQuery(t *testing.T) {
	t.Parallel()
	var got string
	p := newPeer(t, a2a.BindingREST, func(x *exchange) {
		got = x.r.URL.RequestURI()
		x.result(task("t", "TASK_STATE_WORKING"))
	})
	p.card.SupportedInterfaces[0].URL = p.server.URL + "/a%20b/v1/?site=7"
	one := 1
	if _, err := p.client(t, client.Options{}).GetTask(t.Context(), &a2a.GetTaskRequest{ID: "t", HistoryLength: &one}); err != nil {
		t.Fatal(err)
	}
	if want := "/a%20b/v1/tasks/t?historyLength=1&site=7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
