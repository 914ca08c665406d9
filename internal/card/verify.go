package card

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of signatures.
const (
	maxSignatures = 16
	maxHeader     = 8 << 10 // bytes of a protected header, in base64url
	maxSignature  = 2 << 10 // bytes of a signature, in base64url
)

// SourceTrusted is the source of a key of the trust store.
const SourceTrusted = "trust store"

// Verifier verifies the cards of other agents. It must not be changed while it
// is used, and is then safe for concurrent use.
type Verifier struct {
	// Policy says what passes; "" is PolicyPrefer.
	Policy Policy
	// Trusted has the keys that are trusted; nil is none.
	Trusted *TrustStore
	// JKUOrigins are the origins whose keys are trusted when a signature names
	// them in its jku, such as https://keys.example.com. Others are not asked.
	JKUOrigins []string
	// HTTPClient fetches the keys of a jku; nil fetches none. Redirects are not
	// followed, whatever it says.
	HTTPClient *http.Client
	// Partial accepts a signature of a trusted key that covers what the
	// official SDKs sign: the fields of A2A 1.0 alone, without what is empty.
	Partial bool
}

// Outcome is what became of a card's verification.
type Outcome string

// Outcomes of a card that passes.
const (
	OutcomeVerified   Outcome = "verified"   // a trusted key has signed the card
	OutcomePartial    Outcome = "partial"    // a trusted key has signed what Covered has
	OutcomeUnverified Outcome = "unverified" // its keys are not known
	OutcomeUnsigned   Outcome = "unsigned"
	OutcomeIgnored    Outcome = "ignored"
	OutcomeRefused    Outcome = "refused" // it does not pass
)

// Status is what is known of one signature.
type Status string

// Statuses of a signature.
const (
	StatusGood    Status = "good"
	StatusPartial Status = "partial" // good for the card without what Verification.Uncovered names
	StatusBad     Status = "bad"
	StatusUnknown Status = "unknown" // there is no key for it
)

// CheckedSignature is a signature of a card with what is known of it.
type CheckedSignature struct {
	Status    Status
	KeyID     string
	Algorithm string
	Source    string // of the key: SourceTrusted or an origin; "" without a key
	Reason    string // why it is not good
}

// Verification is the result for a card.
type Verification struct {
	Outcome    Outcome
	KeyID      string // of the signature that decided
	Algorithm  string
	Source     string
	Signatures []CheckedSignature // in the order of the card
	// Covered is the JSON of the card that may be relied on: all of it, or with
	// OutcomePartial what the signature covers.
	Covered []byte
	// Uncovered are the paths of what a partial signature does not cover, at
	// most twenty.
	Uncovered []string
}

// SignatureError is a card that the policy refuses because of its signatures.
type SignatureError struct {
	Reason       string
	Verification *Verification // what was found, with OutcomeRefused
}

// Error returns the reason.
func (e *SignatureError) Error() string { return "card signature: " + e.Reason }

// Verify checks the signatures of a card's JSON, as it was received (A2A
// §8.4.3). One good signature of a trusted key suffices; the others are
// reported. A card that the policy refuses is a *SignatureError.
func (v *Verifier) Verify(ctx context.Context, card []byte) (*Verification, error) {
	result := &Verification{Outcome: OutcomeIgnored, Covered: card}
	policy := v.Policy
	if policy == "" {
		policy = PolicyPrefer
	}
	if policy == PolicyIgnore {
		return result, nil
	}
	refuse := func(reason string) (*Verification, error) {
		result.Outcome, result.Covered = OutcomeRefused, nil
		return nil, &SignatureError{Reason: reason, Verification: result}
	}
	checked, err := newCheckedCard(card)
	if err != nil {
		return refuse(err.Error())
	}
	source := &keySource{verifier: v, fetched: map[string]fetchedKeys{}}
	for _, signature := range checked.signatures {
		one := checked.check(ctx, signature, source)
		if one.Status == StatusPartial && result.Uncovered == nil {
			result.Uncovered = checked.uncovered()
		}
		result.Signatures = append(result.Signatures, one)
	}
	if one, ok := result.first(StatusGood); ok {
		result.decide(OutcomeVerified, one)
		result.Uncovered = nil
		return result, nil
	}
	if one, ok := result.first(StatusPartial); ok {
		if !v.Partial {
			return refuse(fmt.Sprintf("the signature by key %q covers only a part of the card, not: %s", shorten(one.KeyID), strings.Join(result.Uncovered, ", ")))
		}
		result.decide(OutcomePartial, one)
		result.Covered = checked.reduced
		return result, nil
	}
	if one, ok := result.first(StatusBad); ok {
		return refuse(fmt.Sprintf("the signature by key %q is wrong: %s", shorten(one.KeyID), one.Reason))
	}
	one, signed := result.first(StatusUnknown)
	switch {
	case policy == PolicyRequire && !signed:
		return refuse("the card is not signed")
	case policy == PolicyRequire:
		return refuse(fmt.Sprintf("no signature is by a trusted key; key %q: %s", shorten(one.KeyID), one.Reason))
	case signed:
		result.decide(OutcomeUnverified, one)
	default:
		result.Outcome = OutcomeUnsigned
	}
	return result, nil
}

func (r *Verification) first(status Status) (CheckedSignature, bool) {
	for _, s := range r.Signatures {
		if s.Status == status {
			return s, true
		}
	}
	return CheckedSignature{}, false
}

func (r *Verification) decide(outcome Outcome, s CheckedSignature) {
	r.Outcome, r.KeyID, r.Algorithm, r.Source = outcome, s.KeyID, s.Algorithm, s.Source
}

// checkedCard is a card with the forms that its signatures may be over.
type checkedCard struct {
	root       *node
	whole      []byte
	reduced    []byte
	signatures []*node
}

func newCheckedCard(card []byte) (*checkedCard, error) {
	root, err := parseCard(card)
	if err != nil {
		return nil, err
	}
	c := &checkedCard{root: root.whole(cardMessage)}
	if c.whole, err = c.root.canonical(); err != nil {
		return nil, err
	}
	if c.reduced, err = c.root.reduced(cardMessage).canonical(); err != nil {
		return nil, err
	}
	list := root.member("signatures")
	switch {
	case list == nil || list.kind == 'n':
	case list.kind != '[':
		return nil, errors.New("signatures is no list")
	case len(list.elements) > maxSignatures:
		return nil, fmt.Errorf("the card has %d signatures; %d are read", len(list.elements), maxSignatures)
	default:
		c.signatures = list.elements
	}
	return c, nil
}

func (c *checkedCard) uncovered() []string {
	return c.root.absent(c.root.reduced(cardMessage), "", nil)
}

// check verifies one signature.
func (c *checkedCard) check(ctx context.Context, signature *node, source *keySource) CheckedSignature {
	result := CheckedSignature{Status: StatusBad}
	protected, ok := signature.member("protected").text()
	value, also := signature.member("signature").text()
	if !ok || !also {
		result.Reason = "protected and signature are not both strings"
		return result
	}
	h, err := parseHeader(protected)
	result.KeyID, result.Algorithm = h.KeyID, h.Algorithm
	if err == nil {
		err = h.check()
	}
	if err == nil {
		err = checkValue(value)
	}
	if err != nil {
		result.Reason = err.Error()
		return result
	}
	trusted := source.verifier.Trusted.find(h.KeyID)
	if len(trusted) > 0 {
		result.Source = SourceTrusted
		result.Status, result.Reason = c.verify(protected+".."+value, h.Algorithm, trusted)
		if result.Status != StatusBad {
			return result
		}
	}
	// Two signers may have given their keys the same id.
	keys, from, reason := source.named(ctx, h)
	switch {
	case len(keys) > 0:
		result.Source = from
		result.Status, result.Reason = c.verify(protected+".."+value, h.Algorithm, keys)
	case len(trusted) == 0:
		result.Status, result.Reason = StatusUnknown, reason
	}
	return result
}

// verify tries the keys of an id, of which there is mostly one.
func (c *checkedCard) verify(detached, algorithm string, keys []PublicKey) (Status, string) {
	reason := "the key is not for " + shorten(algorithm)
	for _, key := range keys {
		if key.Algorithm != algorithm {
			continue
		}
		reason = "it is not over this card"
		if isSigned(detached, c.whole, key) {
			return StatusGood, ""
		}
		if !bytes.Equal(c.whole, c.reduced) && isSigned(detached, c.reduced, key) {
			return StatusPartial, "it covers the fields of A2A 1.0 that are not empty, and no others"
		}
	}
	return StatusBad, reason
}

func isSigned(detached string, payload []byte, key PublicKey) bool {
	// The algorithm is the key's, never the header's alone (RFC 8725 §3.1).
	signed, err := jose.ParseDetached(detached, payload, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(key.Algorithm)})
	if err != nil {
		return false
	}
	return signed.DetachedVerify(payload, key.key) == nil
}

// header is the protected header of a signature (RFC 7515 §4.1).
type header struct {
	Algorithm string         `json:"alg"`
	KeyID     string         `json:"kid"`
	JKU       string         `json:"jku"`
	Critical  jsontext.Value `json:"crit"`
	Encoded   jsontext.Value `json:"b64"`
}

func parseHeader(protected string) (header, error) {
	var h header
	if len(protected) > maxHeader {
		return h, fmt.Errorf("the protected header has more than %d bytes", maxHeader)
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(protected)
	if err != nil || strings.ContainsAny(protected, "\r\n") {
		return h, errors.New("the protected header is not in base64url")
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return header{}, fmt.Errorf("the protected header is wrong: %s", shorten(err.Error()))
	}
	return h, nil
}

// check refuses what no signature of a card may have. An algorithm that is none
// of ours is left to the keys, which do not have it.
func (h header) check() error {
	switch {
	case h.Algorithm == "":
		return errors.New("alg is missing")
	case strings.EqualFold(h.Algorithm, "none"), strings.HasPrefix(strings.ToUpper(h.Algorithm), "HS"):
		return fmt.Errorf("alg %s proves nothing", strconv.Quote(shorten(h.Algorithm)))
	case h.KeyID == "":
		return errors.New("kid is missing")
	case h.Critical != nil:
		return errors.New("crit names extensions that are not understood")
	case h.Encoded != nil:
		return errors.New("b64 is not understood")
	}
	return nil
}

func checkValue(signature string) error {
	if len(signature) > maxSignature {
		return fmt.Errorf("the signature has more than %d bytes", maxSignature)
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(signature); err != nil || strings.ContainsAny(signature, "\r\n") {
		return errors.New("the signature is not in base64url")
	}
	return nil
}
