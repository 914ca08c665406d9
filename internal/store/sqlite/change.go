package sqlite

import (
	"fmt"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// apply makes a change, in the transaction under way. A refusal is found before
// anything is written: all guards are checked first, and the claim, whose check
// is its insertion, is the first to be written.
func (w *writer) apply(c *store.Change, at time.Time) error {
	var t *record.Row
	var err error
	switch {
	case c.Insert != nil:
		inserted, refused := record.New(c.Insert, c.Events)
		if refused != nil {
			return refusal{refused}
		}
		t = &inserted
	case c.Task != 0:
		if t, err = w.row(c.Task); err != nil {
			return err
		}
		if !t.Meets(&c.Guard) {
			return refusal{store.ErrConflict}
		}
	}
	if t != nil && t.Seq+int64(len(c.Events)) > maxSeq {
		return refusal{fmt.Errorf("%w: task %s has too many events", store.ErrUnavailable, t.ID)}
	}
	if err := w.check(c); err != nil {
		return err
	}
	if c.Delegation != nil {
		if err := w.checkDelegation(t, c); err != nil {
			return err
		}
	}
	if c.Settles != nil {
		if err := w.checkSettles(c.Settles); err != nil {
			return err
		}
	}
	replaces, err := w.checkWebhook(t, c)
	if err != nil {
		return err
	}
	if c.Claim != nil {
		if err := w.claim(c, at); err != nil {
			return err
		}
	}
	if t != nil {
		if c.Insert != nil {
			err = w.insert(t, c, at)
		} else {
			err = w.update(t, c, at)
		}
		if err != nil {
			return err
		}
	}
	if err := w.attach(t, c); err != nil {
		return err
	}
	if c.Delegation != nil || c.After.Delegated && t != nil {
		if err := w.delegate(c); err != nil {
			return err
		}
	}
	if c.Settles != nil || c.Item != nil {
		if err := w.putInbox(t, c, at); err != nil {
			return err
		}
	}
	if t != nil {
		if err := w.notify(c, replaces, at); err != nil {
			return err
		}
	}
	c.At = at
	return nil
}

// notify makes the webhook of a change, and wakes those that have something to
// send after it.
func (w *writer) notify(c *store.Change, replaces bool, at time.Time) (err error) {
	if err := w.putWebhook(c, replaces, at); err != nil {
		return err
	}
	if c.Woken = 0; c.After.Webhooks > 0 && (replaces || c.Wakes()) {
		c.Woken, err = w.wake(&c.After, at)
	}
	if c.Insert != nil {
		c.Insert.Webhooks = c.After.Webhooks
	}
	return err
}

// row returns the row of a task. It is remembered: only the writer changes it.
func (w *writer) row(key int64) (*record.Row, error) {
	if t, ok := w.rows[key]; ok {
		return t, nil
	}
	var t record.Row
	found, err := w.conn.one(func(v values) { t = scanTask(v) },
		"SELECT "+taskColumns+" FROM tasks t CROSS JOIN realms r ON r.id = t.realm WHERE t.key = ?", key)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, refusal{store.ErrNotFound}
	}
	w.remember(&t)
	return &t, nil
}

// remember keeps the row of a task that will change again.
func (w *writer) remember(t *record.Row) {
	if t.State.Terminal() {
		delete(w.rows, t.Key)
		return
	}
	if len(w.rows) >= maxCachedRows {
		for key := range w.rows { // any
			delete(w.rows, key)
			break
		}
	}
	w.rows[t.Key] = t
}

const insertTask = `INSERT INTO tasks (key, id, realm, context, state, wait, seq, rev, status_at, status_row, artifact_row, message_row,
 lease, turn, attempt, done, messages, read, since, created, expires, meta) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

// insertTaskArgs are the arguments of insertTask.
func insertTaskArgs(t *record.Row) []any {
	return []any{
		t.Key, t.ID, t.Realm, t.Context, int64(t.State), int64(t.Wait), t.Seq, t.Rev, t.StatusAt.UnixMilli(), t.StatusRow, t.ArtifactRow, t.MessageRow,
		t.Lease, int64(t.Turn), int64(t.Attempt), int64(t.Done), t.Messages, t.Read, t.Since, record.Milliseconds(t.Created), record.Milliseconds(t.Expires), t.Meta,
	}
}

const insertEvents = "INSERT INTO events (id, rev, prev_status, prev_artifact, prev_message, mark, body) VALUES (?,?,?,?,?,?,?)"

// insert writes a new task and its events.
func (w *writer) insert(t *record.Row, c *store.Change, at time.Time) (err error) {
	if t.Realm, err = w.realmID(realm{t.Tenant, t.Owner, t.Agent}); err != nil {
		return err
	}
	w.clock.key++
	w.clock.rev++
	t.Key = w.clock.key
	if err := w.addEvents(t, c, at); err != nil {
		return err
	}
	t.Read = min(t.Read, t.Messages)
	if _, err = w.conn.run(insertTask, insertTaskArgs(t)...); err != nil {
		return err
	}
	w.counts.add(t.Realm, t.Context, t.State, 1)
	*c.Insert = t.Task
	c.After = t.Task
	if !t.State.Terminal() {
		w.remember(t)
	}
	return nil
}

// update writes a task's new values and its events.
func (w *writer) update(old *record.Row, c *store.Change, at time.Time) error {
	t := *old
	if record.HasStatus(c.Events) {
		w.clock.rev++
	}
	if err := w.addEvents(&t, c, at); err != nil {
		return err
	}
	t.Assign(&c.Set)
	if err := w.save(old, &t); err != nil {
		return err
	}
	if t.State != old.State {
		w.counts.add(t.Realm, t.Context, old.State, -1)
		w.counts.add(t.Realm, t.Context, t.State, 1)
	}
	c.After = t.Task
	w.remember(&t)
	return nil
}

// addEvents numbers and stamps events and writes them in one row.
func (w *writer) addEvents(t *record.Row, c *store.Change, at time.Time) error {
	events := c.Events
	if len(events) == 0 {
		return nil
	}
	links := t.Add(events, w.clock.rev, at, &c.Set)
	if need := record.Size(events); cap(w.frame) < need {
		w.frame = make([]byte, 0, need)
	}
	w.frame = record.Append(w.frame[:0], events)
	_, err := w.conn.run(insertEvents,
		rowID(t.Key, t.Seq), links.Rev, links.StatusRow, links.ArtifactRow, links.MessageRow, links.Mark, w.frame)
	if cap(w.frame) > maxBatchBytes {
		w.frame = nil
	}
	return err
}

// save writes what changed of a row. Columns that stand in an index are left
// alone unless one of them changed, since SQLite writes the index of every
// column that is set.
func (w *writer) save(old, t *record.Row) error {
	var n int64
	var err error
	if t.State == old.State && t.Rev == old.Rev && t.Lease == old.Lease && t.Expires.Equal(old.Expires) {
		n, err = w.conn.run(`UPDATE tasks SET wait=?, seq=?, artifact_row=?, message_row=?, turn=?, attempt=?, done=?, messages=?, read=?, since=?
 WHERE key=? AND seq=?`,
			int64(t.Wait), t.Seq, t.ArtifactRow, t.MessageRow, int64(t.Turn), int64(t.Attempt), int64(t.Done), t.Messages, t.Read, t.Since,
			t.Key, old.Seq)
	} else {
		n, err = w.conn.run(`UPDATE tasks SET wait=?, seq=?, artifact_row=?, message_row=?, turn=?, attempt=?, done=?, messages=?, read=?, since=?,
 state=?, rev=?, status_at=?, status_row=?, lease=?, expires=? WHERE key=? AND seq=?`,
			int64(t.Wait), t.Seq, t.ArtifactRow, t.MessageRow, int64(t.Turn), int64(t.Attempt), int64(t.Done), t.Messages, t.Read, t.Since,
			int64(t.State), t.Rev, t.StatusAt.UnixMilli(), t.StatusRow, t.Lease, record.Milliseconds(t.Expires), t.Key, old.Seq)
	}
	if err == nil && n != 1 {
		err = fmt.Errorf("task %s was changed by another process", t.ID)
	}
	return err
}
