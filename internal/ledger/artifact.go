package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// MetaReceived is the key in the metadata of an artifact of a peer under which
// the ledger says what it got: {"sha256", "bytes", "leftOut"}. The digest is
// over the contents of the parts one after the other, so that that of a file in
// one part is the digest of the file; data counts in its canonical form.
const MetaReceived = "https://handoff.example/received"

// maxArtifacts is how many artifacts of one delegation are taken.
const maxArtifacts = 1000

// received is what is known of an artifact.
type received struct {
	name    string
	digest  hash.Hash
	bytes   int64
	leftOut bool
	sealed  string     // the digest as it was kept, when the contents are not here
	last    []a2a.Part // of the last chunk
}

func newReceived(name string) *received { return &received{name: name, digest: sha256.New()} }

// add counts the contents of parts.
func (r *received) add(parts []a2a.Part) {
	for i := range parts {
		p := &parts[i]
		for _, b := range [...][]byte{[]byte(p.Text), p.Raw, []byte(p.URL), canonical(p.Data)} {
			r.digest.Write(b)
			r.bytes += int64(len(b))
		}
	}
}

func (r *received) sum() string {
	if r.sealed != "" {
		return r.sealed
	}
	return hex.EncodeToString(r.digest.Sum(nil))
}

// metadata returns the metadata of the artifact as it is kept.
func (r *received) metadata(of a2a.JSON) a2a.JSON {
	value := append([]byte(nil), `{"sha256":"`...)
	value = append(value, r.sum()...)
	value = append(value, `","bytes":`...)
	value = strconv.AppendInt(value, r.bytes, 10)
	if r.leftOut {
		value = append(value, `,"leftOut":true`...)
	}
	return withMember(of, MetaReceived, append(value, '}'))
}

// withMember returns a JSON object with one member set.
func withMember(object a2a.JSON, name string, value a2a.JSON) a2a.JSON {
	var members map[string]jsontext.Value
	if object != nil && json.Unmarshal(object, &members) != nil {
		members = nil
	}
	if members == nil {
		members = map[string]jsontext.Value{}
	}
	members[name] = value
	out, err := json.Marshal(members, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return object
	}
	return out
}

// member returns a member of a JSON object, nil when there is none.
func member(object a2a.JSON, name string) a2a.JSON {
	var members map[string]jsontext.Value
	if object == nil || json.Unmarshal(object, &members, jsontext.AllowDuplicateNames(true)) != nil {
		return nil
	}
	return members[name]
}

// kept returns what is known of an artifact that was taken before.
func kept(a *a2a.Artifact) *received {
	r := newReceived(a.Name)
	var of struct {
		SHA256  string `json:"sha256"`
		Bytes   int64  `json:"bytes"`
		LeftOut bool   `json:"leftOut"`
	}
	if m := member(a.Metadata, MetaReceived); m != nil && json.Unmarshal(m, &of) == nil && of.LeftOut {
		r.sealed, r.bytes, r.leftOut = of.SHA256, of.Bytes, true
		return r
	}
	r.add(a.Parts)
	return r
}

// shelf is the artifacts of a delegation, as far as they were taken over.
type shelf struct {
	limit int64 // bytes of all together
	known map[string]*received
	gap   bool // an artifact may be another at the peer: the end is looked at
	over  int  // artifacts that were refused, since there are too many
}

// load takes what the task has already.
func (s *shelf) load(artifacts []a2a.Artifact) {
	for i := range artifacts {
		s.known[artifacts[i].ArtifactID] = kept(&artifacts[i])
	}
}

// same reports whether an artifact of a snapshot is here already.
func (s *shelf) same(a *a2a.Artifact) bool {
	r := s.known[a.ArtifactID]
	if r == nil || r.name != a.Name {
		return false
	}
	now := newReceived(a.Name)
	now.add(a.Parts)
	return now.bytes == r.bytes && now.sum() == r.sum()
}

// whole returns the step that takes over a whole artifact, nil when it is not to
// be taken.
func (s *shelf) whole(a *a2a.Artifact) *agent.Artifact {
	if !s.room(a.ArtifactID) {
		return nil
	}
	r := newReceived(a.Name)
	r.add(a.Parts)
	s.known[a.ArtifactID] = r
	r.leftOut = s.full()
	step := &agent.Artifact{
		ID: a.ArtifactID, Name: a.Name, Description: a.Description, Parts: a.Parts,
		Metadata: r.metadata(a.Metadata), Extensions: a.Extensions, Last: true,
	}
	return s.fit(step, r)
}

// repeated reports whether a chunk has the parts of the one before it.
func repeated(last, now []a2a.Part) bool {
	return len(now) > 0 && slices.EqualFunc(last, now, func(a, b a2a.Part) bool {
		return a.Kind == b.Kind && a.Text == b.Text && bytes.Equal(a.AppendJSON(nil), b.AppendJSON(nil))
	})
}

// chunk returns the step that takes over a chunk of an artifact, nil when there
// is nothing to take.
func (s *shelf) chunk(u *a2a.TaskArtifactUpdateEvent) *agent.Artifact {
	a := &u.Artifact
	r := s.known[a.ArtifactID]
	if !u.Append && u.LastChunk {
		return s.whole(a)
	}
	fresh := r == nil || !u.Append
	if fresh {
		if !s.room(a.ArtifactID) {
			return nil
		}
		if u.Append {
			s.gap = true
		}
		r = newReceived(a.Name)
		s.known[a.ArtifactID] = r
	}
	if !fresh && repeated(r.last, a.Parts) {
		s.gap = true // the same once more, or told twice: the end shows which
	}
	r.last = a.Parts
	if r.sealed != "" { // what came before was left out in an earlier turn
		s.gap = true
		return nil
	}
	wasOut := r.leftOut
	r.add(a.Parts)
	r.leftOut = wasOut || s.full()
	step := &agent.Artifact{
		ID: a.ArtifactID, Name: a.Name, Description: a.Description, Parts: a.Parts,
		Metadata: a.Metadata, Extensions: a.Extensions, Append: !fresh, Last: u.LastChunk,
	}
	switch {
	case r.leftOut && wasOut && !u.LastChunk:
		return nil
	case r.leftOut:
		step.Name = r.name
		step.Metadata = r.metadata(a.Metadata)
		return s.fit(step, r)
	case u.LastChunk:
		step.Metadata = r.metadata(a.Metadata)
	}
	if len(step.Parts) == 0 && fresh {
		delete(s.known, a.ArtifactID) // it begins with the first chunk that has something
		return nil
	}
	return s.fit(step, r)
}

// fit makes a step fit what an artifact has to have.
func (s *shelf) fit(step *agent.Artifact, r *received) *agent.Artifact {
	if r.leftOut {
		step.Append, step.Last = false, true
		step.Parts = []a2a.Part{a2a.Text(fmt.Sprintf(
			"This artifact was left out: it has %d bytes, and the artifacts of a task may have %d together. The peer has it.", r.bytes, s.limit))}
		return step
	}
	if len(step.Parts) == 0 {
		step.Parts = []a2a.Part{a2a.Text("")}
	}
	return step
}

// full reports whether the artifacts that are kept have more bytes than they may.
func (s *shelf) full() bool {
	var n int64
	for _, r := range s.known {
		if !r.leftOut {
			n += r.bytes
		}
	}
	return n > s.limit
}

// room reports whether an artifact can be taken.
func (s *shelf) room(id string) bool {
	if _, ok := s.known[id]; ok || len(s.known) < maxArtifacts {
		return true
	}
	s.over++
	return false
}
