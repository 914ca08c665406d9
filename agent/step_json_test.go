package agent_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

var stepTests = []struct {
	name string
	json string
	want agent.Step
	back string // what AppendJSON gives; "" is json
}{
	{"working", `{"working":"on it"}`, agent.Step{Working: agent.Say("on it")}, ""},
	{"working without a message", `{"working":{}}`, agent.Step{Working: &agent.Content{}}, ""},
	{"an empty text says nothing", `{"working":""}`, agent.Step{Working: &agent.Content{}}, `{"working":{}}`},
	{"null says nothing", `{"complete":null}`, agent.Step{Complete: &agent.Content{}}, `{"complete":{}}`},
	{"text as an object", `{"fail":{"text":"no"}}`, agent.Step{Fail: agent.Say("no")}, `{"fail":"no"}`},
	{
		"parts", `{"reject":[{"text":"a"},{"data":{"b":1.10,"a":"<>"}}]}`,
		agent.Step{Reject: &agent.Content{Parts: []a2a.Part{a2a.Text("a"), a2a.Data(a2a.JSON(`{"b":1.10,"a":"<>"}`))}}},
		"",
	},
	{
		"parts and metadata", `{"message":{"parts":[{"text":"hi"}],"metadata":{"k":1}}}`,
		agent.Step{Message: &agent.Content{Parts: []a2a.Part{a2a.Text("hi")}, Metadata: a2a.JSON(`{"k":1}`)}},
		"",
	},
	{
		"a part of an empty text", `{"message":[{"text":""}]}`,
		agent.Step{Message: agent.Say("")},
		"",
	},
	{
		"artifact", `{"artifact":{"id":"a","name":"n","description":"d","parts":[{"raw":"AAE=","filename":"f","mediaType":"x/y"},{"url":"https://x/"}],"append":true,"last":true,"metadata":{"m":null}}}`,
		agent.Step{Artifact: &agent.Artifact{
			ID: "a", Name: "n", Description: "d", Append: true, Last: true,
			Parts:    []a2a.Part{a2a.Raw([]byte{0, 1}, "x/y", "f"), a2a.URL("https://x/", "", "")},
			Metadata: a2a.JSON(`{"m":null}`),
		}},
		"",
	},
	{
		"ask", `{"ask":"Incoterm?","schema":{"type":"string"}}`,
		agent.Step{Ask: &agent.Ask{Content: *agent.Say("Incoterm?"), Schema: a2a.JSON(`{"type":"string"}`)}},
		"",
	},
	{"ask without words", `{"ask":{}}`, agent.Step{Ask: &agent.Ask{}}, ""},
	{
		"authorize", `{"authorize":"Post?","operation":"post","url":"https://x.example/go","expires":"2030-01-02T03:04:05Z"}`,
		agent.Step{Authorize: &agent.Authorize{
			Content: *agent.Say("Post?"), Operation: "post", URL: "https://x.example/go",
			Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		}},
		"",
	},
	{
		"delegate", `{"delegate":{"to":"supplier","message":"Quote PO-1","ref":"PO-1","again":true,"skill":"quote","deadline":"2h0m0s"}}`,
		agent.Step{Delegate: &agent.Delegate{To: "supplier", Content: *agent.Say("Quote PO-1"), Ref: "PO-1", Again: true, Skill: "quote", Within: 2 * time.Hour}},
		"",
	},
	{
		"delegate parts", `{"delegate":{"to":"supplier","message":{"parts":[{"data":{"n":1.0}}],"metadata":{"k":1}}}}`,
		agent.Step{Delegate: &agent.Delegate{To: "supplier", Content: agent.Content{
			Parts: []a2a.Part{a2a.Data(a2a.JSON(`{"n":1.0}`))}, Metadata: a2a.JSON(`{"k":1}`),
		}}},
		"",
	},
	{"wait", `{"wait":{"for":"30m0s"}}`, agent.Step{Wait: &agent.Wait{For: 30 * time.Minute}}, ""},
	{"state", `{"state":{"z":1,"a":[2e5]}}`, agent.Step{State: a2a.JSON(`{"z":1,"a":[2e5]}`)}, ""},
	{"state of null", `{"state":null}`, agent.Step{State: a2a.JSON(`null`)}, ""},
	{"white space", " {\n\"fail\" :\t\"x\" } \n", agent.Step{Fail: agent.Say("x")}, `{"fail":"x"}`},
}

func TestStepJSON(t *testing.T) {
	t.Parallel()
	schema := resolve(t, agent.StepSchema)
	for _, test := range stepTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := agent.ParseStep([]byte(test.json))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
			want := test.back
			if want == "" {
				want = test.json
			}
			back := string(got.AppendJSON(nil))
			if back != want {
				t.Errorf("JSON is %s, want %s", back, want)
			}
			for _, text := range []string{test.json, back} {
				if err := validate(t, schema, text); err != nil {
					t.Errorf("the schema refuses %s: %v", text, err)
				}
			}
		})
	}
}

func TestParseStepRefuses(t *testing.T) {
	t.Parallel()
	schema := resolve(t, agent.StepSchema)
	for _, test := range []struct {
		json   string
		want   string
		beyond bool // what the schema cannot say
	}{
		{json: `{"complet":"x"}`, want: `unknown key "complet"`},
		{json: `{"complete":"x","colour":1}`, want: `unknown key "colour" in a step "complete"`},
		{json: `{"complete":"x","fail":"y"}`, want: "complete and fail"},
		{json: `{"complete":"x","complete":"y"}`, want: "duplicate", beyond: true},
		{json: `{}`, want: "a step has one of the keys"},
		{json: `[]`, want: "want an object"},
		{json: `"complete"`, want: "want an object"},
		{json: `{"complete":`, want: "ends too early", beyond: true},
		{json: `{"complete":"x"} {}`, want: "something follows", beyond: true},
		{json: `complete`, want: "not JSON", beyond: true},
		{json: ``, want: "ends too early", beyond: true},
		{json: `{"delegate":{"to":"supplier"}}`, want: "delegate.message: says nothing"},
		{json: `{"delegate":{"message":"Quote, please."}}`, want: "delegate.to: is missing"},
		{json: `{"delegate":{"to":"supplier","message":"Quote","deadline":"soon"}}`, want: "delegate.deadline: want a duration such as 2h", beyond: true},
		{json: `{"delegate":{"to":"supplier","message":"Quote","reference":"PO-1"}}`, want: `delegate: unknown key "reference"`},
		{json: `{"working":5}`, want: "working: want a string, an array of parts or an object"},
		{json: `{"working":{"txt":"x"}}`, want: `working: unknown key "txt"`},
		{json: `{"working":{"text":"x","parts":[]}}`, want: "both text and parts"},
		{json: `{"working":{"metadata":{}}}`, want: "has metadata but says nothing", beyond: true},
		{json: `{"working":{"text":"x","metadata":[]}}`, want: "working.metadata: want an object"},
		{json: `{"message":{}}`, want: "message: has no parts", beyond: true},
		{json: `{"message":[{}]}`, want: "message[0]: a part has one of text, raw, url and data"},
		{json: `{"message":[{"text":"a","url":"b"}]}`, want: "message[0]: has more than one content: text, url"},
		{json: `{"message":[{"raw":"*"}]}`, want: "message[0]: raw", beyond: true},
		{json: `{"artifact":{}}`, want: "artifact.parts: has no part"},
		{json: `{"artifact":{"parts":[]}}`, want: "artifact.parts: has no part"},
		{json: `{"artifact":{"parts":"x"}}`, want: "artifact.parts: want an array"},
		{json: `{"artifact":{"parts":[{"text":"x"}],"append":"yes"}}`, want: "artifact.append: want true or false"},
		{json: `{"artifact":{"parts":[{"text":"x"}],"ID":"yes"}}`, want: `artifact: unknown key "ID"`},
		{json: `{"artifact":{"parts":[{"text":"x"}],"id":"` + strings.Repeat("x", 257) + `"}}`, want: "artifact.id: has more than 256 bytes"},
		{json: `{"artifact":{"parts":[{"text":"x"}],"name":5}}`, want: "artifact.name: want a string"},
		{json: `{"working":"x","schema":{}}`, want: `unknown key "schema" in a step "working"`},
		{json: `{"ask":"x","schema":"x"}`, want: "schema: want a JSON Schema"},
		{json: `{"ask":"x","operation":"x"}`, want: `unknown key "operation"`},
		{json: `{"authorize":"x","url":"javascript:alert(1)"}`, want: "url: want an absolute http or https address"},
		{json: `{"authorize":"x","expires":"tomorrow"}`, want: "expires: want a time", beyond: true},
		{json: `{"authorize":"x","expires":"-1h"}`, want: "is not positive", beyond: true},
		{json: `{"authorize":"x","operation":7}`, want: "operation: want a string"},
		{json: `{"wait":{}}`, want: "wait.for: want a duration"},
		{json: `{"wait":{"for":"30m","until":"x"}}`, want: `wait: unknown key "until"`},
		{json: `{"wait":{"for":"0s"}}`, want: "wait.for: 0s is not between", beyond: true},
		{json: `{"wait":{"for":"9000h"}}`, want: "wait.for: 9000h0m0s is not between", beyond: true},
		{json: `{"state":"` + strings.Repeat("x", 1<<20) + `"}`, want: "state: has more than", beyond: true},
	} {
		_, err := agent.ParseStep([]byte(test.json))
		if err == nil {
			t.Errorf("%.80s is a step", test.json)
			continue
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.80s: error is %q, want %q", test.json, err, test.want)
		}
		if test.beyond {
			continue
		}
		if validate(t, schema, test.json) == nil {
			t.Errorf("the schema accepts %.80s", test.json)
		}
	}
}

func TestParseStepBoundsItsInput(t *testing.T) {
	t.Parallel()
	long := append(append([]byte(`{"fail":"`), bytes.Repeat([]byte("x"), agent.MaxStepBytes)...), `"}`...)
	if _, err := agent.ParseStep(long); err == nil || !strings.Contains(err.Error(), "at most 16777216 bytes") {
		t.Errorf("error is %v", err)
	}
	deep := `{"state":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`
	if _, err := agent.ParseStep([]byte(deep)); err == nil {
		t.Error("a state of 100,000 levels is a step")
	}
}

func TestParseSteps(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`{"fail":"x"}`: 1, ` [{"working":{}},{"fail":"x"}] `: 2, `[]`: 0,
	} {
		steps, err := agent.ParseSteps([]byte(text))
		if err != nil || len(steps) != want {
			t.Errorf("%s: %d steps and error %v, want %d", text, len(steps), err, want)
		}
	}
	for text, want := range map[string]string{
		`[{"working":{}},{"fial":"x"}]`: `step 2: unknown key "fial"`,
		`[{"working":{}}`:               "ends too early",
		`[{"working":{}}] 1`:            "something follows",
		`7`:                             "want an object",
	} {
		if _, err := agent.ParseSteps([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q", text, err, want)
		}
	}
}

func TestParsedStepSharesNoMemory(t *testing.T) {
	t.Parallel()
	data := []byte(`{"artifact":{"parts":[{"data":{"a":1}},{"text":"abc"}],"metadata":{"b":2}}}`)
	s, err := agent.ParseStep(data)
	if err != nil {
		t.Fatal(err)
	}
	want := string(s.AppendJSON(nil))
	for i := range data {
		data[i] = 'X'
	}
	if got := string(s.AppendJSON(nil)); got != want {
		t.Errorf("the step is now %s", got)
	}
}

func TestValidateStepOfGo(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]agent.Step{
		"this one does 0":                        {},
		"this one does 2":                        {Working: agent.Say("x"), State: a2a.JSON(`1`)},
		"state: is not valid JSON":               {State: a2a.JSON(`{`)},
		"complete[0]: the data is not valid":     {Complete: &agent.Content{Parts: []a2a.Part{a2a.Data(a2a.JSON(`{"a"}`))}}},
		"complete[0]: a part has one of":         {Complete: &agent.Content{Parts: []a2a.Part{{}}}},
		"artifact.parts[1]: the url is empty":    {Artifact: &agent.Artifact{Parts: []a2a.Part{a2a.Text("x"), a2a.URL("", "", "")}}},
		"artifact.metadata: want an object":      {Artifact: &agent.Artifact{Parts: []a2a.Part{a2a.Text("x")}, Metadata: a2a.JSON(`[]`)}},
		"schema: is not valid JSON":              {Ask: &agent.Ask{Schema: a2a.JSON(`{]`)}},
		"operation: has more than 256 bytes":     {Authorize: &agent.Authorize{Operation: strings.Repeat("x", 257)}},
		"url: want an absolute":                  {Authorize: &agent.Authorize{URL: "/go"}},
		"message[0]: metadata: is not valid JSO": {Message: &agent.Content{Parts: []a2a.Part{{Kind: a2a.PartText, Metadata: a2a.JSON(`{,}`)}}}},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

func FuzzParseStep(f *testing.F) {
	for _, test := range stepTests {
		f.Add([]byte(test.json))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := agent.ParseStep(data)
		if err != nil {
			return
		}
		text := s.AppendJSON(nil)
		again, err := agent.ParseStep(text)
		if err != nil {
			t.Fatalf("%s became %s: %v", data, text, err)
		}
		if s.Authorize != nil && again.Authorize != nil { // a duration counts from now
			s.Authorize.Expires, again.Authorize.Expires = time.Time{}, time.Time{}
		}
		if diff := cmp.Diff(s, again); diff != "" {
			t.Fatalf("%s became %s (-want +got):\n%s", data, text, diff)
		}
	})
}

func TestSchemaFilesAreWhatIsExported(t *testing.T) {
	t.Parallel()
	for name, embedded := range map[string][]byte{"step.schema.json": agent.StepSchema, "turn.schema.json": agent.TurnSchema} {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(file, embedded) || !json.Valid(embedded) {
			t.Errorf("%s is not what is exported", name)
		}
	}
}

func resolve(t *testing.T, text []byte) *jsonschema.Resolved {
	t.Helper()
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func validate(t *testing.T, schema *jsonschema.Resolved, text string) error {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return schema.Validate(v)
}
