package console

import (
	"html/template"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a JSON value that is shown as a tree.
const (
	maxTreeNodes = 5000
	maxTreeDepth = 40
	openDepth    = 2 // levels that are open at first
)

// jsonTree returns a JSON value as a tree that can be opened and closed. A value
// that is not jsontext.Value or bytes is marshaled first.
func jsonTree(v any) (template.HTML, error) {
	var content []byte
	switch v := v.(type) {
	case jsontext.Value:
		content = v
	case []byte:
		content = v
	default:
		var err error
		if content, err = json.Marshal(v, json.Deterministic(true)); err != nil {
			return "", err
		}
	}
	t := &tree{d: jsontext.NewDecoder(strings.NewReader(string(content)), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	t.b.WriteString(`<div class="json">`)
	if len(content) == 0 || t.value(0) != nil {
		return template.HTML(`<pre class="json">` + template.HTMLEscapeString(string(content)) + `</pre>`), nil //nolint:gosec // it is escaped
	}
	if t.cut {
		t.b.WriteString(`<p class="muted">There is more than is shown here.</p>`)
	}
	t.b.WriteString(`</div>`)
	return template.HTML(t.b.String()), nil //nolint:gosec // all text in it is escaped
}

type tree struct {
	d     *jsontext.Decoder
	b     strings.Builder
	nodes int
	cut   bool
}

// value writes the next value of the decoder.
func (t *tree) value(depth int) error {
	kind := t.d.PeekKind()
	t.nodes++
	if t.nodes > maxTreeNodes || depth > maxTreeDepth {
		t.cut = true
		t.b.WriteString(`<span class="muted">…</span>`)
		return t.d.SkipValue()
	}
	if kind != '{' && kind != '[' {
		return t.scalar()
	}
	if _, err := t.d.ReadToken(); err != nil {
		return err
	}
	closing, opening := kind+2, kind // '{' and '}', '[' and ']' are two apart
	if t.d.PeekKind() == closing {
		_, err := t.d.ReadToken()
		t.b.WriteString(`<span class="json-empty">` + string(rune(opening)) + string(rune(closing)) + `</span>`)
		return err
	}
	t.b.WriteString(`<details class="json-node"`)
	if depth < openDepth {
		t.b.WriteString(` open`)
	}
	t.b.WriteString(`><summary>` + string(rune(opening)) + `</summary><ul>`)
	for i := 0; t.d.PeekKind() != closing; i++ {
		t.b.WriteString(`<li>`)
		if kind == '{' {
			name, err := t.d.ReadToken()
			if err != nil {
				return err
			}
			t.b.WriteString(`<span class="json-key">` + template.HTMLEscapeString(name.String()) + `</span>: `)
		}
		if err := t.value(depth + 1); err != nil {
			return err
		}
		t.b.WriteString(`</li>`)
	}
	t.b.WriteString(`</ul><span>` + string(rune(closing)) + `</span></details>`)
	_, err := t.d.ReadToken()
	return err
}

// scalar writes a value that has none within.
func (t *tree) scalar() error {
	token, err := t.d.ReadToken()
	if err != nil {
		return err
	}
	class, text := "json-word", token.String()
	switch token.Kind() {
	case '"':
		class = "json-text"
	case '0':
		class = "json-number"
	}
	t.b.WriteString(`<span class="` + class + `">` + template.HTMLEscapeString(text) + `</span>`)
	return nil
}
