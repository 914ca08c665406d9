package sqlite

import (
	"context"
	"time"

	"handoff.example/handoff/internal/store"
)

// SealKeys counts sealed values by the ids of their keys.
func (s *Store) SealKeys(ctx context.Context) (map[string]int, error) {
	counts := map[string]int{}
	err := s.read(ctx, func(c *conn) error {
		return unavailable(c.each(ctx, func(v values) bool {
			counts[string(blob(v[0]))] += int(integer(v[1]))
			return true
		}, `SELECT substr(data, 1, ?1), count(*) FROM grants WHERE data IS NOT NULL GROUP BY 1
 UNION ALL SELECT substr(secrets, 1, ?1), count(*) FROM webhooks WHERE secrets IS NOT NULL GROUP BY 1`, int64(store.SealKeySize)))
	})
	return counts, err
}

// SealedWith returns values that were sealed with a key: those of grants first.
func (s *Store) SealedWith(ctx context.Context, key string, after *store.Sealed, limit int) (list []store.Sealed, err error) {
	if after == nil {
		after = &store.Sealed{}
	}
	size := 0
	room := func() bool { return size <= limit && len(list) < store.MaxSealed }
	add := func(v store.Sealed) bool {
		list, size = append(list, v), size+len(v.Value)
		return room()
	}
	err = s.read(ctx, func(c *conn) error {
		if after.Webhook == "" {
			err := c.each(ctx, func(v values) bool { return add(store.Sealed{Grant: text(v[0]), Value: blob(v[1])}) },
				"SELECT id, data FROM grants WHERE id > ? AND substr(data, 1, ?) = ? ORDER BY id", after.Grant, int64(store.SealKeySize), []byte(key))
			if err != nil || !room() {
				return unavailable(err)
			}
		}
		return unavailable(c.each(ctx, func(v values) bool {
			return add(store.Sealed{Task: integer(v[0]), Webhook: text(v[1]), Value: blob(v[2])})
		}, "SELECT task, id, secrets FROM webhooks WHERE (task, id) > (?, ?) AND substr(secrets, 1, ?) = ? ORDER BY task, id",
			after.Task, after.Webhook, int64(store.SealKeySize), []byte(key)))
	})
	return list, err
}

// Reseal puts Next in the place of each value that is still the same.
func (s *Store) Reseal(ctx context.Context, list []store.Sealed) error {
	return s.write(ctx, func(w *writer, _ time.Time) (err error) {
		for i := range list {
			if v := &list[i]; v.Webhook == "" {
				_, err = w.conn.run("UPDATE grants SET data=? WHERE id=? AND data=?", v.Next, v.Grant, v.Value)
			} else {
				_, err = w.conn.run("UPDATE webhooks SET secrets=? WHERE task=? AND id=? AND secrets=?", v.Next, v.Task, v.Webhook, v.Value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
