package http1_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/http1"
)

// serve serves a handler over real connections, with what is to be changed of the
// options.
func serve(t *testing.T, handler http.HandlerFunc, change func(*http1.Options)) (*httptest.Server, *http1.Server) {
	t.Helper()
	o := options
	if change != nil {
		change(&o)
	}
	s := http1.New(handler, o)
	server := httptest.NewUnstartedServer(nil)
	s.Attach(server.Config)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shut down: %v", err)
		}
	})
	return server, s
}

// client is one connection to a server.
type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

// dial opens a connection and lets it be taken over.
func dial(t *testing.T, server *httptest.Server) *client {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return call(t, conn)
}

// call makes two calls over a connection, with which it is taken over.
func call(t *testing.T, conn net.Conn) *client {
	t.Helper()
	c := &client{t, conn, bufio.NewReader(conn)}
	for range 2 {
		c.say(first)
		if r, _ := c.answer("POST"); r.StatusCode >= 500 {
			t.Fatalf("status %d", r.StatusCode)
		}
	}
	return c
}

func (c *client) say(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads an answer to a request of that method.
func (c *client) answer(method string) (*http.Response, string) {
	c.t.Helper()
	r, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Errorf("after %q: %v", body, err)
	}
	return r, string(body)
}

// ends checks that the connection ends here.
func (c *client) ends() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.in); err != nil || len(rest) > 0 {
		c.t.Errorf("there is more: %q, %v", rest, err)
	}
}

// goesOn checks that another request can come.
func (c *client) goesOn() {
	c.t.Helper()
	c.say("GET /warm HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, body := c.answer("GET"); body != "warm" {
		c.t.Errorf("got %q", body)
	}
}

// answers is a handler that writes answers of all kinds.
func answers(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	header := w.Header()
	switch r.URL.Path {
	case "/warm":
		io.WriteString(w, "warm")
	case "/nothing":
	case "/status":
		w.WriteHeader(http.StatusTeapot)
	case "/none":
		w.WriteHeader(http.StatusNoContent)
		if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
			panic(err)
		}
	case "/not-modified":
		header.Set("ETag", `"x"`)
		w.WriteHeader(http.StatusNotModified)
	case "/small":
		header.Set("Content-Type", "application/json")
		io.WriteString(w, `{"a":`)
		io.WriteString(w, `1}`)
	case "/html":
		io.WriteString(w, "<!doctype html><p>hello")
	case "/announced":
		header.Set("Content-Type", "text/plain")
		header.Set("Content-Length", "100000")
		io.WriteString(w, strings.Repeat("x", 100_000))
	case "/announced-untyped":
		header.Set("Content-Length", "5")
		io.WriteString(w, "%PDF-")
	case "/large":
		header.Set("Content-Type", "text/plain")
		for i := range 100 {
			io.WriteString(w, strings.Repeat(strconv.Itoa(i%10), i*100))
		}
	case "/stream":
		header.Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			if err := control.Flush(); err != nil {
				panic(err)
			}
		}
	case "/flushed":
		control.Flush()
	case "/early":
		header.Set("Link", "</x>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "after")
	case "/fields":
		header["X-Two"] = []string{"a", " b\r\nForged: c"}
		header["Not Valid"] = []string{"x"}
		header.Set("Date", "Thu, 01 Jan 1970 00:00:00 GMT")
		header.Set("Connection", "close")
		io.WriteString(w, "x")
	case "/suppressed":
		header["Date"], header["Content-Type"] = nil, nil
		io.WriteString(w, "<p>x")
	case "/trailer":
		header.Set("Trailer", "sum, Other")
		header.Set("Sum", "0")
		io.WriteString(w, "abc")
		header.Set("Sum", "1")
		header.Set(http.TrailerPrefix+"Other", "2")
	case "/late-trailer":
		io.WriteString(w, "abc")
		header.Set(http.TrailerPrefix+"Grpc-Status", "0")
	case "/streamed-trailer":
		io.WriteString(w, "abc")
		control.Flush()
		header.Set(http.TrailerPrefix+"Grpc-Status", "0")
	case "/empty-trailer":
		header.Set("Trailer", "Sum")
		control.Flush()
		header.Set("Sum", "1")
	case "/bytes":
		for range 10_000 {
			io.WriteString(w, "x")
		}
	case "/late":
		w.WriteHeader(http.StatusOK)
		header.Set("Late", "x")
		w.WriteHeader(http.StatusTeapot)
	case "/error":
		http.Error(w, "no", http.StatusForbidden)
	case "/move":
		http.Redirect(w, r, "/there", http.StatusSeeOther)
	case "/file":
		http.ServeContent(w, r, "x.txt", time.Unix(1e9, 0), strings.NewReader(strings.Repeat("file ", 5000)))
	case "/go-on":
		w.WriteHeader(http.StatusContinue)
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	case "/echo":
		control.EnableFullDuplex()
		io.Copy(w, r.Body)
	default:
		http.NotFound(w, r)
	}
}

// An answer is the one that net/http gives for what a handler does.
func TestAnswers(t *testing.T) {
	t.Parallel()
	theirs := httptest.NewServer(http.HandlerFunc(answers))
	t.Cleanup(theirs.Close)
	ours, _ := serve(t, answers, nil)
	type answer struct {
		Status         int
		Header         http.Header
		Body           string
		Length         int64
		Encoding       []string
		Close, HasDate bool
		Trailer        http.Header
	}
	ask := func(t *testing.T, server *httptest.Server, request, method string) (list []answer) {
		c := dial(t, server)
		c.say(request)
		for {
			r, body := c.answer(method)
			date := r.Header.Get("Date") != ""
			if r.Header.Get("Date") != "Thu, 01 Jan 1970 00:00:00 GMT" {
				r.Header.Del("Date")
			}
			list = append(list, answer{r.StatusCode, r.Header, body, r.ContentLength, r.TransferEncoding, r.Close, date, r.Trailer})
			if r.StatusCode >= 200 {
				break
			}
		}
		if list[len(list)-1].Close {
			c.ends()
		} else {
			c.goesOn()
		}
		return list
	}
	for _, path := range []string{
		"/nothing", "/status", "/none", "/not-modified", "/small", "/html", "/announced", "/announced-untyped", "/large", "/stream", "/flushed",
		"/early", "/fields", "/suppressed", "/trailer", "/late-trailer", "/streamed-trailer", "/empty-trailer", "/bytes", "/late", "/error", "/move", "/file", "/unknown",
	} {
		for _, kind := range []string{"GET", "HEAD", "POST", "close", "old"} {
			t.Run(kind+path, func(t *testing.T) {
				t.Parallel()
				if kind == "old" && path == "/early" {
					return // which HTTP/1.0 does not have, and net/http sends
				}
				method, proto, more := kind, "HTTP/1.1", ""
				switch kind {
				case "close":
					method, more = "GET", "Connection: close\r\n"
				case "old":
					method, proto = "GET", "HTTP/1.0"
				}
				request := fmt.Sprintf("%s %s %s\r\nHost: a\r\n%s\r\n", method, path, proto, more)
				want, got := ask(t, theirs, request, method), ask(t, ours, request, method)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("- net/http, + here:\n%s", diff)
				}
			})
		}
	}
}

// The content of a request can be read while the answer is written, in both
// framings, and of any size.
func TestContents(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, answers, nil)
	for _, size := range []int{0, 1, 4096, 1 << 20} {
		content := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		for _, chunked := range []bool{false, true} {
			var body io.Reader = bytes.NewReader(content)
			if chunked {
				body = io.MultiReader(body)
			}
			r, err := server.Client().Post(server.URL+"/echo", "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("size %d, chunked %t: %d bytes, error %v", size, chunked, len(got), err)
			}
		}
	}
}

// Requests that come at once are answered in their order.
func TestPipelining(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, answers, nil)
	c := dial(t, server)
	c.say(strings.Repeat("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n", 3))
	for range 3 {
		if _, body := c.answer("POST"); body != "abc" {
			t.Errorf("got %q", body)
		}
		if _, body := c.answer("GET"); len(body) != 99*100*100/2 {
			t.Errorf("got %d bytes", len(body))
		}
		if r, _ := c.answer("GET"); r.StatusCode != http.StatusNoContent {
			t.Errorf("status %d", r.StatusCode)
		}
	}
	c.goesOn()
}

// A client that waits to be told to send its content is told when it is wanted, and
// else the connection ends with the answer.
func TestContinue(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, answers, nil)
	const head = " HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
	c := dial(t, server)
	for _, path := range []string{"/echo", "/go-on"} { // which says so itself
		c.say("POST " + path + head)
		if r, _ := c.answer("POST"); r.StatusCode != http.StatusContinue {
			t.Errorf("status %d", r.StatusCode)
		}
		c.say("abc")
		if _, body := c.answer("POST"); body != "abc" {
			t.Errorf("got %q", body)
		}
		c.goesOn()
	}
	c.say("POST /error" + head)
	if r, _ := c.answer("POST"); r.StatusCode != http.StatusForbidden || !r.Close {
		t.Errorf("status %d, close %t", r.StatusCode, r.Close)
	}
	c.ends()
}

// Of content that a handler does not read, little is read over, and much ends the
// connection, after its answer.
func TestContentThatNobodyReads(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, answers, nil)
	for _, c := range []struct {
		head string
		size int
		ends bool
	}{
		{"Content-Length: %d", 100 << 10, false},
		{"Content-Length: %d", 10 << 20, true},
		{"Transfer-Encoding: chunked\r\nX: %d", 100 << 10, false},
		{"Transfer-Encoding: chunked\r\nX: %d", 10 << 20, true},
	} {
		conn := dial(t, server)
		conn.say("POST /error HTTP/1.1\r\nHost: a\r\n" + fmt.Sprintf(c.head, c.size) + "\r\n\r\n")
		written := make(chan struct{})
		go func() {
			defer close(written)
			content := strings.Repeat("x", c.size)
			if strings.HasPrefix(c.head, "Transfer") {
				content = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", c.size, content)
			}
			_, _ = io.WriteString(conn, content) // it may end before
		}()
		if r, body := conn.answer("POST"); r.StatusCode != http.StatusForbidden || body != "no\n" {
			t.Errorf("%s: status %d, %q", c.head, r.StatusCode, body)
		}
		if !c.ends {
			<-written
			conn.goesOn()
			continue
		}
		_, _ = io.Copy(io.Discard, conn.in) // it may end with a reset, now that the answer is there
		_ = conn.Close()
		<-written
	}
}

// A handler hears that its client has gone, or has nothing more to say, when it has
// read the content.
func TestGone(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/wait" {
			answers(w, r)
			return
		}
		_, _ = io.ReadAll(r.Body)
		begun <- struct{}{}
		<-r.Context().Done()
		ended <- r.Context().Err()
		io.WriteString(w, "over")
	}, nil)
	for name, leave := range map[string]func(*client) error{
		"closes": func(c *client) error { return c.Close() },
		"resets": func(c *client) error { return errors.Join(c.Conn.(*net.TCPConn).SetLinger(0), c.Close()) },
		"shuts":  func(c *client) error { return c.Conn.(*net.TCPConn).CloseWrite() },
	} {
		for _, body := range []string{"Content-Length: 2\r\n\r\nhi", "\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"} {
			c := dial(t, server)
			c.say("POST /wait HTTP/1.1\r\nHost: a\r\n" + body)
			<-begun
			if err := leave(c); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
			if name == "shuts" {
				if _, body := c.answer("POST"); body != "over" {
					t.Errorf("got %q", body)
				}
			}
		}
	}
}

// inBubble serves a handler over a connection within a bubble, whose time goes by
// when everybody waits, and lets a client use it.
func inBubble(t *testing.T, handler http.HandlerFunc, use func(*client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		l := &one{conn: make(chan net.Conn, 1), over: make(chan struct{})}
		l.conn <- far
		s := http1.New(handler, options)
		server := &http.Server{}
		s.Attach(server)
		go func() { _ = server.Serve(l) }()
		use(call(t, near))
		_ = near.Close()
		if err := errors.Join(server.Shutdown(t.Context()), s.Shutdown(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// A handler whose client sends the next request early goes on undisturbed.
func TestNotGone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			select {
			case <-time.After(time.Minute):
			case <-r.Context().Done():
				t.Error("the call was canceled")
			}
		}
		io.WriteString(w, "warm")
	}, func(c *client) {
		for range 3 {
			c.say("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
			time.Sleep(time.Second) // it looks by now
			go func() { _, _ = io.WriteString(c, "GET /warm HTTP/1.1\r\nHost: a\r\n\r\n") }()
			for range 2 {
				if _, body := c.answer("GET"); body != "warm" {
					t.Errorf("got %q", body)
				}
			}
		}
	})
}

// A handler whose client takes nothing any more hears of it when it writes.
func TestWriteToNobody(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/endless" {
			answers(w, r)
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		text := strings.Repeat("x", 1<<20)
		for {
			if _, err := io.WriteString(w, text); err != nil {
				<-r.Context().Done()
				ended <- err
				return
			}
		}
	}, nil)
	c := dial(t, server)
	c.say("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A deadline for reads counts for who waits already, and not for the request that
// comes next.
func TestReadDeadline(t *testing.T) {
	t.Parallel()
	errs := make(chan error, 1)
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			answers(w, r)
			return
		}
		control := http.NewResponseController(w)
		reads, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			close(reads)
			_, err := io.ReadAll(r.Body)
			errs <- err
		}()
		<-reads
		_ = control.SetReadDeadline(time.Now().Add(time.Millisecond))
		<-over
		w.WriteHeader(http.StatusRequestTimeout)
	}, nil)
	c := dial(t, server)
	c.say("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
	if err := <-errs; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if r, _ := c.answer("POST"); r.StatusCode != http.StatusRequestTimeout || !r.Close {
		t.Errorf("status %d, close %t", r.StatusCode, r.Close)
	}
	c.ends()
}

// Connections that are idle end in time, and so do those that are slow with a header
// or with content that nobody reads.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		ends time.Duration
	}{
		"idle":    {"", options.IdleTimeout},
		"header":  {"GET / HTTP/1.1\r\nHo", options.HeaderTimeout},
		"content": {"POST /error HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx", options.HeaderTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, answers, func(conn *client) {
				began := time.Now()
				conn.say(c.text)
				if name == "content" {
					conn.answer("POST")
				}
				conn.ends()
				if took := time.Since(began); took != c.ends {
					t.Errorf("it has taken %s", took)
				}
			})
		})
	}
}

// A handler can take the connection, with what has come over it.
func TestHijack(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/warm" {
			answers(w, r)
			return
		}
		if r.URL.Path == "/begun" {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "abc")
		}
		control := http.NewResponseController(w)
		conn, buffered, err := control.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("wrote: %v", err)
		}
		if _, _, err := control.Hijack(); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("taken twice: %v", err)
		}
		go func() {
			defer conn.Close()
			line, err := buffered.ReadString('\n')
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(conn, "%s", line)
		}()
	}, nil)
	for path, want := range map[string]string{"/now": "hello\n", "/begun": "HTTP/1.1 200 OK"} {
		c := dial(t, server)
		c.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\nhello\n")
		text, err := io.ReadAll(c.in)
		if err != nil || !strings.HasPrefix(string(text), want) || !strings.HasSuffix(string(text), "hello\n") {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

// A handler that panics breaks its answer off, and says so in the log unless it
// means to; so does one that does not write what it has announced.
func TestPanic(t *testing.T) {
	t.Parallel()
	for path, logs := range map[string]bool{"/panic": true, "/abort": false, "/short": false, "/long": false} {
		var log bytes.Buffer
		server, s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/warm":
				answers(w, r)
				return
			case "/panic":
				panic("ouch")
			case "/short":
				w.Header().Set("Content-Length", "10")
				io.WriteString(w, "short")
				return
			case "/long":
				w.Header().Set("Content-Length", "3")
				if _, err := io.WriteString(w, "long"); !errors.Is(err, http.ErrContentLength) {
					t.Errorf("wrote more than announced: %v", err)
				}
				return
			}
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "x")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, func(o *http1.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		c := dial(t, server)
		c.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		text, _ := io.ReadAll(c.in)
		if want := map[string]string{"/panic": "", "/abort": "\r\n\r\nx", "/short": "\r\n\r\nshort", "/long": "\r\n\r\n"}[path]; !strings.HasSuffix(string(text), want) {
			t.Errorf("%s: %q", path, text)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if got := strings.Contains(log.String(), "ouch"); got != logs {
			t.Errorf("%s: logged %q", path, &log)
		}
	}
}

// A server that stops closes what is idle, lets answers end, and breaks off those that
// do not in time.
func TestShutdown(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	server, s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wait":
			begun <- struct{}{}
			<-release
		case "/for-ever":
			begun <- struct{}{}
			<-r.Context().Done()
		}
		answers(w, r)
	}, nil)
	silent, waits, stuck := dial(t, server), dial(t, server), dial(t, server)
	waits.say("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	stuck.say("GET /for-ever HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error)
	go func() { over <- s.Shutdown(ctx) }()
	silent.ends()
	close(release)
	if r, _ := waits.answer("GET"); r.StatusCode != http.StatusNotFound || !r.Close {
		t.Errorf("status %d, close %t", r.StatusCode, r.Close)
	}
	waits.ends()
	reason := errors.New("enough")
	cancel(reason)
	if err := <-over; !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
	if rest, err := io.ReadAll(stuck.in); err == nil && len(rest) > 0 {
		t.Errorf("there is more: %q", rest)
	}
}

// Over TLS, requests say so, whichever of a connection.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := http1.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		fmt.Fprintf(w, "%T %t %t %s", w, r.TLS != nil, ok && local != nil, r.RemoteAddr)
	}), options)
	server := httptest.NewUnstartedServer(nil)
	s.Attach(server.Config)
	server.StartTLS()
	t.Cleanup(func() {
		server.Close()
		if err := s.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	var first string
	for i := range 4 {
		r, err := server.Client().Post(server.URL, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if i == 0 { // which net/http serves
			continue
		}
		if first == "" {
			first = string(body)
		}
		if string(body) != first || !strings.HasPrefix(first, "*http1.response true true 127.0.0.1:") {
			t.Errorf("got %q, first %q", body, first)
		}
	}
	server.Client().CloseIdleConnections()
}
