package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// oldPeer is an agent of version 0.3 that answers with the payloads of its
// specification, and notes what it was asked.
func oldPeer(t *testing.T, answers map[string]string) (*httptest.Server, *[]string) {
	t.Helper()
	var asked []string
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"protocolVersion":"0.3.0","name":"Old","description":"D","version":"1","url":"%s/a2a","capabilities":{"streaming":true,"pushNotifications":true},`+
				`"supportsAuthenticatedExtendedCard":true,"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"s","name":"S","description":"D","tags":["t"]}]}`, s.URL)
			return
		}
		body, _ := io.ReadAll(r.Body)
		var call struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(body, &call); err != nil {
			t.Error(err)
		}
		asked = append(asked, call.Method+" "+string(call.Params)+" "+r.Header.Get("A2A-Version")+" "+r.Header.Get("X-A2A-Extensions"))
		answer, ok := answers[call.Method]
		if !ok {
			answer = `"error":{"code":-32001,"message":"Task not found"}`
			if !strings.Contains(call.Method, "/") {
				answer = `"error":{"code":-32601,"message":"Method not found"}`
			}
		}
		if frames, ok := strings.CutPrefix(answer, "stream "); ok {
			w.Header().Set("Content-Type", "text/event-stream")
			for frame := range strings.SplitSeq(frames, "|") {
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", call.ID, frame)
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, call.ID, answer)
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

func TestRow111_AgentOfVersion03(t *testing.T) {
	t.Parallel()
	const task = `{"kind":"task","id":"T","contextId":"C","status":{"state":"input-required"}}`
	const hook = `{"taskId":"T","pushNotificationConfig":{"id":"h","url":"https://h.example/","authentication":{"schemes":["Bearer"]}}}`
	s, asked := oldPeer(t, map[string]string{
		"message/send": `"result":` + task, "tasks/cancel": `"result":{"kind":"task","id":"T","contextId":"C","status":{"state":"canceled"}}`,
		"message/stream": "stream " + task + `|{"kind":"artifact-update","taskId":"T","contextId":"C","artifact":{"artifactId":"A","parts":[{"kind":"file","file":{"bytes":"AAE="}}]}}` +
			`|{"kind":"status-update","taskId":"T","contextId":"C","status":{"state":"completed"},"final":true}`,
		"tasks/pushNotificationConfig/set": `"result":` + hook, "tasks/pushNotificationConfig/get": `"result":` + hook,
		"tasks/pushNotificationConfig/list": `"result":[` + hook + `]`, "tasks/pushNotificationConfig/delete": `"result":null`,
	})
	c, err := client.Dial(t.Context(), s.URL, client.Options{HTTPClient: s.Client(), Extensions: []string{"https://x.example"}})
	if err != nil {
		t.Fatal(err)
	}
	if f := c.Interface(); f.ProtocolVersion != "0.3" || f.URL != s.URL+"/a2a" {
		t.Errorf("interface %+v", f)
	}
	message := &a2a.SendMessageRequest{Message: &a2a.Message{MessageID: "M", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("x")}}}
	answer, err := c.SendMessage(t.Context(), message)
	if err != nil || answer.Task == nil || answer.Task.Status.State != a2a.StateInputRequired {
		t.Errorf("%+v, %v", answer, err)
	}
	stream, err := c.SendStreamingMessage(t.Context(), message)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for {
		event, err := stream.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case event.Task != nil:
			kinds = append(kinds, "task")
		case event.ArtifactUpdate != nil:
			kinds = append(kinds, fmt.Sprint("artifact", event.ArtifactUpdate.Artifact.Parts[0].Raw))
		case event.StatusUpdate != nil:
			kinds = append(kinds, event.StatusUpdate.Status.State.String())
		}
	}
	if got := strings.Join(kinds, " "); got != "task artifact[0 1] TASK_STATE_COMPLETED" {
		t.Errorf("events: %s", got)
	}
	if canceled, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: "T"}); err != nil || canceled.Status.State != a2a.StateCanceled {
		t.Errorf("%+v, %v", canceled, err)
	}
	if _, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "T"}); a2a.CodeOf(err) != a2a.CodeTaskNotFound {
		t.Errorf("got %v", err)
	}
	if _, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{}); a2a.CodeOf(err) != a2a.CodeUnsupportedOperation {
		t.Errorf("ListTasks: %v", err)
	}
	want := &a2a.TaskPushNotificationConfig{TaskID: "T", ID: "h", URL: "https://h.example/", Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer"}}
	got, err := c.CreateTaskPushNotificationConfig(t.Context(), want)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	list, err := c.ListTaskPushNotificationConfigs(t.Context(), &a2a.ListTaskPushNotificationConfigsRequest{TaskID: "T"})
	if err != nil || len(list.Configs) != 1 || list.Configs[0].URL != want.URL {
		t.Errorf("%+v, %v", list, err)
	}
	if err := c.DeleteTaskPushNotificationConfig(t.Context(), &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: "T", ID: "h"}); err != nil {
		t.Error(err)
	}
	const tail = " 0.3 https://x.example"
	const sent = `{"message":{"kind":"message","messageId":"M","role":"user","parts":[{"kind":"text","text":"x"}]},"configuration":{"blocking":true}}`
	if diff := cmp.Diff([]string{
		"message/send " + sent + tail, "message/stream " + sent + tail, `tasks/cancel {"id":"T"}` + tail, `tasks/get {"id":"T"}` + tail,
		"tasks/pushNotificationConfig/set " + hook + tail, `tasks/pushNotificationConfig/list {"id":"T"}` + tail,
		`tasks/pushNotificationConfig/delete {"id":"T","pushNotificationConfigId":"h"}` + tail,
	}, *asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// oldRESTPeer is an agent of version 0.3 over HTTP+JSON with the answers for each
// method and path, and notes what it was asked.
func oldRESTPeer(t *testing.T, answers map[string]string) (*client.Client, *[]string) {
	t.Helper()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		what := r.Method + " " + r.URL.RequestURI()
		asked = append(asked, strings.TrimSpace(what+" "+string(body)+" "+r.Header.Get("Content-Type")))
		if v, x := r.Header.Get("A2A-Version"), r.Header.Get("X-A2A-Extensions"); v != "0.3" || x != "https://x.example" || strings.Contains(r.Header.Get("Accept"), "a2a") {
			t.Errorf("%s: headers %v", what, r.Header)
		}
		answer, ok := answers[what]
		if !ok {
			answer = `405 {"detail":"Method Not Allowed"}`
		}
		if frames, ok := strings.CutPrefix(answer, "stream "); ok {
			w.Header().Set("Content-Type", "text/event-stream")
			for frame := range strings.SplitSeq(frames, "|") {
				fmt.Fprintf(w, "data: %s\n\n", frame)
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		var status int
		if n, _ := fmt.Sscanf(answer, "%d ", &status); n == 1 {
			w.WriteHeader(status)
			_, answer, _ = strings.Cut(answer, " ")
		}
		io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	card := newCard(a2a.BindingREST, s.URL)
	card.SupportedInterfaces[0].ProtocolVersion = "0.3.0"
	c, err := client.New(card, client.Options{HTTPClient: s.Client(), Extensions: []string{"https://x.example"}})
	if err != nil {
		t.Fatal(err)
	}
	return c, &asked
}

func TestAgentOfVersion03OverREST(t *testing.T) {
	t.Parallel()
	const task = `{"id":"T","contextId":"C","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"q","role":"ROLE_AGENT","content":[{"text":"What?"}]}}}`
	const hook = `{"name":"tasks/T/pushNotificationConfigs/h","pushNotificationConfig":{"id":"h","url":"https://h.example/","authentication":{"schemes":["Bearer"]}}}`
	c, asked := oldRESTPeer(t, map[string]string{
		"POST /agent/v1/message:send":   `{"task":` + task + `}`,
		"POST /agent/v1/message:stream": `stream {"task":` + task + `}|{"artifactUpdate":{"taskId":"T","contextId":"C","artifact":{"artifactId":"A","parts":[{"file":{"fileWithBytes":"QUFFPQ=="}}]}}}|{"error":{"code":503,"status":"UNAVAILABLE","message":"later"}}`,
		"POST /agent/v1/tasks/T:cancel": `{"id":"T","contextId":"C","status":{"state":"TASK_STATE_CANCELLED"}}`,
		// Subscribing is POST in the text of 0.3.
		"POST /agent/v1/tasks/T:subscribe":                          `stream {"statusUpdate":{"taskId":"T","contextId":"C","status":{"state":"TASK_STATE_COMPLETED"},"final":true}}`,
		"POST /agent/v1/tasks/T/pushNotificationConfigs":            hook,
		"GET /agent/v1/tasks/T/pushNotificationConfigs":             `[` + hook + `]`,
		"GET /agent/v1/tasks/P/pushNotificationConfigs?pageToken=p": `{"configs":[` + hook + `],"nextPageToken":"q"}`,
		"GET /agent/v1/card":                                        `{"protocolVersion":"0.3.0","name":"Old","description":"D","version":"1","url":"https://o.example/","preferredTransport":"HTTP+JSON","capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}`,
	})
	ctx := t.Context()
	message := &a2a.SendMessageRequest{
		Message:       &a2a.Message{MessageID: "M", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("x")}},
		Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true, TaskPushNotificationConfig: &a2a.TaskPushNotificationConfig{URL: "https://h.example/"}},
	}
	answer, err := c.SendMessage(ctx, message)
	if err != nil || answer.Task == nil || answer.Task.Status.State != a2a.StateInputRequired || answer.Task.Status.Message.Text() != "What?" {
		t.Errorf("%+v, %v", answer, err)
	}
	stream, err := c.SendStreamingMessage(ctx, message)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := stream.Next(); err != nil || e.Task == nil {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := stream.Next(); err != nil || e.ArtifactUpdate == nil || cmp.Diff(e.ArtifactUpdate.Artifact.Parts[0].Raw, []byte{0, 1}) != "" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := stream.Next(); a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("an error in a stream: %v", err)
	}
	if got, err := c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: "T", Metadata: a2a.JSON(`{"why":1}`)}); err != nil || got.Status.State != a2a.StateCanceled {
		t.Errorf("%+v, %v", got, err)
	}
	for range 2 { // the second time it is known to be POST
		if stream, err = c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: "T"}); err != nil {
			t.Fatal(err)
		}
		if e, err := stream.Next(); err != nil || e.StatusUpdate == nil || e.StatusUpdate.Status.State != a2a.StateCompleted {
			t.Errorf("%+v, %v", e, err)
		}
		stream.Close()
	}
	want := &a2a.TaskPushNotificationConfig{TaskID: "T", ID: "h", URL: "https://h.example/", Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer"}}
	got, err := c.CreateTaskPushNotificationConfig(ctx, want)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, q := range []a2a.ListTaskPushNotificationConfigsRequest{{TaskID: "T"}, {TaskID: "P", PageToken: "p"}} {
		list, err := c.ListTaskPushNotificationConfigs(ctx, &q)
		if err != nil || len(list.Configs) != 1 || list.Configs[0].TaskID != "T" || (list.NextPageToken == "q") != (q.PageToken == "p") {
			t.Errorf("%+v, %v", list, err)
		}
	}
	if card, err := c.GetExtendedAgentCard(ctx); err != nil || card.Name != "Old" || card.SupportedInterfaces[0].URL != "https://o.example/" {
		t.Errorf("%+v, %v", card, err)
	}
	const sent = ` {"message":{"messageId":"M","role":"ROLE_USER","content":[{"text":"x"}]},"configuration":{"pushNotification":{"url":"https://h.example/"},"blocking":false}} application/json`
	const subscribe = `POST /agent/v1/tasks/T:subscribe {"name":"tasks/T"} application/json`
	if diff := cmp.Diff([]string{
		"POST /agent/v1/message:send" + sent, "POST /agent/v1/message:stream" + sent, `POST /agent/v1/tasks/T:cancel {"name":"tasks/T"} application/json`,
		"GET /agent/v1/tasks/T:subscribe", subscribe, subscribe,
		`POST /agent/v1/tasks/T/pushNotificationConfigs {"parent":"tasks/T","configId":"h","config":` + hook + `} application/json`,
		"GET /agent/v1/tasks/T/pushNotificationConfigs", "GET /agent/v1/tasks/P/pushNotificationConfigs?pageToken=p", "GET /agent/v1/card",
	}, *asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// Official libraries of 0.3 say what is wrong with a status and a text alone.
func TestErrorsOfVersion03OverREST(t *testing.T) {
	t.Parallel()
	c, _ := oldRESTPeer(t, map[string]string{
		"POST /agent/v1/message:send":                   `422 {"message":"No parts"}`,
		"GET /agent/v1/tasks/T":                         `404 {"message":"Task not found"}`,
		"GET /agent/v1/card":                            `404 {"message":"Authenticated Extended Card is not configured"}`,
		"POST /agent/v1/tasks/T:cancel":                 `409 {"message":"Task cannot be canceled"}`,
		"GET /agent/v1/tasks/R":                         `404 {"error":{"code":404,"status":"NOT_FOUND","message":"m","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}`,
		"GET /agent/v1/tasks/T/pushNotificationConfigs": `501 {"message":"Push notifications are not supported"}`,
		"GET /agent/v1/tasks/U":                         `502 <html>`,
	})
	ctx := t.Context()
	get := func(id string) error {
		_, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: id})
		return err
	}
	_, send := c.SendMessage(ctx, hello())
	_, card := c.GetExtendedAgentCard(ctx)
	_, cancel := c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: "T"})
	_, list := c.ListTaskPushNotificationConfigs(ctx, &a2a.ListTaskPushNotificationConfigsRequest{TaskID: "T"})
	for _, tt := range []struct {
		err  error
		want a2a.Code
	}{
		{send, a2a.CodeInvalidParams},
		{get("T"), a2a.CodeTaskNotFound},
		{get("R"), a2a.CodeTaskNotFound},
		{card, a2a.CodeExtendedAgentCardNotConfigured},
		{cancel, a2a.CodeTaskNotCancelable},
		{list, a2a.CodeUnsupportedOperation},
	} {
		if e, ok := errors.AsType[*a2a.Error](tt.err); !ok || e.Code != tt.want {
			t.Errorf("got %v, want %v", tt.err, tt.want)
		}
	}
	if e, ok := errors.AsType[*client.TransportError](get("U")); !ok || e.Status != http.StatusBadGateway {
		t.Errorf("no A2A at all: %v", get("U"))
	}
}
