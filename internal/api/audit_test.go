package api_test

import (
	"net/http"
	"testing"
)

// recorded is an entry of the audit log.
type recorded struct {
	ID                                                              int64
	Tenant, Subject, Role, Operation, Binding, Task, Target, Result string
}

func (n *node) audited(query string) []recorded {
	n.t.Helper()
	var page struct{ Entries []recorded }
	n.call("GET", "/audit"+query, "admin//auditor", "").want(http.StatusOK).decode(&page)
	return page.Entries
}

func TestAudit(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.makeKey()
	n.call("DELETE", "/keys/"+id, "admin//root", "").want(http.StatusNoContent)
	n.call("DELETE", "/keys/"+id, "operator//op", "").want(http.StatusForbidden)
	n.call("POST", "/tasks/none:cancel", "caller/acme/ann", "{}").want(http.StatusNotFound)
	n.call("GET", "/keys", "", "").want(http.StatusUnauthorized) // by nobody, and so not recorded

	list := n.audited("?since=2020-01-01T00:00:00Z")
	want := []recorded{
		{Subject: "root", Role: "admin", Operation: "POST /keys", Target: id, Result: "OK"},
		{Subject: "root", Role: "admin", Operation: "DELETE /keys/{id}", Target: id, Result: "OK"},
		{Subject: "op", Role: "operator", Operation: "DELETE /keys/{id}", Target: id, Result: "PermissionDeniedError"},
		{Tenant: "acme", Subject: "ann", Role: "caller", Operation: "POST /tasks/{id}:cancel", Task: "none", Result: "TaskNotFoundError"},
	}
	if len(list) != len(want) {
		t.Fatalf("%d entries, want %d: %+v", len(list), len(want), list)
	}
	for i, w := range want {
		w.ID, w.Binding = list[i].ID, "api"
		if list[i] != w {
			t.Errorf("entry %d is %+v, want %+v", i, list[i], w)
		}
	}
	if list := n.audited("?subject=ann"); len(list) != 1 || list[0].Task != "none" {
		t.Errorf("ann did %+v", list)
	}
	if list := n.audited("?task=none"); len(list) != 1 {
		t.Errorf("to the task were done %+v", list)
	}
	for _, caller := range []string{"admin/acme/root", "operator//op", "caller//ann"} {
		n.call("GET", "/audit", caller, "").want(http.StatusForbidden)
	}
	n.call("GET", "/audit?limit=0", "admin//root", "").want(http.StatusBadRequest)
}
