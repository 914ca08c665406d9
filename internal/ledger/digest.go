package ledger

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// Characters of the parts of a digest: of what a status says, of the whole
// status, and of the artifacts.
const (
	digestSaid   = 16
	digestStatus = 32
)

// digestOf returns the digest of what a peer says of a task: of its status and
// of its artifacts.
func digestOf(t *a2a.Task) string {
	h := sha256.New()
	for i := range t.Artifacts {
		a := &t.Artifacts[i]
		r := newReceived(a.Name)
		r.add(a.Parts)
		h.Write([]byte(a.ArtifactID + "\x00" + a.Name + "\x00" + r.sum() + "\x00"))
	}
	return statusDigest(&t.Status) + hex.EncodeToString(h.Sum(nil)[:16])
}

// statusDigest returns the digest of a status, its time left out. It begins with
// that of the state and of what is said with it, which is the same although a peer
// makes up a new id for its message whenever it is asked.
func statusDigest(s *a2a.TaskStatus) string {
	said, all := []byte(s.State.String()), []byte(nil)
	if s.Message != nil {
		m := &a2a.Message{Parts: make([]a2a.Part, len(s.Message.Parts))}
		for i, p := range s.Message.Parts {
			p.Metadata, p.Data = nil, canonical(p.Data)
			m.Parts[i] = p
		}
		said = m.AppendJSON(said)
		if g, err := a2a.GrantRequestOf(s.Message.Metadata); err == nil && g != nil {
			said = append(said, g.ID...) // another request in the same words
		}
		all = wholeMessage(s.Message).AppendJSON(nil)
	}
	return short(said) + short(all)
}

// wholeMessage returns a message of a status as its digest is made of it: the
// same bytes, however the peer has written it.
func wholeMessage(of *a2a.Message) *a2a.Message {
	m := *of
	m.TaskID, m.ContextID, m.Metadata = "", "", canonical(of.Metadata)
	m.Parts = make([]a2a.Part, len(of.Parts))
	for i, p := range of.Parts {
		p.Data, p.Metadata = canonical(p.Data), canonical(p.Metadata)
		m.Parts[i] = p
	}
	return &m
}

func short(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:digestSaid/2])
}

// canonical returns the canonical form of a JSON value (RFC 8785), integers as
// they are. The bytes that a peer sends for a value may differ from call to call.
func canonical(value a2a.JSON) a2a.JSON {
	if value == nil {
		return nil
	}
	out := value.Clone()
	if err := out.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return value
	}
	return out
}

// statusPart returns the part of a digest that is of the status.
func statusPart(digest string) string { return clip(digest, digestStatus) }

// saidPart returns the part of a digest that is of the state and of what is said
// with it.
func saidPart(digest string) string { return clip(digest, digestSaid) }

// sameDigest reports whether a task says what it said by a digest, which may be of
// its status alone. Exactly means that its message is the same one too.
func sameDigest(kept string, t *a2a.Task, exactly bool) bool {
	now := digestOf(t)
	if kept == "" || saidPart(kept) != saidPart(now) || exactly && statusPart(kept) != statusPart(now) {
		return false
	}
	return len(kept) == digestStatus || kept[digestStatus:] == now[digestStatus:]
}
