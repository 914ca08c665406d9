package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object whose members are taken one by one. What is left at
// the end is unknown. The first error of a member is kept.
type object struct {
	path    string
	members map[string]jsontext.Value
	err     error
}

// parseObject reads an object. Its members share no memory with data.
func parseObject(path string, data []byte) (*object, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	o := &object{path: path, members: make(map[string]jsontext.Value, 4)}
	if d.PeekKind() != '{' {
		if _, err := d.ReadToken(); err != nil {
			return nil, at(path, syntaxError(err))
		}
		return nil, at(path, errors.New("want an object"))
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, at(path, syntaxError(err))
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, at(path, syntaxError(err))
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, at(path, syntaxError(err))
		}
		o.members[key] = value.Clone()
	}
	if err := readEnd(d); err != nil {
		return nil, at(path, err)
	}
	return o, nil
}

// parseArray reads the elements of an array.
func parseArray(path string, data []byte) ([]jsontext.Value, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	if d.PeekKind() != '[' {
		return nil, at(path, errors.New("want an array"))
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, at(path, syntaxError(err))
	}
	var values []jsontext.Value
	for k := d.PeekKind(); k != ']' && k != 0; k = d.PeekKind() {
		v, err := d.ReadValue()
		if err != nil {
			return nil, at(path, syntaxError(err))
		}
		values = append(values, v.Clone())
	}
	if err := readEnd(d); err != nil {
		return nil, at(path, err)
	}
	return values, nil
}

// readEnd reads the closing bracket and makes sure that nothing follows it.
func readEnd(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return syntaxError(err)
	}
	switch _, err := d.ReadToken(); {
	case err == nil:
		return errors.New("something follows the JSON value")
	case !errors.Is(err, io.EOF):
		return syntaxError(err)
	}
	return nil
}

func syntaxError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends too early")
	}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("not JSON: %w at byte %d", s.Err, s.ByteOffset)
	}
	return err
}

func at(path string, err error) error {
	if path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func (o *object) field(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// take removes a member and returns it, or nil when it is absent.
func (o *object) take(name string) jsontext.Value {
	v := o.members[name]
	delete(o.members, name)
	return v
}

// drop removes members that were read otherwise.
func (o *object) drop(names ...string) {
	for _, n := range names {
		delete(o.members, n)
	}
}

// optional takes a member for which null is the same as being absent.
func (o *object) optional(name string) jsontext.Value {
	v := o.take(name)
	if v.Kind() == 'n' {
		return nil
	}
	return v
}

func (o *object) fail(name string, err error) {
	if o.err == nil {
		o.err = at(o.field(name), err)
	}
}

func (o *object) string(name string) string {
	v := o.optional(name)
	if v == nil {
		return ""
	}
	s, err := parseString(o.field(name), v)
	if err != nil && o.err == nil {
		o.err = err
	}
	return s
}

func (o *object) strings(name string) []string {
	v := o.optional(name)
	if v == nil {
		return nil
	}
	values, err := parseArray(o.field(name), v)
	if err != nil {
		if o.err == nil {
			o.err = err
		}
		return nil
	}
	list := make([]string, len(values))
	for i, v := range values {
		if list[i], err = parseString(o.field(name), v); err != nil && o.err == nil {
			o.err = err
		}
	}
	return list
}

func (o *object) boolean(name string) bool {
	switch o.optional(name).Kind() {
	case 't':
		return true
	case 'f', jsontext.KindInvalid:
	default:
		o.fail(name, errors.New("want true or false"))
	}
	return false
}

func (o *object) time(name string) time.Time {
	s := o.string(name)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		o.fail(name, errors.New("want a time such as 2026-01-31T12:00:00Z"))
	}
	return t
}

// unknown reports a member that nobody took.
func (o *object) unknown() error {
	if len(o.members) == 0 {
		return nil
	}
	name := slices.Min(slices.Collect(maps.Keys(o.members)))
	const longest = 64
	if len(name) > longest {
		name = name[:longest]
	}
	return at(o.path, fmt.Errorf("unknown key %q", name))
}

// end returns the first error of the object, or an unknown member.
func (o *object) end() error {
	if o.err != nil {
		return o.err
	}
	return o.unknown()
}

func parseString(path string, value jsontext.Value) (string, error) {
	if value.Kind() != '"' {
		return "", at(path, errors.New("want a string"))
	}
	s, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return "", at(path, syntaxError(err))
	}
	return string(s), nil
}

// objectWriter appends the members of an object. Empty values are left out.
type objectWriter struct {
	dst   []byte
	start bool
}

func (w *objectWriter) key(name string) {
	if !w.start {
		w.dst = append(w.dst, ',')
	}
	w.start = false
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, `":`...)
}

func (w *objectWriter) text(name, s string) {
	if s != "" {
		w.key(name)
		w.dst = appendString(w.dst, s)
	}
}

func (w *objectWriter) texts(name string, list []string) {
	if len(list) > 0 {
		w.key(name)
		w.dst = appendList(w.dst, list, func(dst []byte, s *string) []byte { return appendString(dst, *s) })
	}
}

func (w *objectWriter) boolean(name string, b bool) {
	if b {
		w.key(name)
		w.dst = append(w.dst, "true"...)
	}
}

func (w *objectWriter) raw(name string, value jsontext.Value) {
	if value != nil {
		w.key(name)
		w.dst = append(w.dst, value...)
	}
}

func (w *objectWriter) time(name string, t time.Time) {
	if !t.IsZero() {
		w.key(name)
		w.dst = append(w.dst, '"')
		w.dst = t.UTC().AppendFormat(w.dst, time.RFC3339Nano)
		w.dst = append(w.dst, '"')
	}
}

// appendString appends a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

func appendList[T any](dst []byte, list []T, appendOne func([]byte, *T) []byte) []byte {
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendOne(dst, &list[i])
	}
	return append(dst, ']')
}
