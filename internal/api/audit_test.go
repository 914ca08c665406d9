package api_test

import (
	"net/http"
	"slices"
	"strconv"
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

func TestAuditNewestFirst(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for _, path := range []string{"/tasks", "/inbox", "/tasks", "/me", "/tasks"} {
		n.call("GET", path, "operator//op", "").want(http.StatusOK)
	}
	type body struct {
		Entries []struct {
			ID        int64
			Operation string
		}
		After  int64 `json:"next_after"`
		Before int64 `json:"next_before"`
	}
	read := func(query string) (ids []string) {
		t.Helper()
		more := ""
		for {
			var page body
			n.call("GET", "/audit?subject=op&limit=2&"+query+more, "admin//root", "").want(http.StatusOK).decode(&page)
			for _, e := range page.Entries {
				ids = append(ids, e.Operation)
			}
			switch {
			case page.Before > 0:
				more = "&before=" + strconv.FormatInt(page.Before, 10)
			case page.After > 0:
				more = "&after=" + strconv.FormatInt(page.After, 10)
			default:
				return ids
			}
		}
	}
	for query, want := range map[string][]string{
		"":                            {"GET /tasks", "GET /inbox", "GET /tasks", "GET /me", "GET /tasks"},
		"order=desc":                  {"GET /tasks", "GET /me", "GET /tasks", "GET /inbox", "GET /tasks"},
		"order=desc&action=GET+/me":   {"GET /me"},
		"action=GET+/t*":              {"GET /tasks", "GET /tasks", "GET /tasks"},
		"order=desc&action=GET+/t*":   {"GET /tasks", "GET /tasks", "GET /tasks"},
		"action=SendMessage":          nil,
		"order=desc&action=GET+/inb*": {"GET /inbox"},
	} {
		if got := read(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	n.call("GET", "/audit?order=up", "admin//root", "").failure(http.StatusBadRequest)
}
