package form_test

import (
	"strings"
	"testing"

	"handoff.example/handoff/internal/form"
)

// Errors are for people who fill in forms: in their words, with the field, and
// without the names of the libraries.
func TestErrorsAreInThePeoplesWords(t *testing.T) {
	t.Parallel()
	errorOf := func(schema, answer string) string {
		f, err := form.New([]byte(schema))
		if err == nil {
			err = f.Check([]byte(answer))
		}
		if err == nil {
			t.Fatalf("%s takes %s", schema, answer)
		}
		return err.Error()
	}
	const object = `{"type":"object","properties":{"qty":{"type":"number"}}}`
	for _, c := range []struct{ schema, answer, want string }{
		{object, `{"qty":1e400}`, "qty is a number that is too large"},
		{object, `{"qty":`, "the answer is not JSON"},
		{`{"type":"number"}`, `1e400`, "the answer is a number that is too large"},
		{`{"anyOf":[{"type":"string"},{"type":"number"}]}`, `true`, "the answer does not fit what is asked for"},
		{`{"not":{}}`, `true`, "the answer does not fit what is asked for"},
		{`{"$ref":"https://example.com/schema"}`, `1`, "the schema is not understood"},
		{`{"type":7}`, `1`, "the schema is not a JSON Schema"},
		{`{"pattern":"("}`, `1`, "the schema is not understood"},
	} {
		got := errorOf(c.schema, c.answer)
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s, %s: %q, want %q", c.schema, c.answer, got, c.want)
		}
		for _, internal := range []string{"unmarshal", "float64", "anonymous", "loader", "Resolve"} {
			if strings.Contains(got, internal) {
				t.Errorf("%s, %s: %q says %q", c.schema, c.answer, got, internal)
			}
		}
	}
}
