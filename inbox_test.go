package handoff_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
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

const chained = `
store: sqlite:tasks.db
secret_key: 0123456789abcdef0123456789abcdef
inbox: {webhook: {url: HOOK, links: true}}
agents:
  one: {name: One, description: Hands on., version: 1.0.0, skills: [{id: a, name: A, description: a, tags: [x]}], run: {script: *two}}
  two: {name: Two, description: Hands on., version: 1.0.0, skills: [{id: a, name: A, description: a, tags: [x]}], run: {script: *three}}
  three: {name: Three, description: Hands on., version: 1.0.0, skills: [{id: a, name: A, description: a, tags: [x]}], run: {script: *leaf}}
  leaf:
    name: Leaf
    description: Asks.
    version: 1.0.0
    skills: [{id: a, name: A, description: a, tags: [x]}]
    run:
      script:
        - when: {grant: approve}
          do: [{complete: paid}]
        - when: {text: "^qty"}
          do: [{authorize: "Pay {{.Text}}?", operation: pay}]
        - do: [{ask: How many?, schema: {type: object, required: [qty], properties: {qty: {type: integer}}}}]
`

// TestThreeHopsAreAnsweredAtTheRoot lets the last of four agents ask and want an
// approval (A2A §7.6): each is one item, of the task at the root.
func TestThreeHopsAreAnsweredAtTheRoot(t *testing.T) {
	t.Parallel()
	type notice struct {
		Link string
		Item struct{ ID, Task, Kind, Text, Operation string }
	}
	notices := make(chan notice, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n notice
		if err := json.UnmarshalRead(r.Body, &n, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Error(err)
		}
		notices <- n
	}))
	defer hook.Close()
	text := strings.ReplaceAll(chained, "HOOK", hook.URL)
	for _, to := range []string{"two", "three", "leaf"} {
		text = strings.ReplaceAll(text, "*"+to, "[{when: {outcome: completed}, do: [{complete: '"+to+" says {{.Outcome}}'}]}, {when: {outcome: over}, do: [{fail: '{{.Outcome}}'}]}, {do: [{delegate: {to: "+to+", message: '{{.Text}}'}}]}]")
	}
	_, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), text), handoff.Options{})
	agent := dial(t, server.URL+"/agents/one/", client.Options{})
	task := send(t, agent, client.NewMessage(a2a.Text("go")))
	follow := func(n notice, values url.Values) {
		t.Helper()
		at := server.URL + n.Link[strings.Index(n.Link, "/inbox/"):]
		response, err := server.Client().PostForm(at, values)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != 200 {
			t.Fatalf("%d: %s, %v", response.StatusCode, body, err)
		}
	}
	question := <-notices
	if question.Item.Task != task.ID || question.Item.Kind != "question" || question.Item.Text != "How many?" {
		t.Errorf("asked: %+v", question)
	}
	follow(question, url.Values{"action": {"answer"}, "f0": {"3"}})
	request := <-notices
	if request.Item.Task != task.ID || request.Item.Kind != "grant" || request.Item.Text != "Pay qty: 3?" || request.Item.Operation != "pay" {
		t.Errorf("to be approved: %+v", request)
	}
	events, err := agent.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	follow(request, url.Values{"action": {"approve"}})
	var last *a2a.TaskStatus
	for last == nil || !last.State.Terminal() {
		event, err := events.Next()
		if err != nil {
			t.Fatalf("after %+v: %v", last, err)
		}
		if event.StatusUpdate != nil {
			last = &event.StatusUpdate.Status
		}
	}
	if last.State != a2a.StateCompleted || last.Message.Text() != "two says three says leaf says paid" {
		t.Errorf("in the end: %+v", last)
	}
	select {
	case n := <-notices:
		t.Errorf("one item too many: %+v", n)
	default:
	}
}

// What a peer asks is answered from the inbox, wherever the peer is configured.
func TestAPeerIsAnsweredFromTheInbox(t *testing.T) {
	t.Parallel()
	const asking = `agents:
  quote: {name: Quotes, description: Makes quotes., version: 1.0.0, skills: [{id: q, name: Q, description: Quotes., tags: [x]}], run: {script: [{when: {text: order}, do: [{ask: How many?}]}, {do: [{complete: "{{.Text}}"}]}]}}
`
	_, _, far := nodeOf(t, asking+"store: sqlite:h.db\n")
	card := far.URL + "/agents/quote/"
	near, _, here := nodeOf(t, "store: sqlite:h.db\nsecret_key: 0123456789abcdef0123456789abcdef\npeers: {written: {card: "+strconv.Quote(card)+"}}\n")
	api := here.URL + "/api/v1"
	if status, text := postJSON(t, api+"/peers", `{"name":"added","config":{"card":`+strconv.Quote(card)+`}}`); status != http.StatusOK {
		t.Fatal(status, text)
	}
	for name, link := range map[string]bool{"written": false, "added": false, "written again": true, "added again": true} {
		name := strings.TrimSuffix(name, " again")
		status, text := postJSON(t, api+"/delegations", `{"to":"`+name+`","message":"order"}`)
		var d struct{ ID, State string }
		if err := json.Unmarshal([]byte(text), &d, json.MatchCaseInsensitiveNames(true)); err != nil || status != http.StatusOK {
			t.Fatal(status, text)
		}
		order, err := near.Delegation(t.Context(), d.ID)
		if err != nil {
			t.Fatal(err)
		}
		if task, err := order.Wait(t.Context()); err != nil || task.Status.State != a2a.StateInputRequired {
			t.Fatalf("%s: %+v, %v", name, task, err)
		}
		var list struct{ Items []struct{ ID, Text string } }
		if err := json.Unmarshal([]byte(getText(t, api+"/inbox?task="+d.ID)), &list, json.MatchCaseInsensitiveNames(true)); err != nil || len(list.Items) != 1 || list.Items[0].Text != "How many?" {
			t.Fatalf("%s: the inbox has %+v, %v", name, list, err)
		}
		item := api + "/inbox/" + list.Items[0].ID
		if link {
			status, text := postJSON(t, item+"/link", `{}`)
			var made struct{ URL string }
			if err := json.Unmarshal([]byte(text), &made, json.MatchCaseInsensitiveNames(true)); err != nil || status != http.StatusOK {
				t.Fatal(name, status, text)
			}
			response, err := http.PostForm(here.URL+made.URL[strings.Index(made.URL, "/inbox/"):], url.Values{"action": {"answer"}, "text": {"two"}})
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Fatal(name, response.Status)
			}
		} else if status, text := postJSON(t, item+"/answer", `{"text":"two"}`); status != http.StatusOK {
			t.Fatal(name, status, text)
		}
		if task, err := order.Wait(t.Context()); err != nil || task.Status.State != a2a.StateCompleted {
			t.Fatalf("%s: %+v, %v", name, task, err)
		}
	}
}
