package handoff_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

const stalling = `
store: sqlite:tasks.db
secret_key: 0123456789abcdef0123456789abcdef
inbox: {due: 1h, webhook: {url: HOOK, auth: Bearer hook-s3cret, links: true}}
agents:
  shop:
    name: Shop
    description: Sells.
    version: 1.0.0
    skills: [{id: a, name: A, description: Sells., tags: [x]}]
    run:
      script:
        - when: {text: order}
          do: [{ask: How many?, schema: {type: object, required: [qty], properties: {qty: {type: integer}}}}]
        - do: [{complete: "{{.Text}}"}]
`

// TestALinkAnswersATask follows the link that the webhook of the inbox is sent,
// fills in the form and lets the task go on.
func TestALinkAnswersATask(t *testing.T) {
	t.Parallel()
	notices := make(chan []byte, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if got := r.Header.Get("Authorization"); got != "Bearer hook-s3cret" {
			t.Errorf("the webhook is authorized with %q", got)
		}
		notices <- body
	}))
	defer hook.Close()
	c := load(t, filepath.Join(t.TempDir(), "handoff.yaml"), strings.ReplaceAll(stalling, "HOOK", hook.URL))
	_, server := start(t, c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	agent := dial(t, server.URL+"/agents/shop/", client.Options{})
	response, err := agent.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{MessageID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("order")}}})
	if err != nil || response.Task.Status.State != a2a.StateInputRequired {
		t.Fatalf("%+v, %v", response, err)
	}
	var notice struct {
		Event, Link string
		Item        struct{ Task, Text, Due string }
	}
	if err := json.Unmarshal(<-notices, &notice, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if notice.Event != "created" || notice.Item.Task != response.Task.ID || notice.Item.Text != "How many?" || notice.Item.Due == "" {
		t.Errorf("the webhook heard %+v", notice)
	}
	page := func(method string, values url.Values) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+notice.Link[strings.Index(notice.Link, "/inbox/"):], strings.NewReader(values.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if values != nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if status, body := page("GET", nil); status != 200 || !strings.Contains(body, "How many?") {
		t.Fatalf("the page: %d: %s", status, body)
	}
	if status, body := page("POST", url.Values{"action": {"answer"}, "f0": {"three"}}); status != 422 || !strings.Contains(body, "qty is not a number") {
		t.Errorf("an answer that does not fit: %d: %s", status, body)
	}
	if status, body := page("POST", url.Values{"action": {"answer"}, "f0": {"3"}}); status != 200 {
		t.Fatalf("the answer: %d: %s", status, body)
	}
	if status, body := page("GET", nil); status != 410 || !strings.Contains(body, "settled already") {
		t.Errorf("the link again: %d: %s", status, body)
	}
	task, err := agent.Wait(t.Context(), response.Task.ID, client.WaitOptions{})
	if err != nil || task.Status.State != a2a.StateCompleted || task.Status.Message.Text() != "qty: 3" {
		t.Errorf("the task: %+v, %v", task, err)
	}
}
