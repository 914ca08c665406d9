package store

import "time"

// APIKey is a key with which a caller authenticates. What is kept of the key
// itself is a hash.
type APIKey struct {
	ID      string
	Hash    []byte // of the whole key
	Subject string // the caller that it was made for
	Tenant  string // "": none
	Role    string
	Scopes  []string
	Created time.Time
	By      string    // who made it
	Expires time.Time // zero: never
	Revoked time.Time // zero: not
	Used    time.Time // about when it was last used; zero: never
}
