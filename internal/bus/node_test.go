package bus_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/internal/bus"
)

// node is a bus and what comes of it.
type node struct {
	bus.Reporter
	heard    chan bus.Hint
	restored chan struct{}
	log      *journal
}

// patience is how long a test waits for what has to come.
const patience = 20 * time.Second

// startNode starts a node with one of the constructors.
func startNode(t testing.TB, cluster string, construct func(context.Context, bus.Options) (bus.Bus, error)) *node {
	t.Helper()
	n := &node{
		heard:    make(chan bus.Hint, 1<<15),
		restored: make(chan struct{}, 100),
		log:      &journal{line: make(chan struct{}, 1)},
	}
	b, err := construct(t.Context(), bus.Options{
		Cluster: cluster,
		Heard: func(hints []bus.Hint) {
			for _, h := range hints {
				n.heard <- h
			}
		},
		Restored: func() { n.restored <- struct{}{} },
		Logger:   slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Reporter = b.(bus.Reporter)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// hears waits for a hint, and fails on others.
func (n *node) hears(t testing.TB, want bus.Hint) {
	t.Helper()
	select {
	case got := <-n.heard:
		if got != want {
			t.Fatalf("heard %v, want %v", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("does not hear %v: %+v\n%s", want, n.State(), n.log)
	}
}

// isRestored waits for a call of Restored.
func (n *node) isRestored(t testing.TB) {
	t.Helper()
	select {
	case <-n.restored:
	case <-time.After(patience):
		t.Fatalf("is not restored: %+v\n%s", n.State(), n.log)
	}
}

// journal is the log of a node.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
	line chan struct{} // something was written
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case j.line <- struct{}{}:
	default:
	}
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// says waits until the log contains a text.
func (j *journal) says(t testing.TB, text string) {
	t.Helper()
	j.repeats(t, text, 1)
}

// repeats waits until the log contains a text so many times.
func (j *journal) repeats(t testing.TB, text string, times int) {
	t.Helper()
	late := time.After(patience)
	for strings.Count(j.String(), text) < times {
		select {
		case <-j.line:
		case <-late:
			t.Fatalf("the log does not say %q:\n%s", text, j)
		}
	}
}

// hidesAll fails when the log contains a secret.
func (j *journal) hidesAll(t testing.TB, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		if strings.Contains(j.String(), s) {
			t.Errorf("the log contains %q:\n%s", s, j)
		}
	}
}
