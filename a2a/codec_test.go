package a2a

import (
	"errors"
	"strings"
	"testing"
)

// parts decodes a message with those parts and encodes it again.
func echo(t *testing.T, in string, v interface {
	Decodable
	AppendJSON([]byte) []byte
}) string {
	t.Helper()
	if err := Unmarshal([]byte(in), v); err != nil {
		t.Fatalf("Unmarshal(%s): %v", in, err)
	}
	return string(v.AppendJSON(nil))
}

func TestGolden(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{`{"text":"hi","url":"","raw":""}`, `{"text":"hi"}`},
		{`{"text":""}`, `{"text":""}`},
		{`{"text":"","url":"http://x"}`, `{"url":"http://x"}`},
		{`{"text":"","data":0}`, `{"data":0}`},
		{`{"data":null}`, `{"data":null}`},
		{`{"data":[1,null] }`, `{"data":[1,null]}`},
		{`{"raw":"-_8"}`, `{"raw":"+/8="}`},
		{`{"raw":"+\/8="}`, `{"raw":"+/8="}`},
		{`{"media_type":"a\u0041","text":"<a href=\"x?a=1&b\">"}`, `{"text":"<a href=\"x?a=1&b\">","mediaType":"aA"}`},
	}
	for _, tt := range tests {
		if got := echo(t, tt.in, new(Part)); got != tt.want {
			t.Errorf("%s became %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in    string
		code  Code
		field string
	}{
		{`{"message":{"parts":[{"text":"a"},{"raw":"!"}]}}`, CodeInvalidParams, "message.parts[1].raw"},
		{`{"message":{"message_id":"a","messageId":"b"}}`, CodeInvalidParams, "message.messageId"},
		{`{"message":{"role":"user"}}`, CodeInvalidParams, "message.role"},
		{`{"message":{"role":3}}`, CodeInvalidParams, "message.role"},
		{`{"message":{"parts":[{"text":"hi","data":{"a":1}}]}}`, CodeInvalidParams, "message.parts[0]"},
		{`{"message":{"parts":[null]}}`, CodeInvalidParams, "message.parts[0]"},
		{`{"message":{"metadata":[]}}`, CodeInvalidParams, "message.metadata"},
		{`{"message":5`, CodeParse, ""},
		{`{"x":1,"x":2}`, CodeParse, ""},
		{`{}xyz`, CodeParse, ""},
		{`{} {}`, CodeParse, ""},
		{``, CodeParse, ""},
		{`null`, CodeInvalidParams, ""},
		{`[]`, CodeInvalidParams, ""},
		{"{\"tenant\":\"\xff\"}", CodeParse, ""},
		{`{"metadata":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, CodeParse, ""},
	}
	for _, tt := range tests {
		err := Unmarshal([]byte(tt.in), new(SendMessageRequest))
		e, ok := errors.AsType[*Error](err)
		if !ok {
			t.Errorf("%s gave %v", tt.in, err)
			continue
		}
		field := ""
		if len(e.Violations) > 0 {
			field = e.Violations[0].Field
		}
		if e.Code != tt.code || field != tt.field {
			t.Errorf("%s gave %v, %q: %v; want %v, %q", tt.in, e.Code, field, e, tt.code, tt.field)
		}
		t.Log(e)
	}
}
