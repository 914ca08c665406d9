package sqlite

import (
	"context"
	"time"

	"handoff.example/handoff/internal/store"
)

// removeBatch is how many tasks one transaction removes at most, so that
// commits are not held up.
const removeBatch = 128

// Delete removes a terminal task with all that belongs to it.
func (s *Store) Delete(ctx context.Context, scope store.Scope, id string) error {
	return s.write(ctx, func(w *writer, _ time.Time) error {
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
}

// remove removes a task with all that belongs to it. Claims stay until their
// own time is over: a message that is sent again must not start anew.
func (w *writer) remove(t *row) error {
	delete(w.rows, t.Key)
	if _, err := w.conn.run("DELETE FROM events WHERE id BETWEEN ? AND ?", rowID(t.Key, 0), rowID(t.Key, maxSeq)); err != nil {
		return err
	}
	for _, query := range []string{"DELETE FROM private WHERE task=?", "DELETE FROM results WHERE task=?", "DELETE FROM tasks WHERE key=?"} {
		if _, err := w.conn.run(query, t.Key); err != nil {
			return err
		}
	}
	for _, query := range []string{"DELETE FROM grants WHERE task=?", "DELETE FROM jobs WHERE task=?"} {
		if _, err := w.conn.run(query, t.ID); err != nil {
			return err
		}
	}
	w.counts.add(t.realm, t.Context, t.State, -1)
	return nil
}

// Expire removes terminal tasks and claims whose time is over, in transactions
// of bounded size.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	tasks, err := s.expire(ctx, limit, (*writer).expireTasks)
	if err != nil {
		return tasks, err
	}
	claims, err := s.expire(ctx, limit, (*writer).expireClaims)
	return tasks + claims, err
}

func (s *Store) expire(ctx context.Context, limit int, some func(w *writer, at time.Time, limit int) (int, error)) (int, error) {
	total := 0
	for total < limit {
		n, want := 0, min(limit-total, removeBatch)
		err := s.write(ctx, func(w *writer, at time.Time) (err error) {
			n, err = some(w, at, want)
			return err
		})
		if err != nil {
			return total, err
		}
		total += n
		if n < want {
			break
		}
	}
	return total, nil
}

func (w *writer) expireTasks(at time.Time, limit int) (int, error) {
	var due []row
	err := w.conn.each(context.Background(), func(v values) bool {
		due = append(due, scanTask(v))
		return true
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
