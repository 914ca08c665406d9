package netguard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/internal/netguard"
)

// talk starts a server that speaks to each connection by itself.
func talk(t *testing.T, serve func(conn net.Conn, in *bufio.Reader)) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				serve(conn, bufio.NewReader(conn))
			})
		}
	})
	return "http://" + listener.Addr().String() + "/mcp"
}

// hear reads a request, and returns its body and whether there was one.
func hear(in *bufio.Reader) (body string, ok bool) {
	r, err := http.ReadRequest(in)
	if err != nil {
		return "", false
	}
	content, err := io.ReadAll(r.Body)
	return string(content), err == nil
}

func newPlain(t *testing.T, url string) *netguard.Plain {
	t.Helper()
	p := netguard.New(netguard.Policy{}).ConfiguredPlain(url, netguard.Options{})
	if p == nil {
		t.Fatalf("%s is not served", url)
	}
	t.Cleanup(p.Close)
	return p
}

func post(t *testing.T, p *netguard.Plain, body string) (r *http.Response, content string) {
	t.Helper()
	r, _, err := p.Post(t.Context(), http.Header{"Content-Type": {"text/plain"}}, []byte(body), "Mcp-Session-Id")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(all)
}

// What net/http writes is read like net/http reads it, over one connection.
func TestPlainReadsWhatServersWrite(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	connections := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		connections[r.RemoteAddr] = true
		mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch string(body) {
		case "chunks":
			for i := range 3 {
				fmt.Fprintf(w, "part %d,", i)
				w.(http.Flusher).Flush()
			}
		case "nothing":
			w.WriteHeader(http.StatusNoContent)
		case "accepted":
			w.WriteHeader(http.StatusAccepted)
		case "error":
			w.Header().Add("Www-Authenticate", "Bearer")
			w.Header().Add("Www-Authenticate", "Basic")
			http.Error(w, "who are you", http.StatusUnauthorized)
		case "large head":
			w.Header().Set("X-Large", strings.Repeat("x", 20<<10))
			io.WriteString(w, "after it")
		case "early hints":
			w.WriteHeader(http.StatusEarlyHints)
			io.WriteString(w, "then")
		case "large":
			io.WriteString(w, strings.Repeat("y", 1<<20))
		default:
			w.Header().Set("Mcp-Session-Id", "s1")
			fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"), body)
		}
	}))
	t.Cleanup(server.Close)
	p := newPlain(t, server.URL+"/mcp")
	for _, c := range []struct {
		body, want string
		status     int
	}{
		{"hello", "POST /mcp text/plain hello", 200},
		{"chunks", "part 0,part 1,part 2,", 200},
		{"nothing", "", 204},
		{"accepted", "", 202},
		{"error", "who are you\n", 401},
		{"large head", "after it", 200},
		{"early hints", "then", 200},
		{"large", strings.Repeat("y", 1<<20), 200},
		{"", "POST /mcp text/plain ", 200},
	} {
		r, content := post(t, p, c.body)
		if r.StatusCode != c.status || content != c.want {
			t.Errorf("%s: status %d, content %.100q", c.body, r.StatusCode, content)
		}
		if c.body == "hello" && r.Header.Get("Mcp-Session-Id") != "s1" {
			t.Errorf("header %v", r.Header)
		}
		if c.body == "error" && len(r.Header["Www-Authenticate"]) != 2 {
			t.Errorf("header %v", r.Header)
		}
	}
	// One that has read a large head may be another afterwards.
	if len(connections) > 2 {
		t.Errorf("there were %d connections", len(connections))
	}
}

// A connection that the server has closed, or over which it says more than it was
// asked, is not used again, so that no request is lost in it and no answer is taken
// for that of another.
func TestPlainDoesNotUseABrokenConnectionAgain(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]string{"closed": "", "more": "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{}, 2)
			p := newPlain(t, talk(t, func(conn net.Conn, in *bufio.Reader) {
				body, ok := hear(in)
				if !ok {
					t.Error("a connection was opened and nothing sent, or something else")
				}
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				io.WriteString(conn, after)
				if after == "" {
					conn.Close()
				}
				done <- struct{}{}
				io.Copy(io.Discard, in)
			}))
			for _, body := range []string{"one", "two"} {
				if _, content := post(t, p, body); content != body {
					t.Errorf("got %q", content)
				}
				<-done
			}
		})
	}
}

// An answer that breaks off is an error, and so is one that is none.
func TestPlainBrokenAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing": "", "no head": "HTTP/1.1 200 OK\r\nContent-Le", "short": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
		"short chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "no last chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"not HTTP": "SSH-2.0-OpenSSH_9.2\r\n\r\n", "too large a head": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n",
		"two lengths": "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "another protocol": "HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"interim without end": strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlain(t, talk(t, func(conn net.Conn, in *bufio.Reader) {
				if _, ok := hear(in); ok {
					io.WriteString(conn, answer)
				}
			}))
			r, sent, err := p.Post(t.Context(), nil, []byte("hello"))
			if err == nil {
				defer r.Body.Close()
				_, err = io.ReadAll(r.Body)
				sent = true
			}
			if err == nil || !sent {
				t.Errorf("sent %t, error %v", sent, err)
			}
		})
	}
}

// The end of the context ends the exchange, whoever waits for it or not, and tells the
// server.
func TestPlainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before the head", "in the body", "nobody reads"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			begun, gone := make(chan struct{}), make(chan struct{})
			p := newPlain(t, talk(t, func(conn net.Conn, in *bufio.Reader) {
				hear(in)
				if when != "before the head" {
					io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
				}
				close(begun)
				in.ReadByte()
				close(gone)
			}))
			reason := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-begun
				cancel(reason)
			}()
			r, _, err := p.Post(ctx, nil, []byte("hello"))
			if when == "nobody reads" {
				<-gone
			}
			if err == nil {
				_, err = io.ReadAll(r.Body)
				r.Body.Close()
			}
			<-gone
			if !errors.Is(err, reason) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A body can be closed while somebody reads it.
func TestPlainCloseWhileReading(t *testing.T) {
	t.Parallel()
	p := newPlain(t, talk(t, func(conn net.Conn, in *bufio.Reader) {
		hear(in)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
		in.ReadByte()
	}))
	r, _, err := p.Post(t.Context(), nil, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 3)
	if _, err := io.ReadFull(r.Body, first); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := r.Body.Read(first)
		ended <- err
	}()
	r.Body.Close()
	if err := <-ended; err == nil {
		t.Error("reading went on after the end")
	}
}

// A header cannot become two, and what was not sent is told apart.
func TestPlainRefusesInvalidHeaders(t *testing.T) {
	t.Parallel()
	p := newPlain(t, talk(t, func(_ net.Conn, in *bufio.Reader) {
		if n, _ := in.ReadByte(); n != 0 {
			t.Error("something was sent")
		}
	}))
	for _, header := range []http.Header{{"X": {"a\r\nY: b"}}, {"X\r\nY": {"b"}}, {"X Y": {"b"}}, {"X": {"a\x00"}}} {
		if _, sent, err := p.Post(t.Context(), header, nil); err == nil || sent {
			t.Errorf("%q: sent %t, error %v", header, sent, err)
		}
	}
	closed := newPlain(t, "http://127.0.0.1:1/")
	if _, sent, err := closed.Post(t.Context(), nil, nil); err == nil || sent {
		t.Errorf("nobody is there: sent %t, error %v", sent, err)
	}
}

// Only what is written as it is given is served.
func TestPlainServesPlainURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"https://example.com/", "http://user@example.com/", "http://bücher.example/", "http://[fe80::1%25eth0]/", "ftp://example.com/", "http:///", "http://exa mple/", "://"} {
		if netguard.New(netguard.Policy{}).ConfiguredPlain(url, netguard.Options{}) != nil {
			t.Errorf("%s is served", url)
		}
	}
}

// Idle connections are closed in time.
func TestPlainClosesIdleConnections(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	url := talk(t, func(conn net.Conn, in *bufio.Reader) {
		hear(in)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		in.ReadByte()
		close(gone)
	})
	p := netguard.New(netguard.Policy{}).ConfiguredPlain(url, netguard.Options{IdleTimeout: time.Millisecond})
	t.Cleanup(p.Close)
	post(t, p, "hello")
	<-gone
}

// What comes behind an answer, or is left of it, is never taken for that of another
// request: its connection is not used again.
func TestPlainKeepsAnswersApart(t *testing.T) {
	t.Parallel()
	const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
	for name, answer := range map[string]string{
		"not read to its end":    "HTTP/1.1 200 OK\r\nContent-Length: " + fmt.Sprint(5000+len(forged)) + "\r\n\r\n" + strings.Repeat("x", 5000) + forged,
		"chunks not read":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x", len(forged)) + "\r\n" + forged + "\r\n0\r\n\r\n",
		"a body where none is":   "HTTP/1.1 204 No Content\r\nContent-Length: " + fmt.Sprint(len(forged)) + "\r\n\r\n" + forged,
		"chunks and a length":    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + forged,
		"a length and chunks":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n" + forged,
		"an encoding of others":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length: 0\r\n\r\n" + forged,
		"two encodings":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + forged,
		"a length below zero":    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + forged,
		"a length with a sign":   "HTTP/1.1 200 OK\r\nContent-Length: +0\r\n\r\n" + forged,
		"a list of lengths":      "HTTP/1.1 200 OK\r\nContent-Length: 0, 0\r\n\r\n" + forged,
		"a length twice":         "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n" + forged,
		"a length without end":   "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n" + forged,
		"a chunk without size":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + forged,
		"a chunk of a great one": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n" + forged,
		"no length":              "HTTP/1.1 200 OK\r\n\r\n" + forged,
		"HTTP/1.0":               "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n" + forged,
		"the last":               "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" + forged,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlain(t, talk(t, func(conn net.Conn, in *bufio.Reader) {
				for {
					body, ok := hear(in)
					switch {
					case !ok:
						return
					case body == "first":
						io.WriteString(conn, answer)
					default:
						fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
					}
				}
			}))
			if r, _, err := p.Post(t.Context(), nil, []byte("first")); err == nil {
				_, _ = r.Body.Read(make([]byte, 1))
				r.Body.Close()
			}
			if _, content := post(t, p, "second"); content != "second" {
				t.Errorf("got %q", content)
			}
		})
	}
}

// A redirect is an answer like others, and what the server does not say is not there.
func TestPlainFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	p := newPlain(t, talk(t, func(conn net.Conn, in *bufio.Reader) {
		if _, ok := hear(in); ok {
			io.WriteString(conn, "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n")
		}
	}))
	r, content := post(t, p, "hello")
	if r.StatusCode != http.StatusTemporaryRedirect || r.Header.Get("Location") != "http://169.254.169.254/" || content != "" {
		t.Errorf("status %d, header %v, content %q", r.StatusCode, r.Header, content)
	}
	if kind, ok := r.Header["Content-Type"]; ok {
		t.Errorf("type %q", kind)
	}
}

// byName resolves names to what the test says.
type byName map[string]netip.Addr

func (b byName) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if addr, ok := b[host]; ok {
		return []netip.Addr{addr}, nil
	}
	return nil, errors.New("no such host")
}

// Names are resolved by the guard, and the host of the request stays the name.
func TestPlainDialsThroughTheGuard(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	guard := netguard.New(netguard.Policy{Resolver: byName{"tools.example": netip.MustParseAddr("127.0.0.1")}})
	p := guard.ConfiguredPlain("http://tools.example:"+port+"/", netguard.Options{})
	t.Cleanup(p.Close)
	if _, host := post(t, p, ""); host != "tools.example:"+port {
		t.Errorf("host %q", host)
	}
	other := guard.ConfiguredPlain("http://other.example:"+port+"/", netguard.Options{})
	t.Cleanup(other.Close)
	if _, sent, err := other.Post(t.Context(), nil, nil); err == nil || sent {
		t.Errorf("sent %t, error %v", sent, err)
	}
}
