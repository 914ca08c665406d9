package store

import (
	"context"
	"time"

	"handoff.example/handoff/a2a"
)

// Inbox keeps what waits for a person. An item belongs to a task, and is
// settled in the commit with which its task goes on, or by itself.
type Inbox interface {
	// InboxItem returns an item.
	InboxItem(ctx context.Context, scope Scope, id string) (*InboxItem, error)
	// InboxItems returns a page of items, the earliest due first, and those
	// without a due date after them, oldest first; of settled ones, the one that
	// was settled last first.
	InboxItems(ctx context.Context, scope Scope, q InboxQuery) (*InboxPage, error)
	// UpdateInbox changes an open item and writes the entry into its history;
	// ErrConflict says that it is settled.
	UpdateInbox(ctx context.Context, scope Scope, u *InboxUpdate) error
	// InboxHistory returns what happened to an item, oldest first.
	InboxHistory(ctx context.Context, scope Scope, id string) ([]InboxEntry, error)
}

// InboxKind says what an item asks for.
type InboxKind int8

// What an item can ask for.
const (
	InboxQuestion InboxKind = iota + 1 // of one of our agents or of a peer: an answer
	InboxGrant                         // a decision on an operation
	InboxStuck                         // something has stopped, such as a delegation whose peer is silent
	InboxCall                          // a decision on a tool call that policy holds
	InboxCard                          // a decision on the changed card of a pinned peer
	InboxLogin                         // a login to a server of tools, at its URL
)

// InboxItem is something that waits for a person. Its id is unguessable.
type InboxItem struct {
	ID     string
	Kind   InboxKind
	Task   string // id of the task that stalls; "" for an InboxCard and an InboxLogin
	Tenant string // whose it is: that of the task
	Owner  string
	Turn   int    // of the task
	Grant  string // id of the grant request, of this task or of one that it waits for; "": none
	Agent  string // who asks: id of the agent, or of the peer when Peer
	Peer   bool
	Ref    string // of the delegation, if any
	Text   string // what is asked, for people
	Schema a2a.JSON
	URL    string // where a person goes, if that is not here
	Op     string // what would be authorized

	Created  time.Time
	Due      time.Time // zero: none
	Assignee string    // subject; "": nobody yet
	Reminded int       // reminders so far

	Settled  time.Time // zero: open
	By       string    // who settled it
	Decision string    // answered, approved, denied, canceled, expired, gone on
	Words    string    // of the answer, for the record
}

// InboxQuery selects items.
type InboxQuery struct {
	Task     string    // "": any
	Kind     InboxKind // 0: any
	Assignee string    // "": any
	Settled  bool      // the settled ones instead of the open ones
	DueBy    time.Time // zero: any
	PageSize int
	Cursor   string
}

// InboxPage is a page of items.
type InboxPage struct {
	Items []InboxItem
	Next  string // cursor of the next page; "": none
	Total int    // of open items in the scope and query; only on the first page
}

// InboxUpdate changes an open item; nil keeps a value.
type InboxUpdate struct {
	ID       string
	Assignee *string
	Due      *time.Time
	Reminded *int
	Settle   *InboxSettle // settles it without its task
	Entry    InboxEntry   // without What: what Settle says
}

// InboxSettle says how items are settled. In a change it settles every open
// item of the task; with an ID, that item, which has to be open, or the change is
// an ErrConflict, and the open ones of the task. The item may be of another task:
// a decision on a grant request settles the item of the root to which it went up.
type InboxSettle struct {
	ID       string
	By       string
	Decision string
	Words    string
}

// InboxEntry is one line of the history of an item.
type InboxEntry struct {
	At    time.Time // filled in by the store
	By    string
	What  string // created, assigned, due, reminded, linked, looked, answered, approved, denied, canceled, expired, gone on
	Words string
}

// JobInbox is the kind of the job that reminds people of an item of the inbox,
// whose id is the key of the job.
const JobInbox = "inbox"
