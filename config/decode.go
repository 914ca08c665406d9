package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// maxNodes bounds the values of a file, aliases expanded.
const maxNodes = 200_000

// decoder fills structs from the syntax tree of a file. It goes on after an
// error, so that all of them are reported at once.
type decoder struct {
	source   *source
	env      func(string) (string, bool)
	problems []Problem
	anchors  map[string]ast.Node
	open     map[string]bool // anchors whose value is being decoded
	nodes    int
	// expanded holds the scalars that a type with its own decoding got, so
	// that an alias does not expand them twice.
	expanded map[ast.Node]bool
}

var (
	jsonType   = reflect.TypeFor[jsontext.Value]()
	secretType = reflect.TypeFor[Secret]()
)

// fail reports a problem at a node. A nil node is the whole file.
func (d *decoder) fail(node ast.Node, path, hint, format string, args ...any) {
	p := Problem{Path: path, Message: fmt.Sprintf(format, args...), Hint: hint}
	p.Line, p.Column = position(node)
	d.problems = append(d.problems, p)
}

// position returns the line and column at which a node begins, or zeros.
func position(node ast.Node) (line, column int) {
	if node == nil || reflect.ValueOf(node).IsNil() {
		return 0, 0
	}
	switch n := node.(type) {
	case *ast.MappingNode: // its token is a colon
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return position(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return position(n.Key)
	}
	if token := node.GetToken(); token != nil && token.Position != nil {
		return token.Position.Line, token.Position.Column
	}
	return 0, 0
}

// resolve follows anchors, aliases and tags to the value they stand for. It
// returns nil after reporting a problem. The returned function ends the use of
// the value.
func (d *decoder) resolve(node ast.Node, path string) (ast.Node, func()) {
	done := func() {}
	for range 100 {
		switch n := node.(type) {
		case nil:
			return nil, done
		case *ast.AnchorNode:
			node = n.Value
		case *ast.AliasNode:
			name := nameOf(n.Value)
			value, ok := d.anchors[name]
			if !ok {
				d.fail(n, path, "", "names an anchor, %q, that is not defined above it", name)
				return nil, done
			}
			if d.open[name] {
				d.fail(n, path, "", "contains itself")
				return nil, done
			}
			d.open[name] = true
			before := done
			done = func() { delete(d.open, name); before() }
			node = value
		case *ast.TagNode:
			switch tag := n.Start.Value; tag {
			case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq", "!":
				if n.Value == nil {
					node = ast.Null(n.Start)
					continue
				}
				if _, scalar := n.Value.(ast.ScalarNode); scalar && (tag == "!!str" || tag == "!") {
					return &ast.StringNode{BaseNode: &ast.BaseNode{}, Token: n.Value.GetToken(), Value: scalarText(n.Value)}, done
				}
				node = n.Value
			default:
				d.fail(n, path, "", "has a tag, %s, that means nothing here", tag)
				return nil, done
			}
		case *ast.MappingValueNode:
			return ast.Mapping(n.Start, false, n), done
		case *ast.MappingNode:
			if text := splitScalar(n); text != nil {
				return text, done
			}
			return n, done
		default:
			return node, done
		}
	}
	d.fail(node, path, "", "is an alias of an alias too often")
	return nil, done
}

// splitScalar returns the text of a plain scalar such as host:80 that the parser
// took for a key and a value: it does so for one in a list in a mapping, all in
// brackets, though a colon without a space after it separates nothing.
func splitScalar(n *ast.MappingNode) ast.Node {
	if n.IsFlowStyle || len(n.Values) != 1 {
		return nil
	}
	key, colon := n.Values[0].Key.GetToken(), n.Values[0].Start
	_, plain := n.Values[0].Key.(*ast.StringNode)
	value, scalar := n.Values[0].Value.(ast.ScalarNode)
	if !plain || !scalar || value.Type() == ast.NullType || value.Type() == ast.LiteralType {
		return nil
	}
	after := value.GetToken()
	if key.Position.Line != after.Position.Line || after.Position.Column != colon.Position.Column+1 {
		return nil
	}
	return &ast.StringNode{BaseNode: &ast.BaseNode{}, Token: key, Value: key.Value + ":" + after.Value}
}

func nameOf(node ast.Node) string {
	if node == nil || node.GetToken() == nil {
		return ""
	}
	return node.GetToken().Value
}

// decode fills v from a node.
func (d *decoder) decode(node ast.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.fail(node, path, "", "the file has more than %d values", maxNodes)
		}
		return
	}
	node, done := d.resolve(node, path)
	defer done()
	if node == nil {
		return
	}
	if _, null := node.(*ast.NullNode); null {
		d.null(node, v, path)
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			setDefaults(v.Interface())
		}
		d.decode(node, v.Elem(), path, tag)
		return
	}
	switch {
	case v.Type() == secretType:
		d.secret(node, v, path)
		return
	case v.Type() == jsonType:
		if value, ok := d.json(node, path); ok {
			v.SetBytes(value)
		}
		return
	}
	switch u := v.Addr().Interface().(type) {
	case yaml.InterfaceUnmarshaler:
		d.own(node, path, u.UnmarshalYAML(func(target any) error {
			before := len(d.problems)
			d.decode(node, reflect.ValueOf(target).Elem(), path, "")
			if len(d.problems) > before {
				return errReported
			}
			return nil
		}))
	case yaml.NodeUnmarshaler:
		d.expandTree(node, path)
		d.own(node, path, u.UnmarshalYAML(node))
	case encoding.TextUnmarshaler:
		if text, ok := d.text(node, path); ok {
			if err := u.UnmarshalText([]byte(text)); err != nil {
				d.fail(node, path, "", "%v", err)
			} else {
				d.bounds(node, v, path, tag)
			}
		}
	default:
		d.decodeKind(node, v, path, tag)
	}
}

var errReported = errors.New("the problem is reported")

// own reports the error of a type that decodes itself, unless it is already.
func (d *decoder) own(node ast.Node, path string, err error) {
	if err == nil || errors.Is(err, errReported) {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			d.own(node, path, one)
		}
		return
	}
	if field, ok := errors.AsType[*FieldError](err); ok {
		full := path
		if !strings.HasPrefix(field.Path, "[") {
			full += "."
		}
		full += field.Path
		p := Problem{Path: full, Message: field.Err.Error()}
		if p.Line, p.Column = d.source.place(full); p.Line == 0 {
			p.Line, p.Column = position(node)
		}
		d.problems = append(d.problems, p)
		return
	}
	message := err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		message = e.GetMessage()
		if token := e.GetToken(); token != nil && token.Position != nil {
			d.problems = append(d.problems, Problem{Line: token.Position.Line, Column: token.Position.Column, Path: path, Message: message})
			return
		}
	}
	d.fail(node, path, "", "%s", message)
}

// null decides what a key without a value means: nothing for what may be empty,
// a mistake for the rest.
func (d *decoder) null(node ast.Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Pointer, reflect.Interface:
		if v.Type() == jsonType {
			v.SetBytes([]byte("null"))
			return
		}
		if _, scalar := reflect.New(v.Type()).Interface().(encoding.TextUnmarshaler); !scalar && v.Type() != secretType {
			return
		}
	}
	d.fail(node, path, "give it a value or remove the key", "has no value")
}

func (d *decoder) decodeKind(node ast.Node, v reflect.Value, path string, tag reflect.StructTag) {
	switch v.Kind() {
	case reflect.Struct:
		if mapping := d.mapping(node, path); mapping != nil {
			d.decodeStruct(mapping, v, path)
		}
	case reflect.Map:
		if mapping := d.mapping(node, path); mapping != nil {
			d.decodeMap(mapping, v, path, tag)
		}
	case reflect.Slice:
		d.decodeSlice(node, v, path, tag)
	case reflect.String:
		if text, ok := d.text(node, path); ok {
			d.decodeString(node, v, text, path, tag)
		}
	case reflect.Bool:
		if value, ok := d.scalar(node, path, "true or false"); ok {
			switch value {
			case "true", "True", "TRUE":
				v.SetBool(true)
			case "false", "False", "FALSE":
				v.SetBool(false)
			default:
				d.fail(node, path, "", "is neither true nor false")
			}
		}
	case reflect.Int, reflect.Int64, reflect.Int32:
		if value, ok := d.scalar(node, path, "a whole number"); ok {
			n, err := strconv.ParseInt(strings.ReplaceAll(value, "_", ""), 10, v.Type().Bits())
			if err != nil {
				d.fail(node, path, "", "is not a whole number")
				return
			}
			v.SetInt(n)
			d.bounds(node, v, path, tag)
		}
	case reflect.Float64:
		if value, ok := d.scalar(node, path, "a number"); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
				d.fail(node, path, "", "is not a number")
				return
			}
			v.SetFloat(n)
			d.bounds(node, v, path, tag)
		}
	case reflect.Interface:
		if value, ok := d.any(node, path); ok {
			v.Set(reflect.ValueOf(value))
		}
	default:
		d.fail(node, path, "", "cannot be configured")
	}
}

func (d *decoder) decodeString(node ast.Node, v reflect.Value, text, path string, tag reflect.StructTag) {
	if enum := tag.Get("enum"); enum != "" {
		values := strings.Split(enum, ",")
		if !slices.Contains(values, text) {
			hint := ""
			if best := closest(text, values); best != "" {
				hint = fmt.Sprintf("did you mean %q?", best)
			}
			if slices.Contains(strings.Split(tag.Get("later"), ","), text) {
				d.fail(node, path, "", "%q is not available in this version of handoff", text)
				return
			}
			d.fail(node, path, hint, "is not one of %s", strings.Join(values, ", "))
			return
		}
	}
	v.SetString(text)
}

// mapping returns a node as a mapping, or reports that it is none.
func (d *decoder) mapping(node ast.Node, path string) *ast.MappingNode {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		d.fail(node, path, "", "expects keys and values, not %s", kindOf(node))
		return nil
	}
	return mapping
}

// entry is one key of a mapping with its value.
type entry struct {
	key    ast.Node
	name   string
	value  ast.Node
	merged bool // it came by <<
}

// entries returns the keys of a mapping, merge keys expanded, and reports keys
// that stand twice.
func (d *decoder) entries(mapping *ast.MappingNode, path string) []entry {
	var result []entry
	seen := map[string]int{}
	add := func(e entry) {
		if i, twice := seen[e.name]; twice {
			switch first := result[i]; {
			case e.merged: // what stands in the mapping itself wins
			case first.merged:
				result[i] = e
			default:
				line, _ := position(first.key)
				d.fail(e.key, join(path, e.name), "", "stands twice; the first is on line %d", line)
			}
			return
		}
		seen[e.name] = len(result)
		result = append(result, e)
	}
	for _, value := range mapping.Values {
		key := ast.Node(value.Key)
		if key.Type() == ast.MergeKeyType {
			for _, e := range d.merge(value.Value, path) {
				e.merged = true
				add(e)
			}
			continue
		}
		if k, ok := key.(*ast.MappingKeyNode); ok {
			key = k.Value
		}
		key, done := d.resolve(key, path)
		done()
		if key == nil {
			continue
		}
		if _, scalar := key.(ast.ScalarNode); !scalar {
			d.fail(value.Key, path, "", "has a key that is not a text")
			continue
		}
		add(entry{key: key, name: scalarText(key), value: value.Value})
	}
	return result
}

// merge returns the entries that a merge key brings.
func (d *decoder) merge(node ast.Node, path string) []entry {
	if d.nodes++; d.nodes > maxNodes {
		return nil
	}
	resolved, done := d.resolve(node, path)
	defer done()
	switch n := resolved.(type) {
	case *ast.MappingNode:
		return d.entries(n, path)
	case *ast.SequenceNode:
		var all []entry
		for _, value := range n.Values {
			all = append(all, d.merge(value, path)...)
		}
		return all
	case nil:
	default:
		d.fail(node, path, "", "merges something that is not a mapping")
	}
	return nil
}

func (d *decoder) decodeStruct(mapping *ast.MappingNode, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	present := map[string]bool{}
	for _, e := range d.entries(mapping, path) {
		keyPath := join(path, e.name)
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == e.name })
		if i < 0 || later(path, e.name) {
			if path == "" && strings.HasPrefix(e.name, "x-") {
				continue // a place for anchors
			}
			d.unknown(e, keyPath, path, fields)
			continue
		}
		present[e.name] = true
		d.source.record(keyPath, e.key, e.value)
		d.decode(e.value, v.Field(fields[i].index), keyPath, fields[i].tag)
	}
	for _, f := range fields {
		if f.tag.Get("required") == "true" && !present[f.key] {
			p := Problem{Path: join(path, f.key), Message: "is missing"}
			if p.Line, p.Column = d.source.place(path); p.Line == 0 {
				p.Line, p.Column = position(mapping)
			}
			d.problems = append(d.problems, p)
		}
	}
	if validator, ok := v.Addr().Interface().(interface{ Validate() error }); ok && path != "" {
		d.own(mapping, path, validator.Validate())
	}
}

// unknown reports a key that a struct does not have.
func (d *decoder) unknown(e entry, keyPath, parent string, fields []field) {
	p := Problem{Path: keyPath, Message: "unknown key"}
	p.Line, p.Column = position(e.key)
	p.cut = p.Column + len([]rune(e.name)) + 1
	if later(parent, e.name) {
		p.Message = "is not available in this version of handoff"
		d.problems = append(d.problems, p)
		return
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.key
	}
	if best := closest(e.name, names); best != "" {
		p.Hint = fmt.Sprintf("did you mean %q?", best)
	} else if len(names) <= 12 {
		p.Hint = "the keys here are " + strings.Join(names, ", ")
	}
	d.problems = append(d.problems, p)
}

func (d *decoder) decodeMap(mapping *ast.MappingNode, v reflect.Value, path string, tag reflect.StructTag) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, e := range d.entries(mapping, path) {
		keyPath := join(path, e.name)
		d.source.record(keyPath, e.key, e.value)
		element := reflect.New(v.Type().Elem()).Elem()
		if element.Kind() == reflect.Struct {
			setDefaults(element.Addr().Interface())
		}
		if element.Kind() == reflect.Pointer {
			if e.value.Type() == ast.NullType {
				d.fail(e.key, keyPath, "", "has no value")
				continue
			}
			element.Set(reflect.New(element.Type().Elem()))
			setDefaults(element.Interface())
		}
		d.decode(e.value, element, keyPath, tag)
		v.SetMapIndex(reflect.ValueOf(e.name).Convert(v.Type().Key()), element)
	}
}

func (d *decoder) decodeSlice(node ast.Node, v reflect.Value, path string, tag reflect.StructTag) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		hint := ""
		if _, scalar := node.(ast.ScalarNode); scalar {
			hint = "write it in brackets: [" + shorten(scalarText(node)) + "]"
		}
		d.fail(node, path, hint, "expects a list, not %s", kindOf(node))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, len(sequence.Values)))
	for i, value := range sequence.Values {
		elementPath := path + "[" + strconv.Itoa(i) + "]"
		d.source.record(elementPath, value, value)
		element := reflect.New(v.Type().Elem())
		if element.Elem().Kind() == reflect.Struct {
			setDefaults(element.Interface())
		}
		d.decode(value, element.Elem(), elementPath, tag)
		v.Set(reflect.Append(v, element.Elem()))
	}
}

// bounds checks the min and max tags of a number, a Duration or a Size.
func (d *decoder) bounds(node ast.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if problem := checkBounds(v, tag); problem != "" {
		d.fail(node, path, "", "%s", problem)
	}
}

func checkBounds(v reflect.Value, tag reflect.StructTag) string {
	for _, name := range []string{"min", "max"} {
		text := tag.Get(name)
		if text == "" {
			continue
		}
		limit := reflect.New(v.Type()).Elem()
		if setText(limit, text) != nil {
			continue
		}
		var less, more bool
		switch {
		case v.CanInt():
			less, more = v.Int() < limit.Int(), v.Int() > limit.Int()
		case v.CanFloat():
			less, more = v.Float() < limit.Float(), v.Float() > limit.Float()
		}
		if name == "min" && less {
			return "is less than " + text
		}
		if name == "max" && more {
			return "is more than " + text
		}
	}
	return ""
}
