package upstream

import (
	"errors"
	"sync"
	"time"

	"handoff.example/handoff/internal/mcp"
)

// Circuit is the state of the circuit breaker of a server.
type Circuit string

// The states of a circuit breaker.
const (
	CircuitClosed Circuit = "closed"    // requests go to the server
	CircuitOpen   Circuit = "open"      // none do
	CircuitTrial  Circuit = "half-open" // one does, to see whether the server is back
)

// State is how a server is, for operators.
type State struct {
	Name      string
	Transport string // http or stdio
	Era       string // modern, legacy, or "" before the server was asked
	Revision  string // that is spoken; "" likewise
	Up        bool   // the last request was answered, or none was made
	Since     time.Time
	Circuit   Circuit
	Calls     int64 // that were begun
	Failures  int   // in a row
	Processes []Process
	Sessions  int // legacy, over HTTP
	LastError string
	ErrorAt   time.Time
}

// Process is a process of a server.
type Process struct {
	PID     int
	Caller  string // whose it is; "": everybody's
	Started time.Time
	Calls   int // under way
}

// health counts what goes wrong with a server, and keeps requests from one that
// does not answer.
type health struct {
	failures int // after which the circuit opens; 0: never
	pause    time.Duration
	now      func() time.Time

	mu       sync.Mutex
	era      string
	revision string
	up       bool
	since    time.Time
	calls    int64
	inRow    int
	openTill time.Time
	trial    bool
	last     string
	lastAt   time.Time
}

func newHealth(failures int, pause time.Duration, now func() time.Time) *health {
	return &health{failures: failures, pause: pause, now: now, up: true, since: now()}
}

var errCircuit = errors.New("the server has failed too often and is left alone for a while")

// enter lets a request through, or refuses it. Who is let through calls leave.
func (h *health) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failures > 0 && h.inRow >= h.failures {
		if h.now().Before(h.openTill) || h.trial {
			return errCircuit
		}
		h.trial = true
	}
	h.calls++
	return nil
}

// answered says that the server has answered.
func (h *health) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inRow, h.trial = 0, false
	if !h.up {
		h.up, h.since = true, h.now()
	}
}

// gone says that nobody waits for the answer any more.
func (h *health) gone() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trial = false
}

// failed says that the server did not answer as it should.
func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inRow++
	h.trial = false
	h.last, h.lastAt = clip(err.Error(), 500), h.now()
	if h.up {
		h.up, h.since = false, h.now()
	}
	h.openTill = h.now().Add(h.pause)
}

// speaks says which revision the server speaks.
func (h *health) speaks(revision string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.revision, h.era = revision, "legacy"
	if mcp.IsModern(revision) {
		h.era = "modern"
	}
}

func (h *health) state() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := State{
		Era: h.era, Revision: h.revision, Up: h.up, Since: h.since, Circuit: CircuitClosed,
		Calls: h.calls, Failures: h.inRow, LastError: h.last, ErrorAt: h.lastAt,
	}
	if h.failures > 0 && h.inRow >= h.failures {
		s.Circuit = CircuitOpen
		if !h.now().Before(h.openTill) {
			s.Circuit = CircuitTrial
		}
	}
	return s
}
