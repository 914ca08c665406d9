package store

import (
	"context"
	"time"

	"handoff.example/handoff/a2a"
)

// Audits keeps the audit log. It is the node's and not a caller's, and rows of
// it are never changed.
type Audits interface {
	// AppendAudit adds rows, all or none, in their order. Their ids are higher
	// than any that could be read before.
	AppendAudit(ctx context.Context, rows []AuditRow) error
	// Audit returns rows in the order of their ids, or the newest first.
	Audit(ctx context.Context, q AuditQuery) ([]AuditRow, error)
	// ExpireAudit removes rows from before a time, at most limit, and returns how
	// many it removed.
	ExpireAudit(ctx context.Context, before time.Time, limit int) (int, error)
}

// AuditRow is one entry of the audit log.
type AuditRow struct {
	ID      int64 // assigned by the store
	At      time.Time
	Subject string // who did it; "": an anonymous caller
	Task    string // id of the task; "": none
	Body    []byte // the whole entry, as JSON
}

// AuditQuery selects entries of the audit log.
type AuditQuery struct {
	After   int64     // only higher ids
	Before  int64     // only lower ids; 0: any
	Newest  bool      // the newest first
	Since   time.Time // at or after; zero: any
	Until   time.Time // before; zero: any
	Subject *string   // nil: any
	Task    string    // "": any
	Limit   int
}

// AuditSlack is how far the time of an entry may lie behind that of one with a
// lower id: entries are kept in the order in which the store gets them, which is
// not that of the clocks of several nodes.
const AuditSlack = time.Hour

// Loads counts what callers have going on.
type Loads interface {
	// Load counts the tasks of one caller by their state, of one agent or, with
	// "", of all. It costs a look at each agent that the caller has used, however
	// many tasks there are.
	Load(ctx context.Context, tenant, owner, agent string) (map[a2a.TaskState]int, error)
}
