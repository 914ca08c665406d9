package wire

import (
	"context"
	"time"

	"handoff.example/handoff/internal/engine"
)

// A client on HTTP/1 that has sent its request may shut down its side of the
// connection and wait for the answer (RFC 9112 §9.6); net/http ends the request's
// context then. The same is seen of a client that is gone. Only what is written
// tells them apart: one that is gone answers with a reset.

// answerWait is how long a client that has nothing more to send may wait for an
// answer that is no stream. Most of those are gone.
const answerWait = 5 * time.Minute

// probeWait is how long a reset takes to arrive at most, in the usual case.
const probeWait = time.Second

// outlast returns a context for an answer: it does not end when the client ends
// its side of the connection, but answerWait later. On HTTP/2 nothing but the
// client's departure ends the context of a request.
func (x *exchange) outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.r.ProtoMajor != 1 {
		return ctx, func() {}
	}
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(answerWait, cancel)
		context.AfterFunc(lasting, func() { timer.Stop() })
	})
	return lasting, func() {
		stop()
		cancel()
	}
}

// outlive returns a context for a stream, which ends by a write that fails.
func (x *exchange) outlive(ctx context.Context) context.Context {
	if x.r.ProtoMajor != 1 {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// last sends frames, and fills their silence, until the stream or the client
// ends. open, which comes from ctx, ends when the client sends nothing more: two
// comments then tell whether it is still there, the first of which calls forth
// the reset that the second meets.
func (w *eventWriter) last(ctx, open context.Context, stream *engine.Stream) {
	silence := w.x.h.opts.KeepAlive
	for open.Err() == nil {
		if w.follow(ctx, open, stream, silence) || w.write(keepAliveComment) != nil {
			return
		}
	}
	if w.follow(ctx, ctx, stream, min(probeWait, silence)) {
		return
	}
	for w.write(keepAliveComment) == nil && !w.follow(ctx, ctx, stream, silence) {
	}
}
