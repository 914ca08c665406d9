package api_test

import (
	"net/http"
	"testing"
)

// Only whoever can open the admin socket makes links that sign in.
func TestConsoleLinksAreMadeOverTheSocket(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.call("POST", "/console-links", "admin//root", "{}").want(http.StatusOK)
	n.call("POST", "/console-links", "admin//ann", "{}").want(http.StatusForbidden)
	n.call("POST", "/console-links", "operator//root", "{}").want(http.StatusForbidden)
}
