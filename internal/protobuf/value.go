package protobuf

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/types/known/structpb"

	"handoff.example/handoff/a2a"
)

// Free JSON travels in protobuf as google.protobuf.Struct and Value. There every
// number is a double and the members of an object have no order, which
// docs/grpc.md tells users; everything else comes through as it is.

// freeLevels is how deep free JSON lies at most in the events that a stream
// repeats it in: in a part of the parts of a message of the history of a task.
const freeLevels = 6

// fault says what is wrong with a message of protobuf, and where.
type fault struct{ field, text string }

// under returns the fault as the object says it that has the faulty one in a
// field.
func (f *fault) under(name string) *fault {
	switch {
	case f == nil:
		return nil
	case f.field == "":
		f.field = name
	case f.field[0] == '[':
		f.field = name + f.field
	default:
		f.field = name + "." + f.field
	}
	return f
}

// element returns the fault as a list says it.
func (f *fault) element(index int) *fault { return f.under("[" + strconv.Itoa(index) + "]") }

// err returns the error of the protocol; nil for no fault.
func (f *fault) err() error {
	if f == nil {
		return nil
	}
	return a2a.Invalid(f.field, "%s", f.text)
}

func tooDeep() *fault { return &fault{text: "nests too deep"} }

// jsonOfStruct returns an object as JSON with its members in the order of their
// names; nil for no object.
func jsonOfStruct(s *structpb.Struct, depth int) (a2a.JSON, *fault) {
	if s == nil {
		return nil, nil
	}
	return appendStruct(nil, s, depth-freeLevels)
}

// jsonOfValue returns a value as JSON. One of no kind is null.
func jsonOfValue(v *structpb.Value, depth int) (a2a.JSON, *fault) {
	return appendValue(nil, v, depth-freeLevels)
}

// appendValue appends a value in which objects and arrays nest so deep at most.
func appendValue(dst []byte, v *structpb.Value, levels int) ([]byte, *fault) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		if math.IsNaN(kind.NumberValue) || math.IsInf(kind.NumberValue, 0) {
			return dst, &fault{text: "has a number that JSON does not have"}
		}
		return appendNumber(dst, kind.NumberValue), nil
	case *structpb.Value_StringValue:
		return appendQuoted(dst, kind.StringValue), nil
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(dst, kind.BoolValue), nil
	case *structpb.Value_StructValue:
		return appendStruct(dst, kind.StructValue, levels)
	case *structpb.Value_ListValue:
		return appendListValue(dst, kind.ListValue, levels)
	}
	return append(dst, "null"...), nil
}

func appendStruct(dst []byte, s *structpb.Struct, levels int) ([]byte, *fault) {
	if levels <= 0 {
		return dst, tooDeep()
	}
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, name), ':')
		var f *fault
		if dst, f = appendValue(dst, s.GetFields()[name], levels-1); f != nil {
			return dst, f
		}
	}
	return append(dst, '}'), nil
}

func appendListValue(dst []byte, list *structpb.ListValue, levels int) ([]byte, *fault) {
	if levels <= 0 {
		return dst, tooDeep()
	}
	dst = append(dst, '[')
	for i, v := range list.GetValues() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var f *fault
		if dst, f = appendValue(dst, v, levels-1); f != nil {
			return dst, f
		}
	}
	return append(dst, ']'), nil
}

func appendQuoted(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // protobuf has checked that it is UTF-8
	return dst
}

// appendNumber appends a number in the shortest form that reads back the same, as
// JavaScript writes it.
func appendNumber(dst []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if n := len(dst); format == 'e' && n-start >= 4 && dst[n-4] == 'e' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 is e-9
		dst = dst[:n-1]
	}
	return dst
}

// structOfJSON returns an object of JSON for protobuf; nil for none. The JSON is
// one that was decoded before.
func structOfJSON(text a2a.JSON) (*structpb.Struct, error) {
	if len(text) == 0 {
		return nil, nil
	}
	v, err := valueOfJSON(text)
	if err != nil {
		return nil, err
	}
	s := v.GetStructValue()
	if s == nil {
		return nil, fmt.Errorf("encode object: it is a %v", text.Kind())
	}
	return s, nil
}

// valueOfJSON returns a value of JSON for protobuf.
func valueOfJSON(text a2a.JSON) (*structpb.Value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	v, err := decodeValue(d)
	if err != nil {
		return nil, fmt.Errorf("encode free JSON: %w", err)
	}
	return v, nil
}

// decodeValue reads the next value. Its depth is bounded by that of the decoder
// which it came through.
func decodeValue(d *jsontext.Decoder) (*structpb.Value, error) {
	switch d.PeekKind() {
	case '{':
		s, err := decodeStruct(d)
		return &structpb.Value{Kind: &structpb.Value_StructValue{StructValue: s}}, err
	case '[':
		list, err := decodeListValue(d)
		return &structpb.Value{Kind: &structpb.Value_ListValue{ListValue: list}}, err
	}
	text, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	switch text.Kind() {
	case '"':
		return &structpb.Value{Kind: &structpb.Value_StringValue{StringValue: string(unquote(text))}}, nil
	case '0':
		return &structpb.Value{Kind: &structpb.Value_NumberValue{NumberValue: nearest(string(text))}}, nil
	case 't', 'f':
		return &structpb.Value{Kind: &structpb.Value_BoolValue{BoolValue: text.Kind() == 't'}}, nil
	}
	return &structpb.Value{Kind: &structpb.Value_NullValue{}}, nil
}

func decodeStruct(d *jsontext.Decoder) (*structpb.Struct, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for d.PeekKind() != '}' {
		quoted, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		name := string(unquote(quoted))
		if s.Fields[name], err = decodeValue(d); err != nil {
			return nil, err
		}
	}
	_, err := d.ReadToken()
	return s, err
}

func decodeListValue(d *jsontext.Decoder) (*structpb.ListValue, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	list := &structpb.ListValue{}
	for d.PeekKind() != ']' {
		v, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		list.Values = append(list.Values, v)
	}
	_, err := d.ReadToken()
	return list, err
}

// nearest returns the double that is nearest to a number of JSON.
func nearest(number string) float64 {
	f, _ := strconv.ParseFloat(number, 64) // the only error is that it is too large
	return max(-math.MaxFloat64, min(f, math.MaxFloat64))
}

// unquote returns the text of a JSON string that is valid.
func unquote(quoted jsontext.Value) []byte {
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}
