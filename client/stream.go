package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/sse"
)

// settleTime is how long a peer may keep a stream open after its last event.
const settleTime = 5 * time.Second

// decodeEvent reads an event. Its errors are an *a2a.Error when the peer says one.
type decodeEvent func(frame []byte, memory *a2a.Memory, out *a2a.StreamResponse) error

// Stream is the events of a task, as the agent makes them (A2A §3.5.2). It is
// not for use by several goroutines, except Close.
//
// A stream holds a connection until Next returned an error, Close was called or
// a loop over All ended.
type Stream struct {
	client *Client
	source *eventSource // nil for a stream of one event that is here already
	decode decodeEvent
	memory a2a.Memory
	fail   func(kind Kind, err error) *TransportError
	// refused returns the error that the peer ended the stream with, or nil when
	// err is not one; nil where errors come as events.
	refused func(err error) *a2a.Error
	single  *a2a.StreamResponse

	err    error  // what every further Next returns
	lastID string // that the stream was to begin after
	began  bool   // an event came
	taskID string
	state  a2a.TaskState
	ended  bool // a message or a terminal state came
}

// Next waits for the next event and returns it. The error is
//
//   - io.EOF after a message, or when the stream ended in a terminal or
//     interrupted state;
//   - a *StreamCutError when it ended before;
//   - an *a2a.Error when the peer sent one;
//   - a *TransportError when the peer sent something else, or the context of
//     the call ended;
//   - net.ErrClosed after Close.
//
// The event is the caller's to keep: it shares nothing but texts with those before.
// That is all that it costs; a stream whose events are let go does without by Read.
//
// A task in an interrupted state may keep its stream open: whoever waits for
// the end of a turn looks at State and does not wait for io.EOF.
func (s *Stream) Next() (*a2a.StreamResponse, error) {
	e := new(a2a.StreamResponse)
	if err := s.read(e, false); err != nil {
		return nil, err
	}
	return e, nil
}

// Read is Next into an event of the caller. It writes over what the event held
// before, so that a long stream whose events are looked at and let go costs next
// to no memory: what should outlast the next Read has to be copied.
func (s *Stream) Read(e *a2a.StreamResponse) error { return s.read(e, true) }

func (s *Stream) read(e *a2a.StreamResponse, reuse bool) error {
	if s.err != nil {
		return s.err
	}
	s.memory.Reuse = reuse
	err := s.next(e)
	if err == nil {
		err = s.own(e)
	}
	if err != nil {
		s.err = err
		s.Close()
		return err
	}
	s.observe(e)
	return nil
}

// own refuses an event of another task than the stream is about.
func (s *Stream) own(e *a2a.StreamResponse) error {
	id := s.taskID
	switch {
	case e.Task != nil:
		id = e.Task.ID
	case e.StatusUpdate != nil:
		id = e.StatusUpdate.TaskID
	case e.ArtifactUpdate != nil:
		id = e.ArtifactUpdate.TaskID
	}
	if s.taskID != "" && id != s.taskID {
		return s.fail(KindProtocol, fmt.Errorf("%w: %q instead of %q", errOtherTask, id, s.taskID))
	}
	return nil
}

func (s *Stream) next(e *a2a.StreamResponse) error {
	if s.single != nil {
		*e = *s.single
		s.single = nil
		return nil
	}
	if s.source == nil {
		return s.atEnd(nil)
	}
	for {
		frame, err := s.source.reader.Next()
		if err != nil {
			return s.readFailed(err)
		}
		s.began = true
		if len(bytes.TrimSpace(frame.Data)) == 0 {
			continue
		}
		if err := s.decode(frame.Data, &s.memory, e); err != nil {
			return s.frameFailed(frame, err)
		}
		if holdsEvent(e) {
			return nil
		}
	}
}

// frameFailed returns the error of a frame that is an error or no event.
func (s *Stream) frameFailed(frame sse.Event, err error) error {
	if s.ended {
		return io.EOF
	}
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return e
	}
	if frame.Unfinished {
		return s.atEnd(s.fail(KindConnect, io.ErrUnexpectedEOF))
	}
	return s.fail(KindProtocol, &DecodeError{fmt.Errorf("decode event: %w", err)})
}

// readFailed returns the error of a stream that cannot be read further.
func (s *Stream) readFailed(err error) error {
	ctx := s.source.ctx
	if s.refused != nil && !s.ended {
		if e := s.refused(err); e != nil {
			return e
		}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, net.ErrClosed):
		return net.ErrClosed
	case s.ended || err == io.EOF:
		return s.atEnd(nil)
	case errors.Is(cause, errIdle):
		return s.atEnd(s.fail(KindTimeout, errIdle))
	case errors.Is(err, sse.ErrTooLarge):
		return s.fail(KindProtocol, fmt.Errorf("%w: one event has more than %d bytes", ErrTooLarge, s.source.reader.Limit()))
	case corrupt(err) || errors.Is(err, errBadFrame):
		return s.fail(KindProtocol, err)
	}
	kind, cause := classify(ctx, err)
	if ctx.Err() != nil {
		return s.fail(kind, cause)
	}
	return s.atEnd(s.fail(KindConnect, cause))
}

// atEnd says whether the stream may end here. A broken connection is never the
// proper end of a stream that could have gone on.
func (s *Stream) atEnd(cause *TransportError) error {
	if s.ended || cause == nil && s.state.Interrupted() {
		return io.EOF
	}
	cut := &StreamCutError{TaskID: s.taskID, LastEventID: s.LastEventID()}
	if cause != nil {
		cut.Err = cause
	}
	return cut
}

// observe keeps what Resume and the end of the stream need.
func (s *Stream) observe(e *a2a.StreamResponse) {
	switch {
	case e.Task != nil:
		s.taskID, s.state = e.Task.ID, e.Task.Status.State
	case e.StatusUpdate != nil:
		s.taskID, s.state = e.StatusUpdate.TaskID, e.StatusUpdate.Status.State
	case e.ArtifactUpdate != nil && s.taskID == "":
		s.taskID = e.ArtifactUpdate.TaskID
	case e.Message != nil:
		s.ended = true
	}
	if s.state.Terminal() {
		s.ended = true
	}
	if s.ended && s.source != nil {
		s.source.settle()
	}
}

// All returns the remaining events and closes the stream when the loop over
// them ends. An error of Next is the last pair, io.EOF is not.
func (s *Stream) All() iter.Seq2[*a2a.StreamResponse, error] {
	return func(yield func(*a2a.StreamResponse, error) bool) {
		defer s.Close()
		for {
			e, err := s.Next()
			if err == io.EOF || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// TaskID returns the id of the task, or "" when no event has named it.
func (s *Stream) TaskID() string { return s.taskID }

// State returns the state that the task had in the last event that told it.
func (s *Stream) State() a2a.TaskState { return s.state }

// LastEventID returns the id of the last event, or "" when the peer sends none.
func (s *Stream) LastEventID() string {
	if s.began {
		return s.source.reader.LastEventID()
	}
	return s.lastID
}

// RetryDelay returns how long the peer asks to wait before the stream is opened
// again, or zero.
func (s *Stream) RetryDelay() time.Duration {
	if s.source == nil {
		return 0
	}
	return s.source.reader.Retry()
}

// Close ends the stream. The task goes on. It may be called at any time, also
// while Next waits, and more than once.
func (s *Stream) Close() error {
	if s.source != nil {
		s.source.close()
	}
	return nil
}

// Resume closes the stream and subscribes to its task again (A2A §3.1.6). It
// sends the id of the last event as Last-Event-ID: a peer that knows the header
// goes on after that event, any other begins with the Task, whose state then
// holds everything that was missed. Task.Apply and Accumulator do right by both.
func (s *Stream) Resume(ctx context.Context) (*Stream, error) {
	s.Close()
	if s.taskID == "" {
		return nil, errors.New("resume stream: no event has named the task")
	}
	next, err := s.client.SubscribeAfter(ctx, &a2a.SubscribeToTaskRequest{ID: s.taskID}, s.LastEventID())
	if err != nil {
		return nil, err
	}
	next.taskID, next.state = s.taskID, s.state
	return next, nil
}

// frameReader reads the events of a stream from its connection.
type frameReader interface {
	// Next returns the next event, or io.EOF at the proper end of the stream.
	Next() (sse.Event, error)
	LastEventID() string
	Retry() time.Duration // that the peer asks for; zero when it does not
	Limit() int           // bytes of one event
}

// eventSource is the connection of a stream.
type eventSource struct {
	reader frameReader
	body   io.ReadCloser // nil until the answer begins
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   *idleTimer
}

// newEventSource returns a connection that is to be opened in its context. The
// idle timeout runs from now on.
func newEventSource(ctx context.Context, idle time.Duration) *eventSource {
	s := &eventSource{}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.idle = newIdleTimer(idle, s.cancel)
	return s
}

func (s *eventSource) close() {
	s.cancel(net.ErrClosed)
	s.idle.stop()
	if s.body != nil {
		s.body.Close()
	}
}

// settle gives the peer a moment to end the stream by itself, so that the
// connection can be used again.
func (s *eventSource) settle() { s.idle.settle(settleTime) }

// Read reads from the connection under the idle timeout.
func (s *eventSource) Read(p []byte) (int, error) {
	s.idle.start()
	n, err := s.body.Read(p)
	s.idle.pause()
	return n, err
}

// idleTimer cancels a request when nothing comes for a while.
type idleTimer struct {
	timer   *time.Timer
	after   time.Duration // not positive: no limit
	settled bool          // one last limit runs
}

func newIdleTimer(after time.Duration, cancel context.CancelCauseFunc) *idleTimer {
	t := &idleTimer{after: after}
	t.timer = time.AfterFunc(max(after, settleTime), func() { cancel(errIdle) })
	t.timer.Stop()
	t.start()
	return t
}

func (t *idleTimer) start() {
	if t.after > 0 && !t.settled {
		t.timer.Reset(t.after)
	}
}

func (t *idleTimer) pause() {
	if !t.settled {
		t.timer.Stop()
	}
}

func (t *idleTimer) settle(last time.Duration) {
	if t.settled {
		return
	}
	t.settled = true
	if t.after > 0 {
		last = min(last, t.after)
	}
	t.timer.Reset(last)
}

func (t *idleTimer) stop() { t.timer.Stop() }

// disable takes the limit away.
func (t *idleTimer) disable() {
	t.stop()
	t.after = -1
}

// openStream sends the request and waits for the head of the answer. Until then
// an error is that of an ordinary call.
func (l *link) openStream(ctx context.Context, c *call, do func(context.Context, *call) (*http.Response, error), decode decodeEvent) (*Stream, error) {
	source := newEventSource(ctx, l.opts.IdleTimeout)
	s, err := l.receiveStream(source, c, do, decode)
	if err != nil || s.single != nil {
		source.close()
		return s, err
	}
	source.idle.pause()
	return s, nil
}

func (l *link) receiveStream(source *eventSource, c *call, do func(context.Context, *call) (*http.Response, error), decode decodeEvent) (*Stream, error) {
	ctx := source.ctx
	resp, err := do(ctx, c)
	if err != nil {
		return nil, err
	}
	if !success(resp) {
		return nil, l.statusError(ctx, c, resp)
	}
	s := &Stream{
		decode: decode,
		fail:   func(kind Kind, err error) *TransportError { return l.fail(c, kind, true, err) },
	}
	if answerType(resp) == mediaEvents {
		source.body = resp.Body
		source.reader = sse.New(source, l.opts.MaxFrame)
		s.source = source
		return s, nil
	}
	// A peer that does not stream answers with the result alone: a stream of
	// one event, or an error.
	body, err := l.readBody(ctx, c, resp, l.opts.MaxResponse)
	if err != nil {
		return nil, err
	}
	e := new(a2a.StreamResponse)
	err = decode(body, nil, e)
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return nil, e
	}
	if err == nil && !holdsEvent(e) {
		err = errors.New("the answer is neither a stream nor a task or message")
	}
	if err != nil {
		return nil, l.badAnswer(c, resp, describe(resp, body, err))
	}
	s.single = e
	return s, nil
}

// lastEventHeader returns the header that asks for the events after id.
func lastEventHeader(id string) http.Header {
	if id == "" || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7F }) {
		return nil
	}
	return http.Header{"Last-Event-Id": {id}}
}
