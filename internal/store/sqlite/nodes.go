package sqlite

import (
	"context"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// Join enters a node. The lock on the file says that no other node lives, so
// the epochs before this one end at once.
func (s *Store) Join(ctx context.Context, n store.Node, lease time.Duration) (epoch int64, err error) {
	err = s.write(ctx, func(w *writer, at time.Time) error {
		if _, err := w.conn.run("DELETE FROM nodes"); err != nil {
			return err
		}
		w.clock.epoch++
		epoch = w.clock.epoch
		_, err := w.conn.run("INSERT INTO nodes (epoch, node, version, url, digest, started, expires) VALUES (?,?,?,?,?,?,?)",
			epoch, n.Name, n.Version, n.URL, record.AppendDigest(nil, n.Digest), at.UnixMilli(), at.Add(lease).UnixMilli())
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

// Announce replaces the digest of a node.
func (s *Store) Announce(ctx context.Context, epoch int64, digest map[string]string) error {
	return s.write(ctx, func(w *writer, _ time.Time) error {
		n, err := w.conn.run("UPDATE nodes SET digest=? WHERE epoch=?", record.AppendDigest(nil, digest), epoch)
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

// Nodes returns the node that has not left.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	var nodes []store.Node
	var damage error
	err := s.read(ctx, func(c *conn) error {
		now := s.now()
		return unavailable(c.each(ctx, func(v values) bool {
			n := store.Node{
				Epoch: integer(v[0]), Name: text(v[1]), Version: text(v[2]), URL: text(v[3]),
				Started: moment(v[5]), Expires: moment(v[6]),
			}
			n.Alive = n.Expires.After(now)
			n.Digest, damage = record.ParseDigest(blob(v[4]))
			nodes = append(nodes, n)
			return damage == nil
		}, "SELECT epoch, node, version, url, digest, started, expires FROM nodes ORDER BY epoch"))
	})
	if err == nil {
		err = unavailable(damage)
	}
	return nodes, err
}

// Cluster returns the id that was made with the store.
func (s *Store) Cluster(ctx context.Context) (id string, err error) {
	err = s.read(ctx, func(c *conn) error {
		_, err := c.one(func(v values) { id = text(v[0]) }, "SELECT cluster FROM schema_info")
		return unavailable(err)
	})
	return id, err
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
