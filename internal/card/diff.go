package card

import (
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// Change is a difference between two cards, for people.
type Change struct {
	Field    string // the JSON path; an element of a list is named by its id, as in skills[book].name
	Old, New string // as JSON, without the quotes of a text; "" for none
}

// String returns the change in one line.
func (c Change) String() string {
	switch {
	case c.Old == "":
		return c.Field + ": added " + c.New
	case c.New == "":
		return c.Field + ": removed " + c.Old
	default:
		return c.Field + ": " + c.Old + " -> " + c.New
	}
}

// Diff returns what differs between two cards, in the order of their fields.
// Signatures are not compared.
func Diff(before, after *a2a.AgentCard) []Change {
	d := &differ{}
	d.object("", fieldsOf(before), fieldsOf(after))
	return d.changes
}

// fieldsOf returns the fields of a card's JSON in their order.
func fieldsOf(card *a2a.AgentCard) *object {
	unsigned := *card
	unsigned.Signatures = nil
	o := &object{}
	o.read(unsigned.AppendJSON(nil))
	return o
}

// object is a JSON object with its keys in order.
type object struct {
	keys   []string
	values map[string]jsontext.Value
}

func (o *object) read(data jsontext.Value) {
	o.values = map[string]jsontext.Value{}
	decoder := jsontext.NewDecoder(strings.NewReader(string(data)), jsontext.AllowInvalidUTF8(true))
	if t, err := decoder.ReadToken(); err != nil || t.Kind() != '{' {
		return
	}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return
		}
		key := name.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return
		}
		o.keys = append(o.keys, key)
		o.values[key] = value.Clone()
	}
}

// elements reads a list of objects, each under the name that tells it from the
// others. It returns false for any other list.
func elements(data jsontext.Value) (*object, bool) {
	var list []jsontext.Value
	if json.Unmarshal(data, &list) != nil {
		return nil, false
	}
	result := &object{values: map[string]jsontext.Value{}}
	for _, value := range list {
		if value.Kind() != '{' {
			return nil, false
		}
		o := &object{}
		o.read(value)
		var parts []string
		for _, key := range []string{"id", "uri", "protocolBinding", "protocolVersion", "tenant"} {
			if v, ok := o.values[key]; ok {
				parts = append(parts, plain(v))
			}
		}
		name := strings.Join(parts, " ")
		for _, twice := result.values[name]; twice; _, twice = result.values[name] {
			name += "'"
		}
		result.keys = append(result.keys, name)
		result.values[name] = value
	}
	return result, true
}

type differ struct{ changes []Change }

func (d *differ) object(path string, before, after *object) {
	for _, key := range before.keys {
		if value, ok := after.values[key]; ok {
			d.value(child(path, key), before.values[key], value)
		} else {
			d.changes = append(d.changes, Change{Field: child(path, key), Old: plain(before.values[key])})
		}
	}
	for _, key := range after.keys {
		if _, ok := before.values[key]; !ok {
			d.changes = append(d.changes, Change{Field: child(path, key), New: plain(after.values[key])})
		}
	}
}

func (d *differ) value(path string, before, after jsontext.Value) {
	if same(before, after) {
		return
	}
	if before.Kind() == '{' && after.Kind() == '{' {
		o, n := &object{}, &object{}
		o.read(before)
		n.read(after)
		d.object(path, o, n)
		return
	}
	if before.Kind() == '[' && after.Kind() == '[' {
		o, ok := elements(before)
		n, also := elements(after)
		if ok && also {
			d.list(path, o, n)
			return
		}
	}
	d.changes = append(d.changes, Change{Field: path, Old: plain(before), New: plain(after)})
}

func (d *differ) list(path string, before, after *object) {
	count := len(d.changes)
	for _, name := range before.keys {
		at := path + "[" + name + "]"
		if value, ok := after.values[name]; ok {
			d.value(at, before.values[name], value)
		} else {
			d.changes = append(d.changes, Change{Field: at, Old: plain(before.values[name])})
		}
	}
	for _, name := range after.keys {
		if _, ok := before.values[name]; !ok {
			d.changes = append(d.changes, Change{Field: path + "[" + name + "]", New: plain(after.values[name])})
		}
	}
	if len(d.changes) == count && !reflect.DeepEqual(before.keys, after.keys) {
		d.changes = append(d.changes, Change{Field: path, Old: strings.Join(before.keys, ", "), New: strings.Join(after.keys, ", ")})
	}
}

func child(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// plain returns a value for people: a text without its quotes, anything else as
// JSON.
func plain(value jsontext.Value) string {
	if value.Kind() == '"' {
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			return string(text)
		}
	}
	return string(value)
}

func same(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	if a.Canonicalize() != nil || b.Canonicalize() != nil {
		return string(a) == string(b)
	}
	return string(a) == string(b)
}
