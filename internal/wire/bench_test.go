package wire_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/wire"
)

// sink is a response that keeps nothing but what a check needs.
type sink struct {
	header http.Header
	status int
	bytes  int
	bad    bool
}

func (s *sink) Header() http.Header    { return s.header }
func (s *sink) WriteHeader(status int) { s.status = status }
func (s *sink) Write(b []byte) (int, error) {
	s.bytes += len(b)
	s.bad = s.bad || !bytes.Contains(b, []byte("TASK_STATE_COMPLETED"))
	return len(b), nil
}

// quick answers with four events: SUBMITTED, WORKING, an artifact, COMPLETED.
func quick(s *engine.Spec) {
	s.Run = agent.Func(func(_ context.Context, t *agent.Turn) error {
		if err := t.Artifact(a2a.Text("done: " + t.Text())); err != nil {
			return err
		}
		return t.Complete()
	})
}

// BenchmarkSendMessage is a blocking SendMessage of a task of four events, from
// the handler to the disk, without a network.
func BenchmarkSendMessage(b *testing.B) {
	n := newNode(b, setting{spec: quick, options: func(o *wire.Options) {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}})
	var id atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m-%d","role":"ROLE_USER","parts":[{"text":"hello"}]}}}`, id.Add(1))
			r, _ := http.NewRequest(http.MethodPost, "http://localhost/agents/quote/rpc", strings.NewReader(body))
			r.Header["Content-Type"] = []string{"application/json"}
			r.Header["A2a-Version"] = []string{"1.0"}
			r.RemoteAddr = "127.0.0.1:1234"
			w := &sink{header: http.Header{}}
			n.handler.ServeHTTP(w, r)
			if w.status != http.StatusOK || w.bad {
				b.Fatalf("status %d", w.status)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkSendMessageHTTP is the same over connections of their own.
func BenchmarkSendMessageHTTP(b *testing.B) {
	n := newNode(b, setting{spec: quick})
	var id atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m-%d","role":"ROLE_USER","parts":[{"text":"hello"}]}}}`, id.Add(1))
			r, _ := http.NewRequest(http.MethodPost, n.url+"rpc", strings.NewReader(body))
			r.Header["Content-Type"] = []string{"application/json"}
			r.Header["A2a-Version"] = []string{"1.0"}
			response, err := n.client.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkRefusal is what the bindings cost by themselves: a request that ends
// before the engine.
func BenchmarkRefusal(b *testing.B) {
	n := newNode(b, setting{})
	body := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"raw":"AA==","mediaType":"image/bmp"},{"raw":"AA==","mediaType":"audio/wav"}]}}}`
	b.ReportAllocs()
	for b.Loop() {
		r, _ := http.NewRequest(http.MethodPost, "http://localhost/agents/quote/rpc", strings.NewReader(body))
		r.Header["Content-Type"] = []string{"application/json"}
		r.Header["A2a-Version"] = []string{"1.0"}
		r.RemoteAddr = "127.0.0.1:1234"
		w := &sink{header: http.Header{}}
		n.handler.ServeHTTP(w, r)
	}
}
