package config

import (
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml/ast"
)

// kindOf names what a node is, for people.
func kindOf(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.NullNode:
		return "nothing"
	default:
		return "this"
	}
}

// scalarText returns the text of a scalar: of a number as it is written.
func scalarText(node ast.Node) string {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case nil:
		return ""
	default:
		return nameOf(node)
	}
}

// shorten bounds a text that is quoted in a message.
func shorten(s string) string {
	if runes := []rune(s); len(runes) > 40 {
		return string(runes[:40]) + "…"
	}
	return s
}

// scalar returns the text of a number or a Boolean, which the environment may
// give.
func (d *decoder) scalar(node ast.Node, path, expected string) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		if strings.Contains(n.Value, "${") {
			return d.expand(node, n.Value, path)
		}
		d.fail(node, path, "", "expects %s, not a text", expected)
		return "", false
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return nameOf(node), true
	default:
		d.fail(node, path, "", "expects %s, not %s", expected, kindOf(node))
		return "", false
	}
}

// text returns a text with the environment in it. A number is taken as it is
// written, so that version: 1.10 needs no quotes.
func (d *decoder) text(node ast.Node, path string) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return d.expand(node, n.Value, path)
	case *ast.LiteralNode:
		return d.expand(node, n.Value.Value, path)
	case *ast.IntegerNode, *ast.FloatNode:
		return nameOf(node), true
	case *ast.BoolNode:
		d.fail(node, path, "put it in quotes", "expects a text, not true or false")
		return "", false
	default:
		d.fail(node, path, "", "expects a text, not %s", kindOf(node))
		return "", false
	}
}

// reference is ${NAME}, ${NAME:-default}, or $${ for ${ itself. ${{ is left
// alone, since it is a dollar sign before a template.
var reference = regexp.MustCompile(`\$\$\{|\$\{\{|\$\{([^}]*)\}?`)

var referenceBody = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$`)

// maxExpanded bounds a text after expansion, in bytes.
const maxExpanded = 4 << 20

// expand replaces references to the environment in a text.
func (d *decoder) expand(node ast.Node, text, path string) (string, bool) {
	if !strings.Contains(text, "${") {
		return text, true
	}
	ok := true
	expanded := reference.ReplaceAllStringFunc(text, func(match string) string {
		switch match {
		case "$${":
			return "${"
		case "${{":
			return match
		}
		body, closed := strings.CutSuffix(match[2:], "}")
		parts := referenceBody.FindStringSubmatch(body)
		if parts == nil || !closed {
			d.fail(node, path, "write ${NAME} or ${NAME:-default}, or $${ for the characters themselves", "has a reference to the environment that is malformed")
			ok = false
			return ""
		}
		d.source.fromEnvironment(path, parts[1])
		if value, set := d.env(parts[1]); set && (value != "" || !strings.Contains(body, ":-")) {
			d.source.wrote(path, match, value)
			return value
		}
		if strings.Contains(body, ":-") {
			return parts[2]
		}
		d.fail(node, path, fmt.Sprintf("set it, or write ${%s:-default}", parts[1]), "refers to the environment variable %s, which is not set", parts[1])
		d.problems[len(d.problems)-1].unset = true
		ok = false
		return ""
	})
	if len(expanded) > maxExpanded {
		d.fail(node, path, "", "is too long")
		return "", false
	}
	return expanded, ok
}

// expandTree replaces references to the environment in every text below a node,
// for types that decode themselves.
func (d *decoder) expandTree(node ast.Node, path string) {
	ast.Walk(visit(func(n ast.Node) {
		if d.expanded[n] {
			return
		}
		switch n := n.(type) {
		case *ast.StringNode:
			d.expanded[n] = true
			if text, ok := d.expand(n, n.Value, path); ok {
				n.Value = text
			}
		case *ast.LiteralNode:
			d.expanded[n], d.expanded[n.Value] = true, true
			if text, ok := d.expand(n, n.Value.Value, path); ok {
				n.Value.Value = text
			}
		}
	}), node)
}

type visit func(ast.Node)

// Visit calls the function.
func (f visit) Visit(node ast.Node) ast.Visitor {
	f(node)
	return f
}

// maxSecret bounds a file that holds a secret, in bytes.
const maxSecret = 64 << 10

// secret decodes a Secret.
func (d *decoder) secret(node ast.Node, v reflect.Value, path string) {
	text, ok := d.text(node, path)
	if !ok {
		return
	}
	if name, file := strings.CutPrefix(text, "file:"); file {
		if !filepath.IsAbs(name) {
			name = filepath.Join(d.source.dir, name)
		}
		content, err := readBounded(name, maxSecret)
		if err != nil {
			hint := ""
			if os.IsNotExist(err) && path == "secret_key" {
				hint = "`handoff init` makes one"
			}
			d.fail(node, path, hint, "cannot be read: %v", err)
			return
		}
		text = strings.TrimRight(string(content), "\r\n")
		if text == "" {
			d.fail(node, path, "", "names a file, %s, that is empty", name)
			return
		}
	} else if written := scalarText(node); written == text && text != "" {
		d.source.secrets = append(d.source.secrets, strings.Split(text, "\n")...)
	}
	v.Set(reflect.ValueOf(Secret{text}))
}

// readBounded reads a file of up to limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("read %s: it has more than %d bytes", name, limit)
	}
	return content, nil
}

// json returns a node as JSON, with the keys in their order and numbers as they
// are written where JSON allows it.
func (d *decoder) json(node ast.Node, path string) (jsontext.Value, bool) {
	before := len(d.problems)
	value := d.appendJSON(nil, node, path)
	return value, len(d.problems) == before
}

func (d *decoder) appendJSON(b []byte, node ast.Node, path string) []byte {
	if d.nodes++; d.nodes > maxNodes {
		d.fail(node, path, "", "the file has more than %d values", maxNodes)
		return b
	}
	node, done := d.resolve(node, path)
	defer done()
	switch n := node.(type) {
	case nil:
		return b
	case *ast.NullNode:
		return append(b, "null"...)
	case *ast.BoolNode:
		return strconv.AppendBool(b, n.Value)
	case *ast.StringNode, *ast.LiteralNode:
		text, _ := d.text(node, path)
		b, _ = jsontext.AppendQuote(b, text)
		return b
	case *ast.IntegerNode, *ast.FloatNode:
		number, ok := jsonNumber(nameOf(node))
		if !ok {
			d.fail(node, path, "", "is a number that JSON cannot hold")
		}
		return append(b, number...)
	case *ast.MappingNode:
		b = append(b, '{')
		for i, e := range d.entries(n, path) {
			if i > 0 {
				b = append(b, ',')
			}
			keyPath := join(path, e.name)
			d.source.record(keyPath, e.key, e.value)
			b, _ = jsontext.AppendQuote(b, e.name)
			b = append(b, ':')
			b = d.appendJSON(b, e.value, keyPath)
			if d.nodes > maxNodes {
				break
			}
		}
		return append(b, '}')
	case *ast.SequenceNode:
		b = append(b, '[')
		for i, value := range n.Values {
			if i > 0 {
				b = append(b, ',')
			}
			elementPath := path + "[" + strconv.Itoa(i) + "]"
			d.source.record(elementPath, value, value)
			b = d.appendJSON(b, value, elementPath)
			if d.nodes > maxNodes {
				break
			}
		}
		return append(b, ']')
	default:
		d.fail(node, path, "", "is not a value that JSON can hold")
		return b
	}
}

// jsonNumber writes a YAML number as JSON.
func jsonNumber(text string) (string, bool) {
	if v := jsontext.Value(text); v.Kind() == '0' && v.IsValid() {
		return text, true
	}
	if n, ok := new(big.Int).SetString(text, 0); ok {
		return n.String(), true
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "null", false
	}
	return strconv.FormatFloat(f, 'g', -1, 64), true
}

// any returns a node as Go values: map[string]any, []any, string, bool, int64
// or float64.
func (d *decoder) any(node ast.Node, path string) (any, bool) {
	before := len(d.problems)
	value := d.anyValue(node, path)
	return value, len(d.problems) == before && value != nil
}

func (d *decoder) anyValue(node ast.Node, path string) any {
	if d.nodes++; d.nodes > maxNodes {
		d.fail(node, path, "", "the file has more than %d values", maxNodes)
		return nil
	}
	node, done := d.resolve(node, path)
	defer done()
	switch n := node.(type) {
	case *ast.BoolNode:
		return n.Value
	case *ast.StringNode, *ast.LiteralNode:
		text, _ := d.text(node, path)
		return text
	case *ast.IntegerNode:
		if i, err := strconv.ParseInt(nameOf(n), 0, 64); err == nil {
			return i
		}
		d.fail(n, path, "", "is a number that is too large")
	case *ast.FloatNode:
		return n.Value
	case *ast.MappingNode:
		values := map[string]any{}
		for _, e := range d.entries(n, path) {
			keyPath := join(path, e.name)
			d.source.record(keyPath, e.key, e.value)
			values[e.name] = d.anyValue(e.value, keyPath)
		}
		return values
	case *ast.SequenceNode:
		values := make([]any, len(n.Values))
		for i, value := range n.Values {
			elementPath := path + "[" + strconv.Itoa(i) + "]"
			d.source.record(elementPath, value, value)
			values[i] = d.anyValue(value, elementPath)
		}
		return values
	}
	return nil
}
