package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// settling is how long a node may take to work as before, once what was wrong
// is over.
const settling = 20 * time.Second

// refusing is how long a node without a store may take to say so. Where packets
// vanish it has to give up waiting first.
const refusing = 8 * time.Second

// vigil is a task that waits for its client, and a stream of it through each
// node. Such a stream has nothing to say, and must not end when the store or the
// bus is away; when they are back, the task goes on, and all streams show it.
type vigil struct {
	ledger  *ledger
	client  *client
	task    string
	leave   context.CancelFunc
	streams sync.WaitGroup
}

// newClient returns a client beside the load, which gives up when ctx ends.
func (t *cluster) newClient(ctx context.Context, l *ledger) *client {
	t.vigils++
	d := &load{ledger: l, site: t.nodes, end: ctx}
	return &client{load: d, caller: newCaller(t.nodes), random: rand.New(rand.NewPCG(t.options.seed, uint64(t.vigils))), number: 1000 + t.vigils}
}

// watch begins a vigil.
func (t *cluster) watch(ctx context.Context, l *ledger) (*vigil, error) {
	ctx, leave := context.WithTimeout(ctx, 2*time.Minute)
	w := &vigil{ledger: l, client: t.newClient(ctx, l), leave: leave}
	task := w.client.send("script", "ask", "", false)
	if task == nil {
		leave()
		return nil, errors.New("a task that asks cannot be made")
	}
	w.task = task.ID
	var opened sync.WaitGroup
	for _, n := range t.nodes.nodes {
		opened.Add(1)
		w.streams.Go(func() { w.follow(ctx, n, sync.OnceFunc(opened.Done)) })
	}
	opened.Wait()
	return w, nil
}

// follow follows the task through one node, for as long as it takes, and calls
// opened when the stream has begun.
func (w *vigil) follow(ctx context.Context, n *server, opened func()) {
	defer opened()
	seen := &watch{}
	defer w.ledger.watched("script", w.task, seen)
	caller := w.client.caller.only(n.address)
	caller.patience = 0
	var state a2a.TaskState
	for range 3 { // the node may have become ready only now
		s := &stretch{}
		err := caller.stream(ctx, "script", "SubscribeToTask", taskID(w.task), 0, func(seq int64, body jsontext.Value) {
			opened()
			s.frames = append(s.frames, frame{seq, body})
			if now := stateOf(body); now != 0 {
				state = now
			}
		})
		if len(s.frames) == 0 && err != nil && ctx.Err() == nil {
			w.ledger.count(countUnavailable, 1)
			wait(ctx, time.Second)
			continue
		}
		seen.stretches = append(seen.stretches, s)
		if !state.Terminal() {
			w.ledger.violate(w.task, "a stream through %s did not survive; it ended at %s: %v", n.name, state, err)
		}
		return
	}
	w.ledger.violate(w.task, "a task that waits cannot be watched through %s", n.name)
}

// refused checks that nodes without a store are alive, and say when to try
// again.
func (w *vigil) refused(ctx context.Context, nodes ...*server) {
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() {
			if code, err := n.asks(ctx, "/healthz"); ctx.Err() == nil && code != http.StatusOK {
				w.ledger.violate("", "%s is not alive without its store: %d, %v", n.name, code, err)
			}
			caller := w.client.caller.only(n.address)
			caller.patience = refusing
			_, err := caller.call(ctx, "script", "GetTask", taskID(w.task))
			if ctx.Err() == nil && (err == nil || a2a.CodeOf(err) != a2a.CodeUnavailable || errors.Is(err, errGone)) {
				w.ledger.violate(w.task, "%s without its store answers: %v", n.name, err)
			}
			w.ledger.count(countAway, 1)
		})
	}
	all.Wait()
}

// finish lets the task go on. All streams have to show its end.
func (w *vigil) finish() {
	w.client.send("script", "answer", w.task, false)
	timer := time.AfterFunc(settling, w.leave)
	w.streams.Wait()
	timer.Stop()
}

func (w *vigil) close() {
	w.leave()
	w.streams.Wait()
}

// works checks that a node runs a task as before.
func (t *cluster) works(ctx context.Context, l *ledger, n *server) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	c := t.newClient(ctx, l)
	c.caller = c.caller.only(n.address)
	text := "hello from " + n.name
	id := c.messageID()
	l.sending(id, "script", text)
	for last := error(nil); ; {
		before := l.terminal("")
		result, err := c.caller.call(ctx, "script", "SendMessage", message(id, text, "", false))
		var response a2a.SendMessageResponse
		if err == nil {
			err = a2a.Unmarshal(result, &response)
		}
		if err == nil && response.Task == nil {
			err = fmt.Errorf("no task but %s", result)
		}
		if err == nil {
			l.observe("script", response.Task.ID, response.Task.Status.State, before)
			l.acknowledged(id, response.Task.ID)
			if response.Task.Status.State.Terminal() {
				return nil
			}
			err = errors.New(strings.ToLower(response.Task.Status.State.String()))
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s does not work again within %s: %w", n.name, settling, errors.Join(last, err))
		}
		last = err
		wait(ctx, 100*time.Millisecond)
	}
}
