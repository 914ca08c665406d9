package ledger

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// hidden stands for what a peer was shown and must not bring back.
const hidden = "***"

// redactor cuts out of what a peer says what it was shown: the credentials of the
// node, which its link knows, and what it has to present at the receiver.
type redactor struct {
	link func(string) string // nil: nothing is known
	hook []string
}

// redactor returns what cuts the secrets of a delegation out of texts of its peer.
func (l *Ledger) redactor(link *Link, d *store.Delegation) *redactor {
	r := &redactor{link: link.Redact}
	if d.Secret == nil || l.opts.Sealer == nil {
		return r
	}
	var s secrets
	if plain, err := l.opts.Sealer.Open(d.Secret); err == nil && json.Unmarshal(plain, &s) == nil {
		r.hook = slices.DeleteFunc([]string{s.Path, s.Token, s.Key}, func(text string) bool { return text == "" })
	}
	return r
}

func (r *redactor) text(text string) string {
	if r.link != nil {
		text = r.link(text)
	}
	for _, secret := range r.hook {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return text
}

func (r *redactor) json(value a2a.JSON) a2a.JSON {
	if value == nil {
		return nil
	}
	if text := string(value); r.text(text) != text {
		return a2a.JSON(r.text(text))
	}
	return value
}

// parts returns parts without what is secret: texts, names, addresses, data and
// contents.
func (r *redactor) parts(of []a2a.Part) []a2a.Part {
	out := slices.Clone(of)
	for i := range out {
		p := &out[i]
		p.Text, p.URL, p.Filename = r.text(p.Text), r.text(p.URL), r.text(p.Filename)
		p.Data, p.Metadata, p.Raw = r.json(p.Data), r.json(p.Metadata), r.raw(p.Raw)
	}
	return out
}

// raw returns the content of a part without what is secret. A file that holds it
// as it is is changed by that; one that is compressed is not seen through.
func (r *redactor) raw(content []byte) []byte {
	if len(content) == 0 {
		return content
	}
	text := string(content)
	if clean := r.text(text); clean != text {
		return []byte(clean)
	}
	return content
}

// artifact returns an artifact without what is secret.
func (r *redactor) artifact(of *a2a.Artifact) *a2a.Artifact {
	out := *of
	out.Name, out.Description = r.text(out.Name), r.text(out.Description)
	out.Parts, out.Metadata = r.parts(out.Parts), r.json(out.Metadata)
	return &out
}

// message returns a message without what is secret, nil for nil.
func (r *redactor) message(of *a2a.Message) *a2a.Message {
	if of == nil {
		return nil
	}
	out := *of
	out.Parts, out.Metadata = r.parts(out.Parts), r.json(out.Metadata)
	return &out
}

// explain returns the text of an error of the peer for people.
func (r *redactor) explain(err error) string { return explain(r.err(err)) }

// err returns an error whose text has nothing secret: itself, where that is so.
func (r *redactor) err(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*doubtError](err); ok {
		return err
	}
	if e, ok := errors.AsType[*a2a.Error](err); ok && r.text(e.Message) != e.Message {
		clean := *e
		clean.Message, clean.Err, clean.Violations = r.text(e.Message), nil, nil
		err = &clean
	}
	if text := err.Error(); r.text(text) != text {
		return errors.New(r.text(text))
	}
	return err
}
