package mcpgw

import (
	"io"
	"net/http"
	"sync"
	"time"

	"handoff.example/handoff/internal/mcp"
)

// sink is the answer to a request that takes a while: one JSON document where
// nothing comes before the response, else a stream of events. While nothing comes,
// it sends comments, so that nobody on the way takes the connection for dead
// (TRN-10, TRN-11).
type sink struct {
	x       *exchange
	streams bool // the client takes streams
	every   time.Duration
	// Of a message of a batch: where its answer goes.
	parent *sink
	batch  *batch

	mu      sync.Mutex
	begun   bool // as a stream
	over    bool
	timer   *time.Timer
	scratch []byte
}

// open begins an answer that may become a stream.
func (x *exchange) open() *sink {
	if x.out != nil {
		return x.out
	}
	s := &sink{x: x, streams: len(x.r.Header["Accept"]) == 0 || takes(x.r.Header["Accept"], "text/event-stream"), every: x.h.opts.KeepAlive}
	if s.streams {
		s.mu.Lock() // which the first comment waits for
		s.timer = time.AfterFunc(s.every, s.keepAlive)
		s.mu.Unlock()
	}
	x.out = s
	return s
}

// begin sends the head of a stream.
func (s *sink) begin() {
	if s.begun {
		return
	}
	s.begun = true
	header := s.x.w.Header()
	describe(header, typeEvents[0], -1)
	header["Cache-Control"] = noStore
	header.Set("X-Accel-Buffering", "no")
	s.x.status = http.StatusOK
	s.x.w.WriteHeader(http.StatusOK)
}

func (s *sink) flush() { _ = http.NewResponseController(s.x.w).Flush() }

func (s *sink) keepAlive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.begin()
	_, _ = io.WriteString(s.x.w, ": still here\n\n")
	s.flush()
	s.timer.Reset(s.every)
}

// event sends a message before the response. Clients that take no streams do not
// hear of it.
func (s *sink) event(body []byte) error {
	if !s.streams {
		return nil
	}
	if s.parent != nil {
		return s.parent.event(body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil
	}
	s.begin()
	s.scratch = mcp.AppendEvent(s.scratch[:0], body)
	_, err := s.x.w.Write(s.scratch)
	s.flush()
	s.timer.Reset(s.every)
	return err
}

// last sends the response, with that status where nothing was sent before, and ends
// the answer (TRN-09).
func (s *sink) last(status int, body []byte) {
	if s.parent != nil {
		if s.streams {
			_ = s.parent.event(body)
		} else {
			s.batch.answers = append(s.batch.answers, body)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end() {
		return
	}
	if !s.begun {
		s.x.send(status, "application/json", body)
		return
	}
	s.scratch = mcp.AppendEvent(s.scratch[:0], body)
	_, _ = s.x.w.Write(s.scratch)
	s.flush()
}

// end stops the comments, and reports whether the answer was over already.
func (s *sink) end() (over bool) {
	over, s.over = s.over, true
	if s.timer != nil {
		s.timer.Stop()
	}
	return over
}

// addHeader adds to the head of the answer, unless that was sent.
func (x *exchange) addHeader(name, value string) {
	if out := x.out; out != nil {
		if out.parent != nil {
			out = out.parent
		}
		out.mu.Lock()
		defer out.mu.Unlock()
	}
	x.w.Header().Add(name, value)
}

// start sends the head of a stream at once.
func (s *sink) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	s.flush()
}

// finish ends an answer whose responses were all sent as events.
func (s *sink) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	s.begin()
	s.flush()
}

// close ends an answer that has no response.
func (s *sink) close() {
	if s.parent != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// copy hands a document on as it comes. It reports false where a stream has begun,
// so that the document has to become an event.
func (s *sink) copy(body io.Reader, length int64) (done bool, err error) {
	if s.parent != nil {
		return false, nil
	}
	s.mu.Lock()
	if s.begun {
		s.mu.Unlock()
		return false, nil
	}
	s.end()
	s.mu.Unlock()
	header := s.x.w.Header()
	describe(header, typeJSON[0], length)
	header["Cache-Control"] = noStore
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	s.x.status = http.StatusOK
	_, err = io.CopyBuffer(struct{ io.Writer }{s.x.w}, body, (*buf)[:cap(*buf)])
	return true, err
}
