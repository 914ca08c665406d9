package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
)

// Bounds of what a stream writes at once.
const (
	batchBytes = 32 << 10 // of frames before they are sent
	pieceBytes = 64 << 10 // of a large frame, each with its own time to be read
)

var (
	keepAliveComment = []byte(": keep-alive\n\n")
	drainingHint     = []byte("retry: 1000\n: the node is stopping; reconnect\n\n")
	streamCaching    = []string{"no-cache, no-transform"}
	unbuffered       = []string{"no"}
	closes           = []string{"close"}
)

// stream answers with a stream of events. Nothing goes out before the stream is
// known to be one: until then every error is an ordinary one. open ends when the
// client sends nothing more; see last.
func (x *exchange) stream(open context.Context, begin func(context.Context) (*engine.Stream, error)) {
	ctx := open
	if x.via == nil {
		ctx = x.outlive(open)
	}
	if err := x.enterStream(); err != nil {
		x.refuse(err)
		return
	}
	stream, err := begin(ctx)
	if err != nil {
		x.h.streams.leave(streamOwner(x))
		x.refuse(err)
		return
	}
	defer func() {
		if !x.parked {
			x.closeStream(stream)
		}
	}()
	if x.via != nil {
		x.via.stream(ctx, x, stream)
		return
	}
	w := &eventWriter{x: x, out: newResponseOutlet(x)}
	switch {
	case stream.Ready():
		if !w.first(ctx, stream) {
			return
		}
	default: // a stream that goes on after an event may have nothing to say yet
		w.header()
		if w.flush() != nil {
			return
		}
	}
	if over := w.follow(ctx, open, stream, x.h.opts.ParkAfter); over || x.park(stream) {
		return
	}
	w.last(ctx, open, stream)
}

func (x *exchange) closeStream(stream *engine.Stream) {
	stream.Close()
	x.h.streams.leave(streamOwner(x))
}

// outlet is where a stream goes.
type outlet interface {
	// write sends bytes at once. Whoever does not read them in time is given
	// up, and the error says so.
	write(b []byte) error
}

// responseOutlet is the answer of a request.
type responseOutlet struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func newResponseOutlet(x *exchange) *responseOutlet {
	return &responseOutlet{w: x.w, control: http.NewResponseController(x.w), timeout: x.h.opts.WriteTimeout}
}

// write sends bytes. The deadline is taken back, since on HTTP/2 it ends an idle
// stream.
func (o *responseOutlet) write(b []byte) error {
	deadline := o.control.SetWriteDeadline(time.Now().Add(o.timeout)) == nil
	if _, err := o.w.Write(b); err != nil {
		return err
	}
	if err := o.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if deadline {
		_ = o.control.SetWriteDeadline(time.Time{})
	}
	return nil
}

// eventWriter writes a stream.
type eventWriter struct {
	x   *exchange
	out outlet
	buf *[]byte // nil while nothing waits to be written
}

// first sends the first frames, and reports false when the exchange is over.
func (w *eventWriter) first(ctx context.Context, stream *engine.Stream) bool {
	frame, err := stream.Next(ctx)
	switch {
	case err == io.EOF:
		w.header()
		w.end(codeOK)
		return false
	case err != nil:
		if errors.Is(err, engine.ErrDraining) {
			err = &a2a.Error{Code: a2a.CodeUnavailable, Message: "This node is stopping; send the request again", RetryAfter: time.Second}
		}
		w.x.refuse(err)
		return false
	}
	w.header()
	w.x.noteTask(frame.Body)
	return w.frame(&frame) == nil && w.batch(ctx, stream) && w.flush() == nil
}

// noteTask keeps the ids of the task that a stream begins with, for the log.
func (x *exchange) noteTask(body []byte) {
	rest, ok := bytes.CutPrefix(body, []byte(`{"task":{"id":"`))
	if !ok {
		return
	}
	id, rest, _ := bytes.Cut(rest, []byte(`","contextId":"`))
	contextID, _, _ := bytes.Cut(rest, []byte{'"'})
	x.task, x.context = string(id), string(contextID)
	if x.op == opSendStreamingMessage {
		x.audit(codeOK) // and not when the stream is over
	}
}

// header begins the answer.
func (w *eventWriter) header() {
	header := w.x.w.Header()
	header["Content-Type"] = typeStream
	header["Cache-Control"] = streamCaching
	header["X-Accel-Buffering"] = unbuffered
	header["X-Content-Type-Options"] = noSniff
	if w.x.parks() {
		header["Connection"] = closes
	}
	w.x.status = http.StatusOK
	w.x.w.WriteHeader(http.StatusOK)
}

// follow sends frames as they come, and reports whether the stream is over. It
// returns when nothing came for at least that long, and at most twice as long:
// one deadline serves all waits within its time, so that a stream that speaks has
// no other cost than its frames. It returns too when open ends, which comes from
// ctx.
func (w *eventWriter) follow(ctx, open context.Context, stream *engine.Stream, silence time.Duration) (over bool) {
	for {
		wait, cancel := context.WithTimeout(open, silence)
		spoke, err := w.until(wait, stream)
		cancel()
		switch {
		case err == nil && ctx.Err() != nil:
			w.x.code = codeGone
			return true
		case err != nil:
			return true
		case !spoke, open.Err() != nil:
			return false
		}
	}
}

// errOver says that a stream is over.
var errOver = errors.New("the stream is over")

// until sends frames until ctx ends, and reports whether there were any.
func (w *eventWriter) until(ctx context.Context, stream *engine.Stream) (spoke bool, err error) {
	for {
		frame, err := stream.Next(ctx)
		switch {
		case err == nil:
		case isWait(ctx, err):
			return spoke, nil
		default:
			w.fail(err)
			return spoke, errOver
		}
		if w.frame(&frame) != nil || !w.batch(ctx, stream) || w.flush() != nil {
			return spoke, errOver
		}
		spoke = true
	}
}

// isWait reports whether an error only says that ctx has ended. A store that was
// interrupted may say it in its own words; when it means something else, the
// next attempt says so again.
func isWait(ctx context.Context, err error) bool {
	return ctx.Err() != nil && err != io.EOF && !errors.Is(err, engine.ErrDraining)
}

// batch adds the frames that are there already, which the caller sends: not from
// here, since what is below a write decides how large the stack of each subscriber
// becomes. It reports false when the stream is over.
func (w *eventWriter) batch(ctx context.Context, stream *engine.Stream) bool {
	for stream.Ready() {
		if w.buf != nil && len(*w.buf) >= batchBytes && w.flush() != nil {
			return false
		}
		frame, err := stream.Next(ctx)
		if err != nil {
			if isWait(ctx, err) {
				break
			}
			w.fail(err)
			return false
		}
		if w.frame(&frame) != nil {
			return false
		}
	}
	return true
}

// fail ends the stream with what ended it.
func (w *eventWriter) fail(err error) {
	switch {
	case err == io.EOF:
		w.end(codeOK)
	case errors.Is(err, engine.ErrDraining):
		w.append(drainingHint)
		w.end("Draining")
	default:
		e := w.x.protocolError(err)
		buf := w.buffer()
		*buf = append(*buf, "data: "...)
		at := len(*buf)
		*buf = w.x.form.frameError(*buf, w.x, e)
		oneLine((*buf)[at:])
		*buf = append(*buf, "\n\n"...)
		w.end(e.Code.String())
	}
}

// end sends what waits to be written.
func (w *eventWriter) end(code string) {
	if w.flush() == nil {
		w.x.code = code
	}
}

// buffer returns what gathers the frames to be written. While a stream is idle
// it holds none.
func (w *eventWriter) buffer() *[]byte {
	if w.buf == nil {
		w.buf = getBuffer()
	}
	return w.buf
}

func (w *eventWriter) append(b []byte) {
	buf := w.buffer()
	*buf = append(*buf, b...)
}

// frame adds one frame. Its id is the sequence number of the event, so that ids
// order the events of a task for everybody alike.
func (w *eventWriter) frame(f *engine.Frame) error {
	body := f.Body
	if t, ok := w.x.form.(translator); ok {
		var err error
		if body, err = t.translate(w.x, body, f.Last); err != nil {
			w.fail(err)
			return errOver
		}
	}
	body = escapeSeparators(body)
	buf := w.buffer()
	if f.Seq > 0 {
		*buf = append(*buf, "id: "...)
		*buf = strconv.AppendInt(*buf, f.Seq, 10)
		*buf = append(*buf, '\n')
	}
	*buf = append(*buf, "data: "...)
	*buf = w.x.form.opening(*buf, w.x)
	at := len(*buf)
	if len(body) > pieceBytes {
		if err := w.large(body); err != nil {
			return err
		}
		buf = w.buffer()
	} else {
		*buf = append(*buf, body...)
		oneLine((*buf)[at:])
	}
	*buf = w.x.form.closing(*buf)
	*buf = append(*buf, "\n\n"...)
	return nil
}

// large sends the body of a frame piece by piece.
func (w *eventWriter) large(body []byte) error {
	for len(body) > 0 {
		n := min(len(body), pieceBytes)
		buf := w.buffer()
		at := len(*buf)
		*buf = append(*buf, body[:n]...)
		oneLine((*buf)[at:])
		if err := w.write(*buf); err != nil {
			return err
		}
		*buf = (*buf)[:0]
		body = body[n:]
	}
	return nil
}

// oneLine replaces the line breaks of JSON, which are spaces too there, and
// would end the line of an event.
func oneLine(b []byte) {
	for _, line := range [...]byte{'\n', '\r'} {
		rest := b
		for i := bytes.IndexByte(rest, line); i >= 0; i = bytes.IndexByte(rest, line) {
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}

// separators are U+0085, U+2028 and U+2029 as they are in UTF-8, and how JSON may
// write them instead.
var separators = [...]struct{ char, escaped []byte }{
	{[]byte("\u0085"), []byte(`\u0085`)},
	{[]byte("\u2028"), []byte(`\u2028`)},
	{[]byte("\u2029"), []byte(`\u2029`)},
}

// escapeSeparators escapes the characters at which some clients end a line that
// the format of events does not end (HTML §9.2.5). In JSON they are only in texts.
func escapeSeparators(body []byte) []byte {
	for i := range separators {
		if bytes.Contains(body, separators[i].char) {
			body = bytes.ReplaceAll(body, separators[i].char, separators[i].escaped)
		}
	}
	return body
}

// flush sends what waits to be written, and lets go of its buffer.
func (w *eventWriter) flush() error {
	if w.buf == nil {
		return w.write(nil)
	}
	err := w.write(*w.buf)
	putBuffer(w.buf)
	w.buf = nil
	return err
}

// write sends bytes.
func (w *eventWriter) write(b []byte) error {
	err := w.out.write(b)
	if err != nil {
		w.x.code = codeGone
	}
	return err
}
