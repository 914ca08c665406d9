package sqlite

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

const (
	apiKeyColumns = "id, hash, subject, tenant, role, scopes, created, creator, expires, revoked, used"
	insertAPIKey  = "INSERT INTO api_keys (" + apiKeyColumns + ") VALUES (?,?,?,?,?,?,?,?,?,?,?)"
)

func apiKeyArgs(k *store.APIKey) []any {
	return []any{
		k.ID, k.Hash, k.Subject, k.Tenant, k.Role, strings.Join(k.Scopes, " "), record.Milliseconds(k.Created), k.By,
		record.Milliseconds(k.Expires), record.Milliseconds(k.Revoked), record.Milliseconds(k.Used),
	}
}

func scanAPIKey(v values) store.APIKey {
	return store.APIKey{
		ID: text(v[0]), Hash: blob(v[1]), Subject: text(v[2]), Tenant: text(v[3]), Role: text(v[4]), Scopes: strings.Fields(text(v[5])),
		Created: moment(v[6]), By: text(v[7]), Expires: moment(v[8]), Revoked: moment(v[9]), Used: moment(v[10]),
	}
}

// CreateKey adds an API key.
func (s *Store) CreateKey(ctx context.Context, k *store.APIKey) error {
	return s.write(ctx, func(w *writer, _ time.Time) error {
		n, err := w.conn.run("INSERT OR IGNORE"+strings.TrimPrefix(insertAPIKey, "INSERT"), apiKeyArgs(k)...)
		if err == nil && n == 0 {
			return refusal{store.ErrConflict}
		}
		return err
	})
}

// Key returns an API key.
func (s *Store) Key(ctx context.Context, id string) (*store.APIKey, error) {
	var k *store.APIKey
	err := s.read(ctx, func(c *conn) error {
		_, err := c.one(func(v values) { k = new(scanAPIKey(v)) }, "SELECT "+apiKeyColumns+" FROM api_keys WHERE id = ?", id)
		return unavailable(err)
	})
	if err == nil && k == nil {
		err = store.ErrNotFound
	}
	return k, err
}

// Keys returns all API keys, newest first.
func (s *Store) Keys(ctx context.Context) ([]store.APIKey, error) {
	var list []store.APIKey
	err := s.read(ctx, func(c *conn) error {
		return unavailable(c.each(ctx, func(v values) bool {
			list = append(list, scanAPIKey(v))
			return true
		}, "SELECT "+apiKeyColumns+" FROM api_keys"))
	})
	slices.SortFunc(list, func(a, b store.APIKey) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
	return list, err
}

// RevokeKey revokes an API key.
func (s *Store) RevokeKey(ctx context.Context, id string, at time.Time) error {
	return s.write(ctx, func(w *writer, _ time.Time) error {
		n, err := w.conn.run("UPDATE api_keys SET revoked = CASE revoked WHEN 0 THEN ? ELSE revoked END WHERE id = ?", record.Milliseconds(at), id)
		if err == nil && n == 0 {
			return refusal{store.ErrNotFound}
		}
		return err
	})
}

// UseKey notes when an API key was used.
func (s *Store) UseKey(ctx context.Context, id string, at time.Time) error {
	return s.write(ctx, func(w *writer, _ time.Time) error {
		_, err := w.conn.run("UPDATE api_keys SET used = max(used, ?) WHERE id = ?", record.Milliseconds(at), id)
		return err
	})
}
