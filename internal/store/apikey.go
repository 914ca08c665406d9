package store

import (
	"context"
	"time"
)

// APIKeys keeps the API keys of callers. They belong to the node and not to a
// caller, and only package auth asks for them.
type APIKeys interface {
	// CreateKey adds a key. An id that exists is ErrConflict.
	CreateKey(ctx context.Context, k *APIKey) error
	// Key returns a key by its id, or ErrNotFound. Keys that were revoked or have
	// expired are there still.
	Key(ctx context.Context, id string) (*APIKey, error)
	// Keys returns all keys, newest first.
	Keys(ctx context.Context) ([]APIKey, error)
	// RevokeKey revokes a key. An id that does not exist is ErrNotFound; a key
	// that was revoked before stays as it is.
	RevokeKey(ctx context.Context, id string, at time.Time) error
	// UseKey notes when a key was used, unless a later use is noted.
	UseKey(ctx context.Context, id string, at time.Time) error
}

// APIKey is a key with which a caller authenticates. What is kept of the key
// itself is a hash. Times are in milliseconds.
type APIKey struct {
	ID      string
	Hash    []byte // of the whole key
	Subject string // the caller that it was made for
	Tenant  string // "": none
	Role    string
	Scopes  []string // none has a space
	Created time.Time
	By      string    // who made it
	Expires time.Time // zero: never
	Revoked time.Time // zero: not
	Used    time.Time // about when it was last used; zero: never
}
