package form

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Check reports whether an answer fits the schema. The error is a *FieldError.
func (f *Form) Check(answer []byte) error {
	if len(answer) > MaxAnswer {
		return &FieldError{Reason: "is larger than " + strconv.Itoa(MaxAnswer) + " bytes"}
	}
	if depth(answer) > maxDepth {
		return &FieldError{Reason: "is nested too deep"}
	}
	var value any
	if err := json.Unmarshal(answer, &value); err != nil {
		return unread(err)
	}
	if object, ok := value.(map[string]any); ok {
		if err := f.checkFormats(object); err != nil {
			return err
		}
	}
	if err := f.schema.Validate(value); err != nil {
		if object, ok := value.(map[string]any); ok {
			if first := f.first(object); first != nil {
				return first
			}
		}
		return fieldError(err.Error())
	}
	return nil
}

// unread is the error of an answer that cannot be read.
func unread(err error) *FieldError {
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return &FieldError{Reason: "is not JSON"}
	}
	var path strings.Builder
	for name := range e.JSONPointer.Tokens() {
		if path.Len() > 0 {
			path.WriteByte('.')
		}
		path.WriteString(name)
	}
	reason := "cannot be read"
	if e.JSONKind == '0' {
		reason = "is a number that is too large"
	}
	return &FieldError{Field: clip(path.String()), Reason: reason}
}

// maxSearch bounds the search for the first field that does not fit, in bytes of
// schemas.
const maxSearch = 4 << 20

// first returns what is wrong with the first field of an answer that does not fit
// or is missing, nil when it is not found: a validation finds any.
func (f *Form) first(object map[string]any) error {
	if f.single || f.size*len(f.Fields) > maxSearch {
		return nil
	}
	root := follow(f.source, f.source)
	for i := range f.Fields {
		field := &f.Fields[i]
		value, there := object[field.Name]
		switch {
		case there:
		case field.Required:
			return &FieldError{Field: field.Name, Reason: "is missing"}
		default:
			continue
		}
		alone := (&jsonschema.Schema{
			Schema: f.source.Schema, Defs: f.source.Defs, Definitions: f.source.Definitions,
			Properties: map[string]*jsonschema.Schema{field.Name: root.Properties[field.Name]},
		}).CloneSchemas()
		resolved, err := alone.Resolve(nil)
		if err != nil {
			return nil
		}
		if err := resolved.Validate(map[string]any{field.Name: value}); err != nil {
			return fieldError(err.Error())
		}
	}
	return nil
}

// checkFormats checks dates, which a validation of JSON Schema leaves alone.
func (f *Form) checkFormats(object map[string]any) error {
	for i := range f.Fields {
		field := &f.Fields[i]
		text, ok := object[field.Name].(string)
		if !ok {
			continue
		}
		switch field.Kind {
		case Date:
			if _, err := time.Parse(time.DateOnly, text); err != nil {
				return &FieldError{Field: field.Name, Reason: "is not a date such as 2026-01-31"}
			}
		case DateTime:
			if _, err := time.Parse(time.RFC3339, text); err != nil {
				return &FieldError{Field: field.Name, Reason: "is not a time such as 2026-01-31T12:00:00Z"}
			}
		}
	}
	return nil
}

// fieldError reads from the message of a failed validation which field it is
// about.
func fieldError(message string) *FieldError {
	// A place below a definition stands for one below the field that refers to it.
	var field, above, definition string
	for {
		rest, ok := strings.CutPrefix(message, "validating ")
		if !ok {
			break
		}
		where, after, ok := strings.Cut(rest, ": ")
		if !ok {
			break
		}
		message = after
		if !strings.HasPrefix(where, "/") {
			continue
		}
		root, below := splitDefinition(where)
		if root != definition {
			above, definition = field, root
		}
		field = above
		if name := fieldPath(below); name != "" && above != "" && name[0] != '[' {
			field += "." + name
		} else {
			field += name
		}
	}
	e := &FieldError{Field: field, Reason: reason(message)}
	below := func(name string) {
		if e.Field != "" {
			e.Field += "."
		}
		e.Field += name
	}
	if names, ok := quoted(message, "required: missing properties: "); ok {
		below(names)
		e.Reason = "is missing"
	} else if names, ok := quoted(message, "unexpected additional properties "); ok {
		below(names)
		e.Reason = "is not asked for"
	}
	return e
}

// splitDefinition splits the place of a schema into the definition that it is in,
// "" for none, and the place below it.
func splitDefinition(pointer string) (definition, below string) {
	parts := strings.SplitN(strings.TrimPrefix(pointer, "/"), "/", 3)
	if len(parts) < 2 || parts[0] != "$defs" && parts[0] != "definitions" {
		return "", pointer
	}
	if len(parts) == 3 {
		below = "/" + parts[2]
	}
	return parts[0] + "/" + parts[1], below
}

// reasons tell people what the messages of a failed validation mean.
var reasons = []struct {
	message *regexp.Regexp
	reason  string
}{
	{regexp.MustCompile(`^type: .* has type "(\w+)", want "?(?:one of )?"?([\w, ]+)"$`), "is $1, and not $2"},
	{regexp.MustCompile(`^(?:minimum|exclusiveMinimum|maximum|exclusiveMaximum): \S+ is (.*?)\.?0*$`), "is $1"},
	{regexp.MustCompile(`^multipleOf: \S+ is not a multiple of (.*?)\.?0*$`), "is not a multiple of $1"},
	{regexp.MustCompile(`(?s)^minLength: .* fewer than (\d+)$`), "has fewer than $1 characters"},
	{regexp.MustCompile(`(?s)^maxLength: .* more than (\d+)$`), "has more than $1 characters"},
	{regexp.MustCompile(`^minItems: array length \d+ is less than (\d+)$`), "has fewer than $1 elements"},
	{regexp.MustCompile(`^maxItems: array length \d+ is greater than (\d+)$`), "has more than $1 elements"},
	{regexp.MustCompile(`(?s)^uniqueItems: .*$`), "has an element twice"},
	{regexp.MustCompile(`(?s)^enum: .* does not equal any of: \[(.*)\]$`), "is none of: $1"},
	{regexp.MustCompile(`(?s)^pattern: .* does not match regular expression (".*")$`), "does not look like $1"},
}

// reason tells what the message of a failed validation means.
func reason(message string) string {
	for _, r := range reasons {
		if m := r.message.FindStringSubmatchIndex(message); m != nil {
			return clip(string(r.message.ExpandString(nil, r.reason, message, m)))
		}
	}
	return "does not fit what is asked for"
}

// quoted returns the first of the quoted names that follow a beginning.
func quoted(message, beginning string) (string, bool) {
	rest, ok := strings.CutPrefix(message, beginning)
	if !ok {
		return "", false
	}
	rest = strings.TrimPrefix(rest, "[")
	first, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return "", false
	}
	name, err := strconv.Unquote(first)
	return clip(name), err == nil
}

// fieldPath turns the place of a schema into the name of the field that it is
// for.
func fieldPath(pointer string) string {
	var b strings.Builder
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := 0; i < len(parts); i++ {
		switch parts[i] {
		case "properties", "patternProperties":
			if i++; i < len(parts) {
				if b.Len() > 0 {
					b.WriteByte('.')
				}
				b.WriteString(strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i]))
			}
		case "items", "prefixItems":
			b.WriteString("[]")
		}
	}
	return b.String()
}

// Build makes an answer of what a person has written, field by field in the order
// of Fields: for a List one text an element, for all others one text, "" for
// nothing. The error is a *FieldError.
func (f *Form) Build(written [][]string) (jsontext.Value, error) {
	b := []byte{'{'}
	for i := range f.Fields {
		field := &f.Fields[i]
		var texts []string
		if i < len(written) {
			texts = written[i]
		}
		value, err := field.read(texts)
		if err != nil {
			return nil, err
		}
		if f.single {
			if value == nil {
				return nil, &FieldError{Reason: "is missing"}
			}
			return value, f.Check(value)
		}
		switch {
		case value == nil && field.Required:
			return nil, &FieldError{Field: field.Name, Reason: "is missing"}
		case value == nil:
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		var quoteErr error
		if b, quoteErr = jsontext.AppendQuote(b, field.Name); quoteErr != nil {
			return nil, &FieldError{Field: field.Name, Reason: "cannot be written"}
		}
		b = append(append(b, ':'), value...)
	}
	answer := jsontext.Value(append(b, '}'))
	return answer, f.Check(answer)
}

// Read makes a value of what a person has written in a field, nil for nothing.
func (f *Field) Read(written []string) (jsontext.Value, error) { return f.read(written) }

func (f *Field) read(written []string) (jsontext.Value, error) {
	if f.Kind != List {
		text := ""
		if len(written) > 0 {
			text = written[0]
		}
		return f.one(f.Kind, text)
	}
	list := []byte{'['}
	for _, text := range written {
		value, err := f.one(f.Items, text)
		if err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, value...)
	}
	if len(list) == 1 && !f.Required {
		return nil, nil
	}
	return append(list, ']'), nil
}

// one makes a value of one text.
func (f *Field) one(kind Kind, text string) (jsontext.Value, error) {
	bad := func(reason string) (jsontext.Value, error) {
		return nil, &FieldError{Field: f.Name, Reason: reason}
	}
	if kind != Text {
		text = strings.TrimSpace(text)
	}
	if text == "" {
		return nil, nil
	}
	switch kind {
	case Number, Integer:
		value := jsontext.Value(strings.Replace(text, ",", ".", 1))
		if strings.ContainsAny(text, " _") || value.Kind() != '0' || !value.IsValid() {
			return bad("is not a number")
		}
		n, err := strconv.ParseFloat(string(value), 64)
		if err != nil || kind == Integer && n != math.Trunc(n) {
			return bad("is not a whole number")
		}
		return value, nil
	case Boolean:
		switch strings.ToLower(text) {
		case "true", "yes", "y", "on", "1":
			return jsontext.Value("true"), nil
		case "false", "no", "n", "off", "0":
			return jsontext.Value("false"), nil
		}
		return bad("is neither yes nor no")
	case Choice:
		for _, o := range f.Options {
			if text == o.Label || text == plain(o.value) {
				return o.value, nil
			}
		}
		return bad("is none of the choices: " + f.Choices())
	case JSON:
		if !jsontext.Value(text).IsValid() {
			return bad("is not JSON")
		}
		return jsontext.Value(text), nil
	}
	value, err := jsontext.AppendQuote(nil, strings.ReplaceAll(text, "\r\n", "\n"))
	if err != nil {
		return bad("is not valid text")
	}
	if kind == DateTime {
		// What a browser's field for it gives has no seconds and no zone.
		if at, err := time.Parse("2006-01-02T15:04", text); err == nil {
			value, _ = jsontext.AppendQuote(nil, at.Format(time.RFC3339))
		}
	}
	return value, nil
}

// Choices names the options of a field.
func (f *Field) Choices() string {
	labels := make([]string, len(f.Options))
	for i, o := range f.Options {
		labels[i] = o.Label
	}
	return clip(strings.Join(labels, ", "))
}

// write writes a default as a person would.
func (f *Field) write(value jsontext.Value) string {
	if len(value) == 0 || !value.IsValid() {
		return ""
	}
	if f.Kind != List {
		return plain(value)
	}
	var list []jsontext.Value
	if json.Unmarshal(value, &list) != nil {
		return ""
	}
	lines := make([]string, len(list))
	for i, element := range list {
		lines[i] = plain(element)
	}
	return strings.Join(lines, "\n")
}

// Label is what a field is called to people.
func (f *Field) Label() string {
	if f.Title != "" {
		return f.Title
	}
	return f.Name
}
