package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// makeKey makes an API key and returns its id.
func (n *node) makeKey() string {
	n.t.Helper()
	var made struct{ ID string }
	n.call("POST", "/keys", "admin//root", `{"subject":"erp"}`).want(http.StatusOK).decode(&made)
	return made.ID
}

func TestKeys(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	var made struct{ ID, Key, Subject, Role, By string }
	n.call("POST", "/keys", "admin//root", `{"subject":"erp","role":"viewer"}`).want(http.StatusOK).decode(&made)
	if !strings.HasPrefix(made.Key, "hk_"+made.ID+"_") || made.Subject != "erp" || made.Role != "viewer" || made.By != "root" {
		t.Errorf("made %+v", made)
	}
	n.call("DELETE", "/keys/"+made.ID, "admin//root", "").want(http.StatusNoContent)
	n.call("DELETE", "/keys/"+made.ID, "admin//root", "").want(http.StatusNoContent) // again is no harm
	n.call("DELETE", "/keys/none", "admin//root", "").want(http.StatusNotFound)
	list := n.call("GET", "/keys", "admin//root", "").want(http.StatusOK)
	if body := string(list.body); strings.Contains(body, made.Key) || !strings.Contains(body, made.ID) || !strings.Contains(body, `"revoked"`) || strings.Contains(body, "ash") {
		t.Errorf("listed %s", body)
	}
	for name, body := range map[string]string{
		"nobody": `{}`, "no role": `{"subject":"a","role":"none"}`, "an unknown role": `{"subject":"a","role":"boss"}`,
		"a tenant": `{"subject":"a","tenant":"A B"}`, "a scope": `{"subject":"a","scopes":["a b"]}`, "in the past": `{"subject":"a","expires":"2020-01-01T00:00:00Z"}`,
	} {
		if got := n.call("POST", "/keys", "admin//root", body); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	// Keys concern the whole node.
	for _, caller := range []string{"admin/acme/root", "operator//op", "caller//alice"} {
		n.call("POST", "/keys", caller, `{"subject":"a"}`).want(http.StatusForbidden)
		n.call("GET", "/keys", caller, "").want(http.StatusForbidden)
	}
	n.config.Callers.Keys = false
	if got := n.call("POST", "/keys", "admin//root", `{"subject":"a"}`); got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "callers.keys") {
		t.Errorf("keys are off: %d %s", got.status, got.body)
	}
}
