package store

import (
	"context"
	"time"
)

// Scans read what there is for people who look for something, a bounded piece
// at a time.
type Scans interface {
	// Scan returns the rows of tasks in the order of their status, at most
	// q.Limit of them, and where to go on. A page may have fewer than that, or
	// none, and another after it: what was looked at counts. A task whose status
	// changes between two pages may be missing, or come twice.
	Scan(ctx context.Context, scope Scope, q ScanQuery) (*ScanPage, error)
	// Counts counts the tasks of a scope by agent and state. Stale is not counted.
	Counts(ctx context.Context, scope Scope) ([]Stat, error)
	// AllWebhooks returns webhooks with when they are tried again: of the newest
	// task first, or the longest failing first.
	AllWebhooks(ctx context.Context, scope Scope, q WebhookQuery) ([]Webhook, error)
}

// ScanQuery selects tasks.
type ScanQuery struct {
	Agent   string   // "": any
	Owner   string   // "": any
	Context string   // "": any
	States  StateSet // zero: any
	Since   time.Time
	Until   time.Time // the status is not before Since and before Until; zero: any
	Oldest  bool      // the oldest status first
	After   int64     // Next of the page before; 0: the first page
	Limit   int       // tasks that are looked at
}

// ScanPage is a piece of a scan.
type ScanPage struct {
	Tasks []Task
	// Positions are those of the tasks: where to go on after each of them.
	Positions []int64
	Looked    int   // tasks that were looked at
	Next      int64 // where to go on; 0: this is the end
	// Reached is the time of the status of the last task that was looked at.
	Reached time.Time
}

// Has reports whether a task is one that the query asks for, but for the times.
func (q *ScanQuery) Has(t *Task) bool {
	return (q.Agent == "" || q.Agent == t.Agent) && (q.Owner == "" || q.Owner == t.Owner) &&
		(q.Context == "" || q.Context == t.Context) && (q.States == 0 || q.States.Has(t.State))
}

// Any reports whether the query asks for all tasks, but for the times.
func (q *ScanQuery) Any() bool {
	return q.Agent == "" && q.Owner == "" && q.Context == "" && q.States == 0
}

// WebhookQuery selects webhooks.
type WebhookQuery struct {
	Failing bool     // only those that have failed and are tried again
	After   *Webhook // the last one of the page before, by its Failing, TaskKey and ID; nil: the first page
	Limit   int
}
