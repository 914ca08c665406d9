package wire

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// FuzzEnvelope compares the envelope that the scanner finds with what a JSON
// decoder finds.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}`,
		`{"jsonrpc":"2.0","id":"a\"}","method":"GetTask","params":{"a":[{"]":"\\"}]}}`,
		` { "method" : "Get\u0054ask", "x":[1,{}], "id" : null , "jsonrpc":"2.0"}`,
		`[{"jsonrpc":"2.0"}]`, `{}xyz`, `{"jsonrpc":"2.0","id":01}`, `{"a":1,"a":2}`, `{"id":1 2}`, `"`, `{"a":{"b":]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := parseEnvelope(body)
		if e.id != nil && !jsontext.Value(e.id).IsValid() {
			t.Fatalf("id %q of %q", e.id, body)
		}
		valid := jsontext.Value(body).IsValid()
		if err != nil {
			if a2a.CodeOf(err) == a2a.CodeParse && valid {
				t.Fatalf("%q is JSON: %v", body, err)
			}
			return
		}
		// Of the parameters only the end was looked for.
		if e.params != nil && !jsontext.Value(e.params).IsValid() {
			return
		}
		if !valid {
			t.Fatalf("%q is not JSON", body)
		}
		var want struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		members := map[string]json.RawMessage{}
		if err := json.Unmarshal(body, &members); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		want.ID, want.Params = members["id"], members["params"]
		_ = json.Unmarshal(members["method"], &want.Method)
		if string(want.Params) == "null" {
			want.Params = nil
		}
		if !bytes.Equal(e.id, want.ID) || string(e.method) != want.Method || !bytes.Equal(e.params, want.Params) {
			t.Fatalf("%q: got %q %q %q, want %q %q %q", body, e.id, e.method, e.params, want.ID, want.Method, want.Params)
		}
	})
}

// FuzzQuery checks that a query is either refused with the parameter's name or
// gives a request that is valid as far as its types go.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"pageSize=5&status=TASK_STATE_WORKING&contextId=c", "page_size=x", "pageSize=1&pageSize=2", "a;b", "%zz=1",
		"statusTimestampAfter=2026-01-01T00:00:00+01:00", "includeArtifacts=true&historyLength=-1&status=99",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var q a2a.ListTasksRequest
		err := parseQuery(raw).list(&q)
		if err != nil {
			if a2a.CodeOf(err) != a2a.CodeInvalidParams {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		if q.Status < a2a.StateUnspecified || q.Status > a2a.StateAuthRequired {
			t.Fatalf("%q: status %d", raw, q.Status)
		}
	})
}

// FuzzResource checks that the path of an operation is read without a panic, and
// that nothing is lost on the way.
func FuzzResource(f *testing.F) {
	for _, seed := range []string{"", "tasks", "acme/tasks/x:cancel", "tasks/a%2Fb", "tasks/x/pushNotificationConfigs/y", "message:send", "a/b/c/d/e/f", "//"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r := parseResource(path)
		switch r.kind {
		case resourceTask, resourceCancel, resourceSubscribe, resourceConfigs:
			if r.task == "" {
				t.Fatalf("%q: no task", path)
			}
		case resourceConfig:
			if r.task == "" || r.config == "" {
				t.Fatalf("%q: %+v", path, r)
			}
		}
	})
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode, mediaType string
		want            bool
	}{
		{"text/plain", "text/plain", true},
		{"text/plain; charset=utf-8", "TEXT/plain", true},
		{"text/*", "text/html", true},
		{"text/*", "textual/html", false},
		{"text/*", "text", false},
		{"*/*", "image/png", true},
		{"text/plain", "text/html", false},
	} {
		if got := matches(c.mode, c.mediaType); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.mode, c.mediaType, got)
		}
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	b := []byte("\r\na\n\n\rb\n")
	if oneLine(b); string(b) != "  a   b " {
		t.Errorf("%q", b)
	}
}
