package a2a

import (
	"errors"
	"strings"
	"testing"
)

func TestUnmarshalRefuses(t *testing.T) {
	t.Parallel()
	send, list, task, card := as[SendMessageRequest], as[ListTasksRequest], as[Task], as[AgentCard]
	tests := []struct {
		name  string
		new   func() object
		in    string
		code  Code
		field string // of the violation
		text  string // in the message
	}{
		{"empty input", send, ``, CodeParse, "", "at byte 0"},
		{"cut off", send, `{"message":`, CodeParse, "", "unexpected end of input at byte 11"},
		{"cut off after a wrong type", send, `{"message":5`, CodeParse, "", "at byte 12"},
		{"bad syntax after a wrong type", send, `{"message":5,"a":tru}`, CodeParse, "", "at byte 20"},
		{"trailing letters", send, `{}xyz`, CodeParse, "", "at byte 2"},
		{"second value", send, `{} {}`, CodeParse, "", "at byte"},
		{"wrong type and second value", send, `[] {}`, CodeParse, "", "at byte"},
		{"trailing comma", send, `{"tenant":"a",}`, CodeParse, "", "at byte"},
		{"trailing comma in an array", send, `{"message":{"parts":[{"text":"a"},]}}`, CodeParse, "", "at byte"},
		{"missing comma", send, `{"message":{"parts":[{"text":"a"}{"text":"b"}]}}`, CodeParse, "", "at byte"},
		{"no value", send, `{"message":}`, CodeParse, "", "at byte"},
		{"byte order mark", send, "\ufeff{}", CodeParse, "", "at byte 0"},
		{"single quotes", send, `{'tenant':'a'}`, CodeParse, "", "at byte 1"},
		{"control character", send, "{\"tenant\":\"a\nb\"}", CodeParse, "", "at byte"},
		{"lone surrogate", send, `{"tenant":"\ud800"}`, CodeParse, "", "at byte"},
		{"invalid UTF-8", send, "{\"tenant\":\"\xff\"}", CodeParse, "", "UTF-8"},
		{"invalid UTF-8 in free JSON", send, "{\"metadata\":{\"a\":\"\xff\"}}", CodeParse, "", "UTF-8"},
		{"invalid UTF-8 in an unknown field", send, "{\"x\":\"\xff\"}", CodeParse, "", "UTF-8"},
		{"duplicate name", send, `{"tenant":"a","tenant":"a"}`, CodeParse, "", "duplicate"},
		{"duplicate unknown name", send, `{"x":1,"x":1}`, CodeParse, "", "duplicate"},
		{"duplicate name, escaped", send, `{"tenant":"a","tenan\u0074":"a"}`, CodeParse, "", "duplicate"},
		{"duplicate name in free JSON", send, `{"metadata":{"a":{"b":1,"b":2}}}`, CodeParse, "", "duplicate"},
		{"number with a leading zero", list, `{"pageSize":01}`, CodeParse, "", "at byte"},

		{"null", send, `null`, CodeInvalidParams, "", "must be an object"},
		{"array", send, `[]`, CodeInvalidParams, "", "must be an object"},
		{"string", send, `"a"`, CodeInvalidParams, "", "must be an object"},
		{"two names of a field", send, `{"message":{"messageId":"a","message_id":"b"}}`, CodeInvalidParams, "message.messageId", "twice"},
		{"two names of a field, one null", send, `{"message":{"messageId":null,"message_id":"b"}}`, CodeInvalidParams, "message.messageId", "twice"},
		{"number as a string", send, `{"tenant":5}`, CodeInvalidParams, "tenant", "must be a string"},
		{"message is a list", send, `{"message":[]}`, CodeInvalidParams, "message", "must be an object"},
		{"parts is an object", send, `{"message":{"parts":{}}}`, CodeInvalidParams, "message.parts", "must be an array"},
		{"null part", send, `{"message":{"parts":[{"text":"a"},null]}}`, CodeInvalidParams, "message.parts[1]", "null"},
		{"text is a number", send, `{"message":{"parts":[{"text":1}]}}`, CodeInvalidParams, "message.parts[0].text", "string"},
		{"raw is not base64", send, `{"message":{"parts":[{"text":"a"},{"raw":"!"}]}}`, CodeInvalidParams, "message.parts[1].raw", "base64"},
		{"raw mixes alphabets", send, `{"message":{"parts":[{"raw":"-+-+"}]}}`, CodeInvalidParams, "message.parts[0].raw", "base64"},
		{"raw is badly padded", send, `{"message":{"parts":[{"raw":"AA="}]}}`, CodeInvalidParams, "message.parts[0].raw", "base64"},
		{"raw is a list", send, `{"message":{"parts":[{"raw":[1]}]}}`, CodeInvalidParams, "message.parts[0].raw", "base64"},
		{"metadata of a part is a list", send, `{"message":{"parts":[{"text":"a","metadata":[]}]}}`, CodeInvalidParams, "message.parts[0].metadata", "object"},
		{"metadata is a string", send, `{"metadata":"a"}`, CodeInvalidParams, "metadata", "object"},
		{"extension is a number", send, `{"message":{"extensions":["a",1]}}`, CodeInvalidParams, "message.extensions[1]", "string"},
		{"extension is null", send, `{"message":{"extensions":[null]}}`, CodeInvalidParams, "message.extensions[0]", "null"},
		{"unknown role", send, `{"message":{"role":"user"}}`, CodeInvalidParams, "message.role", `"user"`},
		{"role out of range", send, `{"message":{"role":3}}`, CodeInvalidParams, "message.role", "3"},
		{"negative role", send, `{"message":{"role":-1}}`, CodeInvalidParams, "message.role", "-1"},
		{"role is a fraction", send, `{"message":{"role":0.5}}`, CodeInvalidParams, "message.role", "whole"},
		{"role is a boolean", send, `{"message":{"role":true}}`, CodeInvalidParams, "message.role", "name"},
		{"flag is a string", send, `{"configuration":{"returnImmediately":"true"}}`, CodeInvalidParams, "configuration.returnImmediately", "true or false"},
		{"nested config", send, `{"configuration":{"task_push_notification_config":{"authentication":{"scheme":1}}}}`, CodeInvalidParams, "configuration.taskPushNotificationConfig.authentication.scheme", "string"},
		{"page size is a fraction", list, `{"pageSize":1.5}`, CodeInvalidParams, "pageSize", "whole"},
		{"page size is too large", list, `{"page_size":2147483648}`, CodeInvalidParams, "pageSize", "32 bits"},
		{"page size is huge", list, `{"page_size":1e400}`, CodeInvalidParams, "pageSize", "32 bits"},
		{"page size is a word", list, `{"pageSize":"five"}`, CodeInvalidParams, "pageSize", "whole"},
		{"page size is a word that Go reads", list, `{"pageSize":"0x10"}`, CodeInvalidParams, "pageSize", "whole"},
		{"page size is an empty string", list, `{"pageSize":""}`, CodeInvalidParams, "pageSize", "whole"},
		{"page size is a list", list, `{"pageSize":[1]}`, CodeInvalidParams, "pageSize", "whole"},
		{"unknown state", list, `{"status":"BOGUS"}`, CodeInvalidParams, "status", "BOGUS"},
		{"state in lower case", list, `{"status":"completed"}`, CodeInvalidParams, "status", "completed"},
		{"state out of range", list, `{"status":9}`, CodeInvalidParams, "status", "9"},
		{"state as a digit in a string", list, `{"status":"3"}`, CodeInvalidParams, "status", `"3"`},
		{"timestamp without a zone", list, `{"statusTimestampAfter":"2026-03-14T09:26:53"}`, CodeInvalidParams, "statusTimestampAfter", "timestamp"},
		{"timestamp with a comma", list, `{"statusTimestampAfter":"2026-03-14T09:26:53,5Z"}`, CodeInvalidParams, "statusTimestampAfter", "timestamp"},
		{"timestamp with a short hour", list, `{"statusTimestampAfter":"2026-03-14T9:26:53Z"}`, CodeInvalidParams, "statusTimestampAfter", "timestamp"},
		{"timestamp with a long offset", list, `{"statusTimestampAfter":"2026-03-14T09:26:53+25:00"}`, CodeInvalidParams, "statusTimestampAfter", "timestamp"},
		{"timestamp as a number", list, `{"statusTimestampAfter":1773480413}`, CodeInvalidParams, "statusTimestampAfter", "timestamp"},
		{"timestamp on no day", list, `{"statusTimestampAfter":"2026-02-30T00:00:00Z"}`, CodeInvalidParams, "statusTimestampAfter", "timestamp"},
		{"timestamp before the year 1", list, `{"statusTimestampAfter":"0001-01-01T00:00:00+01:00"}`, CodeInvalidParams, "statusTimestampAfter", "years 1"},
		{"history of a task", task, `{"history":[{},{"parts":[{"url":1}]}]}`, CodeInvalidParams, "history[1].parts[0].url", "string"},
		{"status message", task, `{"status":{"message":{"role":"x"}}}`, CodeInvalidParams, "status.message.role", "x"},
		{"two payloads", as[StreamResponse], `{"task":{},"message":{}}`, CodeInvalidParams, "", "exclude"},
		{"two payloads of a send", as[SendMessageResponse], `{"task":{},"message":{}}`, CodeInvalidParams, "", "exclude"},
		{"two schemes", card, `{"securitySchemes":{"a":{"mtlsSecurityScheme":{},"apiKeySecurityScheme":{}}}}`, CodeInvalidParams, "securitySchemes.a", "exclude"},
		{"two flows", card, `{"securitySchemes":{"a":{"oauth2_security_scheme":{"flows":{"implicit":{},"password":{}}}}}}`, CodeInvalidParams, "securitySchemes.a.oauth2SecurityScheme.flows", "exclude"},
		{"scope is a number", card, `{"securityRequirements":[{"schemes":{"a":{"list":[1]}}}]}`, CodeInvalidParams, "securityRequirements[0].schemes.a.list[0]", "string"},
		{"scope description", card, `{"securitySchemes":{"a":{"oauth2SecurityScheme":{"flows":{"implicit":{"scopes":{"s":1}}}}}}}`, CodeInvalidParams, "securitySchemes.a.oauth2SecurityScheme.flows.implicit.scopes.s", "string"},
		{"header of a signature", card, `{"signatures":[{"header":[]}]}`, CodeInvalidParams, "signatures[0].header", "object"},
		{"params of an extension", card, `{"capabilities":{"extensions":[{"params":1}]}}`, CodeInvalidParams, "capabilities.extensions[0].params", "object"},
		{"capability is a string", card, `{"capabilities":{"push_notifications":"yes"}}`, CodeInvalidParams, "capabilities.pushNotifications", "true or false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := Unmarshal([]byte(tt.in), tt.new())
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("Unmarshal(%s) gave %v, want an *Error", tt.in, err)
			}
			field := ""
			if len(e.Violations) > 0 {
				field = e.Violations[0].Field
			}
			if e.Code != tt.code || field != tt.field || !strings.Contains(e.Message, tt.text) {
				t.Errorf("Unmarshal(%s) gave %v at %q: %s; want %v at %q with %q",
					tt.in, e.Code, field, e.Message, tt.code, tt.field, tt.text)
			}
			if (e.Code == CodeInvalidParams) != (len(e.Violations) == 1) {
				t.Errorf("Unmarshal(%s) gave %d violations", tt.in, len(e.Violations))
			}
		})
	}
}

func TestUnmarshalDepth(t *testing.T) {
	t.Parallel()
	nested := func(name string, levels int) []byte {
		return []byte(`{"` + name + `":{"a":` + strings.Repeat("[", levels-2) + strings.Repeat("]", levels-2) + `}}`)
	}
	for _, name := range []string{"metadata", "unknown"} {
		if err := Unmarshal(nested(name, MaxDepth), new(SendMessageRequest)); err != nil {
			t.Errorf("%s of %d levels: %v", name, MaxDepth, err)
		}
		for _, levels := range []int{MaxDepth + 1, 1 << 20} {
			err := Unmarshal(nested(name, levels), new(SendMessageRequest))
			if CodeOf(err) != CodeParse || !strings.Contains(err.Error(), "100 levels") {
				t.Errorf("%s of %d levels: got %v", name, levels, err)
			}
		}
	}
	// Brackets in strings and beside each other do not nest.
	flat := `{"metadata":{"s":"` + strings.Repeat(`[\"{`, 200) + `","a":[` + strings.Repeat("[],", 200) + `{}]}}`
	if err := Unmarshal([]byte(flat), new(SendMessageRequest)); err != nil {
		t.Errorf("flat: %v", err)
	}
}

// TestUnmarshalResets checks that nothing of an old value stays.
func TestUnmarshalResets(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		used, fresh := g.new(), g.new()
		if err := Unmarshal([]byte(g.in), used); err != nil {
			t.Fatal(err)
		}
		if err := Unmarshal([]byte(`{}`), used); err != nil {
			t.Fatal(err)
		}
		if got, want := string(used.AppendJSON(nil)), string(fresh.AppendJSON(nil)); got != want {
			t.Errorf("%s: after {} it is %s, want %s", g.name, got, want)
		}
	}
}

// TestUnmarshalErrorNamesAreShort checks that a hostile name does not blow up
// the error.
func TestUnmarshalErrorNamesAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 1<<16)
	inputs := []string{
		`{"securitySchemes":{"` + long + `":5}}`,
		`{"securitySchemes":{"a":{"oauth2SecurityScheme":{"flows":{"implicit":{"scopes":{"` + long + `":5}}}}}}}`,
	}
	for _, in := range inputs {
		err := Unmarshal([]byte(in), new(AgentCard))
		if CodeOf(err) != CodeInvalidParams || len(err.Error()) > 512 {
			t.Errorf("got %v with a message of %d bytes", CodeOf(err), len(err.Error()))
		}
	}
	err := Unmarshal([]byte(`{"status":"`+long+`"}`), new(ListTasksRequest))
	if CodeOf(err) != CodeInvalidParams || len(err.Error()) > 512 {
		t.Errorf("got %v with a message of %d bytes", CodeOf(err), len(err.Error()))
	}
	err = Unmarshal([]byte(`{"`+long+`":1,"`+long+`":1}`), new(ListTasksRequest))
	if CodeOf(err) != CodeParse || len(err.Error()) > 512 {
		t.Errorf("got %v with a message of %d bytes", CodeOf(err), len(err.Error()))
	}
}

func TestElementsAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ open, element, end string }{
		{`{"message":{"parts":[`, `{"text":""}`, `]}}`},
		{`{"message":{"extensions":[`, `""`, `]}}`},
	} {
		for n, want := range map[int]Code{MaxElements: CodeInternal, MaxElements + 1: CodeInvalidParams} {
			text := c.open + strings.Repeat(c.element+",", n-1) + c.element + c.end
			err := Unmarshal([]byte(text), new(SendMessageRequest))
			if (err == nil) != (n <= MaxElements) || err != nil && CodeOf(err) != want {
				t.Errorf("%d times %s: %v", n, c.element, err)
			}
		}
	}
}
