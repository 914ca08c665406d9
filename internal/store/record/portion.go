package record

import (
	"errors"
	"fmt"
	"time"

	"handoff.example/handoff/internal/store"
)

// Portion is a part of all that a store keeps, as it goes from one store to
// another.
//
// The first portion has the heads. Tasks come in the order of their revisions.
// What belongs to them comes in the same portion and in portions behind it that
// have no tasks, the events of one task in their order. A revision means
// something to the store that gave it alone: the other one gives its own, in
// the same order.
type Portion struct {
	Heads   *Heads
	Tasks   []Row
	Events  []EventRow
	Private []Private
	Results []Result
	Claims  []store.Claim
	Grants  []store.Grant
	Jobs    []store.Job
	// Webhooks belong to tasks: their TaskKey says to which.
	Webhooks []store.Webhook
	Keys     []store.APIKey
	Audit    []store.AuditRow // in the order of their ids, which are given anew

	Delegations []Delegation      // of tasks, as webhooks are
	Inbox       []store.InboxItem // in their order
	Entries     []Entry           // of the history of the inbox, in their order
	Peers       []store.Peer
	Docs        []store.Doc
	Counters    []Counter

	size int
}

// Heads are what a store counts on from, and how much it has.
type Heads struct {
	At         time.Time // of its last commit
	Task       int64     // the highest key that was given to a task
	Job, Epoch int64     // likewise
	Tasks      int64     // how many there are
	Events     int64     // of those tasks
}

// EventRow is a row of events: what Append has made of the events of a change.
type EventRow struct {
	Task  int64 // key
	Seq   int64 // of the last event in it
	Links Links
	Body  []byte
}

// Private is the private state of a task.
type Private struct {
	Task  int64 // key
	State []byte
}

// Result is a kept result of a task.
type Result struct {
	Task  int64 // key
	Key   string
	Value []byte
}

// Counter is a counter of what was spent until a time.
type Counter struct {
	Space, Key string
	Used       int64
	Expires    time.Time
}

// Counts are how many rows of each kind there are.
type Counts struct {
	Tasks, Events, Private, Results, Claims, Grants, Jobs, Webhooks, Keys, Audit int64
	Delegations, Inbox, Entries, Peers, Docs, Counters                           int64
}

// Add counts a portion.
func (c *Counts) Add(p *Portion) {
	c.Tasks += int64(len(p.Tasks))
	c.Events += int64(len(p.Events))
	c.Private += int64(len(p.Private))
	c.Results += int64(len(p.Results))
	c.Claims += int64(len(p.Claims))
	c.Grants += int64(len(p.Grants))
	c.Jobs += int64(len(p.Jobs))
	c.Webhooks += int64(len(p.Webhooks))
	c.Keys += int64(len(p.Keys))
	c.Audit += int64(len(p.Audit))
	c.Delegations += int64(len(p.Delegations))
	c.Inbox += int64(len(p.Inbox))
	c.Entries += int64(len(p.Entries))
	c.Peers += int64(len(p.Peers))
	c.Docs += int64(len(p.Docs))
	c.Counters += int64(len(p.Counters))
}

// Why a store cannot be moved.
var (
	// ErrInUse says that a node uses the store.
	ErrInUse = errors.New("the store is in use")
	// ErrNotEmpty says that the store that is to be filled has something.
	ErrNotEmpty = errors.New("the store is not empty")
)

const (
	// PortionTasks is how many tasks a portion has at most.
	PortionTasks = 512
	// portionBytes is about how large a portion grows.
	portionBytes = 2 << 20
	rowOverhead  = 200
)

// Filler gathers rows to portions of bounded size.
type Filler struct {
	Portion
	Put func(*Portion) error // takes a portion, which it may not keep
}

// Grow says that a row of so many bytes was added, and puts the portion when it
// is full.
func (f *Filler) Grow(bytes int) error {
	if f.size += bytes + rowOverhead; f.size < portionBytes {
		return nil
	}
	return f.Flush()
}

// Flush puts what was gathered.
func (f *Filler) Flush() error {
	full := f.Portion
	f.Portion = Portion{}
	if full.Heads == nil && full.size == 0 && len(full.Tasks) == 0 {
		return nil
	}
	return f.Put(&full)
}

// Revisions gives the rows of another store the revisions of this one.
type Revisions struct {
	// Next returns the revision of a status that follows one, at a time.
	Next func(last int64, at time.Time) int64
	Last int64

	given map[int64]current // of the tasks whose events come
}

// current is a task's newest row of events with a status, and its revision.
type current struct{ row, rev int64 }

// before is the revision of a status that another has followed. All lists begin
// after that, so that it only has to be earlier.
const before = 1

// Give replaces the revisions in a portion.
func (r *Revisions) Give(p *Portion) error {
	if len(p.Tasks) > 0 {
		r.given = make(map[int64]current, len(p.Tasks))
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		r.Last = r.Next(r.Last, t.StatusAt)
		t.Rev = r.Last
		r.given[t.Key] = current{t.StatusRow, t.Rev}
	}
	for i := range p.Events {
		e := &p.Events[i]
		at, ok := r.given[e.Task]
		switch {
		case !ok:
			return fmt.Errorf("events of the task with key %d come without it: %w", e.Task, ErrDamaged)
		case e.Seq == at.row:
			e.Links.Rev = at.rev
		case e.Links.Rev != 0:
			e.Links.Rev = before
		}
	}
	return nil
}
