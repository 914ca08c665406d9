package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

var peerColumnsCopied = []string{"version", "seen", "name", "added", "pinned", "card", "digest", "held", "tokens", "facts"}

var selectPeers = "SELECT " + strings.Join(peerColumnsCopied, ", ") + " FROM peers"

func peerValues(p *store.Peer, version int64) []any {
	return []any{version, record.Milliseconds(p.Seen), []byte(p.Name), p.Added, []byte(p.Pinned), p.Card, []byte(p.Digest), p.Held, p.Tokens, p.Facts}
}

// peerScanner takes rows of peers.
type peerScanner struct {
	seen                 int64
	name, pinned, digest []byte
	row                  store.Peer
}

func (s *peerScanner) targets() []any {
	p := &s.row
	return []any{&p.Version, &s.seen, &s.name, &p.Added, &s.pinned, &p.Card, &s.digest, &p.Held, &p.Tokens, &p.Facts}
}

func (s *peerScanner) take() store.Peer {
	p := s.row
	p.Name, p.Pinned, p.Digest, p.Seen = string(s.name), string(s.pinned), string(s.digest), record.Time(s.seen)
	return p
}

// Peers returns what is kept of peers, by name.
func (s *Store) Peers(ctx context.Context) (list []store.Peer, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		list = nil
		rows, err := c.Query(ctx, selectPeers+" ORDER BY name")
		if err != nil {
			return err
		}
		var row peerScanner
		_, err = pgx.ForEachRow(rows, row.targets(), func() error {
			list = append(list, row.take())
			return nil
		})
		return err
	})
	return list, err
}

// Peer returns what is kept of a peer.
func (s *Store) Peer(ctx context.Context, name string) (*store.Peer, error) {
	var p store.Peer
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		var row peerScanner
		err := c.QueryRow(ctx, selectPeers+" WHERE name = $1", []byte(name)).Scan(row.targets()...)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNotFound
		}
		p = row.take()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// SavePeer makes or replaces what is kept of a peer.
func (s *Store) SavePeer(ctx context.Context, p *store.Peer) error {
	err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		query := "INSERT INTO peers (" + strings.Join(peerColumnsCopied, ", ") + ") VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10) ON CONFLICT DO NOTHING"
		args := peerValues(p, p.Version+1)
		if p.Version != 0 {
			query = "UPDATE peers SET version = $1, seen = $2, added = $4, pinned = $5, card = $6, digest = $7, held = $8, tokens = $9, facts = $10 WHERE name = $3 AND version = $11"
			args = append(args, p.Version)
		}
		tag, err := tx.Exec(ctx, query, args...)
		if err == nil && tag.RowsAffected() == 0 {
			err = store.ErrConflict
		}
		return err
	})
	if err == nil {
		p.Version++
	}
	return err
}

// DeletePeer removes what is kept of a peer.
func (s *Store) DeletePeer(ctx context.Context, name string) error {
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "DELETE FROM peers WHERE name = $1", []byte(name))
		if err == nil && tag.RowsAffected() == 0 {
			err = store.ErrNotFound
		}
		return err
	})
}
