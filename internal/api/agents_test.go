package api_test

import (
	"net/http"
	"testing"

	"handoff.example/handoff/a2a"
)

func TestAgentOfTheAPI(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.send("desk", "", "alice", "hello")
	n.send("desk", "", "bob", "ask")
	n.send("gone", "", "alice", "hello")
	type body struct {
		ID, Name, Run, Address string
		Retired                bool
		Document               struct {
			Name   string
			Skills []struct{ ID string }
		}
		Interfaces []struct{ Binding, URL string }
		Skills     []struct {
			ID   string
			Tags []string
		}
		Limits    []struct{ Name, Value string }
		Tasks     []countBody
		Signature *struct{ Signed bool }
	}
	var all, alice body
	n.call("GET", "/agents/desk", "operator//op", "").want(http.StatusOK).decode(&all)
	n.call("GET", "/agents/desk", "viewer//alice", "").want(http.StatusOK).decode(&alice)
	if all.Name != "Desk" || all.Run != "script" || all.Document.Name != "Desk" || len(all.Document.Skills) != 1 || len(all.Interfaces) == 0 || all.Skills[0].Tags[0] != "x" ||
		len(all.Limits) == 0 || len(all.Tasks) != 2 || all.Signature == nil || all.Signature.Signed {
		t.Errorf("for an operator: %+v", all)
	}
	if alice.Run != "" || len(alice.Limits) != 0 || len(alice.Tasks) != 1 || alice.Tasks[0].State != a2a.StateCompleted.String() {
		t.Errorf("for alice: %+v", alice)
	}
	var gone body
	n.call("GET", "/agents/gone", "operator//op", "").want(http.StatusOK).decode(&gone)
	if !gone.Retired || len(gone.Tasks) != 1 {
		t.Errorf("an agent that is gone: %+v", gone)
	}
	n.call("GET", "/agents/gone", "viewer//alice", "").failure(http.StatusNotFound)
	n.call("GET", "/agents/dock", "viewer/other/eve", "").failure(http.StatusNotFound)
	n.call("GET", "/agents/dock", "viewer/acme/eve", "").want(http.StatusOK)
	n.call("GET", "/agents/nothing", "operator//op", "").failure(http.StatusNotFound)
}
