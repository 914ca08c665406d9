package sqlite

import (
	"context"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

const (
	docColumns = "space, key, version, expires, tenant, owner, body, secret"
	insertDoc  = "INSERT INTO docs (" + docColumns + ") VALUES (?,?,?,?,?,?,?,?)"
	// docLives are the documents whose time is not over.
	docLives = "(expires = 0 OR expires > ?)"
)

func scanDoc(v values) store.Doc {
	return store.Doc{
		Space: text(v[0]), Key: text(v[1]), Version: integer(v[2]), Expires: moment(v[3]), Tenant: text(v[4]), Owner: text(v[5]),
		Body: blob(v[6]), Secret: blob(v[7]),
	}
}

func docArgs(d *store.Doc, version int64) []any {
	return []any{d.Space, d.Key, version, record.Milliseconds(d.Expires), d.Tenant, d.Owner, optional(d.Body), optional(d.Secret)}
}

// docScope is the condition of a scope, with its arguments.
func docScope(scope store.Scope) (string, []any) {
	if tenant, owner, ok := scope.Owner(); ok {
		return " AND tenant = ? AND owner = ?", []any{tenant, owner}
	}
	if tenant, ok := scope.Tenant(); ok {
		return " AND tenant = ?", []any{tenant}
	}
	if scope.All() {
		return "", nil
	}
	return " AND 0", nil
}

// Doc returns a document.
func (s *Store) Doc(ctx context.Context, scope store.Scope, space, key string) (*store.Doc, error) {
	var d *store.Doc
	condition, args := docScope(scope)
	args = append([]any{space, key, s.writer.now().UnixMilli()}, args...)
	err := s.read(ctx, func(c *conn) error {
		_, err := c.one(func(v values) { d = new(scanDoc(v)) },
			"SELECT "+docColumns+" FROM docs WHERE space = ? AND key = ? AND "+docLives+condition, args...)
		return unavailable(err)
	})
	if err == nil && d == nil {
		err = store.ErrNotFound
	}
	return d, err
}

// Docs returns documents of a space, by key.
func (s *Store) Docs(ctx context.Context, scope store.Scope, space, prefix, after string, limit int) (list []store.Doc, err error) {
	condition, args := docScope(scope)
	from := max(prefix, after)
	args = append([]any{space, from, after, prefix + "\xff", s.writer.now().UnixMilli()}, args...)
	err = s.read(ctx, func(c *conn) error {
		return unavailable(c.each(ctx, func(v values) bool {
			list = append(list, scanDoc(v))
			return true
		}, "SELECT "+docColumns+" FROM docs WHERE space = ? AND key >= ? AND key <> ? AND key < ? AND "+docLives+condition+" ORDER BY key LIMIT ?",
			append(args, int64(limit))...))
	})
	return list, err
}

// PutDoc makes or replaces a document.
func (s *Store) PutDoc(ctx context.Context, d *store.Doc) error {
	err := s.write(ctx, func(w *writer, at time.Time) error {
		var n int64
		var err error
		if d.Version == 0 {
			if _, err = w.conn.run("DELETE FROM docs WHERE space=? AND key=? AND expires > 0 AND expires <= ?", d.Space, d.Key, at.UnixMilli()); err != nil {
				return err
			}
			n, err = w.conn.run(insertDoc+" ON CONFLICT DO NOTHING", docArgs(d, 1)...)
		} else {
			args := append(docArgs(d, d.Version+1)[2:], d.Space, d.Key, d.Version, at.UnixMilli())
			n, err = w.conn.run("UPDATE docs SET version=?, expires=?, tenant=?, owner=?, body=?, secret=? WHERE space=? AND key=? AND version=? AND "+docLives, args...)
		}
		if err == nil && n == 0 {
			err = refusal{store.ErrConflict}
		}
		return err
	})
	if err == nil {
		d.Version++
	}
	return err
}

// DeleteDoc removes a document.
func (s *Store) DeleteDoc(ctx context.Context, scope store.Scope, space, key string) error {
	condition, args := docScope(scope)
	return s.write(ctx, func(w *writer, at time.Time) error {
		n, err := w.conn.run("DELETE FROM docs WHERE space = ? AND key = ? AND "+docLives+condition, append([]any{space, key, at.UnixMilli()}, args...)...)
		if err == nil && n == 0 {
			err = refusal{store.ErrNotFound}
		}
		return err
	})
}

// Spend adds to a counter.
func (s *Store) Spend(ctx context.Context, space, key string, amount, limit int64, until time.Time) (used int64, err error) {
	err = s.write(ctx, func(w *writer, at time.Time) error {
		used = 0
		now := at.UnixMilli()
		n, err := w.conn.number(context.Background(), "SELECT used FROM counters WHERE space = ? AND key = ? AND expires > ?", space, key, now)
		if err != nil {
			return err
		}
		if used = n; amount > 0 && used+amount > limit {
			return refusal{store.ErrExceeded}
		}
		used = max(used+amount, 0)
		_, err = w.conn.run(`INSERT INTO counters (space, key, used, expires) VALUES (?1, ?2, ?3, ?4)
 ON CONFLICT DO UPDATE SET used = ?3, expires = CASE WHEN expires > ?5 THEN expires ELSE ?4 END`, space, key, used, record.Milliseconds(until), now)
		return err
	})
	return used, err
}

func (w *writer) expireDocs(at time.Time, limit int) (int, error) {
	total := int64(0)
	for _, query := range []string{
		"DELETE FROM docs WHERE (space, key) IN (SELECT space, key FROM docs WHERE expires > 0 AND expires <= ? ORDER BY expires LIMIT ?)",
		"DELETE FROM counters WHERE (space, key) IN (SELECT space, key FROM counters WHERE expires <= ? ORDER BY expires LIMIT ?)",
	} {
		n, err := w.conn.run(query, at.UnixMilli(), int64(limit))
		if total += n; err != nil {
			return int(total), err
		}
	}
	return int(total), nil
}
