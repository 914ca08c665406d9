package push

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPoolBoundsATarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(2, 100, time.Second)
		for range 2 {
			if in, _ := p.enter(t.Context(), "a"); !in {
				t.Fatal("there is no place")
			}
		}
		entered := make(chan bool, 100)
		for range 16 {
			go func() {
				in, _ := p.enter(t.Context(), "a")
				entered <- in
			}()
		}
		synctest.Wait()
		if in, later := p.enter(t.Context(), "a"); in || later <= 0 {
			t.Errorf("one more than may wait: %v, %v", in, later)
		}
		if in, _ := p.enter(t.Context(), "b"); !in {
			t.Error("another target has to wait")
		}
		p.leave("b", true)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if in, _ := p.enter(ctx, "a"); in {
			t.Error("a caller who is gone got in")
		}
		p.leave("a", true)
		if !<-entered {
			t.Error("nobody got in after another had left")
		}
		// It does not answer any more: those who wait come again later, and it gets
		// one at a time.
		p.leave("a", false)
		for range 15 {
			if <-entered {
				t.Error("a target that does not answer got another")
			}
		}
		p.leave("a", false)
		if in, _ := p.enter(t.Context(), "a"); !in {
			t.Error("it is not tried any more")
		}
		if in, later := p.enter(t.Context(), "a"); in || later < 3*time.Second/2 {
			t.Errorf("a second one at once: %v, %v", in, later)
		}
		p.leave("a", true)
		if p.taken != 0 || len(p.targets) != 0 {
			t.Errorf("%d places are taken, %d targets are known", p.taken, len(p.targets))
		}
	})
}

func TestPoolBoundsTheNode(t *testing.T) {
	t.Parallel()
	p := newPool(2, 2, time.Second)
	for _, name := range []string{"a", "b"} {
		if in, _ := p.enter(t.Context(), name); !in {
			t.Fatal("there is no place")
		}
	}
	if in, later := p.enter(t.Context(), "c"); in || later <= 0 {
		t.Error("there is a place")
	}
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
