package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/internal/store"
)

// errNoStatus refuses a task that no list could place.
var errNoStatus = errors.New("a new task needs a status event")

// apply makes a change in the batch, or refuses it before it has made any of
// it.
func (b *work) apply(c *store.Change) error {
	var t *entry
	switch {
	case c.Insert != nil:
		if !hasStatus(c.Events) {
			return errNoStatus
		}
		if b.taken[c.Insert.ID] {
			return store.ErrConflict
		}
		t = &entry{row: row{Task: *c.Insert, realm: b.realms[realm{c.Insert.Tenant, c.Insert.Owner, c.Insert.Agent}]}}
		t.Seq = 0
	case c.Task != 0:
		if t = b.tasks[c.Task]; t == nil {
			return store.ErrNotFound
		}
		if !holds(&c.Guard, &t.row) {
			return store.ErrConflict
		}
	}
	if t != nil && t.Seq+int64(len(c.Events)) > maxSeq {
		return fmt.Errorf("%w: task %s has too many events", store.ErrUnavailable, t.ID)
	}
	if err := b.check(c); err != nil {
		return err
	}
	switch {
	case c.Insert != nil:
		b.insert(t, c)
	case t != nil:
		b.update(t, c)
	}
	b.attach(t, c)
	c.At = b.at
	return nil
}

func hasStatus(events []store.Event) bool {
	for i := range events {
		if events[i].Kind == store.KindStatus {
			return true
		}
	}
	return false
}

// insert makes a new task and its events.
func (b *work) insert(t *entry, c *store.Change) {
	t.Key, b.keys = b.keys[0], b.keys[1:]
	t.Messages = 0
	b.addEvents(&t.row, c.Events)
	t.Read = min(t.Read, t.Messages)
	t.Created, t.Expires = moment(milliseconds(t.Created)), moment(milliseconds(t.Expires)) // as they are read back
	b.inserts.add([]int64{
		t.Key, t.rev, t.Lease, milliseconds(t.Created), milliseconds(t.Expires), t.realm, t.Seq, t.statusRow, t.artifactRow, t.messageRow,
		int64(t.Turn), int64(t.Attempt), int64(t.Done), t.Messages, t.Read, t.Since, int64(t.State), int64(t.Wait),
	}, []byte(t.ID), []byte(t.Context), t.Meta)
	b.taken[t.ID] = true
	b.counts.add(t.realm, t.Context, t.State, 1)
	*c.Insert = t.Task
	c.After = t.Task
}

// update gives a task its new values and events.
func (b *work) update(t *entry, c *store.Change) {
	before := t.State
	b.addEvents(&t.row, c.Events)
	t.assign(&c.Set)
	if t.State != before {
		b.counts.add(t.realm, t.Context, before, -1)
		b.counts.add(t.realm, t.Context, t.State, 1)
	}
	t.dirty = true
	c.After = t.Task
}

// addEvents numbers and stamps events and writes them in one row.
func (b *work) addEvents(t *row, events []store.Event) {
	if len(events) == 0 {
		return
	}
	if hasStatus(events) {
		defer func() { b.rev++ }()
	}
	status, artifact, message := t.number(events, b.rev, b.at)
	var rev int64
	if t.statusRow == t.Seq {
		rev = t.rev
	}
	b.events.add([]int64{t.Key, rev, t.Seq, status, artifact, message}, appendFrame(make([]byte, 0, framedLen(events)), events))
}

var (
	insertTasks = `INSERT INTO tasks (key, rev, lease, created, expires, realm, seq, status_row, artifact_row, message_row,
 turn, attempt, done, messages, read, since, state, wait, id, context, meta) SELECT * FROM ` + unnest(18, 3)
	updateTasks = `UPDATE tasks t SET rev = u.rev, lease = u.lease, expires = u.expires, seq = u.seq,
 status_row = u.status_row, artifact_row = u.artifact_row, message_row = u.message_row, turn = u.turn, attempt = u.attempt,
 done = u.done, messages = u.messages, read = u.read, since = u.since, state = u.state, wait = u.wait FROM ` + unnest(16, 0) + ` AS
 u(key, rev, lease, expires, seq, status_row, artifact_row, message_row, turn, attempt, done, messages, read, since, state, wait)
 WHERE t.key = u.key`
	insertEvents = `INSERT INTO events (task, rev, seq, prev_status, prev_artifact, prev_message, body) SELECT * FROM ` + unnest(6, 1)
)

// writeTasks queues what is written of tasks and their events.
func (b *work) writeTasks(q *pgx.Batch) {
	var updates columns
	for _, t := range b.tasks {
		if t.dirty {
			updates.add([]int64{
				t.Key, t.rev, t.Lease, milliseconds(t.Expires), t.Seq, t.statusRow, t.artifactRow, t.messageRow,
				int64(t.Turn), int64(t.Attempt), int64(t.Done), t.Messages, t.Read, t.Since, int64(t.State), int64(t.Wait),
			})
		}
	}
	b.inserts.queue(q, insertTasks)
	updates.queue(q, updateTasks)
	b.events.queue(q, insertEvents)
}
