package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcpgw/policy"
)

func TestSchemasThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"no JSON":                       `{`,
		"another dialect (JSS-01)":      `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}`,
		"a reference away (JSS-03)":     `{"properties":{"a":{"$ref":"https://example.com/s.json"}}}`,
		"a file (JSS-03)":               `{"$ref":"file:///etc/passwd"}`,
		"beside an id (JSS-03)":         `{"$id":"https://example.com/a.json","$ref":"b.json"}`,
		"a reference to nothing":        `{"$ref":"#/$defs/none"}`,
		"itself":                        `{"$ref":"#"}`,
		"itself by another":             `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"anyOf":[true,{"$ref":"#/$defs/a"}]}}}`,
		"itself by an anchor":           `{"$anchor":"x","not":{"$ref":"#x"}}`,
		"itself by a dynamic reference": `{"$dynamicAnchor":"x","if":{"$dynamicRef":"#x"}}`,
		"depth (JSS-04)":                strings.Repeat(`{"not":`, 70) + `true` + strings.Repeat(`}`, 70),
		"size (JSS-04)":                 `{"description":"` + strings.Repeat("x", 256<<10) + `"}`,
		"a pattern that is none":        `{"pattern":"("}`,
		"not UTF-8":                     "{\"title\":\"\xff\"}",
	} {
		if _, err := policy.CompileSchema([]byte(schema)); err == nil {
			t.Errorf("%s: %.100s is taken", name, schema)
		}
	}
}

func TestSchemasThatAreTaken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ schema, good, bad string }{
		"2020-12 by default":    {`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}]}}}`, `{"a":["x"]}`, `{"a":[1]}`},
		"draft-07":              {`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":[{"type":"string"}]}}}`, `{"a":["x"]}`, `{"a":[1]}`},
		"a reference within":    {`{"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"number"}}}`, `{"a":1}`, `{"a":"1"}`},
		"by its id":             {`{"$id":"https://example.com/s","properties":{"a":{"$ref":"https://example.com/s#/$defs/n"}},"$defs":{"n":{"type":"number"}}}`, `{"a":1}`, `{"a":"1"}`},
		"an anchor":             {`{"properties":{"a":{"$ref":"#n"}},"$defs":{"n":{"$anchor":"n","type":"number"}}}`, `{"a":1}`, `{"a":"1"}`},
		"a tree":                {`{"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"l":{"$ref":"#/$defs/t"},"r":{"$ref":"#/$defs/t"}},"additionalProperties":false}}}`, `{"l":{"r":{}}}`, `{"l":{"x":{}}}`},
		"a property called so":  {`{"properties":{"$ref":{"type":"string"},"not":{"type":"number"},"default":{"type":"boolean"}}}`, `{"$ref":"x","not":1,"default":true}`, `{"not":"x"}`},
		"a value that looks so": {`{"properties":{"a":{"const":{"$ref":"https://example.com"}}}}`, `{"a":{"$ref":"https://example.com"}}`, `{"a":{}}`},
	} {
		s, err := policy.CompileSchema([]byte(test.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := s.Check(jsontext.Value(test.good)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Check(jsontext.Value(test.bad)); err == nil {
			t.Errorf("%s: %s fits", name, test.bad)
		}
	}
}

// A small schema cannot take long (JSS-04).
func TestASchemaCannotTakeLong(t *testing.T) {
	t.Parallel()
	// Every level doubles the work: 2^40 visits.
	var wide strings.Builder
	wide.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range 40 {
		n := string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10))
		m := string(rune('0'+i/10)) + string(rune('0'+i%10))
		if i == 0 {
			m = "0"
		}
		wide.WriteString(`"d` + m + `":{"anyOf":[{"allOf":[{"$ref":"#/$defs/d` + n + `"},false]},{"$ref":"#/$defs/d` + n + `"}]},`)
	}
	wide.WriteString(`"d40":{"type":"number"}}}`)
	deep := `{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["x"]},{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["y"]}]}}}`
	for name, test := range map[string]struct{ schema, value string }{
		"alternatives of the same":  {wide.String(), `{}`},
		"alternatives that go down": {deep, strings.Repeat(`{"c":`, 50) + `{}` + strings.Repeat(`}`, 50)},
	} {
		s, err := policy.CompileSchema([]byte(test.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		begin := time.Now()
		if err := s.Check(jsontext.Value(test.value)); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
	s, err := policy.CompileSchema([]byte(deep))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(jsontext.Value(`{"c":{"c":{"x":1},"x":1},"y":2}`)); err != nil {
		t.Errorf("what is small is checked: %v", err)
	}
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#"},true]}}}`), []byte(`{"a":[1,{"b":null}]}`))
	f.Add([]byte(`{"properties":{"a":{"$ref":"#"}},"dependentSchemas":{"a":{"$ref":"#"}}}`), []byte(`{"a":{"a":{}}}`))
	f.Fuzz(func(_ *testing.T, schema, value []byte) {
		defer time.AfterFunc(5*time.Second, func() { panic("it takes long") }).Stop()
		s, err := policy.CompileSchema(schema)
		if err == nil {
			_ = s.Check(value)
		}
	})
}

// What a tool requires has to be there, and null is not (XMH-05).
func TestNullIsNothingWhereNothingIsRequired(t *testing.T) {
	t.Parallel()
	s, err := policy.CompileSchema([]byte(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"boolean"}},"required":["a"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	d := &policy.Decision{}
	for args, fits := range map[string]bool{
		`{"a":"x","b":null}`: true, `{"a":null}`: false, `{"a":"x","b":"y"}`: false, `{"a":"x","b":null,"c":1}`: false, `{"b":null}`: false,
	} {
		if _, err := d.Arguments(jsontext.Value(args), "", s); (err == nil) != fits {
			t.Errorf("%s: %v", args, err)
		}
	}
}
