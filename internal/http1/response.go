package http1

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	unknown = -1 // length
	// room is how much of an answer is kept back until it is flushed or over.
	room = 4 << 10
)

// response is the answer to a request, as a handler writes it. Its content has the
// length that the handler announces, or that it turns out to have as long as it fits
// into the buffer; else it goes out in chunks.
type response struct {
	c      *conn
	r      *request
	header http.Header

	begun   atomic.Bool // the header is written
	status  int
	length  int64 // announced; unknown: not yet
	written int64 // of the content
	held    []byte
	open    bool // the header lacks what describes the content, which is held back
	untyped bool // the content has to show what it is
	chunked bool
	bare    bool // there is no content on the wire
	closes  bool // the connection ends with the answer
	err     error
}

var (
	_ http.Flusher  = (*response)(nil)
	_ http.Hijacker = (*response)(nil)
)

// Header returns the header that will be written.
func (w *response) Header() http.Header { return w.header }

// WriteHeader writes the header with that status.
func (w *response) WriteHeader(status int) {
	switch {
	case w.begun.Load() || w.c.taken:
		w.c.server.opts.Logger.Warn("A handler has written a second header, or on a connection that is not its own any more", "path", w.r.URL.Path, "status", status)
	case status < 100 || status > 999:
		panic("http1: there is no status " + strconv.Itoa(status))
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.interim(status)
	default:
		w.begin(status)
	}
}

// interim sends an answer that comes before the one that counts (RFC 9110 §15.2).
func (w *response) interim(status int) {
	if w.r.ProtoMinor > 0 {
		w.head(status)
		w.c.out = append(w.c.out, "\r\n"...)
		_ = w.send(nil, "")
	}
}

// begin writes the header of the answer, as far as it is known.
func (w *response) begin(status int) {
	w.begun.Store(true)
	w.status = status
	w.bare = w.r.Method == http.MethodHead || !hasContent(status)
	if value := w.header["Content-Length"]; len(value) > 0 {
		if n, err := strconv.ParseInt(value[0], 10, 64); err == nil && n >= 0 {
			w.length = n
		}
	}
	w.untyped = w.header["Content-Type"] == nil && w.header["Content-Encoding"] == nil && hasContent(status)
	w.closes = w.r.Close || w.c.server.closing.Load() || w.r.body.leaves() || httpguts.HeaderValuesContainsToken(w.header["Connection"], "close")
	w.head(status)
	switch {
	case !hasContent(status) && status != http.StatusNotModified:
		w.describe(unknown, false)
	case w.length != unknown && (!w.untyped || w.length == 0):
		w.describe(w.length, false)
	default:
		w.open = true
	}
}

func hasContent(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// head writes the status and what the handler has to say.
func (w *response) head(status int) {
	out := append(append(append(w.c.out, w.r.Proto...), ' '), strconv.Itoa(status)...)
	out = append(append(append(out, ' '), http.StatusText(status)...), "\r\n"...)
	names := w.c.names[:0]
	for name := range w.header {
		switch name {
		case "Content-Length", "Transfer-Encoding":
			continue
		case "Connection":
			if w.closes && w.r.ProtoMinor > 0 { // describe says so
				continue
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	w.c.names = names
	for _, name := range names {
		if !httpguts.ValidHeaderFieldName(name) {
			continue
		}
		for _, value := range w.header[name] {
			out = appendField(out, name, value)
		}
	}
	if status >= 200 && w.header["Date"] == nil {
		out = appendField(out, "Date", now())
	}
	w.c.out = out
}

// appendField appends a line of a header. A value cannot begin another one.
func appendField(out []byte, name, value string) []byte {
	out = append(append(out, name...), ": "...)
	start := len(out)
	out = append(out, strings.TrimSpace(value)...)
	for i := start; i < len(out); i++ {
		if out[i] == '\r' || out[i] == '\n' {
			out[i] = ' '
		}
	}
	return append(out, "\r\n"...)
}

// date is how a second is written in a header.
type date struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[date]

// now returns the time as a header has it.
func now() string {
	t := time.Now()
	if last := lastDate.Load(); last != nil && last.second == t.Unix() {
		return last.text
	}
	next := &date{t.Unix(), t.UTC().Format(http.TimeFormat)}
	lastDate.Store(next)
	return next.text
}

// describe ends the header with what there is to say of the content.
func (w *response) describe(length int64, chunked bool) {
	w.open = false
	w.length = length
	out := w.c.out
	switch {
	case chunked && w.bare: // as long as it would have been
	case chunked && w.r.ProtoMinor == 0:
		w.closes = true // that is its end
	case chunked:
		w.chunked = true
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case length >= 0:
		out = append(strconv.AppendInt(append(out, "Content-Length: "...), length, 10), "\r\n"...)
	}
	switch {
	case w.closes && w.r.ProtoMinor > 0:
		out = append(out, "Connection: close\r\n"...)
	case !w.closes && w.r.ProtoMinor == 0:
		out = append(out, "Connection: keep-alive\r\n"...)
	}
	w.c.out = append(out, "\r\n"...)
}

// Write writes a part of the content.
func (w *response) Write(p []byte) (int, error) {
	if !w.begun.Load() {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.c.taken:
		return 0, http.ErrHijacked
	case !hasContent(w.status):
		return 0, http.ErrBodyNotAllowed
	case w.length != unknown && w.written+int64(len(p)) > w.length:
		return 0, http.ErrContentLength
	case w.err != nil:
		return 0, w.err
	}
	w.written += int64(len(p))
	switch {
	case w.open && len(w.held)+len(p) <= room:
		w.held = append(w.held, p...)
		return len(p), nil
	case w.open:
		if err := w.settle(p); err != nil {
			return 0, err
		}
	}
	if err := w.put(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// settle ends a header before the end of the content, of which p comes next.
func (w *response) settle(p []byte) error {
	w.sniff(append(w.held, p[:min(len(p), 512)]...))
	w.describe(w.length, w.length == unknown)
	held := w.held
	w.held = nil
	return w.put(held)
}

// sniff says what the content is, where the handler has not.
func (w *response) sniff(content []byte) {
	if w.untyped && len(content) > 0 {
		w.c.out = appendField(w.c.out, "Content-Type", http.DetectContentType(content))
	}
}

// put sends content, or keeps it for a moment where it is little.
func (w *response) put(p []byte) error {
	if w.bare || len(p) == 0 {
		return nil
	}
	end := ""
	if w.chunked {
		w.c.out = append(strconv.AppendInt(w.c.out, int64(len(p)), 16), "\r\n"...)
		end = "\r\n"
	}
	if len(w.c.out)+len(p) > room {
		return w.send(p, end)
	}
	w.c.out = append(append(w.c.out, p...), end...)
	return nil
}

// send sends what was kept, and content with what ends it.
func (w *response) send(p []byte, end string) error {
	if w.err != nil {
		return w.err
	}
	c := w.c
	if len(p) > 0 && len(p) <= 4*room {
		c.out = append(append(c.out, p...), end...)
		p, end = nil, ""
	}
	if len(p) == 0 {
		_, w.err = c.Conn.Write(c.out)
	} else {
		c.parts = append(c.parts[:0], c.out, p, []byte(end))
		parts := c.parts // which WriteTo uses up
		_, w.err = parts.WriteTo(c.Conn)
		clear(c.parts)
	}
	c.out = c.out[:0]
	if w.err != nil {
		w.r.cancel() // nobody is there any more
	}
	return w.err
}

// Flush sends what was written.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError sends what was written.
func (w *response) FlushError() error {
	if w.c.taken {
		return http.ErrHijacked
	}
	if !w.begun.Load() {
		w.WriteHeader(http.StatusOK)
	}
	if w.open {
		if err := w.settle(nil); err != nil {
			return err
		}
	}
	if len(w.c.out) == 0 {
		return w.err
	}
	return w.send(nil, "")
}

// finish sends the rest of the answer.
func (w *response) finish() error {
	if !w.begun.Load() {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.open:
		w.sniff(w.held)
		if w.length == unknown && (w.written > 0 || !w.bare) {
			w.length = w.written
		}
		w.describe(w.length, false)
		if err := w.put(w.held); err != nil {
			return err
		}
	case w.chunked:
		w.c.out = append(w.c.out, "0\r\n\r\n"...)
	}
	if err := w.FlushError(); err != nil {
		return err
	}
	if !w.bare && w.length != unknown && w.written != w.length {
		return errShort
	}
	return nil
}

var errShort = errors.New("the handler has written less than it has announced")

// Hijack hands the connection over to the caller.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.begun.Load() {
		if err := w.FlushError(); err != nil {
			return nil, nil, err
		}
	}
	if w.c.taken {
		return nil, nil, http.ErrHijacked
	}
	w.c.unwatch()
	w.c.taken = true
	w.c.setDeadline(time.Time{})
	_ = w.c.SetDeadline(time.Time{})
	return w.c.Conn, bufio.NewReadWriter(w.c.in, bufio.NewWriter(w.c.Conn)), nil
}

// SetReadDeadline bounds reads of the request.
func (w *response) SetReadDeadline(t time.Time) error {
	w.c.setDeadline(t)
	return nil
}

// SetWriteDeadline bounds writes of the answer.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.c.dated = true
	return w.c.SetWriteDeadline(t)
}

// EnableFullDuplex has nothing to do: the request can be read while the answer is
// written.
func (w *response) EnableFullDuplex() error { return nil }
