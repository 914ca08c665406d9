package bustest_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ear collects what a node hears.
type ear struct {
	mu    sync.Mutex
	hints []bus.Hint
}

func (e *ear) hear(hints []bus.Hint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hints = append(e.hints, hints...)
}

// publish has the first of three nodes publish, and returns what each has heard.
func publish(t *testing.T, h *bustest.Hub, hints []bus.Hint) (heard [3][]bus.Hint, buses [3]bus.Bus) {
	t.Helper()
	var ears [3]ear
	for i := range ears {
		buses[i] = h.Join(ears[i].hear)
		t.Cleanup(func() {
			for range 2 {
				if err := buses[i].Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, hint := range hints {
		buses[0].Publish(hint)
	}
	h.Settle()
	for i := range ears {
		ears[i].mu.Lock()
		heard[i] = ears[i].hints
		ears[i].mu.Unlock()
	}
	return heard, buses
}

func sequence(n int) (hints []bus.Hint) {
	for i := range n {
		hints = append(hints, bus.Hint{Task: fmt.Sprint("t", i%7), Seq: int64(i)})
	}
	return hints
}

func TestAPerfectHub(t *testing.T) {
	t.Parallel()
	hints := sequence(1000)
	h := bustest.New()
	heard, buses := publish(t, h, hints)
	if diff := cmp.Diff([3][]bus.Hint{nil, hints, hints}, heard); diff != "" {
		t.Error(diff)
	}
	if h.Dropped() != 0 {
		t.Errorf("%d dropped", h.Dropped())
	}
	// A node that has left hears nothing and says nothing.
	buses[1].Close()
	buses[1].Publish(bus.Hint{Task: "late"})
	buses[0].Publish(bus.Hint{Task: "late"})
	h.Settle()
}

func TestAHostileHub(t *testing.T) {
	t.Parallel()
	hints := sequence(10_000)
	of := func(f bustest.Faults) ([3][]bus.Hint, int) {
		h := bustest.Hostile(f)
		heard, _ := publish(t, h, hints)
		return heard, h.Dropped()
	}
	count := func(hints []bus.Hint) map[bus.Hint]int {
		n := map[bus.Hint]int{}
		for _, h := range hints {
			n[h]++
		}
		return n
	}
	equal := func(a, b [3][]bus.Hint) bool { return slices.EqualFunc(a[:], b[:], slices.Equal) }
	about := func(what string, n, want int) {
		t.Helper()
		if n < want*9/10 || n > want*11/10 {
			t.Errorf("%s: %d, want about %d", what, n, want)
		}
	}

	lossy, dropped := of(bustest.Faults{Seed: 1, Loss: 0.2})
	about("heard with loss", len(lossy[1]), 8000)
	if len(lossy[0]) != 0 || len(lossy[1])+len(lossy[2])+dropped != 20_000 {
		t.Errorf("%d own, %d and %d heard, %d dropped", len(lossy[0]), len(lossy[1]), len(lossy[2]), dropped)
	}
	again, _ := of(bustest.Faults{Seed: 1, Loss: 0.2})
	if !equal(lossy, again) {
		t.Error("the same seed loses other hints")
	}
	other, _ := of(bustest.Faults{Seed: 2, Loss: 0.2})
	if equal(lossy, other) {
		t.Error("another seed loses the same hints")
	}

	repeated, _ := of(bustest.Faults{Repeat: 0.5})
	about("heard with repeats", len(repeated[2]), 15_000)
	if n := len(count(repeated[2])); n != len(hints) {
		t.Errorf("%d different hints", n)
	}

	reordered, _ := of(bustest.Faults{Reorder: 0.3})
	if slices.Equal(reordered[1], hints) {
		t.Error("the order is kept")
	}
	if !maps.Equal(count(hints), count(reordered[1])) {
		t.Error("hints that are reordered are lost or repeated")
	}

	all, _ := of(bustest.Faults{Seed: 3, Loss: 0.5, Repeat: 0.5, Reorder: 1})
	about("heard of all faults", len(all[1]), 7500)
}
