package wire

import (
	"strconv"
	"sync"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
)

// LimitStreams is the name of the limit on open streams, under a2a.MetadataLimit.
const LimitStreams = "streams"

// Streams counts the open streams of each caller. It outlives the handlers that
// count with it, so that a stream counts until it ends. It is safe for concurrent
// use.
type Streams struct {
	mu   sync.Mutex
	open map[string]int
}

// NewStreams returns a count of no streams.
func NewStreams() *Streams { return &Streams{open: map[string]int{}} }

// enter counts one more stream of a caller, and reports false when it has limit of
// them; 0 is no limit.
func (s *Streams) enter(owner string, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit > 0 && s.open[owner] >= limit {
		return false
	}
	s.open[owner]++
	return true
}

func (s *Streams) leave(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[owner]--; s.open[owner] == 0 {
		delete(s.open, owner)
	}
}

// streamOwner names the caller; anonymous ones by where they are.
func streamOwner(x *exchange) string {
	if !x.caller.Named() {
		return auth.Peer(x.caller.Address)
	}
	return x.caller.Tenant + "\x00" + x.caller.Subject
}

func (x *exchange) enterStream() error {
	limit := x.h.opts.Streams
	if x.h.streams.enter(streamOwner(x), limit) {
		return nil
	}
	return &a2a.Error{
		Code:       a2a.CodeResourceExhausted,
		Message:    "You have as many open streams as you may have (" + strconv.Itoa(limit) + "); close one, or poll",
		RetryAfter: 5 * time.Second,
		Metadata:   map[string]string{a2a.MetadataLimit: LimitStreams},
	}
}
