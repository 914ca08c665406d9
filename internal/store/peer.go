package store

import (
	"context"
	"time"
)

// Peers keeps the catalog of peers: those that were added while the node ran,
// and what was observed of all of them. Names of the configuration win.
type Peers interface {
	// Peers returns all rows by name.
	Peers(ctx context.Context) ([]Peer, error)
	// Peer returns one row, or ErrNotFound.
	Peer(ctx context.Context, name string) (*Peer, error)
	// SavePeer makes or replaces a row. A Version other than that of the row
	// is ErrConflict (0: there is none); it is counted up.
	SavePeer(ctx context.Context, p *Peer) error
	// DeletePeer removes a row; one that is not there is ErrNotFound.
	DeletePeer(ctx context.Context, name string) error
}

// Peer is what the node keeps of a peer.
type Peer struct {
	Name    string
	Version int64
	Added   []byte // sealed: its configuration as JSON; nil: it is in the configuration file
	Pinned  string // digest of the card that was approved; "": not pinned
	Card    []byte // the card that is in use, as JSON
	Digest  string // of Card
	Held    []byte // a card that differs from the pinned one and waits for approval; nil: none
	Tokens  []byte // sealed: OAuth tokens by user
	Facts   []byte // JSON: what was observed
	Seen    time.Time
}
