package card

import (
	"maps"
	"slices"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The table of fields says what the generated messages say.
func TestFieldsAreThoseOfTheProtocol(t *testing.T) {
	t.Parallel()
	seen := map[protoreflect.FullName]bool{}
	var compare func(m message, d protoreflect.MessageDescriptor)
	compare = func(m message, d protoreflect.MessageDescriptor) {
		if seen[d.FullName()] {
			return
		}
		seen[d.FullName()] = true
		names := slices.Collect(maps.Keys(m))
		for i := range d.Fields().Len() {
			f := d.Fields().Get(i)
			name := f.JSONName()
			names = slices.DeleteFunc(names, func(n string) bool { return n == name })
			got, ok := m[name]
			if !ok {
				t.Errorf("%s: %s is missing", d.FullName(), name)
				continue
			}
			if want := kindOf(f); got.kind != want {
				t.Errorf("%s.%s: kind %d, want %d", d.FullName(), name, got.kind, want)
			}
			if want := presenceOf(f); got.presence != want {
				t.Errorf("%s.%s: presence %d, want %d", d.FullName(), name, got.presence, want)
			}
			inner := f.Message()
			if f.IsMap() {
				inner = f.MapValue().Message()
			}
			if hasMessage := inner != nil && got.kind != freeform; hasMessage != (got.message != nil) {
				t.Errorf("%s.%s: has a message: %t", d.FullName(), name, got.message != nil)
			} else if hasMessage {
				compare(got.message, inner)
			}
		}
		if len(names) > 0 {
			t.Errorf("%s has no %v", d.FullName(), names)
		}
	}
	compare(cardMessage, (&a2apb.AgentCard{}).ProtoReflect().Descriptor())
	if len(seen) < 15 {
		t.Errorf("only %d messages were compared", len(seen))
	}
}

func kindOf(f protoreflect.FieldDescriptor) kind {
	switch {
	case f.IsMap():
		return mapping
	case f.IsList():
		return list
	case f.Message() != nil && f.Message().FullName() == "google.protobuf.Struct":
		return freeform
	case f.Message() != nil:
		return nested
	default:
		return scalar
	}
}

func presenceOf(f protoreflect.FieldDescriptor) presence {
	behaviors, _ := proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	switch {
	case slices.Contains(behaviors, annotations.FieldBehavior_REQUIRED):
		return required
	case f.HasPresence():
		return explicit
	default:
		return implicit
	}
}
