package conformance

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The objects that answers hold, as a2a.proto defines them.
var (
	taskShape     = (*pb.Task)(nil).ProtoReflect().Descriptor()
	sendShape     = (*pb.SendMessageResponse)(nil).ProtoReflect().Descriptor()
	streamShape   = (*pb.StreamResponse)(nil).ProtoReflect().Descriptor()
	listShape     = (*pb.ListTasksResponse)(nil).ProtoReflect().Descriptor()
	cardShape     = (*pb.AgentCard)(nil).ProtoReflect().Descriptor()
	pushShape     = (*pb.TaskPushNotificationConfig)(nil).ProtoReflect().Descriptor()
	pushListShape = (*pb.ListTaskPushNotificationConfigsResponse)(nil).ProtoReflect().Descriptor()
)

// oldNames are fields of version 0.3 that 1.0 has no more (A2A §A.2.1). Those of
// cards are left out: a card may serve both.
var oldNames = []string{"kind", "final", "mimeType", "file", "fileWithBytes", "fileWithUri", "bytes", "uri"}

// maxShapeDepth bounds objects in each other; the protocol's are a dozen deep.
const maxShapeDepth = 40

// shape compares JSON with the definition of its object.
type shape struct {
	observed *observed
	binary   bool // it came as protobuf, which leaves out zeros
}

// look compares a value.
func (s *shape) look(at string, v any, of protoreflect.MessageDescriptor) {
	for _, t := range []topic{required, types, names, enums, nulls, legacy, oneOf} {
		s.observed.saw(t)
	}
	s.message(at, v, of, 0)
}

func (s *shape) message(at string, v any, of protoreflect.MessageDescriptor, depth int) {
	if depth > maxShapeDepth {
		return
	}
	switch of.FullName() {
	case "google.protobuf.Value":
		return
	case "google.protobuf.Struct":
		if _, ok := v.(object); !ok {
			s.observed.add(types, "%s is not an object", at)
		}
		return
	case "google.protobuf.Timestamp":
		s.timestamp(at, v)
		return
	}
	o, ok := v.(object)
	if !ok {
		s.observed.add(types, "%s is not an object", at)
		return
	}
	s.members(at, o, of, depth)
	s.missing(at, o, of)
	s.choice(at, o, of)
}

func (s *shape) members(at string, o object, of protoreflect.MessageDescriptor, depth int) {
	for name, v := range o {
		path := at + "." + shorten(name, 40)
		field := of.Fields().ByJSONName(name)
		switch {
		case field != nil && v == nil && field.Message() != nil && field.Message().FullName() == "google.protobuf.Value":
			// null is data
		case field != nil && v == nil:
			s.observed.add(nulls, "%s", path)
		case field != nil:
			s.field(path, v, field, depth)
		case of.Fields().ByTextName(name) != nil:
			s.observed.add(names, "%s, which is %s", path, of.Fields().ByTextName(name).JSONName())
		case slices.Contains(oldNames, name) && of.FullName() != cardShape.FullName():
			s.observed.add(legacy, "%s", path)
		}
	}
}

func (s *shape) field(at string, v any, field protoreflect.FieldDescriptor, depth int) {
	switch {
	case field.IsMap():
		o, ok := v.(object)
		if !ok {
			s.observed.add(types, "%s is not an object", at)
			return
		}
		for key, element := range o {
			s.value(at+"."+shorten(key, 40), element, field.MapValue(), depth)
		}
	case field.IsList():
		list, ok := v.([]any)
		if !ok {
			s.observed.add(types, "%s is not an array", at)
			return
		}
		for i, element := range list {
			s.value(at+"["+strconv.Itoa(i)+"]", element, field, depth)
		}
	default:
		s.value(at, v, field, depth)
	}
}

// value compares one value of a field.
func (s *shape) value(at string, v any, field protoreflect.FieldDescriptor, depth int) {
	ok := true
	switch field.Kind() {
	case protoreflect.MessageKind:
		s.message(at, v, field.Message(), depth+1)
	case protoreflect.EnumKind:
		s.enum(at, v, field.Enum())
	case protoreflect.StringKind:
		_, ok = v.(string)
	case protoreflect.BytesKind:
		encoded, isText := v.(string)
		_, err := base64.StdEncoding.DecodeString(encoded)
		ok = isText && err == nil
	case protoreflect.BoolKind:
		_, ok = v.(bool)
	case protoreflect.Int32Kind:
		_, ok = v.(float64)
	}
	if !ok {
		s.observed.add(types, "%s is no %s", at, field.Kind())
	}
}

func (s *shape) enum(at string, v any, of protoreflect.EnumDescriptor) {
	name, ok := v.(string)
	value := of.Values().ByName(protoreflect.Name(name))
	switch {
	case !ok || value == nil:
		s.observed.add(enums, "%s is %s", at, shorten(string(encode(v)), 40))
	case value.Number() == 0:
		s.observed.add(enums, "%s is %s, which says nothing", at, name)
	}
}

// timestamp compares with A2A §5.6.1.
func (s *shape) timestamp(at string, v any) {
	value, ok := v.(string)
	_, err := time.Parse(time.RFC3339Nano, value)
	switch {
	case !ok || err != nil || !strings.HasSuffix(value, "Z"):
		s.observed.add(timestamps, "%s is %s", at, shorten(string(encode(v)), 40))
	case !s.binary && !strings.Contains(value, "."):
		s.observed.add(millis, "%s is %s", at, value)
	}
	s.observed.saw(timestamps)
	s.observed.saw(millis)
}

// missing looks for fields that have to be there (A2A §5.7).
func (s *shape) missing(at string, o object, of protoreflect.MessageDescriptor) {
	fields := of.Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		behaviors, _ := proto.GetExtension(field.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
		if !slices.Contains(behaviors, annotations.FieldBehavior_REQUIRED) {
			continue
		}
		if s.binary && of.FullName() == listShape.FullName() {
			continue // nothing, zero and not there are the same in protobuf
		}
		v, ok := o[field.JSONName()]
		if !ok || v == nil {
			s.observed.add(required, "%s.%s", at, field.JSONName())
			continue
		}
		list, isList := v.([]any)
		if isList && len(list) == 0 && of.FullName() != listShape.FullName() {
			s.observed.add(required, "%s.%s has no element", at, field.JSONName())
		}
	}
}

// choice looks at fields of which there is exactly one.
func (s *shape) choice(at string, o object, of protoreflect.MessageDescriptor) {
	for i := range of.Oneofs().Len() {
		choice := of.Oneofs().Get(i)
		if choice.IsSynthetic() {
			continue
		}
		var present []string
		for j := range choice.Fields().Len() {
			name := choice.Fields().Get(j).JSONName()
			if _, ok := o[name]; ok {
				present = append(present, name)
			}
		}
		switch len(present) {
		case 0:
			s.observed.add(oneOf, "%s has no %s", at, choice.Name())
		case 1:
		default:
			s.observed.add(oneOf, "%s has %s", at, strings.Join(present, " and "))
		}
	}
}
