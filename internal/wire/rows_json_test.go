package wire_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/wire"
)

// raw sends parameters that are given as JSON.
func (n *node) raw(b binding, op, params string, edit ...func(*http.Request)) *answer {
	n.t.Helper()
	return n.call(b, op, json.RawMessage(params), edit...)
}

// withParts are the parameters of a message with those parts.
func withParts(parts string) string {
	return fmt.Sprintf(`{"message":{"messageId":"m-%d","role":"ROLE_USER","parts":[%s]}}`, messageCount.Add(1), parts)
}

func TestRow88_OneofOfAPart(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		for _, part := range []string{`{"text":"hi","url":"","raw":""}`, `{"text":"hi","url":null,"data":null}`, `{"text":""}`} {
			if a := n.raw(b, "SendMessage", withParts(part)); a.Error != nil {
				t.Errorf("%s: %s", part, a.Body)
			}
		}
		for _, part := range []string{`{"text":"hi","data":{"a":1}}`, `{}`, `{"text":null}`, `{"url":""}`} {
			a := n.raw(b, "SendMessage", withParts(part))
			a.isError(t, a2a.CodeInvalidParams)
			if !strings.HasPrefix(a.Error.Violations[0].Field, "message.parts[0]") {
				t.Errorf("%s: %s", part, a.Body)
			}
		}
	})
}

func TestRow89And90_FreeJSONIsKept(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		parts := []string{
			`{"data":0}`, `{"data":false}`, `{"data":null}`, `{"data":[1,null]}`, `{"data":"s"}`, `{"data":""}`,
			`{"data":{"z":1,"a":1.10,"n":123456789012345678901234567890}}`,
			`{"text":"<a href=\"x?a=1&b=2\">"}`,
			`{"data":"<>&","metadata":{"k":null}}`,
		}
		a := n.raw(b, "SendMessage", withParts(`{"text":"echo"},`+strings.Join(parts, ",")))
		for _, part := range parts {
			if !bytes.Contains(a.Result, []byte(part)) {
				t.Errorf("%s is not in %s", part, a.Result)
			}
		}
		if !bytes.Contains(a.Body, []byte(`<a href`)) {
			t.Errorf("escaped: %s", a.Body)
		}
	})
}

func TestFramesAreOneLine(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		// Free JSON is kept as it came, line breaks between its tokens included.
		body := "{\"message\":{\"messageId\":\"m\",\"role\":\"ROLE_USER\",\"parts\":[{\"text\":\"echo\"},{\"data\":{\n\"a\" :\r\n [1,\n2]}}]}}"
		edit := func(r *http.Request) {
			text := body
			if b == rpc {
				text = `{"jsonrpc":"2.0","id":"x-1","method":"SendStreamingMessage","params":` + body + `}`
			}
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		}
		events := n.stream(b, "SendStreamingMessage", object{}, edit).rest()
		if got := string(events[2].ArtifactUpdate.Artifact.Parts[1].Data); got != "{ \"a\" :   [1, 2]}" {
			t.Errorf("data %q", got)
		}
	})
}

func TestRow92_LargeParts(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		content := make([]byte, 9<<20)
		for i := range content {
			content[i] = byte(i * i >> 7)
		}
		part := `{"raw":"` + base64.StdEncoding.EncodeToString(content) + `"}`
		events := n.stream(b, "SendStreamingMessage", json.RawMessage(withParts(`{"text":"echo"},`+part))).rest()
		got := events[2].ArtifactUpdate.Artifact.Parts[1].Raw
		if sha256.Sum256(got) != sha256.Sum256(content) {
			t.Errorf("%d bytes came back of %d", len(got), len(content))
		}
	})
}

func TestRow92AndS12_BodiesOverTheLimit(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{options: func(o *wire.Options) { o.BodyBytes = 64 << 10 }})
		for _, size := range []int{65 << 10, 200 << 10, 8 << 20} {
			for _, announced := range []bool{true, false} {
				r := n.request(b, "SendMessage", send("echo "+strings.Repeat("x", size)))
				if !announced {
					r.ContentLength = -1
				}
				response, err := n.client.Do(r)
				if err != nil {
					t.Fatalf("%d bytes, announced %v: %v", size, announced, err)
				}
				a := n.read(b, response)
				_ = response.Body.Close()
				if a.Status != http.StatusRequestEntityTooLarge || !bytes.Contains(a.Body, []byte("65536 bytes")) {
					t.Errorf("%d bytes, announced %v: %d %s", size, announced, a.Status, a.Body)
				}
				if b == rpc && a.Number != -32600 {
					t.Errorf("code %d", a.Number)
				}
				n.sent(b, send("echo x"))
			}
		}
	})
}

func TestRow93_Nulls(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		a := n.raw(b, "SendMessage", `{"tenant":null,"metadata":null,"configuration":null,"message":{"messageId":"m","contextId":null,"role":"ROLE_USER","parts":[{"text":"echo x","metadata":null}],"metadata":null,"extensions":null,"referenceTaskIds":null}}`)
		if a.Error != nil {
			t.Fatalf("%s", a.Body)
		}
		for _, body := range [][]byte{a.Result, n.ok(b, "ListTasks", object{"includeArtifacts": true})} {
			if bytes.Contains(body, []byte("null")) {
				t.Errorf("null in %s", body)
			}
		}
	})
}

func TestRow94_Enums(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		params := `{"message":{"messageId":"m","role":%s,"parts":[{"text":%q}]}}`
		for _, role := range []string{`"ROLE_USER"`, `1`} {
			if a := n.raw(b, "SendMessage", fmt.Sprintf(params, role, "reject")); a.Error != nil || !bytes.Contains(a.Result, []byte(`"TASK_STATE_REJECTED"`)) || !bytes.Contains(a.Result, []byte(`"ROLE_USER"`)) {
				t.Errorf("%s: %s", role, a.Body)
			}
		}
		for _, role := range []string{`"user"`, `"ROLE_AGENT"`, `7`, `true`} {
			a := n.raw(b, "SendMessage", fmt.Sprintf(params, role, "x"))
			a.isError(t, a2a.CodeInvalidParams)
			if !a.field("message.role") {
				t.Errorf("%s: %s", role, a.Body)
			}
		}
		a := n.call(b, "ListTasks", object{"status": "BOGUS"})
		a.isError(t, a2a.CodeInvalidParams)
		if !a.field("status") {
			t.Errorf("%s", a.Body)
		}
	})
}

func TestRow95And96_UnknownFields(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		params := `{"x_new":{"a":1},"configuration":{"x_new":{"a":1}},"message":{"x_new":[{"a":1}],"messageId":"m","role":"ROLE_USER","parts":[{"x_new":1,"text":"echo x"}]}}`
		a := n.raw(b, "SendMessage", params)
		if a.Error != nil {
			t.Fatalf("%s", a.Body)
		}
		all := [][]byte{a.Result}
		for _, e := range n.stream(b, "SendStreamingMessage", json.RawMessage(params)).rest() {
			all = append(all, e.Data)
		}
		known := map[string]bool{}
		for _, key := range strings.Fields("task message statusUpdate artifactUpdate id contextId taskId status state timestamp artifacts artifact artifactId parts text history messageId role lastChunk append") {
			known[key] = true
		}
		for _, body := range all {
			for _, key := range keys(t, body) {
				if !known[key] {
					t.Errorf("unexpected %q in %s", key, body)
				}
			}
		}
	})
}

// keys returns the names of all members in a JSON value.
func keys(t *testing.T, data []byte) []string {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	var list []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				list = append(list, k)
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return list
}

func TestRow99_MediaTypes(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{agent: func(a *wire.Agent) { a.InputModes = []string{"text/plain", "application/json", "audio/*"} }})
		skill := func(params, id string) string {
			return strings.Replace(params, `"role"`, `"metadata":{"skillId":"`+id+`"},"role"`, 1)
		}
		for part, fine := range map[string]bool{
			`{"raw":"AA==","mediaType":"image/png"}`:                   true, // a skill takes it
			`{"raw":"AA==","mediaType":"Audio/WAV"}`:                   true,
			`{"raw":"AA==","mediaType":"video/mp4"}`:                   false,
			`{"raw":"AA=="}`:                                           false,
			`{"data":1}`:                                               true,
			`{"data":1,"mediaType":"application/json; charset=utf-8"}`: true,
			`{"data":1,"mediaType":"application/xml"}`:                 false,
			`{"text":"x"}`:                                             true,
			`{"text":"x","mediaType":"text/html"}`:                     false,
			`{"url":"https://x.example/y"}`:                            true,
		} {
			a := n.raw(b, "SendMessage", withParts(part))
			if fine {
				if a.Error != nil {
					t.Errorf("%s: %s", part, a.Body)
				}
				continue
			}
			a.isError(t, a2a.CodeContentTypeNotSupported)
			if !a.field("message.parts[0].mediaType") {
				t.Errorf("%s: %s", part, a.Body)
			}
		}
		n.raw(b, "SendMessage", skill(withParts(`{"raw":"AA==","mediaType":"image/png"}`), "quote")).isError(t, a2a.CodeContentTypeNotSupported)
		n.raw(b, "SendMessage", skill(withParts(`{"data":1}`), "scan")).isError(t, a2a.CodeContentTypeNotSupported)
		if a := n.raw(b, "SendMessage", skill(withParts(`{"text":"x"},{"raw":"AA==","mediaType":"image/png"}`), "scan")); a.Error != nil {
			t.Errorf("%s", a.Body)
		}
		a := n.raw(b, "SendMessage", skill(withParts(`{"text":"x"}`), "nope"))
		a.isError(t, a2a.CodeInvalidParams)
		if !a.field("message.metadata.skillId") {
			t.Errorf("%s", a.Body)
		}
		if got := n.list(b, object{"status": "TASK_STATE_FAILED"}).TotalSize; got != 0 {
			t.Errorf("%d refused messages became tasks", got)
		}
	})
}

func TestRow100_RequiredFields(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		for params, field := range map[string]string{
			`{}`: "message",
			`{"message":{"role":"ROLE_USER","parts":[{"text":"x"}]}}`:                               "message.messageId",
			`{"message":{"messageId":"","role":"ROLE_USER","parts":[{"text":"x"}]}}`:                "message.messageId",
			`{"message":{"messageId":"m","parts":[{"text":"x"}]}}`:                                  "message.role",
			`{"message":{"messageId":"m","role":"ROLE_USER"}}`:                                      "message.parts",
			`{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}`:                           "message.parts",
			`{"message":{"messageId":"m","role":"ROLE_USER","parts":"x"}}`:                          "message.parts",
			`{"message":{"messageId":5,"role":"ROLE_USER","parts":[{"text":"x"}]}}`:                 "message.messageId",
			`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"raw":"*"}]}}`:                "message.parts[0].raw",
			`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":[]}}`: "message.metadata",
		} {
			for _, op := range []string{"SendMessage", "SendStreamingMessage"} {
				a := n.raw(b, op, params)
				a.isError(t, a2a.CodeInvalidParams)
				if !a.field(field) || !bytes.Contains(a.Body, []byte("google.rpc.BadRequest")) {
					t.Errorf("%s: no %s in %s", params, field, a.Body)
				}
			}
		}
	})
}
