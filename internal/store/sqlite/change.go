package sqlite

import (
	"errors"
	"fmt"
	"time"

	"handoff.example/handoff/internal/store"
)

// errNoStatus refuses a task that no list could place.
var errNoStatus = errors.New("a new task needs a status event")

// apply makes a change, in the transaction under way. A refusal is found before
// anything is written: all guards are checked first, and the claim, whose check
// is its insertion, is the first to be written.
func (w *writer) apply(c *store.Change, at time.Time) error {
	var t *row
	var err error
	switch {
	case c.Insert != nil:
		if !hasStatus(c.Events) {
			return refusal{errNoStatus}
		}
		t = &row{Task: *c.Insert}
		t.Seq = 0
	case c.Task != 0:
		if t, err = w.row(c.Task); err != nil {
			return err
		}
		if !holds(&c.Guard, t) {
			return refusal{store.ErrConflict}
		}
	}
	if t != nil && t.Seq+int64(len(c.Events)) > maxSeq {
		return refusal{fmt.Errorf("%w: task %s has too many events", store.ErrUnavailable, t.ID)}
	}
	if err := w.check(c); err != nil {
		return err
	}
	if c.Claim != nil {
		if err := w.claim(c.Claim, at); err != nil {
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
	c.At = at
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

// row returns the row of a task. It is remembered: only the writer changes it.
func (w *writer) row(key int64) (*row, error) {
	if t, ok := w.rows[key]; ok {
		return t, nil
	}
	var t row
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
func (w *writer) remember(t *row) {
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

// insert writes a new task and its events.
func (w *writer) insert(t *row, c *store.Change, at time.Time) (err error) {
	if t.realm, err = w.realmID(realm{t.Tenant, t.Owner, t.Agent}); err != nil {
		return err
	}
	w.clock.key++
	w.clock.rev++
	t.Key, t.Messages = w.clock.key, 0
	if err := w.addEvents(t, c.Events, at); err != nil {
		return err
	}
	t.Read = min(t.Read, t.Messages)
	t.Created, t.Expires = moment(milliseconds(t.Created)), moment(milliseconds(t.Expires)) // as they are read back
	_, err = w.conn.run(`INSERT INTO tasks (key, id, realm, context, state, wait, seq, rev, status_at, status_row, artifact_row, message_row,
 lease, turn, attempt, done, messages, read, since, created, expires, meta) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		t.Key, t.ID, t.realm, t.Context, int64(t.State), int64(t.Wait), t.Seq, t.rev, at.UnixMilli(), t.statusRow, t.artifactRow, t.messageRow,
		t.Lease, int64(t.Turn), int64(t.Attempt), int64(t.Done), t.Messages, t.Read, t.Since, milliseconds(t.Created), milliseconds(t.Expires), t.Meta)
	if err != nil {
		return err
	}
	w.counts.add(t.realm, t.Context, t.State, 1)
	*c.Insert = t.Task
	c.After = t.Task
	if !t.State.Terminal() {
		w.remember(t)
	}
	return nil
}

// update writes a task's new values and its events.
func (w *writer) update(old *row, c *store.Change, at time.Time) error {
	t := *old
	if hasStatus(c.Events) {
		w.clock.rev++
	}
	if err := w.addEvents(&t, c.Events, at); err != nil {
		return err
	}
	t.assign(&c.Set)
	if err := w.save(old, &t); err != nil {
		return err
	}
	if t.State != old.State {
		w.counts.add(t.realm, t.Context, old.State, -1)
		w.counts.add(t.realm, t.Context, t.State, 1)
	}
	c.After = t.Task
	w.remember(&t)
	return nil
}

// addEvents numbers and stamps events and writes them in one row.
func (w *writer) addEvents(t *row, events []store.Event, at time.Time) error {
	if len(events) == 0 {
		return nil
	}
	status, artifact, message := t.number(events, w.clock.rev, at)
	var rev int64
	if t.statusRow == t.Seq {
		rev = t.rev
	}
	if need := framedLen(events); cap(w.frame) < need {
		w.frame = make([]byte, 0, need)
	}
	w.frame = appendFrame(w.frame[:0], events)
	_, err := w.conn.run("INSERT INTO events (id, rev, prev_status, prev_artifact, prev_message, body) VALUES (?,?,?,?,?,?)",
		rowID(t.Key, t.Seq), rev, status, artifact, message, w.frame)
	if cap(w.frame) > maxBatchBytes {
		w.frame = nil
	}
	return err
}

// save writes what changed of a row. Columns that stand in an index are left
// alone unless one of them changed, since SQLite writes the index of every
// column that is set.
func (w *writer) save(old, t *row) error {
	var n int64
	var err error
	if t.State == old.State && t.rev == old.rev && t.Lease == old.Lease && t.Expires.Equal(old.Expires) {
		n, err = w.conn.run(`UPDATE tasks SET wait=?, seq=?, artifact_row=?, message_row=?, turn=?, attempt=?, done=?, messages=?, read=?, since=?
 WHERE key=? AND seq=?`,
			int64(t.Wait), t.Seq, t.artifactRow, t.messageRow, int64(t.Turn), int64(t.Attempt), int64(t.Done), t.Messages, t.Read, t.Since,
			t.Key, old.Seq)
	} else {
		n, err = w.conn.run(`UPDATE tasks SET wait=?, seq=?, artifact_row=?, message_row=?, turn=?, attempt=?, done=?, messages=?, read=?, since=?,
 state=?, rev=?, status_at=?, status_row=?, lease=?, expires=? WHERE key=? AND seq=?`,
			int64(t.Wait), t.Seq, t.artifactRow, t.messageRow, int64(t.Turn), int64(t.Attempt), int64(t.Done), t.Messages, t.Read, t.Since,
			int64(t.State), t.rev, t.StatusAt.UnixMilli(), t.statusRow, t.Lease, milliseconds(t.Expires), t.Key, old.Seq)
	}
	if err == nil && n != 1 {
		err = fmt.Errorf("task %s was changed by another process", t.ID)
	}
	return err
}
