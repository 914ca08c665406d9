package sqlite

import (
	"context"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// What one transaction removes at most, so that commits are not held up for
// long.
const (
	removeTasks  = 128
	removeEvents = 4096 // rows
)

// Delete removes a terminal task with all that belongs to it.
func (s *Store) Delete(ctx context.Context, scope store.Scope, id string) error {
	err := s.write(ctx, func(w *writer, _ time.Time) error {
		t, err := find(w.conn, scope, id)
		if err != nil {
			if err == store.ErrNotFound {
				return refusal{err}
			}
			return err
		}
		if !t.State.Terminal() {
			return refusal{store.ErrConflict}
		}
		return w.remove(t)
	})
	if err != nil {
		return err
	}
	return s.purge(ctx)
}

// remove removes a task with all that belongs to it, but for a long list of
// events, which it leaves to purge. Claims stay until their own time is over: a
// message that is sent again must not start anew.
func (w *writer) remove(t *record.Row) error {
	delete(w.rows, t.Key)
	query, args := "DELETE FROM events WHERE id BETWEEN ? AND ?", []any{rowID(t.Key, 0), rowID(t.Key, maxSeq)}
	if t.Seq > removeEvents {
		query, args = "INSERT INTO purge (task) VALUES (?)", []any{t.Key}
	}
	if _, err := w.conn.run(query, args...); err != nil {
		return err
	}
	queries := []string{"DELETE FROM private WHERE task=?", "DELETE FROM results WHERE task=?", "DELETE FROM tasks WHERE key=?"}
	if t.Webhooks > 0 {
		queries = append(queries, "DELETE FROM webhooks WHERE task=?")
	}
	if t.Delegated {
		queries = append(queries, "DELETE FROM delegations WHERE task=?")
	}
	for _, query := range queries {
		if _, err := w.conn.run(query, t.Key); err != nil {
			return err
		}
	}
	for _, query := range []string{
		"DELETE FROM grants WHERE task=?", "DELETE FROM jobs WHERE task=?",
		"DELETE FROM inbox_history WHERE item IN (SELECT id FROM inbox WHERE task=?)", "DELETE FROM inbox WHERE task=?",
	} {
		if _, err := w.conn.run(query, t.ID); err != nil {
			return err
		}
	}
	w.counts.add(t.Realm, t.Context, t.State, -1)
	return nil
}

// purge removes what is left of tasks that were removed, also before a crash.
func (s *Store) purge(ctx context.Context) error {
	for {
		var task int64
		err := s.read(ctx, func(c *conn) (err error) {
			task, err = c.number(context.Background(), "SELECT task FROM purge LIMIT 1")
			return unavailable(err)
		})
		if err != nil || task == 0 {
			return err
		}
		if err := s.write(ctx, func(w *writer, _ time.Time) error { return w.purge(task) }); err != nil {
			return err
		}
	}
}

func (w *writer) purge(task int64) error {
	n, err := w.conn.run("DELETE FROM events WHERE id IN (SELECT id FROM events WHERE id BETWEEN ? AND ? LIMIT ?)",
		rowID(task, 0), rowID(task, maxSeq), int64(removeEvents))
	if err == nil && n < removeEvents {
		_, err = w.conn.run("DELETE FROM purge WHERE task=?", task)
	}
	return err
}

// Expire removes terminal tasks, claims and documents whose time is over, in transactions
// of bounded size.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	tasks, err := s.expire(ctx, limit, (*writer).expireTasks)
	if err != nil {
		return tasks, err
	}
	if err := s.purge(ctx); err != nil {
		return tasks, err
	}
	claims, err := s.expire(ctx, limit, (*writer).expireClaims)
	if err != nil {
		return tasks + claims, err
	}
	docs, err := s.expire(ctx, limit, (*writer).expireDocs)
	return tasks + claims + docs, err
}

// expire removes some at a time until there are none, or limit is reached.
func (s *Store) expire(ctx context.Context, limit int, some func(w *writer, at time.Time, limit int) (int, error)) (int, error) {
	total := 0
	for total < limit {
		n := 0
		err := s.write(ctx, func(w *writer, at time.Time) (err error) {
			n, err = some(w, at, min(limit-total, removeTasks))
			return err
		})
		if err != nil || n == 0 {
			return total, err
		}
		total += n
	}
	return total, nil
}

func (w *writer) expireTasks(at time.Time, limit int) (int, error) {
	var due []record.Row
	var events int64
	err := w.conn.each(context.Background(), func(v values) bool {
		t := scanTask(v)
		due = append(due, t)
		events += min(t.Seq, removeEvents)
		return events < removeEvents
	}, "SELECT "+taskColumns+` FROM tasks t CROSS JOIN realms r ON r.id = t.realm
 WHERE t.expires > 0 AND t.expires <= ? AND t.state IN (3, 4, 5, 7) ORDER BY t.expires LIMIT ?`, at.UnixMilli(), int64(limit))
	if err != nil {
		return 0, err
	}
	for i := range due {
		if err := w.remove(&due[i]); err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

func (w *writer) expireClaims(at time.Time, limit int) (int, error) {
	n, err := w.conn.run(`DELETE FROM claims WHERE rowid IN
 (SELECT rowid FROM claims WHERE expires > 0 AND expires <= ? ORDER BY expires LIMIT ?)`, at.UnixMilli(), int64(limit))
	return int(n), err
}
