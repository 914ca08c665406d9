package form_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"handoff.example/handoff/internal/form"
)

const order = `{"type":"object","title":"Order","required":["sku","qty"],"additionalProperties":false,"properties":{
 "sku":{"type":"string","pattern":"^[A-Z]+$"},"qty":{"type":"integer","minimum":1,"default":2,"title":"How many"},
 "price":{"type":["number","null"]},"fast":{"type":"boolean"},"incoterm":{"enum":["EXW","DAP"]},
 "day":{"type":"string","format":"date"},"at":{"type":"string","format":"date-time"},
 "tags":{"type":"array","items":{"type":"string"},"default":["a","b"]},"days":{"type":"array","items":{"type":"string","format":"date"}},
 "size":{"$ref":"#/$defs/size"},"color":{"oneOf":[{"const":1,"title":"Red"},{"const":2,"title":"Blue"}]},
 "lines":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"}}}},"note":{"type":"string"}},
 "$defs":{"size":{"enum":[1,2,"large"]}}}`

func formOf(t *testing.T, schema string) *form.Form {
	t.Helper()
	f, err := form.New([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFields(t *testing.T) {
	t.Parallel()
	f := formOf(t, order)
	want := []form.Field{
		{Name: "sku", Kind: form.Text, Required: true},
		{Name: "qty", Title: "How many", Kind: form.Integer, Required: true, Default: "2"},
		{Name: "price", Kind: form.Number},
		{Name: "fast", Kind: form.Boolean},
		{Name: "incoterm", Kind: form.Choice, Options: []form.Option{{Label: "EXW"}, {Label: "DAP"}}},
		{Name: "day", Kind: form.Date},
		{Name: "at", Kind: form.DateTime},
		{Name: "tags", Kind: form.List, Items: form.Text, Default: "a\nb"},
		{Name: "days", Kind: form.List, Items: form.Date},
		{Name: "size", Kind: form.Choice, Options: []form.Option{{Label: "1"}, {Label: "2"}, {Label: "large"}}},
		{Name: "color", Kind: form.Choice, Options: []form.Option{{Label: "Red"}, {Label: "Blue"}}},
		{Name: "lines", Kind: form.JSON},
		{Name: "note", Kind: form.Text, Long: true},
	}
	if diff := cmp.Diff(want, f.Fields, cmpopts.IgnoreUnexported(form.Option{})); diff != "" {
		t.Error(diff)
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	f := formOf(t, order)
	got, err := f.Build([][]string{
		{"ABC"}, {"3"}, {"1,5"}, {"no"}, {"DAP"}, {"2026-01-31"}, {"2026-01-31T12:00"}, {"x", "", "y"}, {}, {"2"}, {"Blue"}, {`[{"n":1}]`}, {" a\r\nb "},
	})
	want := `{"sku":"ABC","qty":3,"price":1.5,"fast":false,"incoterm":"DAP","day":"2026-01-31","at":"2026-01-31T12:00:00Z","tags":["x","y"],"size":2,"color":2,"lines":[{"n":1}],"note":" a\nb "}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	single := formOf(t, `{"type":"integer"}`)
	if got, err := single.Build([][]string{{"7"}}); err != nil || string(got) != "7" {
		t.Errorf("one value: %s, %v", got, err)
	}
}

// TestRefused gives answers that do not fit: the error names the field.
func TestRefused(t *testing.T) {
	t.Parallel()
	f := formOf(t, order)
	for answer, field := range map[string]string{
		`{"sku":"ABC"}`:                                 "qty",
		`{"sku":"abc","qty":1}`:                         "sku",
		`{"sku":"ABC","qty":0}`:                         "qty",
		`{"sku":"ABC","qty":1.5}`:                       "qty",
		`{"sku":"ABC","qty":1,"x":1}`:                   "x",
		`{"sku":"ABC","qty":1,"tags":[1]}`:              "tags[]",
		`{"sku":"ABC","qty":1,"lines":[{"n":"1"}]}`:     "lines[].n",
		`{"sku":"ABC","qty":1,"day":"31.1.2026"}`:       "day",
		`{"sku":"ABC","qty":1,"at":"noon"}`:             "at",
		`{"sku":"ABC","qty":1,"incoterm":"FOB"}`:        "incoterm",
		`[]`:                                            "",
		`{`:                                             "",
		strings.Repeat("[", 100):                        "",
		`"` + strings.Repeat("x", form.MaxAnswer) + `"`: "",
	} {
		e, ok := errors.AsType[*form.FieldError](f.Check([]byte(answer)))
		if !ok || e.Field != field || len(e.Reason) > 400 {
			t.Errorf("%.60s: %+v, want the field %q", answer, e, field)
		}
	}
	for i, text := range map[int]string{1: "many", 2: "1.2.3", 3: "perhaps", 4: "FOB", 5: "tomorrow", 11: "{"} {
		written := make([][]string, len(f.Fields))
		written[0], written[1] = []string{"ABC"}, []string{"1"}
		written[i] = []string{text}
		_, err := f.Build(written)
		if e, ok := errors.AsType[*form.FieldError](err); !ok || e.Field != f.Fields[i].Name {
			t.Errorf("%q in %s: %v", text, f.Fields[i].Name, err)
		}
	}
}

// TestDefinitions names fields below definitions.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	f := formOf(t, `{"properties":{"lines":{"type":"array","items":{"$ref":"#/$defs/line"}},"to":{"$ref":"#/$defs/address"}},
 "$defs":{"line":{"properties":{"sku":{"$ref":"#/$defs/sku"},"n":{"type":"integer"}},"required":["n"]},"sku":{"type":"string"},
 "address":{"properties":{"items":{"type":"object","properties":{"city":{"type":"string"}}}}}}}`)
	for answer, field := range map[string]string{
		`{"lines":[{"sku":1,"n":1}]}`: "lines[].sku", `{"lines":[{}]}`: "lines[].n", `{"lines":[{"n":"x"}]}`: "lines[].n",
		`{"to":{"items":{"city":1}}}`: "to.items.city", `{"lines":1}`: "lines",
	} {
		if e, ok := errors.AsType[*form.FieldError](f.Check([]byte(answer))); !ok || e.Field != field {
			t.Errorf("%s: %+v, want %s", answer, e, field)
		}
	}
}

// TestFirst names the first field that is wrong, in the order of the form.
func TestFirst(t *testing.T) {
	t.Parallel()
	f := formOf(t, order)
	for range 20 {
		for answer, field := range map[string]string{
			`{"sku":"abc","qty":0,"price":"x","size":3}`: "sku", `{"sku":"ABC","qty":0,"size":3,"price":"x"}`: "qty",
			`{"price":"x"}`: "sku", `{"sku":"ABC","qty":1,"size":3,"color":9}`: "size",
		} {
			if e, ok := errors.AsType[*form.FieldError](f.Check([]byte(answer))); !ok || e.Field != field {
				t.Fatalf("%s: %+v, want %s", answer, e, field)
			}
		}
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	f := formOf(t, `{"properties":{"n":{"type":"integer","minimum":10,"maximum":100,"multipleOf":5},"s":{"type":"string","minLength":2,"maxLength":3},
 "e":{"enum":["a","b"]},"p":{"type":"string","pattern":"^x+$"},"l":{"type":"array","minItems":1,"maxItems":2,"uniqueItems":true}}}`)
	for answer, want := range map[string]string{
		`{"n":"x"}`: "n is string, and not integer", `{"n":5}`: "n is less than 10", `{"n":200}`: "n is greater than 100", `{"n":11}`: "n is not a multiple of 5",
		`{"s":"x"}`: "s has fewer than 2 characters", `{"s":"xxxx"}`: "s has more than 3 characters", `{"e":"c"}`: "e is none of: a b",
		`{"p":"y"}`: `p does not look like "^x+$"`, `{"l":[]}`: "l has fewer than 1 elements", `{"l":[1,2,3]}`: "l has more than 2 elements", `{"l":[1,1]}`: "l has an element twice",
	} {
		if err := f.Check([]byte(answer)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", answer, err, want)
		}
	}
}

// TestHostile makes forms of schemas that are not usable.
func TestHostile(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	bomb.WriteString(`{"$defs":{"d0":{"type":"string"}`)
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&bomb, `,"d%d":{"allOf":[{"$ref":"#/$defs/d%[2]d"},{"$ref":"#/$defs/d%[2]d"}]}`, i, i-1)
	}
	bomb.WriteString(`},"$ref":"#/$defs/d39"}`)
	for name, schema := range map[string]string{
		"not JSON":  `{`,
		"no schema": `7`,
		"recursive": `{"type":"object","properties":{"a":{"$ref":"#"}}}`,
		"circle":    `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`,
		"elsewhere": `{"properties":{"a":{"$ref":"https://evil.example/schema"}}}`,
		"anchor":    `{"$defs":{"a":{"$anchor":"x"}},"properties":{"a":{"$ref":"#x"}}}`,
		"bomb":      bomb.String(),
		"large":     `{"title":"` + strings.Repeat("x", form.MaxSchema) + `"}`,
		"deep":      strings.Repeat(`{"not":`, 100) + "{}" + strings.Repeat("}", 100),
		"pattern":   `{"properties":{"a":{"type":"string","pattern":"("}}}`,
		"null":      `{"properties":{"a":null}}`,
	} {
		if f, err := form.New([]byte(schema)); err == nil {
			t.Errorf("%s: a form with %d fields", name, len(f.Fields))
		}
	}
}

func FuzzForm(f *testing.F) {
	f.Add(order, `{"sku":"A"}`, "x")
	f.Add(`{"type":"array","items":{"enum":[1,2]}}`, `[1]`, "1")
	f.Add(`true`, `1`, "")
	f.Fuzz(func(t *testing.T, schema, answer, text string) {
		made, err := form.New([]byte(schema))
		if err != nil {
			return
		}
		_ = made.Check([]byte(answer))
		written := make([][]string, len(made.Fields))
		for i := range written {
			written[i] = []string{text}
		}
		if value, err := made.Build(written); err == nil && made.Check(value) != nil {
			t.Errorf("%s was built and does not fit", value)
		}
	})
}
