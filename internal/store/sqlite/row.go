package sqlite

import (
	"database/sql/driver"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// The id of a row of events is the key of its task and the sequence number of
// its last event, in the low seqBits bits.
const (
	seqBits = 26
	maxSeq  = 1<<seqBits - 1
)

func rowID(task, seq int64) int64 { return task<<seqBits | seq }

// row is a task with what the driver keeps beside it.
type row struct {
	store.Task
	realm       int64
	rev         int64
	statusRow   int64 // sequence numbers of rows of events; 0: none
	artifactRow int64
	messageRow  int64
}

// taskColumns are what scanTask reads, of the tables tasks t and realms r.
const taskColumns = `t.key, t.id, r.tenant, r.owner, r.agent, t.context, t.state, t.wait, t.seq,
 t.status_at, t.lease, t.turn, t.attempt, t.done, t.messages, t.read, t.since, t.created, t.expires, t.meta,
 t.realm, t.rev, t.status_row, t.artifact_row, t.message_row`

func scanTask(v values) row {
	return row{
		Task: store.Task{
			Key:      integer(v[0]),
			ID:       text(v[1]),
			Tenant:   text(v[2]),
			Owner:    text(v[3]),
			Agent:    text(v[4]),
			Context:  text(v[5]),
			State:    a2a.TaskState(integer(v[6])),
			Wait:     store.Wait(integer(v[7])),
			Seq:      integer(v[8]),
			StatusAt: moment(v[9]),
			Lease:    integer(v[10]),
			Turn:     int(integer(v[11])),
			Attempt:  int(integer(v[12])),
			Done:     int(integer(v[13])),
			Messages: integer(v[14]),
			Read:     integer(v[15]),
			Since:    integer(v[16]),
			Created:  moment(v[17]),
			Expires:  moment(v[18]),
			Meta:     blob(v[19]),
		},
		realm:       integer(v[20]),
		rev:         integer(v[21]),
		statusRow:   integer(v[22]),
		artifactRow: integer(v[23]),
		messageRow:  integer(v[24]),
	}
}

// moment returns a time that is kept in milliseconds, zero for 0.
func moment(v driver.Value) time.Time {
	ms := integer(v)
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
