package a2a

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The extensions of the protocol that this module defines (A2A §4.6). Peers that
// do not know them are not affected.
const (
	// LineageExtension tells an agent how a message came about. See Lineage.
	LineageExtension = "https://handoff.example/extensions/lineage/v1"
	// GrantExtension carries grant requests and the decisions on them. See
	// GrantRequest and GrantDecision.
	GrantExtension = "https://handoff.example/extensions/grant/v1"
	// IdempotencyExtension is declared by agents that take a message which comes
	// twice for one. The parameter {"callers": "authenticated"} of a declaration
	// says that they do so for callers with credentials only.
	IdempotencyExtension = "https://handoff.example/extensions/idempotency/v1"
)

// Lineage says where a message stands in a tree of tasks that agents have handed
// to each other. It is in the metadata of a message, under LineageExtension. It
// grants nothing: its receiver may refuse loops and trees that are too deep with
// it, and finish earlier.
type Lineage struct {
	Root   string // id of the task at the root of the tree, as its agent names it
	Parent string // id of the task that this message was sent for
	Depth  int    // hops from the root to the task that the message makes
	// Path are the agents on the way from the root, each by its address or an
	// opaque id that it knows again.
	Path     []string
	Deadline time.Time // when the sender gives up; zero: never
}

// Bounds of a lineage. One that is larger is not valid.
const (
	MaxLineageDepth = 1000
	maxLineagePath  = 100
)

type lineageJSON struct {
	Root     string    `json:"root"`
	Parent   string    `json:"parent,omitzero"`
	Depth    int       `json:"depth"`
	Path     []string  `json:"path,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
}

// LineageOf reads the lineage in the metadata of a message; nil when there is
// none.
func LineageOf(metadata JSON) (*Lineage, error) {
	value, err := extensionOf(metadata, LineageExtension)
	if value == nil || err != nil {
		return nil, err
	}
	field := "message.metadata[" + LineageExtension + "]"
	var l lineageJSON
	if err := json.Unmarshal(value, &l); err != nil {
		return nil, Invalid(field, "is not a lineage: an object with root, parent, depth, path and deadline")
	}
	long := func(s string) bool { return len(s) > MaxIDLength }
	switch {
	case l.Depth < 0 || l.Depth > MaxLineageDepth:
		return nil, Invalid(field+".depth", "is not a number from 0 to %d", MaxLineageDepth)
	case len(l.Path) > maxLineagePath:
		return nil, Invalid(field+".path", "has more than %d entries", maxLineagePath)
	case long(l.Root) || long(l.Parent):
		return nil, Invalid(field, "has an id of more than %d bytes", MaxIDLength)
	case slices.ContainsFunc(l.Path, func(s string) bool { return len(s) > 2048 }):
		return nil, Invalid(field+".path", "has an entry of more than 2048 bytes")
	}
	return new(Lineage(l)), nil
}

// AppendJSON appends the value that goes under LineageExtension.
func (l *Lineage) AppendJSON(dst []byte) []byte {
	b, err := json.Marshal(lineageJSON(*l))
	if err != nil {
		return append(dst, "{}"...) // of a year that RFC 3339 cannot write
	}
	return append(dst, b...)
}

// GrantRequest is what a status message says of a request for an authorization
// (A2A §7.6.1), under GrantExtension. Nothing in it is secret.
type GrantRequest struct {
	ID        string    `json:"id"`
	Operation string    `json:"operation,omitzero"` // what would be authorized
	Expires   time.Time `json:"expires,omitzero"`   // when it counts as denied; zero: never
	URL       string    `json:"url,omitzero"`       // where a person goes to decide
}

// GrantRequestOf reads the grant request in the metadata of a status message;
// nil when there is none.
func GrantRequestOf(metadata JSON) (*GrantRequest, error) {
	value, err := extensionOf(metadata, GrantExtension)
	if value == nil || err != nil {
		return nil, err
	}
	var r struct {
		Grant *GrantRequest `json:"grant"`
	}
	if json.Unmarshal(value, &r) != nil {
		return nil, Invalid("metadata["+GrantExtension+"]", "is not a grant request")
	}
	return r.Grant, nil
}

// AppendJSON appends the value that goes under GrantExtension.
func (r *GrantRequest) AppendJSON(dst []byte) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		return append(dst, "{}"...)
	}
	dst = append(dst, `{"grant":`...)
	dst = append(dst, b...)
	return append(dst, '}')
}

// GrantDecision settles the grant request of the task that a message is sent to.
// It is in the metadata of the message, under GrantExtension. It authorizes the
// one operation that was asked for.
type GrantDecision struct {
	Approved bool
	Note     string
}

// GrantDecisionOf reads the decision in the metadata of a message; nil when there
// is none.
func GrantDecisionOf(metadata JSON) (*GrantDecision, error) {
	value, err := extensionOf(metadata, GrantExtension)
	if value == nil || err != nil {
		return nil, err
	}
	var d struct {
		Decision string `json:"decision"`
		Note     string `json:"note"`
	}
	field := "message.metadata[" + GrantExtension + "]"
	if json.Unmarshal(value, &d) != nil {
		return nil, Invalid(field, "is not a decision: an object with decision and note")
	}
	const maxNote = 4 << 10
	switch {
	case d.Decision != "approve" && d.Decision != "deny":
		return nil, Invalid(field+".decision", "is neither approve nor deny")
	case len(d.Note) > maxNote:
		return nil, Invalid(field+".note", "has more than %d bytes", maxNote)
	}
	return &GrantDecision{Approved: d.Decision == "approve", Note: d.Note}, nil
}

// AppendJSON appends the value that goes under GrantExtension.
func (d *GrantDecision) AppendJSON(dst []byte) []byte {
	word := "deny"
	if d.Approved {
		word = "approve"
	}
	dst = append(dst, `{"decision":"`+word+`"`...)
	if d.Note != "" {
		dst = append(dst, `,"note":`...)
		dst, _ = jsontext.AppendQuote(dst, d.Note)
	}
	return append(dst, '}')
}

// extensionOf returns what metadata has under the URI of an extension, nil when
// there is nothing.
func extensionOf(metadata JSON, uri string) (JSON, error) {
	word := uri[:strings.LastIndexByte(uri, '/')]
	word = word[strings.LastIndexByte(word, '/')+1:]
	if !bytes.Contains(metadata, []byte(word)) {
		return nil, nil
	}
	var found JSON
	err := eachMember(metadata, func(name string, value JSON) {
		if name == uri {
			found = value
		}
	})
	if err != nil {
		return nil, Invalid("metadata", "is not an object")
	}
	if found.Kind() == 'n' {
		return nil, nil
	}
	return found, nil
}

// eachMember calls f for the members of an object. Their values share memory with
// it.
func eachMember(object JSON, f func(name string, value JSON)) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(object, &members, jsontext.AllowDuplicateNames(true)); err != nil {
		return err
	}
	for name, value := range members {
		f(name, JSON(value))
	}
	return nil
}

// WithMember returns metadata with one member set to a value, and the others as
// they were. Metadata that is not an object counts as none.
func WithMember(metadata JSON, name string, value JSON) JSON {
	out := make([]byte, 0, len(metadata)+len(name)+len(value)+8)
	out = append(out, '{')
	var members map[string]jsontext.Value
	if metadata != nil && json.Unmarshal(metadata, &members, jsontext.AllowDuplicateNames(true)) == nil {
		for _, key := range slices.Sorted(maps.Keys(members)) {
			if key == name {
				continue
			}
			out, _ = jsontext.AppendQuote(out, key)
			out = append(out, ':')
			out = append(out, members[key]...)
			out = append(out, ',')
		}
	}
	out, _ = jsontext.AppendQuote(out, name)
	out = append(out, ':')
	out = append(out, value...)
	return append(out, '}')
}
