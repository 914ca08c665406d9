package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// collect reads a stream to its end and returns what it said, in short.
func collect(s *client.Stream) (events []string, last error) {
	for e, err := range s.All() {
		if err != nil {
			return events, err
		}
		events = append(events, brief(e))
	}
	return events, nil
}

func brief(e *a2a.StreamResponse) string {
	switch {
	case e.Task != nil:
		return "task " + e.Task.Status.State.String()[len("TASK_STATE_"):]
	case e.StatusUpdate != nil:
		return "status " + e.StatusUpdate.Status.State.String()[len("TASK_STATE_"):]
	case e.ArtifactUpdate != nil:
		text := ""
		if parts := e.ArtifactUpdate.Artifact.Parts; len(parts) > 0 {
			text = parts[0].Text
		}
		return "artifact " + text
	case e.Message != nil:
		return "message " + e.Message.Text()
	}
	return "nothing"
}

// Row 138.
func TestStream(t *testing.T) {
	working, completed := taskEvent("t-1", "TASK_STATE_WORKING"), statusEvent("t-1", "TASK_STATE_COMPLETED")
	tests := []struct {
		name   string
		script script
		want   []string
		check  func(t *testing.T, err error)
		onlyOf string // event streams: gRPC has no such thing
	}{
		{
			name:   "life of a task",
			script: func(x *exchange) { x.event(working); x.event(artifactEvent("t-1", "a", "x")); x.event(completed) },
			want:   []string{"task WORKING", "artifact x", "status COMPLETED"},
		},
		{
			name:   "message",
			script: func(x *exchange) { x.event(agentMessage) },
			want:   []string{"message hi"},
		},
		{
			name: "comments and other fields between",
			script: func(x *exchange) {
				x.frame(": hi\n\n:\n\nretry: 5\n\nevent: x\n\ndata:\n\ndata: \n\n")
				x.event(working)
				x.frame(": keep-alive\n\n")
				x.event(completed)
			},
			want: []string{"task WORKING", "status COMPLETED"},
		},
		{
			name: "task again at the end",
			script: func(x *exchange) {
				x.event(working)
				x.event(completed)
				x.event(taskEvent("t-1", "TASK_STATE_COMPLETED"))
			},
			want: []string{"task WORKING", "status COMPLETED", "task COMPLETED"},
		},
		{
			name: "empty parts and a status without a message",
			script: func(x *exchange) {
				x.event(working)
				x.event(`{"artifactUpdate":{"taskId":"t-1","contextId":"c-1","artifact":{"artifactId":"a","parts":[]},"append":true}}`)
				x.event(`{"statusUpdate":{"taskId":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_THINKING"}}}`)
				x.event(completed)
			},
			want: []string{"task WORKING", "artifact ", "status UNSPECIFIED", "status COMPLETED"},
		},
		{
			name:   "event of a later version",
			script: func(x *exchange) { x.event(working); x.event(`{"somethingNew":{}}`); x.event(completed) },
			want:   []string{"task WORKING", "status COMPLETED"},
		},
		{
			name:   "empty frame after the end",
			script: func(x *exchange) { x.event(completed); x.frame("data: {}\n\n") },
			want:   []string{"status COMPLETED"},
		},
		{
			onlyOf: "text/event-stream", name: "no last blank line",
			script: func(x *exchange) { x.event(working); x.frame("data: " + x.wrap(completed)) },
			want:   []string{"task WORKING", "status COMPLETED"},
		},
		{
			name:   "ends at input required",
			script: func(x *exchange) { x.event(working); x.event(statusEvent("t-1", "TASK_STATE_INPUT_REQUIRED")) },
			want:   []string{"task WORKING", "status INPUT_REQUIRED"},
		},
		{
			name: "goes on after auth required",
			script: func(x *exchange) {
				x.event(working)
				x.event(statusEvent("t-1", "TASK_STATE_AUTH_REQUIRED"))
				x.event(completed)
			},
			want: []string{"task WORKING", "status AUTH_REQUIRED", "status COMPLETED"},
		},
		{
			name:   "breaks after the end",
			script: func(x *exchange) { x.event(completed); x.cut() },
			want:   []string{"status COMPLETED"},
		},
		{
			onlyOf: "text/event-stream", name: "ends too early",
			script: func(x *exchange) { x.frame("id: 7\n"); x.event(working) },
			want:   []string{"task WORKING"},
			check:  isCut("t-1", "7"),
		},
		{
			name:   "breaks",
			script: func(x *exchange) { x.event(working); x.cut() },
			want:   []string{"task WORKING"},
			check:  isCut("t-1", ""),
		},
		{
			onlyOf: "text/event-stream", name: "breaks within an event",
			script: func(x *exchange) { x.event(working); x.frame("data: {\"jso"); x.cut() },
			want:   []string{"task WORKING"},
			check:  isCut("t-1", ""),
		},
		{
			onlyOf: "text/event-stream", name: "ends within an event",
			script: func(x *exchange) { x.event(working); x.frame("data: {\"jso") },
			want:   []string{"task WORKING"},
			check:  isCut("t-1", ""),
		},
		{
			name:   "breaks while it could go on",
			script: func(x *exchange) { x.event(taskEvent("t-1", "TASK_STATE_AUTH_REQUIRED")); x.cut() },
			want:   []string{"task AUTH_REQUIRED"},
			check:  isCut("t-1", ""),
		},
		{
			name:   "unspecified is no end",
			script: func(x *exchange) { x.event(taskEvent("t-1", "TASK_STATE_UNSPECIFIED")) },
			want:   []string{"task UNSPECIFIED"},
			check:  isCut("t-1", ""),
		},
		{
			name:   "nothing at all",
			script: func(x *exchange) { x.frame(": hi\n\n") },
			check:  isCut("", ""),
		},
		{
			name: "error in the middle",
			script: func(x *exchange) {
				x.event(working)
				x.failEvent(a2a.Errorf(a2a.CodeUnavailable, "going down"))
			},
			want: []string{"task WORKING"},
			check: func(t *testing.T, err error) {
				if e, ok := errors.AsType[*a2a.Error](err); !ok || e.Code != a2a.CodeUnavailable || e.Message != "going down" {
					t.Errorf("got %v", err)
				}
			},
		},
		{
			onlyOf: "text/event-stream", name: "frame that is no event",
			script: func(x *exchange) { x.event(working); x.frame("data: hello\n\n"); x.event(completed) },
			want:   []string{"task WORKING"},
			check:  isProtocolError,
		},
	}
	onEach(t, func(t *testing.T, binding string) {
		for _, tt := range tests {
			if tt.onlyOf != "" && binding == a2a.BindingGRPC {
				continue
			}
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, binding, tt.script)
				stream, err := p.client(t, client.Options{}).SendStreamingMessage(t.Context(), hello())
				if err != nil {
					t.Fatal(err)
				}
				got, err := collect(stream)
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Errorf("events (-want +got):\n%s", d)
				}
				switch {
				case tt.check != nil:
					tt.check(t, err)
				case err != nil:
					t.Errorf("got %v", err)
				}
				if p.seen() != "SendStreamingMessage" {
					t.Errorf("the peer got %s", p.seen())
				}
			})
		}
	})
}

func isCut(taskID, lastEventID string) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		e, ok := errors.AsType[*client.StreamCutError](err)
		if !ok || !errors.Is(err, client.ErrStreamCut) || e.TaskID != taskID || e.LastEventID != lastEventID {
			t.Errorf("got %#v", err)
		}
	}
}

func isProtocolError(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*client.TransportError](err)
	if !ok || e.Kind != client.KindProtocol || errors.Is(err, client.ErrStreamCut) {
		t.Errorf("got %v", err)
	}
}

// Frames of JSON-RPC have to name the request.
func TestStreamFrameWithWrongID(t *testing.T) {
	t.Parallel()
	p := newPeer(t, a2a.BindingJSONRPC, func(x *exchange) {
		x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
		x.frame(`data: {"jsonrpc":"2.0","id":"other","result":` + statusEvent("t-1", "TASK_STATE_COMPLETED") + "}\n\n")
	})
	stream, err := p.client(t, client.Options{}).SendStreamingMessage(t.Context(), hello())
	if err != nil {
		t.Fatal(err)
	}
	_, err = collect(stream)
	isProtocolError(t, err)
	if !strings.Contains(err.Error(), `id "other"`) {
		t.Errorf("got %v", err)
	}
}

// What is wrong before the first event is an ordinary error.
func TestStreamRefused(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.fail(a2a.Errorf(a2a.CodeUnsupportedOperation, "The task is over")) })
		_, err := p.client(t, client.Options{}).SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "t"})
		if !errors.Is(err, &a2a.Error{Code: a2a.CodeUnsupportedOperation}) {
			t.Errorf("got %v", err)
		}
		if p.seen() != "SubscribeToTask" {
			t.Errorf("the peer got %s", p.seen())
		}
	})
}

// A plain JSON answer is a stream of one event. (Row 128.)
func TestStreamAnsweredWithJSON(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		for state, isEnd := range map[string]bool{"TASK_STATE_COMPLETED": true, "TASK_STATE_WORKING": false} {
			p := newPeer(t, binding, func(x *exchange) { x.result(taskEvent("t-1", state)) })
			stream, err := p.client(t, client.Options{}).SendStreamingMessage(t.Context(), hello())
			if err != nil {
				t.Fatal(err)
			}
			events, err := collect(stream)
			if len(events) != 1 || errors.Is(err, client.ErrStreamCut) == isEnd {
				t.Errorf("got %q, %v", events, err)
			}
		}
	})
}

func TestStreamAnsweredWithSomethingElse(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			x.body(200, "application/x-ndjson", x.wrap(agentMessage)+"\n"+x.wrap(agentMessage)+"\n")
		})
		_, err := p.client(t, client.Options{}).SendStreamingMessage(t.Context(), hello())
		isProtocolError(t, err)
		if !strings.Contains(err.Error(), "application/x-ndjson") {
			t.Errorf("got %v", err)
		}
	})
}

// An agent without streaming gets SendMessage. (Row 128.)
func TestStreamOfAnAgentWithoutStreaming(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.result(taskEvent("t-1", "TASK_STATE_COMPLETED")) })
		p.card.Capabilities.Streaming = nil
		stream, err := p.client(t, client.Options{}).SendStreamingMessage(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		events, err := collect(stream)
		if err != nil || len(events) != 1 || p.seen() != "SendMessage" {
			t.Errorf("got %q, %v after %s", events, err, p.seen())
		}
	})
}

// The client tries POST, then GET, and remembers which one works.
func TestSubscribeFallsBackToGET(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNotFound, http.StatusMethodNotAllowed} {
		var methods []string
		p := newPeer(t, a2a.BindingREST, func(x *exchange) {
			methods = append(methods, x.r.Method)
			if x.r.Method == http.MethodPost {
				x.body(status, "text/plain", "no such page")
				return
			}
			x.event(taskEvent("t-1", "TASK_STATE_COMPLETED"))
		})
		c := p.client(t, client.Options{})
		for range 2 {
			stream, err := c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "t-1"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := collect(stream); err != nil {
				t.Error(err)
			}
		}
		if d := cmp.Diff([]string{"POST", "GET", "GET"}, methods); d != "" {
			t.Errorf("status %d: %s", status, d)
		}
	}
}

func TestSubscribeToAnUnknownTask(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.fail(a2a.TaskNotFound("t-1")) })
		_, err := p.client(t, client.Options{}).SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "t-1"})
		if !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) || p.seen() != "SubscribeToTask" {
			t.Errorf("got %v after %s", err, p.seen())
		}
	})
}

// Resume asks for what follows the last event and rebuilds the task without a
// gap, whether or not the peer knows the header. (Row 137.)
func TestResume(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		for _, knowsHeader := range []bool{true, false} {
			p := newPeer(t, binding, func(x *exchange) {
				switch {
				case x.op == "SendStreamingMessage":
					x.frame("id: 1\n")
					x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
					x.frame("id: 2\n")
					x.event(artifactEvent("t-1", "a", "A"))
					x.cut()
				case x.r.Header.Get("Last-Event-ID") != "2" && binding != a2a.BindingGRPC:
					x.fail(a2a.Invalid("Last-Event-ID", "is %q", x.r.Header.Get("Last-Event-ID")))
				case knowsHeader && binding != a2a.BindingGRPC:
					x.frame("id: 3\n")
					x.event(artifactEvent("t-1", "a", "B", `,"append":true`))
					x.event(statusEvent("t-1", "TASK_STATE_COMPLETED"))
				default:
					x.event(taskEvent("t-1", "TASK_STATE_WORKING", `,"artifacts":[{"artifactId":"a","parts":[{"text":"A"},{"text":"B"}]}]`))
					x.event(statusEvent("t-1", "TASK_STATE_COMPLETED"))
				}
			})
			stream, err := p.client(t, client.Options{}).SendStreamingMessage(t.Context(), hello())
			if err != nil {
				t.Fatal(err)
			}
			var a client.Accumulator
			for {
				e, err := stream.Next()
				if errors.Is(err, client.ErrStreamCut) {
					if stream, err = stream.Resume(t.Context()); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := a.Add(e); err != nil {
					t.Fatal(err)
				}
			}
			want := &a2a.Task{
				ID: "t-1", ContextID: "c-1", Status: a2a.TaskStatus{State: a2a.StateCompleted},
				Artifacts: []a2a.Artifact{{ArtifactID: "a", Parts: []a2a.Part{a2a.Text("A"), a2a.Text("B")}}},
			}
			if d := cmp.Diff(want, a.Task); d != "" {
				t.Errorf("knows the header: %v (-want +got):\n%s", knowsHeader, d)
			}
		}
	})
}

// An id that the peer no longer knows is given up.
func TestResumeWithExpiredID(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			if x.r.Header.Get("Last-Event-ID") != "" {
				x.fail(a2a.Invalid("Last-Event-ID", "has expired"))
				return
			}
			x.event(taskEvent("t-1", "TASK_STATE_COMPLETED"))
		})
		stream, err := p.client(t, client.Options{}).SubscribeAfter(t.Context(), &a2a.SubscribeToTaskRequest{ID: "t-1"}, "5")
		if err != nil {
			t.Fatal(err)
		}
		if events, err := collect(stream); err != nil || len(events) != 1 {
			t.Errorf("got %q, %v", events, err)
		}
	})
}

// Whoever stops early holds nothing.
func TestStreamStoppedEarly(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		gone := make(chan struct{})
		p := newPeer(t, binding, func(x *exchange) {
			x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
			x.hang()
			close(gone)
		})
		stream, err := p.client(t, client.Options{}).SendStreamingMessage(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		for range stream.All() {
			break
		}
		<-gone
		if _, err := stream.Next(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestStreamClosedWhileNextWaits(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.event(taskEvent("t-1", "TASK_STATE_WORKING")); x.hang() })
		stream, err := p.client(t, client.Options{}).SendStreamingMessage(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Next(); err != nil {
			t.Fatal(err)
		}
		go stream.Close()
		if _, err := stream.Next(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestStreamCanceledByTheCaller(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.event(taskEvent("t-1", "TASK_STATE_WORKING")); x.hang() })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := p.client(t, client.Options{}).SendStreamingMessage(ctx, hello())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Next(); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := stream.Next(); !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrStreamCut) {
			t.Errorf("got %v", err)
		}
	})
}

// An ordinary end of the stream leaves the connection for the next call.
func TestStreamsShareAConnection(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		addresses := map[string]bool{}
		p := newPeer(t, binding, func(x *exchange) {
			addresses[x.r.RemoteAddr] = true
			x.event(taskEvent("t-1", "TASK_STATE_COMPLETED"))
		})
		c := p.client(t, client.Options{})
		for range 3 {
			stream, err := c.SendStreamingMessage(t.Context(), hello())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := collect(stream); err != nil {
				t.Fatal(err)
			}
		}
		if len(addresses) != 1 {
			t.Errorf("%d connections", len(addresses))
		}
	})
}

// onPipe runs a test against a scripted peer over connections in memory, with
// the clock of a synctest bubble.
func onPipe(t *testing.T, s script, opts client.Options, test func(t *testing.T, c *client.Client)) {
	t.Helper()
	onPipeWithPeer(t, s, opts, func(t *testing.T, _ *peer, c *client.Client) { test(t, c) })
}

func onPipeWithPeer(t *testing.T, s script, opts client.Options, test func(t *testing.T, p *peer, c *client.Client)) {
	t.Helper()
	onPipeOf(t, onEach, s, opts, test)
}

func onPipeOf(t *testing.T, on func(*testing.T, func(*testing.T, string)), s script, opts client.Options, test func(t *testing.T, p *peer, c *client.Client)) {
	t.Helper()
	on(t, func(t *testing.T, binding string) {
		synctest.Test(t, func(t *testing.T) {
			listener := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
			p := &peer{binding: binding, card: newCard(binding, "http://pipe.test")}
			server := &http.Server{Handler: p.handler(s), Protocols: withH2C()}
			go server.Serve(listener)
			defer server.Close()
			transport := &http.Transport{DialContext: listener.dial}
			defer transport.CloseIdleConnections()
			o := opts
			o.HTTPClient = &http.Client{Transport: transport, Timeout: time.Second}
			c, err := client.New(p.card, o)
			if err != nil {
				t.Fatal(err)
			}
			test(t, p, c)
		})
	})
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{} }

// A stream lives as long as something comes now and then, whatever the Timeout
// of the HTTP client says. (Row 136.)
func TestLongStream(t *testing.T) {
	onPipe(t, func(x *exchange) {
		x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
		for i := range 30 { // ten minutes
			x.pause(20 * time.Second)
			x.event(artifactEvent("t-1", "a", fmt.Sprint(i), `,"append":true`))
		}
		for range 6 { // nine minutes with comments only, or with nothing over gRPC
			x.pause(90 * time.Second)
			x.frame(": keep-alive\n\n")
		}
		x.event(statusEvent("t-1", "TASK_STATE_COMPLETED"))
	}, client.Options{}, func(t *testing.T, c *client.Client) {
		stream, err := c.SendStreamingMessage(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		events, err := collect(stream)
		if err != nil || len(events) != 32 {
			t.Errorf("%d events, %v", len(events), err)
		}
	})
}

// Row 136.
func TestLongSend(t *testing.T) {
	onPipe(t, func(x *exchange) {
		x.pause(5 * time.Hour)
		x.result(agentMessage)
	}, client.Options{}, func(t *testing.T, c *client.Client) {
		if _, err := c.SendMessage(t.Context(), hello()); err != nil {
			t.Error(err)
		}
	})
}

// Row 136.
func TestIdleStream(t *testing.T) {
	onPipe(t, func(x *exchange) {
		x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
		x.hang()
	}, client.Options{IdleTimeout: client.DefaultIdleTimeout}, func(t *testing.T, c *client.Client) {
		stream, err := c.SendStreamingMessage(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = collect(stream)
		isCut("t-1", "")(t, err)
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindTimeout {
			t.Errorf("got %v", err)
		}
		if d := time.Since(start); d != client.DefaultIdleTimeout {
			t.Errorf("after %v", d)
		}
	})
}

// The time between two calls of Next does not count.
func TestSlowReader(t *testing.T) {
	onPipe(t, func(x *exchange) {
		x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
		x.event(statusEvent("t-1", "TASK_STATE_COMPLETED"))
	}, client.Options{}, func(t *testing.T, c *client.Client) {
		stream, err := c.SendStreamingMessage(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range stream.All() {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if n == 1 {
				time.Sleep(time.Hour)
			}
		}
		if n != 2 {
			t.Errorf("%d events", n)
		}
	})
}

func TestStreamThatNeverBegins(t *testing.T) {
	onPipe(t, func(x *exchange) { x.hang() }, client.Options{IdleTimeout: time.Minute}, func(t *testing.T, c *client.Client) {
		start := time.Now()
		_, err := c.SendStreamingMessage(t.Context(), hello())
		e, ok := errors.AsType[*client.TransportError](err)
		if !ok || e.Kind != client.KindTimeout || !e.Sent || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

// A peer that does not close the stream after the last event holds nobody up.
func TestStreamLeftOpen(t *testing.T) {
	onPipe(t, func(x *exchange) {
		x.event(statusEvent("t-1", "TASK_STATE_COMPLETED"))
		for x.pause(time.Second) {
			x.frame(": still here\n\n")
		}
	}, client.Options{}, func(t *testing.T, c *client.Client) {
		stream, err := c.SendStreamingMessage(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		events, err := collect(stream)
		if err != nil || len(events) != 1 || time.Since(start) > 6*time.Second {
			t.Errorf("got %q, %v after %v", events, err, time.Since(start))
		}
	})
}

// A throttled peer is read byte by byte.
func TestThrottledStream(t *testing.T) {
	onPipeOf(t, onBoth, func(x *exchange) {
		x.frame("")
		for _, b := range []byte("data: " + x.wrap(taskEvent("t-1", "TASK_STATE_COMPLETED")) + "\r\n\r\n") {
			x.pause(time.Minute)
			x.frame(string(b))
		}
	}, client.Options{}, func(t *testing.T, _ *peer, c *client.Client) {
		stream, err := c.SendStreamingMessage(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		if events, err := collect(stream); err != nil || len(events) != 1 {
			t.Errorf("got %q, %v", events, err)
		}
	})
}

// Read writes over the event before, and says the same as Next.
func TestStreamRead(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
			x.event(artifactEvent("t-1", "a", "x", `,"append":true`))
			x.event(artifactEvent("t-1", "b", "y"))
			x.event(statusEvent("t-1", "TASK_STATE_COMPLETED"))
		})
		stream, err := p.client(t, client.Options{}).SendStreamingMessage(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		var e a2a.StreamResponse
		for {
			err := stream.Read(&e)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, brief(&e))
			if u := e.ArtifactUpdate; u != nil && u.Append != (u.Artifact.ArtifactID == "a") {
				t.Errorf("update %+v", u)
			}
		}
		if d := cmp.Diff([]string{"task WORKING", "artifact x", "artifact y", "status COMPLETED"}, got); d != "" {
			t.Error(d)
		}
		if stream.State() != a2a.StateCompleted || stream.TaskID() != "t-1" {
			t.Errorf("task %s is %v", stream.TaskID(), stream.State())
		}
	})
}

// What Wait and an Accumulator keep is their own, also of events that the next Read
// writes over.
func TestWhatIsAccumulatedOutlastsTheNextRead(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
			for _, e := range []string{
				artifactEvent("t-1", "a", "1"), artifactEvent("t-1", "b", "2", `,"append":true`), artifactEvent("t-1", "a", "3", `,"append":true`),
				artifactEvent("t-1", "b", "4"), artifactEvent("t-1", "c", "5"),
			} {
				x.event(e)
			}
			x.event(statusEvent("t-1", "TASK_STATE_COMPLETED"))
		})
		c := p.client(t, client.Options{})
		texts := func(task *a2a.Task) (all []string) {
			for _, a := range task.Artifacts {
				text := a.ArtifactID + ":"
				for _, part := range a.Parts {
					text += part.Text
				}
				all = append(all, text)
			}
			return all
		}
		want := []string{"a:13", "b:4", "c:5"}
		answer, err := c.SendAndWait(t.Context(), hello(), client.WaitOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, texts(answer.Task)); d != "" {
			t.Errorf("waited: %s", d)
		}
		stream, err := c.SendStreamingMessage(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		var seen client.Accumulator
		var e a2a.StreamResponse
		for err = stream.Read(&e); err == nil; err = stream.Read(&e) {
			if err := seen.Add(&e); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, texts(seen.Task)); d != "" || err != io.EOF {
			t.Errorf("accumulated: %v %s", err, d)
		}
	})
}
