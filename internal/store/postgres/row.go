package postgres

import (
	"math"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
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

// taskColumns are what rowScanner reads, of the tables tasks t and realms r.
const taskColumns = `t.key, t.id, r.tenant, r.owner, r.agent, t.context, t.state, t.wait, t.seq,
 t.rev, t.lease, t.turn, t.attempt, t.done, t.messages, t.read, t.since, t.created, t.expires, t.meta,
 t.realm, t.status_row, t.artifact_row, t.message_row, t.webhooks, t.delegated`

// rowScanner holds what taskColumns are scanned into.
type rowScanner struct {
	id, tenant, owner, agent, context, meta []byte
	state, wait, delegated                  int16
	created, expires                        int64
	row                                     record.Row
}

// targets returns where to scan taskColumns to.
func (s *rowScanner) targets() []any {
	t := &s.row
	return []any{
		&t.Key, &s.id, &s.tenant, &s.owner, &s.agent, &s.context, &s.state, &s.wait, &t.Seq,
		&t.Rev, &t.Lease, &t.Turn, &t.Attempt, &t.Done, &t.Messages, &t.Read, &t.Since, &s.created, &s.expires, &s.meta,
		&t.Realm, &t.StatusRow, &t.ArtifactRow, &t.MessageRow, &t.Webhooks, &s.delegated,
	}
}

// take returns the row that was scanned.
func (s *rowScanner) take() *record.Row {
	t := s.row
	t.ID, t.Tenant, t.Owner, t.Agent, t.Context = string(s.id), string(s.tenant), string(s.owner), string(s.agent), string(s.context)
	t.State, t.Wait = a2a.TaskState(s.state), store.Wait(s.wait)
	t.StatusAt, t.Created, t.Expires = timeOf(t.Rev), record.Time(s.created), record.Time(s.expires)
	t.Meta, t.Delegated = s.meta, s.delegated != 0
	return &t
}
