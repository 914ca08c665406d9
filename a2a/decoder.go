package a2a

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep objects and arrays may nest in JSON that is decoded.
const MaxDepth = 100

// Decodable is an object of the protocol that can be read from JSON. Pointers
// to all structs of this package that have a JSON form are Decodable.
type Decodable interface {
	decode(d *decoder)
}

// Unmarshal reads one JSON object into v, which is reset first. It is lenient
// where ProtoJSON parsers are: unknown fields are skipped, null is an absent
// field, enums may be numbers, names may be in snake_case, bytes may be in
// either base64 alphabet, and a number may stand in a string.
//
// The error is an *Error: CodeParse with the byte offset when data is not one
// JSON value of at most MaxDepth levels with unique names, and
// CodeInvalidParams with a Violation that names the field when the value does
// not fit. Missing fields are not an error here; see the Validate methods.
//
// The value shares no memory with data.
func Unmarshal(data []byte, v Decodable) error {
	if err := checkDepth(data); err != nil {
		return err
	}
	d := decoders.Get().(*decoder)
	defer d.release()
	d.reset(data)
	if d.kind() == 'n' {
		d.fail("must be an object")
	}
	v.decode(d)
	d.end(data)
	if d.err != nil {
		return d.err
	}
	return nil
}

// unmarshalFrom reads the next value of a stream into v.
func unmarshalFrom(dec *jsontext.Decoder, v Decodable) error {
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	return Unmarshal(value, v)
}

// checkDepth refuses JSON that nests deeper than MaxDepth. Only an input with
// that many brackets is looked at closely.
func checkDepth(data []byte) error {
	if bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= MaxDepth {
		return nil
	}
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return Errorf(CodeParse, "Invalid JSON payload: more than %d levels of nesting at byte %d", MaxDepth, i)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// decoder reads the objects of the protocol. Its first error is kept and makes
// every later call a no-op, so that the decode methods need not look at it.
type decoder struct {
	dec     jsontext.Decoder
	buf     bytes.Buffer
	key     []byte // the name of the current member, valid until the next read
	scratch []byte // holds a key that had to be unescaped
	path    []pathStep
	recent  [3]string // the last text of each repeated field
	err     *Error
}

// pathStep is a member name, or an index when the name is empty.
type pathStep struct {
	name  string
	index int
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

func (d *decoder) reset(data []byte) {
	d.buf = *bytes.NewBuffer(data)
	d.dec.Reset(&d.buf)
	d.path, d.err = d.path[:0], nil
	d.recent = [3]string{}
}

// release gives the decoder back. It lets go of the input first.
func (d *decoder) release() {
	d.reset(nil)
	d.key = nil
	decoders.Put(d)
}

// end checks that nothing follows the value. A shape error gives way to a
// syntax error further on: what is not JSON has no shape.
func (d *decoder) end(data []byte) {
	if d.err == nil {
		if _, err := d.dec.ReadToken(); err == nil {
			d.syntax(&jsontext.SyntacticError{ByteOffset: d.dec.InputOffset(), Err: errTrailing})
		} else if err != io.EOF {
			d.syntax(err)
		}
		return
	}
	if d.err.Code != CodeInvalidParams {
		return
	}
	d.buf = *bytes.NewBuffer(data)
	d.dec.Reset(&d.buf)
	err := d.dec.SkipValue()
	if err == nil {
		if _, err = d.dec.ReadToken(); err == io.EOF {
			return
		} else if err == nil {
			err = &jsontext.SyntacticError{ByteOffset: d.dec.InputOffset(), Err: errTrailing}
		}
	}
	d.err = nil
	d.syntax(err)
}

var errTrailing = errors.New("unexpected data after the value")

// syntax records that the input is not JSON.
func (d *decoder) syntax(err error) {
	if d.err != nil {
		return
	}
	d.err = parseError(err, d.dec.InputOffset())
}

func parseError(err error, offset int64) *Error {
	text := "unexpected end of input"
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset, err = s.ByteOffset, s.Err
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		text = err.Error()
	}
	return &Error{
		Code:    CodeParse,
		Message: fmt.Sprintf("Invalid JSON payload: %s at byte %d", text, offset),
		Err:     err,
	}
}

// fail records that the current value is not what its field takes.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = Invalid(d.pathString(), format, args...)
	}
}

// maxPathName bounds how much of a hostile name an error repeats.
const maxPathName = 64

func (d *decoder) pathString() string {
	var b strings.Builder
	for _, s := range d.path {
		switch {
		case s.name == "":
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
			continue
		case b.Len() > 0:
			b.WriteByte('.')
		}
		b.WriteString(truncate(s.name, maxPathName))
	}
	return b.String()
}

// kind returns the kind of the next value, and 0 when there is none or an error
// happened before.
func (d *decoder) kind() jsontext.Kind {
	if d.err != nil {
		return 0
	}
	k := d.dec.PeekKind()
	if k == 0 || k == '}' || k == ']' {
		// Reading it gives the reason.
		if _, err := d.dec.ReadValue(); err != nil {
			d.syntax(err)
		}
		return 0
	}
	return k
}

// value returns the bytes of the next value, valid until the next read.
func (d *decoder) value() []byte {
	if d.err != nil {
		return nil
	}
	v, err := d.dec.ReadValue()
	if err != nil {
		d.syntax(err)
		return nil
	}
	return v
}

func (d *decoder) token() {
	if d.err != nil {
		return
	}
	if _, err := d.dec.ReadToken(); err != nil {
		d.syntax(err)
	}
}

func (d *decoder) skip() {
	if d.err != nil {
		return
	}
	if err := d.dec.SkipValue(); err != nil {
		d.syntax(err)
	}
}

// null reports whether the next value is null, and consumes it then.
func (d *decoder) null() bool {
	if d.kind() != 'n' {
		return false
	}
	d.token()
	return true
}

// members iterates over the members of an object.
type members struct {
	seen  uint32 // the fields met so far, by number
	depth int    // of the path at the object itself
	done  bool
}

// object begins an object. One that is null has no members.
func (d *decoder) object() members {
	m := members{depth: len(d.path)}
	switch d.kind() {
	case '{':
		d.token()
	case 'n':
		d.token()
		m.done = true
	default:
		d.fail("must be an object")
	}
	return m
}

// next reads the next member's name into d.key and reports whether there is one.
// The caller has to consume the value.
func (m *members) next(d *decoder) bool {
	if d.err != nil || m.done {
		return false
	}
	d.path = d.path[:m.depth]
	if d.dec.PeekKind() == '}' {
		d.token()
		m.done = true
		return false
	}
	name := d.value()
	if d.err != nil {
		return false
	}
	if bytes.IndexByte(name, '\\') < 0 {
		d.key = name[1 : len(name)-1]
		return true
	}
	key, err := jsontext.AppendUnquote(d.scratch[:0], name)
	if err != nil {
		d.syntax(err)
		return false
	}
	d.key, d.scratch = key, key
	return true
}

// field says which field the current member is: its number among those of the
// object and its name in errors. It refuses the same field under two names.
func (m *members) field(d *decoder, number uint, name string) {
	d.path = append(d.path[:m.depth], pathStep{name: name})
	if m.seen&(1<<number) != 0 {
		d.fail("is given twice")
	}
	m.seen |= 1 << number
}

// elements iterates over the elements of an array.
type elements struct {
	depth int
	index int
	done  bool
}

// array begins an array.
func (d *decoder) array() elements {
	if d.kind() == '[' {
		d.token()
	} else {
		d.fail("must be an array")
	}
	return elements{depth: len(d.path)}
}

// next reports whether there is another element, which the caller has to
// consume. It refuses null, which ProtoJSON does not allow in arrays.
func (e *elements) next(d *decoder) bool {
	if !e.nextOrNull(d) {
		return false
	}
	if d.peekNull() {
		d.fail("must not be null")
		return false
	}
	return true
}

// nextOrNull is next for arrays that may hold null.
func (e *elements) nextOrNull(d *decoder) bool {
	if d.err != nil || e.done {
		return false
	}
	if d.dec.PeekKind() == ']' {
		d.path = d.path[:e.depth]
		d.token()
		e.done = true
		return false
	}
	d.path = append(d.path[:e.depth], pathStep{index: e.index})
	e.index++
	return true
}

// decodableAs is a pointer to T that can be decoded.
type decodableAs[T any] interface {
	*T
	Decodable
}

// decodeList reads an array of objects; nil when it is null.
func decodeList[T any, P decodableAs[T]](d *decoder) []T {
	if d.null() {
		return nil
	}
	list := []T{}
	for e := d.array(); e.next(d); {
		n := len(list)
		if n == 1 {
			list = slices.Grow(list, 3) // one is common, two rarely come alone
		}
		list = slices.Grow(list, 1)[:n+1]
		P(&list[n]).decode(d)
	}
	return list
}

// decodePointer reads an object; nil when it is null.
func decodePointer[T any, P decodableAs[T]](d *decoder) *T {
	if d.null() {
		return nil
	}
	v := new(T)
	P(v).decode(d)
	return v
}

// text reads a string; "" when it is null.
func (d *decoder) text() string {
	switch d.kind() {
	case '"':
		return string(unescape(d.value()))
	case 'n':
		d.token()
	default:
		d.fail("must be a string")
	}
	return ""
}

// Fields whose text is mostly that of the object before.
const (
	repeatedContextID = iota
	repeatedTaskID
	repeatedMediaType
)

// repeatedText reads a string as text does. When it is the one that the same
// field had last, the two share their memory.
func (d *decoder) repeatedText(field int) string {
	if d.kind() != '"' {
		return d.text()
	}
	if text := unescape(d.value()); string(text) != d.recent[field] {
		d.recent[field] = string(text)
	}
	return d.recent[field]
}

// textPointer reads a string; nil when it is null.
func (d *decoder) textPointer() *string {
	if d.null() {
		return nil
	}
	s := d.text()
	return &s
}

// texts reads an array of strings; nil when it is null.
func (d *decoder) texts() []string {
	if d.null() {
		return nil
	}
	list := []string{}
	for e := d.array(); e.next(d); {
		list = append(list, d.text())
	}
	return list
}

// textMap reads an object of strings; nil when it is null.
func (d *decoder) textMap() map[string]string {
	if d.null() {
		return nil
	}
	m := map[string]string{}
	for o := d.object(); o.next(d); {
		key := string(d.key)
		o.entry(d, key)
		m[key] = d.text()
	}
	return m
}

// entry says that the current member is the entry of a map.
func (m *members) entry(d *decoder, key string) {
	d.path = append(d.path[:m.depth], pathStep{name: key})
}

// unescape returns the text of a JSON string that was read. It aliases the
// string when nothing is escaped.
func unescape(quoted []byte) []byte {
	if len(quoted) < 2 {
		return nil // an error came before
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	// The string was checked when it was read, so that this cannot fail.
	text, _ := jsontext.AppendUnquote(make([]byte, 0, len(quoted)), quoted)
	return text
}

// boolean reads a boolean; false when it is null.
func (d *decoder) boolean() bool {
	switch d.kind() {
	case 't':
		d.token()
		return true
	case 'f', 'n':
		d.token()
	default:
		d.fail("must be true or false")
	}
	return false
}

// booleanPointer reads a boolean; nil when it is null.
func (d *decoder) booleanPointer() *bool {
	if d.null() {
		return nil
	}
	b := d.boolean()
	return &b
}

// integer reads an int32, which may stand in a string or have an empty
// fraction; 0 when it is null.
func (d *decoder) integer() int {
	var text string
	switch d.kind() {
	case '0':
		text = string(d.value())
	case '"':
		text = string(unescape(d.value()))
		if !(jsontext.Value(text).Kind() == '0' && jsontext.Value(text).IsValid()) {
			d.fail("must be a whole number")
			return 0
		}
	case 'n':
		d.token()
		return 0
	default:
		d.fail("must be a whole number")
		return 0
	}
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return int(n)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || f < math.MinInt32 || f > math.MaxInt32 {
		d.fail("must be a whole number of 32 bits")
		return 0
	}
	return int(f)
}

// integerPointer reads an int32; nil when it is null.
func (d *decoder) integerPointer() *int {
	if d.null() {
		return nil
	}
	n := d.integer()
	return &n
}

// enumeration is an enum of the protocol; String gives the name of a value.
type enumeration interface {
	~int8
	String() string
}

// enum reads the name or the number of an enum's value, the highest of which is
// last; 0 when it is null.
func enum[E enumeration](d *decoder, last E) E {
	switch d.kind() {
	case '"':
		name := unescape(d.value())
		for e := E(0); e <= last; e++ {
			if string(name) == e.String() {
				return e
			}
		}
		d.fail("has no value %q", truncate(string(name), maxPathName))
	case '0':
		n := d.integer()
		if n < 0 || n > int(last) {
			d.fail("has no value %d", n)
			return 0
		}
		return E(n)
	case 'n':
		d.token()
	default:
		d.fail("must be the name of a value")
	}
	return 0
}

// bytes reads base64 in either alphabet, padded or not.
func (d *decoder) bytes() []byte {
	if d.kind() != '"' {
		d.fail("must be a base64 string")
		return nil
	}
	text := unescape(d.value())
	encoding := base64.StdEncoding
	if bytes.IndexByte(text, '-') >= 0 || bytes.IndexByte(text, '_') >= 0 {
		encoding = base64.URLEncoding
	}
	if len(text) == 0 || text[len(text)-1] != '=' {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	content := make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(content, text)
	if err != nil {
		d.fail("must be base64")
		return nil
	}
	return content[:n]
}

// timestamp reads an RFC 3339 timestamp into UTC; zero when it is null.
func (d *decoder) timestamp() time.Time {
	switch d.kind() {
	case '"':
		t, ok := parseTimestamp(string(unescape(d.value())))
		if !ok {
			break
		}
		return t
	case 'n':
		d.token()
		return time.Time{}
	}
	d.fail("must be a timestamp of the years 1 to 9999 such as 2006-01-02T15:04:05.000Z")
	return time.Time{}
}

// parseTimestamp reads an RFC 3339 timestamp of the years 1 to 9999, the range
// of google.protobuf.Timestamp.
func parseTimestamp(text string) (time.Time, bool) {
	// Package time takes hours of one digit and a comma, too.
	const untilFraction = len("2006-01-02T15:04:05")
	if len(text) <= untilFraction || text[13] != ':' || text[untilFraction] == ',' {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, false
	}
	t = t.UTC()
	return t, t.Year() >= 1 && t.Year() <= 9999
}

// raw reads any value, null included, and returns a copy of its bytes.
func (d *decoder) raw() JSON {
	return bytes.Clone(d.value())
}

// rawObject reads an object and returns a copy of its bytes; nil when it is
// null.
func (d *decoder) rawObject() JSON {
	switch d.kind() {
	case '{':
		return d.raw()
	case 'n':
		d.token()
	default:
		d.fail("must be an object")
	}
	return nil
}

// peekNull reports whether the next value is null, and leaves it there.
func (d *decoder) peekNull() bool { return d.kind() == 'n' }
