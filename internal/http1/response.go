package http1

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

const unknown = -1 // length

// response is the answer to a request, as a handler writes it. Its content has the
// length that the handler announces, or that it turns out to have as long as it fits
// into the buffer; else it goes out in chunks.
type response struct {
	c      *conn
	r      *request
	header http.Header
	duplex atomic.Bool // the handler reads the request while it answers
	over   atomic.Bool // the handler has returned

	mu         sync.Mutex
	begun      bool // the header is written
	status     int
	length     int64    // announced; unknown: not yet
	written    int64    // of the content
	trails     bool     // fields come behind the content
	open       bool     // the header lacks what describes the content, which is held
	connection []string // what the handler says of it
	untyped    bool     // the content has to show what it is
	chunked    bool
	bare       bool // there is no content on the wire
	closes     bool // the connection ends with the answer
	err        error
}

var (
	_ http.Flusher  = (*response)(nil)
	_ http.Hijacker = (*response)(nil)
)

var (
	errOver  = errors.New("the handler has returned")
	errShort = errors.New("the handler has written less than it has announced")
)

// usable returns why nothing can be written any more.
func (w *response) usable() error {
	switch {
	case w.over.Load():
		return errOver
	case w.c.taken.Load():
		return http.ErrHijacked
	}
	return w.err
}

// Header returns the header that will be written.
func (w *response) Header() http.Header { return w.header }

// WriteHeader writes the header with that status.
func (w *response) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch err := w.usable(); {
	case w.begun || err != nil:
		w.c.server.opts.Logger.Warn("A handler has written a header that comes too late", "path", w.r.URL.Path, "status", status, "error", err)
	case status < 100 || status > 999:
		panic("http1: there is no status " + strconv.Itoa(status))
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.interim(status)
	default:
		w.begin(status)
	}
}

// goOn tells the client that its content is wanted (RFC 9110 §10.1.1), unless it has
// an answer already.
func (w *response) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.r.body.expects.CompareAndSwap(true, false) && !w.begun && w.usable() == nil {
		_, _ = io.WriteString(w.c.Conn, "HTTP/1.1 100 Continue\r\n\r\n") // the read that follows tells of an error
	}
}

// interim sends an answer that comes before the one that counts (RFC 9110 §15.2).
func (w *response) interim(status int) {
	if status == http.StatusContinue {
		w.r.body.expects.Store(false)
	}
	if w.r.ProtoMinor > 0 {
		w.head(status)
		w.c.out = append(w.c.out, "\r\n"...)
		_ = w.send(nil, "")
	}
}

// begin writes the header of the answer, as far as it is known.
func (w *response) begin(status int) {
	w.begun = true
	w.status = status
	w.bare = w.r.Method == http.MethodHead || !hasContent(status)
	if value := w.header["Content-Length"]; len(value) > 0 && hasContent(status) {
		if n, err := strconv.ParseInt(value[0], 10, 64); err == nil && n >= 0 {
			w.length = n
		}
	}
	_, typed := w.header["Content-Type"]
	w.untyped = !typed && w.header["Content-Encoding"] == nil && hasContent(status)
	w.trails = w.announces()
	w.connection = w.header["Connection"]
	w.head(status)
	w.open = true
	known := !hasContent(status) || w.length != unknown && (!w.untyped || w.length == 0)
	if known && w.r.body.over.Load() { // else the handler may read on as long as nothing is sent
		w.describe(w.length, false)
	}
}

// ends reports whether the connection ends with the answer.
func (w *response) ends() bool {
	b := w.r.body
	switch {
	case w.r.Close, w.c.server.closing.Load(), w.connection != nil && httpguts.HeaderValuesContainsToken(w.connection, "close"):
		return true
	case w.duplex.Load(): // the handler may come to the end of the content yet
		return !b.over.Load() && (b.expects.Load() || b.broken.Load())
	}
	// The content that the handler has not read is in the way of a client that writes
	// all of it before it reads the answer.
	return b.leaves() || !b.drainInTime()
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
		if !w.isLeftOut(name, status) {
			names = append(names, name)
		}
	}
	out = w.appendFields(out, names)
	if _, ok := w.header["Date"]; !ok && status >= 200 {
		out = appendField(out, "Date", now())
	}
	w.c.out = out
}

// isLeftOut reports whether a field of the handler is not in the head of the answer.
func (w *response) isLeftOut(name string, status int) bool {
	switch name {
	case "Content-Length", "Transfer-Encoding", "Connection": // which describe adds
		return true
	case "Content-Type":
		return status == http.StatusNotModified
	}
	return !httpguts.ValidHeaderFieldName(name) // as one with http.TrailerPrefix
}

// appendFields appends fields of the header in the order of their names.
func (w *response) appendFields(out []byte, names []string) []byte {
	slices.Sort(names)
	w.c.names = names
	for _, name := range names {
		for _, value := range w.header[name] {
			out = appendField(out, name, value)
		}
	}
	return out
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
	endless := chunked && !w.bare && w.r.ProtoMinor == 0 // but for the end of the connection
	w.closes = endless || w.ends()
	out := w.c.out
	switch {
	case chunked && (w.bare || w.r.ProtoMinor == 0): // as long as it would have been, or is
	case chunked:
		w.chunked = true
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case length >= 0:
		out = append(strconv.AppendInt(append(out, "Content-Length: "...), length, 10), "\r\n"...)
	}
	switch {
	case w.closes && w.r.ProtoMinor > 0 && w.status != http.StatusSwitchingProtocols:
		out = append(out, "Connection: close\r\n"...)
	case w.connection != nil && !(w.closes && w.r.ProtoMinor == 0 && httpguts.HeaderValuesContainsToken(w.connection, "keep-alive")):
		for _, value := range w.connection {
			out = appendField(out, "Connection", value)
		}
	case !w.closes && w.r.ProtoMinor == 0:
		out = append(out, "Connection: keep-alive\r\n"...)
	}
	w.c.out = append(out, "\r\n"...)
}

// Write writes a part of the content.
func (w *response) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return 0, err
	}
	if !w.begun {
		w.begin(http.StatusOK)
	}
	switch {
	case len(p) == 0:
		return 0, nil
	case !hasContent(w.status):
		return 0, http.ErrBodyNotAllowed
	case w.length != unknown && w.written+int64(len(p)) > w.length:
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	if err := w.put(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// put sends content, or keeps it for a moment where it is little.
func (w *response) put(p []byte) error {
	c := w.c
	switch {
	case w.bare && !w.open:
		return nil
	case (w.open || w.chunked) && len(c.held)+len(p) <= room:
		c.held = append(c.held, p...)
		return nil
	case w.open:
		if err := w.settle(p); err != nil {
			return err
		}
		return w.put(p)
	case w.chunked:
		if err := w.putHeld(); err != nil {
			return err
		}
		return w.putChunk(p)
	}
	return w.push(p, "")
}

// settle ends a header before the end of the content, of which p comes next.
func (w *response) settle(p []byte) error {
	held := w.c.held
	w.sniff(append(held, p[:min(len(p), 512)]...))
	w.describe(w.length, w.length == unknown)
	if w.chunked || w.bare {
		return nil
	}
	w.c.held = held[:0]
	return w.push(held, "")
}

// sniff says what the content is, where the handler has not.
func (w *response) sniff(content []byte) {
	if w.untyped && len(content) > 0 {
		w.c.out = appendField(w.c.out, "Content-Type", http.DetectContentType(content))
	}
}

// putChunk writes content as a chunk (RFC 9112 §7.1). An empty one would be the last.
func (w *response) putChunk(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	w.c.out = append(strconv.AppendInt(w.c.out, int64(len(p)), 16), "\r\n"...)
	return w.push(p, "\r\n")
}

// push adds to what is to be sent, and sends it where that has become much.
func (w *response) push(p []byte, end string) error {
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	return w.flush()
}

func (w *response) flush() error {
	if !w.begun {
		w.begin(http.StatusOK)
	}
	if w.open {
		if err := w.settle(nil); err != nil {
			return err
		}
	}
	if err := w.putHeld(); err != nil {
		return err
	}
	return w.sendAll()
}

// putHeld writes the content that is held as a chunk.
func (w *response) putHeld() error {
	if !w.chunked {
		return nil
	}
	held := w.c.held
	w.c.held = held[:0]
	return w.putChunk(held)
}

// sendAll sends what is kept.
func (w *response) sendAll() error {
	if len(w.c.out) == 0 {
		return w.err
	}
	return w.send(nil, "")
}

// finish sends the rest of the answer, once the handler has returned.
func (w *response) finish() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c.taken.Load() { // by something that the handler has started
		return http.ErrHijacked
	}
	if !w.begun {
		w.begin(http.StatusOK)
	}
	switch {
	case w.open && !w.trails:
		w.measure()
	case w.open: // fields can come behind chunks alone
		if err := w.settle(nil); err != nil {
			return err
		}
	}
	if err := w.putHeld(); err != nil {
		return err
	}
	if w.chunked {
		w.c.out = append(w.c.out, "0\r\n"...)
		w.appendTrailer()
		w.c.out = append(w.c.out, "\r\n"...)
	}
	if err := w.sendAll(); err != nil {
		return err
	}
	if !w.bare && w.length != unknown && w.written != w.length {
		return errShort
	}
	return nil
}

// measure ends a header whose content is all there.
func (w *response) measure() {
	w.sniff(w.c.held)
	if w.length == unknown && (w.written > 0 || !w.bare) {
		w.length = w.written
	}
	w.describe(w.length, false)
	if !w.bare {
		w.c.out = append(w.c.out, w.c.held...)
	}
	w.c.held = w.c.held[:0]
}

// announces reports whether the handler has announced fields behind the content, so
// that there have to be chunks, or has written some already (see http.TrailerPrefix).
func (w *response) announces() bool {
	if w.header["Trailer"] != nil {
		return true
	}
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// isTrailing reports whether a field comes behind the content.
func (w *response) isTrailing(name string) bool {
	if strings.HasPrefix(name, http.TrailerPrefix) {
		return true
	}
	for announced := range announcedBy(w.header["Trailer"]) {
		if announced == name && mayTrail(name) {
			return true
		}
	}
	return false
}

// appendTrailer appends the fields behind the content.
func (w *response) appendTrailer() {
	var names []string
	for name := range w.header {
		if w.isTrailing(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		bare := strings.TrimPrefix(name, http.TrailerPrefix)
		if !httpguts.ValidTrailerHeader(bare) {
			continue
		}
		for _, value := range w.header[name] {
			w.c.out = appendField(w.c.out, bare, value)
		}
	}
}

// Hijack hands the connection over to the caller.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return nil, nil, err
	}
	if w.begun {
		if err := w.flush(); err != nil {
			return nil, nil, err
		}
	}
	c := w.c
	c.unwatch()
	_ = c.SetDeadline(time.Time{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken.Store(true)
	c.release()
	return c.Conn, bufio.NewReadWriter(c.in, bufio.NewWriter(c.Conn)), nil
}

// SetReadDeadline bounds reads of the request.
func (w *response) SetReadDeadline(t time.Time) error {
	if w.over.Load() {
		return errOver
	}
	w.c.limit(w.r.body, t)
	return nil
}

// SetWriteDeadline bounds writes of the answer.
func (w *response) SetWriteDeadline(t time.Time) error {
	if w.over.Load() {
		return errOver
	}
	w.c.dated.Store(true)
	return w.c.SetWriteDeadline(t)
}

// EnableFullDuplex lets the handler read the request while it answers. Otherwise what
// it has not read by then is lost.
func (w *response) EnableFullDuplex() error {
	w.duplex.Store(true)
	return nil
}
