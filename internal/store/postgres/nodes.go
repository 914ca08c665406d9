package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
)

// forgetAfter is when a node that has not renewed its lease, and a connection
// that has committed nothing, are forgotten.
const forgetAfter = 7 * 24 * time.Hour

// Join enters a node. Leases run on the time of the database.
func (s *Store) Join(ctx context.Context, node string, lease time.Duration) (epoch int64, err error) {
	err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, statement := range []string{
			"DELETE FROM nodes WHERE expires < " + nowSQL + " - $1",
			"DELETE FROM committers WHERE id IN (SELECT id FROM committers WHERE used < " + nowSQL + " - $1 FOR UPDATE SKIP LOCKED)",
		} {
			if _, err := tx.Exec(ctx, statement, forgetAfter.Milliseconds()); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, "INSERT INTO nodes (epoch, node, expires) VALUES (nextval('epochs'), $1, "+nowSQL+" + $2) RETURNING epoch",
			[]byte(node), lease.Milliseconds()).Scan(&epoch)
	})
	return epoch, err
}

// Renew keeps a node alive.
func (s *Store) Renew(ctx context.Context, epoch int64, lease time.Duration) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error { // twice is no harm
		tag, err := c.Exec(ctx, "UPDATE nodes SET expires = "+nowSQL+" + $2 WHERE epoch = $1", epoch, lease.Milliseconds())
		if err == nil && tag.RowsAffected() == 0 {
			return store.ErrConflict
		}
		return err
	})
}

// Leave ends the lease of a node at once.
func (s *Store) Leave(ctx context.Context, epoch int64) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "DELETE FROM nodes WHERE epoch = $1", epoch)
		return err
	})
}

// Orphans returns tasks that are leased by nodes that are no longer alive. It
// steps from lease to lease, and reads the tasks of dead ones only.
func (s *Store) Orphans(ctx context.Context, limit int) ([]store.Task, error) {
	var tasks []store.Task
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		tasks = nil
		rows, err := c.Query(ctx, `WITH RECURSIVE leases AS (
  (SELECT lease FROM tasks WHERE lease > 0 ORDER BY lease LIMIT 1)
  UNION ALL
  SELECT (SELECT t.lease FROM tasks t WHERE t.lease > 0 AND t.lease > l.lease ORDER BY t.lease LIMIT 1) FROM leases l WHERE l.lease IS NOT NULL
), dead AS MATERIALIZED (
  SELECT lease FROM leases l WHERE l.lease IS NOT NULL AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.epoch = l.lease AND n.expires > `+nowSQL+`)
) SELECT `+taskColumns+` FROM dead d
 CROSS JOIN LATERAL (SELECT * FROM tasks o WHERE o.lease > 0 AND o.lease = d.lease LIMIT $1) t JOIN realms r ON r.id = t.realm LIMIT $1`, limit)
		if err != nil {
			return err
		}
		var s rowScanner
		_, err = pgx.ForEachRow(rows, s.targets(), func() error {
			tasks = append(tasks, s.take().Task)
			return nil
		})
		return err
	})
	return tasks, err
}
