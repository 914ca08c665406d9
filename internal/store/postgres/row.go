package postgres

import (
	"math"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// maxSeq is the highest number of an event of a task.
const maxSeq = math.MaxInt32

// A revision counts the statuses of one unit of the store's clock in its low
// bits; see the function tick of the database.
const (
	unitBits = 12 // of a revision, below the number of the unit
	timeBits = 20 // of a revision, below the time in milliseconds
	maxBatch = 1 << unitBits
)

// revisionAt returns the first revision of a millisecond.
func revisionAt(ms int64) int64 { return ms << timeBits }

// timeOf returns the time of the commit that a revision belongs to.
func timeOf(rev int64) time.Time { return time.UnixMilli(rev >> timeBits).UTC() }

// row is a task with what the driver keeps beside it.
type row struct {
	store.Task
	realm       int64
	rev         int64
	statusRow   int64 // sequence numbers of rows of events; 0: none
	artifactRow int64
	messageRow  int64
}

// taskColumns are what rowScanner reads, of the tables tasks t and realms r.
const taskColumns = `t.key, t.id, r.tenant, r.owner, r.agent, t.context, t.state, t.wait, t.seq,
 t.rev, t.lease, t.turn, t.attempt, t.done, t.messages, t.read, t.since, t.created, t.expires, t.meta,
 t.realm, t.status_row, t.artifact_row, t.message_row`

// rowScanner holds what taskColumns are scanned into.
type rowScanner struct {
	id, tenant, owner, agent, context, meta []byte
	state, wait                             int16
	created, expires                        int64
	row                                     row
}

// targets returns where to scan taskColumns to.
func (s *rowScanner) targets() []any {
	t := &s.row
	return []any{
		&t.Key, &s.id, &s.tenant, &s.owner, &s.agent, &s.context, &s.state, &s.wait, &t.Seq,
		&t.rev, &t.Lease, &t.Turn, &t.Attempt, &t.Done, &t.Messages, &t.Read, &t.Since, &s.created, &s.expires, &s.meta,
		&t.realm, &t.statusRow, &t.artifactRow, &t.messageRow,
	}
}

// take returns the row that was scanned.
func (s *rowScanner) take() *row {
	t := s.row
	t.ID, t.Tenant, t.Owner, t.Agent, t.Context = string(s.id), string(s.tenant), string(s.owner), string(s.agent), string(s.context)
	t.State, t.Wait = a2a.TaskState(s.state), store.Wait(s.wait)
	t.StatusAt, t.Created, t.Expires = timeOf(t.rev), moment(s.created), moment(s.expires)
	t.Meta = s.meta
	return &t
}

// moment returns a time that is kept in milliseconds, zero for 0.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// milliseconds returns a time as it is kept.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// holds reports whether the guard holds of the row.
func holds(g *store.Guard, t *row) bool {
	return (g.States == 0 || g.States.Has(t.State)) &&
		(g.Lease == nil || *g.Lease == t.Lease) &&
		(g.Turn == 0 || g.Turn == t.Turn) &&
		(g.Attempt == 0 || g.Attempt == t.Attempt) &&
		(!g.AllRead || t.Messages == t.Read) &&
		(!g.NoLease || t.Lease == 0)
}

// assign gives the row its new values.
func (t *row) assign(s *store.Set) {
	if s.State != nil {
		t.State = *s.State
	}
	if s.Wait != nil {
		t.Wait = *s.Wait
	}
	if s.Lease != nil {
		t.Lease = *s.Lease
	}
	if s.Turn != nil {
		t.Turn = *s.Turn
	}
	if s.Attempt != nil {
		t.Attempt = *s.Attempt
	}
	if s.Done != nil {
		t.Done = *s.Done
	}
	if s.ReadAll {
		t.Since, t.Read = t.Read, t.Messages
	}
	if !s.Expires.IsZero() {
		t.Expires = moment(milliseconds(s.Expires))
	}
}

// number gives the events of a change their sequence numbers and the time of
// the commit, and moves the row's pointers. It returns the pointers as they
// were before, for the row of events.
func (t *row) number(events []store.Event, rev int64, at time.Time) (status, artifact, message int64) {
	status, artifact, message = t.statusRow, t.artifactRow, t.messageRow
	last := t.Seq + int64(len(events))
	for i := range events {
		e := &events[i]
		t.Seq++
		e.Seq = t.Seq
		if e.Stamp > 0 && e.Stamp+a2a.TimestampLen <= len(e.Body) {
			a2a.AppendTimestamp(e.Body[:e.Stamp], at)
		}
		switch e.Kind {
		case store.KindStatus:
			t.statusRow, t.rev, t.StatusAt = last, rev, at
			if e.Says {
				t.messageRow = last
			}
		case store.KindArtifact:
			t.artifactRow = last
		case store.KindMessage:
			t.messageRow = last
			t.Messages++
		}
	}
	return status, artifact, message
}
