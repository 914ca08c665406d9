package sqlite

import (
	"database/sql/driver"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// The id of a row of events is the key of its task and the sequence number of
// its last event, in the low seqBits bits.
const (
	seqBits = 26
	maxSeq  = 1<<seqBits - 1
	maxKey  = 1<<(63-seqBits) - 1
)

func rowID(task, seq int64) int64 { return task<<seqBits | seq }

// taskColumns are what scanTask reads, of the tables tasks t and realms r.
const taskColumns = `t.key, t.id, r.tenant, r.owner, r.agent, t.context, t.state, t.wait, t.seq,
 t.status_at, t.lease, t.turn, t.attempt, t.done, t.messages, t.read, t.since, t.created, t.expires, t.meta,
 t.realm, t.rev, t.status_row, t.artifact_row, t.message_row, t.webhooks, t.delegated`

func scanTask(v values) record.Row {
	return record.Row{
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
			Webhooks: int(integer(v[25])),

			Delegated: integer(v[26]) != 0,
		},
		Realm:       integer(v[20]),
		Rev:         integer(v[21]),
		StatusRow:   integer(v[22]),
		ArtifactRow: integer(v[23]),
		MessageRow:  integer(v[24]),
	}
}

// moment returns a time that is kept in milliseconds, zero for 0.
func moment(v driver.Value) time.Time { return record.Time(integer(v)) }
