package interop

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
)

// delivery is a request that a webhook has received.
type delivery struct {
	header http.Header
	event  a2a.StreamResponse
}

// receive starts a receiver of webhooks.
func receive(t *testing.T) (address string, deliveries <-chan delivery) {
	t.Helper()
	received := make(chan delivery, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender tries again
		}
		d := delivery{header: r.Header}
		if err := json.Unmarshal(body, &d.event); err != nil {
			t.Errorf("a delivery is no StreamResponse: %v: %s", err, body)
		}
		received <- d
	}))
	t.Cleanup(server.Close)
	return server.URL + "/hook?of=test", received
}

// until returns what is received until the task is in a state that ends it.
func until(t *testing.T, deliveries <-chan delivery, want a2a.TaskState) []delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []delivery
	for {
		select {
		case d := <-deliveries:
			all = append(all, d)
			if stateOf(d.event.Event) == want {
				return all
			}
		case <-ctx.Done():
			t.Fatalf("after %d deliveries there is none that says %s", len(all), want)
		}
	}
}

func stateOf(event a2a.Event) a2a.TaskState {
	switch e := event.(type) {
	case *a2a.TaskStatusUpdateEvent:
		return e.Status.State
	case *a2a.Task:
		return e.Status.State
	}
	return ""
}

func TestWebhookOfASend(t *testing.T) {
	eachBinding(t, operations{opWebhook}, func(t *testing.T, p *peer) {
		if !p.card.Capabilities.PushNotifications {
			p.result.Result = notOffered
			return
		}
		address, deliveries := receive(t)
		task := p.send(text("burst 20"), func(c *a2a.SendMessageConfig) {
			c.ReturnImmediately = true
			c.PushConfig = &a2a.PushConfig{
				URL: address, Token: "a token", Auth: &a2a.PushAuthInfo{Scheme: "Bearer", Credentials: "s3cret"},
			}
		})
		got := until(t, deliveries, a2a.TaskStateCompleted)
		chunks := ""
		for _, d := range got {
			if id := d.event.Event.TaskInfo().TaskID; id != task.ID {
				t.Errorf("a delivery belongs to task %s", id)
			}
			if a := d.header.Get("Authorization"); a != "Bearer s3cret" {
				t.Errorf("the credentials are %q", a)
			}
			if token := d.header.Get("X-A2A-Notification-Token"); token != "a token" {
				t.Errorf("the token is %q", token)
			}
			if media := d.header.Get("Content-Type"); media != "application/a2a+json" {
				t.Errorf("the media type is %q", media)
			}
			if e, ok := d.event.Event.(*a2a.TaskArtifactUpdateEvent); ok {
				chunks += e.Artifact.Parts[0].Text()
			}
		}
		if chunks != numbers(20) {
			t.Errorf("the chunks are %q", chunks)
		}
	})
}

func TestWebhookOfATask(t *testing.T) {
	all := operations{opPushCreate, opPushGet, opPushList, opPushDelete, opWebhook}
	eachBinding(t, all, func(t *testing.T, p *peer) {
		if !p.card.Capabilities.PushNotifications {
			p.result.Result = notOffered
			return
		}
		address, deliveries := receive(t)
		task := p.send(text("ask"))
		made, err := p.CreateTaskPushConfig(t.Context(), &a2a.PushConfig{TaskID: task.ID, ID: "one", URL: address})
		if err != nil {
			t.Fatal(err)
		}
		if made.TaskID != task.ID || made.ID != "one" || made.URL != address {
			t.Errorf("the configuration is %+v", made)
		}
		same, err := p.GetTaskPushConfig(t.Context(), &a2a.GetTaskPushConfigRequest{TaskID: task.ID, ID: "one"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(made, same); diff != "" {
			t.Errorf("what is read is not what was made (-made +read):\n%s", diff)
		}
		second, err := p.CreateTaskPushConfig(t.Context(), &a2a.PushConfig{TaskID: task.ID, URL: address + "&second"})
		if err != nil {
			t.Fatal(err)
		}
		if second.ID == "" {
			t.Error("a configuration without an id was not given one")
		}
		if got := p.hooks(task.ID); len(got) != 2 {
			t.Errorf("%d configurations, want 2", len(got))
		}
		for range 2 { // a second deletion succeeds too (A2A §3.1.10)
			if err := p.DeleteTaskPushConfig(t.Context(), &a2a.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: second.ID}); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.hooks(task.ID); len(got) != 1 || got[0].ID != "one" {
			t.Errorf("%d configurations are left, want that with the id one", len(got))
		}
		_, err = p.GetTaskPushConfig(t.Context(), &a2a.GetTaskPushConfigRequest{TaskID: task.ID, ID: second.ID})
		wantError(t, err, a2a.ErrTaskNotFound)

		p.send(a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart("EXW")))
		for _, d := range until(t, deliveries, a2a.TaskStateCompleted) {
			if id := d.event.Event.TaskInfo().TaskID; id != task.ID {
				t.Errorf("a delivery belongs to task %s", id)
			}
		}
	})
}

func (p *peer) hooks(id a2a.TaskID) []*a2a.PushConfig {
	p.t.Helper()
	all, err := p.ListTaskPushConfigs(p.t.Context(), &a2a.ListTaskPushConfigRequest{TaskID: id})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// An address to which nobody may send is refused when it is configured.
func TestWebhookThatIsRefused(t *testing.T) {
	eachBinding(t, operations{opErrors}, func(t *testing.T, p *peer) {
		if !p.card.Capabilities.PushNotifications {
			p.result.Result = notOffered
			return
		}
		task := p.send(text("ask"))
		for _, address := range []string{"http://169.254.169.254/latest", "ftp://127.0.0.1/", "http://user:secret@127.0.0.1/"} {
			_, err := p.CreateTaskPushConfig(t.Context(), &a2a.PushConfig{TaskID: task.ID, URL: address})
			wantInvalid(t, p, err)
		}
	})
}

// An agent without webhooks refuses every operation on them.
func TestAgentWithoutWebhooks(t *testing.T) {
	eachBindingOf(t, noWebhooks, operations{opErrors}, func(t *testing.T, p *peer) {
		task := p.send(text("ask"))
		hook := &a2a.PushConfig{TaskID: task.ID, ID: "1", URL: "https://hooks.example.com/"}
		_, err := p.CreateTaskPushConfig(t.Context(), hook)
		wantError(t, err, a2a.ErrPushNotificationNotSupported)
		_, err = p.GetTaskPushConfig(t.Context(), &a2a.GetTaskPushConfigRequest{TaskID: task.ID, ID: "1"})
		wantError(t, err, a2a.ErrPushNotificationNotSupported)
		_, err = p.ListTaskPushConfigs(t.Context(), &a2a.ListTaskPushConfigRequest{TaskID: task.ID})
		wantError(t, err, a2a.ErrPushNotificationNotSupported)
		err = p.DeleteTaskPushConfig(t.Context(), &a2a.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: "1"})
		wantError(t, err, a2a.ErrPushNotificationNotSupported)
		_, err = p.SendMessage(t.Context(), &a2a.SendMessageRequest{
			Message: text("echo x"), Config: &a2a.SendMessageConfig{PushConfig: hook},
		})
		wantError(t, err, a2a.ErrPushNotificationNotSupported)
	})
}
