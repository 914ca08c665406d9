package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

// TestPushScripts runs nodes that send events to a receiver, which comes and
// goes.
func TestPushScripts(t *testing.T) {
	t.Parallel()
	commands := nodeCommands()
	commands["receiver"], commands["heard"], commands["plant"], commands["measured"] = cmdReceiver, cmdHeard, cmdPlant, cmdMeasured
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "push"),
		Setup: func(env *testscript.Env) error {
			settle(env)
			env.Values[serverKey{}] = &serving{}
			r := &receiver{address: "127.0.0.1:0", changed: make(chan struct{})}
			env.Values[receiverKey{}] = r
			env.Defer(r.down)
			return nil
		},
		Cmds: commands,
	})
}

type receiverKey struct{}

// receiver is a webhook. It keeps the same address when it comes back.
type receiver struct {
	address string
	server  *http.Server
	served  chan struct{}

	mu      sync.Mutex
	events  []string // the ids and what they say
	changed chan struct{}
}

func (r *receiver) up() error {
	l, err := net.Listen("tcp", r.address)
	if err != nil {
		return err
	}
	r.address, r.served = l.Addr().String(), make(chan struct{})
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func(server *http.Server, served chan struct{}) {
		_ = server.Serve(l)
		close(served)
	}(r.server, r.served)
	return nil
}

func (r *receiver) down() {
	if r.server != nil {
		_ = r.server.Close()
		<-r.served
		r.server = nil
	}
}

// ServeHTTP takes an event.
func (r *receiver) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	var event a2a.StreamResponse
	if err == nil {
		err = a2a.Unmarshal(body, &event)
	}
	said := "artifact"
	switch {
	case err != nil:
		said = err.Error()
	case event.StatusUpdate != nil:
		said = strings.TrimPrefix(event.StatusUpdate.Status.State.String(), "TASK_STATE_")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := q.Header.Get("X-A2A-Event-ID")
	if n := len(r.events); n > 0 && strings.HasPrefix(r.events[n-1], id+" ") {
		return // again, as is allowed
	}
	r.events = append(r.events, id+" "+said)
	close(r.changed)
	r.changed = make(chan struct{})
}

// cmdReceiver lets the receiver come up or go down. It sets HOOK to its URL.
func cmdReceiver(ts *testscript.TestScript, _ bool, args []string) {
	r := ts.Value(receiverKey{}).(*receiver)
	if len(args) == 1 && args[0] == "down" {
		r.down()
		return
	}
	ts.Check(r.up())
	ts.Setenv("HOOK", "http://"+r.address+"/hook?key=hook-secret")
}

// cmdHeard waits until the receiver has heard what the arguments say, in that
// order and nothing else.
func cmdHeard(ts *testscript.TestScript, _ bool, want []string) {
	r := ts.Value(receiverKey{}).(*receiver)
	deadline := time.After(2 * testPatience)
	for {
		r.mu.Lock()
		changed, events := r.changed, append([]string(nil), r.events...)
		r.mu.Unlock()
		var said []string
		for _, e := range events {
			_, what, _ := strings.Cut(e, " ")
			said = append(said, what)
		}
		if got := strings.Join(said, " "); got == strings.Join(want, " ") {
			return
		} else if len(said) > len(want) {
			ts.Fatalf("the receiver heard %q", events)
		}
		select {
		case <-changed:
		case <-deadline:
			ts.Fatalf("the receiver heard only %q", events)
		}
	}
}

// cmdMeasured waits until the metrics of the node have a line.
func cmdMeasured(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	c, err := config.Load(ts.MkAbs("handoff.yaml"))
	ts.Check(err)
	node, err := socketNode(c)
	ts.Check(err)
	defer node.close()
	for {
		response, err := node.request(ctx, http.MethodGet, "/api/v1/metrics", nil)
		ts.Check(err)
		text, err := io.ReadAll(response.Body)
		ts.Check(errors.Join(err, response.Body.Close()))
		if strings.Contains(string(text), "\n"+strings.Join(args, " ")+"\n") {
			return
		}
	}
}

// cmdPlant gives a webhook of a task up, in the store of a node that does not
// run.
func cmdPlant(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, ts.MkAbs("handoff.db"), sqlite.Options{})
	ts.Check(err)
	defer func() { ts.Check(s.Close()) }()
	row, err := s.Task(ctx, store.ForAll(), args[0])
	ts.Check(err)
	ts.Check(s.Commit(ctx, &store.Change{Task: row.Key, Events: []store.Event{{Kind: store.KindArtifact, Body: []byte(`{"artifactUpdate":{"taskId":"` + row.ID + `"}}`)}}}))
	jobs, err := s.Jobs(ctx, 10, time.Hour)
	ts.Check(err)
	for _, j := range jobs {
		_, err := s.Deliver(ctx, &store.Delivery{
			Job: j.ID, Attempt: j.Attempt, Task: row.Key, Webhook: j.Key, Outcome: store.DeliverNever, Stuck: row.Seq + 1, Error: "the receiver answered with HTTP status 400",
		})
		ts.Check(err)
	}
}
