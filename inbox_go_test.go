package handoff_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
)

// What is stuck is put away by an answer, which sets off a look at the peer and says
// so; and the metrics count what is open.
func TestAnAnswerToWhatIsStuck(t *testing.T) {
	t.Parallel()
	far := newSite(t).begin(nil, nil, func(n *handoff.Node) error {
		card := handoff.NewCard("Quotes", "Quotes.", "1.0.0", handoff.Skill{ID: "x", Name: "X", Description: "Does x.", Tags: []string{"x"}})
		return n.Handle("quote", card, func(_ context.Context, turn *handoff.Turn) error { return turn.Artifact(a2a.Text("100")) })
	})
	var away atomic.Bool
	away.Store(true)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		far.node.ServeHTTP(w, r)
	}))
	defer front.Close()
	peer := impatient(front.URL + "/agents/quote/")
	peer.Stuck = config.Duration(time.Millisecond)
	peer.Origins = []string{far.url}
	near := newSite(t).begin(map[string]*handoff.Peer{"quotes": peer}, nil, nil)
	order, err := near.node.Delegate(t.Context(), handoff.Delegation{To: "quotes", Message: client.NewMessage(a2a.Text("bolts"))})
	if err != nil {
		t.Fatal(err)
	}
	var items []handoff.InboxItem
	eventually(t, "somebody is told", func() bool {
		items, err = near.node.Inbox().List(t.Context(), handoff.InboxQuery{Kind: "stuck", Task: order.ID()})
		return err != nil || len(items) == 1
	})
	if err != nil || len(items) == 0 || items[0].Agent != "quotes" || items[0].Task != order.ID() {
		t.Fatalf("%+v, %v", items, err)
	}
	if text := scrape(near.node); !strings.Contains(text, `handoff_inbox_open_items{kind="stuck"} 1`) || !strings.Contains(text, `handoff_inbox_open_items{kind="grant"} 0`) {
		t.Errorf("the metrics have %s", text)
	}
	for _, want := range []string{
		"handoff_build_info{", `handoff_nodes{alive="true"} 1`, "handoff_store_away 0", "handoff_store_bytes ", "handoff_turns_running ", "handoff_turns_waiting 0",
		`handoff_delegations{peer="quotes",state="TASK_STATE_WORKING"} 1`, `handoff_inbox_overdue_items{kind="stuck"} 0`, "handoff_jobs_late_seconds ",
		`handoff_job_seconds_count{kind="`, `handoff_peer_call_seconds_count{outcome="`, "handoff_webhooks_dead 0", "handoff_audit_entries_lost_total 0",
	} {
		if text := scrape(near.node); !strings.Contains(text, want) {
			t.Errorf("the metrics have no %s: %s", want, text)
		}
	}
	away.Store(false)
	if err := near.node.Inbox().Answer(t.Context(), items[0].ID, "ann", "They had a cable cut"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if task, err := order.Wait(ctx); err != nil || task.Status.State != a2a.StateCompleted {
		t.Errorf("it is %s, %v", task.AppendJSON(nil), err)
	}
	settled, err := near.node.Inbox().List(t.Context(), handoff.InboxQuery{Task: order.ID(), Settled: true})
	if err != nil || len(settled) != 1 || settled[0].By != "ann" || settled[0].Words != "They had a cable cut" {
		t.Errorf("%+v, %v", settled, err)
	}
	if err := near.node.Inbox().Answer(t.Context(), items[0].ID, "bob", "x"); a2a.CodeOf(err) != a2a.CodeUnsupportedOperation || !strings.Contains(err.Error(), "by ann") {
		t.Errorf("a second answer: %v", err)
	}
	if _, err := near.node.Inbox().List(t.Context(), handoff.InboxQuery{Kind: "nonsense"}); a2a.CodeOf(err) != a2a.CodeInvalidParams {
		t.Errorf("a kind that there is not: %v", err)
	}
}

// scrape returns the metrics of a node.
func scrape(n *handoff.Node) string {
	w := httptest.NewRecorder()
	handoff.MetricsOf(n).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// eventually waits until f says that it is so.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !f(); time.Sleep(5 * time.Millisecond) { // for what only the store can tell
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
