package client_test

import (
	"encoding/json"
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
