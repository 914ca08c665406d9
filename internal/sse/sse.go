// Package sse reads streams of server-sent events.
package sse

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// ErrTooLarge says that an event is larger than the reader allows.
var ErrTooLarge = errors.New("the event is larger than allowed")

const (
	firstRead      = 2 << 10  // bytes asked of the connection at once, at first
	readSize       = 16 << 10 // and at most, when as much is there
	keepBuffer     = 1 << 20  // larger buffers are given back after their event
	longestField   = len("retry")
	maxEventIDSize = 4 << 10 // longer ids are as good as none: they would not fit a header
	maxRetryDigits = 9       // of "retry", in milliseconds
)

// Event is one event of a stream. Names of events mean nothing in the protocols
// here and are not kept.
type Event struct {
	Data []byte // valid until the next call of Next
	// Unfinished says that the stream ended within the event, so that its data
	// may be incomplete.
	Unfinished bool
}

// Reader parses an event stream as the HTML Living Standard (section 9.2.6)
// says, with one departure: an event that is cut short by the end of the stream
// is returned, because servers leave out the last blank line.
//
// Lines have no limit of their own, an event has. Every byte is looked at a
// constant number of times, however the stream is cut into reads.
type Reader struct {
	src io.Reader
	max int // bytes of data in one event

	buf     []byte // what was read and not yet parsed is buf[pos:end]
	pos     int
	end     int
	lf      int // of the first line feed at or after pos, end for none, < pos for unknown
	started bool
	skipLF  bool // the last line ended in CR
	err     error

	// The line so far.
	field   field
	name    [longestField]byte
	nameLen int
	value   []byte // of id and retry

	// The event so far.
	data    []byte
	hasData bool
	id      []byte // of the next event

	lastID []byte // of the last event
	retry  time.Duration
}

// field says where the bytes of the current line go.
type field uint8

const (
	fieldName  field = iota // the name is not complete yet
	fieldSpace              // right after the colon: one space is skipped
	fieldData
	fieldShort // id and retry: collected in value
	fieldSkip  // comments and every other field
)

// New returns a reader of events that have at most limit bytes of data.
func New(src io.Reader, limit int) *Reader {
	return &Reader{src: src, max: limit, buf: make([]byte, firstRead)}
}

// LastEventID returns the id to resume after: that of the last event that was
// dispatched.
func (r *Reader) LastEventID() string { return string(r.lastID) }

// Retry returns how long the server asks to wait before the next connection; zero
// when it does not.
func (r *Reader) Retry() time.Duration { return r.retry }

// Limit returns how many bytes of data an event may have.
func (r *Reader) Limit() int { return r.max }

// Next returns the next event that has data lines. At the end it returns
// io.EOF, or the error that the source gave.
func (r *Reader) Next() (Event, error) {
	r.hasData = false
	if cap(r.data) > keepBuffer {
		r.data = nil
	}
	r.data = r.data[:0]
	for {
		for r.pos < r.end {
			complete, err := r.step()
			if err != nil {
				return Event{}, err
			}
			if complete {
				return Event{Data: r.data}, nil
			}
		}
		if r.err != nil {
			return r.finish()
		}
		r.fill()
	}
}

// fill reads once more. The first three bytes are awaited together, so that a
// byte order mark is seen whole.
func (r *Reader) fill() {
	if r.end == len(r.buf) && r.end < readSize {
		r.buf = make([]byte, 2*len(r.buf)) // the peer sends more than one read takes
	}
	r.pos, r.end, r.lf = 0, 0, -1
	for {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		r.err = err
		if r.started || err != nil || r.end >= 3 || (r.end > 0 && r.buf[0] != 0xEF) {
			break
		}
	}
	if !r.started && r.end > 0 {
		r.started = true
		if bytes.HasPrefix(r.buf[:r.end], []byte("\xEF\xBB\xBF")) {
			r.pos = 3
		}
	}
}

// finish handles the end of the source. Only a clean end completes the event
// that was under way; after a broken connection its data cannot be trusted.
func (r *Reader) finish() (Event, error) {
	if r.err != io.EOF {
		return Event{}, r.err
	}
	if r.field != fieldName || r.nameLen > 0 {
		if err := r.endLine(); err != nil {
			return Event{}, err
		}
	}
	if !r.hasData {
		return Event{}, io.EOF
	}
	r.hasData = false
	r.lastID = append(r.lastID[:0], r.id...)
	return Event{Data: r.data, Unfinished: true}, nil
}

// step consumes some of the buffer: at most the rest of one line. It reports
// whether an event is complete.
func (r *Reader) step() (bool, error) {
	if r.skipLF {
		r.skipLF = false
		if r.buf[r.pos] == '\n' {
			r.pos++
			return false, nil
		}
	}
	switch r.field {
	case fieldName:
		return r.stepName()
	case fieldSpace:
		if r.buf[r.pos] == ' ' {
			r.pos++
		}
		r.startValue()
		return false, nil
	default:
		chunk, ended := r.takeLine()
		if err := r.appendValue(chunk); err != nil {
			return false, err
		}
		if ended {
			return false, r.endLine()
		}
		return false, nil
	}
}

// stepName consumes one byte of a field name.
func (r *Reader) stepName() (bool, error) {
	c := r.buf[r.pos]
	r.pos++
	switch c {
	case '\n', '\r':
		r.skipLF = c == '\r'
		if r.nameLen == 0 {
			return r.dispatch(), nil
		}
		return false, r.endLine()
	case ':':
		if r.nameLen == 0 {
			r.field = fieldSkip // a comment
		} else {
			r.field = fieldSpace
		}
	default:
		if r.nameLen == longestField {
			r.field = fieldSkip
			break
		}
		r.name[r.nameLen] = c
		r.nameLen++
	}
	return false, nil
}

// startValue decides what happens to the value of the current line.
func (r *Reader) startValue() {
	switch string(r.name[:r.nameLen]) {
	case "data":
		r.field = fieldData
		if r.hasData {
			r.data = append(r.data, '\n')
		}
		r.hasData = true
	case "id", "retry":
		r.field = fieldShort
	default:
		r.field = fieldSkip
	}
}

func (r *Reader) appendValue(chunk []byte) error {
	switch r.field {
	case fieldData:
		if len(r.data)+len(chunk) > r.max {
			return ErrTooLarge
		}
		r.data = append(r.data, chunk...)
	case fieldShort:
		if len(r.value)+len(chunk) > maxEventIDSize {
			r.field = fieldSkip
			return nil
		}
		r.value = append(r.value, chunk...)
	}
	return nil
}

// takeLine consumes the buffer up to the end of the line, or all of it when the
// line goes on, and returns what it consumed without the line's end.
func (r *Reader) takeLine() (chunk []byte, ended bool) {
	if r.lf < r.pos {
		r.lf = r.end
		if i := bytes.IndexByte(r.buf[r.pos:r.end], '\n'); i >= 0 {
			r.lf = r.pos + i
		}
	}
	line := r.buf[r.pos:r.lf]
	if i := bytes.IndexByte(line, '\r'); i >= 0 {
		r.pos += i + 1
		r.skipLF = true
		return line[:i], true
	}
	if r.lf == r.end {
		r.pos = r.end
		return line, false
	}
	r.pos = r.lf + 1
	return line, true
}

// endLine applies the line that ended.
func (r *Reader) endLine() error {
	if r.field == fieldName || r.field == fieldSpace {
		r.startValue() // a field without a value
	}
	if r.field == fieldData && len(r.data) > r.max {
		return ErrTooLarge
	}
	if r.field == fieldShort {
		switch string(r.name[:r.nameLen]) {
		case "id":
			if bytes.IndexByte(r.value, 0) < 0 {
				r.id = append(r.id[:0], r.value...)
			}
		case "retry":
			r.setRetry(r.value)
		}
	}
	r.field, r.nameLen, r.value = fieldName, 0, r.value[:0]
	return nil
}

func (r *Reader) setRetry(digits []byte) {
	if len(digits) == 0 || len(digits) > maxRetryDigits {
		return
	}
	ms := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return
		}
		ms = ms*10 + int(c-'0')
	}
	r.retry = time.Duration(ms) * time.Millisecond
}

// dispatch handles a blank line and reports whether an event is complete.
func (r *Reader) dispatch() bool {
	r.lastID = append(r.lastID[:0], r.id...)
	return r.hasData
}
