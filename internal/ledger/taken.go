package ledger

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// ReceivedError says that a peer has sent more for a delegation than is taken.
type ReceivedError struct {
	Peer  string
	Limit int64
	What  string // bytes or events
}

// Error names the limit.
func (e *ReceivedError) Error() string {
	return fmt.Sprintf("the peer %s sent more than %d %s for this task (limit: peers.%s.received_%s)", e.Peer, e.Limit, e.What, e.Peer, e.What)
}

// How much is taken before the count is written down: what a crash may forget.
const (
	countEvents = 200
	countBytes  = 1 << 20
)

// count counts a step that is about to be emitted, over the life of the
// delegation.
func (w *work) count(s *agent.Step) error {
	n := stepBytes(s)
	if n == 0 {
		return nil
	}
	w.mem.Events++
	w.mem.Bytes += n
	switch {
	case w.mem.Events > w.link.ReceivedEvents && w.link.ReceivedEvents > 0:
		return &ReceivedError{Peer: w.d.Peer, Limit: w.link.ReceivedEvents, What: "events"}
	case w.mem.Bytes > w.link.ReceivedBytes && w.link.ReceivedBytes > 0:
		return &ReceivedError{Peer: w.d.Peer, Limit: w.link.ReceivedBytes, What: "bytes"}
	}
	return nil
}

// note writes the count down, if it is time, or at the end of a turn.
func (w *work) note(s *agent.Step) error {
	events, bytes := w.mem.Events-w.noted.Events, w.mem.Bytes-w.noted.Bytes
	if s.Terminal() || events == 0 || !s.Ends() && events < countEvents && bytes < countBytes {
		return nil
	}
	return w.remember()
}

// remember writes the private state of the delegation.
func (w *work) remember() error {
	state, err := json.Marshal(w.mem)
	if err != nil {
		return err
	}
	w.noted = w.mem
	return w.t.SetState(state)
}

// exceeded ends a delegation whose peer has sent too much. The engine lets it be
// told to cancel.
func (w *work) exceeded(ctx context.Context, limit *ReceivedError) error {
	w.d.Error, w.d.Channel = limit.Error(), store.ChannelNone
	if err := w.save(ctx, nil); err != nil {
		return err
	}
	if err := w.t.Fail("The limit was reached: " + limit.Error() + ". The peer is told to cancel."); err != nil {
		return err
	}
	w.over = true
	return nil
}

// stepBytes is how much of a peer's a step holds.
func stepBytes(s *agent.Step) int64 {
	var n int
	for _, c := range [...]*agent.Content{s.Working, s.Message, s.Complete, s.Fail, s.Reject} {
		if c != nil {
			n += contentBytes(c)
		}
	}
	if a := s.Artifact; a != nil {
		n += partsBytes(a.Parts) + len(a.Metadata) + len(a.ID) + len(a.Name) + len(a.Description)
	}
	if s.Ask != nil {
		n += contentBytes(&s.Ask.Content) + len(s.Ask.Schema)
	}
	if s.Authorize != nil {
		n += contentBytes(&s.Authorize.Content)
	}
	return int64(n)
}

func contentBytes(c *agent.Content) int { return partsBytes(c.Parts) + len(c.Metadata) }

func partsBytes(parts []a2a.Part) int {
	n := 0
	for i := range parts {
		p := &parts[i]
		n += len(p.Text) + len(p.Raw) + len(p.URL) + len(p.Data) + len(p.Metadata) + len(p.Filename) + len(p.MediaType)
	}
	return n
}
