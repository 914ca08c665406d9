package a2a

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep objects and arrays may nest in JSON that is decoded.
const MaxDepth = 100

// MaxElements is how many elements the arrays of one JSON object may have
// together, beside those in free JSON. It bounds the memory that a small input
// can ask for.
const MaxElements = 250_000

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
// The value shares no memory with data. After an error it is incomplete.
func Unmarshal(data []byte, v Decodable) error {
	if err := checkDepth(data); err != nil {
		return err
	}
	d := decoders.Get().(*decoder)
	defer d.release()
	d.reset(data)
	return d.decode(data, v)
}

// decode reads all of the input, data, into v.
func (d *decoder) decode(data []byte, v Decodable) error {
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
	size    int    // of the input
	count   int    // of the elements of arrays so far
	key     []byte // the name of the current member, valid until the next read
	scratch []byte // holds a key that had to be unescaped
	path    []pathStep
	recent  texts // the last text of each repeated field
	reuse   bool  // what an event points to is written over
	err     *Error
}

// pathStep is a member name, or an index when the name is empty.
type pathStep struct {
	name  string
	index int
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

func (d *decoder) reset(data []byte) {
	d.size = len(data)
	d.buf = *bytes.NewBuffer(data)
	d.dec.Reset(&d.buf)
	d.path, d.err, d.count = d.path[:0], nil, 0
	d.recent, d.reuse = texts{}, false
}

// maxPooledInput is the largest input after which a decoder is used again: its
// buffers may have grown to the size of a name.
const maxPooledInput = 1 << 18

// release gives the decoder back. It lets go of the input first.
func (d *decoder) release() {
	if d.size > maxPooledInput {
		return
	}
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

// peekNull reports whether the next value is null, and leaves it there.
func (d *decoder) peekNull() bool { return d.kind() == 'n' }

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
	if d.count++; d.count > MaxElements {
		d.fail("makes more than %d elements in all", MaxElements)
		return false
	}
	return true
}

// decodableAs is a pointer to T that can be decoded.
type decodableAs[T any] interface {
	*T
	Decodable
}

// decodeList reads an array of objects; nil when it is null.
func decodeList[T any, P decodableAs[T]](d *decoder) []T { return decodeListInto[T, P](d, []T{}) }

// decodeListInto is decodeList into the memory of a list of no elements.
func decodeListInto[T any, P decodableAs[T]](d *decoder, list []T) []T {
	if d.null() {
		return nil
	}
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
func decodePointer[T any, P decodableAs[T]](d *decoder) *T { return decodeInto[T, P](d, nil) }

// decodeInto is decodePointer into an object that is there already, if one is and
// it may be used again.
func decodeInto[T any, P decodableAs[T]](d *decoder, v *T) *T {
	if d.null() {
		return nil
	}
	if v == nil || !d.reuse {
		v = new(T)
	}
	P(v).decode(d)
	return v
}
