package wire_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/wire"
)

func TestRow101_ErrorInfo(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		a := n.call(b, "GetTask", object{"id": "nope"})
		a.isError(t, a2a.CodeTaskNotFound)
		var body struct {
			Error struct {
				Code    int
				Status  string
				Data    []map[string]any
				Details []map[string]any
			}
		}
		if err := json.Unmarshal(a.Body, &body); err != nil {
			t.Fatal(err)
		}
		details := body.Error.Data
		if b == rest {
			details = body.Error.Details
			if a.Status != 404 || body.Error.Code != 404 || body.Error.Status != "NOT_FOUND" {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		} else if a.Status != 200 || body.Error.Code != -32001 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if len(details) != 1 || details[0]["@type"] != "type.googleapis.com/google.rpc.ErrorInfo" || details[0]["reason"] != "TASK_NOT_FOUND" || details[0]["domain"] != "a2a-protocol.org" {
			t.Errorf("details %v", details)
		}
	})
}

// post posts a body as it is.
func (n *node) post(path, body string, edit ...func(*http.Request)) *http.Response {
	n.t.Helper()
	r, err := http.NewRequest(http.MethodPost, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	for _, e := range edit {
		e(r)
	}
	response, err := n.client.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRow102_InvalidJSON(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	good := `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}`
	for _, text := range []string{
		``, ` `, `{`, `{"jsonrpc":`, `{}xyz`, `[`, `[1,`, `nul`, `"`, good + `xyz`, good + good, good[:len(good)-2],
		`{"jsonrpc":"2.0","id":01,"method":"GetTask"}`,
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":}}`,
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x","id":"y"}}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask","params":{"id":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"},"params":{"id":"y"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"Nope","params":{"id":]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ListTaskPushNotificationConfigs","params":{]}`,
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","x":tru}`,
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":` + strings.Repeat("[", 150) + strings.Repeat("]", 150) + `}`,
		`{"jsonrpc":"2.0","method":"GetTask","params":{"id":}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"GetTask\"}",
	} {
		r := n.post("rpc", text)
		got := body(t, r)
		if r.StatusCode != 200 || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`) {
			t.Errorf("%.80s: %d %s", text, r.StatusCode, got)
		}
	}
	for _, text := range []string{``, `{`, `{}xyz`, `{"message":{},"message":{}}`, strings.Repeat(`{"a":`, 150)} {
		r := n.post("v1/message:send", text)
		got := body(t, r)
		if r.StatusCode != 400 || !strings.HasPrefix(got, `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"Invalid JSON payload`) {
			t.Errorf("%.80s: %d %s", text, r.StatusCode, got)
		}
	}
}

func TestJSONRPCEnvelope(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	for _, c := range []struct{ text, id, code string }{
		{`[]`, `null`, `-32600`},
		{`[{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}]`, `null`, `-32600`},
		{`5`, `null`, `-32600`},
		{`null`, `null`, `-32600`},
		{`{}`, `null`, `-32600`},
		{`{"id":1,"method":"GetTask"}`, `1`, `-32600`},
		{`{"jsonrpc":"1.0","id":"a","method":"GetTask"}`, `"a"`, `-32600`},
		{`{"jsonrpc":2.0,"id":"a","method":"GetTask"}`, `"a"`, `-32600`},
		{`{"jsonrpc":"2.0","id":"a"}`, `"a"`, `-32600`},
		{`{"jsonrpc":"2.0","id":"a","method":7}`, `"a"`, `-32600`},
		{`{"jsonrpc":"2.0","id":{},"method":"GetTask"}`, `null`, `-32600`},
		{`{"jsonrpc":"2.0","id":true,"method":"GetTask"}`, `null`, `-32600`},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 2000) + `","method":"GetTask"}`, `null`, `-32600`},
		{`{"jsonrpc":"2.0","id":"a","method":"Nope"}`, `"a"`, `-32601`},
		{`{"jsonrpc":"2.0","id":"a","method":"getTask"}`, `"a"`, `-32601`},
		{`{"jsonrpc":"2.0","id":"a","method":"message/send"}`, `"a"`, `-32601`},
		{`{"jsonrpc":"2.0","id":"a","method":"GetTask","params":["x"]}`, `"a"`, `-32602`},
		{`{"jsonrpc":"2.0","id":"a","method":"GetTask","params":"x"}`, `"a"`, `-32602`},
		{`{"jsonrpc":"2.0","id":"a","method":"GetTask"}`, `"a"`, `-32602`},
		{`{"jsonrpc":"2.0","id":"a","method":"GetTask","params":null}`, `"a"`, `-32602`},
		{`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}`, `1`, `-32001`},
		{`{"jsonrpc":"2.0","id":1.50,"method":"GetTask","params":{"id":"x"}}`, `1.50`, `-32001`},
		{`{"jsonrpc":"2.0","id":-1e400,"method":"GetTask","params":{"id":"x"}}`, `-1e400`, `-32001`},
		{`{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"GetTask","params":{"id":"x"}}`, `123456789012345678901234567890`, `-32001`},
		{`{"jsonrpc":"2.0","id":null,"method":"GetTask","params":{"id":"x"}}`, `null`, `-32001`},
		{`{"jsonrpc":"2.0","id":"","method":"GetTask","params":{"id":"x"}}`, `""`, `-32001`},
		{`{"jsonrpc":"2.0","id":"\u00e9\"\\","method":"GetTask","params":{"id":"]}\""}}`, `"\u00e9\"\\"`, `-32001`},
		{` { "params" : {"id":"x"} , "method" : "Get\u0054ask", "id" : 9 , "\u006asonrpc" : "2.0", "trace": [1] } `, `9`, `-32001`},
	} {
		r := n.post("rpc", c.text)
		if got := body(t, r); r.StatusCode != 200 || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":`+c.id+`,"error":{"code":`+c.code+`,`) {
			t.Errorf("%s: %d %s", c.text, r.StatusCode, got)
		}
	}
}

func TestJSONRPCNotifications(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
		r := n.post("rpc", fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"slow 1"}]}}}`, method))
		if got := body(t, r); r.StatusCode != 204 || got != "" {
			t.Errorf("%s: %d %s", method, r.StatusCode, got)
		}
	}
	for _, method := range []string{"GetTask", "SubscribeToTask", "Nope", "ListTasks"} {
		r := n.post("rpc", fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"id":"x"}}`, method))
		if got := body(t, r); r.StatusCode != 204 || got != "" {
			t.Errorf("%s: %d %s", method, r.StatusCode, got)
		}
	}
	if got := n.list(rpc, object{}).TotalSize; got != 2 {
		t.Errorf("%d tasks", got)
	}
}

func TestRow104_WrappedErrors(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		n.call(b, "SendMessage", send("wrapped")).isError(t, a2a.CodeTaskNotCancelable)
	})
}

func TestRow105_ContentTypes(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	const plain, own = "application/json", "application/a2a+json"
	for _, c := range []struct{ contentType, accept, want string }{
		{plain, "", plain},
		{own, "", own},
		{own + "; charset=utf-8", "", own},
		{plain + "; charset=utf-8", "", plain},
		{"Application/JSON", "", plain},
		{plain, own, own},
		{plain, plain + ", " + own, own},
		{own, plain, plain},
		{own, "*/*", own},
		{plain, "application/*", plain},
		{"", plain, plain},
		{plain + `; charset="UTF-8"`, "", plain},
		{plain, own + ";q=0, */*", plain},
		{own, own + "; q=0.0, */*", plain},
		{plain, own + ";q=0.5, " + plain, plain},
		{own, own + ";q=0.5, " + plain + ";q=0.6", plain},
		{plain, own + ";q=0.6, " + plain + ";q=0.5", own},
		{plain, plain + ";q=0.5, " + own + ";Q=0.5", own},
		{plain, plain + ";q=0, application/*;q=0.1", own},
		{plain, plain + ";q=0.1, */*", plain},
		{plain, own + ";q=x", own},
	} {
		for _, id := range []string{"nope", ""} {
			a := n.call(rest, "CancelTask", object{"id": "nope" + id}, header("Content-Type", c.contentType), header("Accept", c.accept))
			if got := a.Header.Get("Content-Type"); got != c.want || a.Number != 404 {
				t.Errorf("%+v: %s %s", c, got, a.Body)
			}
		}
		a := n.call(rest, "SendMessage", send("echo x"), header("Content-Type", c.contentType), header("Accept", c.accept))
		if got := a.Header.Get("Content-Type"); got != c.want || a.Status != 200 {
			t.Errorf("%+v: %d %s", c, a.Status, got)
		}
		a = n.call(rpc, "SendMessage", send("echo x"), header("Content-Type", c.contentType), header("Accept", c.accept))
		if got := a.Header.Get("Content-Type"); got != plain || a.Status != 200 || a.Error != nil {
			t.Errorf("%+v: %d %s", c, a.Status, got)
		}
	}
	for _, bad := range []string{"text/plain", "application/x-www-form-urlencoded", "application/jsonp", "multipart/form-data", ";;", plain + ";;charset", plain + "; charset=utf-16", plain + "; charset=latin1", plain + ", " + own} {
		a := n.call(rest, "SendMessage", send("echo x"), header("Content-Type", bad))
		if a.Status != 415 || a.Error.Code != a2a.CodeContentTypeNotSupported || a.Header.Get("Content-Type") != plain || !bytes.Contains(a.Body, []byte(`"code":415`)) {
			t.Errorf("%s: %d %s", bad, a.Status, a.Body)
		}
		a = n.call(rpc, "SendMessage", send("echo x"), header("Content-Type", bad))
		if a.Status != 200 || a.Number != -32005 {
			t.Errorf("%s: %d %s", bad, a.Status, a.Body)
		}
	}
	for _, coding := range []string{"gzip", "br", "identity, zstd"} {
		for _, b := range []binding{rest, rpc} {
			a := n.call(b, "SendMessage", send("echo x"), header("Content-Encoding", coding))
			if a.Status != 415 || a.Error == nil || a.Error.Code != a2a.CodeContentTypeNotSupported || a.Header.Get("Accept-Encoding") != "identity" || !strings.Contains(a.Error.Message, coding) {
				t.Errorf("%s on %s: %d %v %s", coding, b, a.Status, a.Header, a.Body)
			}
		}
	}
	for _, b := range []binding{rest, rpc} {
		if a := n.call(b, "SendMessage", send("echo x"), header("Content-Encoding", "Identity")); a.Error != nil {
			t.Errorf("identity on %s: %s", b, a.Body)
		}
	}
	if a := n.call(rest, "GetTask", object{"id": "nope"}, header("Content-Encoding", "gzip")); a.Status != 404 {
		t.Errorf("a request without a body: %d %s", a.Status, a.Body)
	}
	for _, c := range []struct{ op, accept string }{{"SendMessage", "text/html"}, {"SendMessage", "text/event-stream"}, {"SendMessage", "*/*;q=0"}, {"SendMessage", plain + ";q=0, " + own + ";q=0, */*"}, {"SendStreamingMessage", "*/*, text/event-stream;q=0, application/*;q=0"}, {"SendStreamingMessage", "text/html"}} {
		a := n.call(rest, c.op, send("echo x"), header("Accept", c.accept))
		if a.Status != 406 || a.Header.Get("Content-Type") != plain {
			t.Errorf("%+v: %d %s", c, a.Status, a.Body)
		}
	}
	if got := n.list(rpc, object{"status": "TASK_STATE_FAILED"}).TotalSize; got != 0 {
		t.Errorf("%d failed tasks", got)
	}
}

func TestRow109_StreamsAreEventStreams(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		for _, accept := range []string{"", "text/event-stream", "application/json, text/event-stream", "*/*"} {
			s := n.stream(b, "SendStreamingMessage", send("echo x"), header("Accept", accept))
			if got := s.response.Header.Get("Content-Type"); got != "text/event-stream" {
				t.Errorf("Accept %q: %s", accept, got)
			}
			s.rest()
		}
	})
}

func TestRow110_Versions(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		strict := func(assume bool) {
			id := object{"id": "nope", "taskId": "nope"}
			for op, params := range map[string]object{
				"SendMessage": send("echo x"), "SendStreamingMessage": send("echo x"),
				"GetTask": id, "ListTasks": {}, "CancelTask": id, "SubscribeToTask": id,
				"CreateTaskPushNotificationConfig": id, "GetTaskPushNotificationConfig": id,
				"ListTaskPushNotificationConfigs": id, "DeleteTaskPushNotificationConfig": id, "GetExtendedAgentCard": {},
			} {
				for _, version := range []string{"99.0", "", "0.3", "1", "1.x", "v1.0", "1.1"} {
					a := n.call(b, op, params, header("A2A-Version", version))
					if assume && version == "" {
						if a.Error != nil && a.Error.Code == a2a.CodeVersionNotSupported {
							t.Errorf("%s without a version: %s", op, a.Body)
						}
						continue
					}
					a.isError(t, a2a.CodeVersionNotSupported)
					if version == "" && !strings.Contains(a.Error.Message, "send A2A-Version: 1.0") {
						t.Errorf("%s: %s", op, a.Body)
					}
				}
				for _, edit := range []func(*http.Request){
					header("A2A-Version", "1.0"), header("A2A-Version", "1.0.7"), header("A2A-Version", " 1.0 "),
					func(r *http.Request) { r.Header.Del("A2A-Version"); r.URL.RawQuery = "A2A-Version=1.0" },
				} {
					if a := n.call(b, op, params, edit); a.Error != nil && a.Error.Code == a2a.CodeVersionNotSupported {
						t.Errorf("%s: %s", op, a.Body)
					}
				}
			}
		}
		strict(false)
		n = newNode(t, setting{agent: func(a *wire.Agent) { a.Assume = a2a.Version10 }})
		strict(true)
		if b == rpc {
			r := n.post("rpc", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}`, header("A2A-Version", "0.3"))
			if got := body(t, r); !strings.Contains(got, "-32009") {
				t.Errorf("an old method: %s", got)
			}
		}
	})
}

func TestRow114And115_Extensions(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{agent: func(a *wire.Agent) {
			a.Extensions = []a2a.AgentExtension{{URI: "https://x.example/a", Required: true}, {URI: "https://x.example/b"}}
		}})
		a := n.call(b, "SendMessage", send("echo x"))
		a.isError(t, a2a.CodeExtensionSupportRequired)
		n.call(b, "GetTask", object{"id": "x"}, header("A2A-Extensions", "https://x.example/b")).isError(t, a2a.CodeExtensionSupportRequired)
		for _, c := range []struct {
			edit func(http.Header)
			want string
		}{
			{func(h http.Header) { h.Set("A2A-Extensions", "https://x.example/a") }, "https://x.example/a"},
			{func(h http.Header) { h.Set("X-A2A-Extensions", "https://x.example/a") }, "https://x.example/a"},
			{func(h http.Header) { h.Set("a2a-extensions", "urn:other ,https://x.example/b,, https://x.example/a") }, "https://x.example/a, https://x.example/b"},
			{func(h http.Header) {
				h.Add("A2A-Extensions", "https://x.example/a")
				h.Add("A2A-Extensions", "urn:other")
				h.Add("X-A2A-Extensions", "https://x.example/b")
			}, "https://x.example/a, https://x.example/b"},
		} {
			a := n.call(b, "SendMessage", send("echo x"), func(r *http.Request) { c.edit(r.Header) })
			if got := a.Header.Get("A2A-Extensions"); a.Error != nil || got != c.want {
				t.Errorf("got %q, want %q: %s", got, c.want, a.Body)
			}
			s := n.stream(b, "SendStreamingMessage", send("echo x"), func(r *http.Request) { c.edit(r.Header) })
			if got := s.response.Header.Get("A2A-Extensions"); got != c.want {
				t.Errorf("stream: got %q, want %q", got, c.want)
			}
			s.rest()
		}
	})
}

func TestRow116_Capabilities(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{agent: func(a *wire.Agent) { a.Streaming = false }})
		id := n.sent(b, send("ask")).ID
		n.call(b, "SendStreamingMessage", send("echo x")).isError(t, a2a.CodeUnsupportedOperation)
		n.call(b, "SubscribeToTask", object{"id": id}).isError(t, a2a.CodeUnsupportedOperation)
		for _, op := range []string{"CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"} {
			n.call(b, op, object{"taskId": id, "id": "c"}).isError(t, a2a.CodePushNotificationNotSupported)
		}
		params := send("echo x")
		params["configuration"] = object{"taskPushNotificationConfig": object{"url": "https://h.example/x"}}
		n.call(b, "SendMessage", params).isError(t, a2a.CodePushNotificationNotSupported)
		n.call(b, "GetExtendedAgentCard", object{}).isError(t, a2a.CodeUnsupportedOperation)
		if got := n.list(b, object{}).TotalSize; got != 1 {
			t.Errorf("%d tasks", got)
		}
		n = newNode(t, setting{agent: func(a *wire.Agent) { a.ExtendedCard = true }})
		n.call(b, "GetExtendedAgentCard", object{}).isError(t, a2a.CodeExtendedAgentCardNotConfigured)
	})
}

func TestCallersAndRoles(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{options: func(o *wire.Options) { o.Auth = testCallers{&auth.Anonymous{}} }})
		a := n.call(b, "SendMessage", send("echo x"))
		a.isError(t, a2a.CodeUnauthenticated)
		if a.Status != 401 || !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%d %q", a.Status, a.Header.Get("WWW-Authenticate"))
		}
		id := n.sent(b, send("ask"), as("/viewer"), func(r *http.Request) { r.Header.Set("Authorization", "Bearer /alice") }).ID
		for _, op := range []string{"SendMessage", "SendStreamingMessage", "CancelTask"} {
			params := send("x")
			params["id"] = id
			a := n.call(b, op, params, as("/viewer"))
			a.isError(t, a2a.CodePermissionDenied)
			if a.Status != 403 {
				t.Errorf("%s: %d", op, a.Status)
			}
		}
		n.list(b, object{}, as("/viewer"))

		// What is not yours does not exist.
		unknown := n.call(b, "GetTask", object{"id": "01234567-89ab-7def-8123-456789abcdef"}, as("/bob"))
		for _, op := range []string{"GetTask", "CancelTask", "SubscribeToTask"} {
			a := n.call(b, op, object{"id": id}, as("/bob"))
			a.isError(t, a2a.CodeTaskNotFound)
			if got := strings.ReplaceAll(string(a.Body), id, "01234567-89ab-7def-8123-456789abcdef"); got != string(unknown.Body) {
				t.Errorf("%s: %s, not %s", op, got, unknown.Body)
			}
		}
		for _, op := range []string{"SendMessage", "SendStreamingMessage"} {
			n.call(b, op, send("x", object{"taskId": id}), as("/bob")).isError(t, a2a.CodeTaskNotFound)
			n.call(b, op, send("x", object{"referenceTaskIds": []string{id}}), as("/bob")).isError(t, a2a.CodeTaskNotFound)
		}
	})
}

func TestRouting(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: func(a *wire.Agent) { a.Tenants = []string{"acme"} }})
	id := n.sent(rpc, send("ask")).ID
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/", 404, ""},
		{"GET", "/agents", 404, ""},
		{"GET", "/agents/nope/rpc", 404, ""},
		{"POST", "/agents/nope/rpc", 404, ""},
		{"POST", "/agents/quote/rpc/nope", 404, ""},
		{"POST", "/agents/quote/rpcx", 404, ""},
		{"GET", "/agents/quote/rpc", 405, "POST, OPTIONS"},
		{"HEAD", "/agents/quote/rpc", 405, "POST, OPTIONS"},
		{"PUT", "/agents/quote/rpc/", 405, "POST, OPTIONS"},
		{"OPTIONS", "/agents/quote/rpc", 204, "POST, OPTIONS"},
		{"GET", "/agents/quote/", 200, ""},
		{"GET", "/agents/quote", 308, ""},
		{"HEAD", "/agents/quote", 308, ""},
		{"POST", "/agents/quote", 405, "GET, HEAD, OPTIONS"},
		{"HEAD", "/agents/quote/", 200, ""},
		{"POST", "/agents/quote/", 405, "GET, HEAD, OPTIONS"},
		{"GET", "/agents/quote/v1/nope", 404, ""},
		{"GET", "/agents/quote/v1/acme", 404, ""},
		{"GET", "/agents/quote/v1//tasks", 404, ""},
		{"GET", "/agents/quote/v1/tasks/", 404, ""},
		{"GET", "/agents/quote/v1/tasks/%zz", 400, ""},
		{"GET", "/agents/quote/v1/../v1/tasks", 404, ""},
		{"GET", "/agents/quote/v1/tasks", 200, ""},
		{"HEAD", "/agents/quote/v1/tasks", 200, ""},
		{"GET", "/agents/quote/v1/acme/tasks", 200, ""},
		{"GET", "/agents/quote/v1/nope/tasks", 404, ""},
		{"POST", "/agents/quote/v1/tasks", 405, "GET, HEAD, OPTIONS"},
		{"GET", "/agents/quote/v1/message:send", 405, "POST, OPTIONS"},
		{"DELETE", "/agents/quote/v1/tasks/" + id, 405, "GET, HEAD, OPTIONS"},
		{"GET", "/agents/quote/v1/tasks/" + id, 200, ""},
		{"GET", "/agents/quote/v1/tasks/" + id + ":cancel", 405, "POST, OPTIONS"},
		{"HEAD", "/agents/quote/v1/tasks/" + id + ":subscribe", 405, "GET, POST, OPTIONS"},
		{"OPTIONS", "/agents/quote/v1/tasks/" + id + "/pushNotificationConfigs/x", 204, "GET, HEAD, DELETE, OPTIONS"},
		{"POST", "/agents/quote/v1", 400, ""},
		{"POST", "/agents/quote/v1/", 400, ""},
		{"POST", "/agents/quote/v1/tasks/" + id + "%3Acancel", 200, ""},
	} {
		r, err := http.NewRequest(c.method, n.base+c.path, nil)
		if err != nil { // a client cannot even write this; a socket can
			raw := n.socket(t, c.method+" "+c.path+" HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nConnection: close\r\n\r\n")
			if !strings.HasPrefix(raw, fmt.Sprintf("HTTP/1.1 %d ", c.status)) {
				t.Errorf("%s %s: %.60s", c.method, c.path, raw)
			}
			continue
		}
		r.Header.Set("A2A-Version", "1.0")
		response, err := n.client.Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		got := body(t, response)
		_ = response.Body.Close()
		if response.StatusCode != c.status || response.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q, %s", c.method, c.path, response.StatusCode, response.Header.Get("Allow"), got)
		}
		if c.status >= 400 && c.method != "HEAD" && (!json.Valid([]byte(got)) || response.Header.Get("Content-Type") != "application/json") {
			t.Errorf("%s %s: %s %s", c.method, c.path, response.Header.Get("Content-Type"), got)
		}
		if response.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: no request id", c.method, c.path)
		}
	}
}

func TestAddressWithoutItsSlash(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	r := n.get("GET", "/agents/quote?a=b")
	if got := r.Request.URL.String(); got != n.url+"?a=b" || r.StatusCode != http.StatusOK {
		t.Errorf("%d at %s", r.StatusCode, got)
	}
}

// socket sends bytes and returns what comes until the server closes.
func (n *node) socket(t *testing.T, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(n.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("read: %v", err)
	}
	return string(all)
}

func TestSubscribeWithGet(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	id := n.sent(rest, send("ask")).ID
	s := n.stream(rest, "SubscribeToTask", object{"id": id}, func(r *http.Request) {
		r.Method, r.Body, r.ContentLength = http.MethodGet, nil, 0
		r.Header.Del("Content-Type")
	})
	if got := s.must().shape(); got != "task TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("first frame: %s", got)
	}
	s.close()
	// A body that names the task too has to name the same.
	a := n.call(rest, "CancelTask", object{"id": id}, func(r *http.Request) {
		text := `{"id":"other"}`
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	})
	a.isError(t, a2a.CodeInvalidParams)
	n.ok(rest, "CancelTask", object{"id": id}, func(r *http.Request) { r.Body, r.ContentLength = nil, 0; r.Header.Del("Content-Type") })
}

func TestS12_SlowBody(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{options: func(o *wire.Options) { o.BodyTimeout = 100 * time.Millisecond }})
	for _, path := range []string{"rpc", "v1/message:send", "v1/tasks", "nope"} {
		method := "POST"
		if path == "v1/tasks" {
			method = "GET"
		}
		within(t, 5*time.Second, func() {
			got := n.socket(t, method+" /agents/quote/"+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\nContent-Length: 1000\r\n\r\n{")
			if !strings.HasPrefix(got, "HTTP/1.1 ") {
				t.Errorf("%s: %q", path, got)
			}
			late := strings.HasPrefix(got, "HTTP/1.1 408 ") && strings.Contains(got, "in time") && strings.Contains(got, "\r\nConnection: close\r\n")
			if path == "v1/message:send" && !(late && strings.Contains(got, `{"error":{"code":408,`)) ||
				path == "rpc" && !(late && strings.Contains(got, `"id":null,"error":{"code":-32600,`)) {
				t.Errorf("%s: %q", path, got)
			}
		})
	}
	// A client that has sent its body may wait as long as it likes.
	if got := n.sent(rpc, send("slow 3")).Status.State; got != a2a.StateCompleted {
		t.Errorf("after the body: %v", got)
	}
}

func TestS12_ManyParts(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		for name, parts := range map[string]string{
			"nested": `{"data":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
			"empty":  strings.Repeat(`{},`, 1_000_000) + `{}`,
		} {
			within(t, 10*time.Second, func() {
				a := n.raw(b, "SendMessage", withParts(parts))
				if a.Error == nil || a.Status >= 500 || len(a.Body) > 1<<10 {
					t.Errorf("%s: %d bytes", name, len(a.Body))
				}
			})
		}
		a := n.raw(b, "SendMessage", withParts(strings.Repeat(`{},`, 30_000)+`{}`))
		a.isError(t, a2a.CodeInvalidParams)
		if !a.field("message.parts") || b == rpc && !bytes.Contains(a.Body, []byte(`"id":"x-1"`)) {
			t.Errorf("%s", a.Body)
		}
		n.sent(b, send("echo x"))
		// Free JSON may be as large as the body.
		if a := n.raw(b, "SendMessage", withParts(`{"text":"echo"},{"data":[`+strings.Repeat(`{},`, 100_000)+`{}]}`)); a.Error != nil {
			t.Errorf("%.200s", a.Body)
		}
	})
}

func TestS12_LargeHeader(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	r := n.request(rpc, "SendMessage", send("echo x"), header("X-Large", strings.Repeat("x", 1<<20)))
	response, err := n.client.Do(r)
	if err == nil {
		defer response.Body.Close()
		if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d", response.StatusCode)
		}
	}
	n.sent(rpc, send("echo x"))
}

func TestStreamLimit(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{options: func(o *wire.Options) { o.Streams = 2 }})
		id := n.sent(b, send("ask"), as("/alice")).ID
		var open []*sse
		for range 2 {
			s := n.stream(b, "SubscribeToTask", object{"id": id}, as("/alice"))
			s.must()
			open = append(open, s)
		}
		_, refused := n.open(b, "SubscribeToTask", object{"id": id}, as("/alice"))
		refused.isError(t, a2a.CodeResourceExhausted)
		if refused.Status != 429 || refused.Header.Get("Retry-After") == "" {
			t.Errorf("%d", refused.Status)
		}
		n.stream(b, "SendStreamingMessage", send("echo x"), as("/bob")).rest()
		open[0].close()
		eventually(t, "a stream is free", func() bool {
			s, _ := n.open(b, "SubscribeToTask", object{"id": id}, as("/alice"))
			if s != nil {
				s.close()
			}
			return s != nil
		})
	})
}

// Who has shown no credential is counted by where it is: by its address, or by its
// network of 64 bits, in which it can have any address.
func TestStreamLimitOfStrangers(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		proxies, err := auth.ParseProxies([]string{"127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		n := newNode(t, setting{options: func(o *wire.Options) {
			o.Streams, o.Auth = 1, &auth.Anonymous{Policy: auth.PolicyEverywhere, Proxies: proxies}
		}})
		id := n.sent(b, send("ask")).ID
		from := func(address string) func(*http.Request) { return header("X-Forwarded-For", address) }
		for _, address := range []string{"2001:db8::1", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2"} {
			n.stream(b, "SubscribeToTask", object{"id": id}, from(address)).must()
		}
		for _, address := range []string{"2001:db8::2", "2001:db8:0:1:ffff::1", "192.0.2.2"} {
			_, refused := n.open(b, "SubscribeToTask", object{"id": id}, from(address))
			if refused == nil || refused.Status != 429 || refused.Error.Metadata[a2a.MetadataLimit] != wire.LimitStreams {
				t.Errorf("another stream from %s: %+v", address, refused)
			}
		}
	})
}

func TestDeadReaderIsDropped(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{options: func(o *wire.Options) { o.WriteTimeout = 100 * time.Millisecond }})
	text := `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"burst 200000"}]}}}`
	c, err := net.Dial("tcp", strings.TrimPrefix(n.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprintf(c, "POST /agents/quote/rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil { // the stream has begun; nothing more is read
		t.Fatal(err)
	}
	eventually(t, "the reader was dropped", func() bool { return n.fixture.watchers.Load() == 0 })
}

func TestPanicsDoNotLeak(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{options: func(o *wire.Options) { o.Auth = panicking{} }})
		a := n.call(b, "GetTask", object{"id": "x"})
		if a.Number != map[binding]int{rpc: -32603, rest: 500}[b] || bytes.Contains(a.Body, []byte("secret")) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
}

type panicking struct{}

func (panicking) Authenticate(*http.Request) (auth.Principal, error) { panic("secret") }

// lines keeps what is logged.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

func TestRequestLog(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		log := &lines{}
		var observed sync.Map
		n := newNode(t, setting{options: func(o *wire.Options) {
			o.Logger = slog.New(slog.NewTextHandler(log, nil))
			o.Observe = func(operation, code string, _ time.Duration) { observed.Store(operation+" "+code, true) }
		}})
		task := n.sent(b, send("echo topsecret"), as("/alice"), header("X-Request-Id", "req-1"))
		a := n.call(b, "GetTask", object{"id": "nope"}, header("X-Request-Id", "bad id\x01"), func(r *http.Request) { r.Header["X-Request-Id"] = []string{"bad id"} })
		if got := a.Header.Get("X-Request-Id"); got == "" || got == "bad id" {
			t.Errorf("request id %q", got)
		}
		eventually(t, "both lines are there", func() bool { return strings.Count(log.text(), "msg=request") == 2 })
		text := log.text()
		for _, want := range []string{"request=req-1", "operation=SendMessage", "agent=quote", "task=" + task.ID, "context=" + task.ContextID, "caller=alice", "code=OK", "code=TaskNotFoundError", "took="} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in %s", want, text)
			}
		}
		if strings.Contains(text, "topsecret") || strings.Contains(text, "Bearer") {
			t.Errorf("too much: %s", text)
		}
		for _, want := range []string{"SendMessage OK", "GetTask TaskNotFoundError"} {
			if _, ok := observed.Load(want); !ok {
				t.Errorf("%s was not observed", want)
			}
		}
	})
}

func TestTraceparentReachesTheAgent(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		got := make(chan string, 1)
		n := newNode(t, setting{spec: runs(func(turn *agent.Turn) error {
			got <- turn.Traceparent
			return turn.Complete()
		})})
		n.sent(b, send("x"), header("Traceparent", parent))
		if tp := <-got; tp != parent {
			t.Errorf("traceparent %q", tp)
		}
	})
}

func TestAcceptReachesTheAgent(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		got := make(chan agent.Info, 1)
		n := newNode(t, setting{
			spec: runs(func(turn *agent.Turn) error {
				got <- turn.Info
				return turn.Complete()
			}),
			agent: func(a *wire.Agent) { a.Extensions = []a2a.AgentExtension{{URI: "urn:x"}} },
		})
		params := send("x", object{"metadata": object{"skillId": "scan"}})
		params["configuration"] = object{"acceptedOutputModes": []string{"text/html"}}
		n.sent(b, params, as("acme/alice"), header("A2A-Extensions", "urn:x, urn:y"))
		info := <-got
		if fmt.Sprintf("%v %s %v %s %s", info.Accept, info.Skill, info.Extensions, info.Caller.Subject, info.Caller.Tenant) != "[text/html] scan [urn:x] alice acme" {
			t.Errorf("%+v", info)
		}
	})
}

func TestServerSpans(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		spans := tracetest.NewSpanRecorder()
		provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
		got := make(chan string, 1)
		n := newNode(t, setting{
			spec: runs(func(turn *agent.Turn) error {
				got <- turn.Traceparent
				return turn.Complete()
			}),
			options: func(o *wire.Options) { o.Tracer = provider.Tracer("test") },
		})
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		task := n.sent(b, send("x"), header("Traceparent", parent))
		eventually(t, "the span has ended", func() bool { return len(spans.Ended()) == 1 })
		span := spans.Ended()[0]
		if span.Name() != "A2A SendMessage" || span.Parent().SpanID().String() != "b7ad6b7169203331" {
			t.Errorf("span %s of %s", span.Name(), span.Parent().SpanID())
		}
		if tp := <-got; !strings.Contains(tp, span.SpanContext().SpanID().String()) {
			t.Errorf("the agent got %s", tp)
		}
		if text := fmt.Sprint(span.Attributes()); !strings.Contains(text, task.ID) || !strings.Contains(text, "quote") {
			t.Errorf("attributes %s", text)
		}
	})
}

// An extension that we know nothing of, such as the Agent Payments Protocol (AP2),
// passes through whole: its declaration with its parameters in the card, its
// activation, and its objects in parts, metadata and artifacts (A2A §4.6).
func TestAP2PassesThrough(t *testing.T) {
	const uri = "https://github.com/google-agentic-commerce/ap2/v1"
	const mandate = `{"ap2.mandates.IntentMandate":{"natural_language_description":"Cool red shoes in my size","merchants":null,"requires_refundability":true,"user_cart_confirmation_required":true,"intent_expiry":"2026-12-01T00:00:00Z","total":{"currency":"IDR","value":1250000.5}}}`
	const risk = `{"risk_data":{"score":0.25}}`
	onEach(t, func(t *testing.T, b binding) {
		got := make(chan agent.Info, 1)
		n := newNode(t, setting{
			spec: runs(func(turn *agent.Turn) error {
				got <- turn.Info
				part := turn.Messages[0].Parts[1]
				return turn.Emit(agent.Step{Artifact: &agent.Artifact{Parts: []a2a.Part{part}, Metadata: turn.Messages[0].Metadata}})
			}),
			agent: func(a *wire.Agent) {
				a.Extensions = []a2a.AgentExtension{{URI: uri, Params: a2a.JSON(`{"roles":["merchant"]}`)}}
			},
		})
		params := object{"message": object{
			"messageId": "ap2", "role": "ROLE_USER", "extensions": []string{uri},
			"metadata": json.RawMessage(risk),
			"parts":    []object{{"text": "buy"}, {"data": json.RawMessage(mandate)}},
		}}
		task := n.sent(b, params, header("A2A-Extensions", uri))
		info := <-got
		if len(info.Extensions) != 1 || info.Extensions[0] != uri || info.Messages[0].Extensions[0] != uri {
			t.Errorf("the agent is told of %v and %v", info.Extensions, info.Messages[0].Extensions)
		}
		artifact := task.Artifacts[0]
		for what, texts := range map[string][2]string{
			"data the agent got": {mandate, string(info.Messages[0].Parts[1].Data)},
			"data it sent":       {mandate, string(artifact.Parts[0].Data)},
			"metadata":           {risk, string(artifact.Metadata)},
		} {
			if !sameJSON(t, texts[0], texts[1]) {
				t.Errorf("%s: %s", what, texts[1])
			}
		}
	})
}

// sameJSON reports whether two texts say the same.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var values [2]any
	for i, text := range []string{a, b} {
		if err := json.Unmarshal([]byte(text), &values[i]); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
