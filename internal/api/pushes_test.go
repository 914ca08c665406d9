package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/internal/store"
)

// letter makes an event of a task of alice that could not be delivered, and
// returns the id that the API knows it under, with the slash as in a path.
func (n *node) letter(webhook string) (id string) {
	n.t.Helper()
	task := n.send("desk", "acme", "alice", "letter "+webhook)
	row, err := n.store.Task(n.t.Context(), store.ForAll(), task.ID)
	if err != nil {
		n.t.Fatal(err)
	}
	hook := &store.Webhook{ID: webhook, URL: "https://hooks.example/very-secret?token=secret", Seq: 1}
	for _, c := range []*store.Change{
		{Task: row.Key, Webhook: hook},
		{Task: row.Key, Events: []store.Event{{Kind: store.KindArtifact, Body: []byte(`{}`)}}},
	} {
		if err := n.store.Commit(n.t.Context(), c); err != nil {
			n.t.Fatal(err)
		}
	}
	jobs, err := n.store.Jobs(n.t.Context(), 10, time.Hour)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, j := range jobs {
		if j.Kind == store.JobPush && j.Task == task.ID {
			d := &store.Delivery{Job: j.ID, Attempt: j.Attempt, Task: row.Key, Webhook: webhook, Outcome: store.DeliverNever, Stuck: 2, Error: "HTTP status 400"}
			if _, err := n.store.Deliver(n.t.Context(), d); err != nil {
				n.t.Fatal(err)
			}
		}
	}
	return task.ID + "%2F" + webhook
}

func TestPushes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	ids := []string{n.letter("a"), n.letter("b"), n.letter("c:d")}
	var page struct {
		Pushes []struct {
			ID, Event, Task, Webhook, Target, Error string
			Attempts, Waiting                       int
		}
		NextPageToken string `json:"next_page_token"`
	}
	var seen []string
	for path := "/pushes?limit=2"; ; path = "/pushes?limit=2&page_token=" + page.NextPageToken {
		page.NextPageToken, page.Pushes = "", nil
		answer := n.call("GET", path, "operator/acme/op", "").want(http.StatusOK)
		if strings.Contains(string(answer.body), "secret") {
			t.Errorf("it tells secrets: %s", answer.body)
		}
		answer.decode(&page)
		for _, p := range page.Pushes {
			seen = append(seen, strings.ReplaceAll(p.ID, "/", "%2F"))
			if p.Event != p.Task+"/2" || p.Target != "https://hooks.example" || p.Attempts != 1 || p.Waiting < 2 || p.Error == "" {
				t.Errorf("got %+v", p)
			}
		}
		if page.NextPageToken == "" {
			break
		}
	}
	if strings.Join(seen, " ") != strings.Join(ids, " ") {
		t.Errorf("listed %v, want %v", seen, ids)
	}
	for _, who := range []string{"operator/other/op", "viewer//v", "caller/acme/alice"} {
		answer := n.call("POST", "/pushes/"+ids[0]+":redeliver", who, "{}")
		if answer.status != http.StatusNotFound && answer.status != http.StatusForbidden {
			t.Errorf("%s redelivers: %d", who, answer.status)
		}
	}
	n.call("POST", "/pushes/"+ids[0]+":redeliver", "operator//op", "").want(http.StatusNoContent)
	n.call("POST", "/pushes/"+ids[0]+":redeliver", "operator//op", "").want(http.StatusBadRequest)
	n.call("POST", "/pushes/"+ids[1]+":redeliver", "operator//op", `{"skip":true}`).want(http.StatusNoContent)
	n.call("DELETE", "/pushes/"+ids[2], "operator//op", "").want(http.StatusNoContent)
	n.call("DELETE", "/pushes/"+ids[2], "operator//op", "").want(http.StatusNotFound)
	n.call("DELETE", "/pushes/x", "operator//op", "").want(http.StatusBadRequest)
	n.call("GET", "/pushes?page_token=x", "operator//op", "").want(http.StatusBadRequest)
	n.call("GET", "/pushes", "operator//op", "").want(http.StatusOK).decode(&page)
	if len(page.Pushes) != 0 {
		t.Errorf("%d are left", len(page.Pushes))
	}
}
