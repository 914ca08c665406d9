package wire

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
)

// parks reports whether the answer may be parked: a subscription, which lasts
// and has announced that its connection closes with it. On HTTP/2 a stream
// shares its connection.
func (x *exchange) parks() bool { return x.op == opSubscribeToTask && x.r.ProtoMajor == 1 }

// park takes the connection of a silent stream away from the server, whose
// buffers and goroutine are most of what the stream costs, and lets it go on
// with next to nothing. It reports false when that cannot be.
func (x *exchange) park(stream *engine.Stream) bool {
	if !x.parks() {
		return false
	}
	chunked := x.r.ProtoAtLeast(1, 1)
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return false
	}
	_ = conn.SetDeadline(time.Time{})
	x.parked = true
	p := &parked{exchange: *x, conn: conn, stream: stream, chunked: chunked}
	// Nothing of the request may stay.
	p.w, p.r, p.parked = nil, nil, false
	p.ctx = context.Background()
	if p.span != nil {
		p.ctx = trace.ContextWithSpan(p.ctx, p.span)
	}
	x.h.parked.Go(p.run)
	return true
}

// parked is a stream that goes on without the server.
type parked struct {
	exchange
	conn    net.Conn
	stream  *engine.Stream
	chunked bool
}

var _ outlet = (*parked)(nil)

// run sends what comes until the stream or the client ends.
func (p *parked) run() {
	defer p.finish()
	open, shut := context.WithCancel(p.ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer shut()
		// A client that has asked for a stream has nothing more to say on its
		// connection: whatever comes is the end of its side, or as good as that.
		var b [1]byte
		_, _ = p.conn.Read(b[:])
	}()
	defer func() {
		shut()
		_ = p.conn.Close()
		<-gone
	}()
	w := &eventWriter{x: &p.exchange, out: p}
	if w.write(keepAliveComment) != nil {
		return
	}
	w.last(p.ctx, open, p.stream)
	if p.code != codeGone && p.chunked {
		_, _ = p.conn.Write([]byte("0\r\n\r\n"))
	}
}

// finish is the end of the exchange.
func (p *parked) finish() {
	if r := recover(); r != nil {
		p.code = a2a.CodeInternal.String()
		p.h.log.LogAttrs(p.ctx, slog.LevelError, "A stream panicked",
			slog.String("request", p.id), slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
	}
	p.closeStream(p.stream)
	p.log()
}

// write sends a chunk (RFC 9112 §7.1).
func (p *parked) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(p.h.opts.WriteTimeout))
	if !p.chunked {
		_, err := p.conn.Write(b)
		return err
	}
	var head [20]byte
	size := append(strconv.AppendInt(head[:0], int64(len(b)), 16), "\r\n"...)
	buffers := net.Buffers{size, b, crlf}
	_, err := buffers.WriteTo(p.conn)
	return err
}

var crlf = []byte("\r\n")
