package sqlite

import (
	"context"
	"time"

	"handoff.example/handoff/internal/store"
)

// Join enters a node. The lock on the file says that no other node lives, so
// the epochs before this one end at once.
func (s *Store) Join(ctx context.Context, node string, lease time.Duration) (epoch int64, err error) {
	err = s.write(ctx, func(w *writer, at time.Time) error {
		if _, err := w.conn.run("DELETE FROM nodes"); err != nil {
			return err
		}
		w.clock.epoch++
		epoch = w.clock.epoch
		_, err := w.conn.run("INSERT INTO nodes (epoch, node, expires) VALUES (?,?,?)", epoch, node, at.Add(lease).UnixMilli())
		return err
	})
	return epoch, err
}

// Renew keeps a node alive.
func (s *Store) Renew(ctx context.Context, epoch int64, lease time.Duration) error {
	return s.write(ctx, func(w *writer, at time.Time) error {
		n, err := w.conn.run("UPDATE nodes SET expires=? WHERE epoch=?", at.Add(lease).UnixMilli(), epoch)
		if err == nil && n == 0 {
			return refusal{store.ErrConflict}
		}
		return err
	})
}

// Leave ends the lease of a node at once.
func (s *Store) Leave(ctx context.Context, epoch int64) error {
	return s.write(ctx, func(w *writer, _ time.Time) error {
		_, err := w.conn.run("DELETE FROM nodes WHERE epoch=?", epoch)
		return err
	})
}

// Orphans returns tasks that are leased by nodes that are no longer alive.
func (s *Store) Orphans(ctx context.Context, limit int) ([]store.Task, error) {
	var tasks []store.Task
	err := s.read(ctx, func(c *conn) error {
		return unavailable(c.each(context.Background(), func(v values) bool {
			tasks = append(tasks, scanTask(v).Task)
			return true
		}, "SELECT "+taskColumns+` FROM tasks t CROSS JOIN realms r ON r.id = t.realm
 WHERE t.lease > 0 AND t.lease NOT IN (SELECT epoch FROM nodes WHERE expires > ?) LIMIT ?`, s.now().UnixMilli(), int64(limit)))
	})
	return tasks, err
}
