package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/netguard"
)

// Every kind of error comes through with what a program needs (A2A §10.6).
func TestErrorsOverGRPC(t *testing.T) {
	t.Parallel()
	for code := a2a.CodeInternal; code <= a2a.CodeUnavailable; code++ {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			want := &a2a.Error{Code: code, Message: "50 % über", Metadata: map[string]string{"k": "v"}, RetryAfter: 2 * time.Second}
			if code == a2a.CodeInvalidParams {
				want.Violations = []a2a.Violation{{Field: "message.parts", Description: "are missing"}}
			}
			if code == a2a.CodeUnauthenticated {
				want.RetryAfter = 0
			}
			if code.Reason() == "" {
				want.Metadata = nil
			}
			p := newPeer(t, a2a.BindingGRPC, func(x *exchange) { x.fail(want) })
			err := getTask(t.Context(), p.client(t, client.Options{}))
			got, ok := errors.AsType[*a2a.Error](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			switch code {
			case a2a.CodeParse, a2a.CodeInvalidRequest: // gRPC has one code for all three, and no reason tells them apart
				got.Code = code
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			_, err = p.client(t, client.Options{}).SendStreamingMessage(t.Context(), hello())
			if got, ok := errors.AsType[*a2a.Error](err); !ok || got.Message != want.Message {
				t.Errorf("stream: %v", err)
			}
		})
	}
}

// An agent that refuses the credentials in the way of gRPC is asked once more with
// new ones.
func TestRefreshAfterUnauthenticatedOverGRPC(t *testing.T) {
	t.Parallel()
	accept := "Bearer 1"
	p := newPeer(t, a2a.BindingGRPC, func(x *exchange) {
		if x.r.Header.Get("Authorization") != accept {
			x.w.Header().Set("WWW-Authenticate", "Bearer error=expired")
			x.fail(a2a.Errorf(a2a.CodeUnauthenticated, "expired"))
			return
		}
		x.event(agentMessage)
	})
	credentials := new(rotating)
	c := p.client(t, client.Options{Credentials: credentials})
	if _, err := c.SendStreamingMessage(t.Context(), hello()); err != nil || credentials.refreshes.Load() != 1 {
		t.Errorf("got %v after %d refreshes", err, credentials.refreshes.Load())
	}
	accept = "Bearer 9"
	_, err := c.SendMessage(t.Context(), hello())
	challenge, ok := errors.AsType[*client.ChallengeError](err)
	if !ok || challenge.Challenges[0] != "Bearer error=expired" || credentials.refreshes.Load() != 2 {
		t.Errorf("got %v after %d refreshes", err, credentials.refreshes.Load())
	}
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What a peer may send instead of an answer is refused, and bounded (row S13).
func TestAnswersOverGRPCThatAreNone(t *testing.T) {
	t.Parallel()
	task, err := proto.Marshal(&pb.Task{Id: "t-1", Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_WORKING}})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(frames ...[]byte) script {
		return func(x *exchange) { x.write(string(bytes.Join(frames, nil))) }
	}
	compressed := func(data []byte) script {
		return func(x *exchange) {
			x.w.Header().Set("Grpc-Encoding", "gzip")
			x.write(string(grpcFrame(1, gzipped(t, data))))
		}
	}
	for _, tt := range []struct {
		name   string
		script script
		text   string // of the error; "" for none
		kind   client.Kind
	}{
		{"task", answer(grpcFrame(0, task)), "", ""},
		{"compressed task", compressed(task), "", ""},
		{"two messages", answer(grpcFrame(0, task), grpcFrame(0, task)), "more than one message", client.KindProtocol},
		{"no message", func(x *exchange) { x.status(0, "") }, "has no message", client.KindProtocol},
		{"not protobuf", answer(grpcFrame(0, []byte("hello"))), "decode answer", client.KindProtocol},
		{"flags", answer(grpcFrame(0x80, task)), "the flags 0x80", client.KindProtocol},
		{"a coding without a name", answer(grpcFrame(1, task)), `the coding ""`, client.KindProtocol},
		{"bad gzip", func(x *exchange) { x.w.Header().Set("Grpc-Encoding", "gzip"); x.write(string(grpcFrame(1, task))) }, "decompress message", client.KindProtocol},
		{"half a frame", answer(grpcFrame(0, task)[:9]), "unexpected EOF", client.KindConnect},
		{"half a head", answer([]byte{0, 0}), "unexpected EOF", client.KindConnect},
		{"length of 4 GB", answer([]byte{0, 0xFF, 0xFF, 0xFF, 0xFF, 1}), "larger than allowed", client.KindProtocol},
		{"length that lies", answer(binary.BigEndian.AppendUint32([]byte{0}, 1<<20), task), "unexpected EOF", client.KindConnect},
		{"gzip bomb", compressed(make([]byte, 16<<20)), "larger than allowed", client.KindProtocol},
		{"objects without end", answer(grpcFrame(0, bytes.Repeat([]byte{0x22, 0}, 400_000))), "objects", client.KindProtocol},
		{"no status", func(x *exchange) { x.write(string(grpcFrame(0, task))); x.statusSent = true }, "unexpected EOF", client.KindConnect},
		{"status that is none", func(x *exchange) {
			x.write(string(grpcFrame(0, task)))
			x.w.Header().Set(http.TrailerPrefix+"Grpc-Status", "fine")
			x.statusSent = true
		}, `its status is "fine"`, client.KindProtocol},
		{"deadline", func(x *exchange) { x.status(4, "too slow") }, "deadline of the call", client.KindTimeout},
		{"web page", func(x *exchange) { x.body(200, "text/html", "<html>Welcome"); x.statusSent = true }, "the agent answered text/html", client.KindProtocol},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, a2a.BindingGRPC, tt.script)
			err := getTask(t.Context(), p.client(t, client.Options{MaxResponse: 1 << 20}))
			e, ok := errors.AsType[*client.TransportError](err)
			if tt.text == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !ok || !e.Sent || e.Kind != tt.kind || !strings.Contains(e.Error(), tt.text) {
				t.Errorf("got %#v: %v", err, err)
			}
		})
	}
}

// An error that comes after the message of a unary call is the answer.
func TestErrorBehindTheMessage(t *testing.T) {
	t.Parallel()
	p := newPeer(t, a2a.BindingGRPC, func(x *exchange) {
		x.message(task("t-1", "TASK_STATE_WORKING"))
		x.fail(a2a.Errorf(a2a.CodeUnavailable, "after all"))
	})
	if err := getTask(t.Context(), p.client(t, client.Options{})); !errors.Is(err, &a2a.Error{Code: a2a.CodeUnavailable}) {
		t.Errorf("got %v", err)
	}
}

// The deadline of the caller goes along.
func TestDeadlineOverGRPC(t *testing.T) {
	t.Parallel()
	var sent atomic.Value
	p := newPeer(t, a2a.BindingGRPC, func(x *exchange) {
		sent.Store(x.r.Header.Get("Grpc-Timeout"))
		x.result(task("t-1", "TASK_STATE_WORKING"))
	})
	for _, tt := range []struct{ limit, prefix string }{{"1m", "59999m 60000m"}, {"48h", "172799S 172800S"}} {
		limit, err := time.ParseDuration(tt.limit)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		if err := getTask(ctx, p.client(t, client.Options{CallTimeout: -1})); err != nil {
			t.Fatal(err)
		}
		if got, _ := sent.Load().(string); !strings.Contains(tt.prefix, got) && !strings.HasPrefix(got, "599") {
			t.Errorf("%s is sent as %s", tt.limit, got)
		}
	}
	if err := getTask(t.Context(), p.client(t, client.Options{CallTimeout: -1})); err != nil || sent.Load() != "" {
		t.Errorf("no deadline is sent as %v, %v", sent.Load(), err)
	}
}

// With TLS HTTP/2 is agreed on; an agent that has only HTTP/1.1 is told apart.
func TestGRPCOverTLS(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{true, false} {
		p := &peer{binding: a2a.BindingGRPC}
		s := httptest.NewUnstartedServer(p.handler(func(x *exchange) { x.event(agentMessage) }))
		s.EnableHTTP2 = http2
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		p.server, p.card = s, newCard(a2a.BindingGRPC, s.URL)
		p.card.SupportedInterfaces[0].URL = s.URL
		stream, err := p.client(t, client.Options{}).SendStreamingMessage(t.Context(), hello())
		if !http2 {
			if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindTLS || e.Sent {
				t.Errorf("got %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, err := stream.Next(); err != nil || e.Message.Text() != "hi" {
			t.Errorf("got %+v, %v", e, err)
		}
		if _, err := stream.Next(); err != io.EOF {
			t.Errorf("got %v", err)
		}
	}
}

// Connections are shared by the clients of one http.Client, and can be closed.
func TestConnectionsOfGRPC(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		addresses := map[string]bool{}
		p := newPeer(t, binding, func(x *exchange) {
			addresses[x.r.RemoteAddr] = true
			x.result(task("t-1", "TASK_STATE_WORKING"))
		})
		c := p.client(t, client.Options{})
		other, err := c.With(func(o *client.Options) { o.CallTimeout = time.Hour })
		if err != nil {
			t.Fatal(err)
		}
		for _, each := range []*client.Client{c, other} {
			if err := getTask(t.Context(), each); err != nil {
				t.Fatal(err)
			}
		}
		if len(addresses) != 1 {
			t.Errorf("%d connections", len(addresses))
		}
		other.CloseIdleConnections()
		if err := getTask(t.Context(), c); err != nil || len(addresses) != 2 {
			t.Errorf("%v over %d connections", err, len(addresses))
		}
	})
}

// Addresses of gRPC may come without a scheme.
func TestAddressesOfGRPC(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, card, want string }{
		{"grpc.example.com:443", "", "https://grpc.example.com:443/"},
		{"localhost:50051", "", "http://localhost:50051/"},
		{"[::1]:50051", "", "http://[::1]:50051/"},
		{"a.example:8080", "http://a.example:8080/.well-known/agent-card.json", "http://a.example:8080/"},
		{"a.example:8081", "http://a.example:8080/.well-known/agent-card.json", "https://a.example:8081/"},
		{"127.0.0.1:443", "https://127.0.0.1/", "https://127.0.0.1:443/"},
		{"http://h.example:1/base/", "", "http://h.example:1/base/"},
		{"dns:///grpc.example.com:50051", "", "https://grpc.example.com:50051/"},
		{"unix:///run/a.sock", "", ""},
		{"", "", ""},
	} {
		card := newCard(a2a.BindingGRPC, "")
		card.SupportedInterfaces[0].URL = tt.url
		c, err := client.New(card, client.Options{CardURL: tt.card, HTTPClient: &http.Client{Transport: refusing{}}})
		if err != nil {
			if tt.want != "" {
				t.Errorf("%s: %v", tt.url, err)
			}
			continue
		}
		e, _ := errors.AsType[*client.TransportError](getTask(t.Context(), c))
		if e == nil || e.URL != tt.want+"lf.a2a.v1.A2AService/GetTask" {
			t.Errorf("%s goes to %v", tt.url, e)
		}
	}
}

// refusing is a transport that sends nothing.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }

// A guarded client without a limit on headers waits for a long answer, whatever the
// binding (row 136).
func TestGuardedLongSend(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.result(agentMessage) })
		guard := netguard.New(netguard.Policy{AllowPrivate: true})
		c := p.client(t, client.Options{HTTPClient: guard.Configured(netguard.Options{HeaderTimeout: -1})})
		if _, err := c.SendMessage(t.Context(), hello()); err != nil {
			t.Error(err)
		}
	})
}

// A guarded client dials gRPC too (row S8).
func TestGuardedGRPC(t *testing.T) {
	t.Parallel()
	p := newPeer(t, a2a.BindingGRPC, func(x *exchange) { x.result(task("t-1", "TASK_STATE_WORKING")) })
	for _, allowed := range []bool{false, true} {
		guard := netguard.New(netguard.Policy{AllowPrivate: allowed})
		err := getTask(t.Context(), p.client(t, client.Options{HTTPClient: guard.Named(netguard.Options{})}))
		e, ok := errors.AsType[*client.TransportError](err)
		if allowed && err != nil || !allowed && (!ok || e.Kind != client.KindRefused || e.Sent || p.seen() != "") {
			t.Errorf("allowed %v: %v after %s", allowed, err, p.seen())
		}
	}
}
