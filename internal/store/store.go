// Package store is what is kept of tasks: the rows, the change that is
// committed as a whole, and the scope without which nothing can be read. Its
// drivers stand beside it; storetest has the suite that each of them passes.
package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"handoff.example/handoff/a2a"
)

// Store keeps tasks. Methods are safe for concurrent use. Every error that is
// not one of this package's says that the store could not be reached or
// written, and wraps ErrUnavailable.
type Store interface {
	// Commit makes a change durable, whole or not at all, and fills in what the
	// store decides: see Change. A guard that does not hold is ErrConflict, a
	// claim that exists is a *DuplicateError; neither affects the changes that
	// are committed with it. Once a change is under way, the end of ctx no
	// longer stops it.
	Commit(ctx context.Context, c *Change) error

	// Task returns the row of a task.
	Task(ctx context.Context, scope Scope, id string) (*Task, error)
	// Tasks returns the rows of those tasks that exist in the scope, in any
	// order. More than MaxTasks ids are ErrTooMany.
	Tasks(ctx context.Context, scope Scope, ids []string) ([]Task, error)
	// Read returns a task with what Want asks for, as of one moment.
	Read(ctx context.Context, scope Scope, id string, want Want) (*Item, error)
	// List returns a page of tasks, newest status first.
	List(ctx context.Context, scope Scope, q ListQuery) (*Page, error)
	// Events returns events of a task after a sequence number, in order, until
	// their bodies exceed limit bytes; at least one when there is one.
	Events(ctx context.Context, task int64, after int64, limit int) ([]Event, error)
	// Messages returns the user messages of a task from the nth on (counted
	// from 1), oldest first.
	Messages(ctx context.Context, task int64, from int64) ([]Event, error)
	// Private returns the private state of a task, nil when it has none.
	Private(ctx context.Context, task int64) (a2a.JSON, error)
	// Result returns a kept result of a task, nil when there is none.
	Result(ctx context.Context, task int64, key string) (a2a.JSON, error)
	// Claim returns the claim of a message that was sent before, or ErrNotFound.
	Claim(ctx context.Context, scope Scope, agent, key string) (*Claim, error)
	// Grant returns a grant request.
	Grant(ctx context.Context, scope Scope, id string) (*Grant, error)
	// Grants returns the grant requests that can be decided, oldest first: those
	// that no decision was made on and that their task still waits for.
	Grants(ctx context.Context, scope Scope, limit int) ([]Grant, error)

	// Cluster returns a random id that was made with the store and that all of
	// its nodes share: letters and digits.
	Cluster(ctx context.Context) (string, error)
	// Join enters a node and returns its epoch, higher than any before. Lease
	// is how long the node counts as alive after this and after each Renew. Of
	// n, only what it says of itself is used: Name, Version, URL and Digest.
	Join(ctx context.Context, n Node, lease time.Duration) (epoch int64, err error)
	// Renew keeps a node alive, also when its lease has run out meanwhile: what
	// others have taken over by then is fenced by the lease in each task's row.
	// ErrConflict means that the node has left.
	Renew(ctx context.Context, epoch int64, lease time.Duration) error
	// Announce replaces the digest of a node. ErrConflict means that the node
	// has left.
	Announce(ctx context.Context, epoch int64, digest map[string]string) error
	// Leave ends the lease of a node at once.
	Leave(ctx context.Context, epoch int64) error
	// Nodes returns the nodes that have not left, newest last. A node that died
	// is among them until it is forgotten.
	Nodes(ctx context.Context) ([]Node, error)
	// Orphans returns tasks that are leased by nodes that are no longer alive,
	// and those whose lease is Released. A node is not taken for dead because
	// the database was away for longer than its lease.
	Orphans(ctx context.Context, limit int) ([]Task, error)

	// Jobs claims jobs that are due: each is pushed back by retry, so that it
	// comes again when it is not done by then.
	Jobs(ctx context.Context, limit int, retry time.Duration) ([]Job, error)
	// NextJob returns when the earliest job is due, zero when there is none.
	NextJob(ctx context.Context) (time.Time, error)

	// Webhooks keeps the webhooks of tasks; see there.
	Webhooks

	// Seals finds what is sealed; see there.
	Seals

	// APIKeys keeps the API keys of callers; see there.
	APIKeys

	// Audits keeps the audit log; see there.
	Audits

	// Loads counts what callers have going on; see there.
	Loads

	// Delegations keeps what was handed to other agents; see there.
	Delegations

	// Inbox keeps what waits for a person; see there.
	Inbox

	// Peers keeps the catalog of peers; see there.
	Peers

	// Docs keeps small documents; see there.
	Docs

	// Scans read for people who look for something; see there.
	Scans

	// Delete removes a terminal task with all that belongs to it. A task that
	// is not terminal is ErrConflict.
	Delete(ctx context.Context, scope Scope, id string) error
	// Expire removes terminal tasks, claims, documents and counters whose time is
	// over, at most limit of each, and returns how many it removed.
	Expire(ctx context.Context, limit int) (int, error)
	// Stats counts tasks by agent and state, and among those that are WORKING the
	// ones whose status is from before a time; zero counts none as stale.
	Stats(ctx context.Context, stale time.Time) ([]Stat, error)
	// Backup writes a consistent copy of the store to a new file.
	Backup(ctx context.Context, file string) error
	// Ping reports whether the store can be read and written.
	Ping(ctx context.Context) error
	// Close waits for commits under way and closes the store.
	Close() error
}

// Errors of a store.
var (
	// ErrNotFound says that there is no such thing in the scope.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that a guard did not hold, and that nothing was changed.
	ErrConflict = errors.New("conflict with a newer state")
	// ErrBadCursor says that a page token is not one of ours or does not fit
	// the query.
	ErrBadCursor = errors.New("page token is not valid")
	// ErrTooMany says that a call asked for more than it may.
	ErrTooMany = errors.New("too many tasks in one call")
	// ErrUnavailable says that the store cannot be reached or written now.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUnknown says that a change may have been made or not: the store went
	// away with the answer. It comes with ErrUnavailable.
	ErrUnknown = errors.New("it is not known whether the change was made")
)

// DuplicateError says that a claim exists already.
type DuplicateError struct{ Claim Claim }

// Error says which key is taken.
func (e *DuplicateError) Error() string { return fmt.Sprintf("claim %q exists", e.Claim.Key) }

// MaxTasks is how many tasks one call of Tasks may ask for.
const MaxTasks = 1000

// Released is the lease of a turn that its node has handed over. No node has
// this epoch, so that Orphans returns the task at once.
const Released int64 = math.MaxInt64

// Node is a process that serves tasks of the store.
type Node struct {
	Epoch   int64  // assigned by the store
	Name    string // for people
	Version string // of the program
	URL     string // at which this one node is reached; "": none
	Started time.Time
	Expires time.Time // when its lease runs out
	Alive   bool
	// Digest says of the parts of its configuration that should be the same on
	// all nodes what they are: a name such as "agent delivery", and a digest.
	Digest map[string]string
}

// Wait says what a WORKING task without a lease waits for.
type Wait int8

// What a task can wait for. An interrupted task waits for its client by its
// state alone.
const (
	WaitNone     Wait = iota
	WaitTime          // a time
	WaitChild         // a task that it has delegated
	WaitCallback      // somebody outside, such as a peer
)

// Task is the row of a task.
type Task struct {
	Key      int64 // of the row; assigned by the store
	ID       string
	Tenant   string
	Owner    string // subject of the caller; "" for anonymous callers
	Agent    string
	Context  string
	State    a2a.TaskState
	Wait     Wait
	Seq      int64     // of the last event
	StatusAt time.Time // of the current status, in milliseconds
	Lease    int64     // epoch of the node that runs or will run it; 0: none; or Released
	Turn     int       // number of the current or last turn
	Attempt  int       // of that turn
	Done     int       // steps that the turn has committed
	Messages int64     // user messages so far
	Read     int64     // user messages that were handed to a turn
	Since    int64     // Read before the current turn began: its messages are Since+1 to Read
	Created  time.Time
	Expires  time.Time // when a terminal task is removed; zero: never
	Webhooks int       // that it has, those that were given up included
	// Delegated says that there is a Delegation beside the task; filled in by
	// the store.
	Delegated bool
	Meta      []byte // the engine's own; immutable
}

// Unread returns how many messages no turn has seen.
func (t *Task) Unread() int64 { return t.Messages - t.Read }

// EventKind is the kind of an event.
type EventKind int8

// The kinds of events. Statuses and artifacts go to watchers; messages are kept
// for the history alone.
const (
	KindStatus EventKind = iota + 1
	KindArtifact
	KindMessage
)

// Event is one change of a task, numbered within it. Its body is the JSON that
// goes out: a StreamResponse with a status or artifact update, or for
// KindMessage the Message.
type Event struct {
	Seq  int64 // assigned by the store
	Kind EventKind
	Body []byte
	// Stamp is the offset in Body at which the store writes the time of the
	// commit, a2a.TimestampLen bytes; 0: nowhere.
	Stamp int
	// Says marks a status that carries a message, and so is part of the
	// history once another status follows.
	Says bool
	// Mark says when and under which turn it was committed. Only Events fills it
	// in.
	Mark Mark
}

// Guard is what has to hold of a task for a change to be made.
type Guard struct {
	States  StateSet // any of; zero: any state
	Lease   *int64   // exactly this
	Turn    int      // 0: any
	Attempt int      // 0: any
	AllRead bool     // no unread messages
	NoLease bool     // nobody runs it
}

// StateSet is a set of task states.
type StateSet uint16

// States returns the set of those states.
func States(states ...a2a.TaskState) StateSet {
	var set StateSet
	for _, s := range states {
		set |= 1 << s
	}
	return set
}

// Has reports whether the state is in the set.
func (s StateSet) Has(state a2a.TaskState) bool { return s&(1<<state) != 0 }

// Live is the set of states that are not terminal.
var Live = States(a2a.StateSubmitted, a2a.StateWorking, a2a.StateInputRequired, a2a.StateAuthRequired)

// Set are the new values of a task's row; nil keeps a value. The state follows
// from it too, and not from the events.
type Set struct {
	State   *a2a.TaskState
	Wait    *Wait
	Lease   *int64
	Turn    *int
	Attempt *int
	Done    *int
	ReadAll bool      // hands all messages so far, those of this change included, to a new turn: Since = Read, Read = Messages
	Expires time.Time // zero keeps
}

// Change is what is committed as a whole. It concerns one task, or none when
// both Insert and Task are unset.
type Change struct {
	Insert *Task   // a new task; its Key, Seq and StatusAt are filled in
	Task   int64   // key of an existing task
	Guard  Guard   // for Task
	Set    Set     // for Task
	Events []Event // for either; Seq is filled in and Body stamped
	// After is the row as the change left it, for Task. The store fills it in.
	After Task
	// At is the time of the commit in whole milliseconds, never before that of
	// an earlier commit. The store fills it in; StatusAt is set to it when a
	// KindStatus event is among Events.
	At time.Time

	Claim *Claim // to be made; a *DuplicateError when its key is taken by a live claim
	// Respect lets a claim stand that has no outcome even when its node is dead.
	Respect bool
	// Abandoned says that Claim has replaced one of a dead node that had no
	// outcome: nobody knows how far its message got. The store fills it in.
	Abandoned bool
	Settle    *Claim   // to be answered: finds the claim by its key and sets Task and Reply; with neither, the claim is given up
	State     a2a.JSON // new private state
	Result    *Result
	Grant     *Grant // a new request
	Decide    *Grant // settles a request: finds it by ID, sets Approved, Note, Data, By; ErrConflict when settled already
	Jobs      []Job  // to be done later
	Finish    int64  // id of the job that is done with this change

	// Delegation is the row beside an inserted task that is a delegation, or
	// the changed half of it for Task; the guard holds for it as for the rest.
	// The driver marks it as closed with the commit that makes the task
	// terminal. A Ref that an open delegation of the same owner to the same
	// peer has is a *RefTakenError, unless Again.
	Delegation *Delegation
	Again      bool
	// Item is put into the inbox, with its history's first entry. An item of the
	// same id that exists is left as it is.
	Item *InboxItem
	// Settles settles open items, before Item is put in; see there.
	Settles *InboxSettle

	// Webhook is made, or replaces the one of the task that has its id, which
	// keeps how far it has got and goes on. ErrLimit says that the task has
	// MaxWebhooks already; 0 is no limit.
	Webhook     *Webhook
	MaxWebhooks int
	// Woken is about how many jobs of the kind JobPush came of the change. The
	// store fills it in.
	Woken int
}

// Claim says that a message was sent, and what came of it. A claim without a
// task and a reply is being worked on by the node of its lease; when that node
// is dead, another claim may replace it.
type Claim struct {
	Tenant  string
	Owner   string
	Agent   string
	Key     string
	Hash    []byte // of the message
	Lease   int64
	Task    string // id of the task
	Reply   []byte // the Message that was answered instead of a task
	Expires time.Time
}

// Stands reports whether the time of the claim is not over.
func (c *Claim) Stands(at time.Time) bool { return c.Expires.IsZero() || c.Expires.After(at) }

// Result is what Once keeps.
type Result struct {
	Key   string
	Value a2a.JSON
}

// Grant is a request for an authorization, and its decision.
type Grant struct {
	ID        string
	Task      string // id of the task
	Turn      int    // that asked
	Operation string
	Text      string // what was asked, for people
	URL       string
	Created   time.Time
	Expires   time.Time // zero: never
	Decided   time.Time // zero: not yet
	Approved  bool
	Note      string
	Data      []byte // sealed
	By        string // who decided
}

// Job is something to be done at a time. It is written in the commit that
// causes it and done at least once.
type Job struct {
	ID      int64 // assigned by the store
	Kind    string
	Task    string // id of the task
	Turn    int    // of the task when the job was made
	Key     string // what the kind makes of it
	Due     time.Time
	Attempt int // claims so far
}

// Want says how much of a task to read.
type Want struct {
	Messages  int  // newest history entries; 0: none
	Artifacts bool // the events that make up the artifacts
	// UpTo reads the task as it was after that event; 0 reads it as it is.
	// The row stays the current one.
	UpTo int64
}

// Item is a task with the events that were asked for.
type Item struct {
	Task
	Status    Event   // the current status
	Messages  []Event // history, oldest first: KindMessage and earlier KindStatus that Says
	Artifacts []Event // oldest first
}

// ListQuery selects tasks.
type ListQuery struct {
	Agent    string // "": any
	Context  string // "": any
	State    a2a.TaskState
	After    time.Time // status at or after; zero: any
	PageSize int
	Cursor   string // of the page before; "": first page
	Want     Want
}

// Page is a page of tasks.
type Page struct {
	Items []Item
	Next  string // cursor of the next page; "": none
	Total int    // over all pages
}

// Stat counts the tasks of one agent in one state.
type Stat struct {
	Agent  string
	State  a2a.TaskState
	Count  int
	Oldest time.Time // earliest status among them; only for states that are not terminal
	Stale  int       // of those that are WORKING
}
