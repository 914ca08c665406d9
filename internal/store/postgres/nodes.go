package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// forgetAfter is when a node that has not renewed its lease, and a connection
// that has committed nothing, are forgotten.
const forgetAfter = 7 * 24 * time.Hour

// Join enters a node. Leases run on the time of the database.
func (s *Store) Join(ctx context.Context, n store.Node, lease time.Duration) (epoch int64, err error) {
	var started int64
	err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, statement := range []string{
			"DELETE FROM nodes n WHERE n.expires < " + nowSQL + " - $1 AND NOT " + aliveSQL,
			"DELETE FROM committers WHERE id IN (SELECT id FROM committers WHERE used < " + nowSQL + " - $1 FOR UPDATE SKIP LOCKED)",
		} {
			if _, err := tx.Exec(ctx, statement, forgetAfter.Milliseconds()); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, "INSERT INTO nodes (epoch, started, expires, lease, node, version, url, digest) VALUES (nextval('epochs'), "+
			nowSQL+", "+nowSQL+" + $1, $1, $2, $3, $4, $5) RETURNING epoch, started",
			lease.Milliseconds(), []byte(n.Name), []byte(n.Version), []byte(n.URL), record.AppendDigest(nil, n.Digest)).Scan(&epoch, &started)
	})
	if err == nil {
		s.joined.Store(epoch, started)
	}
	return epoch, err
}

// Renew keeps a node alive.
func (s *Store) Renew(ctx context.Context, epoch int64, lease time.Duration) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error { // twice is no harm
		sql, args := "UPDATE nodes SET expires = "+nowSQL+" + $2, lease = $2 WHERE epoch = $1", []any{epoch, lease.Milliseconds()}
		if started, ok := s.joined.Load(epoch); ok {
			sql, args = sql+" AND started = $3", append(args, started)
		}
		tag, err := c.Exec(ctx, sql, args...)
		if err == nil && tag.RowsAffected() == 0 {
			return store.ErrConflict
		}
		return err
	})
}

// Announce replaces the digest of a node.
func (s *Store) Announce(ctx context.Context, epoch int64, digest map[string]string) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error { // twice is no harm
		tag, err := c.Exec(ctx, "UPDATE nodes SET digest = $2 WHERE epoch = $1", epoch, record.AppendDigest(nil, digest))
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

// Nodes returns the nodes that have not left, newest last.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	var nodes []store.Node
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		nodes = nil
		rows, err := c.Query(ctx, "SELECT n.epoch, n.started, n.expires, "+aliveSQL+", n.node, n.version, n.url, n.digest FROM nodes n ORDER BY n.epoch")
		if err != nil {
			return err
		}
		var n store.Node
		var started, expires int64
		var name, version, url, digest []byte
		_, err = pgx.ForEachRow(rows, []any{&n.Epoch, &started, &expires, &n.Alive, &name, &version, &url, &digest}, func() (err error) {
			n.Name, n.Version, n.URL = string(name), string(version), string(url)
			n.Started, n.Expires = record.Time(started), record.Time(expires)
			n.Digest, err = record.ParseDigest(digest)
			nodes = append(nodes, n)
			return err
		})
		return err
	})
	return nodes, err
}

// Cluster returns the id that all nodes of the database share.
func (s *Store) Cluster(ctx context.Context) (id string, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT cluster FROM schema_info").Scan(&id)
	})
	return id, err
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
  SELECT lease FROM leases l WHERE l.lease IS NOT NULL AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.epoch = l.lease AND `+aliveSQL+`)
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
