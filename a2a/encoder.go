package a2a

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// TimestampLen is the length of a timestamp in JSON, without its quotes.
const TimestampLen = len("2006-01-02T15:04:05.000Z")

// AppendTimestamp appends the time in UTC as 2006-01-02T15:04:05.000Z, cut to
// milliseconds (A2A §5.6.1). It always appends TimestampLen bytes: a time
// outside of the years 1 to 9999 becomes the nearest that fits.
func AppendTimestamp(dst []byte, t time.Time) []byte {
	t = t.UTC()
	switch year := t.Year(); {
	case year < 1:
		t = time.Time{}
	case year > 9999:
		t = time.Date(9999, time.December, 31, 23, 59, 59, 999e6, time.UTC)
	}
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = appendTwoDigits(dst, year/100)
	dst = appendTwoDigits(dst, year%100)
	dst = appendTwoDigits(append(dst, '-'), int(month))
	dst = appendTwoDigits(append(dst, '-'), day)
	dst = appendTwoDigits(append(dst, 'T'), hour)
	dst = appendTwoDigits(append(dst, ':'), minute)
	dst = appendTwoDigits(append(dst, ':'), second)
	ms := t.Nanosecond() / 1e6
	dst = append(dst, '.', byte('0'+ms/100))
	dst = appendTwoDigits(dst, ms%100)
	return append(dst, 'Z')
}

func appendTwoDigits(dst []byte, n int) []byte {
	return append(dst, byte('0'+n/10), byte('0'+n%10))
}

// The functions below append one member of an object. Those that begin with
// opt append nothing when the value is the default one.

// appendKey appends the name of a member, after a comma unless it is the first.
// No value ends in '{', so that the last byte tells.
func appendKey(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

// appendQuoted appends a JSON string with the fewest escapes; invalid UTF-8
// becomes U+FFFD.
func appendQuoted(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the error only says that U+FFFD was needed
	return dst
}

func appendText(dst []byte, name, s string) []byte {
	return appendQuoted(appendKey(dst, name), s)
}

func optText(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	return appendText(dst, name, s)
}

func optTextPointer(dst []byte, name string, s *string) []byte {
	if s == nil {
		return dst
	}
	return appendText(dst, name, *s)
}

func optBool(dst []byte, name string, b bool) []byte {
	if !b {
		return dst
	}
	return append(appendKey(dst, name), "true"...)
}

func optBoolPointer(dst []byte, name string, b *bool) []byte {
	if b == nil {
		return dst
	}
	return strconv.AppendBool(appendKey(dst, name), *b)
}

func appendInt(dst []byte, name string, n int) []byte {
	return strconv.AppendInt(appendKey(dst, name), int64(n), 10)
}

func optInt(dst []byte, name string, n int) []byte {
	if n == 0 {
		return dst
	}
	return appendInt(dst, name, n)
}

func optIntPointer(dst []byte, name string, n *int) []byte {
	if n == nil {
		return dst
	}
	return appendInt(dst, name, *n)
}

// appendName appends a member whose value is a string that needs no escapes.
func appendName(dst []byte, name, value string) []byte {
	dst = append(appendKey(dst, name), '"')
	dst = append(dst, value...)
	return append(dst, '"')
}

func optTime(dst []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	return append(AppendTimestamp(append(appendKey(dst, name), '"'), t), '"')
}

func optRaw(dst []byte, name string, value JSON) []byte {
	if len(value) == 0 {
		return dst
	}
	return append(appendKey(dst, name), value...)
}

func appendBase64(dst []byte, name string, content []byte) []byte {
	dst = append(appendKey(dst, name), '"')
	return append(base64.StdEncoding.AppendEncode(dst, content), '"')
}

func appendTexts(dst []byte, name string, list []string) []byte {
	return appendTextList(appendKey(dst, name), list)
}

func optTexts(dst []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return dst
	}
	return appendTexts(dst, name, list)
}

func appendTextList(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, s)
	}
	return append(dst, ']')
}

// appendTextMap appends a map in the order of its keys.
func appendTextMap(dst []byte, name string, m map[string]string) []byte {
	dst = append(appendKey(dst, name), '{')
	for i, key := range sortedKeys(m) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, key), ':')
		dst = appendQuoted(dst, m[key])
	}
	return append(dst, '}')
}

func optTextMap(dst []byte, name string, m map[string]string) []byte {
	if len(m) == 0 {
		return dst
	}
	return appendTextMap(dst, name, m)
}

// appender is a pointer to T that can be encoded.
type appender[T any] interface {
	*T
	AppendJSON(dst []byte) []byte
}

func appendList[T any, P appender[T]](dst []byte, name string, list []T) []byte {
	dst = append(appendKey(dst, name), '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = P(&list[i]).AppendJSON(dst)
	}
	return append(dst, ']')
}

func optList[T any, P appender[T]](dst []byte, name string, list []T) []byte {
	if len(list) == 0 {
		return dst
	}
	return appendList[T, P](dst, name, list)
}

func optObject[T any, P appender[T]](dst []byte, name string, v P) []byte {
	if v == nil {
		return dst
	}
	return v.AppendJSON(appendKey(dst, name))
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
