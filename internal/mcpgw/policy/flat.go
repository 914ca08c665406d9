package policy

import (
	"bytes"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// flat is a schema that says no more than most tools do: an object, and of each of
// its members a simple type, texts to choose from, or bounds of a number. Arguments
// are held against it as they are read, without a tree of them. It knows only that
// they fit; what it does not know to fit is left to the whole schema, which can say why.
type flat struct {
	members  map[string]member
	required int // how many members have to be there
	closed   bool
}

// member is what a flat schema says of a member.
type member struct {
	kind     jsontext.Kind // '"', '0', 't' for both booleans; 0: anything
	integer  bool
	choice   []string // nil: any text
	min, max float64
	required bool
}

// maxFlat is how large arguments may be that are read so: those are few steps
// whatever the schema, so that no estimate is needed.
const maxFlat = 4 << 10

// annotations say nothing of which values fit.
var annotations = map[string]bool{"$schema": true, "$comment": true, "title": true, "description": true, "default": true, "examples": true}

// newFlat returns the flat form of a schema, nil where it says more.
func newFlat(tree any) *flat {
	root, ok := tree.(map[string]any)
	if !ok {
		return nil
	}
	f := &flat{members: map[string]member{}}
	for key, value := range root {
		switch key {
		case "type":
			ok = value == "object"
		case "properties":
			ok = f.properties(value)
		case "additionalProperties":
			open, is := value.(bool)
			f.closed, ok = !open, is
		case "required": // below, when the members are known
		default:
			ok = annotations[key]
		}
		if !ok {
			return nil
		}
	}
	if names, said := root["required"]; said && !f.require(names) {
		return nil
	}
	return f
}

func (f *flat) properties(value any) bool {
	all, ok := value.(map[string]any)
	for name, one := range all {
		m, simple := newMember(one)
		if !simple {
			return false
		}
		f.members[name] = m
	}
	return ok
}

func (f *flat) require(names any) bool {
	list, ok := names.([]any)
	for _, name := range list {
		text, is := name.(string)
		m, known := f.members[text]
		if !is || !known {
			return false
		}
		if !m.required {
			f.required++
		}
		m.required = true
		f.members[text] = m
	}
	return ok
}

func newMember(value any) (m member, ok bool) {
	said, ok := value.(map[string]any)
	if !ok {
		return m, false
	}
	m.min, m.max = math.Inf(-1), math.Inf(1)
	for key, value := range said {
		switch key {
		case "type":
			ok = m.ofType(value)
		case "enum":
			ok = m.choose(value) && said["type"] == "string"
		case "minimum":
			m.min, ok = value.(float64)
		case "maximum":
			m.max, ok = value.(float64)
		default:
			ok = annotations[key]
		}
		if !ok {
			return m, false
		}
	}
	return m, m.kind == '0' || math.IsInf(m.min, -1) && math.IsInf(m.max, 1)
}

func (m *member) ofType(value any) bool {
	switch value {
	case "string":
		m.kind = '"'
	case "number":
		m.kind = '0'
	case "integer":
		m.kind, m.integer = '0', true
	case "boolean":
		m.kind = 't'
	default:
		return false
	}
	return true
}

func (m *member) choose(value any) bool {
	list, ok := value.([]any)
	for _, one := range list {
		text, is := one.(string)
		if !is {
			return false
		}
		m.choice = append(m.choice, text)
	}
	return ok && len(list) > 0
}

// reader reads arguments.
type reader struct {
	from    bytes.Reader
	decoder jsontext.Decoder
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// fits reports whether arguments fit for certain.
func (f *flat) fits(arguments jsontext.Value) bool {
	if len(arguments) > maxFlat {
		return false
	}
	r := readers.Get().(*reader)
	defer func() {
		r.from.Reset(nil) // which would keep the message
		readers.Put(r)
	}()
	r.from.Reset(arguments)
	r.decoder.Reset(&r.from)
	if token, err := r.decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return false
	}
	there := 0
	for r.decoder.PeekKind() != '}' {
		name, err := r.decoder.ReadToken()
		if err != nil {
			return false
		}
		m, known := f.members[name.String()]
		if !known && f.closed {
			return false
		}
		if token, err := r.decoder.ReadToken(); err != nil || !m.takes(token) {
			return false
		}
		if m.required {
			there++
		}
	}
	if _, err := r.decoder.ReadToken(); err != nil { // the end of the object
		return false
	}
	_, err := r.decoder.ReadToken()
	return err == io.EOF && there == f.required
}

// takes reports whether a member may be a value, which is none that has parts.
func (m *member) takes(value jsontext.Token) bool {
	switch kind := value.Kind(); {
	case m.kind == 0 && kind != '0':
		return kind != '{' && kind != '['
	case kind == '"' && m.kind == '"':
		if m.choice == nil {
			return true
		}
		return slices.Contains(m.choice, value.String())
	case kind == '0' && (m.kind == '0' || m.kind == 0):
		n, err := value.Float()
		if err != nil || m.integer && strings.ContainsAny(value.String(), ".eE") || math.Abs(n) > 1<<53 {
			return false
		}
		return m.kind == 0 || n >= m.min && n <= m.max
	case (kind == 't' || kind == 'f') && m.kind == 't':
		return true
	}
	return false
}
