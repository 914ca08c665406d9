package http1_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/internal/http1"
)

// warmed answers the first request, and leaves the others to a handler.
func warmed(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/warm" {
			answers(w, r)
			return
		}
		handler(w, r)
	}
}

// What a handler has started may read on behind its back, and gets an error.
func TestLateReader(t *testing.T) {
	t.Parallel()
	var readers sync.WaitGroup
	server, s := serve(t, warmed(func(w http.ResponseWriter, r *http.Request) {
		reads := make(chan struct{})
		readers.Go(func() {
			close(reads)
			for b := make([]byte, 8); ; {
				if _, err := r.Body.Read(b); err != nil {
					return
				}
			}
		})
		<-reads
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusForbidden)
	}), nil)
	for _, length := range []string{"Content-Length: 10000000\r\n\r\n", "Content-Length: 240000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n989680\r\n"} {
		for range 10 {
			c := dial(t, server)
			c.say("POST /x HTTP/1.1\r\nHost: a\r\n" + length)
			for text := strings.Repeat("x", 9001); ; {
				if _, err := io.WriteString(c, text); err != nil {
					break
				}
				if strings.Contains(length, "240000") {
					break
				}
			}
			_ = c.Close()
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	readers.Wait()
}

// A handler whose content does not come to its end hears of it, whoever reads.
func TestContentThatBreaksOff(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	server, _ := serve(t, warmed(func(_ http.ResponseWriter, r *http.Request) {
		go func() { _, _ = io.Copy(io.Discard, r.Body) }()
		<-r.Context().Done()
		close(heard)
	}), nil)
	c := dial(t, server)
	c.say("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
	_ = c.Close()
	<-heard
}

// A handler hears that its client has gone, whatever it has done with the content.
func TestGoneBehindTheContent(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(http.ResponseWriter, *http.Request){
		"a deadline that has passed": func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute))
			_, _ = io.ReadAll(r.Body)
			time.Sleep(time.Hour)
		},
		"a deadline that comes late": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute))
			time.Sleep(time.Hour)
		},
		"closed": func(_ http.ResponseWriter, r *http.Request) { _ = r.Body.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, warmed(func(w http.ResponseWriter, r *http.Request) {
				before(w, r)
				if r.Context().Err() != nil {
					t.Error("it has heard too early")
				}
				<-r.Context().Done()
			}), func(c *client) {
				c.say("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// A server that stops leaves a connection that a handler has taken alone, and does not
// wait for it. Whoever has taken it finds what has come over it in its buffer.
func TestTakenConnections(t *testing.T) {
	t.Parallel()
	taken, stopped := make(chan string, 1), make(chan struct{})
	server, s := serve(t, warmed(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		text, _ := buffered.Peek(buffered.Reader.Buffered())
		taken <- string(text)
		<-stopped
		io.WriteString(conn, "bye")
	}), nil)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &client{t, conn, bufio.NewReader(conn)}
	c.say(first)
	c.answer("POST")
	c.say("POST /take HTTP/1.1\r\nHost: a\r\n\r\nmore") // with which it is taken over
	if text := <-taken; text != "more" {
		t.Errorf("in the buffer is %q", text)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	close(stopped)
	if text, err := io.ReadAll(c.in); string(text) != "bye" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
}

// The context of a connection is that of its server, with what somebody has added.
func TestContexts(t *testing.T) {
	t.Parallel()
	type key struct{}
	base, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	s := http1.New(warmed(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(key{}) != "value" || r.Context().Value(http.LocalAddrContextKey) == nil {
			t.Error("the context has not what the server has given it")
		}
		close(begun)
		<-r.Context().Done()
	}), options)
	server := httptest.NewUnstartedServer(nil)
	server.Config.BaseContext = func(net.Listener) context.Context { return base }
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return context.WithValue(ctx, key{}, "value") }
	s.Attach(server.Config)
	server.Start()
	c := dial(t, server)
	c.say("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	cancel()
	c.answer("GET")
	_ = c.Close()
	server.Close()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A deadline that has passed can be extended.
func TestReadAfterTheDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, warmed(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(time.Second))
		first, err := io.ReadAll(r.Body)
		if string(first) != "abc" || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %q, %v", first, err)
		}
		_ = control.SetReadDeadline(time.Now().Add(time.Hour))
		rest, err := io.ReadAll(r.Body)
		w.Write(append(first, rest...))
		if err != nil {
			t.Error(err)
		}
	}), func(c *client) {
		c.say("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc")
		time.Sleep(time.Minute)
		c.say("de")
		if _, body := c.answer("POST"); body != "abcde" {
			t.Errorf("got %q", body)
		}
		c.goesOn()
	})
}

// Whoever has taken a connection sets its deadlines alone.
func TestDeadlineOfATakenConnection(t *testing.T) {
	t.Parallel()
	inBubble(t, warmed(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		began := time.Now()
		_ = conn.SetReadDeadline(began.Add(time.Hour))
		if _, err := buffered.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Hour {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	}), func(c *client) {
		c.say("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
		c.ends()
	})
}

// What is written when the handler has returned is in no answer.
func TestLateWrite(t *testing.T) {
	t.Parallel()
	late, wrote := make(chan struct{}), make(chan error, 1)
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/early":
			http.NewResponseController(w).Flush()
			go func() {
				<-late
				_, err := io.WriteString(w, "forged")
				wrote <- err
			}()
		case "/next":
			io.WriteString(w, "hello")
			close(late)
			if err := <-wrote; err == nil {
				t.Error("it was written")
			}
		}
	}, nil)
	c := dial(t, server)
	c.say("GET /early HTTP/1.1\r\nHost: a\r\n\r\n")
	c.answer("GET")
	c.say("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, body := c.answer("GET"); body != "hello" {
		t.Errorf("got %q", body)
	}
}

// A handler that ends its goroutine ends the connection.
func TestGoexit(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, warmed(func(http.ResponseWriter, *http.Request) { runtime.Goexit() }), nil)
	c := dial(t, server)
	c.say("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
	c.ends()
}

// The files of a form are removed.
func TestFilesOfForms(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	server, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("there are the files %v", files)
		}
	}, nil)
	form := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n" + strings.Repeat("x", 11<<20) + "\r\n--b--\r\n"
	for i := range 3 {
		r, err := server.Client().Post(server.URL, "multipart/form-data; boundary=b", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		if files, _ := os.ReadDir(dir); len(files) > 0 && i > 0 { // net/http, which serves the first, answers before
			t.Errorf("there are the files %v", files)
		}
	}
}

// An answer that breaks off does not take those before it with it.
func TestShortAnswerBehindOthers(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, warmed(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			_ = http.NewResponseController(w).EnableFullDuplex()
			w.Header().Set("Content-Length", "10")
			return
		}
		io.WriteString(w, strings.Repeat("x", 200_000))
	}), nil)
	for range 20 {
		c := dial(t, server)
		c.say("GET /x HTTP/1.1\r\nHost: a\r\n\r\nPOST /short HTTP/1.1\r\nHost: a\r\nContent-Length: 8192\r\n\r\n" + strings.Repeat("y", 8192))
		if _, body := c.answer("GET"); len(body) != 200_000 {
			t.Errorf("got %d bytes", len(body))
		}
		if rest, err := io.ReadAll(c.in); err != nil || !strings.HasSuffix(string(rest), "\r\n\r\n") {
			t.Errorf("then %q, %v", rest, err)
		}
	}
}

// A client may write all of its content before it reads, whether the handler wants it
// or not.
func TestClientThatWritesFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, warmed(func(w http.ResponseWriter, _ *http.Request) { // over a connection without any buffer
		io.WriteString(w, strings.Repeat("x", 1<<20))
	}), func(c *client) {
		c.say("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("y", 100_000))
		if _, body := c.answer("POST"); len(body) != 1<<20 {
			t.Errorf("got %d bytes", len(body))
		}
		c.goesOn()
	})
}

// slowContinue is a connection over which "100 Continue" takes its time.
type slowContinue struct {
	net.Conn
	reached, release chan struct{}
}

func (s *slowContinue) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), "HTTP/1.1 100") {
		close(s.reached)
		<-s.release
	}
	return s.Conn.Write(p)
}

// A client is told to go on before its answer, or not at all.
func TestContinueIsNotInTheAnswer(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	slow := &slowContinue{far, make(chan struct{}), make(chan struct{})}
	s := http1.New(warmed(func(w http.ResponseWriter, r *http.Request) {
		go func() { _, _ = io.ReadAll(r.Body) }()
		<-slow.reached
		go close(slow.release)
		_ = http.NewResponseController(w).EnableFullDuplex()
		io.WriteString(w, "the answer")
	}), options)
	l := &one{conn: make(chan net.Conn, 1), over: make(chan struct{})}
	l.conn <- slow
	server := &http.Server{}
	s.Attach(server)
	go func() { _ = server.Serve(l) }()
	c := call(t, near)
	c.say("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	if r, _ := c.answer("POST"); r.StatusCode != http.StatusContinue {
		t.Errorf("status %d", r.StatusCode)
	}
	go func() { _, _ = io.WriteString(near, "abc") }()
	if _, body := c.answer("POST"); body != "the answer" {
		t.Errorf("got %q", body)
	}
	_ = near.Close()
	if err := errors.Join(server.Shutdown(t.Context()), s.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
}

// A connection that is idle keeps little, whatever has gone over it.
func TestMemoryOfIdleConnections(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	s := http1.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, strings.Repeat("x", 16<<10))
	}), options)
	s.Attach(server.Config)
	server.Start()
	defer func() {
		server.Close()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	head := "POST /x HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 3500) + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + strings.Repeat("x", 60_000) + "\r\n\r\n"
	const n = 300
	in := bufio.NewReader(nil)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools have kept goes with the second
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range n {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for i := range 3 {
			text := head
			if i == 0 {
				text = first
			}
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			in.Reset(conn)
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}
	}
	if each := (int64(heap()) - int64(before)) / n; each > 10<<10 {
		t.Errorf("%d bytes each", each)
	}
}
