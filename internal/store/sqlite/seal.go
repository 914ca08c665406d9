package sqlite

import (
	"context"
	"time"

	"handoff.example/handoff/internal/store"
)

// sealedTables are the places of sealed values, by their kind. Which selects
// what comes after a value, and update replaces one.
var sealedTables = [...]struct {
	count, which, update string
	after                func(v *store.Sealed) []any // arguments of which
	key                  func(v *store.Sealed) []any // arguments of update, behind those of the values
	scan                 func(v values) store.Sealed
}{
	store.SealedGrant: {
		count:  "SELECT substr(data, 1, ?1), count(*) FROM grants WHERE data IS NOT NULL GROUP BY 1",
		which:  "SELECT id, data FROM grants WHERE id > ? AND substr(data, 1, ?) = ? ORDER BY id",
		update: "UPDATE grants SET data=? WHERE data=? AND id=?",
		after:  func(v *store.Sealed) []any { return []any{v.Grant} },
		key:    func(v *store.Sealed) []any { return []any{v.Grant} },
		scan:   func(v values) store.Sealed { return store.Sealed{Grant: text(v[0]), Value: blob(v[1])} },
	},
	store.SealedWebhook: {
		count:  "SELECT substr(secrets, 1, ?1), count(*) FROM webhooks WHERE secrets IS NOT NULL GROUP BY 1",
		which:  "SELECT task, id, secrets FROM webhooks WHERE (task, id) > (?, ?) AND substr(secrets, 1, ?) = ? ORDER BY task, id",
		update: "UPDATE webhooks SET secrets=? WHERE secrets=? AND task=? AND id=?",
		after:  func(v *store.Sealed) []any { return []any{v.Task, v.Webhook} },
		key:    func(v *store.Sealed) []any { return []any{v.Task, v.Webhook} },
		scan: func(v values) store.Sealed {
			return store.Sealed{Task: integer(v[0]), Webhook: text(v[1]), Value: blob(v[2])}
		},
	},
	store.SealedDelegation: {
		count:  "SELECT substr(secret, 1, ?1), count(*) FROM delegations WHERE secret IS NOT NULL GROUP BY 1",
		which:  "SELECT task, secret FROM delegations WHERE secret IS NOT NULL AND task > ? AND substr(secret, 1, ?) = ? ORDER BY task",
		update: "UPDATE delegations SET secret=? WHERE secret=? AND task=?",
		after:  func(v *store.Sealed) []any { return []any{v.Task} },
		key:    func(v *store.Sealed) []any { return []any{v.Task} },
		scan:   func(v values) store.Sealed { return store.Sealed{Task: integer(v[0]), Value: blob(v[1])} },
	},
	store.SealedPeer: {
		count:  "SELECT substr(added, 1, ?1), count(*) FROM peers WHERE added IS NOT NULL GROUP BY 1",
		which:  "SELECT name, added FROM peers WHERE name > ? AND substr(added, 1, ?) = ? ORDER BY name",
		update: "UPDATE peers SET added=?, version=version+1 WHERE added=? AND name=?",
		after:  func(v *store.Sealed) []any { return []any{v.Peer} },
		key:    func(v *store.Sealed) []any { return []any{v.Peer} },
		scan:   func(v values) store.Sealed { return store.Sealed{Peer: text(v[0]), Value: blob(v[1])} },
	},
	store.SealedTokens: {
		count:  "SELECT substr(tokens, 1, ?1), count(*) FROM peers WHERE tokens IS NOT NULL GROUP BY 1",
		which:  "SELECT name, tokens FROM peers WHERE name > ? AND substr(tokens, 1, ?) = ? ORDER BY name",
		update: "UPDATE peers SET tokens=?, version=version+1 WHERE tokens=? AND name=?",
		after:  func(v *store.Sealed) []any { return []any{v.Peer} },
		key:    func(v *store.Sealed) []any { return []any{v.Peer} },
		scan:   func(v values) store.Sealed { return store.Sealed{Peer: text(v[0]), Tokens: true, Value: blob(v[1])} },
	},
	store.SealedDoc: {
		count:  "SELECT substr(secret, 1, ?1), count(*) FROM docs WHERE secret IS NOT NULL GROUP BY 1",
		which:  "SELECT space, key, secret FROM docs WHERE secret IS NOT NULL AND (space, key) > (?, ?) AND substr(secret, 1, ?) = ? ORDER BY space, key",
		update: "UPDATE docs SET secret=?, version=version+1 WHERE secret=? AND space=? AND key=?",
		after:  func(v *store.Sealed) []any { return []any{v.Space, v.Doc} },
		key:    func(v *store.Sealed) []any { return []any{v.Space, v.Doc} },
		scan: func(v values) store.Sealed {
			return store.Sealed{Space: text(v[0]), Doc: text(v[1]), Value: blob(v[2])}
		},
	},
}

// SealKeys counts sealed values by the ids of their keys.
func (s *Store) SealKeys(ctx context.Context) (map[string]int, error) {
	counts := map[string]int{}
	err := s.snapshot(ctx, func(c *conn) error {
		for i := range sealedTables {
			if err := c.each(ctx, func(v values) bool {
				counts[string(blob(v[0]))] += int(integer(v[1]))
				return true
			}, sealedTables[i].count, int64(store.SealKeySize)); err != nil {
				return unavailable(err)
			}
		}
		return nil
	})
	return counts, err
}

// SealedWith returns values that were sealed with a key, in the order of their
// kinds.
func (s *Store) SealedWith(ctx context.Context, key string, after *store.Sealed, limit int) (list []store.Sealed, err error) {
	kind := after.Kind()
	if after == nil {
		after = &store.Sealed{}
	}
	size := 0
	room := func() bool { return size <= limit && len(list) < store.MaxSealed }
	err = s.read(ctx, func(c *conn) error {
		for first := kind; int(kind) < len(sealedTables) && room(); kind++ {
			if kind != first {
				after = &store.Sealed{}
			}
			table := &sealedTables[kind]
			if err := c.each(ctx, func(v values) bool {
				value := table.scan(v)
				list, size = append(list, value), size+len(value.Value)
				return room()
			}, table.which, append(table.after(after), int64(store.SealKeySize), []byte(key))...); err != nil {
				return unavailable(err)
			}
		}
		return nil
	})
	return list, err
}

// Reseal puts Next in the place of each value that is still the same.
func (s *Store) Reseal(ctx context.Context, list []store.Sealed) error {
	return s.write(ctx, func(w *writer, _ time.Time) error {
		for i := range list {
			v := &list[i]
			table := &sealedTables[v.Kind()]
			if _, err := w.conn.run(table.update, append([]any{v.Next, v.Value}, table.key(v)...)...); err != nil {
				return err
			}
		}
		return nil
	})
}
