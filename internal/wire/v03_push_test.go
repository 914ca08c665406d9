package wire_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	pb03 "github.com/a2aproject/a2a-go/a2apb"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// receiver takes what is pushed in 0.3.
func receiver(t *testing.T) (url string, got chan pushed) {
	t.Helper()
	got = make(chan pushed, 100)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- pushed{header: r.Header, body: body}
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

type pushedTask struct {
	Kind      string
	ID        string
	SessionID string
	Status    struct{ State string }
	Artifacts []struct {
		Parts []struct{ Kind, Type, Text string }
	}
	History []struct{ Kind string }
}

// untilState returns the task that was pushed in that state.
func untilState(t *testing.T, got chan pushed, state string) (p pushed, task pushedTask) {
	t.Helper()
	for {
		select {
		case p = <-got:
			task = pushedTask{}
			if err := json.Unmarshal(p.body, &task); err != nil {
				t.Fatalf("%v in %s", err, p.body)
			}
			if task.Status.State == state {
				return p, task
			}
		case <-time.After(15 * time.Second):
			t.Fatalf("no push of %s", state)
		}
	}
}

// What a receiver gets depends on the version in which its webhook was set.
func TestOldPush_ATaskAsItsReceiverKnowsIt(t *testing.T) {
	t.Parallel()
	n := pushing(t, setting{agent: both})
	for _, way := range []string{"set", "inline", "grpc"} {
		url, got := receiver(t)
		id := ""
		switch hook := `{"url":"` + url + `","token":"tok","authentication":{"schemes":["Bearer"]}}`; way {
		case "inline":
			status, text := n.ask(rpc, asked{method: v03.MethodSend, params: fmt.Sprintf(
				`{"message":{"kind":"message","messageId":"i-1","role":"user","parts":[{"kind":"text","text":"ask"}]},"configuration":{"blocking":true,"pushNotificationConfig":%s}}`, hook)})
			var reply struct{ Result pushedTask }
			if err := json.Unmarshal([]byte(text), &reply); status != 200 || err != nil {
				t.Fatalf("%d %s", status, text)
			}
			id = reply.Result.ID
		case "set":
			id = n.sendOld(oldRequest("ask", "")).GetId()
			if status, text := n.ask(rpc, asked{method: v03.MethodSetPushConfig, params: `{"taskId":"` + id + `","pushNotificationConfig":` + hook + `}`}); status != 200 {
				t.Fatalf("%d %s", status, text)
			}
		case "grpc":
			id = n.sendOld(oldRequest("ask", "")).GetId()
			_, err := n.oldClient().CreateTaskPushNotificationConfig(t.Context(), &pb03.CreateTaskPushNotificationConfigRequest{
				Parent: "tasks/" + id, Config: &pb03.TaskPushNotificationConfig{PushNotificationConfig: &pb03.PushNotificationConfig{Url: url, Token: "tok"}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		n.sendOld(oldRequest("done", id))
		p, task := untilState(t, got, "completed")
		if task.Kind != "task" || task.ID != id || len(task.History) == 0 || task.History[0].Kind != "message" {
			t.Errorf("%s: %s", way, p.body)
		}
		if p.header.Get("Content-Type") != "application/json" || p.header.Get("A2A-Version") != "0.3" || p.header.Get("X-A2A-Notification-Token") != "tok" || p.header.Get("Authorization") != "" || p.header.Get("X-A2A-Event-Id") == "" {
			t.Errorf("%s: %v", way, p.header)
		}
	}
}

// A webhook of 1.0 that is set again in 0.3 is one of 0.3 from then on, and the
// other way round.
func TestOldPush_TheLastSetterDecides(t *testing.T) {
	t.Parallel()
	n := pushing(t, setting{agent: both})
	h := newHook(t)
	url, got := receiver(t)
	set := func(task, url string, old bool) {
		t.Helper()
		if !old {
			a := n.call(rpc, "CreateTaskPushNotificationConfig", object{"taskId": task, "id": "h", "url": url})
			if a.Error != nil {
				t.Fatal(a.Error)
			}
			return
		}
		status, text := n.ask(rpc, asked{method: v03.MethodSetPushConfig, params: `{"taskId":"` + task + `","pushNotificationConfig":{"id":"h","url":"` + url + `"}}`})
		if status != 200 {
			t.Fatal(text)
		}
	}
	first, second := n.sendOld(oldRequest("ask", "")).GetId(), n.sendOld(oldRequest("ask", "")).GetId()
	set(first, h.URL, false)
	set(first, url, true)
	set(second, url, true)
	set(second, h.URL, false)
	n.sendOld(oldRequest("done", first))
	n.sendOld(oldRequest("done", second))
	if _, task := untilState(t, got, "completed"); task.ID != first {
		t.Errorf("0.3 got %v", task)
	}
	_, pushes := h.until(t, a2a.StateCompleted)
	if last := pushes[len(pushes)-1]; last.event.StatusUpdate.TaskID != second || last.header.Get("A2A-Version") != "1.0" {
		t.Errorf("1.0 got %s", last.body)
	}
}

// Whoever named a task hears of it by that name.
func TestOldPush_TasksSend(t *testing.T) {
	t.Parallel()
	n := pushing(t, setting{agent: both})
	url, got := receiver(t)
	status, text := n.ask(rpc, asked{method: v03.MethodTasksSend, params: `{"id":"my-very-own-task","sessionId":"s","message":{"role":"user","parts":[{"type":"text","text":"echo hi"}]},"pushNotification":{"url":"` + url + `"}}`})
	if status != 200 {
		t.Fatal(text)
	}
	p, task := untilState(t, got, "completed")
	if task.Kind != "" || task.ID != "my-very-own-task" || task.SessionID != "s" || task.Artifacts[0].Parts[0].Type != "text" || task.Artifacts[0].Parts[0].Text != "hi" {
		t.Errorf("got %s", p.body)
	}
}

// A webhook of 0.3 without an id has that of its task, however it came: set again
// it is another one in its place, and it is found without an id.
func TestOldPush_WithoutAnIDItIsTheTasks(t *testing.T) {
	t.Parallel()
	n := pushing(t, setting{agent: both})
	url, _ := receiver(t)
	rpcCall := func(method, params string) string {
		t.Helper()
		status, text := n.ask(rpc, asked{method: method, params: params})
		if status != 200 || strings.Contains(text, `"error"`) {
			t.Fatalf("%s %s: %d %s", method, params, status, text)
		}
		return text
	}
	begin := map[string]func() (task, ours string){
		"message/send": func() (string, string) {
			text := rpcCall(v03.MethodSend, `{"message":{"kind":"message","messageId":"w-1","role":"user","parts":[{"kind":"text","text":"ask"}]},"configuration":{"blocking":true,"pushNotificationConfig":{"url":"`+url+`/1"}}}`)
			id := resultID(t, text)
			return id, id
		},
		"message:send": func() (string, string) {
			status, text := n.ask(rest, asked{verb: "POST", path: "v1/message:send", body: `{"request":{"messageId":"w-2","role":"ROLE_USER","content":[{"text":"ask"}]},"configuration":{"blocking":true,"pushNotification":{"url":"` + url + `/1"}}}`})
			var reply struct{ Task struct{ ID string } }
			if err := json.Unmarshal([]byte(text), &reply); status != 200 || err != nil {
				t.Fatalf("%d %s", status, text)
			}
			return reply.Task.ID, reply.Task.ID
		},
		"a message to a task": func() (string, string) {
			id := n.sendOld(oldRequest("ask", "")).GetId()
			rpcCall(v03.MethodSend, `{"message":{"kind":"message","messageId":"w-3","taskId":"`+id+`","role":"user","parts":[{"kind":"text","text":"ask"}]},"configuration":{"blocking":true,"pushNotificationConfig":{"url":"`+url+`/1"}}}`)
			return id, id
		},
		"gRPC": func() (string, string) {
			r := oldRequest("ask", "")
			r.Configuration.PushNotification = &pb03.PushNotificationConfig{Url: url + "/1"}
			id := n.sendOld(r).GetId()
			return id, id
		},
		"tasks/send": func() (string, string) {
			const alias = "a name of the client's"
			rpcCall("tasks/send", `{"id":"`+alias+`","message":{"role":"user","parts":[{"type":"text","text":"ask"}]},"pushNotification":{"url":"`+url+`/1"}}`)
			page, err := n.oldClient().ListTasks(t.Context(), &pb03.ListTasksRequest{ContextId: "tasks/send:" + alias})
			if err != nil || len(page.GetTasks()) != 1 {
				t.Fatal(page, err)
			}
			return alias, page.GetTasks()[0].GetId()
		},
	}
	for name, begin := range begin {
		task, ours := begin()
		if text := rpcCall(v03.MethodGetPushConfig, `{"id":"`+task+`"}`); !strings.Contains(text, `"url":"`+url+`/1"`) {
			t.Errorf("%s: get without an id answers %s", name, text)
		}
		rpcCall(v03.MethodSetPushConfig, `{"taskId":"`+task+`","pushNotificationConfig":{"url":"`+url+`/2"}}`)
		var list struct{ Configs []struct{ ID, URL string } }
		a := n.call(rpc, "ListTaskPushNotificationConfigs", object{"taskId": ours})
		if err := json.Unmarshal(a.Result, &list); err != nil {
			t.Fatal(err)
		}
		if c := list.Configs; len(c) != 1 || c[0].ID != ours || c[0].URL != url+"/2" {
			t.Errorf("%s: the webhooks are %+v, of %s", name, c, ours)
		}
	}
}

func resultID(t *testing.T, text string) string {
	t.Helper()
	var reply struct{ Result struct{ ID string } }
	if err := json.Unmarshal([]byte(text), &reply); err != nil || reply.Result.ID == "" {
		t.Fatalf("%v in %s", err, text)
	}
	return reply.Result.ID
}
