package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func compiled(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := CompileSchema([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

const order = `{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "title": "Order",
	"properties": {"sku": {"type": "string"}, "units": {"type": "integer", "minimum": 1, "maximum": 1000}, "price": {"type": "number"},
		"incoterm": {"type": "string", "enum": ["FOB", "DAP"]}, "urgent": {"type": "boolean"}, "note": {"description": "Whatever."}},
	"required": ["sku", "units"], "additionalProperties": false}`

func TestFlat(t *testing.T) {
	t.Parallel()
	s := compiled(t, order)
	if s.flat == nil {
		t.Fatal("it is flat")
	}
	for arguments, want := range map[string]bool{
		`{"sku":"BRG","units":400}`: true,
		` {"units" : 1 , "sku":"\u0042", "price":1.5e2, "incoterm":"FOB", "urgent":false, "note":7} `: true,
		`{"sku":"BRG","units":400,"note":null}`:                                                       true,
		`{"sku":"BRG"}`:                                                                               false,
		`{"sku":"BRG","units":0}`:                                                                     false,
		`{"sku":"BRG","units":1001}`:                                                                  false,
		`{"sku":"BRG","units":1.5}`:                                                                   false,
		`{"sku":"BRG","units":"400"}`:                                                                 false,
		`{"sku":1,"units":400}`:                                                                       false,
		`{"sku":null,"units":400}`:                                                                    false,
		`{"sku":"a","units":1,"incoterm":"EXW"}`:                                                      false,
		`{"sku":"a","units":1,"urgent":"yes"}`:                                                        false,
		`{"sku":"a","units":1,"more":1}`:                                                              false,
		`{"sku":"a","sku":"b","units":1}`:                                                             false,
		`{"sku":"a","units":1,"note":{}}`:                                                             false,
		`{"sku":"a","units":1}{}`:                                                                     false,
		`{"sku":"a","units":1`:                                                                        false,
		`["sku"]`:                                                                                     false,
		``:                                                                                            false,
		`{"sku":"` + strings.Repeat("a", maxFlat) + `","units":1}`:                                    false,
	} {
		if got := s.flat.fits(jsontext.Value(arguments)); got != want {
			t.Errorf("%.80s: got %t", arguments, got)
		}
		if want && s.Check(jsontext.Value(arguments)) != nil {
			t.Errorf("%.80s does not fit the whole schema", arguments)
		}
	}
	for _, text := range []string{
		`{"properties":{"a":{"type":"array"}}}`, `{"properties":{"a":{"type":["string","null"]}}}`, `{"properties":{"a":{"pattern":"x"}}}`,
		`{"properties":{"a":{"minimum":1}}}`, `{"properties":{"a":{"enum":["x"]}}}`, `{"properties":{"a":{"type":"string","enum":[1]}}}`, `{"properties":{"a":true}}`,
		`{"required":["a"]}`, `{"anyOf":[{}]}`, `{"additionalProperties":{"type":"string"}}`, `{"patternProperties":{}}`, `{"minProperties":1}`, `true`,
	} {
		if compiled(t, text).flat != nil {
			t.Errorf("%s is not flat", text)
		}
	}
}

// What fits a flat schema fits the whole one, and what is refused by the flat one for
// another reason than caution is refused by the whole one.
func TestFlatIsTheWholeSchema(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"a", "b", "c", "é"})
		properties := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			one := map[string]any{}
			if kind := rapid.SampledFrom([]string{"", "string", "number", "integer", "boolean"}).Draw(t, "type"); kind != "" {
				one["type"] = kind
				switch kind {
				case "string":
					if rapid.Bool().Draw(t, "choice") {
						one["enum"] = []string{"x", "y"}
					}
				case "number", "integer":
					if rapid.Bool().Draw(t, "bounds") {
						one["minimum"], one["maximum"] = rapid.IntRange(-3, 3).Draw(t, "min"), rapid.IntRange(0, 5).Draw(t, "max")
					}
				}
			}
			properties[names.Draw(t, "name")] = one
		}
		schema := map[string]any{"type": "object", "properties": properties}
		var required []string
		for name := range properties {
			if rapid.Bool().Draw(t, "required") {
				required = append(required, name)
			}
		}
		if len(required) > 0 {
			schema["required"] = required
		}
		if rapid.Bool().Draw(t, "says more") {
			schema["additionalProperties"] = rapid.Bool().Draw(t, "open")
		}
		text, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		s, err := CompileSchema(text)
		if err != nil {
			t.Fatal(err)
		}
		careful := false // the flat form leaves the value to the whole schema
		var members []string
		for range rapid.IntRange(0, 4).Draw(t, "arguments") {
			value := rapid.SampledFrom([]string{`"x"`, `"z"`, `1`, `-2`, `1.0`, `1.5`, `4e0`, `9007199254740993`, `1e400`, `true`, `null`, `[]`, `{}`}).Draw(t, "value")
			careful = careful || slices.Contains([]string{`1.0`, `4e0`, `9007199254740993`, `1e400`, `[]`, `{}`}, value)
			members = append(members, fmt.Sprintf("%q:%s", names.Draw(t, "name"), value))
		}
		arguments := jsontext.Value("{" + strings.Join(members, ",") + "}")
		fits, whole := s.flat.fits(arguments), s.Check(arguments)
		if fits && whole != nil {
			t.Fatalf("%s fits the flat form of %s: %v", arguments, text, whole)
		}
		if !fits && whole == nil && !careful {
			t.Fatalf("%s fits %s, and not its flat form", arguments, text)
		}
	})
}

func BenchmarkArguments(b *testing.B) {
	s, arguments := compiled(b, order), jsontext.Value(`{"sku":"BRG-0042","units":400,"incoterm":"FOB"}`)
	d := &Decision{On: Subject{Kind: Tools}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Arguments(arguments, "", s); err != nil {
			b.Fatal(err)
		}
	}
}
