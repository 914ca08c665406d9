package mcp

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// WithName returns the message with another value where Mcp-Name is from (GWY-05).
func (m *Message) WithName(name string) *Message {
	if m.Name.IsZero() || m.NameValue() == name {
		return m
	}
	return m.splice(m.Name, appendString(nil, name))
}

// WithID returns the message with another id.
func (m *Message) WithID(id jsontext.Value) *Message {
	if m.ID == nil || bytes.Equal(m.ID, id) {
		return m
	}
	return m.splice(m.idAt, id)
}

// WithParam returns the message with a member of its params, or of its result, set
// or replaced; nil removes it.
func (m *Message) WithParam(key string, value jsontext.Value) *Message {
	of := m.Params
	if m.Method == "" {
		of = m.Result
	}
	if of.IsZero() {
		if value == nil || m.Method == "" {
			return m
		}
		return m.inRoot("params", append(append(appendMember([]byte{'{'}, key), value...), '}'))
	}
	return m.set(of, m.members, key, value)
}

// WithMeta returns the message with a member of _meta set or replaced; nil removes
// it.
func (m *Message) WithMeta(key string, value jsontext.Value) *Message {
	if m.Meta.IsZero() {
		if value == nil {
			return m
		}
		return m.WithParam("_meta", append(append(appendMember([]byte{'{'}, key), value...), '}'))
	}
	return m.set(m.Meta, m.meta, key, value)
}

// inRoot adds a member to the message itself.
func (m *Message) inRoot(key string, value jsontext.Value) *Message {
	end := bytes.LastIndexByte(m.Body, '}')
	text := append(appendMember([]byte{','}, key), value...)
	return m.splice(Span{end, end}, text)
}

// set sets, replaces or removes a member of an object.
func (m *Message) set(of Span, list []member, key string, value jsontext.Value) *Message {
	i := slices.IndexFunc(list, func(p member) bool { return p.name == key })
	switch {
	case i < 0 && value == nil:
		return m
	case i < 0:
		text := append(appendMember(nil, key), value...)
		if len(list) > 0 {
			text = append(text, ',')
		}
		return m.splice(Span{of.Start + 1, of.Start + 1}, text)
	case value == nil:
		return m.splice(m.without(of, list, i), nil)
	}
	return m.splice(list[i].value(), value)
}

// without returns what has to go with a member: its name, and one comma.
func (m *Message) without(of Span, list []member, i int) Span {
	if i+1 < len(list) {
		// Up to the name of the next member.
		from := of.Start + 1
		if i > 0 {
			from = list[i-1].end
			from += bytes.IndexByte(m.Body[from:], ',') + 1
		}
		to := list[i].end
		to += bytes.IndexByte(m.Body[to:], ',') + 1
		return Span{from, to}
	}
	if i > 0 {
		return Span{list[i-1].end, list[i].end}
	}
	return Span{of.Start + 1, list[i].end}
}

func appendMember(dst []byte, key string) []byte { return append(appendString(dst, key), ':') }

// splice returns the message with other bytes in the place of a part. The message
// was valid and what is put in is, so that scanning it again cannot fail; what it
// finds is where everything has come to be.
func (m *Message) splice(at Span, text []byte) *Message {
	body := make([]byte, 0, len(m.Body)-(at.End-at.Start)+len(text))
	body = append(body, m.Body[:at.Start]...)
	body = append(body, text...)
	body = append(body, m.Body[at.End:]...)
	changed, err := Scan(body, Limits{Depth: 1 << 20})
	if err != nil {
		return m
	}
	return changed
}
