package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

const (
	keepAlive    = 15 * time.Second
	writeTimeout = 30 * time.Second // for a client to take what is written
	writeBytes   = 64 << 10         // that are gathered before they are sent

	defaultEvents = 1_000  // on a page of the events of a task
	maxEvents     = 10_000 // that can be asked for
)

// taskEvents sends the events of a task as they are in the store: a page of them as
// lines of JSON, or with follow all as server-sent events until the task is terminal.
// Where there are more, a link says where the next page is (RFC 8288).
func (c *call) taskEvents() (any, error) {
	q := c.query("after", "follow", "limit")
	after, follow := q.number("after", 0, 0, math.MaxInt64-maxEvents), q.flag("follow")
	limit := q.number("limit", defaultEvents, 1, maxEvents)
	if follow && q.values.Has("limit") {
		q.bad("limit", "is not for events that are followed")
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	if last := c.r.Header.Get("Last-Event-Id"); follow && last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil {
			return nil, a2a.Invalid("Last-Event-ID", "is not the number of an event")
		}
		after = n
	}
	if follow {
		release, err := c.h.follows.follow(&c.caller)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	log, err := c.h.opts.Engine.OpenLog(c.context(), c.reach(), c.r.PathValue("id"), after, follow)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	w := &eventWriter{c: c, control: http.NewResponseController(c.w), sse: follow}
	if !follow && log.StopAfter(after+limit) {
		c.w.Header().Set("Link", fmt.Sprintf(`<?after=%d&limit=%d>; rel="next"`, after+limit, limit))
	}
	w.begin()
	if c.r.Method != http.MethodHead {
		w.follow(log)
	}
	return nil, nil
}

// eventWriter writes events as they come.
type eventWriter struct {
	c       *call
	control *http.ResponseController
	sse     bool
	buf     []byte
}

func (w *eventWriter) begin() {
	header := w.c.w.Header()
	header.Set("Cache-Control", "no-store, no-transform")
	header.Set("X-Accel-Buffering", "no")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Type", "application/x-ndjson")
	if w.sse {
		header.Set("Content-Type", "text/event-stream")
	}
	w.c.sent = http.StatusOK
	w.c.w.WriteHeader(http.StatusOK)
}

// follow writes until the log, the client or the node ends. What has come is
// sent when there is nothing more for the moment.
func (w *eventWriter) follow(log *engine.Log) {
	ctx := w.c.context()
	for {
		if !log.Ready() && w.flush() != nil {
			return
		}
		wait, cancel := context.WithTimeout(ctx, keepAlive)
		event, err := log.Next(wait)
		cancel()
		switch {
		case err == nil:
			w.append(event)
			if len(w.buf) >= writeBytes && w.flush() != nil {
				return
			}
			continue
		case errors.Is(err, engine.ErrDraining):
			w.buf = append(w.buf, "retry: 1000\n: the node is stopping; reconnect\n\n"...)
		case err == io.EOF, ctx.Err() != nil:
		case wait.Err() != nil && w.sse:
			w.buf = append(w.buf, ": keep-alive\n\n"...)
			continue
		default:
			w.c.h.log.LogAttrs(ctx, slog.LevelError, "A log could not be read", slog.String("request", w.c.id), slog.Any("error", err))
			panic(http.ErrAbortHandler) // so that the client does not take it for the end
		}
		_ = w.flush()
		return
	}
}

var kinds = [...]string{store.KindStatus: "status", store.KindArtifact: "artifact", store.KindMessage: "message"}

// append adds an event. Its body is a StreamResponse as it was committed; that
// of a message becomes one.
func (w *eventWriter) append(e *store.Event) {
	if w.sse {
		w.buf = append(w.buf, "id: "...)
		w.buf = strconv.AppendInt(w.buf, e.Seq, 10)
		w.buf = append(w.buf, "\ndata: "...)
	}
	w.buf = append(w.buf, `{"seq":`...)
	w.buf = strconv.AppendInt(w.buf, e.Seq, 10)
	w.buf = append(w.buf, `,"kind":"`+kinds[e.Kind]+`","event":`...)
	at := len(w.buf)
	if e.Kind == store.KindMessage {
		w.buf = append(w.buf, `{"message":`...)
	}
	w.buf = append(w.buf, e.Body...)
	if e.Kind == store.KindMessage {
		w.buf = append(w.buf, '}')
	}
	// Free JSON is kept as it came, line ends included. They can only stand
	// between tokens, where a space does as well.
	for i, b := range w.buf[at:] {
		if b == '\n' || b == '\r' {
			w.buf[at+i] = ' '
		}
	}
	w.buf = append(w.buf, "}\n"...)
	if w.sse {
		w.buf = append(w.buf, '\n')
	}
}

// flush sends what was gathered.
func (w *eventWriter) flush() error {
	if len(w.buf) > 0 {
		_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.c.w.Write(w.buf); err != nil {
			return err
		}
		w.buf = w.buf[:0]
	}
	return w.control.Flush()
}
