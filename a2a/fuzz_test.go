package a2a

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// fuzzObject checks for any input that what is refused is refused for the right
// reason, that what is accepted is written as valid JSON, and that reading and
// writing that again changes nothing.
func fuzzObject[T any, P interface {
	*T
	object
}](f *testing.F,
) {
	for _, g := range goldens {
		if _, same := g.new().(P); same {
			f.Add([]byte(g.in))
		}
	}
	for _, seed := range []string{
		`{}`, `null`, `[]`, `{"a":1,"a":2}`, `{"text":"\ud800"}`, "{\"x\":\"\xff\"}", `{"x":[[[[]]]]} `, `{"raw":"_-8=","url":""}`,
		`{"pageSize":"1e1","page_size":2}`, `{"timestamp":"2026-02-29T00:00:00Z"}`, `{"statu\u0073":{"state":3}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		value := P(new(T))
		given := bytes.Clone(in)
		err := Unmarshal(given, value)
		if err != nil {
			checkRefusal(t, in, err)
			return
		}
		if !jsontext.Value(in).IsValid() {
			t.Fatalf("accepted %q, which is not JSON", in)
		}
		clear(given) // the value must not share the memory of the input
		first := value.AppendJSON(nil)
		if !jsontext.Value(first).IsValid() {
			t.Fatalf("%q became %q, which is not JSON", in, first)
		}
		again := P(new(T))
		if err := Unmarshal(first, again); err != nil {
			t.Fatalf("%q became %q, which is refused: %v", in, first, err)
		}
		if second := again.AppendJSON(nil); !bytes.Equal(first, second) {
			t.Fatalf("%q became %q, and then %q", in, first, second)
		}
		if v, ok := object(value).(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				e, ok := errors.AsType[*Error](err)
				if !ok || e.Code != CodeInvalidParams || len(e.Violations) == 0 {
					t.Fatalf("Validate gave %v", err)
				}
			}
		}
	})
}

func checkRefusal(t *testing.T, in []byte, err error) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%q gave %T, want an *Error", in, err)
	}
	valid := jsontext.Value(in).IsValid()
	switch {
	case e.Code == CodeParse && valid && checkDepth(in) == nil:
		t.Fatalf("%q is JSON but gave %v", in, err)
	case e.Code == CodeInvalidParams && (!valid || len(e.Violations) != 1):
		t.Fatalf("%q gave %v with %d violations", in, err, len(e.Violations))
	case e.Code != CodeParse && e.Code != CodeInvalidParams:
		t.Fatalf("%q gave %v", in, e.Code)
	}
}

func FuzzSendMessageRequest(f *testing.F) { fuzzObject[SendMessageRequest](f) }
func FuzzStreamResponse(f *testing.F)     { fuzzObject[StreamResponse](f) }
func FuzzTask(f *testing.F)               { fuzzObject[Task](f) }
func FuzzPart(f *testing.F)               { fuzzObject[Part](f) }
func FuzzAgentCard(f *testing.F)          { fuzzObject[AgentCard](f) }
func FuzzListTasksRequest(f *testing.F)   { fuzzObject[ListTasksRequest](f) }
func FuzzPushConfig(f *testing.F)         { fuzzObject[TaskPushNotificationConfig](f) }

// FuzzError checks that whatever a peer sends as an error becomes one that can
// be sent on, and that sending it on does not change it.
func FuzzError(f *testing.F) {
	for _, tt := range allCodes {
		e := &Error{Code: tt.code, Message: "m", Metadata: map[string]string{"a": "b"}, Violations: []Violation{{"f", "d"}}, RetryAfter: 1}
		f.Add(e.AppendStatus(nil), tt.http)
		f.Add(e.AppendJSONRPC(nil), 0)
	}
	f.Add([]byte(`{"code":-32603,"message":"m","data":"x"}`), 500)
	f.Add([]byte(`{"error":{"error":{"error":"x"}},"details":[null,[]]}`), 404)
	f.Fuzz(func(t *testing.T, in []byte, httpStatus int) {
		for _, e := range []*Error{ParseStatusError(in, httpStatus), ParseJSONRPCError(in)} {
			if e.Message == "" {
				t.Fatalf("%q became an error without a message", in)
			}
			status, object := e.AppendStatus(nil), e.AppendJSONRPC(nil)
			if !jsontext.Value(status).IsValid() || !jsontext.Value(object).IsValid() {
				t.Fatalf("%q became %q and %q, which is not JSON", in, status, object)
			}
			if again := ParseJSONRPCError(object).AppendJSONRPC(nil); !bytes.Equal(object, again) {
				t.Fatalf("%q became %q, and then %q", in, object, again)
			}
		}
	})
}

func FuzzParseVersion(f *testing.F) {
	for _, seed := range []string{"", "1.0", "0.3.0", "1.0.x", "99999.1", " 1.1\t"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		v, err := ParseVersion(in)
		if err != nil {
			return
		}
		if again, err := ParseVersion(v.String()); err != nil || again != v {
			t.Fatalf("%q is %v, which is read as %v, %v", in, v, again, err)
		}
	})
}
