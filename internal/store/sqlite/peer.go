package sqlite

import (
	"context"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// Peers returns what is kept of peers, by name.
func (s *Store) Peers(ctx context.Context) (list []store.Peer, err error) {
	err = s.read(ctx, func(c *conn) error {
		return unavailable(c.each(ctx, func(v values) bool {
			list = append(list, scanPeer(v))
			return true
		}, "SELECT "+peerColumns+" FROM peers ORDER BY name"))
	})
	return list, err
}

const (
	peerColumns = "name, version, added, pinned, card, digest, held, tokens, facts, seen"
	insertPeer  = "INSERT INTO peers (" + peerColumns + ") VALUES (?,?,?,?,?,?,?,?,?,?)"
)

func scanPeer(v values) store.Peer {
	return store.Peer{
		Name: text(v[0]), Version: integer(v[1]), Added: blob(v[2]), Pinned: text(v[3]), Card: blob(v[4]), Digest: text(v[5]),
		Held: blob(v[6]), Tokens: blob(v[7]), Facts: blob(v[8]), Seen: moment(v[9]),
	}
}

func peerArgs(p *store.Peer, version int64) []any {
	return []any{
		p.Name, version, optional(p.Added), p.Pinned, optional(p.Card), p.Digest, optional(p.Held), optional(p.Tokens), optional(p.Facts), record.Milliseconds(p.Seen),
	}
}

// Peer returns what is kept of a peer.
func (s *Store) Peer(ctx context.Context, name string) (*store.Peer, error) {
	var p *store.Peer
	err := s.read(ctx, func(c *conn) error {
		_, err := c.one(func(v values) { p = new(scanPeer(v)) }, "SELECT "+peerColumns+" FROM peers WHERE name = ?", name)
		return unavailable(err)
	})
	if err == nil && p == nil {
		err = store.ErrNotFound
	}
	return p, err
}

// SavePeer makes or replaces what is kept of a peer.
func (s *Store) SavePeer(ctx context.Context, p *store.Peer) error {
	err := s.write(ctx, func(w *writer, _ time.Time) error {
		var n int64
		var err error
		if p.Version == 0 {
			n, err = w.conn.run(insertPeer+" ON CONFLICT DO NOTHING", peerArgs(p, 1)...)
		} else {
			args := append(peerArgs(p, p.Version+1)[1:], p.Name, p.Version)
			n, err = w.conn.run("UPDATE peers SET version=?, added=?, pinned=?, card=?, digest=?, held=?, tokens=?, facts=?, seen=? WHERE name=? AND version=?", args...)
		}
		if err == nil && n == 0 {
			err = refusal{store.ErrConflict}
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
	return s.write(ctx, func(w *writer, _ time.Time) error {
		n, err := w.conn.run("DELETE FROM peers WHERE name=?", name)
		if err == nil && n == 0 {
			err = refusal{store.ErrNotFound}
		}
		return err
	})
}
