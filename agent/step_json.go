package agent

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// Bounds of a step. Larger ones are refused by ParseStep and Step.Validate.
const (
	// MaxStepBytes is how long the JSON of one step may be.
	MaxStepBytes = 16 << 20
	// MaxWait is how long a Wait step may park a task.
	MaxWait = 365 * 24 * time.Hour

	maxParts       = 10_000
	maxIDBytes     = 256
	maxNameBytes   = 1 << 10
	maxTextBytes   = 16 << 10
	maxURLBytes    = 2 << 10
	maxStateBytes  = 1 << 20
	maxSchemaBytes = 256 << 10
)

// ParseStep reads the JSON of one step: an object whose one key says what the
// step does. It is strict, so that a misspelt key is an error that names it and
// not a step that does less than its author meant. A step that it returns is
// valid (see Step.Validate) and shares no memory with data.
func ParseStep(data []byte) (Step, error) {
	if len(data) > MaxStepBytes {
		return Step{}, fmt.Errorf("a step has at most %d bytes, this one has %d", MaxStepBytes, len(data))
	}
	o, err := parseObject("", data)
	if err != nil {
		return Step{}, err
	}
	key, err := stepKey(o)
	if err != nil {
		return Step{}, err
	}
	s, err := parseStepOf(key, o)
	if err != nil {
		return Step{}, err
	}
	if err := o.unknown(); err != nil {
		return Step{}, fmt.Errorf("%w in a step %q", err, key)
	}
	if err := s.Validate(); err != nil {
		return Step{}, err
	}
	return s, nil
}

// ParseSteps reads the JSON of one step, or of an array of steps.
func ParseSteps(data []byte) ([]Step, error) {
	if jsontext.Value(data).Kind() != '[' {
		s, err := ParseStep(data)
		if err != nil {
			return nil, err
		}
		return []Step{s}, nil
	}
	values, err := parseArray("", data)
	if err != nil {
		return nil, err
	}
	steps := make([]Step, len(values))
	for i, v := range values {
		if steps[i], err = ParseStep(v); err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return steps, nil
}

// stepKeys are the keys of which a step has one.
var stepKeys = [...]string{
	"working", "artifact", "ask", "authorize", "delegate", "wait", "state", "message", "complete", "fail", "reject",
}

func stepKey(o *object) (string, error) {
	var found []string
	for _, k := range stepKeys {
		if _, ok := o.members[k]; ok {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if err := o.unknown(); err != nil {
			return "", fmt.Errorf("%w: a step has one of the keys %s", err, strings.Join(stepKeys[:], ", "))
		}
		return "", fmt.Errorf("a step has one of the keys %s", strings.Join(stepKeys[:], ", "))
	}
	return "", fmt.Errorf("a step does one thing, this one has the keys %s", strings.Join(found, " and "))
}

func parseStepOf(key string, o *object) (s Step, err error) {
	value := o.take(key)
	switch key {
	case "working":
		s.Working, err = parseContent(key, value)
	case "message":
		s.Message, err = parseContent(key, value)
	case "complete":
		s.Complete, err = parseContent(key, value)
	case "fail":
		s.Fail, err = parseContent(key, value)
	case "reject":
		s.Reject, err = parseContent(key, value)
	case "artifact":
		s.Artifact, err = parseArtifact(value)
	case "ask":
		s.Ask, err = parseAsk(value, o)
	case "authorize":
		s.Authorize, err = parseAuthorize(value, o)
	case "wait":
		s.Wait, err = parseWait(value)
	case "state":
		s.State = value
	case "delegate":
		s.Delegate, err = parseDelegate(value)
	}
	return s, err
}

// parseContent reads what a step says: a string, an array of parts, or an object
// with text or parts, and metadata. Null, {} and "" say nothing.
func parseContent(path string, value jsontext.Value) (*Content, error) {
	c := new(Content)
	switch value.Kind() {
	case 'n':
		return c, nil
	case '"':
		text, err := parseString(path, value)
		if err != nil {
			return nil, err
		}
		if text != "" {
			c.Parts = []a2a.Part{a2a.Text(text)}
		}
		return c, nil
	case '[':
		parts, err := parseParts(path, value)
		c.Parts = parts
		return c, err
	case '{':
	default:
		return nil, fmt.Errorf("%s: want a string, an array of parts or an object", path)
	}
	o, err := parseObject(path, value)
	if err != nil {
		return nil, err
	}
	text, hasText := o.members["text"]
	parts, hasParts := o.members["parts"]
	switch {
	case hasText && hasParts:
		return nil, fmt.Errorf("%s: has both text and parts", path)
	case hasText:
		said, err := parseContent(path+".text", text)
		if err != nil {
			return nil, err
		}
		c.Parts = said.Parts
	case hasParts:
		if c.Parts, err = parseParts(path+".parts", parts); err != nil {
			return nil, err
		}
	}
	o.drop("text", "parts")
	c.Metadata = o.optional("metadata")
	return c, o.unknown()
}

func parseParts(path string, value jsontext.Value) ([]a2a.Part, error) {
	values, err := parseArray(path, value)
	if err != nil {
		return nil, err
	}
	if len(values) > maxParts {
		return nil, fmt.Errorf("%s: has more than %d parts", path, maxParts)
	}
	if len(values) == 0 {
		return nil, nil
	}
	parts := make([]a2a.Part, len(values))
	for i, v := range values {
		if err := a2a.Unmarshal(v, &parts[i]); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", path, i, fieldError(err))
		}
	}
	return parts, nil
}

// fieldError says what a protocol error says about a field, in our own form.
func fieldError(err error) error {
	e, ok := errors.AsType[*a2a.Error](err)
	if !ok || len(e.Violations) == 0 {
		return err
	}
	v := e.Violations[0]
	if v.Field == "" {
		return errors.New(v.Description)
	}
	return fmt.Errorf("%s %s", v.Field, v.Description)
}

func parseArtifact(value jsontext.Value) (*Artifact, error) {
	o, err := parseObject("artifact", value)
	if err != nil {
		return nil, err
	}
	a := &Artifact{
		ID:          o.string("id"),
		Name:        o.string("name"),
		Description: o.string("description"),
		Append:      o.boolean("append"),
		Last:        o.boolean("last"),
		Metadata:    o.optional("metadata"),
		Extensions:  o.strings("extensions"),
	}
	if v := o.optional("parts"); v != nil {
		if a.Parts, err = parseParts("artifact.parts", v); err != nil {
			return nil, err
		}
	}
	return a, o.end()
}

func parseAsk(value jsontext.Value, o *object) (*Ask, error) {
	c, err := parseContent("ask", value)
	if err != nil {
		return nil, err
	}
	return &Ask{Content: *c, Schema: o.optional("schema")}, nil
}

func parseAuthorize(value jsontext.Value, o *object) (*Authorize, error) {
	c, err := parseContent("authorize", value)
	if err != nil {
		return nil, err
	}
	a := &Authorize{Content: *c, Operation: o.string("operation"), URL: o.string("url")}
	if expires := o.string("expires"); expires != "" {
		if a.Expires, err = ParseExpires(expires, time.Now()); err != nil {
			return nil, fmt.Errorf("expires: %w", err)
		}
	}
	return a, o.err
}

// ParseExpires reads when a grant request expires: a time as RFC 3339 has it, or
// a duration from now, such as 24h.
func ParseExpires(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil {
		if d <= 0 {
			return time.Time{}, fmt.Errorf("the duration %s is not positive", s)
		}
		return now.Add(d).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, errors.New("want a time such as 2026-01-31T12:00:00Z, or a duration such as 24h")
	}
	return t, nil
}

func parseWait(value jsontext.Value) (*Wait, error) {
	o, err := parseObject("wait", value)
	if err != nil {
		return nil, err
	}
	text := o.string("for")
	if err := o.end(); err != nil {
		return nil, err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, errors.New("wait.for: want a duration such as 30m")
	}
	return &Wait{For: d}, nil
}

func parseDelegate(value jsontext.Value) (*Delegate, error) {
	o, err := parseObject("delegate", value)
	if err != nil {
		return nil, err
	}
	d := &Delegate{To: o.string("to"), Ref: o.string("ref"), Again: o.boolean("again"), Skill: o.string("skill")}
	if within := o.string("deadline"); within != "" {
		if d.Within, err = time.ParseDuration(within); err != nil || d.Within <= 0 {
			return nil, errors.New("delegate.deadline: want a duration such as 2h")
		}
	}
	if message := o.optional("message"); message != nil {
		c, err := parseContent("delegate.message", message)
		if err != nil {
			return nil, err
		}
		d.Content = *c
	}
	return d, o.end()
}

// Validate reports whether the step can be carried out: it does exactly one
// thing, every part has one content, an artifact has a part, free JSON is
// valid, and sizes and durations are within bounds. The error names the field.
func (s Step) Validate() error {
	n := 0
	for _, c := range []struct {
		name    string
		content *Content
	}{
		{"working", s.Working},
		{"message", s.Message},
		{"complete", s.Complete},
		{"fail", s.Fail},
		{"reject", s.Reject},
	} {
		if c.content == nil {
			continue
		}
		n++
		if err := c.content.validate(c.name); err != nil {
			return err
		}
	}
	if s.Message != nil && len(s.Message.Parts) == 0 {
		return errors.New("message: has no parts")
	}
	if s.Artifact != nil {
		n++
		if err := s.Artifact.validate(); err != nil {
			return err
		}
	}
	if s.Ask != nil {
		n++
		if err := s.Ask.validate(); err != nil {
			return err
		}
	}
	if s.Authorize != nil {
		n++
		if err := s.Authorize.validate(); err != nil {
			return err
		}
	}
	if s.Delegate != nil {
		n++
		if err := s.Delegate.validate(); err != nil {
			return err
		}
	}
	if s.Wait != nil {
		n++
		if s.Wait.For < 0 || s.Wait.For > MaxWait || s.Wait.For == 0 && !s.Wait.Callback {
			return fmt.Errorf("wait.for: %s is not between 0 and %s", s.Wait.For, MaxWait)
		}
	}
	if s.State != nil {
		n++
		if err := validateJSON("state", s.State, maxStateBytes); err != nil {
			return err
		}
	}
	if n != 1 {
		return fmt.Errorf("a step does one thing, this one does %d", n)
	}
	return nil
}

func (c *Content) validate(path string) error {
	if c.Metadata != nil && len(c.Parts) == 0 {
		return fmt.Errorf("%s: has metadata but says nothing", path)
	}
	if err := validateParts(path, c.Parts); err != nil {
		return err
	}
	return validateObject(path+".metadata", c.Metadata)
}

func (a *Artifact) validate() error {
	if len(a.Parts) == 0 {
		return errors.New("artifact.parts: has no part")
	}
	if err := validateParts("artifact.parts", a.Parts); err != nil {
		return err
	}
	return errors.Join(
		validateLength("artifact.id", a.ID, maxIDBytes),
		validateLength("artifact.name", a.Name, maxNameBytes),
		validateLength("artifact.description", a.Description, maxTextBytes),
		validateObject("artifact.metadata", a.Metadata),
	)
}

func (a *Ask) validate() error {
	if err := a.Content.validate("ask"); err != nil {
		return err
	}
	if a.Schema == nil {
		return nil
	}
	if err := validateJSON("schema", a.Schema, maxSchemaBytes); err != nil {
		return err
	}
	if k := a.Schema.Kind(); k != '{' && k != 't' && k != 'f' {
		return errors.New("schema: want a JSON Schema, which is an object")
	}
	return nil
}

func (a *Authorize) validate() error {
	if err := a.Content.validate("authorize"); err != nil {
		return err
	}
	if err := validateLength("operation", a.Operation, maxIDBytes); err != nil {
		return err
	}
	if a.URL == "" {
		return nil
	}
	if err := validateLength("url", a.URL, maxURLBytes); err != nil {
		return err
	}
	u, err := url.Parse(a.URL)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return errors.New("url: want an absolute http or https address")
	}
	return nil
}

func (d *Delegate) validate() error {
	if d.To == "" {
		return errors.New("delegate.to: is missing")
	}
	if len(d.Parts) == 0 {
		return errors.New("delegate.message: says nothing")
	}
	if d.Within < 0 || d.Within > MaxWait {
		return fmt.Errorf("delegate.deadline: %s is not between 0 and %s", d.Within, MaxWait)
	}
	return errors.Join(
		d.Content.validate("delegate.message"),
		validateLength("delegate.to", d.To, maxIDBytes),
		validateLength("delegate.ref", d.Ref, maxIDBytes),
		validateLength("delegate.skill", d.Skill, maxIDBytes),
	)
}

func validateParts(path string, parts []a2a.Part) error {
	if len(parts) > maxParts {
		return fmt.Errorf("%s: has more than %d parts", path, maxParts)
	}
	for i := range parts {
		if err := validatePart(&parts[i]); err != nil {
			return fmt.Errorf("%s[%d]: %w", path, i, err)
		}
	}
	return nil
}

func validatePart(p *a2a.Part) error {
	switch p.Kind {
	case a2a.PartText, a2a.PartRaw:
	case a2a.PartURL:
		if p.URL == "" {
			return errors.New("the url is empty")
		}
	case a2a.PartData:
		if !p.Data.IsValid() {
			return errors.New("the data is not valid JSON")
		}
	default:
		return errors.New("a part has one of text, raw, url and data")
	}
	return validateObject("metadata", p.Metadata)
}

func validateLength(path, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%s: has more than %d bytes", path, limit)
	}
	return nil
}

func validateObject(path string, value a2a.JSON) error {
	if value == nil {
		return nil
	}
	if value.Kind() != '{' {
		return fmt.Errorf("%s: want an object", path)
	}
	return validateJSON(path, value, MaxStepBytes)
}

func validateJSON(path string, value a2a.JSON, limit int) error {
	if len(value) > limit {
		return fmt.Errorf("%s: has more than %d bytes", path, limit)
	}
	if !value.IsValid() {
		return fmt.Errorf("%s: is not valid JSON", path)
	}
	return nil
}

// AppendJSON appends the JSON of the step, in the form that ParseStep reads. A
// step that is not valid gives JSON that ParseStep refuses.
func (s Step) AppendJSON(dst []byte) []byte {
	w := objectWriter{dst: append(dst, '{'), start: true}
	switch {
	case s.Working != nil:
		w.content("working", s.Working)
	case s.Message != nil:
		w.content("message", s.Message)
	case s.Complete != nil:
		w.content("complete", s.Complete)
	case s.Fail != nil:
		w.content("fail", s.Fail)
	case s.Reject != nil:
		w.content("reject", s.Reject)
	case s.Artifact != nil:
		w.key("artifact")
		w.dst = s.Artifact.appendJSON(w.dst)
	case s.Ask != nil:
		w.content("ask", &s.Ask.Content)
		w.raw("schema", s.Ask.Schema)
	case s.Authorize != nil:
		w.content("authorize", &s.Authorize.Content)
		w.text("operation", s.Authorize.Operation)
		w.text("url", s.Authorize.URL)
		w.time("expires", s.Authorize.Expires)
	case s.Delegate != nil:
		w.key("delegate")
		w.dst = s.Delegate.appendJSON(w.dst)
	case s.Wait != nil:
		w.key("wait")
		wait := objectWriter{dst: append(w.dst, '{'), start: true}
		wait.text("for", s.Wait.For.String())
		w.dst = append(wait.dst, '}')
	case s.State != nil:
		w.raw("state", s.State)
	}
	return append(w.dst, '}')
}

func (a *Artifact) appendJSON(dst []byte) []byte {
	w := objectWriter{dst: append(dst, '{'), start: true}
	w.text("id", a.ID)
	w.text("name", a.Name)
	w.text("description", a.Description)
	w.key("parts")
	w.dst = appendParts(w.dst, a.Parts)
	w.boolean("append", a.Append)
	w.boolean("last", a.Last)
	w.raw("metadata", a.Metadata)
	w.texts("extensions", a.Extensions)
	return append(w.dst, '}')
}

func (d *Delegate) appendJSON(dst []byte) []byte {
	w := objectWriter{dst: append(dst, '{'), start: true}
	w.text("to", d.To)
	w.content("message", &d.Content)
	w.text("ref", d.Ref)
	w.boolean("again", d.Again)
	w.text("skill", d.Skill)
	if d.Within > 0 {
		w.text("deadline", d.Within.String())
	}
	return append(w.dst, '}')
}

// content writes the shortest form of what a step says.
func (w *objectWriter) content(name string, c *Content) {
	w.key(name)
	switch {
	case len(c.Parts) == 0 && c.Metadata == nil:
		w.dst = append(w.dst, "{}"...)
	case c.Metadata == nil && c.plain():
		w.dst = appendString(w.dst, c.Parts[0].Text)
	case c.Metadata == nil:
		w.dst = appendParts(w.dst, c.Parts)
	default:
		inner := objectWriter{dst: append(w.dst, '{'), start: true}
		inner.key("parts")
		inner.dst = appendParts(inner.dst, c.Parts)
		inner.raw("metadata", c.Metadata)
		w.dst = append(inner.dst, '}')
	}
}

// plain reports whether a string says the same as the content's parts.
func (c *Content) plain() bool {
	if len(c.Parts) != 1 {
		return false
	}
	p := &c.Parts[0]
	return p.Kind == a2a.PartText && p.Text != "" && p.MediaType == "" && p.Filename == "" && p.Metadata == nil
}

func appendParts(dst []byte, parts []a2a.Part) []byte {
	return appendList(dst, parts, func(dst []byte, p *a2a.Part) []byte { return p.AppendJSON(dst) })
}
