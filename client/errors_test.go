package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

func getTask(ctx context.Context, c *client.Client) error {
	_, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: "t-1"})
	return err
}

func TestErrorsOfThePeer(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		sent := &a2a.Error{
			Code:       a2a.CodeTaskNotCancelable,
			Message:    "Too late",
			Metadata:   map[string]string{"taskId": "t-1"},
			RetryAfter: 3 * time.Second,
		}
		p := newPeer(t, binding, func(x *exchange) { x.fail(sent) })
		_, err := p.client(t, client.Options{}).CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: "t-1"})
		got, ok := errors.AsType[*a2a.Error](err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		if d := cmp.Diff(sent, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// What is not an A2A error is told by its HTTP status.
func TestErrorsByStatus(t *testing.T) {
	tests := []struct {
		name      string
		status    int
		mediaType string
		body      string
		code      a2a.Code
		text      string
	}{
		{"web page", 401, "text/html", "<h1>Who are\nyou?</h1>", a2a.CodeUnauthenticated, "HTTP 401 Unauthorized: <h1>Who are you?</h1>"},
		{"nothing", 403, "", "", a2a.CodePermissionDenied, "HTTP 403 Forbidden"},
		{"proxy", 503, "text/plain", "no healthy upstream", a2a.CodeUnavailable, "no healthy upstream"},
		{"limit", 429, "text/plain", "slow down", a2a.CodeResourceExhausted, "slow down"},
		{"size", 413, "text/plain", "", a2a.CodeTooLarge, "413"},
		{"JSON of another kind", 401, "application/json", `{"error":"invalid_token"}`, a2a.CodeUnauthenticated, "invalid_token"},
	}
	onEach(t, func(t *testing.T, binding string) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, binding, func(x *exchange) {
					x.w.Header().Set("Retry-After", "7")
					x.w.Header().Set("WWW-Authenticate", `Bearer realm="x"`)
					x.body(tt.status, tt.mediaType, tt.body)
				})
				err := getTask(t.Context(), p.client(t, client.Options{}))
				e, ok := errors.AsType[*a2a.Error](err)
				if !ok || e.Code != tt.code || !strings.Contains(e.Message, tt.text) || e.RetryAfter != 7*time.Second {
					t.Fatalf("got %#v", err)
				}
				challenge, ok := errors.AsType[*client.ChallengeError](err)
				if ok != (tt.status == 401) || ok && challenge.Challenges[0] != `Bearer realm="x"` {
					t.Errorf("challenge: %v", challenge)
				}
			})
		}
	})
}

func TestAnswersThatAreNotA2A(t *testing.T) {
	tests := []struct {
		name string
		body func(x *exchange)
		text string
	}{
		{"web page", func(x *exchange) { x.body(200, "text/html; charset=utf-8", "<html>\x00 Welcome") }, "the agent answered text/html and not JSON: \"<html> Welcome\""},
		{"not found", func(x *exchange) { x.body(404, "text/plain", "404 page not found") }, "HTTP 404 Not Found: 404 page not found"},
		{"half an answer", func(x *exchange) { x.body(200, "application/json", `{"id":`) }, "decode answer"},
		{"garbage behind", func(x *exchange) { x.body(200, "application/json", x.wrap(task("t", "TASK_STATE_WORKING"))+"x") }, "decode answer"},
		{"list", func(x *exchange) { x.body(200, "application/json", "[]") }, "decode answer"},
		{"wrong type", func(x *exchange) { x.result(`{"id":{}}`) }, "decode answer"},
		{"empty", func(x *exchange) { x.body(200, "application/json", "") }, "decode answer"},
	}
	onBoth(t, func(t *testing.T, binding string) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, binding, tt.body)
				err := getTask(t.Context(), p.client(t, client.Options{}))
				e, ok := errors.AsType[*client.TransportError](err)
				if !ok || e.Kind != client.KindProtocol || !e.Sent || !strings.Contains(e.Error(), tt.text) {
					t.Errorf("got %v", err)
				}
				if _, ok := errors.AsType[*a2a.Error](err); ok {
					t.Errorf("%v looks like an error of the peer", err)
				}
			})
		}
	})
}

func TestJSONRPCEnvelopes(t *testing.T) {
	t.Parallel()
	result := task("t-1", "TASK_STATE_WORKING")
	tests := []struct {
		name, body string
		ok         bool
		code       a2a.Code // of an error of the peer
	}{
		{name: "id of another request", body: `{"jsonrpc":"2.0","id":"99","result":` + result + `}`},
		{name: "id as a number", body: `{"jsonrpc":"2.0","id":1,"result":` + result + `}`},
		{name: "no id", body: `{"jsonrpc":"2.0","result":` + result + `}`},
		{name: "escaped id", body: `{"jsonrpc":"2.0","id":"\u00681","result":` + result + `}`, ok: true},
		{name: "order and unknown members", body: `{"result":` + result + `,"x":[{}],"id":"h1","jsonrpc":"2.0"}`, ok: true},
		{name: "null error beside a result", body: `{"id":"h1","error":null,"result":` + result + `}`, ok: true},
		{name: "result and error", body: `{"id":"h1","error":{"code":-32001,"message":"x"},"result":` + result + `}`},
		{name: "result twice", body: `{"id":"h1","result":{},"result":` + result + `}`},
		{name: "neither", body: `{"jsonrpc":"2.0","id":"h1"}`},
		{name: "empty object", body: `{}`},
		{name: "null result", body: `{"jsonrpc":"2.0","id":"h1","result":null}`},
		{name: "error without an id", body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, code: a2a.CodeParse},
		{name: "error of another request", body: `{"jsonrpc":"2.0","id":"7","error":{"code":-32001,"message":"x"}}`},
		{name: "error that is text", body: `{"jsonrpc":"2.0","id":"h1","error":"x"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, a2a.BindingJSONRPC, func(x *exchange) { x.body(200, "application/json", tt.body) })
			err := getTask(t.Context(), p.client(t, client.Options{}))
			e, fromPeer := errors.AsType[*a2a.Error](err)
			switch {
			case tt.ok && err != nil:
				t.Error(err)
			case tt.code != a2a.CodeInternal && (!fromPeer || e.Code != tt.code):
				t.Errorf("got %v", err)
			case !tt.ok && tt.code == a2a.CodeInternal && (err == nil || fromPeer):
				t.Errorf("got %v", err)
			}
		})
	}
}

// Some peers leave out a result that is null. (a2a-go 2.4.0, a2a-sdk 0.3.24.)
func TestDeletionWithoutResult(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.0", "0.3"} {
		for body, ok := range map[string]bool{
			`{"jsonrpc":"2.0","id":"h1"}`:               true,
			`{"jsonrpc":"2.0","id":"h1","error":null}`:  true,
			`{"jsonrpc":"2.0","id":"h1","result":null}`: true,
			`{"jsonrpc":"2.0","id":"h2"}`:               false,
			`{"jsonrpc":"2.0"}`:                         false,
			`{"jsonrpc":"2.0","id":null}`:               false,
		} {
			p := newPeer(t, a2a.BindingJSONRPC, func(x *exchange) { x.body(200, "application/json", body) })
			p.card.SupportedInterfaces[0].ProtocolVersion = version
			err := p.client(t, client.Options{}).DeleteTaskPushNotificationConfig(t.Context(), &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: "t", ID: "p"})
			if (err == nil) != ok {
				t.Errorf("version %s, %s: got %v", version, body, err)
			}
		}
	}
}

// An id that is a numeral comes back from some peers as a number. (a2a-java.)
func TestIDsAreNoNumerals(t *testing.T) {
	t.Parallel()
	p := newPeer(t, a2a.BindingJSONRPC, func(x *exchange) {
		var id string
		if err := json.Unmarshal(x.id, &id); err != nil {
			t.Error(err)
		}
		if _, err := strconv.ParseFloat(id, 64); err == nil {
			t.Errorf("the id %q is a numeral", id)
		}
		x.result(task("t-1", "TASK_STATE_WORKING"))
	})
	if err := getTask(t.Context(), p.client(t, client.Options{})); err != nil {
		t.Error(err)
	}
}

// What is closed before a request is begun on it was not sent.
func TestConnectionsClosedWhileIdle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		kind client.Kind
		sent bool
	}{
		{"http: server closed idle connection", client.KindConnect, false},
		{"http: CloseIdleConnections called", client.KindConnect, true},
		{"net/http: HTTP/1.x transport connection broken: malformed HTTP response", client.KindProtocol, true},
	} {
		c, err := client.New(newCard(a2a.BindingREST, "http://h.test"), client.Options{HTTPClient: &http.Client{Transport: brokenTransport{errors.New(tt.text)}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.SendMessage(t.Context(), hello())
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != tt.kind || e.Sent != tt.sent {
			t.Errorf("%s: got %#v", tt.text, err)
		}
	}
}

// As a load balancer does whose peer is being started again.
func TestConnectionsClosedAtOnce(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(newCard(a2a.BindingREST, "http://"+l.Addr().String()), client.Options{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		err := getTask(t.Context(), c)
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindConnect {
			t.Fatalf("got %#v", err)
		}
	}
}

// A JSON-RPC error counts whatever the HTTP status is.
func TestJSONRPCErrorUnderAnyStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 400, 404, 500} {
		p := newPeer(t, a2a.BindingJSONRPC, func(x *exchange) {
			x.body(status, "application/json", x.wrapError(a2a.TaskNotFound("t-1")))
		})
		if err := getTask(t.Context(), p.client(t, client.Options{})); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
			t.Errorf("status %d: got %v", status, err)
		}
	}
}

func TestConnectionErrors(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		closed := httptest.NewServer(http.NotFoundHandler())
		closed.Close()
		secure := httptest.NewUnstartedServer(http.NotFoundHandler())
		secure.Config.ErrorLog = log.New(io.Discard, "", 0)
		secure.StartTLS()
		t.Cleanup(secure.Close)
		tests := []struct {
			name, origin string
			kind         client.Kind
			sent         bool
		}{
			{"nobody listens", closed.URL, client.KindConnect, false},
			{"unknown certificate", secure.URL, client.KindTLS, false},
			{"no such host", "http://no-such-host.invalid", client.KindResolve, false},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				card := newCard(binding, tt.origin)
				transport := &http.Transport{DialContext: resolveNothing}
				t.Cleanup(transport.CloseIdleConnections)
				c, err := client.New(card, client.Options{HTTPClient: &http.Client{Transport: transport}})
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.SendMessage(t.Context(), hello())
				e, ok := errors.AsType[*client.TransportError](err)
				if !ok || e.Kind != tt.kind || e.Sent != tt.sent || e.Op != "SendMessage" {
					t.Errorf("got %#v", err)
				}
			})
		}
	})
}

// resolveNothing dials addresses and knows no names, without a name server.
func resolveNothing(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

type brokenTransport struct{ err error }

func (b brokenTransport) RoundTrip(*http.Request) (*http.Response, error) { return nil, b.err }

// A transport that does not tell how far it came leaves the error to go by, and
// doubt counts as sent.
func TestSentWithoutTrace(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		for _, tt := range []struct {
			err  error
			sent bool
		}{
			{&net.DNSError{Err: "no such host", Name: "h.test", IsNotFound: true}, false},
			{io.ErrUnexpectedEOF, true},
		} {
			c, err := client.New(newCard(binding, "http://h.test"), client.Options{HTTPClient: &http.Client{Transport: brokenTransport{tt.err}}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.SendMessage(t.Context(), hello())
			if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Sent != tt.sent {
				t.Errorf("%v: got %#v", tt.err, err)
			}
		}
	})
}

func TestConnectionBreaksAfterTheRequest(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.cut() })
		_, err := p.client(t, client.Options{}).SendMessage(t.Context(), hello())
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindConnect || !e.Sent {
			t.Errorf("got %#v", err)
		}
		if p.seen() != "SendMessage" {
			t.Errorf("the peer got %s", p.seen())
		}
	})
}

func TestTimeouts(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.hang() })
		c := p.client(t, client.Options{CallTimeout: 300 * time.Millisecond, ResponseTimeout: 20 * time.Millisecond})
		err := getTask(t.Context(), c)
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindTimeout || !e.Timeout() {
			t.Errorf("GetTask: got %v", err)
		}
		// Long enough for the request to leave a machine that is busy.
		_, err = p.client(t, client.Options{ResponseTimeout: time.Second}).SendMessage(t.Context(), hello())
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindTimeout || !e.Sent {
			t.Errorf("SendMessage: got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = p.client(t, client.Options{}).SendMessage(ctx, hello())
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("deadline of the caller: got %v", err)
		}
	})
}

func TestCancelByTheCaller(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		arrived := make(chan struct{})
		p := newPeer(t, binding, func(x *exchange) { close(arrived); x.hang() })
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("enough")
		go func() { <-arrived; cancel(reason) }()
		_, err := p.client(t, client.Options{}).SendMessage(ctx, hello())
		e, ok := errors.AsType[*client.TransportError](err)
		if !ok || e.Kind != client.KindCanceled || !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
			t.Errorf("got %v", err)
		}
	})
}

// Neither errors nor their parts show a secret of the address. (Row 139.)
func TestErrorsHideSecrets(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.cut() })
		p.card.SupportedInterfaces[0].URL += "?token=s3cret"
		c := p.client(t, client.Options{Credentials: client.APIKey("query", "key", "s3cret")})
		err := getTask(t.Context(), c)
		for ; err != nil; err = errors.Unwrap(err) {
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%T: %v", err, err)
			}
		}
	})
}

func TestGiantPartArrivesIntact(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		content := bytes.Repeat([]byte("0123456789abcdef\x00\xff!"), 9<<20/19)
		part := a2a.Raw(content, "application/octet-stream", "big")
		event := `{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[` + string(part.AppendJSON(nil)) + `]}}}`
		p := newPeer(t, binding, func(x *exchange) {
			if x.op == "GetTask" {
				x.result(`{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[` + string(part.AppendJSON(nil)) + `]}]}`)
				return
			}
			x.event(taskEvent("t", "TASK_STATE_WORKING"))
			x.event(event)
			x.event(statusEvent("t", "TASK_STATE_COMPLETED"))
		})
		c := p.client(t, client.Options{})
		got, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Artifacts[0].Parts[0].Raw, content) {
			t.Error("GetTask changed the content")
		}
		stream, err := c.SendStreamingMessage(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		var a client.Accumulator
		for e, err := range stream.All() {
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(a.Task.Artifacts[0].Parts[0].Raw, content) {
			t.Error("the stream changed the content")
		}
	})
}

// Row S13.
func TestAnswersAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, binding string) {
		bomb := func(w io.Writer) {
			z := gzip.NewWriter(w)
			zeros := make([]byte, 1<<16)
			for range 1 << 8 { // 16 MiB, which are 16 KiB on the wire
				z.Write(zeros)
			}
			z.Close()
		}
		tests := map[string]script{
			"plain": func(x *exchange) { x.body(200, "application/json", strings.Repeat(" ", 2<<20)) },
			"chunked": func(x *exchange) {
				x.w.Header().Set("Content-Type", "application/json")
				for range 64 {
					io.WriteString(x.w, strings.Repeat(" ", 1<<16))
					http.NewResponseController(x.w).Flush()
				}
			},
			"gzip": func(x *exchange) {
				x.w.Header().Set("Content-Type", "application/json")
				x.w.Header().Set("Content-Encoding", "gzip")
				bomb(x.w)
			},
		}
		for name, s := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, binding, s)
				err := getTask(t.Context(), p.client(t, client.Options{MaxResponse: 1 << 20}))
				if !errors.Is(err, client.ErrTooLarge) {
					t.Errorf("got %v", err)
				}
			})
		}
		t.Run("stream", func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, binding, func(x *exchange) {
				x.w.Header().Set("Content-Type", "text/event-stream")
				x.w.Header().Set("Content-Encoding", "gzip")
				io.WriteString(x.w, "")
				z := gzip.NewWriter(x.w)
				io.WriteString(z, "data: ")
				z.Write(bytes.Repeat([]byte(" "), 2<<20))
				z.Close()
			})
			stream, err := p.client(t, client.Options{MaxFrame: 1 << 20}).SendStreamingMessage(t.Context(), hello())
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			if _, err := stream.Next(); !errors.Is(err, client.ErrTooLarge) || errors.Is(err, client.ErrStreamCut) {
				t.Errorf("got %v", err)
			}
		})
		t.Run("error", func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, binding, func(x *exchange) { x.body(503, "text/plain", strings.Repeat("no ", 1<<20)) })
			err := getTask(t.Context(), p.client(t, client.Options{}))
			if e, ok := errors.AsType[*a2a.Error](err); !ok || e.Code != a2a.CodeUnavailable || len(e.Message) > 300 {
				t.Errorf("got %.400v", err)
			}
		})
	})
}

func TestGzipIsUndone(t *testing.T) {
	onBoth(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			x.w.Header().Set("Content-Type", "application/json")
			x.w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(x.w)
			io.WriteString(z, x.wrap(task("t-1", "TASK_STATE_WORKING")))
			z.Close()
		})
		if err := getTask(t.Context(), p.client(t, client.Options{})); err != nil {
			t.Error(err)
		}
	})
}

// A peer that takes application/json only is found out once.
func TestMediaTypeFallback(t *testing.T) {
	t.Parallel()
	var types []string
	p := newPeer(t, a2a.BindingREST, func(x *exchange) {
		types = append(types, x.r.Header.Get("Content-Type"))
		if x.r.Header.Get("Content-Type") != "application/json" {
			x.body(http.StatusUnsupportedMediaType, "text/plain", "no")
			return
		}
		x.result(agentMessage)
	})
	c := p.client(t, client.Options{})
	for range 2 {
		if _, err := c.SendMessage(t.Context(), hello()); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"application/a2a+json", "application/json", "application/json"}, types); d != "" {
		t.Error(d)
	}
}

func TestUnsupportedMediaTypeIsFinal(t *testing.T) {
	t.Parallel()
	p := newPeer(t, a2a.BindingREST, func(x *exchange) { x.body(http.StatusUnsupportedMediaType, "text/plain", "no") })
	_, err := p.client(t, client.Options{}).SendMessage(t.Context(), hello())
	if !errors.Is(err, &a2a.Error{Code: a2a.CodeContentTypeNotSupported}) || p.seen() != "SendMessage SendMessage" {
		t.Errorf("got %v after %s", err, p.seen())
	}
}

// A state of a later version does not hide the rest of the answer. (Row 138.)
func TestUnknownStates(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			if x.op == "ListTasks" {
				x.result(`{"tasks":[` + task("t-1", "TASK_STATE_PAUSED") + `,` + task("t-2", "TASK_STATE_COMPLETED") + `,` + task("t-3", "NEW") + `]}`)
				return
			}
			x.result(task("t-1", "TASK_STATE_PAUSED", `,"metadata":{"status":{"state":"X"}}`))
		})
		c := p.client(t, client.Options{})
		got, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "t-1"})
		if err != nil {
			t.Fatal(err)
		}
		if got.Status.State != a2a.StateUnspecified || string(got.Metadata) != `{"status":{"state":"X"}}` {
			t.Errorf("got %+v", got)
		}
		page, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Tasks) != 3 || page.Tasks[1].Status.State != a2a.StateCompleted {
			t.Errorf("got %+v", page.Tasks)
		}
	})
}

// A peer that answers about another task than it was asked about is not
// believed.
func TestAnotherTaskIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.result(task("other", "TASK_STATE_COMPLETED")) })
		c := p.client(t, client.Options{})
		_, got := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "mine"})
		_, canceled := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: "mine"})
		for _, err := range []error{got, canceled} {
			if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindProtocol {
				t.Errorf("got %v", err)
			}
		}
	})
}
