package a2a

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

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
	repeatedArtifactID
	repeatedFields // how many there are
)

// texts are the last texts of the repeated fields.
type texts [repeatedFields]string

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
