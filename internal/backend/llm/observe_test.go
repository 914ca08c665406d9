package llm_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
)

// observer keeps what it is told.
type observer struct {
	mu  sync.Mutex
	all []string
}

func (o *observer) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprintf(format, args...))
}

func (o *observer) told() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all)
}

func (o *observer) ModelCall(agent, model, outcome string, took time.Duration) {
	o.add("%s %s %s %v", agent, model, outcome, took >= 0)
}

func (o *observer) ModelUsed(agent, model string, input, output int64, cost float64) {
	o.add("%s %s used %v %v", agent, model, input > 0 && output > 0, cost > 0)
}

func (o *observer) ModelBudget(agent, limit string) { o.add("%s reached %s", agent, limit) }

// The metrics hear of each call, of what it has used, and of the limit that ends a task.
func TestObserver(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), "limits: {model_calls: 2}", func(r *modelRequest) reply {
		if r.N == 1 {
			return reply{status: 429, header: map[string]string{"Retry-After-Ms": "1"}}
		}
		return reply{calls: []call{{"", "erp_stock", fmt.Sprintf(`{"n":%d}`, r.N)}}}
	})
	if got := b.send("", "Buy"); got.Status.State != a2a.StateFailed {
		t.Fatalf("got %s", got.AppendJSON(nil))
	}
	want := []string{"a m-1 busy true", "a m-1 used true true", "a m-1 ok true", "a m-1 used true true", "a m-1 ok true", "a reached model_calls"}
	if diff := cmp.Diff(want, b.seen.told()); diff != "" {
		t.Error(diff)
	}
}
