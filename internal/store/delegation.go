package store

import (
	"context"
	"fmt"
	"time"

	"handoff.example/handoff/a2a"
)

// Delegations keeps what was handed to other agents: for each task that is a
// delegation, one row beside it. Reads name their scope as those of tasks do.
type Delegations interface {
	// Delegation returns the delegation that is a task.
	Delegation(ctx context.Context, scope Scope, task string) (*Delegation, error)
	// Delegations returns a page of delegations, newest first.
	Delegations(ctx context.Context, scope Scope, q DelegationQuery) (*DelegationPage, error)
	// Children returns the ids of tasks that a task has delegated and that are
	// not terminal.
	Children(ctx context.Context, parent string) ([]string, error)
}

// Delegation is a task that was handed to another agent: where it stands in the
// tree of tasks, and what is known of the peer's side. Its first half is
// immutable.
type Delegation struct {
	// The task itself, which the store fills in.
	TaskKey int64
	Task    string // id
	Tenant  string
	Owner   string
	Agent   string
	Context string
	State   a2a.TaskState
	Created time.Time

	Peer     string // name of the peer; "" when the task is one of a local agent
	Ref      string // the business key, such as an order number; "": none
	Root     string // id of the task at the root of the tree: itself, when nobody delegated it here
	Parent   string // id of the task that delegated it; "": a person or a program
	Turn     int    // of the parent that waits for it
	Depth    int    // hops from the root over all nodes, from 0
	Asked    string // who asked: the subject of a caller, or "agent ID"
	Deadline time.Time

	// The peer's side. What follows changes, by Change.Delegation.
	Message       string // id of the message that is being sent or was sent last
	Number        int64  // of it among the user messages of the task, from 1
	Send          SendState
	RemoteTask    string // "" while none is known
	RemoteContext string
	RemoteState   a2a.TaskState
	RemoteDigest  string    // of the peer's status and artifacts, to see a change
	Seen          time.Time // when the peer last answered or pushed; zero: never
	Channel       Channel
	Attempts      int    // at connecting or looking since the peer last answered
	Error         string // of the last of them, with the clock that ran out
	Interface     string // binding, version and URL that were used, such as "JSONRPC 1.0 https://…"
	CardDigest    string // of the card that was used
	Token         []byte // SHA-256 of the secret in the URL of our receiver; nil: none
	Secret        []byte // sealed: what the peer has to present there
	Push          string // id of the webhook at the peer; "": none
	Recalled      bool   // the peer was told to cancel, or never had it
}

// JobRecall is the kind of the job that is made when a delegation to a peer is
// over: what is left there is canceled or cleaned up. Its Turn is that of the
// task.
const JobRecall = "ledger.recall"

// SendState says honestly how far a message has got.
type SendState int8

// How far a message can have got.
const (
	SendUnsent   SendState = iota // nothing has left
	SendSending                   // it is on its way, or was when the process ended
	SendUnknown                   // it was sent, and nobody has answered
	SendAccepted                  // the peer has answered
	SendLost                      // the deadline has passed without an answer
)

// Channel says how news of the peer comes.
type Channel int8

// How news of a peer can come.
const (
	ChannelNone Channel = iota
	ChannelStream
	ChannelPush
	ChannelPoll
)

// DelegationQuery selects delegations.
type DelegationQuery struct {
	Peer     string // "": any
	Ref      string // exactly; "": any
	Root     string // id of a task; "": any
	State    a2a.TaskState
	Open     bool // only those that are not terminal
	PageSize int
	Cursor   string
}

// DelegationPage is a page of delegations.
type DelegationPage struct {
	Items []Delegation
	Next  string // cursor of the next page; "": none
}

// RefTakenError says that an open delegation of the same owner to the same peer
// has the reference already.
type RefTakenError struct{ Ref, Task string }

// Error names the delegation that has it.
func (e *RefTakenError) Error() string {
	return fmt.Sprintf("the reference %q belongs to the open delegation %s", e.Ref, e.Task)
}
