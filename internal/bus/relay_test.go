package bus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeLink is a link whose server is the test.
type fakeLink struct {
	mu    sync.Mutex
	err   error // what send answers
	stuck bool  // send waits for its context
	calls int
	lost  int // messages that say so
	got   map[string]int64
}

func (f *fakeLink) limit() int     { return headerSize + maxHint }
func (f *fakeLink) server() string { return "test:1" }
func (f *fakeLink) close()         {}

func (f *fakeLink) send(ctx context.Context, messages [][]byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(messages) > 0 {
		f.calls++
	}
	if f.stuck {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return ctx.Err()
	}
	if f.err != nil {
		return f.err
	}
	for _, b := range messages {
		m, err := decode(b)
		if err != nil {
			return err
		}
		if m.lost {
			f.lost++
		}
		for _, h := range m.hints {
			f.got[h.Task] = h.Seq
		}
	}
	return nil
}

// seen is what the server has got.
type seen struct {
	calls, lost int
	got         map[string]int64
}

func (f *fakeLink) seen() seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return seen{f.calls, f.lost, maps.Clone(f.got)}
}

func (f *fakeLink) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// startRelay starts a relay with a fake link, within a bubble of synctest.
func startRelay(t *testing.T, f *fakeLink, o Options) *relay {
	t.Helper()
	o.Cluster = "c"
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	f.got = map[string]int64{}
	r := newRelay("test", o, newReporter(o.Logger, "test", []string{"geheim"}))
	r.start(f)
	t.Cleanup(func() { r.Close() })
	return r
}

func TestHintsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLink{}
		r := startRelay(t, f, Options{})
		for _, h := range []Hint{{"", 1}, {"a", -1}, {strings.Repeat("a", 257), 1}, {"a\x00", 1}, {"\xff", 1}} {
			r.Publish(h)
		}
		r.Publish(Hint{"good", 1})
		time.Sleep(defaultWindow) // of the bubble; the first send may have begun it
		synctest.Wait()
		if diff := cmp.Diff(map[string]int64{"good": 1}, f.seen().got); diff != "" {
			t.Error(diff)
		}
		if s := r.State(); s.Dropped != 5 || s.Sent != 1 {
			t.Errorf("state %+v", s)
		}
	})
}

func TestHintsAreGatheredForAWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLink{}
		r := startRelay(t, f, Options{Window: time.Second})
		time.Sleep(time.Second) // of the clock of the bubble: the link is idle
		r.Publish(Hint{"a", 1})
		synctest.Wait()
		if f.seen().calls != 1 {
			t.Errorf("the first hint waits: %d calls", f.seen().calls)
		}
		for i := range int64(100) {
			r.Publish(Hint{"a", 100 - i}) // the highest comes first
		}
		synctest.Wait()
		if f.seen().calls != 1 {
			t.Errorf("%d calls within the window", f.seen().calls)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff(map[string]int64{"a": 100}, f.seen().got); f.seen().calls != 2 || diff != "" {
			t.Errorf("%d calls, %s", f.seen().calls, diff)
		}
		if s := r.State(); s.Sent != 2 {
			t.Errorf("state %+v", s)
		}
	})
}

func TestHintsWaitForTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLink{err: errors.New("away")}
		r := startRelay(t, f, Options{})
		r.mark(incoming, true)
		r.Publish(Hint{"a", 1})
		r.Publish(Hint{"b", 1})
		time.Sleep(time.Minute)
		r.Publish(Hint{"a", 2})
		synctest.Wait()
		if s := r.State(); s.Connected || s.Sent != 0 || s.Dropped != 0 {
			t.Errorf("state while away %+v", s)
		}
		if f.seen().calls > 30 {
			t.Errorf("%d attempts in a minute", f.seen().calls)
		}
		f.fail(nil)
		r.back()
		synctest.Wait()
		if diff := cmp.Diff(map[string]int64{"a": 2, "b": 1}, f.seen().got); diff != "" {
			t.Error(diff)
		}
		if s := r.State(); !s.Connected || !s.Since.Equal(time.Now()) || f.seen().lost != 0 {
			t.Errorf("state when back %+v, %d messages say that hints were lost", s, f.seen().lost)
		}
	})
}

func TestHintsAreDroppedUnderPressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLink{err: errors.New("away")}
		r := startRelay(t, f, Options{})
		synctest.Wait()
		for i := range maxWaiting + 10 {
			r.Publish(Hint{strconv.Itoa(i), 1})
		}
		r.Publish(Hint{"0", 2}) // has its place
		if s := r.State(); s.Dropped != 10 {
			t.Errorf("state %+v", s)
		}
		f.fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(f.seen().got) != maxWaiting || f.seen().got["0"] != 2 || f.seen().lost != 1 {
			t.Errorf("%d hints, sequence %d, %d messages say that hints were lost", len(f.seen().got), f.seen().got["0"], f.seen().lost)
		}
	})
}

func TestCloseSendsWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLink{}
		r := startRelay(t, f, Options{Window: time.Hour})
		synctest.Wait()
		r.Publish(Hint{"a", 1})
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		r.Publish(Hint{"late", 1})
		if diff := cmp.Diff(map[string]int64{"a": 1}, f.seen().got); diff != "" {
			t.Error(diff)
		}
		if s := r.State(); s.Dropped != 1 {
			t.Errorf("state %+v", s)
		}
	})
}

func TestCloseDoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLink{stuck: true}
		r := startRelay(t, f, Options{})
		r.Publish(Hint{"a", 1})
		synctest.Wait()
		began := time.Now()
		r.Close()
		if took := time.Since(began); took != closeTimeout {
			t.Errorf("closed after %s", took)
		}
		if s := r.State(); s.Dropped != 1 {
			t.Errorf("state %+v", s)
		}
	})
}

// hintsOf is a message of another node.
func hintsOf(hints map[string]int64, lost bool) []byte {
	var e encoder
	return e.encode(newSender(), hints, lost, maxMessage)[0]
}

func TestASlowOwnerHearsTheHighestSequence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		var heard [][]Hint
		r := startRelay(t, &fakeLink{}, Options{Heard: func(h []Hint) {
			heard = append(heard, h)
			<-goOn
		}})
		r.receive(hintsOf(map[string]int64{"a": 1}, false))
		synctest.Wait()
		for _, seq := range []int64{7, 9, 8} {
			r.receive(hintsOf(map[string]int64{"a": seq}, false))
		}
		close(goOn)
		synctest.Wait()
		if diff := cmp.Diff([][]Hint{{{"a", 1}}, {{"a", 9}}}, heard); diff != "" {
			t.Error(diff)
		}
		if s := r.State(); s.Heard != 4 {
			t.Errorf("state %+v", s)
		}
	})
}

func TestTooManyHintsAreAReasonToPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		heard, restored := 0, 0
		r := startRelay(t, &fakeLink{}, Options{
			Heard:    func(h []Hint) { heard += len(h); <-goOn },
			Restored: func() { restored++ },
		})
		r.receive(hintsOf(map[string]int64{"first": 1}, false))
		synctest.Wait()
		for i := range maxWaiting + 5 {
			r.receive(hintsOf(map[string]int64{strconv.Itoa(i): 1}, false))
		}
		close(goOn)
		synctest.Wait()
		if s := r.State(); heard != 1+maxWaiting || restored != 1 || s.Dropped != 5 {
			t.Errorf("%d heard, %d times restored, state %+v", heard, restored, s)
		}
	})
}

func TestRestoredIsCalledOnceASecondAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var restored atomic.Int64
		r := startRelay(t, &fakeLink{}, Options{Restored: func() { restored.Add(1) }})
		for i := range 100 {
			r.receive(hintsOf(nil, true)) // another node has lost hints, or says so
			synctest.Wait()
			if i == 0 && restored.Load() != 1 {
				t.Errorf("restored %d times after the first", restored.Load())
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if restored.Load() != 2 {
			t.Errorf("restored %d times, want 2", restored.Load())
		}
		r.restore()
		synctest.Wait()
		if restored.Load() != 3 {
			t.Errorf("restored %d times, want 3", restored.Load())
		}
	})
}

func TestMalformedMessagesAreCountedAndSeldomLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		heard := 0
		r := startRelay(t, &fakeLink{}, Options{
			Heard:  func(h []Hint) { heard += len(h) },
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		for range 1000 {
			r.receive([]byte("rubbish"))
		}
		r.receive(hintsOf(map[string]int64{"a": 1}, false))
		synctest.Wait()
		if s := r.State(); s.Malformed != 1000 || heard != 1 {
			t.Errorf("%d heard, state %+v", heard, s)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		time.Sleep(quiet)
		r.refuse(errors.New("geheim"))
		if n := strings.Count(log.String(), "\n"); n != 2 || strings.Contains(log.String(), "geheim") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}

func TestOwnHintsAreNotHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var heard []Hint
		r := startRelay(t, &fakeLink{}, Options{Heard: func(h []Hint) { heard = append(heard, h...) }})
		var e encoder
		r.receive(e.encode(r.self, map[string]int64{"own": 1}, true, maxMessage)[0])
		r.receive(hintsOf(map[string]int64{"other": 1}, false))
		synctest.Wait()
		if diff := cmp.Diff([]Hint{{"other", 1}}, heard); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPausesGrow(t *testing.T) {
	t.Parallel()
	for failed := 1; failed < 100; failed++ {
		full := lastPause
		if failed < 9 {
			full = firstPause << (failed - 1)
		}
		if d := pauseAfter(failed); d < full/2 || d > full {
			t.Errorf("after %d failures %s, want %s to %s", failed, d, full/2, full)
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	o := Options{Cluster: "c"}
	o.setDefaults()
	r := newRelay("test", o, newReporter(o.Logger, "test", nil))
	r.start(&fakeLink{got: map[string]int64{}})
	defer r.Close()
	tasks := make([]string, 256)
	for i := range tasks {
		tasks[i] = formatUUID([uuidSize]byte{byte(i)})
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		r.Publish(Hint{tasks[i%len(tasks)], int64(i)})
	}
}

func BenchmarkEncode(b *testing.B) {
	hints := map[string]int64{}
	for i := range 256 {
		hints[formatUUID([uuidSize]byte{byte(i)})] = int64(i)
	}
	var e encoder
	b.ReportAllocs()
	for b.Loop() {
		e.encode(sender{}, hints, false, natsMessage)
	}
}

func BenchmarkDecode(b *testing.B) {
	hints := map[string]int64{}
	for i := range 256 {
		hints[formatUUID([uuidSize]byte{byte(i)})] = int64(i)
	}
	m := hintsOf(hints, false)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(m); err != nil {
			b.Fatal(err)
		}
	}
}
