//go:build unix

package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// ledger is what the clients know: of whatever they were told, nothing may be
// lost or change.
type ledger struct {
	mu         sync.Mutex
	tasks      map[string]*knownTask
	messages   map[string]*sentMessage
	counts     map[string]int
	violations []violation
}

// knownTask is a task whose id a client has received.
type knownTask struct {
	agent    string
	terminal a2a.TaskState // the first terminal state that was seen; 0: none
	canceled bool          // a client has sent a cancel
	stopped  time.Time     // when a cancel was first answered
	watches  []*watch
}

// sentMessage is a message that a client has sent, and what was answered.
type sentMessage struct {
	agent, text string
	task        string // that acknowledged it; "" while nothing has
	reply       string // the text of the message that did
}

// watch is what one client saw of a task, in one stretch for each connection.
type watch struct {
	stretches []*stretch
}

// stretch is what one connection showed.
type stretch struct {
	after  int64 // it was opened with this Last-Event-ID; 0: with none
	frames []frame
}

type frame struct {
	seq  int64
	body jsontext.Value
}

// violation is something that must never happen.
type violation struct {
	task string // "" when it concerns none
	text string
}

func newLedger() *ledger {
	return &ledger{tasks: map[string]*knownTask{}, messages: map[string]*sentMessage{}, counts: map[string]int{}}
}

func (l *ledger) count(what string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[what] += n
}

func (l *ledger) violate(task, format string, arguments ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violateLocked(task, format, arguments...)
}

func (l *ledger) violateLocked(task, format string, arguments ...any) {
	l.violations = append(l.violations, violation{task, fmt.Sprintf(format, arguments...)})
}

func (l *ledger) broken() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.violations)
}

// sending notes a message before it is sent for the first time.
func (l *ledger) sending(id, agent, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages[id] = &sentMessage{agent: agent, text: text}
}

// acknowledged notes the task that answers a message. Every answer to the same
// message has to name the same task.
func (l *ledger) acknowledged(message, task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.messages[message]
	switch {
	case m.reply != "":
		l.violateLocked(task, "message %s was answered with a message, and then with task %s", message, task)
	case m.task != "" && m.task != task:
		l.violateLocked(task, "message %s was answered with task %s, and then with task %s", message, m.task, task)
	case m.task == "":
		l.counts[countMessages]++
	}
	m.task = task
}

// replied notes the message that answers a message.
func (l *ledger) replied(message, reply string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.messages[message]
	switch {
	case m.task != "":
		l.violateLocked(m.task, "message %s was answered with task %s, and then with the message %q", message, m.task, reply)
	case m.reply != "" && m.reply != reply:
		l.violateLocked("", "message %s was answered with %q, and then with %q", message, m.reply, reply)
	case m.reply == "":
		l.counts[countReplies]++
	}
	m.reply = reply
}

func (l *ledger) known(agent, id string) *knownTask {
	t := l.tasks[id]
	if t == nil {
		t = &knownTask{agent: agent}
		l.tasks[id] = t
	}
	return t
}

// terminal returns the terminal state that a client has seen a task in.
func (l *ledger) terminal(id string) a2a.TaskState {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tasks[id]; t != nil {
		return t.terminal
	}
	return 0
}

// observe notes the state of a task in an answer. before is its terminal state
// as it was known when the answer was asked for.
func (l *ledger) observe(agent, id string, state, before a2a.TaskState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.known(agent, id)
	if before != 0 && state != before {
		l.violateLocked(id, "the task was %s and is %s", before, state)
	}
	if !state.Terminal() {
		return
	}
	if t.terminal != 0 && t.terminal != state {
		l.violateLocked(id, "the task was %s for one client and %s for another", t.terminal, state)
	}
	if t.terminal == 0 {
		t.terminal = state
	}
}

// canceling notes that a client cancels a task.
func (l *ledger) canceling(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tasks[id]; t != nil {
		t.canceled = true
	}
}

// canceled notes that a cancel was answered.
func (l *ledger) canceled(id string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[countCanceled]++
	if t := l.tasks[id]; t != nil && t.stopped.IsZero() {
		t.stopped = at
	}
}

// stopped returns when a cancel of a task was answered, zero if none was.
func (l *ledger) stopped(id string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tasks[id]; t != nil {
		return t.stopped
	}
	return time.Time{}
}

// watched notes what a client saw of a task.
func (l *ledger) watched(agent, id string, w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.known(agent, id)
	t.watches = append(t.watches, w)
}
