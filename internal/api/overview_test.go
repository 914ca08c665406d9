package api_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/store"
)

type overviewBody struct {
	Tasks  []countBody
	Agents []struct {
		Agent string
		Count int
	}
	Waiting []struct {
		Task, Agent, State, Ref string
		Waits                   struct{ Kind, Who, Text, Task, Item string } `json:"waits_for"`
	}
	Inbox *struct {
		Open, Overdue int
		Kinds         []struct {
			Kind  string
			Count int
		}
	}
	Delegations []struct {
		To   string
		Peer bool
		Open int
	}
	Rates  struct{ Created, Completed, Failed []int }
	Failed []struct{ Task, Text string }
	Pushes *struct{ Retrying, Dead int }
	Down   []struct{ Kind, Name, Error string }
}

type countBody struct {
	State string
	Count int
}

func sum(list []int) (total int) {
	for _, n := range list {
		total += n
	}
	return total
}

func TestOverview(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.send("desk", "", "alice", "hello")
	asked := n.send("desk", "", "alice", "ask").ID
	n.send("desk", "", "alice", "pay")
	n.send("desk", "", "bob", "hello")
	failed := n.send("desk", "", "alice", "fail").ID
	n.send("dock", "acme", "eve", "ask")
	n.call("POST", "/delegations", "operator//alice", `{"to":"supplier","message":"ask","ref":"PO-1"}`).want(http.StatusOK)
	n.letter("a")
	item := n.items("operator//op", "")["ask"]
	login := &store.InboxItem{ID: "login", Kind: store.InboxLogin, Owner: "alice", Agent: "mcp:erp", URL: "https://erp.example.com/login"}
	if err := n.store.Commit(t.Context(), &store.Change{Item: login}); err != nil {
		t.Fatal(err)
	}
	n.call("POST", "/inbox/"+item+"/assign", "operator//op", `{"assignee":"mara"}`).want(http.StatusOK)

	var all, alice, acme overviewBody
	n.call("GET", "/overview", "operator//op", "").want(http.StatusOK).decode(&all)
	n.call("GET", "/overview", "viewer//alice", "").want(http.StatusOK).decode(&alice)
	n.call("GET", "/overview", "operator/acme/op", "").want(http.StatusOK).decode(&acme)

	want := []countBody{{"TASK_STATE_COMPLETED", 1}, {"TASK_STATE_FAILED", 1}, {"TASK_STATE_INPUT_REQUIRED", 2}, {"TASK_STATE_AUTH_REQUIRED", 1}}
	if diff := cmp.Diff(want, alice.Tasks); diff != "" {
		t.Errorf("alice's tasks: %s", diff)
	}
	if len(alice.Agents) != 2 || alice.Agents[0].Agent != "desk" || alice.Agents[0].Count != 4 {
		t.Errorf("alice's agents: %+v", alice.Agents)
	}
	if len(alice.Waiting) != 3 || len(all.Waiting) != 4 || len(acme.Waiting) != 1 {
		t.Fatalf("%d of alice's tasks wait, %d of all, %d of acme", len(alice.Waiting), len(all.Waiting), len(acme.Waiting))
	}
	for _, w := range alice.Waiting {
		if w.Task == asked && (w.Waits.Kind != "answer" || w.Waits.Text != "What?" || w.Waits.Item == "" || w.Waits.Who == "") {
			t.Errorf("the task that asked waits for %+v", w.Waits)
		}
	}
	if alice.Inbox == nil || alice.Inbox.Open != 4 || alice.Inbox.Kinds[len(alice.Inbox.Kinds)-1].Kind != "login" || all.Inbox.Open < 5 || acme.Inbox.Open != 1 {
		t.Errorf("the inbox: %+v, %+v, %+v", alice.Inbox, all.Inbox, acme.Inbox)
	}
	if len(alice.Delegations) != 1 || alice.Delegations[0].To != "supplier" || !alice.Delegations[0].Peer || alice.Delegations[0].Open != 1 || len(acme.Delegations) != 0 {
		t.Errorf("delegations: %+v, %+v", alice.Delegations, acme.Delegations)
	}
	if r := alice.Rates; len(r.Created) != 60 || sum(r.Created) != 5 || sum(r.Completed) != 1 || sum(r.Failed) != 1 {
		t.Errorf("alice's rates: %+v", r)
	}
	if len(alice.Failed) != 1 || alice.Failed[0].Task != failed || alice.Failed[0].Text != "no" || len(acme.Failed) != 0 {
		t.Errorf("what has failed: %+v", alice.Failed)
	}
	if all.Pushes == nil || all.Pushes.Dead != 1 || alice.Pushes != nil || acme.Pushes == nil || acme.Pushes.Dead != 1 {
		t.Errorf("webhooks: %+v, %+v, %+v", all.Pushes, alice.Pushes, acme.Pushes)
	}
	if acme.Down != nil || alice.Down != nil {
		t.Error("what is down is told to people of a tenant")
	}
	n.call("GET", "/overview", "viewer//", "").want(http.StatusForbidden)
}
