package bridge

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/form"
	"handoff.example/handoff/internal/mcp"
)

// question is what an agent asks, as MCP asks it: a form that is one flat object
// of simple values (ELI-01).
type question struct {
	key     string
	message string
	schema  jsontext.Value // requestedSchema
	// How the content of the form is the answer: as it is, the value of its one
	// member, or that as a text.
	kind answerKind
}

type answerKind int

const (
	answerObject answerKind = iota
	answerValue
	answerText
)

// answerName is the one member of a form that asks for a single value.
const answerName = "answer"

// questionFor is the question of a task that asks for input.
func questionFor(t *a2a.Task) question {
	q := question{key: keyOf(t), kind: answerText, message: "The agent asks for input"}
	if t.Status.Message == nil {
		q.schema = textForm("")
		return q
	}
	if text := saidBy(t); text != "" {
		q.message = text
	}
	schema := schemaIn(t.Status.Message.Parts)
	if flat, ok := flatten(schema); ok {
		q.schema, q.kind = flat, answerObject
		return q
	}
	if one, ok := simple(schema); ok {
		q.kind = answerValue
		q.schema = object([]member{
			{"type", jsontext.Value(`"object"`)},
			{"properties", object([]member{{answerName, one}})},
			{"required", jsontext.Value(`["` + answerName + `"]`)},
		})
		return q
	}
	note := ""
	if schema != nil {
		note = "JSON that fits the schema: " + short(string(schema), maxShown)
	}
	q.schema = textForm(note)
	return q
}

// textForm asks for a text.
func textForm(description string) jsontext.Value {
	field := []member{{"type", jsontext.Value(`"string"`)}}
	if description != "" {
		field = append(field, member{"description", quoted(description)})
	}
	return object([]member{
		{"type", jsontext.Value(`"object"`)},
		{"properties", object([]member{{answerName, object(field)}})},
		{"required", jsontext.Value(`["` + answerName + `"]`)},
	})
}

// keyOf is the key of what a task asks now. Each question has another message, and
// so another key (TSK-10).
func keyOf(t *a2a.Task) string {
	id := t.Status.Timestamp.UTC().String()
	if m := t.Status.Message; m != nil {
		id = m.MessageID
	}
	sum := sha256.Sum256([]byte(t.ID + "\x00" + id))
	return "ask-" + hex.EncodeToString(sum[:8])
}

// request is the question as an elicitation.
func (q *question) request() jsontext.Value {
	return object([]member{
		{"method", quoted(mcp.MethodElicit)},
		{"params", object([]member{
			{"mode", jsontext.Value(`"form"`)}, {"message", quoted(q.message)}, {"requestedSchema", q.schema},
		})},
	})
}

// urlRequest asks a person to go where an authorization is given (ELI-05).
func urlRequest(t *a2a.Task, url string) jsontext.Value {
	message := saidBy(t)
	if message == "" {
		message = "The agent needs an authorization to go on"
	}
	return object([]member{
		{"method", quoted(mcp.MethodElicit)},
		{"params", object([]member{
			{"mode", jsontext.Value(`"url"`)}, {"message", quoted(message)}, {"url", quoted(url)},
		})},
	})
}

// Keywords of the schemas that forms may have (MCP client/elicitation §Requested
// Schema).
var (
	formTypes   = []string{"string", "number", "integer", "boolean"}
	formFormats = []string{"email", "uri", "date", "date-time"}
	formWords   = []string{"type", "title", "description", "default", "enum", "enumNames", "oneOf", "minLength", "maxLength", "pattern", "minimum", "maximum", "format", "items", "minItems", "maxItems"}
)

// flatten returns an object schema as a form can have it, and false where it asks
// for more than that.
func flatten(schema jsontext.Value) (jsontext.Value, bool) {
	if schema == nil || textOf(schema, "type") != "object" {
		return nil, false
	}
	for _, word := range []string{"$ref", "allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "dependentSchemas", "dependentRequired"} {
		if valueOf(schema, word) != nil {
			return nil, false
		}
	}
	properties, ok := membersOf(valueOf(schema, "properties"))
	if !ok || len(properties) == 0 {
		return nil, false
	}
	var required []string
	if v := valueOf(schema, "required"); v != nil && json.Unmarshal(v, &required) != nil {
		return nil, false
	}
	var reduced []member
	for _, p := range properties {
		one, ok := simple(p.value)
		if !ok {
			if slices.Contains(required, p.name) {
				return nil, false
			}
			continue // it need not be filled in
		}
		reduced = append(reduced, member{p.name, one})
	}
	for _, name := range required {
		if !slices.ContainsFunc(reduced, func(m member) bool { return m.name == name }) {
			return nil, false
		}
	}
	if len(reduced) == 0 {
		return nil, false
	}
	out := []member{{"type", jsontext.Value(`"object"`)}, {"properties", object(reduced)}}
	if len(required) > 0 {
		text, err := json.Marshal(required)
		if err != nil {
			return nil, false
		}
		out = append(out, member{"required", text})
	}
	return object(out), true
}

// simple returns the schema of a simple value as a form can have it.
func simple(schema jsontext.Value) (jsontext.Value, bool) {
	list, ok := membersOf(schema)
	if !ok {
		return nil, false
	}
	kind := textOf(schema, "type")
	values := valueOf(schema, "enum")
	if kind == "" && values != nil && stringsOnly(values) {
		kind = "string"
	}
	switch {
	case kind == "array":
		items := valueOf(schema, "items")
		if enum := valueOf(items, "enum"); !stringsOnly(enum) && !titled(valueOf(items, "anyOf")) {
			return nil, false
		}
	case !slices.Contains(formTypes, kind):
		return nil, false
	case values != nil && (kind != "string" || !stringsOnly(values)):
		return nil, false
	}
	if v := valueOf(schema, "oneOf"); v != nil && !titled(v) {
		return nil, false
	}
	out := []member{{"type", quoted(kind)}}
	for _, m := range list {
		switch {
		case m.name == "type":
		case m.name == "format" && !slices.ContainsFunc(formFormats, func(f string) bool { return string(quoted(f)) == string(m.value) }):
		case slices.Contains(formWords, m.name):
			out = append(out, m)
		case slices.Contains([]string{"$ref", "allOf", "anyOf", "not", "if", "const"}, m.name):
			return nil, false
		}
	}
	return object(out), true
}

// stringsOnly reports whether a value is an array of strings.
func stringsOnly(v jsontext.Value) bool {
	var list []string
	return v.Kind() == '[' && json.Unmarshal(v, &list) == nil && len(list) > 0
}

// titled reports whether a value is a list of constants with titles.
func titled(v jsontext.Value) bool {
	var list []struct {
		Const *string `json:"const"`
		Title *string `json:"title"`
	}
	if v.Kind() != '[' || json.Unmarshal(v, &list) != nil || len(list) == 0 {
		return false
	}
	for _, one := range list {
		if one.Const == nil || one.Title == nil {
			return false
		}
	}
	return true
}

// errDismissed says that a person has put a question aside without an answer.
var errDismissed = errors.New("the question was put aside")

// answerTo makes a message of what was answered to the question of a task, nil
// when there is no answer to it (ELI-04).
func answerTo(t *a2a.Task, answers []member, message *a2a.Message) (*a2a.Message, error) {
	i := slices.IndexFunc(answers, func(m member) bool { return m.name == keyOf(t) })
	if i < 0 || t.Status.State != a2a.StateInputRequired {
		return nil, nil // an accepted URL is no grant: that comes from who gives it
	}
	q := questionFor(t)
	switch textOf(answers[i].value, "action") {
	case "accept":
	case "decline":
		message.Parts = []a2a.Part{a2a.Text("The question was declined.")}
		return message, nil
	case "cancel":
		return nil, errDismissed
	default:
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "inputResponses.%s.action has to be accept, decline or cancel", short(answers[i].name, 64))
	}
	content := valueOf(answers[i].value, "content")
	if content.Kind() != '{' {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "inputResponses.%s.content has to be an object", short(answers[i].name, 64))
	}
	parts, err := q.parts(t, content)
	if err != nil {
		return nil, err
	}
	message.Parts = parts
	return message, nil
}

// parts are the parts of the answer that the content of the form is.
func (q *question) parts(t *a2a.Task, content jsontext.Value) ([]a2a.Part, error) {
	if err := checked(q.schema, content); err != nil {
		return nil, err
	}
	value := content
	if q.kind != answerObject {
		value = valueOf(content, answerName)
	}
	text := plainText(value)
	if q.kind == answerText {
		// Where the agent wants JSON and gets it, it gets it as such.
		if schema := schemaIn(t.Status.Message.Parts); schema != nil {
			if v := jsontext.Value(text); v.IsValid() && checked(schema, v) == nil {
				return answerParts(v, text), nil
			}
		}
		if text == "" {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "The answer is empty")
		}
		return []a2a.Part{a2a.Text(text)}, nil
	}
	return answerParts(value, text), nil
}

// answerParts are data and the same in words, for agents that read either.
func answerParts(value jsontext.Value, text string) []a2a.Part {
	data := a2a.Data(a2a.JSON(value))
	data.MediaType = "application/json"
	if text == "" {
		return []a2a.Part{data}
	}
	return []a2a.Part{data, a2a.Text(text)}
}

// plainText is a value in words: a text as it is, an object line by line.
func plainText(value jsontext.Value) string {
	switch value.Kind() {
	case '"':
		var text string
		_ = json.Unmarshal(value, &text)
		return text
	case '{':
		list, _ := membersOf(value)
		lines := make([]string, len(list))
		for i, m := range list {
			lines[i] = m.name + ": " + plainText(m.value)
		}
		return strings.Join(lines, "\n")
	case 0, 'n':
		return ""
	}
	return string(value)
}

// checked reports what of a value does not fit a schema. A schema that cannot be
// used refuses nothing: it is somebody else's.
func checked(schema, value jsontext.Value) error {
	f, err := form.New(schema)
	if err != nil {
		return nil
	}
	if err := f.Check(value); err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "The answer does not fit: %v", err)
	}
	return nil
}

func newMessageID() string { return "mcp-" + rand.Text() }
