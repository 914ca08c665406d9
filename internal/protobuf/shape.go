package protobuf

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"handoff.example/handoff/a2a"
)

// Two bytes of protobuf can ask for an object of a hundred, so that what a
// message asks for is counted before it is decoded.

// protoShape bounds what a message of protobuf may hold.
type protoShape struct {
	depth   int // of messages in each other
	objects int // of the protocol that may still come
	values  int // of free JSON that may still come

	maxObjects int
}

// Bounds are what a message may hold.
type Bounds struct {
	Depth   int // levels of JSON
	Objects int // objects and list elements of the protocol
}

// Unmarshal decodes the bytes of a message within bounds. The error is an
// *a2a.Error.
func Unmarshal(data []byte, m proto.Message, bounds Bounds) error {
	if err := newProtoShape(bounds).check(data, m.ProtoReflect().Descriptor()); err != nil {
		return err
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m); err != nil {
		e := errNotProto()
		e.Err = err
		return e
	}
	return nil
}

// newProtoShape returns the bounds that JSON has. A level of free JSON is up to
// three messages: the value, its object, and the object's member.
func newProtoShape(b Bounds) *protoShape {
	return &protoShape{depth: 3 * b.Depth, objects: b.Objects, maxObjects: b.Objects, values: a2a.MaxElements}
}

func errNotProto() *a2a.Error {
	return a2a.Errorf(a2a.CodeParse, "Invalid protobuf payload: it is not a message of this operation")
}

// check checks the bytes of a message.
func (s *protoShape) check(data []byte, of protoreflect.MessageDescriptor) error {
	return s.walk(data, of, false, 1)
}

func (s *protoShape) walk(data []byte, of protoreflect.MessageDescriptor, free bool, depth int) error {
	if depth > s.depth {
		return a2a.Errorf(a2a.CodeParse, "Invalid protobuf payload: more than %d messages in each other", s.depth)
	}
	fields := of.Fields()
	for len(data) > 0 {
		number, wireType, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errNotProto()
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, wireType, data); n < 0 {
			return errNotProto()
		}
		value := data[:n]
		data = data[n:]
		field := fields.ByNumber(number)
		if field == nil || wireType != protowire.BytesType {
			continue
		}
		inner := field.Message()
		if inner == nil && !field.IsList() {
			continue
		}
		within := free || inner != nil && isFree(inner)
		if err := s.count(within); err != nil {
			return err
		}
		if inner != nil {
			value, _ = protowire.ConsumeBytes(value) // it was consumed before
			if err := s.walk(value, inner, within, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *protoShape) count(free bool) error {
	if free {
		if s.values--; s.values < 0 {
			return a2a.Invalid("", "the data and metadata have more than %d values in all", a2a.MaxElements)
		}
		return nil
	}
	if s.objects--; s.objects < 0 {
		return a2a.Invalid("", "the message has more than %d objects and list elements", s.maxObjects)
	}
	return nil
}

// isFree reports whether a message is one of those that hold free JSON.
func isFree(m protoreflect.MessageDescriptor) bool {
	switch m.FullName() {
	case "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue":
		return true
	}
	return false
}

// CheckValues refuses JSON with too many values, which its text does not show by
// its length.
func CheckValues(data []byte) error {
	values, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == ',' || c == '[' || c == '{'):
			values++
		}
	}
	if values > a2a.MaxElements {
		return a2a.Invalid("", "the message has more than %d values", a2a.MaxElements)
	}
	return nil
}
