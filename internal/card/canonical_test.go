package card_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/card"
)

func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		// A2A §8.4.1, Example of Default Value Removal
		"specification": {
			`{"name": "Example Agent", "description": "", "capabilities": {"streaming": false, "pushNotifications": false, "extensions": []}, "skills": []}`,
			`{"capabilities":{"pushNotifications":false,"streaming":false},"description":"","name":"Example Agent","skills":[]}`,
		},
		"signatures":             {`{"signatures":[{"protected":"a","signature":"b"}],"name":"A"}`, `{"name":"A"}`},
		"null is not set":        {`{"name":null,"iconUrl":null,"capabilities":{"streaming":null}}`, `{"capabilities":{}}`},
		"optional, empty":        {`{"iconUrl":"","documentationUrl":""}`, `{"documentationUrl":"","iconUrl":""}`},
		"messages have presence": {`{"provider":{},"capabilities":{}}`, `{"capabilities":{},"provider":{}}`},
		"defaults within":        {`{"supportedInterfaces":[{"url":"u","tenant":""}],"capabilities":{"extensions":[{"uri":"x","required":false,"description":""}]}}`, `{"capabilities":{"extensions":[{"uri":"x"}]},"supportedInterfaces":[{"url":"u"}]}`},
		"no scope":               {`{"securityRequirements":[{"schemes":{"key":{"list":[]}}}]}`, `{"securityRequirements":[{"schemes":{"key":{}}}]}`},
		"empty maps":             {`{"securitySchemes":{},"securityRequirements":[]}`, `{}`},
		"empty scheme":           {`{"securitySchemes":{"m":{"mtlsSecurityScheme":{"description":""}}}}`, `{"securitySchemes":{"m":{"mtlsSecurityScheme":{}}}}`},
		"flows":                  {`{"securitySchemes":{"o":{"oauth2SecurityScheme":{"flows":{"authorizationCode":{"scopes":{"a":""},"pkceRequired":false,"refreshUrl":""}}}}}}`, `{"securitySchemes":{"o":{"oauth2SecurityScheme":{"flows":{"authorizationCode":{"scopes":{"a":""}}}}}}}`},
		"parameters stay":        {`{"capabilities":{"extensions":[{"params":{"a":"","b":[],"c":null,"d":false,"e":{}}}]}}`, `{"capabilities":{"extensions":[{"params":{"a":"","b":[],"c":null,"d":false,"e":{}}}]}}`},
		"unknown fields stay":    {`{"x-b":"","x-a":null,"url":"","skills":[{"new":[]}]}`, `{"skills":[{"new":[]}],"url":"","x-a":null,"x-b":""}`},
		"numbers":                {`{"x":[-0,0.0,1E21,1e20,5e-324,1e-7,0.000001,333333333.33333329,1E30,4.50,2e-3,9007199254740993,1.7976931348623157e308]}`, `{"x":[0,0,1e+21,100000000000000000000,5e-324,1e-7,0.000001,333333333.3333333,1e+30,4.5,0.002,9007199254740992,1.7976931348623157e+308]}`},
		"strings":                {`{"x":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/\u007f\u2028"}`, "{\"x\":\"\u20ac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\u007f\u2028\"}"},
		"keys by UTF-16":         {`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`, "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"\u00f6\":7,\"\u20ac\":1,\"\U0001f600\":5,\"\ufb33\":3}"},
		"no Unicode normal form": {`{"x":"\u00c5 A\u030a"}`, "{\"x\":\"\u00c5 A\u030a\"}"},
		"wrong types stay":       {`{"name":5,"skills":{"a":""},"capabilities":[]}`, `{"capabilities":[],"name":5,"skills":{"a":""}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := card.CanonicalJSON([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestCanonicalJSONRefuses(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"duplicate key":          `{"name":"A","name":"A"}`,
		"duplicate, escaped":     `{"name":"A","n\u0061me":"B"}`,
		"duplicate within":       `{"x":[{"a":1,"a":1}]}`,
		"duplicate signatures":   `{"signatures":[],"signatures":[]}`,
		"high surrogate alone":   `{"x":"\ud83d"}`,
		"low surrogate alone":    `{"x":"\ude00"}`,
		"surrogates turned":      `{"x":"\ude00\ud83d"}`,
		"surrogate in a key":     `{"\ud83d":1}`,
		"invalid UTF-8":          "{\"x\":\"\xff\"}",
		"beyond the double":      `{"x":1e400}`,
		"number of another form": `{"x":01}`,
		"two values":             `{} {}`,
		"a list":                 `[]`,
		"nothing":                ``,
		"cut":                    `{"name":"A"`,
		"too deep":               `{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
		"too large":              `{"x":"` + strings.Repeat("a", card.MaxSize) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := card.CanonicalJSON([]byte(in)); err == nil {
				t.Errorf("it became %.80s", got)
			}
		})
	}
}

// The bytes of a card that is compared are those of a card that is signed.
func TestCanonicalFormsAgree(t *testing.T) {
	t.Parallel()
	c := load(t, file)
	for _, id := range c.AgentIDs() {
		built := card.Build(c.Agents[id], id, "https://a.example", "")
		want, err := card.Canonical(built)
		if err != nil {
			t.Fatal(err)
		}
		got, err := card.CanonicalJSON(built.AppendJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s: signed  %s\ncompared %s", id, got, want)
		}
	}
}

// Two implementations of RFC 8785 agree.
func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{`{"x":[1e21,5e-324,-0]}`, `{"\ufb33":1,"\ud83d\ude00":"\u2028"}`, `{"x":"\ud800"}`, `{"name":"A","capabilities":{"streaming":false}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := card.CanonicalJSON([]byte(in))
		if err != nil {
			return
		}
		again, err := card.CanonicalJSON(got)
		if err != nil || string(again) != string(got) {
			t.Fatalf("%q became %q, and then %q, %v", in, got, again, err)
		}
		other := jsontext.Value(strings.Clone(string(got)))
		if err := other.Canonicalize(); err != nil || string(other) != string(got) {
			t.Fatalf("%q here, %q elsewhere, %v", got, other, err)
		}
		_ = a2a.Unmarshal(got, new(a2a.AgentCard))
	})
}
