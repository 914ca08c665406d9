package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/protobuf"
)

// transport is how the answer of an operation leaves where it is not the body of
// an HTTP answer.
type transport interface {
	// answer takes the result.
	answer(x *exchange, v result)
	// refuse takes the error, which is e on the protocol.
	refuse(err error, e *a2a.Error)
	// stream sends the events of a stream to its end.
	stream(ctx context.Context, x *exchange, stream *engine.Stream)
}

// grpcEncoding is how another version than 1.0 writes answers.
type grpcEncoding interface {
	result(v result) (proto.Message, error)
	// event writes an event of a stream, which is the last of it or not.
	event(body []byte, last bool) (proto.Message, error)
	// failure returns the error that the version has for one of 1.0.
	failure(op operation, e *a2a.Error) *a2a.Error
}

// grpcCall is one call over gRPC and its answer.
type grpcCall struct {
	op       operation
	encoding grpcEncoding // nil: that of 1.0
	answered proto.Message
	err      error
	events   *connect.ServerStream[protoReply] // of an operation that streams
}

var _ transport = (*grpcCall)(nil)

func (c *grpcCall) answer(x *exchange, v result) {
	m, err := c.result(v)
	if err != nil {
		x.refuse(err)
		return
	}
	c.answered = m
}

func (c *grpcCall) refuse(err error, e *a2a.Error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		c.err = connect.NewError(connect.CodeDeadlineExceeded, errors.New("the deadline of the call has passed; what it began goes on"))
	case errors.Is(err, context.Canceled):
		c.err = connect.NewError(connect.CodeCanceled, errors.New("the call was canceled; what it began goes on"))
	default:
		if c.encoding != nil {
			e = c.encoding.failure(c.op, e)
		}
		c.err = connectError(e)
	}
}

func (c *grpcCall) result(v result) (proto.Message, error) {
	if c.encoding != nil {
		return c.encoding.result(v)
	}
	switch v := v.(type) {
	case *extendedCard:
		card, err := v.decoded()
		if err != nil {
			return nil, err
		}
		return protobuf.Encode(card)
	case *empty:
		return &emptypb.Empty{}, nil
	}
	return protobuf.Encode(v)
}

func (c *grpcCall) event(f *engine.Frame) (proto.Message, error) {
	if c.encoding != nil {
		return c.encoding.event(f.Body, f.Last)
	}
	return protoOfFrame(f.Body)
}

// protoParameters are the parameters of a call over gRPC: a decoded message. Its
// tenant has led to the agent, so that it is no parameter any more.
type protoParameters struct {
	message proto.Message
	depth   int // of free JSON
}

func (p *protoParameters) read(v a2a.Decodable) error {
	return protobuf.Decode(p.message, v, p.depth)
}

// stream sends events as they come. A client that does not read is waited for
// here, and given up when it takes too long; the engine does not wait.
func (c *grpcCall) stream(ctx context.Context, x *exchange, stream *engine.Stream) {
	began := false
	for {
		if began && !stream.Ready() && x.out.idle() != nil {
			x.code = codeGone
			return
		}
		frame, err := stream.Next(ctx)
		switch {
		case err == io.EOF:
			x.code = codeOK
			return
		case errors.Is(err, engine.ErrDraining):
			c.err = connectError(errStopping)
			x.code = "Draining"
			return
		case err != nil:
			x.refuse(err)
			return
		}
		if !began {
			x.noteTask(frame.Body)
			began = true
		}
		m, err := c.event(&frame)
		if err != nil {
			x.refuse(err)
			return
		}
		x.out.held = stream.Ready()
		if err := c.events.Send(&protoReply{m}); err != nil {
			c.err, x.code = err, codeGone
			return
		}
	}
}

var errStopping = &a2a.Error{Code: a2a.CodeUnavailable, Message: "This node is stopping; subscribe again", RetryAfter: time.Second}

// protoOfFrame returns the event that the body of a frame is.
func protoOfFrame(body []byte) (proto.Message, error) {
	var event a2a.StreamResponse
	if err := a2a.Unmarshal(body, &event); err != nil {
		// It is not the client's fault.
		return nil, errors.New("decode event: " + err.Error())
	}
	return protobuf.Encode(&event)
}

// grpcWriter writes an answer piece by piece, each with its own time to be read.
type grpcWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	held    bool // more is to be written at once
	failed  error
}

var _ http.Flusher = (*grpcWriter)(nil)

// Write writes bytes. The time that the last of them have to be read counts for
// the end of the answer too.
func (w *grpcWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 && w.failed == nil {
		_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
		wrote, err := w.ResponseWriter.Write(b[:min(len(b), pieceBytes)])
		n, w.failed = n+wrote, err
		b = b[wrote:]
	}
	return n, w.failed
}

// Flush sends what was written, unless more comes at once.
func (w *grpcWriter) Flush() {
	if w.held || w.failed != nil {
		return
	}
	if err := w.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		w.failed = err
	}
}

// idle sends what was written and lets time pass, which on HTTP/2 would end a
// stream that has a deadline.
func (w *grpcWriter) idle() error {
	w.held = false
	w.Flush()
	_ = w.control.SetWriteDeadline(noDeadline)
	return w.failed
}

// release takes back the deadline of a connection that goes on.
func (w *grpcWriter) release(r *http.Request) {
	if r.ProtoMajor == 1 {
		_ = w.control.SetWriteDeadline(noDeadline)
	}
}

// Unwrap is for http.ResponseController.
func (w *grpcWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

var noDeadline time.Time
