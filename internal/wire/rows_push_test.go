package wire_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/job"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/wire"
)

// pushing starts a node whose agent sends events to webhooks, also to those of
// this machine.
func pushing(t *testing.T, s setting) *node {
	t.Helper()
	var d netguard.Destination
	if err := d.UnmarshalText([]byte("127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	key := make([]byte, auth.KeySize)
	_, _ = rand.Read(key)
	sealer, err := auth.NewSealer(key)
	if err != nil {
		t.Fatal(err)
	}
	var service *push.Service
	var jobs *job.Runner
	var n *node
	s.engine = func(c *engine.Config) {
		jobs = job.NewRunner(c.Store, map[string]job.Handler{}, slog.New(slog.DiscardHandler))
		c.JobsDue = jobs.Due
		service = push.New(push.Options{
			Store: c.Store, Scope: store.ForAll(), Guard: netguard.New(netguard.Policy{Allow: []netguard.Destination{d}}), Sealer: sealer,
			Encode: func(ctx context.Context, hook *store.Webhook) ([]byte, error) {
				task, err := n.engine.Get(ctx, store.ForAll(), nil, hook.Task, nil)
				if err != nil {
					return nil, err
				}
				return wire.OldPush(task), nil
			},
			Due: jobs.Due, Logger: c.Logger, Limits: push.Limits{PerTask: 4, Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, Refusals: 2},
		})
		jobs.Long(store.JobPush, service.Do)
		jobs.Start()
	}
	s.options = func(o *wire.Options) { o.Webhooks = service }
	edit := s.agent
	s.agent = func(a *wire.Agent) {
		a.Pushes = true
		if edit != nil {
			edit(a)
		}
	}
	n = newNode(t, s)
	t.Cleanup(func() {
		jobs.Stop()
		service.Close()
	})
	return n
}

// hook is a webhook that tells what it gets.
type hook struct {
	*httptest.Server
	got chan pushed
}

type pushed struct {
	header http.Header
	body   []byte
	event  a2a.StreamResponse
}

// label says what was pushed: a state, or artifact.
func (p *pushed) label() string {
	switch {
	case p.event.StatusUpdate != nil:
		return p.event.StatusUpdate.Status.State.String()
	case p.event.ArtifactUpdate != nil:
		return "artifact"
	}
	return "?"
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{got: make(chan pushed, 1000)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p := pushed{header: r.Header, body: body}
		if err := a2a.Unmarshal(body, &p.event); err != nil {
			t.Errorf("a push that is no StreamResponse: %v: %s", err, body)
		}
		h.got <- p
	}))
	t.Cleanup(h.Close)
	return h
}

// until collects what was pushed until the task is in a state.
func (h *hook) until(t *testing.T, state a2a.TaskState) (labels []string, pushes []pushed) {
	t.Helper()
	for {
		select {
		case p := <-h.got:
			labels, pushes = append(labels, p.label()), append(pushes, p)
			if p.label() == state.String() {
				return labels, pushes
			}
		case <-time.After(15 * time.Second):
			t.Fatalf("only %v was pushed, not %v", labels, state)
		}
	}
}

func withHook(params object, url string, more ...object) object {
	config := object{"url": url}
	for _, m := range more {
		for k, v := range m {
			config[k] = v
		}
	}
	configuration, _ := params["configuration"].(object)
	if configuration == nil {
		configuration = object{}
	}
	configuration["taskPushNotificationConfig"] = config
	params["configuration"] = configuration
	return params
}

func TestRow73_AWebhookHearsOfEveryWayToSend(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := pushing(t, setting{second: 20 * time.Millisecond})
		for _, way := range []string{"blocking", "returnImmediately", "streaming"} {
			h := newHook(t)
			params := withHook(send("slow 2"), h.URL)
			switch way {
			case "streaming":
				n.stream(b, "SendStreamingMessage", params)
			case "returnImmediately":
				params["configuration"].(object)["returnImmediately"] = true
				fallthrough
			default:
				n.sent(b, params)
			}
			labels, pushes := h.until(t, a2a.StateCompleted)
			if labels[0] != "TASK_STATE_WORKING" || len(labels) != 22 || slices.ContainsFunc(labels[1:21], func(l string) bool { return l != "artifact" }) {
				t.Errorf("%s: %v", way, labels)
			}
			for i := range pushes {
				if pushes[i].header.Get("Content-Type") != "application/a2a+json" {
					t.Errorf("the type is %s", pushes[i].header.Get("Content-Type"))
				}
			}
		}
	})
}

func TestRow41_PushesAfterAGrant(t *testing.T) {
	t.Parallel()
	n := pushing(t, setting{})
	h := newHook(t)
	task := n.sent(rpc, withHook(send("auth"), h.URL))
	if task.Status.State != a2a.StateAuthRequired {
		t.Fatalf("the task is %v", task.Status.State)
	}
	h.until(t, a2a.StateAuthRequired)
	n.grant(true)
	if labels, _ := h.until(t, a2a.StateCompleted); !slices.Equal(labels, []string{"TASK_STATE_WORKING", "artifact", "TASK_STATE_COMPLETED"}) {
		t.Errorf("after the grant came %v", labels)
	}
}

func TestRow44_PushesWhenALimitEndsATask(t *testing.T) {
	t.Parallel()
	n := pushing(t, setting{spec: func(s *engine.Spec) { s.Limits.Inactivity = 50 * time.Millisecond }})
	h := newHook(t)
	n.sent(rpc, withHook(send("never"), h.URL))
	h.until(t, a2a.StateFailed)
}

func TestPushesAfterACancel(t *testing.T) {
	t.Parallel()
	n := pushing(t, setting{})
	h := newHook(t)
	params := withHook(send("never"), h.URL)
	params["configuration"].(object)["returnImmediately"] = true
	task := n.sent(rpc, params)
	n.ok(rpc, "CancelTask", object{"id": task.ID})
	h.until(t, a2a.StateCanceled)
}

func TestPushesOfALaterMessage(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := pushing(t, setting{})
		task := n.sent(b, send("ask"))
		h := newHook(t)
		params := withHook(object{"message": message("go on", object{"taskId": task.ID})}, h.URL, object{"taskId": task.ID, "token": "tk"})
		n.sent(b, params)
		labels, pushes := h.until(t, a2a.StateCompleted)
		if !slices.Equal(labels, []string{"TASK_STATE_WORKING", "TASK_STATE_COMPLETED"}) {
			t.Errorf("got %v", labels)
		}
		if id := pushes[0].header.Get("X-A2A-Event-ID"); !strings.HasPrefix(id, task.ID+"/") {
			t.Errorf("the id of the event is %q", id)
		}
		if pushes[0].header.Get("X-A2A-Notification-Token") != "tk" || pushes[0].header.Get("A2A-Notification-Token") != "tk" {
			t.Error("the token is missing")
		}
	})
}

func TestRow77_EachOwnersWebhooksHearOfTheirOwnTasks(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := pushing(t, setting{})
		hooks := map[string]*hook{"acme/ann": newHook(t), "acme/bob": newHook(t)}
		for who, h := range hooks {
			task := n.sent(b, send("ask"), as(who))
			n.ok(b, "CreateTaskPushNotificationConfig", object{"taskId": task.ID, "url": h.URL}, as(who))
			n.sent(b, object{"message": message("on", object{"taskId": task.ID})}, as(who))
			_, pushes := h.until(t, a2a.StateCompleted)
			for i := range pushes {
				if u := pushes[i].event.StatusUpdate; u != nil && u.TaskID != task.ID {
					t.Errorf("%s hears of the task %s", who, u.TaskID)
				}
			}
		}
		for who, h := range hooks {
			if len(h.got) != 0 {
				t.Errorf("%s heard more", who)
			}
		}
	})
}

func TestRow82_TheConfigurationIsFlat(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := pushing(t, setting{})
		task := n.sent(b, send("echo x")) // finished tasks take webhooks too
		params := object{"taskId": task.ID, "url": "https://h.example/x", "authentication": object{"scheme": "Bearer", "credentials": "c"}, "token": "tk"}
		var made, read a2a.TaskPushNotificationConfig
		if err := a2a.Unmarshal(n.ok(b, "CreateTaskPushNotificationConfig", params), &made); err != nil {
			t.Fatal(err)
		}
		want := a2a.TaskPushNotificationConfig{TaskID: task.ID, ID: made.ID, URL: "https://h.example/x", Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer"}}
		if diff := cmp.Diff(want, made); diff != "" || made.ID == "" {
			t.Errorf("%q\n%s", made.ID, diff)
		}
		if err := a2a.Unmarshal(n.ok(b, "GetTaskPushNotificationConfig", object{"taskId": task.ID, "id": made.ID}), &read); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Error(diff)
		}
		for range 2 {
			if result := n.ok(b, "DeleteTaskPushNotificationConfig", object{"taskId": task.ID, "id": made.ID}); strings.TrimSpace(string(result)) != "{}" {
				t.Errorf("a deletion answers %s", result)
			}
		}
		n.call(b, "GetTaskPushNotificationConfig", object{"taskId": task.ID, "id": made.ID}).isError(t, a2a.CodeTaskNotFound)
		if b == rest {
			r := n.post("v1/tasks/"+task.ID+"/pushNotificationConfigs", `{"taskId":"other","url":"https://h.example/x"}`)
			if text := body(t, r); r.StatusCode != http.StatusBadRequest || !strings.Contains(text, "taskId") {
				t.Errorf("%d %s", r.StatusCode, text)
			}
		}
	})
}

func TestRow83_ListsOfWebhooks(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := pushing(t, setting{})
		task := n.sent(b, send("echo x"))
		list := func(params object) (page struct {
			Configs       []struct{ ID string }
			NextPageToken *string
		},
		) {
			params["taskId"] = task.ID
			if b == rest && len(params) > 1 {
				path := fmt.Sprintf("/agents/quote/v1/tasks/%s/pushNotificationConfigs?pageSize=%v&pageToken=%v", task.ID, params["pageSize"], params["pageToken"])
				response := n.get(http.MethodGet, path, header("A2A-Version", "1.0"))
				if err := json.Unmarshal([]byte(body(t, response)), &page); err != nil {
					t.Fatal(err)
				}
				return page
			}
			if err := json.Unmarshal(n.ok(b, "ListTaskPushNotificationConfigs", params), &page); err != nil {
				t.Fatal(err)
			}
			return page
		}
		if page := list(object{}); page.Configs == nil && b != overGRPC || len(page.Configs) != 0 {
			t.Errorf("an empty list is %+v", page)
		}
		for _, id := range []string{"c", "a", "b"} {
			n.ok(b, "CreateTaskPushNotificationConfig", object{"taskId": task.ID, "id": id, "url": "https://h.example/" + id})
		}
		var ids []string
		token := ""
		for range 3 {
			page := list(object{"pageSize": 1, "pageToken": token})
			if len(page.Configs) != 1 {
				t.Fatalf("a page of %d", len(page.Configs))
			}
			ids = append(ids, page.Configs[0].ID)
			if token = ""; page.NextPageToken != nil {
				token = *page.NextPageToken
			}
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, ids); diff != "" || token != "" {
			t.Errorf("%q\n%s", token, diff)
		}
	})
}

func TestRow85_InlineConfigurations(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := pushing(t, setting{})
		count := func(task string) int {
			var page a2a.ListTaskPushNotificationConfigsResponse
			if err := a2a.Unmarshal(n.ok(b, "ListTaskPushNotificationConfigs", object{"taskId": task}), &page); err != nil {
				t.Fatal(err)
			}
			return len(page.Configs)
		}
		if got := count(n.sent(b, withHook(send("echo x"), "https://h.example/")).ID); got != 1 {
			t.Errorf("%d webhooks of a task that came with one", got)
		}
		if got := count(n.sent(b, send("echo x")).ID); got != 0 {
			t.Errorf("%d webhooks of a task that came with none", got)
		}
		n.call(b, "SendMessage", withHook(send("echo x"), "https://h.example/", object{"taskId": "other"})).isError(t, a2a.CodeInvalidParams)
		refused := n.call(b, "SendMessage", withHook(send("echo x"), "https://10.0.0.1/"))
		refused.isError(t, a2a.CodeInvalidParams)
		if refused.Error != nil && !strings.Contains(refused.Error.Message, "configuration.taskPushNotificationConfig.url") {
			t.Errorf("the error does not name the field: %s", refused.Error.Message)
		}
	})
}

func TestRowS1_AnothersWebhooksAreNotThere(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := pushing(t, setting{})
		task := n.sent(b, send("ask"), as("acme/ann"))
		n.ok(b, "CreateTaskPushNotificationConfig", object{"taskId": task.ID, "id": "h", "url": "https://h.example/"}, as("acme/ann"))
		for _, op := range []string{"CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"} {
			params := func(id string) object {
				p := object{"taskId": id}
				if !strings.HasPrefix(op, "List") {
					p["id"] = "h"
				}
				if strings.HasPrefix(op, "Create") {
					p["url"] = "https://evil.example/"
				}
				return p
			}
			foreign, unknown := n.call(b, op, params(task.ID), as("acme/bob")), n.call(b, op, params("0198b5a0-0000-7000-8000-000000000000"), as("acme/bob"))
			foreign.isError(t, a2a.CodeTaskNotFound)
			unknown.isError(t, a2a.CodeTaskNotFound)
			if b != overGRPC && strings.ReplaceAll(string(foreign.Body), task.ID, "0198b5a0-0000-7000-8000-000000000000") != string(unknown.Body) {
				t.Errorf("%s: %s\n%s", op, foreign.Body, unknown.Body)
			}
		}
		var c a2a.TaskPushNotificationConfig
		if err := a2a.Unmarshal(n.ok(b, "GetTaskPushNotificationConfig", object{"taskId": task.ID, "id": "h"}, as("acme/ann")), &c); err != nil || c.URL != "https://h.example/" {
			t.Errorf("ann's webhook is %+v, %v", c, err)
		}
	})
}

func TestRowS26_AViewerHasNoWebhooks(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := pushing(t, setting{})
		for _, op := range []string{"CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"} {
			n.call(b, op, object{"taskId": "t", "id": "h"}, as("acme/viewer")).isError(t, a2a.CodePermissionDenied)
		}
	})
}

func TestRow92_ALargePartIsPushedWhole(t *testing.T) {
	t.Parallel()
	n := pushing(t, setting{})
	h := newHook(t)
	raw := make([]byte, 9<<20)
	_, _ = rand.Read(raw)
	params := withHook(send("echo x"), h.URL)
	params["message"].(object)["parts"] = []any{object{"text": "echo"}, object{"raw": raw}}
	n.sent(rpc, params)
	_, pushes := h.until(t, a2a.StateCompleted)
	found := false
	for i := range pushes {
		if u := pushes[i].event.ArtifactUpdate; u != nil {
			for _, part := range u.Artifact.Parts {
				found = found || sha256.Sum256(part.Raw) == sha256.Sum256(raw)
			}
		}
	}
	if !found {
		t.Error("it has changed on the way")
	}
}

func TestRow65_WebhooksGoWithTheirTask(t *testing.T) {
	t.Parallel()
	n := pushing(t, setting{spec: func(s *engine.Spec) { s.Retention = 200 * time.Millisecond }})
	task := n.sent(rpc, withHook(send("echo x"), "https://h.example/"))
	eventually(t, "the webhook is gone", func() bool {
		_, err := n.store.Webhook(context.Background(), store.ForAll(), task.ID, "x")
		hooks, listErr := n.store.Webhooks(context.Background(), store.ForAll(), task.ID)
		return err != nil && listErr != nil && len(hooks) == 0
	})
	n.call(rpc, "ListTaskPushNotificationConfigs", object{"taskId": task.ID}).isError(t, a2a.CodeTaskNotFound)
}

// A message whose webhook is one too many is refused under the name of the limit.
func TestWebhookLimitOfMessages(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := pushing(t, setting{})
		h := newHook(t)
		id := n.sent(b, send("ask")).ID
		for i := range 4 {
			a := n.call(b, "CreateTaskPushNotificationConfig", object{"taskId": id, "id": fmt.Sprint(i), "url": h.URL})
			if a.Error != nil {
				t.Fatalf("webhook %d: %s", i, a.Body)
			}
		}
		q := send("more", object{"taskId": id})
		q["configuration"] = object{"taskPushNotificationConfig": object{"url": h.URL}}
		a := n.call(b, "SendMessage", q)
		a.isError(t, a2a.CodeResourceExhausted)
		if a.Error != nil && a.Error.Metadata[a2a.MetadataLimit] != store.LimitWebhooks {
			t.Errorf("one too many: %s", a.Body)
		}
	})
}
