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
// data of grants and the secrets of webhooks.
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

// Sealed is a sealed value: of a grant, or else of a webhook.
type Sealed struct {
	Grant   string // its id
	Task    int64  // key of the webhook's task
	Webhook string // its id within the task
	Value   []byte
	Next    []byte // for Reseal: the same, sealed again
}

// MaxSealed is how many values a call of SealedWith returns at most.
const MaxSealed = 500
