package ledger

import (
	"context"
	"errors"
	"io"
	"time"

	"handoff.example/handoff/a2a"
)

// fed is one event of a feed, or what ended it.
type fed struct {
	event *a2a.StreamResponse
	err   error // io.EOF: the stream ended properly
}

// feed reads a stream in a goroutine of its own, so that it can be waited for
// together with other things.
type feed struct {
	events chan fed
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// stream is a client.Stream, or the single answer of a peer that does not stream.
type stream interface {
	Next() (*a2a.StreamResponse, error)
	Close() error
}

// single is a stream of one event.
type single struct{ event *a2a.StreamResponse }

func (s *single) Next() (*a2a.StreamResponse, error) {
	e := s.event
	if s.event = nil; e == nil {
		return nil, io.EOF
	}
	return e, nil
}

func (s *single) Close() error { return nil }

// newFeed opens a stream and reads it until it ends or the feed is closed.
func newFeed(ctx context.Context, open func(context.Context) (stream, error)) *feed {
	ctx, cancel := context.WithCancelCause(ctx)
	f := &feed{events: make(chan fed), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.read(ctx, open)
	}()
	return f
}

func (f *feed) read(ctx context.Context, open func(context.Context) (stream, error)) {
	give := func(e fed) bool {
		select {
		case f.events <- e:
			return true
		case <-ctx.Done():
			return false
		}
	}
	s, err := open(ctx)
	if err != nil {
		give(fed{err: err})
		return
	}
	defer s.Close()
	for {
		e, err := s.Next()
		if !give(fed{e, err}) || err != nil {
			return
		}
	}
}

// close ends the feed and waits for its goroutine.
func (f *feed) close(reason error) {
	f.cancel(reason)
	<-f.done
}

// hintWait is how long a stream may take to bring what a push has announced.
const hintWait = time.Second

// pass says how following a stream ended.
type pass int8

const (
	passCut   pass = iota // it ended before the task did
	passOver              // the step that ends the turn was emitted
	passQuiet             // no event came for a while
	passNews              // a message has come in
	passLie               // the peer spoke of something else
)

// follows takes over the events of a feed until it or the turn ends. It returns
// how many came, and with passCut why.
func (w *work) follows(ctx context.Context, f *feed) (how pass, events int, err error) {
	quiet := time.NewTimer(w.link.Quiet)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return passCut, events, context.Cause(ctx)
		case <-quiet.C:
			return passQuiet, events, nil
		case <-w.book.News():
			if unread, err := w.unread(); err != nil || unread {
				return passNews, events, err
			}
			// A push: the stream should bring it too, in a moment.
			quiet.Reset(min(w.link.Quiet, hintWait))
		case e := <-f.events:
			if e.err != nil {
				if errors.Is(e.err, io.EOF) {
					return passCut, events, nil
				}
				return passCut, events, e.err
			}
			events++
			quiet.Reset(w.link.Quiet)
			w.heard(ctx)
			if err := w.streamed(e.event, events == 1); err != nil {
				return passCut, events, err
			}
			if how, err := w.takes(ctx, e.event); err != nil || how != passCut {
				return how, events, err
			}
			if w.d.RemoteState != w.savedState || time.Since(w.saved) > seenEvery {
				if err := w.save(ctx, nil); err != nil {
					return passCut, events, err
				}
			}
		}
	}
}

// takes takes over one event. A lie is shown, and ends the stream.
func (w *work) takes(ctx context.Context, e *a2a.StreamResponse) (pass, error) {
	err := w.event(ctx, e)
	if lie, ok := errors.AsType[*IdentityError](err); ok {
		w.observe(0, lie)
		return passLie, w.trouble(lie)
	}
	if err == nil && w.over {
		return passOver, nil
	}
	return passCut, err
}

// unread reports whether messages wait for the next turn.
func (w *work) unread() (bool, error) {
	messages, err := w.t.Pending()
	return len(messages) > 0, err
}
