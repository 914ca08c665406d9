// Package changes says what changes on a node while it changes: which tasks,
// and whether it concerns the inbox, what was handed to others, or webhooks. It
// stands between the node and its store and tells after a commit, never before.
// What it tells is a hint to look: it may come late or twice, and the store is
// the truth. While nobody listens it costs a look at a number.
package changes

import (
	"strings"
	"sync"
	"sync/atomic"

	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/store"
)

// Topic says what a change concerns. Topics are combined by or.
type Topic uint8

// What a change can concern.
const (
	Tasks       Topic = 1 << iota // tasks and their events
	Inbox                         // what waits for people
	Delegations                   // what was handed to other agents
	Pushes                        // what is sent to webhooks
	All                           // anything: something may have been missed
)

// Change is that something has changed.
type Change struct {
	Topics Topic
	Task   string // id; "": none, or many
	Item   string // id of an item of the inbox that belongs to no known task
	// Owner says to whom the task belongs; without Known nobody has looked.
	Known         bool
	Tenant, Owner string
	// Delegated says that the task was handed on, and is set when Known is.
	Delegated bool
}

// In reports whether a change that is Known is in a scope.
func (c *Change) In(scope store.Scope) bool { return scope.Includes(c.Tenant, c.Owner) }

// MaxWaiting is how many changes wait for a listener. Of more it is told that
// there were more.
const MaxWaiting = 1000

// Feed brings changes to those who listen. Its zero value is ready.
type Feed struct {
	listening atomic.Int32
	mu        sync.Mutex
	listeners map[*Listener]struct{}
}

// Listen begins to gather changes for a listener. Close it when done.
func (f *Feed) Listen() *Listener {
	l := &Listener{feed: f, waiting: map[string]*Change{}, some: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listeners == nil {
		f.listeners = map[*Listener]struct{}{}
	}
	f.listeners[l] = struct{}{}
	f.listening.Store(int32(len(f.listeners)))
	return l
}

// Heard says that anybody listens, so that changes are worth telling.
func (f *Feed) Heard() bool { return f.listening.Load() > 0 }

// Tell brings a change to everybody who listens. It does not block.
func (f *Feed) Tell(c Change) {
	if !f.Heard() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		l.take(c)
	}
}

// Hints takes the hints of other nodes. What they concern beside the task is
// not known, and to whom it belongs neither.
func (f *Feed) Hints(hints []bus.Hint) {
	if !f.Heard() {
		return
	}
	for i := range hints {
		switch item, ok := strings.CutPrefix(hints[i].Task, itemHint); {
		case ok:
			f.Tell(Change{Topics: Inbox, Item: item})
		case hints[i].Task == pushHint:
			f.Tell(Change{Topics: Pushes})
		default:
			f.Tell(Change{Topics: Tasks, Task: hints[i].Task})
		}
	}
}

// What stands in the place of a task in hints of what changes without one. No
// task has such an id, so that nobody else makes anything of it.
const (
	itemHint = "changes:item:"
	pushHint = "changes:pushes"
)

// Missed says that changes on other nodes may have been missed.
func (f *Feed) Missed() { f.Tell(Change{Topics: All}) }

// Listener gathers changes until they are taken.
type Listener struct {
	feed *Feed
	some chan struct{} // has one element while changes wait

	mu      sync.Mutex
	waiting map[string]*Change // by task or item
	topics  Topic              // of changes that have neither, or are too many
	more    bool
}

func (l *Listener) take(c Change) {
	l.mu.Lock()
	switch key := c.Task + "/" + c.Item; {
	case key == "/":
		l.topics |= c.Topics
	case l.waiting[key] != nil:
		known := l.waiting[key]
		c.Topics |= known.Topics
		if !c.Known && known.Known {
			c.Known, c.Tenant, c.Owner, c.Delegated = true, known.Tenant, known.Owner, known.Delegated
		}
		*known = c
	case len(l.waiting) >= MaxWaiting:
		l.topics |= c.Topics
		l.more = true
	default:
		l.waiting[key] = &c
	}
	l.mu.Unlock()
	select {
	case l.some <- struct{}{}:
	default:
	}
}

// Some returns a channel that has an element when there is something to take.
func (l *Listener) Some() <-chan struct{} { return l.some }

// Take returns what has gathered: changes of one task or item each, in any
// order, and the topics of what has none. More says that there were more than
// MaxWaiting, of which only the topics are known.
func (l *Listener) Take() (list []Change, topics Topic, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.waiting {
		list = append(list, *c)
	}
	clear(l.waiting)
	topics, more = l.topics, l.more
	l.topics, l.more = 0, false
	return list, topics, more
}

// Close ends the listening.
func (l *Listener) Close() {
	f := l.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.listeners, l)
	f.listening.Store(int32(len(f.listeners)))
}
