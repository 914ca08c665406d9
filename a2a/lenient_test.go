package a2a

import (
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// rewriter copies JSON and changes the members of the protocol's own objects on
// the way. It leaves free JSON and the keys of maps alone.
type rewriter struct {
	// member returns the name and, unless it is nil, the value to write instead.
	member func(name string) (string, jsontext.Value)
	extra  jsontext.Token // the name of a member that every object gets; its value is null
}

var (
	freeFields = map[string]bool{"data": true, "metadata": true, "params": true, "header": true}
	mapFields  = map[string]bool{"schemes": true, "securitySchemes": true, "scopes": true}
)

func (r *rewriter) rewrite(t *testing.T, in string) string {
	t.Helper()
	var b strings.Builder
	dec := jsontext.NewDecoder(strings.NewReader(in))
	enc := jsontext.NewEncoder(&b, jsontext.PreserveRawStrings(true))
	r.value(t, dec, enc, false)
	if _, err := dec.ReadToken(); err != io.EOF {
		t.Fatalf("%s goes on: %v", in, err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (r *rewriter) value(t *testing.T, dec *jsontext.Decoder, enc *jsontext.Encoder, isMap bool) {
	t.Helper()
	switch kind := dec.PeekKind(); kind {
	case '{', '[':
		token, err := dec.ReadToken()
		must(t, err)
		must(t, enc.WriteToken(token))
		for dec.PeekKind() != '}' && dec.PeekKind() != ']' {
			if kind == '[' {
				r.value(t, dec, enc, false)
				continue
			}
			token, err := dec.ReadToken()
			must(t, err)
			name := token.String()
			if isMap {
				must(t, enc.WriteToken(jsontext.String(name)))
				r.value(t, dec, enc, false)
				continue
			}
			newName, newValue := name, jsontext.Value(nil)
			if r.member != nil {
				newName, newValue = r.member(name)
			}
			must(t, enc.WriteToken(jsontext.String(newName)))
			switch {
			case newValue != nil:
				must(t, dec.SkipValue())
				must(t, enc.WriteValue(newValue))
			case freeFields[name]:
				v, err := dec.ReadValue()
				must(t, err)
				must(t, enc.WriteValue(v))
			default:
				r.value(t, dec, enc, mapFields[name])
			}
		}
		if kind == '{' && !isMap && r.extra.Kind() == '"' {
			must(t, enc.WriteToken(r.extra))
			must(t, enc.WriteToken(jsontext.Null))
		}
		token, err = dec.ReadToken()
		must(t, err)
		must(t, enc.WriteToken(token))
	default:
		v, err := dec.ReadValue()
		must(t, err)
		must(t, enc.WriteValue(v))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// snakeCase returns the name that a field has in the protocol's proto file.
func snakeCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// TestLenientForms writes the canonical form of every golden object in another
// way that is accepted, and checks that it means the same.
func TestLenientForms(t *testing.T) {
	t.Parallel()
	forms := map[string]*rewriter{
		"snake case":     {member: func(name string) (string, jsontext.Value) { return snakeCase(name), nil }},
		"unknown fields": {extra: jsontext.String("x_new")},
	}
	for form, r := range forms {
		for _, g := range goldens {
			v := g.new()
			must(t, Unmarshal([]byte(g.in), v))
			want := string(v.AppendJSON(nil))
			in := r.rewrite(t, want)
			if err := Unmarshal([]byte(in), v); err != nil {
				t.Errorf("%s, %s: %v in %s", form, g.name, err, in)
				continue
			}
			if diff := cmp.Diff(compact(t, want), compact(t, string(v.AppendJSON(nil)))); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", form, g.name, diff)
			}
		}
	}
}

// TestEveryFieldMayBeNull sets each field of every golden object to null in
// turn, which has to mean what leaving it out means.
func TestEveryFieldMayBeNull(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		v := g.new()
		must(t, Unmarshal([]byte(g.in), v))
		canonical := string(v.AppendJSON(nil))
		names := map[string]bool{}
		(&rewriter{member: func(name string) (string, jsontext.Value) {
			names[name] = true
			return name, nil
		}}).rewrite(t, canonical)
		for name := range names {
			if name == "data" {
				continue // null is a content
			}
			replace := func(with string, value string) string {
				return (&rewriter{member: func(n string) (string, jsontext.Value) {
					if n == name {
						return with, jsontext.Value(value)
					}
					return n, nil
				}}).rewrite(t, canonical)
			}
			null, absent := g.new(), g.new()
			must(t, Unmarshal([]byte(replace("x_new", "0")), absent))
			if err := Unmarshal([]byte(replace(name, "null")), null); err != nil {
				t.Errorf("%s with %s null: %v", g.name, name, err)
				continue
			}
			if diff := cmp.Diff(string(absent.AppendJSON(nil)), string(null.AppendJSON(nil))); diff != "" {
				t.Errorf("%s with %s null (-absent +null):\n%s", g.name, name, diff)
			}
		}
	}
}

// TestEveryFieldHasOneType sets each field of every golden object to a value of
// a wrong type, which has to be refused with the path of the field.
func TestEveryFieldHasOneType(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		v := g.new()
		must(t, Unmarshal([]byte(g.in), v))
		canonical := string(v.AppendJSON(nil))
		names := map[string]bool{}
		(&rewriter{member: func(name string) (string, jsontext.Value) {
			names[name] = true
			return name, nil
		}}).rewrite(t, canonical)
		for name := range names {
			if name == "data" {
				continue // takes everything
			}
			for _, value := range []string{`[[]]`, `-1.5`} {
				in := (&rewriter{member: func(n string) (string, jsontext.Value) {
					if n == name {
						return n, jsontext.Value(value)
					}
					return n, nil
				}}).rewrite(t, canonical)
				err := Unmarshal([]byte(in), g.new())
				if CodeOf(err) != CodeInvalidParams || !strings.Contains(err.Error(), name) {
					t.Errorf("%s with %s of %s gave %v", g.name, name, value, err)
				}
			}
		}
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	v := jsontext.Value(text)
	must(t, v.Compact())
	return string(v)
}
