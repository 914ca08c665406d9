package backend

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// scope is what the templates of a script see: {{.Text}}, {{.Match 1}} and so on.
type scope struct {
	Agent     string // id of the agent
	TaskID    string
	ContextID string
	MessageID string // of the newest message
	Text      string // the first text part of the newest message
	Skill     string // that the message names
	Caller    string // the subject, "" for an anonymous caller
	Turn      int
	Attempt   int
	I         int // the round of the innermost repeat, from 1
	// OutcomeState says how the delegation of the turn before ended, such as
	// completed; "" when the turn is not after one.
	OutcomeState string

	match   []string
	message *a2a.Message // the newest; nil when the turn has none
	outcome *agent.Outcome
}

// Outcome returns what the delegation of the turn before says in text: its
// artifacts, or else its status.
func (s *scope) Outcome() string {
	if s.outcome == nil {
		return ""
	}
	return s.outcome.Text()
}

// outcomeParts are the parts of the artifacts of the delegation that has started
// the turn, and without any those of its status message.
func (s *scope) outcomeParts() []a2a.Part {
	switch o := s.outcome; {
	case o == nil || o.Task == nil:
		return nil
	case len(o.Parts()) > 0:
		return o.Parts()
	case o.Task.Status.Message != nil:
		return o.Task.Status.Message.Parts
	}
	return nil
}

// Match returns group n of the rule's text condition, and the whole match for 0.
// A group that does not exist, or that matched nothing, is "".
func (s *scope) Match(n int) string {
	if n < 0 || n >= len(s.match) {
		return ""
	}
	return s.match[n]
}

// scalar is a text of a script: a constant, one name, or a template.
type scalar struct {
	constant string
	single   func(*scope) string // of a template that is nothing but .Text or a .Match, by far the most
	template *template.Template
}

var singleName = regexp.MustCompile(`^\{\{\s*\.(?:(Text)|Match (\d{1,2}))\s*\}\}$`)

// compileSingle returns what a template that is one name stands for, or nil.
func compileSingle(text string) func(*scope) string {
	m := singleName.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	if m[1] != "" {
		return func(s *scope) string { return s.Text }
	}
	n, err := strconv.Atoi(m[2])
	if err != nil {
		return nil
	}
	return func(s *scope) string { return s.Match(n) }
}

const templateOpen = "{{"

func compileScalar(text string) (scalar, error) {
	if !strings.Contains(text, templateOpen) {
		return scalar{constant: text}, nil
	}
	t, err := template.New("").Parse(text)
	if err != nil {
		return scalar{}, templateError(err)
	}
	// An unknown name shows only when the template runs.
	if err := t.Execute(io.Discard, &scope{I: 1, Turn: 1, Attempt: 1}); err != nil {
		return scalar{}, templateError(err)
	}
	return scalar{template: t, single: compileSingle(text)}, nil
}

// templatePlace is what a template's error begins with: a name, which ours do not
// have, and a line.
var templatePlace = regexp.MustCompile(`^template: :(\d+)(:\d+)?: (executing "" at <.*?>: )?`)

// templateError says what is wrong with a template without the words of the
// implementation.
func templateError(err error) error {
	text := templatePlace.ReplaceAllString(err.Error(), "")
	if before, _, unknown := strings.Cut(text, " in type *backend.scope"); unknown {
		text = before + "; a template knows .Text, .Match n, .I, .TaskID, .ContextID, .MessageID, .Agent, .Skill, .Caller, .Turn, .Attempt, .Outcome and .OutcomeState"
	}
	return errors.New("is not a template that works: " + text)
}

func (s *scalar) isConstant() bool { return s.template == nil }

func (s *scalar) expand(sc *scope) (string, error) {
	if s.template == nil {
		return s.constant, nil
	}
	if s.single != nil {
		return s.single(sc), nil
	}
	var b strings.Builder
	if err := s.template.Execute(&b, sc); err != nil {
		return "", templateError(err)
	}
	return b.String(), nil
}

// value is free JSON of a script, whose strings may be templates.
type value struct {
	pieces   []piece
	constant a2a.JSON // without templates; nil is an absent value
}

// piece is JSON as it stands, and then a string that is a template.
type piece struct {
	before []byte
	text   scalar // when its template is nil, the value ends here
}

func compileValue(free a2a.JSON) (value, error) {
	if !bytes.Contains(free, []byte(templateOpen)) {
		return value{constant: free}, nil
	}
	var v value
	d := jsontext.NewDecoder(bytes.NewReader(free))
	begin := int64(0)
	for {
		start := d.InputOffset()
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return value{}, err
		}
		if token.Kind() != '"' || isName(d) {
			continue
		}
		text, err := compileScalar(token.String())
		if err != nil {
			return value{}, err
		}
		if text.isConstant() {
			continue
		}
		// The string is preceded by a comma, a colon or space.
		start += int64(bytes.IndexByte(free[start:], '"'))
		v.pieces = append(v.pieces, piece{before: free[begin:start], text: text})
		begin = d.InputOffset()
	}
	v.pieces = append(v.pieces, piece{before: free[begin:]})
	return v, nil
}

// isName reports whether the token that was just read is the name of a member.
func isName(d *jsontext.Decoder) bool {
	kind, length := d.StackIndex(d.StackDepth())
	return kind == '{' && length%2 == 1
}

func (v *value) isConstant() bool { return v.pieces == nil }

func (v *value) expand(sc *scope) (a2a.JSON, error) {
	if v.isConstant() {
		return v.constant, nil
	}
	var out []byte
	for i := range v.pieces {
		p := &v.pieces[i]
		out = append(out, p.before...)
		if p.text.isConstant() {
			continue
		}
		text, err := p.text.expand(sc)
		if err != nil {
			return nil, err
		}
		out, _ = jsontext.AppendQuote(out, text) // what is not UTF-8 becomes U+FFFD
	}
	return out, nil
}

// part is a part of a script: of a message or an artifact, or one of the words
// rest and outcome.
type part struct {
	rest      bool
	outcome   bool
	kind      a2a.PartKind
	content   scalar // of a text, raw or url
	data      value
	mediaType scalar
	filename  scalar
	metadata  value
}

func (p *part) isConstant() bool {
	return !p.rest && !p.outcome && p.content.isConstant() && p.data.isConstant() &&
		p.mediaType.isConstant() && p.filename.isConstant() && p.metadata.isConstant()
}

func (p *part) expand(sc *scope) (a2a.Part, error) {
	out := a2a.Part{Kind: p.kind}
	content, err := p.content.expand(sc)
	if err != nil {
		return out, err
	}
	switch p.kind {
	case a2a.PartText:
		out.Text = content
	case a2a.PartURL:
		out.URL = content
	case a2a.PartRaw:
		if out.Raw, err = base64.StdEncoding.DecodeString(content); err != nil {
			return out, fmt.Errorf("raw: %w", err)
		}
	case a2a.PartData:
		if out.Data, err = p.data.expand(sc); err != nil {
			return out, err
		}
	}
	if out.MediaType, err = p.mediaType.expand(sc); err != nil {
		return out, err
	}
	if out.Filename, err = p.filename.expand(sc); err != nil {
		return out, err
	}
	out.Metadata, err = p.metadata.expand(sc)
	return out, err
}

// rest returns the parts of the newest message but its first text, untouched.
func (s *scope) rest() []a2a.Part {
	if s.message == nil {
		return nil
	}
	parts := s.message.Parts
	for i := range parts {
		if parts[i].Kind == a2a.PartText {
			return append(parts[:i:i], parts[i+1:]...)
		}
	}
	return parts[:len(parts):len(parts)]
}

func expandParts(parts []part, sc *scope) ([]a2a.Part, error) {
	out := make([]a2a.Part, 0, len(parts))
	for i := range parts {
		if parts[i].rest {
			out = append(out, sc.rest()...)
			continue
		}
		if parts[i].outcome {
			out = append(out, sc.outcomeParts()...)
			continue
		}
		p, err := parts[i].expand(sc)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}
