package backend_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/backend"
)

// A post for a turn that another node runs is to come again; only one for a turn
// that is over is refused for good.
func TestCallbackOfAnotherNode(t *testing.T) {
	t.Parallel()
	key := []byte("a key that all nodes share, all of them")
	there := backend.NewCallbacks(func() string { return "http://there/callbacks" }, key)
	turn := agent.NewTurn(t.Context(), agent.Info{TaskID: "t", Number: 3, Attempt: 2}, nil)
	open := there.Register(t.Context(), turn)
	defer open.Close()
	for name, c := range map[string]struct {
		attempt int
		err     error
		want    int
	}{
		"runs there":             {2, nil, http.StatusServiceUnavailable},
		"runs again":             {3, nil, http.StatusConflict},
		"over":                   {0, nil, http.StatusGone},
		"the store is not there": {0, errors.New("away"), http.StatusServiceUnavailable},
	} {
		here := backend.NewCallbacks(func() string { return "http://here/callbacks" }, []byte("the key that comes next"), []byte("one from before"), key)
		here.Elsewhere = func(_ context.Context, task string, number int) (int, error) {
			if task != "t" || number != 3 {
				t.Errorf("asked for turn %d of %s", number, task)
			}
			return c.attempt, c.err
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/callbacks/t.3", strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer "+open.Token)
		here.ServeHTTP(w, r)
		if w.Code != c.want || (w.Code == http.StatusServiceUnavailable) != (w.Header().Get("Retry-After") != "") {
			t.Errorf("%s: %d %s %v", name, w.Code, w.Body, w.Header())
		}
	}
}
