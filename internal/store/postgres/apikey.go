package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

var apiKeyColumnsCopied = []string{
	"created", "expires", "revoked", "used", "id", "hash", "subject", "tenant", "role", "scopes", "creator",
}

var selectAPIKeys = "SELECT " + strings.Join(apiKeyColumnsCopied, ", ") + " FROM api_keys"

func apiKeyValues(k *store.APIKey) []any {
	return []any{
		record.Milliseconds(k.Created), record.Milliseconds(k.Expires), record.Milliseconds(k.Revoked), record.Milliseconds(k.Used),
		[]byte(k.ID), notNil(k.Hash), []byte(k.Subject), []byte(k.Tenant), []byte(k.Role), []byte(strings.Join(k.Scopes, " ")), []byte(k.By),
	}
}

// apiKeyScanner takes rows of API keys.
type apiKeyScanner struct {
	created, expires, revoked, used                int64
	id, hash, subject, tenant, role, scopes, maker []byte
}

func (s *apiKeyScanner) targets() []any {
	return []any{
		&s.created, &s.expires, &s.revoked, &s.used,
		&s.id, &s.hash, &s.subject, &s.tenant, &s.role, &s.scopes, &s.maker,
	}
}

func (s *apiKeyScanner) take() store.APIKey {
	return store.APIKey{
		ID: string(s.id), Hash: append([]byte{}, s.hash...), Subject: string(s.subject), Tenant: string(s.tenant), Role: string(s.role),
		Scopes: strings.Fields(string(s.scopes)), Created: record.Time(s.created), By: string(s.maker),
		Expires: record.Time(s.expires), Revoked: record.Time(s.revoked), Used: record.Time(s.used),
	}
}

// CreateKey adds an API key.
func (s *Store) CreateKey(ctx context.Context, k *store.APIKey) error {
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "INSERT INTO api_keys ("+strings.Join(apiKeyColumnsCopied, ", ")+
			") VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11) ON CONFLICT DO NOTHING", apiKeyValues(k)...)
		if err == nil && tag.RowsAffected() == 0 {
			return store.ErrConflict
		}
		return err
	})
}

// Key returns an API key.
func (s *Store) Key(ctx context.Context, id string) (*store.APIKey, error) {
	var k store.APIKey
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		var row apiKeyScanner
		err := c.QueryRow(ctx, selectAPIKeys+" WHERE id = $1", []byte(id)).Scan(row.targets()...)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNotFound
		}
		k = row.take()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &k, nil
}

// Keys returns all API keys, newest first.
func (s *Store) Keys(ctx context.Context) ([]store.APIKey, error) {
	var list []store.APIKey
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		list = nil
		rows, err := c.Query(ctx, selectAPIKeys+" ORDER BY created DESC, id")
		if err != nil {
			return err
		}
		var row apiKeyScanner
		_, err = pgx.ForEachRow(rows, row.targets(), func() error {
			list = append(list, row.take())
			return nil
		})
		return err
	})
	return list, err
}

// RevokeKey revokes an API key.
func (s *Store) RevokeKey(ctx context.Context, id string, at time.Time) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error { // twice is no harm
		tag, err := c.Exec(ctx, "UPDATE api_keys SET revoked = CASE revoked WHEN 0 THEN $2 ELSE revoked END WHERE id = $1", []byte(id), record.Milliseconds(at))
		if err == nil && tag.RowsAffected() == 0 {
			return store.ErrNotFound
		}
		return err
	})
}

// UseKey notes when an API key was used.
func (s *Store) UseKey(ctx context.Context, id string, at time.Time) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error { // twice is no harm
		_, err := c.Exec(ctx, "UPDATE api_keys SET used = greatest(used, $2) WHERE id = $1", []byte(id), record.Milliseconds(at))
		return err
	})
}
