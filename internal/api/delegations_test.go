package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/api"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// delegator hands work to the agent of the tests, as if it were elsewhere.
type delegator struct{ n *node }

func (d delegator) Delegate(ctx context.Context, by *auth.Principal, of *api.Delegation) (string, error) {
	if d.n.specs["peer:"+of.To] == nil {
		return "", a2a.Invalid("to", "is no peer")
	}
	asked := &engine.Delegating{Ref: of.Ref, Again: of.Again}
	if of.Deadline > 0 {
		asked.Deadline = time.Now().Add(of.Deadline)
	}
	m := *of.Message
	m.MessageID, m.Role = of.Ref+m.Text(), a2a.RoleUser
	r, err := d.n.engine.Send(ctx, &engine.Request{
		Spec: d.n.specs["peer:"+of.To], Scope: auth.Scope(by), Authenticated: true, Message: &m, Delegation: asked,
		Caller: agent.Caller{Tenant: by.Tenant, Subject: by.Subject},
	})
	if err != nil {
		return "", err
	}
	return r.Task.ID, nil
}

func (d delegator) Send(ctx context.Context, by *auth.Principal, id string, m *a2a.Message) error {
	m.MessageID, m.Role, m.TaskID = "answer-"+m.Text(), a2a.RoleUser, id
	_, err := d.n.engine.Send(ctx, &engine.Request{Spec: d.n.specs["peer:supplier"], Scope: auth.Reach(by), Authenticated: true, Message: m})
	return err
}

func (d delegator) Look(ctx context.Context, id string) error { return d.n.engine.Wake(ctx, id) }

func (d delegator) Find(ctx context.Context, by *auth.Principal, id string) (string, error) {
	page, err := d.n.store.Delegations(ctx, auth.Reach(by), store.DelegationQuery{PageSize: 100})
	if err != nil {
		return "", err
	}
	for i := range page.Items {
		if row := &page.Items[i]; row.Task == id || row.Ref == id {
			return row.Task, nil
		}
	}
	return "", a2a.TaskNotFound(id)
}

type delegationBody struct {
	ID, To, Ref, State, Asked, Owner string
	Peer                             bool
	Deadline                         time.Time
	Remote                           *struct{ Send, Channel string }
	Task                             *a2a.Task
	WaitsFor                         *struct{ Kind, Who, Text string } `json:"waits_for"`
}

func TestDelegations(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	const order = `{"to":"supplier","message":"ask","ref":"PO-1","deadline":"2h"}`
	n.call("POST", "/delegations", "caller//alice", order).want(http.StatusForbidden)
	var made, found delegationBody
	n.call("POST", "/delegations", "operator//op", order).want(http.StatusOK).decode(&made)
	if !made.Peer || made.To != "supplier" || made.Ref != "PO-1" || made.Asked != "op" || made.Owner != "op" || made.Remote == nil ||
		made.Remote.Send != "unsent" || made.Task == nil || time.Until(made.Deadline) > 2*time.Hour || time.Until(made.Deadline) < time.Hour {
		t.Errorf("it is %+v", made)
	}
	n.call("GET", "/delegations/PO-1", "viewer//op", "").want(http.StatusOK).decode(&found)
	if found.ID != made.ID {
		t.Errorf("the reference finds %+v", found)
	}
	// A list says what each waits for, as its own page and its tree do.
	var waiting struct{ Delegations []delegationBody }
	n.call("GET", "/delegations?open", "operator//op", "").want(http.StatusOK).decode(&waiting)
	if len(waiting.Delegations) != 1 || waiting.Delegations[0].WaitsFor == nil || found.WaitsFor == nil || *waiting.Delegations[0].WaitsFor != *found.WaitsFor ||
		found.WaitsFor.Kind != "answer" || found.WaitsFor.Who != "op" || found.WaitsFor.Text != "What?" {
		t.Errorf("the list says %+v, the page %+v", waiting.Delegations, found.WaitsFor)
	}
	n.call("GET", "/delegations/PO-1", "viewer//eve", "").want(http.StatusNotFound)
	n.call("GET", "/delegations", "viewer//", "").want(http.StatusForbidden)
	refused := n.call("POST", "/delegations", "operator//op", strings.Replace(order, "ask", "again", 1)).want(http.StatusBadRequest)
	if !strings.Contains(string(refused.body), made.ID) {
		t.Errorf("the second one is refused with %s", refused.body)
	}
	for _, wrong := range []string{
		`{}`, `{"to":"nobody","message":"x"}`, `{"to":"supplier","message":7}`, `{"to":"supplier","message":"x","deadline":"soon"}`,
		`{"to":"supplier","message":"x","more":1}`,
	} {
		n.call("POST", "/delegations", "operator//op", wrong).want(http.StatusBadRequest)
	}
	var answered delegationBody
	n.call("POST", "/delegations/PO-1:message", "caller//op", `{"message":{"parts":[{"text":"FOB"}]}}`).want(http.StatusOK).decode(&answered)
	if answered.State != "TASK_STATE_COMPLETED" || answered.Task.Artifacts[0].Parts[0].Text != "said FOB" {
		t.Errorf("the answer makes it %+v", answered)
	}
	n.call("GET", "/delegations", "operator//op", "").want(http.StatusOK).decode(&waiting)
	if waiting.Delegations[0].WaitsFor != nil {
		t.Errorf("what is over waits for %+v", waiting.Delegations[0].WaitsFor)
	}
	for path, want := range map[string]int{
		"/delegations": 1, "/delegations?ref=PO-1": 1, "/delegations?ref=PO-2": 0, "/delegations?open": 0, "/delegations?peer=supplier": 1,
		"/delegations?state=completed&root=" + made.ID: 1,
	} {
		var page struct{ Delegations []delegationBody }
		n.call("GET", path, "operator//op", "").want(http.StatusOK).decode(&page)
		if len(page.Delegations) != want {
			t.Errorf("%s has %d delegations, want %d", path, len(page.Delegations), want)
		}
	}
	n.call("POST", "/delegations/PO-1:cancel", "operator//op", "{}").want(http.StatusBadRequest)
	n.call("POST", "/delegations/PO-1:cancel", "caller//eve", "{}").want(http.StatusNotFound)
}
