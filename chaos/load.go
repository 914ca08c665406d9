//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// load is the clients.
type load struct {
	ledger  *ledger
	site    *site
	workers sync.WaitGroup
	stop    chan struct{} // closed when no more work is begun
	end     context.Context
	cancel  context.CancelFunc

	mu     sync.Mutex
	recent []runningTask // to be watched by others
}

type runningTask struct{ agent, id string }

// newLoad starts the clients.
func newLoad(s *site, l *ledger, clients int, seed uint64) *load {
	d := &load{ledger: l, site: s, stop: make(chan struct{})}
	d.end, d.cancel = context.WithCancel(context.Background())
	for i := range clients {
		c := &client{load: d, caller: newCaller(s), random: rand.New(rand.NewPCG(seed, uint64(i))), number: i}
		d.workers.Go(c.run)
	}
	return d
}

// finish lets the clients end what they have begun, for a time.
func (d *load) finish(within time.Duration) {
	close(d.stop)
	timer := time.AfterFunc(within, d.cancel)
	d.workers.Wait()
	timer.Stop()
	d.cancel()
}

func (d *load) share(agent, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recent = append(d.recent, runningTask{agent, id})
	if len(d.recent) > 64 {
		d.recent = d.recent[1:]
	}
}

func (d *load) pick(r *rand.Rand) (runningTask, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.recent) == 0 {
		return runningTask{}, false
	}
	return d.recent[r.IntN(len(d.recent))], true
}

// client does one thing after the other, and sees each through: whatever
// breaks, it tries again until it has an answer.
type client struct {
	*load
	caller *caller
	random *rand.Rand
	number int
	sent   int
}

func (c *client) run() {
	things := []func(){
		c.converse, c.converse, c.watchOthers, c.watchOthers, c.cancelSome, c.replies, c.polls, c.polls,
		c.streams, c.streams, c.streams, c.blocks, c.blocks, c.program, c.program, c.twice,
	}
	for {
		select {
		case <-c.stop:
			c.caller.http.CloseIdleConnections()
			return
		default:
		}
		things[c.random.IntN(len(things))]()
		wait(c.end, time.Duration(c.random.IntN(60))*time.Millisecond)
	}
}

// script returns a message that the script answers with a finished task.
func (c *client) script() string {
	switch c.random.IntN(4) {
	case 0:
		return "slow " + itoa(1+c.random.IntN(40))
	case 1:
		return "burst " + itoa(1+c.random.IntN(200))
	case 2:
		return "slow " + itoa(40+c.random.IntN(40))
	default:
		return fmt.Sprintf("hello %d from %d", c.sent, c.number)
	}
}

func (c *client) blocks() { c.send("script", c.script(), "", false) }

func (c *client) streams() { c.stream("script", c.script(), "") }

func (c *client) replies() {
	c.send("script", fmt.Sprintf("message %d of %d", c.sent, c.number), "", false)
}

// polls sends a message that is answered at once, and asks for the task until
// it is done.
func (c *client) polls() {
	task := c.send("script", c.script(), "", true)
	for task != nil && !task.Status.State.Terminal() {
		wait(c.end, 50*time.Millisecond)
		task = c.get("script", task.ID)
	}
}

// converse answers a question.
func (c *client) converse() {
	agent := []string{"script", "script", "once", "again"}[c.random.IntN(4)]
	task := c.send(agent, "ask", "", false)
	if task == nil || task.Status.State != a2a.StateInputRequired {
		return
	}
	if c.random.IntN(8) == 0 {
		c.cancelTask(agent, task.ID)
		return
	}
	text := "answer " + itoa(c.sent)
	if c.random.IntN(2) == 0 {
		c.stream(agent, text, task.ID)
	} else {
		c.send(agent, text, task.ID, false)
	}
}

// program gives work to a program with side effects.
func (c *client) program() {
	agent, text := programs[c.random.IntN(2)], "work "+itoa(20+c.random.IntN(400))
	if c.random.IntN(3) == 0 {
		text = "quiet " + itoa(300+c.random.IntN(1200))
	}
	if c.random.IntN(2) == 0 {
		c.stream(agent, text, "")
	} else {
		c.send(agent, text, "", c.random.IntN(2) == 0)
	}
}

func (c *client) cancelSome() {
	agent, text := "script", "slow 80"
	if c.random.IntN(3) == 0 {
		agent, text = programs[c.random.IntN(2)], "work 6000"
	}
	task := c.send(agent, text, "", true)
	if task == nil {
		return
	}
	wait(c.end, time.Duration(c.random.IntN(500))*time.Millisecond)
	c.cancelTask(agent, task.ID)
}

// twice sends one message in two requests at once, which reach two nodes when
// there are several.
func (c *client) twice() {
	agent, text := []string{"script", "once", "again"}[c.random.IntN(3)], c.script()
	if agent != "script" {
		text = "work " + itoa(20+c.random.IntN(400))
	}
	id := c.messageID()
	c.ledger.sending(id, agent, text)
	c.ledger.count(countTwice, 1)
	params := message(id, text, "", c.random.IntN(2) == 0)
	twin := &client{load: c.load, caller: c.caller.after(), random: rand.New(rand.NewPCG(c.random.Uint64(), 0)), number: c.number}
	var both sync.WaitGroup
	both.Go(func() { twin.sendParams(agent, id, "", params) })
	c.sendParams(agent, id, "", params)
	both.Wait()
}

// watchOthers follows a task of another client.
func (c *client) watchOthers() {
	if t, ok := c.pick(c.random); ok {
		c.follow(&watch{}, t.agent, t.id, nil)
	}
}

// again decides what to do about an error: whether the call is to be made
// again. An error that a client cannot do anything about is a violation.
func (c *client) again(task string, err error, expected ...a2a.Code) bool {
	if c.end.Err() != nil {
		c.ledger.violate(task, "a client could not finish in time: %v", err)
		return false
	}
	var known *a2a.Error
	switch {
	case errors.Is(err, errGone):
		c.ledger.count(countBroken, 1)
	case errors.Is(err, errDrained):
		c.ledger.count(countDrained, 1)
	case errors.As(err, &known) && known.Code == a2a.CodeUnavailable:
		c.ledger.count(countUnavailable, 1)
	default:
		for _, code := range expected {
			if known != nil && known.Code == code {
				return false
			}
		}
		c.ledger.violate(task, "an error that a client cannot retry: %v", err)
		return false
	}
	wait(c.end, time.Duration(10+c.random.IntN(60))*time.Millisecond)
	return true
}

func (c *client) messageID() string {
	c.sent++
	return fmt.Sprintf("m-%d-%d", c.number, c.sent)
}

// send sends a message until it is answered, and now and then once more. It
// returns the task, nil when there is none.
func (c *client) send(agent, text, task string, immediately bool) *a2a.Task {
	id := c.messageID()
	c.ledger.sending(id, agent, text)
	params := message(id, text, task, immediately)
	answer := c.sendParams(agent, id, task, params)
	if c.random.IntN(8) == 0 {
		c.ledger.count(countRepeated, 1)
		c.sendParams(agent, id, task, params)
	}
	if answer != nil && !answer.Status.State.Terminal() {
		c.share(agent, answer.ID)
	}
	return answer
}

func (c *client) sendParams(agent, id, task string, params jsontext.Value) *a2a.Task {
	for {
		before := c.ledger.terminal(task)
		result, err := c.caller.call(c.end, agent, "SendMessage", params)
		if err != nil {
			// A message to a task that an interruption has ended is refused.
			if c.again(task, err, c.refusals(task)...) {
				continue
			}
			return nil
		}
		var response a2a.SendMessageResponse
		if err := a2a.Unmarshal(result, &response); err != nil {
			c.ledger.violate(task, "an answer that cannot be read: %v", err)
			return nil
		}
		if m := response.Message; m != nil {
			c.ledger.replied(id, m.Parts[0].Text)
			return nil
		}
		c.ledger.observe(agent, response.Task.ID, response.Task.Status.State, before)
		c.ledger.acknowledged(id, response.Task.ID)
		return response.Task
	}
}

// refusals are the errors that a message to a task may get.
func (c *client) refusals(task string) []a2a.Code {
	if task == "" {
		return nil
	}
	return []a2a.Code{a2a.CodeUnsupportedOperation}
}

// get asks for a task until it is answered.
func (c *client) get(agent, id string) *a2a.Task {
	for {
		before := c.ledger.terminal(id)
		result, err := c.caller.call(c.end, agent, "GetTask", taskID(id))
		if err == nil {
			var task a2a.Task
			if err := a2a.Unmarshal(result, &task); err != nil {
				c.ledger.violate(id, "a task that cannot be read: %v", err)
				return nil
			}
			c.ledger.observe(agent, id, task.Status.State, before)
			return &task
		}
		if !c.again(id, err) {
			return nil
		}
	}
}

func (c *client) cancelTask(agent, id string) {
	c.ledger.canceling(id)
	for {
		before := c.ledger.terminal(id)
		result, err := c.caller.call(c.end, agent, "CancelTask", taskID(id))
		if err != nil {
			if c.again(id, err, a2a.CodeTaskNotCancelable) {
				continue
			}
			return
		}
		var task a2a.Task
		if err := a2a.Unmarshal(result, &task); err != nil {
			c.ledger.violate(id, "a task that cannot be read: %v", err)
			return
		}
		c.ledger.observe(agent, id, task.Status.State, before)
		if task.Status.State != a2a.StateCanceled {
			c.ledger.violate(id, "a cancel was answered with %s", task.Status.State)
		}
		c.ledger.canceled(id, time.Now())
		return
	}
}

// stream sends a message and follows its task to the end of the turn.
func (c *client) stream(agent, text, task string) {
	id := c.messageID()
	c.ledger.sending(id, agent, text)
	params := message(id, text, task, false)
	w := &watch{}
	for {
		s := &stretch{}
		before := c.ledger.terminal(task)
		var seen a2a.TaskState
		found := ""
		err := c.caller.stream(c.end, agent, "SendStreamingMessage", params, 0, func(seq int64, body jsontext.Value) {
			s.frames = append(s.frames, frame{seq, body})
			if found == "" {
				if found = c.opened(body); found != "" {
					c.ledger.acknowledged(id, found)
					c.share(agent, found)
				}
			}
			if state := stateOf(body); state != 0 && found != "" {
				seen = state
				c.ledger.observe(agent, found, state, before)
			}
		})
		if found == "" {
			if err == nil {
				c.ledger.violate(task, "a stream ended before its first event")
				return
			}
			if c.again(task, err, c.refusals(task)...) {
				continue
			}
			return
		}
		w.stretches = append(w.stretches, s)
		if err == nil && !seen.Terminal() && seen != a2a.StateInputRequired {
			c.ledger.violate(found, "a stream ended at %s", seen)
		}
		if err == nil {
			c.ledger.watched(agent, found, w)
			return
		}
		c.follow(w, agent, found, err)
		return
	}
}

// follow follows a task until it is terminal, or waits for somebody. err is how
// the connection before it ended, nil when there was none.
func (c *client) follow(w *watch, agent, id string, err error) {
	defer c.ledger.watched(agent, id, w)
	for {
		if err != nil && !c.again(id, err, a2a.CodeUnsupportedOperation) {
			return
		}
		s := &stretch{after: w.last()}
		if s.after > 0 && c.random.IntN(4) == 0 {
			s.after = 0 // begin with the task again
		}
		if s.after > 0 {
			c.ledger.count(countResumed, 1)
		}
		before := c.ledger.terminal(id)
		seen := a2a.TaskState(0)
		ctx, leave := context.WithCancel(c.end)
		err = c.caller.stream(ctx, agent, "SubscribeToTask", taskID(id), s.after, func(seq int64, body jsontext.Value) {
			s.frames = append(s.frames, frame{seq, body})
			if state := stateOf(body); state != 0 {
				if seen = state; state.Interrupted() {
					leave() // somebody else may answer, or nobody
				}
				c.ledger.observe(agent, id, state, before)
			}
		})
		leave()
		w.stretches = append(w.stretches, s)
		switch {
		case seen.Terminal(), seen.Interrupted():
			return
		case err == nil && s.after > 0 && len(s.frames) == 0:
			// There is nothing after the last event that was seen.
			if task := c.get(agent, id); task != nil && !task.Status.State.Terminal() {
				c.ledger.violate(id, "a stream ended at once, and the task is %s", task.Status.State)
			}
			return
		case err == nil:
			c.ledger.violate(id, "a subscription ended at %s", seen)
			return
		case a2a.CodeOf(err) == a2a.CodeUnsupportedOperation && !errors.Is(err, errGone) && !errors.Is(err, errDrained):
			if task := c.get(agent, id); task != nil && !task.Status.State.Terminal() {
				c.ledger.violate(id, "a subscription was refused, and the task is %s", task.Status.State)
			}
			return
		}
	}
}

// last returns the id of the last event that was seen.
func (w *watch) last() int64 {
	for i := len(w.stretches) - 1; i >= 0; i-- {
		if frames := w.stretches[i].frames; len(frames) > 0 {
			return frames[len(frames)-1].seq
		}
	}
	return 0
}

// opened returns the id of the task that a stream begins with.
func (c *client) opened(body jsontext.Value) string {
	var event a2a.StreamResponse
	if err := a2a.Unmarshal(body, &event); err != nil || event.Task == nil {
		c.ledger.violate("", "a stream begins with %s", body)
		return ""
	}
	return event.Task.ID
}

// stateOf returns the state that an event brings, 0 if it brings none.
func stateOf(body jsontext.Value) a2a.TaskState {
	var event a2a.StreamResponse
	if a2a.Unmarshal(body, &event) != nil {
		return 0
	}
	switch {
	case event.Task != nil:
		return event.Task.Status.State
	case event.StatusUpdate != nil:
		return event.StatusUpdate.Status.State
	}
	return 0
}
