package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/netguard"
)

// document is an answer that is one JSON document. A small one was read and held
// against its request before anybody sees it.
type document struct {
	*httpAnswer
	message *mcp.Message // nil: it is larger, and was not read to its end
	head    []byte       // what was read; nil: it was given up

	mu     sync.Mutex
	room   *[maxHead + 1]byte // in which the head is; nil: it has its own
	rest   io.ReadCloser
	length int64
	over   bool
}

func (a *httpAnswer) document() (Answer, error) {
	length := a.response.ContentLength
	if length > a.h.resultBytes {
		return nil, a.h.badAnswer(&netguard.TooLargeError{Limit: a.h.resultBytes})
	}
	d := &document{httpAnswer: a, length: length}
	whole, err := d.begin()
	if err == nil && !whole && a.request.Method == mcp.MethodListTools { // what is in it is needed
		whole, err = true, d.whole()
	}
	if err != nil {
		return nil, a.fail(err)
	}
	if !whole {
		return d, nil
	}
	if err := d.read(); err != nil {
		return nil, err
	}
	if a.request.Method == mcp.MethodListTools {
		return &said{left: []*mcp.Message{d.message}}, a.Close()
	}
	return d, nil
}

// begin reads a small document, or the head of a larger one.
func (d *document) begin() (whole bool, err error) {
	if d.length >= 0 && d.length <= maxHead {
		d.head = make([]byte, d.length)
		if _, err = io.ReadFull(d.response.Body, d.head); err == io.EOF && d.length > 0 {
			err = io.ErrUnexpectedEOF
		}
		return true, err
	}
	d.rest = netguard.MaxBytes(d.response.Body, d.h.resultBytes)
	d.room = heads.Get().(*[maxHead + 1]byte)
	n := 0
	for n < len(d.room) && err == nil {
		var more int
		more, err = d.rest.Read(d.room[n:])
		n += more
	}
	d.head = d.room[:n]
	if err != io.EOF {
		return false, err
	}
	if d.length >= 0 && int64(n) != d.length {
		return false, io.ErrUnexpectedEOF
	}
	d.ownHead(nil)
	return true, nil
}

// ownHead gives a document that is read as a whole what is its own.
func (d *document) ownHead(rest []byte) {
	whole := append(bytes.Clone(d.head), rest...)
	d.giveBack()
	d.head = whole
}

// heads are for the heads of documents that are handed on as they come.
var heads = sync.Pool{New: func() any { return new([maxHead + 1]byte) }}

// giveBack gives back the room for the head, of which nobody reads any more.
func (d *document) giveBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room != nil {
		heads.Put(d.room)
		d.room, d.head = nil, nil
	}
}

// headReader reads the head of a document that is handed on as it comes.
type headReader struct {
	d  *document
	at int
}

func (r *headReader) Read(p []byte) (int, error) {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if r.d.room == nil {
		return 0, io.ErrClosedPipe
	}
	if r.at == len(r.d.head) {
		return 0, io.EOF
	}
	n := copy(p, r.d.head[r.at:])
	r.at += n
	return n, nil
}

// Close gives up what has not come yet.
func (d *document) Close() error {
	d.giveBack()
	return d.httpAnswer.Close()
}

// whole reads what is left.
func (d *document) whole() error {
	rest, err := io.ReadAll(d.rest)
	if err != nil {
		return err
	}
	d.ownHead(rest)
	return nil
}

// read takes what was read for the answer.
func (d *document) read() error {
	m, err := d.h.scanResponse(d.head, d.request.ID)
	if err != nil {
		return err
	}
	d.message, err = d.checked(m)
	return err
}

// Next returns the response.
func (d *document) Next() (*mcp.Message, error) {
	if d.over {
		return nil, io.EOF
	}
	d.over = true
	if d.message == nil {
		if err := d.whole(); err != nil {
			return nil, d.fail(err)
		}
		if err := d.read(); err != nil {
			return nil, err
		}
	}
	d.patience.stop()
	return d.message, nil
}

// Raw returns the document.
func (d *document) Raw() (io.Reader, int64) {
	if d.message != nil {
		d.patience.stop()
		return bytes.NewReader(d.message.Body), int64(len(d.message.Body))
	}
	return &verified{
		body: io.MultiReader(&headReader{d: d}, &patientReader{d}), id: d.request.ID,
		check: func(kind string, result bool) error { return d.h.checkType(d.request, kind, result) },
		fail:  d.fail, bad: d.h.badAnswer,
	}, d.length
}

// patientReader reads the rest of a document, each part of which is a sign of life.
type patientReader struct{ d *document }

func (r *patientReader) Read(p []byte) (int, error) {
	n, err := r.d.rest.Read(p)
	if err == nil {
		r.d.patience.progress()
	} else {
		r.d.patience.stop()
	}
	return n, err
}

// fail returns the error of an answer that has broken off.
func (a *httpAnswer) fail(err error) error {
	if e, ok := errors.AsType[*netguard.TooLargeError](err); ok {
		return a.h.badAnswer(e)
	}
	if errors.Is(err, errEventSize) {
		return a.h.badAnswer(err)
	}
	return a.h.why(a.ctx, a.call, err)
}

// checked refuses a response that is not to the request.
func (a *httpAnswer) checked(m *mcp.Message) (*mcp.Message, error) {
	return a.h.checked(a.request, m, &a.h.tools)
}

// checked refuses a message that is not a response to the request.
func (t *target) checked(request, m *mcp.Message, tools *toolbox) (*mcp.Message, error) {
	m, err := t.hideFailure(m)
	if err != nil {
		return nil, err
	}
	switch {
	case !m.IsResponse():
		return nil, t.badAnswer(fmt.Errorf("in the place of a response there is %q", clip(m.Method, 100)))
	case m.ID == nil && !m.Err.IsZero():
		return failure(request.ID, m.Error()) // BAS-04
	case !bytes.Equal(m.ID, request.ID):
		return nil, t.badAnswer(fmt.Errorf("the answer is to the request %s and not to %s", clip(string(m.ID), 100), request.ID))
	}
	if err := t.checkResult(request, m); err != nil {
		return nil, err
	}
	if request.Method == mcp.MethodListTools {
		m = t.learn(tools, m)
	}
	return m, nil
}

// eventAnswer is an answer that is a stream of events.
type eventAnswer struct {
	*httpAnswer
	events *events
	bytes  int64
	over   bool
}

// Next returns the next message of the stream.
func (a *eventAnswer) Next() (*mcp.Message, error) {
	for !a.over {
		event, err := a.events.next()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF // without a response; there is no resumption (TRN-12)
			}
			return nil, a.fail(err)
		}
		if event.name != "" && event.name != "message" || len(event.data) == 0 {
			continue
		}
		m, err := a.h.scanResponse(event.data, a.request.ID)
		if err != nil {
			return nil, err
		}
		if !m.IsNotification() {
			a.over = true
			a.patience.stop()
			return a.checked(m) // a request of a modern server is none (BAS-06)
		}
		if err := a.noted(m); err != nil {
			return nil, err
		}
		return m, nil
	}
	return nil, io.EOF
}

// noted counts a notification.
func (a *eventAnswer) noted(m *mcp.Message) error {
	if a.request.Method == mcp.MethodListen {
		a.patience.stop() // it stays open as long as somebody listens
		return nil
	}
	if m.Method == mcp.NotifyProgress {
		a.patience.progress()
	}
	if a.bytes += int64(len(m.Body)); a.bytes > 2*a.h.resultBytes {
		return a.h.badAnswer(errors.New("the stream does not end"))
	}
	return nil
}

// Close ends the request. A stream that has brought its response is read to its
// end, which is near, so that its connection can be used again.
func (a *eventAnswer) Close() error {
	if a.over {
		stop := time.AfterFunc(drainTime, func() { a.end(nil) })
		io.CopyN(io.Discard, a.response.Body, 4<<10) //nolint:errcheck // it is closed in any case
		stop.Stop()
		a.events.release()
	}
	return a.httpAnswer.Close()
}

// drainTime is how long the end of a stream is waited for after its response.
const drainTime = 50 * time.Millisecond
