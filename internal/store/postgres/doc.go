package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

var docColumnsCopied = []string{"space", "key", "version", "expires", "tenant", "owner", "body", "secret"}

var selectDocs = "SELECT " + strings.Join(docColumnsCopied, ", ") + " FROM docs"

// docLives are the documents whose time is not over.
const docLives = "(expires = 0 OR expires > " + nowSQL + ")"

func docValues(d *store.Doc, version int64) []any {
	return []any{[]byte(d.Space), []byte(d.Key), version, record.Milliseconds(d.Expires), []byte(d.Tenant), []byte(d.Owner), d.Body, d.Secret}
}

// docScanner takes rows of documents.
type docScanner struct {
	expires                   int64
	space, key, tenant, owner []byte
	row                       store.Doc
}

func (s *docScanner) targets() []any {
	d := &s.row
	return []any{&s.space, &s.key, &d.Version, &s.expires, &s.tenant, &s.owner, &d.Body, &d.Secret}
}

func (s *docScanner) take() store.Doc {
	d := s.row
	d.Space, d.Key, d.Tenant, d.Owner, d.Expires = string(s.space), string(s.key), string(s.tenant), string(s.owner), record.Time(s.expires)
	return d
}

// docScope adds the condition of a scope to the arguments of a query.
func docScope(scope store.Scope, args []any) (string, []any) {
	n := len(args)
	if tenant, owner, ok := scope.Owner(); ok {
		return fmt.Sprintf(" AND tenant = $%d AND owner = $%d", n+1, n+2), append(args, []byte(tenant), []byte(owner))
	}
	if tenant, ok := scope.Tenant(); ok {
		return fmt.Sprintf(" AND tenant = $%d", n+1), append(args, []byte(tenant))
	}
	if scope.All() {
		return "", args
	}
	return " AND false", args
}

// Doc returns a document.
func (s *Store) Doc(ctx context.Context, scope store.Scope, space, key string) (*store.Doc, error) {
	var d store.Doc
	condition, args := docScope(scope, []any{[]byte(space), []byte(key)})
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		var row docScanner
		err := c.QueryRow(ctx, selectDocs+" WHERE space = $1 AND key = $2 AND "+docLives+condition, args...).Scan(row.targets()...)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNotFound
		}
		d = row.take()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &d, nil
}

// Docs returns documents of a space, by key.
func (s *Store) Docs(ctx context.Context, scope store.Scope, space, prefix, after string, limit int) (list []store.Doc, err error) {
	condition, args := docScope(scope, []any{[]byte(space), []byte(max(prefix, after)), []byte(after), append([]byte(prefix), 0xff), limit})
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		list = nil
		rows, err := c.Query(ctx, selectDocs+" WHERE space = $1 AND key >= $2 AND key <> $3 AND key < $4 AND "+docLives+condition+" ORDER BY key LIMIT $5", args...)
		if err != nil {
			return err
		}
		var row docScanner
		_, err = pgx.ForEachRow(rows, row.targets(), func() error {
			list = append(list, row.take())
			return nil
		})
		return err
	})
	return list, err
}

// PutDoc makes or replaces a document.
func (s *Store) PutDoc(ctx context.Context, d *store.Doc) error {
	err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		query := `INSERT INTO docs AS d (space, key, version, expires, tenant, owner, body, secret) VALUES ($1,$2,$3,$4,$5,$6,$7,$8)
 ON CONFLICT (space, key) DO UPDATE SET version = $3, expires = $4, tenant = $5, owner = $6, body = $7, secret = $8 WHERE d.expires > 0 AND d.expires <= ` + nowSQL
		args := docValues(d, d.Version+1)
		if d.Version != 0 {
			query = "UPDATE docs SET version = $3, expires = $4, tenant = $5, owner = $6, body = $7, secret = $8 WHERE space = $1 AND key = $2 AND version = $9 AND " + docLives
			args = append(args, d.Version)
		}
		tag, err := tx.Exec(ctx, query, args...)
		if err == nil && tag.RowsAffected() == 0 {
			err = store.ErrConflict
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
	condition, args := docScope(scope, []any{[]byte(space), []byte(key)})
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "DELETE FROM docs WHERE space = $1 AND key = $2 AND "+docLives+condition, args...)
		if err == nil && tag.RowsAffected() == 0 {
			err = store.ErrNotFound
		}
		return err
	})
}

// Spend adds to a counter.
func (s *Store) Spend(ctx context.Context, space, key string, amount, limit int64, until time.Time) (used int64, err error) {
	err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		used = 0
		// The row is there and locked before it is read, also when it is new.
		err := tx.QueryRow(ctx, `INSERT INTO counters AS c (space, key, used, expires) VALUES ($1, $2, 0, $3)
 ON CONFLICT (space, key) DO UPDATE SET used = CASE WHEN c.expires > `+nowSQL+` THEN c.used ELSE 0 END,
 expires = CASE WHEN c.expires > `+nowSQL+` THEN c.expires ELSE $3 END RETURNING used`, []byte(space), []byte(key), record.Milliseconds(until)).Scan(&used)
		if err != nil {
			return err
		}
		if amount > 0 && used+amount > limit {
			return store.ErrExceeded
		}
		used = max(used+amount, 0)
		_, err = tx.Exec(ctx, "UPDATE counters SET used = $3 WHERE space = $1 AND key = $2", []byte(space), []byte(key), used)
		return err
	})
	return used, err
}

func (s *Store) expireDocs(ctx context.Context, limit int) (n int, err error) {
	err = s.try(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		n = 0
		for _, table := range []string{"docs", "counters"} {
			tag, err := c.Exec(ctx, `WITH due AS MATERIALIZED (
  SELECT space, key FROM `+table+` WHERE expires > 0 AND expires <= `+nowSQL+` ORDER BY expires LIMIT $1 FOR UPDATE SKIP LOCKED
) DELETE FROM `+table+` c USING due d WHERE c.space = d.space AND c.key = d.key`, limit)
			if err != nil {
				return err
			}
			n += int(tag.RowsAffected())
		}
		return nil
	})
	return n, unavailable(err)
}
