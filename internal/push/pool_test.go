package push

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

var alice, robert = party{"acme", "alice"}, party{"acme", "robert"}

// fill enters until there is no slot any more, and returns those that it got.
func fill(t *testing.T, p *pool, who party, to string) (slots []*slot) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it does not wait
	for {
		s, _ := p.enter(ctx, who, to)
		if s == nil {
			return slots
		}
		slots = append(slots, s)
	}
}

func TestPoolBoundsATarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(4, 100, time.Second)
		slots := fill(t, p, alice, "a")
		if len(slots) != 2 {
			t.Fatalf("an owner alone has %d slots", len(slots))
		}
		entered := make(chan *slot, 100)
		for range waitingPerSlot * 4 {
			go func() {
				s, _ := p.enter(t.Context(), alice, "a")
				entered <- s
			}()
		}
		synctest.Wait()
		if s, later := p.enter(t.Context(), alice, "a"); s != nil || later <= 0 {
			t.Errorf("one more than may wait: %v, %v", s, later)
		}
		other, _ := p.enter(t.Context(), alice, "b")
		if other == nil {
			t.Fatal("another target has to wait")
		}
		p.leave(other, true)
		p.leave(slots[0], true)
		third := <-entered
		if third == nil {
			t.Fatal("nobody got in after another had left")
		}
		// It does not answer any more: those who wait come again later, and it gets
		// one at a time.
		p.leave(slots[1], false)
		for range waitingPerSlot*4 - 1 {
			if <-entered != nil {
				t.Error("a target that does not answer got another")
			}
		}
		p.leave(third, false)
		again, _ := p.enter(t.Context(), alice, "a")
		if again == nil {
			t.Fatal("it is not tried any more")
		}
		if s, later := p.enter(t.Context(), alice, "a"); s != nil || later < 3*time.Second/2 {
			t.Errorf("a second one at once: %v, %v", s, later)
		}
		p.leave(again, true)
		if p.slots.taken != 0 || p.places.taken != 0 || len(p.queue) != 0 || len(p.lines) != 0 || len(p.targets) != 0 || len(p.owners) != 0 {
			t.Errorf("something is left: %+v", p)
		}
	})
}

func TestPoolSharesATarget(t *testing.T) {
	t.Parallel()
	p := newPool(8, 512, time.Second)
	hung := fill(t, p, robert, "h")
	if len(hung) != 4 {
		t.Errorf("an owner alone has %d of 8", len(hung))
	}
	mine := fill(t, p, alice, "h")
	if len(mine) == 0 {
		t.Fatal("another owner finds none free")
	}
	// Those of robert are not answered, and he is put off; she is not.
	for range 10 {
		p.leave(hung[0], false)
		hung = append(hung[1:], fill(t, p, robert, "h")...)
	}
	for _, s := range hung {
		p.leave(s, false)
	}
	if again := fill(t, p, robert, "h"); len(again) != 1 {
		t.Errorf("a target that does not answer its owner got %d", len(again))
	}
	for _, s := range mine {
		p.leave(s, true)
	}
	if mine = fill(t, p, alice, "h"); len(mine) < 3 {
		t.Errorf("%d of 8 for an owner who is answered, beside one who is not", len(mine))
	}
}

func TestPoolSharesTheNode(t *testing.T) {
	t.Parallel()
	p := newPool(8, 512, time.Second)
	var hung int
	for i := range 1500 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if s, _ := p.enter(ctx, robert, strconv.Itoa(i)); s != nil {
			hung++
		}
	}
	if hung != 256 {
		t.Errorf("an owner alone has %d of 512", hung)
	}
	if mine := fill(t, p, alice, "well"); len(mine) != 4 {
		t.Errorf("another one has %d of 8", len(mine))
	}
}

// The next free slot is that of the owner who has the fewest, whoever came
// before, and each of his targets gets its turn.
func TestPoolTakesTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(100, 4, time.Second)
		held := append(fill(t, p, robert, "x"), fill(t, p, party{"acme", "carol"}, "x")...)
		if len(held) != 3 {
			t.Fatalf("%d of 4 are held", len(held))
		}
		held = append(held, fill(t, p, party{"acme", "dave"}, "x")...)
		order := make(chan string, 10)
		wait := func(who party, to string) {
			go func() {
				if s, _ := p.enter(t.Context(), who, to); s != nil {
					order <- who.owner + to
					p.leave(s, true)
				}
			}()
			synctest.Wait()
		}
		for _, to := range []string{"x", "x", "y"} {
			wait(robert, to)
		}
		wait(alice, "x")
		p.leave(held[3], true)
		synctest.Wait()
		if first := <-order; first != "alicex" {
			t.Errorf("the first was %s", first)
		}
		for _, s := range held[:3] {
			p.leave(s, true)
			synctest.Wait() // two at once would say so in any order
		}
		if a, b, c := <-order, <-order, <-order; a+b+c != "robertxrobertyrobertx" && a+b+c != "robertyrobertxrobertx" {
			t.Errorf("then %s, %s and %s", a, b, c)
		}
	})
}

// What finds no place to wait comes again one after another.
func TestPoolSpreadsWhatItPutsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 1, time.Second)
		s, _ := p.enter(t.Context(), alice, "a")
		time.Sleep(10 * time.Second)
		p.leave(s, false)
		s, _ = p.enter(t.Context(), alice, "a")
		ctx, cancel := context.WithCancel(t.Context())
		for range placesPerSlot / 2 { // her share of the places
			go func() { _, _ = p.enter(ctx, alice, "b") }()
		}
		synctest.Wait()
		var last time.Duration
		for range 5 {
			_, last = p.enter(t.Context(), alice, "c")
		}
		if last < 20*time.Second || last > 30*time.Second {
			t.Errorf("the fifth comes after %v", last)
		}
		cancel()
		if _, later := p.enter(ctx, robert, "c"); later != time.Second {
			t.Errorf("somebody else comes after %v", later)
		}
		p.leave(s, true)
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "99999999999": 0, "Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:00:00 GMT": 0,
	} {
		if got := retryAfter(text, at); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	s := &Service{limits: Limits{}.withDefaults()}
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 100: 10 * time.Minute, 1 << 30: 10 * time.Minute} {
		if got := s.backoff(failures); got < want*3/4 || got > want*5/4 {
			t.Errorf("after %d failures %v, want about %v", failures, got, want)
		}
	}
}
