package card

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/netguard"
)

// typeJOSE is the typ of a card's signature (A2A §8.4.2).
const typeJOSE = "JOSE"

// maxSigningKeys is how many keys sign a card: the one in use, and the one that
// replaces it.
const maxSigningKeys = 2

// Signer signs cards with one key, or with two while one replaces the other. It
// is safe for concurrent use. The same card always gets the same signatures, so
// that all nodes serve the same bytes.
type Signer struct {
	keys []*SigningKey
	jku  string
}

// NewSigner returns a signer. The jku, when it is not empty, is the URL of the
// JWKS and becomes a part of every signature.
func NewSigner(keys []*SigningKey, jku string) (*Signer, error) {
	switch {
	case len(keys) == 0:
		return nil, errors.New("there is no signing key")
	case len(keys) > maxSigningKeys:
		return nil, fmt.Errorf("there are %d signing keys; a card is signed with at most %d", len(keys), maxSigningKeys)
	case len(keys) == maxSigningKeys && keys[0].id == keys[1].id:
		return nil, fmt.Errorf("two signing keys have the id %q", keys[0].id)
	}
	if jku != "" {
		if u, err := url.Parse(jku); err != nil || u.Scheme != "https" && (u.Scheme != "http" || !netguard.IsLoopback(u.Hostname())) || u.Hostname() == "" || u.User != nil {
			return nil, fmt.Errorf("jku %q is no https URL", shorten(jku))
		}
	}
	return &Signer{keys: slices.Clone(keys), jku: jku}, nil
}

// Key returns the first key, for what else the signer of the cards signs.
func (s *Signer) Key() *SigningKey { return s.keys[0] }

// JWKS returns the public keys as a JSON Web Key Set.
func (s *Signer) JWKS() ([]byte, error) {
	var keys []PublicKey
	for _, k := range s.keys {
		keys = append(keys, k.Public())
	}
	return JWKS(keys...)
}

// Sign returns a card's JSON with a signature of each key in place of those that
// it had (A2A §8.4.2). The rest of it is not changed. A second signature of a
// key follows where the official SDKs see another card: they leave out what A2A
// 1.0 does not define and all that is empty, before they verify. A card that
// lacks a required value is refused, with the names of the fields.
func (s *Signer) Sign(card []byte) ([]byte, error) { return s.sign(card, false) }

// AddTo returns a card's JSON with the signatures of the keys after those of
// others that it has. Otherwise it is like Sign.
func (s *Signer) AddTo(card []byte) ([]byte, error) { return s.sign(card, true) }

func (s *Signer) sign(card []byte, keep bool) ([]byte, error) {
	root, err := parseCard(card)
	if err != nil {
		return nil, err
	}
	if err := root.signable(card); err != nil {
		return nil, err
	}
	payloads, err := root.payloads()
	if err != nil {
		return nil, err
	}
	signatures := &node{kind: '['}
	if old := root.member("signatures"); keep && old != nil {
		signatures.elements = slices.DeleteFunc(old.elements, s.made)
	}
	for _, key := range s.keys {
		for _, payload := range payloads {
			signature, err := key.sign(payload, s.jku)
			if err != nil {
				return nil, err
			}
			signatures.elements = append(signatures.elements, signature)
		}
	}
	root.members = slices.DeleteFunc(root.members, func(m nodeMember) bool { return m.name == "signatures" })
	root.members = append(root.members, nodeMember{"signatures", signatures})
	return root.appendJSON(nil), nil
}

// made reports whether a signature is one of a key of the signer.
func (s *Signer) made(signature *node) bool {
	protected, _ := signature.member("protected").text()
	h, err := parseHeader(protected)
	return err == nil && slices.ContainsFunc(s.keys, func(k *SigningKey) bool { return k.id == h.KeyID })
}

// signable refuses a card that would not be verified everywhere.
func (n *node) signable(card []byte) error {
	if paths := n.missing(cardMessage, ""); len(paths) > 0 {
		return fmt.Errorf("required values are empty or missing: %s", strings.Join(paths, ", "))
	}
	if where, number := n.inexact(""); number != "" {
		return fmt.Errorf("%s: %s changes when it is read as a double; write it as a string", where, number)
	}
	if err := a2a.Unmarshal(card, new(a2a.AgentCard)); err != nil {
		return fmt.Errorf("it is no agent card: %w", err)
	}
	return nil
}

// payloads returns the canonical forms of a card that are signed.
func (n *node) payloads() ([][]byte, error) {
	whole := n.whole(cardMessage)
	payload, err := whole.canonical()
	if err != nil {
		return nil, err
	}
	reduced, err := whole.reduced(cardMessage).canonical()
	if err != nil {
		return nil, err
	}
	if bytes.Equal(payload, reduced) {
		return [][]byte{payload}, nil
	}
	return [][]byte{payload, reduced}, nil
}

// sign returns an AgentCardSignature (A2A §4.4.7).
func (k *SigningKey) sign(payload []byte, jku string) (*node, error) {
	extra := map[string]string{}
	if jku != "" {
		extra["jku"] = jku
	}
	protected, signature, err := k.Sign(payload, typeJOSE, extra)
	if err != nil {
		return nil, err
	}
	return &node{kind: '{', members: []nodeMember{{"protected", textNode(protected)}, {"signature", textNode(signature)}}}, nil
}

func textNode(text string) *node {
	raw, _ := jsontext.AppendQuote(nil, text)
	return &node{kind: '"', raw: raw}
}

// Sign signs a payload (RFC 7515 §5.1). It returns the protected header, with
// alg, kid, typ and what extra names, and the signature, both in base64url. A
// JWS in compact form has the payload in base64url between them.
func (k *SigningKey) Sign(payload []byte, typ string, extra map[string]string) (protected, signature string, err error) {
	options := (&jose.SignerOptions{}).WithType(jose.ContentType(typ))
	for name, value := range extra {
		options = options.WithHeader(jose.HeaderKey(name), value)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.alg, Key: deterministic{k}}, options)
	if err != nil {
		return "", "", fmt.Errorf("sign with key %s: %w", k.id, err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", "", fmt.Errorf("sign with key %s: %w", k.id, err)
	}
	compact, err := signed.DetachedCompactSerialize()
	if err != nil {
		return "", "", fmt.Errorf("sign with key %s: %w", k.id, err)
	}
	protected, signature, _ = strings.Cut(compact, "..")
	return protected, signature, nil
}

// deterministic makes the same signature of the same payload, with ECDSA too
// (RFC 6979).
type deterministic struct{ *SigningKey }

// Public returns the public key for the header.
func (d deterministic) Public() *jose.JSONWebKey {
	return &jose.JSONWebKey{Key: d.private.Public(), KeyID: d.id, Algorithm: string(d.alg), Use: "sig"}
}

// Algs returns the algorithm of the key.
func (d deterministic) Algs() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{d.alg}
}

// SignPayload signs a payload.
func (d deterministic) SignPayload(payload []byte, alg jose.SignatureAlgorithm) ([]byte, error) {
	if alg != d.alg {
		return nil, jose.ErrUnsupportedAlgorithm
	}
	if alg == jose.EdDSA {
		return d.private.Sign(nil, payload, crypto.Hash(0))
	}
	h := crypto.SHA256.New()
	h.Write(payload)
	signature, err := d.private.Sign(nil, h.Sum(nil), crypto.SHA256)
	if _, ok := d.private.Public().(*ecdsa.PublicKey); !ok || err != nil {
		return signature, err
	}
	// JWS has the two numbers in 32 bytes each (RFC 7518 §3.4).
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &pair); err != nil {
		return nil, err
	}
	raw := make([]byte, 64)
	pair.R.FillBytes(raw[:32])
	pair.S.FillBytes(raw[32:])
	return raw, nil
}
