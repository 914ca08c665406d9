package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// event is one event of a stream (text/event-stream).
type event struct {
	name  string // "": message
	data  []byte // valid until the next event
	id    string
	hasID bool
	retry time.Duration // -1: not said
}

// events reads a stream of events. The bytes of one event are bounded.
type events struct {
	in    *bufio.Reader
	most  int64 // bytes of one event
	event event
	begun bool
	cr    bool // the line before has ended in a carriage return
	line  []byte
}

func newEvents(body io.Reader, most int64) *events {
	in := eventReaders.Get().(*bufio.Reader)
	in.Reset(body)
	return &events{in: in, most: most}
}

var eventReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 16<<10) }}

// release gives back what reading has taken. What was read stays valid.
func (e *events) release() {
	if in := e.in; in != nil {
		e.in = nil
		in.Reset(nil)
		eventReaders.Put(in)
	}
}

var errEventSize = errors.New("an event of the stream is too large")

// next returns the next event that has data or an id, or an error: io.EOF at the
// end, whatever was not ended by an empty line being dropped.
func (e *events) next() (*event, error) {
	e.event = event{data: e.event.data[:0], retry: -1}
	size := int64(0)
	some := false
	for {
		line, err := e.readLine(e.most - size)
		if err != nil {
			return nil, err
		}
		size += int64(len(line)) + 1
		if len(line) == 0 {
			if some {
				return &e.event, nil
			}
			e.event = event{data: e.event.data[:0], retry: -1}
			size = 0
			continue
		}
		if e.field(line) {
			some = true
		}
	}
}

// field takes a line, and reports whether it makes the event one.
func (e *events) field(line []byte) bool {
	name, value := line, []byte(nil)
	for i, c := range line {
		if c == ':' {
			name, value = line[:i], line[i+1:]
			if len(value) > 0 && value[0] == ' ' {
				value = value[1:]
			}
			break
		}
	}
	switch string(name) {
	case "data":
		if len(e.event.data) > 0 {
			e.event.data = append(e.event.data, '\n')
		}
		e.event.data = append(e.event.data, value...)
		return true
	case "event":
		e.event.name = clip(string(value), 100)
	case "id":
		if len(value) <= maxEventID {
			e.event.id, e.event.hasID = string(value), true
		}
		return true
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			e.event.retry = time.Duration(ms) * time.Millisecond
		}
		return true
	}
	return false // a comment, or what is not known (TRN-11)
}

const maxEventID = 4 << 10

// readLine returns a line without its end, which is LF, CR or both.
func (e *events) readLine(most int64) ([]byte, error) {
	e.line = e.line[:0]
	for {
		if _, err := e.in.Peek(1); err != nil {
			if err == io.EOF && len(e.line) > 0 {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, err
		}
		chunk, _ := e.in.Peek(e.in.Buffered())
		if e.cr && chunk[0] == '\n' {
			e.cr = false
			e.in.Discard(1) //nolint:errcheck // it is there
			continue
		}
		e.cr = false
		if !e.begun {
			e.begun = true
			if mark, err := e.in.Peek(bomLength(chunk[0])); err == nil && string(mark) == "\xef\xbb\xbf" {
				e.in.Discard(3) //nolint:errcheck // it is there
				continue
			}
			chunk, _ = e.in.Peek(e.in.Buffered())
		}
		end := lineEnd(chunk)
		part := chunk
		if end >= 0 {
			part = chunk[:end]
		}
		if int64(len(e.line)+len(part)) > most {
			return nil, fmt.Errorf("%w: it has more than %d bytes", errEventSize, e.most)
		}
		e.line = append(e.line, part...)
		if end < 0 {
			e.in.Discard(len(chunk)) //nolint:errcheck // it is there
			continue
		}
		e.cr = chunk[end] == '\r'
		e.in.Discard(end + 1) //nolint:errcheck // it is there
		return e.line, nil
	}
}

// bomLength is how many bytes the mark of UTF-8 has that begins with c; what begins
// otherwise is not waited for.
func bomLength(c byte) int {
	if c == 0xef {
		return 3
	}
	return 1
}

func lineEnd(chunk []byte) int {
	for i, c := range chunk {
		if c == '\n' || c == '\r' {
			return i
		}
	}
	return -1
}
