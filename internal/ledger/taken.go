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

// received counts one thing that the peer has sent, over the life of the
// delegation, whether it is news or not, and writes the count down when it is
// time. A *ReceivedError says that it was one too many.
func (w *work) received(bytes int64) error {
	w.mem.Events++
	if err := w.receivedBytes(bytes); err != nil {
		return err
	}
	if w.mem.Events-w.noted.Events < countEvents && w.mem.Bytes-w.noted.Bytes < countBytes {
		return nil
	}
	if err := w.remember(); err != nil {
		return err
	}
	return w.t.Flush()
}

// streamed counts an event of a stream. Of a task that we have asked for, as the
// first one is, the artifacts count when they are not what is here already.
func (w *work) streamed(e *a2a.StreamResponse, first bool) error {
	if w.counted = e.Task != nil && !first; e.Task != nil && first {
		return w.received(taskBytes(e.Task))
	}
	return w.received(eventBytes(e))
}

// receivedBytes counts more of what was received last.
func (w *work) receivedBytes(bytes int64) error {
	w.mem.Bytes += bytes
	return w.within()
}

// within returns a *ReceivedError when the peer has sent too much.
func (w *work) within() error {
	switch {
	case w.link.ReceivedEvents > 0 && w.mem.Events > w.link.ReceivedEvents:
		return &ReceivedError{Peer: w.d.Peer, Limit: w.link.ReceivedEvents, What: "events"}
	case w.link.ReceivedBytes > 0 && w.mem.Bytes > w.link.ReceivedBytes:
		return &ReceivedError{Peer: w.d.Peer, Limit: w.link.ReceivedBytes, What: "bytes"}
	}
	return nil
}

// note writes the count down with the step that ends a turn.
func (w *work) note(s *agent.Step) error {
	if s.Terminal() || !s.Ends() || w.mem.Events == w.noted.Events {
		return nil
	}
	return w.remember()
}

// polled returns the private state of a delegation that has received one more
// answer, which is no news; over that the answer is one too many.
func (l *Ledger) polled(ctx context.Context, link *Link, d *store.Delegation, t *a2a.Task) (state a2a.JSON, over bool, err error) {
	state, err = l.opts.Store.Private(ctx, d.TaskKey)
	if err != nil {
		return nil, false, fmt.Errorf("read state: %w", err)
	}
	w := work{d: d, link: *link}
	if state != nil && json.Unmarshal(state, &w.mem) != nil {
		w.mem = memory{}
	}
	w.mem.Events, w.mem.Bytes = w.mem.Events+1, w.mem.Bytes+taskBytes(t)
	if w.within() != nil {
		return nil, true, nil
	}
	state, err = json.Marshal(w.mem)
	return state, false, err
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

// eventBytes is how much an event of a stream holds.
func eventBytes(e *a2a.StreamResponse) int64 {
	switch {
	case e.Task != nil:
		n := taskBytes(e.Task)
		for i := range e.Task.Artifacts {
			n += artifactBytes(&e.Task.Artifacts[i])
		}
		return n
	case e.Message != nil:
		return messageBytes(e.Message)
	case e.StatusUpdate != nil:
		return messageBytes(e.StatusUpdate.Status.Message) + int64(len(e.StatusUpdate.Metadata))
	case e.ArtifactUpdate != nil:
		return artifactBytes(&e.ArtifactUpdate.Artifact) + int64(len(e.ArtifactUpdate.Metadata))
	}
	return 0
}

// taskBytes is how much a task holds besides its artifacts.
func taskBytes(t *a2a.Task) int64 {
	n := messageBytes(t.Status.Message) + int64(len(t.Metadata))
	for i := range t.History {
		n += messageBytes(&t.History[i])
	}
	return n
}

func messageBytes(m *a2a.Message) int64 {
	if m == nil {
		return 0
	}
	return int64(partsBytes(m.Parts) + len(m.Metadata))
}

func artifactBytes(a *a2a.Artifact) int64 {
	return int64(partsBytes(a.Parts) + len(a.Metadata) + len(a.ArtifactID) + len(a.Name) + len(a.Description))
}

func partsBytes(parts []a2a.Part) int {
	n := 0
	for i := range parts {
		p := &parts[i]
		n += len(p.Text) + len(p.Raw) + len(p.URL) + len(p.Data) + len(p.Metadata) + len(p.Filename) + len(p.MediaType)
	}
	return n
}
