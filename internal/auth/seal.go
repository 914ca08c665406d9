package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"handoff.example/handoff/internal/store"
)

// KeySize is the size of a key for sealing, in bytes.
const KeySize = 32

// keyIDSize is how many bytes of a sealed value say which key it needs.
const keyIDSize = store.SealKeySize

// GenerateKey returns a new random key of KeySize bytes.
func GenerateKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// ErrUnknownKey says that a value was sealed with a key that is not at hand.
var ErrUnknownKey = store.ErrUnknownKey

// ErrTampered says that a sealed value was changed, or is none.
var ErrTampered = errors.New("sealed value is damaged")

// Sealer encrypts values at rest with AES-256-GCM. A sealed value is the id of
// its key, a nonce, and the ciphertext, which is bound to the id.
type Sealer struct {
	keys []sealKey // the first one seals
}

type sealKey struct {
	id   [keyIDSize]byte
	aead cipher.AEAD
}

// NewSealer returns a sealer that seals with the key and also opens what older
// keys have sealed. Keys have KeySize bytes.
func NewSealer(key []byte, older ...[]byte) (*Sealer, error) {
	s := &Sealer{}
	for _, k := range append([][]byte{key}, older...) {
		if len(k) != KeySize {
			return nil, fmt.Errorf("make sealer: a key has %d bytes, not %d", len(k), KeySize)
		}
		block, err := aes.NewCipher(k)
		if err != nil {
			return nil, fmt.Errorf("make sealer: %w", err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("make sealer: %w", err)
		}
		sum := sha256.Sum256(append([]byte("handoff key id\x00"), k...))
		sk := sealKey{aead: aead}
		copy(sk.id[:], sum[:])
		s.keys = append(s.keys, sk)
	}
	return s, nil
}

// Seal encrypts a value.
func (s *Sealer) Seal(plain []byte) ([]byte, error) {
	k := &s.keys[0]
	sealed := append(make([]byte, 0, keyIDSize+len(plain)+k.aead.Overhead()), k.id[:]...)
	return k.aead.Seal(sealed, nil, plain, k.id[:]), nil
}

// Open decrypts a sealed value. The error is ErrUnknownKey or ErrTampered.
func (s *Sealer) Open(sealed []byte) ([]byte, error) {
	if len(sealed) < keyIDSize {
		return nil, ErrTampered
	}
	id, rest := [keyIDSize]byte(sealed[:keyIDSize]), sealed[keyIDSize:]
	for i := range s.keys {
		if s.keys[i].id != id {
			continue
		}
		plain, err := s.keys[i].aead.Open(nil, nil, rest, id[:])
		if err != nil {
			return nil, ErrTampered
		}
		return plain, nil
	}
	return nil, ErrUnknownKey
}

// KeyIDs returns the ids of the keys, with which sealed values begin: the one
// that seals first.
func (s *Sealer) KeyIDs() []string {
	ids := make([]string, len(s.keys))
	for i := range s.keys {
		ids[i] = string(s.keys[i].id[:])
	}
	return ids
}
