package store

import (
	"context"
	"errors"
)

// ErrUnknownKey says that a value was sealed with a key that is not at hand.
// With that key, the value can be opened again.
var ErrUnknownKey = errors.New("it was sealed with a key that the configuration does not have: add that key to old_secret_keys")

// SealKeySize is how many bytes at the beginning of a sealed value are the id of
// its key.
const SealKeySize = 8

// Seals finds what is sealed, so that it can be sealed with another key: the
// data of grants, the secrets of webhooks, delegations and documents, and the
// configurations and tokens of peers.
type Seals interface {
	// SealKeys counts sealed values by the ids of their keys.
	SealKeys(ctx context.Context) (map[string]int, error)
	// SealedWith returns values that were sealed with the key of that id, in an
	// order of their own after one of them (nil begins), until they exceed limit
	// bytes; at least one when there is one.
	SealedWith(ctx context.Context, key string, after *Sealed, limit int) ([]Sealed, error)
	// Reseal puts Next in the place of each value that is still the same, in one
	// transaction.
	Reseal(ctx context.Context, values []Sealed) error
}

// Sealed is a sealed value. What is set says what it belongs to: a grant, a
// webhook, a peer, a document, or else the delegation that is Task.
type Sealed struct {
	Grant   string // its id
	Task    int64  // key of the webhook's task, or of that which is the delegation
	Webhook string // its id within the task
	Peer    string // its name
	Tokens  bool   // the peer's tokens, and not its configuration
	Space   string // of the document
	Doc     string // its key
	Value   []byte
	Next    []byte // for Reseal: the same, sealed again
}

// SealedKind is what a sealed value belongs to.
type SealedKind int8

// What a sealed value can belong to, in the order in which they come.
const (
	SealedGrant SealedKind = iota
	SealedWebhook
	SealedDelegation
	SealedPeer
	SealedTokens
	SealedDoc
)

// Kind returns what the value belongs to. That of nil is the first.
func (v *Sealed) Kind() SealedKind {
	switch {
	case v == nil || v.Grant != "":
		return SealedGrant
	case v.Webhook != "":
		return SealedWebhook
	case v.Peer != "" && v.Tokens:
		return SealedTokens
	case v.Peer != "":
		return SealedPeer
	case v.Space != "":
		return SealedDoc
	}
	return SealedDelegation
}

// MaxSealed is how many values a call of SealedWith returns at most.
const MaxSealed = 500
