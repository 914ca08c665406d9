package peer_test

import (
	"fmt"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/peer"
)

// task is the answer of an agent with a task.
func task(id string) string {
	return `"result":{"task":{"id":"` + id + `","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`
}

// Whether a peer deduplicates is observed when somebody asks for that, and counts
// more than what its card declares.
func TestCheckBySendingSeesWhetherAPeerDeduplicates(t *testing.T) {
	t.Parallel()
	declares := strings.Replace(cardWith(""), `"streaming":true`, `"extensions":[{"uri":"`+a2a.IdempotencyExtension+`"}]`, 1)
	for name, tt := range map[string]struct {
		card     string
		sends    func(id string, n int) string
		result   peer.Result
		yes      bool
		why      string
		canceled string
	}{
		"one task": {cardWith(""), func(string, int) string { return task("t") }, peer.ResultOK, true, "observed", "[t]"},
		"two tasks": {
			cardWith(""), func(_ string, n int) string { return task(fmt.Sprint("t", n)) },
			peer.ResultOK, false, "observed", "[t1 t2]",
		},
		"two tasks, and it declares that it does": {
			declares, func(_ string, n int) string { return task(fmt.Sprint("t", n)) },
			peer.ResultFailed, false, "observed", "[t1 t2]",
		},
		"the second one is refused": {cardWith(""), func(_ string, n int) string {
			if n > 1 {
				return `"error":{"code":-32602,"message":"I know it"}`
			}
			return task("t")
		}, peer.ResultOK, false, "observed", "[t]"},
		"the second one is not answered": {cardWith(""), func(_ string, n int) string {
			if n > 1 {
				return `"error":{"code":-32603,"message":"It broke"}`
			}
			return task("t")
		}, peer.ResultWarning, false, "", "[t]"},
		"the first one is refused": {cardWith(""), func(string, int) string { return `"error":{"code":-32602,"message":"No"}` }, peer.ResultFailed, false, "", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, tt.card)
			a.sends = tt.sends
			d := directory(t, `p: {card: "`+a.URL+`"}`)
			report, err := d.Check(t.Context(), "p", peer.User{})
			if err != nil || len(report.Steps) != 6 || len(a.sent) != 0 {
				t.Fatalf("a check that does not send is %+v, %v, and sent %v", report, err, a.sent)
			}
			report, err = d.CheckBySending(t.Context(), "p", peer.User{}, "Are you there?")
			if err != nil || len(report.Steps) != 7 {
				t.Fatalf("%+v, %v", report, err)
			}
			last := report.Steps[6]
			if last.Name != "deduplicates" || last.Result != tt.result || report.OK != (tt.result != peer.ResultFailed) {
				t.Errorf("%+v", last)
			}
			p, err := d.Get("p")
			if err != nil {
				t.Fatal(err)
			}
			if yes, why := p.Deduplicates(); yes != tt.yes || why != tt.why {
				t.Errorf("%t, %q", yes, why)
			}
			if got := fmt.Sprint(a.canceled); got != tt.canceled {
				t.Errorf("%s was canceled", got)
			}
		})
	}
}
