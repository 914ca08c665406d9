// Package record is what the drivers of the store have in common: how a row of
// a task changes, how events lie in a row, and the tokens of pages.
package record

import (
	"errors"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// Row is a task with what the drivers keep beside it.
type Row struct {
	store.Task
	Realm int64 // number of its agent of its owner
	Rev   int64 // of its newest status

	// The newest rows of events with a status, an artifact and a message, each
	// by the sequence number of its last event; 0: none.
	StatusRow, ArtifactRow, MessageRow int64
}

// Links are what stands beside the events in their row: the revision of their
// status, 0 when they have none, the rows of events before it as Row has them,
// and the mark of its commit.
type Links struct{ Rev, StatusRow, ArtifactRow, MessageRow, Mark int64 }

// errNoStatus refuses a task that no list could place.
var errNoStatus = errors.New("a new task needs a status event")

// New returns the row of a new task, without its events, of which one has to be
// a status. Its times are as they are read back.
func New(t *store.Task, events []store.Event) (Row, error) {
	if !HasStatus(events) {
		return Row{}, errNoStatus
	}
	r := Row{Task: *t}
	r.Seq, r.Messages, r.Delegated = 0, 0, false
	r.Created, r.Expires = Time(Milliseconds(t.Created)), Time(Milliseconds(t.Expires))
	return r, nil
}

// HasStatus reports whether one of the events is a status.
func HasStatus(events []store.Event) bool {
	for i := range events {
		if events[i].Kind == store.KindStatus {
			return true
		}
	}
	return false
}

// Time returns a time that is kept in milliseconds, zero for 0.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Milliseconds returns a time as it is kept.
func Milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Meets reports whether the guard holds of the row.
func (r *Row) Meets(g *store.Guard) bool {
	return (g.States == 0 || g.States.Has(r.State)) &&
		(g.Lease == nil || *g.Lease == r.Lease) &&
		(g.Turn == 0 || g.Turn == r.Turn) &&
		(g.Attempt == 0 || g.Attempt == r.Attempt) &&
		(!g.AllRead || r.Messages == r.Read) &&
		(!g.NoLease || r.Lease == 0)
}

// Assign gives the row its new values.
func (r *Row) Assign(s *store.Set) {
	if s.State != nil {
		r.State = *s.State
	}
	if s.Wait != nil {
		r.Wait = *s.Wait
	}
	if s.Lease != nil {
		r.Lease = *s.Lease
	}
	if s.Turn != nil {
		r.Turn = *s.Turn
	}
	if s.Attempt != nil {
		r.Attempt = *s.Attempt
	}
	if s.Done != nil {
		r.Done = *s.Done
	}
	if s.ReadAll {
		r.Since, r.Read = r.Read, r.Messages
	}
	if !s.Expires.IsZero() {
		r.Expires = Time(Milliseconds(s.Expires))
	}
}

// Add gives the events of a change their sequence numbers and the time of the
// commit, and moves the row's pointers. The revision is that of a status among
// them, and set is what the commit gives the row.
func (r *Row) Add(events []store.Event, rev int64, at time.Time, set *store.Set) Links {
	links := Links{StatusRow: r.StatusRow, ArtifactRow: r.ArtifactRow, MessageRow: r.MessageRow}
	last := r.Seq + int64(len(events))
	for i := range events {
		e := &events[i]
		r.Seq++
		e.Seq = r.Seq
		if e.Stamp > 0 && e.Stamp+a2a.TimestampLen <= len(e.Body) {
			a2a.AppendTimestamp(e.Body[:e.Stamp], at)
		}
		switch e.Kind {
		case store.KindStatus:
			r.StatusRow, r.Rev, r.StatusAt = last, rev, at
			links.Rev = rev
			if e.Says {
				r.MessageRow = last
			}
		case store.KindArtifact:
			r.ArtifactRow = last
		case store.KindMessage:
			r.MessageRow = last
			r.Messages++
		}
	}
	after := *r
	after.Assign(set)
	links.Mark = int64(store.NewMark(at, after.Turn, after.Attempt, after.Wait))
	return links
}
