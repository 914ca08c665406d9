//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// checker compares what the clients know with what the store has.
type checker struct {
	ledger *ledger
	site   *site
	admin  *admin
	caller *caller
	// calm are the times in which nothing may be interrupted, since a node that
	// stopped did so in its own way, or nothing was wrong with the nodes.
	calm []span
	// isolated are the times in which a node could not know that another one
	// took its turns over.
	isolated []isolation

	mu       sync.Mutex
	messages map[string]int    // how often each message is in a history
	marks    map[string][]mark // what the programs have left in the history of each task
}

// newChecker returns a checker that has nothing to compare yet.
func newChecker(l *ledger, s *site) *checker {
	return &checker{ledger: l, site: s, admin: newAdmin(s.sockets()), caller: newCaller(s), messages: map[string]int{}, marks: map[string][]mark{}}
}

type span struct{ from, to time.Time }

func (s span) has(at time.Time) bool { return at.After(s.from) && at.Before(s.to) }

// settle waits until nobody works on a task, for a time.
func (c *checker) settle(ctx context.Context, within time.Duration) error {
	deadline := time.Now().Add(within)
	for {
		n, err := c.admin.unsettled(ctx)
		if err != nil || n == 0 {
			return err
		}
		if time.Now().After(deadline) {
			c.ledger.violate("", "%d tasks are still being worked on %s after the last client had finished", n, within)
			return nil
		}
		wait(ctx, 50*time.Millisecond)
	}
}

// check reads every task and its log.
func (c *checker) check(ctx context.Context) error {
	tasks, err := c.admin.tasks(ctx)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for i := range tasks {
		found[tasks[i].Task.ID] = true
	}
	for id, t := range c.ledger.tasks {
		if !found[id] {
			c.ledger.violate(id, "a client knows the task of agent %s, and the store does not", t.agent)
		}
	}
	work := make(chan *stored)
	failures := make(chan error, 1)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for t := range work {
				if err := c.task(ctx, t); err != nil {
					select {
					case failures <- fmt.Errorf("check task %s: %w", t.Task.ID, err):
					default:
					}
				}
			}
		})
	}
	for i := range tasks {
		work <- &tasks[i]
	}
	close(work)
	workers.Wait()
	select {
	case err := <-failures:
		return err
	default:
	}
	c.checkMessages()
	return c.checkJournals(tasks)
}

// checkMessages checks that every message that was acknowledged is in the
// history of its task once, and no other one twice.
func (c *checker) checkMessages() {
	for id, m := range c.ledger.messages {
		n := c.messages[id]
		switch {
		case m.task != "" && n != 1:
			c.ledger.violate(m.task, "message %s was acknowledged and is in the histories %d times", id, n)
		case m.reply != "" && n != 0:
			c.ledger.violate("", "message %s was answered with a message and is in a history all the same", id)
		case n > 1:
			c.ledger.violate("", "message %s is in the histories %d times", id, n)
		}
		if want, ok := strings.CutPrefix(m.text, "message "); ok && m.reply != "" && m.reply != want {
			c.ledger.violate("", "message %q was answered with %q", m.text, m.reply)
		}
	}
}

// task checks one task.
func (c *checker) task(ctx context.Context, t *stored) error {
	log, err := c.admin.events(ctx, t.Task.ID)
	if err != nil {
		return err
	}
	result, err := c.caller.call(ctx, t.Agent, "GetTask", jsontext.Value(`{"id":"`+t.Task.ID+`","historyLength":1000}`))
	if err != nil {
		return err
	}
	var now a2a.Task
	if err := a2a.Unmarshal(result, &now); err != nil {
		return err
	}
	c.ledger.count("tasks of "+t.Agent+": "+now.Status.State.String(), 1)
	c.ledger.count(countTasks, 1)
	c.ledger.count(countEvents, len(log))
	first, ok := c.log(log, &now)
	if !ok {
		return nil
	}
	c.outcome(t.Agent, first, &now)
	c.ledger.mu.Lock()
	known := c.ledger.tasks[t.Task.ID]
	c.ledger.mu.Unlock()
	if known == nil {
		return nil
	}
	if known.terminal != 0 && known.terminal != now.Status.State {
		c.ledger.violate(now.ID, "the task was %s and is %s", known.terminal, now.Status.State)
	}
	if now.Status.State == a2a.StateCanceled && !known.canceled {
		c.ledger.violate(now.ID, "the task is canceled, and nobody has canceled it")
	}
	for _, w := range known.watches {
		c.watch(w, log, &now)
	}
	return nil
}

// log checks the log of a task against the task, and returns its first message.
func (c *checker) log(log []event, now *a2a.Task) (first *a2a.Message, ok bool) {
	task := a2a.Task{ID: now.ID, Artifacts: []a2a.Artifact{}}
	var history []string // ids of the messages, in order
	current := ""        // of the message of the last status
	for i, e := range log {
		if e.Seq != int64(i+1) {
			c.ledger.violate(now.ID, "event %d of the log has the number %d", i+1, e.Seq)
			return nil, false
		}
		var body a2a.StreamResponse
		if err := a2a.Unmarshal(e.Event, &body); err != nil {
			c.ledger.violate(now.ID, "event %d cannot be read: %v", e.Seq, err)
			return nil, false
		}
		if task.Status.State.Terminal() {
			c.ledger.violate(now.ID, "event %d comes after the task was %s", e.Seq, task.Status.State)
			return nil, false
		}
		switch {
		case body.Message != nil:
			if first == nil {
				first = body.Message
			}
			history = append(history, body.Message.MessageID)
			c.mu.Lock()
			c.messages[body.Message.MessageID]++
			c.mu.Unlock()
			continue
		case body.StatusUpdate != nil:
			if current = ""; body.StatusUpdate.Status.Message != nil {
				current = body.StatusUpdate.Status.Message.MessageID
				history = append(history, current)
			}
		}
		c.mark(now.ID, body.ArtifactUpdate)
		task.Apply(&body)
	}
	if first == nil {
		c.ledger.violate(now.ID, "the log has no message")
		return nil, false
	}
	if current != "" {
		history = slices.DeleteFunc(history, func(id string) bool { return id == current })
	}
	have := make([]string, len(now.History))
	for i := range now.History {
		have[i] = now.History[i].MessageID
	}
	if !slices.Equal(history, have) {
		c.ledger.violate(now.ID, "the history is %v, and by the log it is %v", have, history)
	}
	c.equal(&task, now, "the log")
	return first, true
}

// mark notes what a program has left in a chunk. A chunk of an attempt never
// follows one of a later attempt.
func (c *checker) mark(task string, update *a2a.TaskArtifactUpdateEvent) {
	if update == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range update.Artifact.Parts {
		var m mark
		if len(p.Metadata) == 0 || json.Unmarshal(p.Metadata, &m) != nil || m.Attempt == 0 {
			continue
		}
		marks := c.marks[task]
		if n := len(marks); n > 0 && (marks[n-1].Turn > m.Turn || marks[n-1].Turn == m.Turn && marks[n-1].Attempt > m.Attempt) {
			c.ledger.violate(task, "a step of attempt %d of turn %d follows one of attempt %d of turn %d", m.Attempt, m.Turn, marks[n-1].Attempt, marks[n-1].Turn)
		}
		c.marks[task] = append(marks, m)
	}
}

// equal checks that a task that was rebuilt from events is the task.
func (c *checker) equal(rebuilt, now *a2a.Task, from string) {
	if a, b := artifactsOf(rebuilt), artifactsOf(now); a != b {
		c.ledger.violate(now.ID, "the artifacts are %s, and by %s they are %s", b, from, a)
	}
	if a, b := rebuilt.Status.AppendJSON(nil), now.Status.AppendJSON(nil); !bytes.Equal(a, b) {
		c.ledger.violate(now.ID, "the status is %s, and by %s it is %s", b, from, a)
	}
}

func artifactsOf(t *a2a.Task) string {
	return string((&a2a.Task{Artifacts: t.Artifacts}).AppendJSON(nil))
}

// outcome checks that a task came to what its agent makes of its message.
func (c *checker) outcome(agent string, first *a2a.Message, now *a2a.Task) {
	text := first.Parts[0].Text
	switch state := now.Status.State; {
	case state == a2a.StateFailed && agent == "once":
		if reason := reasonOf(now); !strings.Contains(reason, "interrupted") {
			c.ledger.violate(now.ID, "the task failed for another reason than an interruption: %s", reason)
		}
		for _, s := range c.calm {
			if s.has(now.Status.Timestamp) {
				c.ledger.violate(now.ID, "the turn was interrupted, and there was the time to let it finish")
			}
		}
		c.ledger.count(countInterrupted, 1)
	case state == a2a.StateCompleted:
		want := text
		if verb, argument, _ := strings.Cut(text, " "); verb == "slow" || verb == "burst" {
			n, _ := strconv.Atoi(argument)
			want = numbers(n)
		} else if verb == "work" || verb == "quiet" {
			want = numbers(chunksOfProgram)
		} else if verb == "ask" {
			return
		}
		got := ""
		for _, p := range now.Artifacts[0].Parts {
			got += p.Text
		}
		if got != want || len(now.Artifacts) != 1 {
			c.ledger.violate(now.ID, "the answer to %q is %q", text, got)
		}
	case state == a2a.StateCanceled, state == a2a.StateInputRequired:
	default:
		c.ledger.violate(now.ID, "the task of agent %s is %s: %s", agent, state, reasonOf(now))
	}
}

func reasonOf(t *a2a.Task) string {
	if t.Status.Message == nil || len(t.Status.Message.Parts) == 0 {
		return "it does not say why"
	}
	return t.Status.Message.Parts[0].Text
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.Itoa(i+1) + " ")
	}
	return b.String()
}

// watch checks what a client saw of a task: exactly the events of the log from
// where each connection began, and a task that is what they make.
func (c *checker) watch(w *watch, log []event, now *a2a.Task) {
	var task a2a.Task
	for _, s := range w.stretches {
		c.ledger.count(countStreams, 1)
		c.ledger.count(countFrames, len(s.frames))
		last := s.after
		for i, f := range s.frames {
			var body a2a.StreamResponse
			if err := a2a.Unmarshal(f.body, &body); err != nil {
				c.ledger.violate(now.ID, "an event of a stream cannot be read: %v", err)
				return
			}
			if f.seq <= 0 || f.seq > int64(len(log)) {
				c.ledger.violate(now.ID, "a stream has event %d, and the log ends at %d", f.seq, len(log))
				return
			}
			if i == 0 && s.after == 0 {
				if body.Task == nil {
					c.ledger.violate(now.ID, "a stream begins with %s", f.body)
					return
				}
				c.snapshot(body.Task, log[:f.seq])
				last, task = f.seq, a2a.Task{}
				task.Apply(&body)
				continue
			}
			want := following(log, last)
			if want == nil || want.Seq != f.seq || !bytes.Equal(want.Event, f.body) {
				c.ledger.violate(now.ID, "after event %d a stream has %d: %s", last, f.seq, f.body)
				return
			}
			task.Apply(&body)
			last = f.seq
		}
	}
	if task.Status.State.Terminal() {
		c.equal(&task, now, "a stream")
	}
}

// following returns the event that a stream shows after a number.
func following(log []event, after int64) *event {
	for i := after; i < int64(len(log)); i++ {
		if log[i].Kind != "message" {
			return &log[i]
		}
	}
	return nil
}

// snapshot checks the task that a stream begins with against the log so far.
func (c *checker) snapshot(shown *a2a.Task, log []event) {
	task := a2a.Task{ID: shown.ID, Artifacts: []a2a.Artifact{}}
	for _, e := range log {
		var body a2a.StreamResponse
		if a2a.Unmarshal(e.Event, &body) == nil {
			task.Apply(&body)
		}
	}
	c.equal(&task, shown, "the log up to event "+strconv.Itoa(len(log)))
}
