package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// apply makes a change in the batch, or refuses it before it has made any of
// it.
func (b *work) apply(c *store.Change) error {
	var t *entry
	switch {
	case c.Insert != nil:
		inserted, err := record.New(c.Insert, c.Events)
		if err != nil {
			return err
		}
		if b.taken[c.Insert.ID] {
			return store.ErrConflict
		}
		inserted.Realm = b.realms[realm{c.Insert.Tenant, c.Insert.Owner, c.Insert.Agent}]
		t = &entry{Row: inserted}
	case c.Task != 0:
		if t = b.tasks[c.Task]; t == nil {
			return store.ErrNotFound
		}
		if !t.Meets(&c.Guard) {
			return store.ErrConflict
		}
	}
	if t != nil && t.Seq+int64(len(c.Events)) > maxSeq {
		return fmt.Errorf("%w: task %s has too many events", store.ErrUnavailable, t.ID)
	}
	if err := b.check(c); err != nil {
		return err
	}
	if err := b.checkWebhook(t, c); err != nil {
		return err
	}
	if err := b.checkDelegation(t, c); err != nil {
		return err
	}
	if err := b.checkSettles(c); err != nil {
		return err
	}
	switch {
	case c.Insert != nil:
		b.insert(t, c)
	case t != nil:
		b.update(t, c)
	}
	b.attach(t, c)
	if t != nil {
		b.delegate(t, c)
		b.notify(t, c)
	}
	b.putInbox(t, c)
	c.At = b.at
	return nil
}

// insert makes a new task and its events.
func (b *work) insert(t *entry, c *store.Change) {
	t.Key, b.keys = b.keys[0], b.keys[1:]
	b.addEvents(&t.Row, c)
	t.Read = min(t.Read, t.Messages)
	b.inserts.add([]int64{
		t.Key, t.Rev, t.Lease, record.Milliseconds(t.Created), record.Milliseconds(t.Expires), t.Realm, t.Seq, t.StatusRow, t.ArtifactRow, t.MessageRow,
		int64(t.Turn), int64(t.Attempt), int64(t.Done), t.Messages, t.Read, t.Since, int64(t.State), int64(t.Wait),
	}, []byte(t.ID), []byte(t.Context), t.Meta)
	b.taken[t.ID] = true
	b.counts.add(t.Realm, t.Context, t.State, 1)
	*c.Insert = t.Task
	c.After = t.Task
}

// update gives a task its new values and events.
func (b *work) update(t *entry, c *store.Change) {
	before := t.State
	b.addEvents(&t.Row, c)
	t.Assign(&c.Set)
	if t.State != before {
		b.counts.add(t.Realm, t.Context, before, -1)
		b.counts.add(t.Realm, t.Context, t.State, 1)
	}
	t.dirty = true
	c.After = t.Task
}

// addEvents numbers and stamps events and writes them in one row.
func (b *work) addEvents(t *record.Row, c *store.Change) {
	events := c.Events
	if len(events) == 0 {
		return
	}
	if record.HasStatus(events) {
		defer func() { b.rev++ }()
	}
	links := t.Add(events, b.rev, b.at, &c.Set)
	b.events.add([]int64{t.Key, links.Rev, t.Seq, links.StatusRow, links.ArtifactRow, links.MessageRow, links.Mark}, record.Append(make([]byte, 0, record.Size(events)), events))
}

var (
	insertTasks = `INSERT INTO tasks (key, rev, lease, created, expires, realm, seq, status_row, artifact_row, message_row,
 turn, attempt, done, messages, read, since, state, wait, id, context, meta) SELECT * FROM ` + unnest(18, 3)
	updateTasks = `UPDATE tasks t SET rev = u.rev, lease = u.lease, expires = u.expires, seq = u.seq,
 status_row = u.status_row, artifact_row = u.artifact_row, message_row = u.message_row, turn = u.turn, attempt = u.attempt,
 done = u.done, messages = u.messages, read = u.read, since = u.since, state = u.state, wait = u.wait FROM ` + unnest(16, 0) + ` AS
 u(key, rev, lease, expires, seq, status_row, artifact_row, message_row, turn, attempt, done, messages, read, since, state, wait)
 WHERE t.key = u.key`
	insertEvents = `INSERT INTO events (task, rev, seq, prev_status, prev_artifact, prev_message, mark, body) SELECT * FROM ` + unnest(7, 1)
)

// writeTasks queues what is written of tasks and their events.
func (b *work) writeTasks(q *pgx.Batch) {
	var updates columns
	for _, t := range b.tasks {
		if t.dirty {
			updates.add([]int64{
				t.Key, t.Rev, t.Lease, record.Milliseconds(t.Expires), t.Seq, t.StatusRow, t.ArtifactRow, t.MessageRow,
				int64(t.Turn), int64(t.Attempt), int64(t.Done), t.Messages, t.Read, t.Since, int64(t.State), int64(t.Wait),
			})
		}
	}
	b.inserts.queue(q, insertTasks)
	updates.queue(q, updateTasks)
	b.events.queue(q, insertEvents)
}
