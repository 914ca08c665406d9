package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"sync"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// The form of an API key is hk_ID_SECRETCHECK: an id by which it is found, 256
// random bits, and a checksum that tells a key from what only looks like one,
// for secret scanners and before the store is asked. All are letters and digits.
//
//	hk_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}
const (
	keyPrefix      = "hk_"
	keyIDLength    = 12 // about 71 bits, so that ids do not meet
	keySecret      = 43 // more than 256 bits
	keyCheck       = 6
	keyLength      = len(keyPrefix) + keyIDLength + 1 + keySecret + keyCheck
	keyDigits      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	issuerKeys     = "keys"
	keyCacheTime   = 3 * time.Second // revocation is in effect after that on every node
	keyCacheSize   = 10_000
	keyUsedCoarse  = 10 * time.Minute // how exactly it is kept when a key was last used
	maxKeyLifetime = 10 * 365 * 24 * time.Hour
)

// KeyStore keeps API keys. store.Store has these methods.
type KeyStore interface {
	// CreateKey adds a key. An id that exists is store.ErrConflict.
	CreateKey(ctx context.Context, k *store.APIKey) error
	// Key returns a key by its id, or store.ErrNotFound.
	Key(ctx context.Context, id string) (*store.APIKey, error)
	// Keys returns all keys, newest first, those that were revoked too.
	Keys(ctx context.Context) ([]store.APIKey, error)
	// RevokeKey revokes a key; store.ErrNotFound when there is none. A key that
	// was revoked stays as it is.
	RevokeKey(ctx context.Context, id string, at time.Time) error
	// UseKey notes when a key was used, unless a later time is noted.
	UseKey(ctx context.Context, id string, at time.Time) error
}

// Keys makes, finds and revokes API keys. It is safe for concurrent use.
type Keys struct {
	store KeyStore
	log   *slog.Logger
	now   func() time.Time

	mu    sync.Mutex
	cache map[string]cachedKey // by id
}

// cachedKey is what was found of an id; nil: nothing.
type cachedKey struct {
	key   *store.APIKey
	until time.Time
}

// NewKeys returns the API keys of a store. A nil logger is slog.Default().
func NewKeys(s KeyStore, log *slog.Logger) *Keys {
	if log == nil {
		log = slog.Default()
	}
	return &Keys{store: s, log: log, now: time.Now, cache: map[string]cachedKey{}}
}

// KeyRequest says for whom a key is made.
type KeyRequest struct {
	Subject string
	Tenant  string
	Role    Role
	Scopes  []string
	Expires time.Time // zero: never
	By      string    // who asked for it
}

// Create makes a key and returns its text, which is nowhere else. The error is
// an *a2a.Error when the request is wrong.
func (k *Keys) Create(ctx context.Context, q *KeyRequest) (text string, row *store.APIKey, err error) {
	now := k.now()
	if err := checkPrincipal(q.Subject, q.Tenant, q.Scopes); err != nil {
		return "", nil, a2a.Errorf(a2a.CodeInvalidParams, "The key cannot be made: %v", err)
	}
	switch {
	case q.Role == RoleNone:
		return "", nil, a2a.Invalid("role", "is none of viewer, caller, operator and admin")
	case !q.Expires.IsZero() && (!q.Expires.After(now) || q.Expires.After(now.Add(maxKeyLifetime))):
		return "", nil, a2a.Invalid("expires", "is not within the next ten years")
	}
	text = newKey()
	row = &store.APIKey{
		ID: keyID(text), Hash: hashKey(text), Subject: q.Subject, Tenant: q.Tenant, Role: q.Role.String(), Scopes: q.Scopes,
		Created: now.UTC().Truncate(time.Millisecond), By: q.By,
	}
	if !q.Expires.IsZero() {
		row.Expires = q.Expires.UTC().Truncate(time.Millisecond)
	}
	if err := k.store.CreateKey(ctx, row); err != nil {
		return "", nil, fmt.Errorf("keep key: %w", err)
	}
	return text, row, nil
}

// List returns all keys without what is secret, newest first.
func (k *Keys) List(ctx context.Context) ([]store.APIKey, error) {
	rows, err := k.store.Keys(ctx)
	for i := range rows {
		rows[i].Hash = nil
	}
	return rows, err
}

// Revoke ends a key: on this node at once, on others within seconds. An unknown
// key is store.ErrNotFound.
func (k *Keys) Revoke(ctx context.Context, id string) error {
	err := k.store.RevokeKey(ctx, id, k.now())
	k.mu.Lock()
	delete(k.cache, id)
	k.mu.Unlock()
	return err
}

// keyError says what is wrong with a key. The caller is not told it.
type keyError string

func (e keyError) Error() string { return string(e) }

// authenticate returns the principal of a key. The error is a keyError, or that of
// the store.
func (k *Keys) authenticate(ctx context.Context, text string) (Principal, error) {
	row, err := k.find(ctx, keyID(text))
	if err != nil {
		return Principal{}, err
	}
	// The hash of a random key needs no salt and no slowness: there are 2^256 keys
	// to guess from, and none of them twice.
	hash, known := hashKey(text), make([]byte, sha256.Size)
	if row != nil {
		copy(known, row.Hash)
	}
	id := keyID(text)
	switch same := subtle.ConstantTimeCompare(hash, known) == 1; {
	case row == nil:
		return Principal{}, keyError("there is no API key " + id)
	case !same:
		return Principal{}, keyError("the secret of the API key " + id + " is wrong")
	}
	if err := k.ended(row); err != nil {
		return Principal{}, err
	}
	role, ok := ParseRole(row.Role)
	if !ok {
		return Principal{}, keyError("the role of the API key " + id + " is of a newer version")
	}
	return Principal{Tenant: row.Tenant, Issuer: issuerKeys, Subject: row.Subject, Scopes: row.Scopes, Role: role, Key: row.ID}, nil
}

// ended returns a keyError when a key is revoked or has expired.
func (k *Keys) ended(row *store.APIKey) error {
	switch {
	case !row.Revoked.IsZero():
		return keyError("the API key " + row.ID + " is revoked")
	case !row.Expires.IsZero() && !k.now().Before(row.Expires):
		return keyError("the API key " + row.ID + " has expired")
	}
	return nil
}

// find returns the row of a key, nil when there is none, as it was a moment ago
// at most.
func (k *Keys) find(ctx context.Context, id string) (*store.APIKey, error) {
	now := k.now()
	k.mu.Lock()
	found, ok := k.cache[id]
	k.mu.Unlock()
	if ok && now.Before(found.until) {
		return found.key, nil
	}
	row, err := k.store.Key(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		row, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find key: %w", err)
	}
	if row != nil && row.Revoked.IsZero() && now.Sub(row.Used) > keyUsedCoarse {
		if err := k.store.UseKey(ctx, id, now); err != nil {
			k.log.WarnContext(ctx, "It could not be noted that an API key was used", "key", id, "error", err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.cache) >= keyCacheSize {
		for other := range k.cache { // any will do: they are good for seconds
			delete(k.cache, other)
			break
		}
	}
	k.cache[id] = cachedKey{row, now.Add(keyCacheTime)}
	return row, nil
}

// newKey returns a new random key.
func newKey() string {
	body := keyPrefix + randomText(keyIDLength) + "_" + randomText(keySecret)
	return body + checksum(body)
}

// randomText returns n random letters and digits.
func randomText(n int) string {
	text := make([]byte, 0, n)
	for len(text) < n {
		var random [64]byte
		_, _ = rand.Read(random[:]) // never fails
		for _, b := range random {
			// Values that would make some digits likelier are passed over.
			if b < 248 && len(text) < n {
				text = append(text, keyDigits[b%62])
			}
		}
	}
	return string(text)
}

// checksum returns the end of a key that begins so.
func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	var text [keyCheck]byte
	for i := len(text) - 1; i >= 0; i-- {
		text[i], sum = keyDigits[sum%62], sum/62
	}
	return string(text[:])
}

// isKey reports whether a text has the form of an API key.
func isKey(text string) bool {
	if len(text) != keyLength || text[:len(keyPrefix)] != keyPrefix || text[len(keyPrefix)+keyIDLength] != '_' {
		return false
	}
	for i := len(keyPrefix); i < len(text); i++ {
		c := text[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && i != len(keyPrefix)+keyIDLength {
			return false
		}
	}
	return checksum(text[:keyLength-keyCheck]) == text[keyLength-keyCheck:]
}

// keyID returns the id of a key that isKey.
func keyID(text string) string { return text[len(keyPrefix) : len(keyPrefix)+keyIDLength] }

func hashKey(text string) []byte {
	sum := sha256.Sum256([]byte("handoff api key\x00" + text))
	return sum[:]
}
