package http1_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/http1"
)

// script is a connection on which a client says all that it has to say, and then ends
// its side.
type script struct {
	in     *strings.Reader
	mu     sync.Mutex
	out    bytes.Buffer
	once   sync.Once
	closed chan struct{}
}

func newScript(text string) *script {
	return &script{in: strings.NewReader(text), closed: make(chan struct{})}
}

func (s *script) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in.Read(p)
}

func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func (s *script) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// one is a listener with one connection.
type one struct {
	conn chan net.Conn
	over chan struct{}
	once sync.Once
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *one) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

func (l *one) Addr() net.Addr { return &net.TCPAddr{} }

var options = http1.Options{HeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, HeaderBytes: 64 << 10, Logger: slog.New(slog.DiscardHandler)}

// play lets a server hear what a client says, and returns what it answers.
func play(t testing.TB, text string, handler http.Handler) string {
	t.Helper()
	conn := newScript(text)
	l := &one{conn: make(chan net.Conn, 1), over: make(chan struct{})}
	l.conn <- conn
	server := &http.Server{Handler: handler, MaxHeaderBytes: options.HeaderBytes, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	if s, ok := handler.(*http1.Server); ok {
		s.Attach(server)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = server.Serve(l)
	}()
	<-conn.closed
	_ = server.Close()
	<-over
	conn.mu.Lock()
	defer conn.mu.Unlock()
	return conn.out.String()
}

// heard is what a handler has heard of a request.
type heard struct {
	Method, Target, Host, Proto, Body string
	Header, Trailer                   http.Header
	Length                            int64
	Encoding                          []string
	Close                             bool
	Whole                             bool // the body came to its end
	Taken                             bool // the request came over a connection that was taken over
}

// listener remembers what it hears.
type listener struct {
	mu    sync.Mutex
	heard []heard
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	header := r.Header.Clone()
	if header["Pragma"] != nil { // net/http translates it
		delete(header, "Cache-Control")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, heard{
		r.Method, r.RequestURI, r.Host, r.Proto, string(body), header, r.Trailer, r.ContentLength, r.TransferEncoding, r.Close, err == nil,
		strings.Contains(fmt.Sprintf("%T", w), "http1"),
	})
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "%d", len(l.heard))
}

// hear returns what handlers of net/http and of this package hear of the same text.
func hear(t testing.TB, text string) (theirs, ours []heard, answer string) {
	t.Helper()
	var a, b listener
	play(t, text, &a)
	answer = play(t, text, http1.New(&b, options))
	return a.heard, b.heard, answer
}

const (
	first = "POST /warm HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
	// warm is what a connection begins with: with the second call it is taken over.
	warm = first + first
)

// Whatever a handler hears over a connection that was taken over, it would have heard
// from net/http: the same requests with the same content, and nothing that net/http
// takes for something else.
func FuzzHearsWhatNetHTTPHears(f *testing.F) {
	for _, text := range []string{
		"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
		"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n",
		"GET http://b/?q HTTP/1.0\r\nConnection: keep-alive\r\nmcp-name: x\r\nMCP-NAME:\ty \r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"\r\nOPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close, x\r\nExpect: 100-continue\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n", "GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chun\u212aed\r\n\r\n0\r\n\r\n", "GET / HTTP/1.0\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		theirs, ours, answer := hear(t, warm+text)
		if len(ours) < 2 || ours[0].Taken || !ours[1].Taken {
			t.Fatalf("the connection was not taken over: %+v", ours)
		}
		for i := range ours {
			ours[i].Taken = false
			if i >= len(theirs) {
				t.Fatalf("net/http has not heard %+v, but answered\n%s", ours[i], answer)
			}
			if !ours[i].Whole { // chunks that net/http takes all the same: nothing may be heard behind them
				if i != len(ours)-1 || !strings.HasPrefix(theirs[i].Body, ours[i].Body) {
					t.Fatalf("request %d has broken off, and was heard as %+v", i, ours)
				}
				theirs[i].Whole, theirs[i].Body, theirs[i].Trailer = false, ours[i].Body, ours[i].Trailer
			}
			if diff := cmp.Diff(theirs[i], ours[i]); diff != "" {
				t.Fatalf("request %d (- net/http, + here):\n%s", i, diff)
			}
		}
	})
}

// What net/http refuses, or two readers could understand in two ways, is refused, with
// its reason, and nothing behind it is heard.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"no request":              {"hello\r\n\r\n", 400},
		"two words":               {"GET /\r\n\r\n", 400},
		"another protocol":        {"GET / SSH/1.1\r\nHost: a\r\n\r\n", 400},
		"another version":         {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
		"a method that is none":   {"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"a target that is none":   {"GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"a proxy":                 {"CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", 501},
		"no host":                 {"GET / HTTP/1.1\r\n\r\n", 400},
		"two hosts":               {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		"a host that is none":     {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		"lines without CR":        {"GET / HTTP/1.1\nHost: a\n\n", 400},
		"a line without a colon":  {"GET / HTTP/1.1\r\nHost: a\r\nx\r\n\r\n", 400},
		"a space before a colon":  {"GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", 400},
		"a name that is none":     {"GET / HTTP/1.1\r\nHost: a\r\nX{}: y\r\n\r\n", 400},
		"no name":                 {"GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n", 400},
		"a folded line":           {"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", 400},
		"a value with a zero":     {"GET / HTTP/1.1\r\nHost: a\r\nX: y\x00\r\n\r\n", 400},
		"a value with a CR":       {"GET / HTTP/1.1\r\nHost: a\r\nX: y\rz: 1\r\n\r\n", 400},
		"two lengths":             {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy", 400},
		"a length twice":          {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400},
		"a list of lengths":       {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx", 400},
		"a length with a sign":    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", 400},
		"an endless length":       {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nx", 400},
		"an empty length":         {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nx", 400},
		"a length and chunks":     {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"chunks of HTTP/1.0":      {"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"another encoding":        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
		"other letters":           {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chun\u212aed\r\n\r\n0\r\n\r\n", 501},
		"a trailer that is none":  {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: content-length\r\n\r\n0\r\n\r\n", 400},
		"an encoding twice":       {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501},
		"another expectation":     {"POST / HTTP/1.1\r\nHost: a\r\nExpect: more\r\nContent-Length: 1\r\n\r\nx", 417},
		"a large header":          {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", 431},
		"a large header of lines": {"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 20<<10) + "\r\n", 431},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ours, answer := hear(t, warm+c.head+"GET /behind HTTP/1.1\r\nHost: a\r\n\r\n")
			if len(ours) != 2 {
				t.Errorf("heard %+v", ours)
			}
			_, refused, _ := strings.Cut(answer, "\r\n\r\n2")
			want := fmt.Sprintf("HTTP/1.1 %d %s\r\n", c.status, http.StatusText(c.status))
			if !strings.HasPrefix(refused, want) || !strings.Contains(refused, "\r\nConnection: close\r\n") {
				t.Errorf("answered %q", answer)
			}
		})
	}
}

// What belongs to HTTP/1.1 is understood, one request after another.
func TestRequests(t *testing.T) {
	t.Parallel()
	text := warm +
		"\r\nPOST /length?a=b HTTP/1.1\r\nhost: b.example:80\r\ncontent-length: 3\r\nmcp-method:\ttools/call \r\nMCP-Method: x\r\nEmpty:\r\n\r\nabc" +
		"POST /chunks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\nTrailer: sum, X\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nsum: 1\r\nother: 2\r\n\r\n" +
		"GET http://c.example/absolute HTTP/1.1\r\nHost: a\r\n\r\n" +
		"GET /old HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n" +
		"DELETE /large HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n" +
		"OPTIONS /last HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n" +
		"GET /behind HTTP/1.1\r\nHost: a\r\n\r\n"
	theirs, ours, _ := hear(t, text)
	if len(ours) != 8 {
		t.Errorf("heard %d requests", len(ours))
	}
	for i := range ours {
		if i > 0 && !ours[i].Taken || !ours[i].Whole {
			t.Errorf("request %d: %+v", i, ours[i])
		}
		ours[i].Taken = false
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("- net/http, + here:\n%s", diff)
	}
}
