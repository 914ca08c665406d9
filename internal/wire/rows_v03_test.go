package wire_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/wire"
)

// both makes an agent speak 0.3 beside 1.0.
func both(a *wire.Agent) { a.Versions = []a2a.Version{a2a.Version10, a2a.Version03} }

// asked is a request of 0.3 on both bindings.
type asked struct {
	method     string
	params     string // %s is the task
	verb, path string // of HTTP+JSON, below the agent's address
	body       string // "" for none
}

func oldMessage(text, task string) (rpc, rest string) {
	id := fmt.Sprintf("m-%d", messageCount.Add(1))
	in := ""
	if task != "" {
		in = `,"taskId":"` + task + `"`
	}
	return `{"message":{"kind":"message","messageId":"` + id + `","role":"user","parts":[{"kind":"text","text":"` + text + `"}]` + in + `},"configuration":{"blocking":true}}`,
		`{"message":{"messageId":"` + id + `","role":"ROLE_USER","content":[{"text":"` + text + `"}]` + in + `},"configuration":{"blocking":true}}`
}

// operationsOf03 are all operations of 0.3 about a task.
func operationsOf03(task string) map[string]asked {
	rpcBody, restBody := oldMessage("next", task)
	id := `{"id":"` + task + `"}`
	hook := `{"url":"https://h.example/","id":"h"}`
	return map[string]asked{
		"send":        {method: v03.MethodSend, params: rpcBody, verb: "POST", path: "v1/message:send", body: restBody},
		"stream":      {method: v03.MethodStream, params: rpcBody, verb: "POST", path: "v1/message:stream", body: restBody},
		"get":         {method: v03.MethodGet, params: id, verb: "GET", path: "v1/tasks/" + task},
		"cancel":      {method: v03.MethodCancel, params: id, verb: "POST", path: "v1/tasks/" + task + ":cancel", body: `{"name":"tasks/` + task + `"}`},
		"resubscribe": {method: v03.MethodResubscribe, params: id, verb: "GET", path: "v1/tasks/" + task + ":subscribe"},
		"set": {
			method: v03.MethodSetPushConfig, params: `{"taskId":"` + task + `","pushNotificationConfig":` + hook + `}`, verb: "POST", path: "v1/tasks/" + task + "/pushNotificationConfigs",
			body: `{"parent":"tasks/` + task + `","configId":"h","config":{"name":"tasks/` + task + `/pushNotificationConfigs/h","pushNotificationConfig":` + hook + `}}`,
		},
		"getHook":  {method: v03.MethodGetPushConfig, params: `{"id":"` + task + `","pushNotificationConfigId":"h"}`, verb: "GET", path: "v1/tasks/" + task + "/pushNotificationConfigs/h"},
		"listHook": {method: v03.MethodListPushConfigs, params: id, verb: "GET", path: "v1/tasks/" + task + "/pushNotificationConfigs"},
		"deleteHook": {
			method: v03.MethodDeletePushConfig, params: `{"id":"` + task + `","pushNotificationConfigId":"h"}`, verb: "DELETE", path: "v1/tasks/" + task + "/pushNotificationConfigs/h",
		},
	}
}

// ask sends a request of 0.3, without a version, and returns the answer.
func (n *node) ask(b binding, a asked, edit ...func(*http.Request)) (status int, text string) {
	n.t.Helper()
	edit = append([]func(*http.Request){header("A2A-Version", "")}, edit...)
	if b == rpc {
		r := n.post("rpc", `{"jsonrpc":"2.0","id":7,"method":"`+a.method+`","params":`+a.params+`}`, edit...)
		return r.StatusCode, body03(n.t, r)
	}
	r := n.post(a.path, a.body, append(edit, func(r *http.Request) {
		if r.Method = a.verb; a.body == "" {
			r.Body, r.ContentLength, r.GetBody = http.NoBody, 0, nil
			r.Header.Del("Content-Type")
		}
	})...)
	return r.StatusCode, body03(n.t, r)
}

func body03(t testing.TB, r *http.Response) string {
	t.Helper()
	var b strings.Builder
	s := bufio.NewScanner(r.Body)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		b.WriteString(s.Text() + "\n")
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)
	names = regexp.MustCompile(`m-\d+`)
)

// blank takes from an answer what differs from run to run; ids are numbered.
func blank(text string) string {
	seen := map[string]string{}
	text = uuids.ReplaceAllStringFunc(text, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("id%d", len(seen)+1)
		}
		return seen[id]
	})
	return names.ReplaceAllString(times.ReplaceAllString(text, "TIME"), "m")
}

func sameAs(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, blank(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestRow111_Version03(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := pushing(t, setting{agent: both})
		rpcBody, restBody := oldMessage("echo hi", "")
		send := asked{method: v03.MethodSend, params: rpcBody, verb: "POST", path: "v1/message:send", body: restBody}
		_, text := n.ask(b, send)
		want := map[binding]string{
			rpc: `{"jsonrpc":"2.0","id":7,"result":{"kind":"task","id":"id1","contextId":"id2","status":{"state":"completed","timestamp":"TIME"},` +
				`"artifacts":[{"artifactId":"artifact-1.1","parts":[{"kind":"text","text":"hi"}]}],` +
				`"history":[{"kind":"message","messageId":"m","contextId":"id2","taskId":"id1","role":"user","parts":[{"kind":"text","text":"echo hi"}]}]}}`,
			rest: `{"task":{"id":"id1","contextId":"id2","status":{"state":"TASK_STATE_COMPLETED","timestamp":"TIME"},` +
				`"artifacts":[{"artifactId":"artifact-1.1","parts":[{"text":"hi"}]}],` +
				`"history":[{"messageId":"m","contextId":"id2","taskId":"id1","role":"ROLE_USER","content":[{"text":"echo hi"}]}]}}`,
		}
		sameAs(t, "send", text, want[b])

		rpcBody, restBody = oldMessage("message hi", "")
		_, text = n.ask(b, asked{method: v03.MethodSend, params: rpcBody, verb: "POST", path: "v1/message:send", body: restBody})
		want = map[binding]string{
			rpc:  `{"jsonrpc":"2.0","id":7,"result":{"kind":"message","messageId":"id1","contextId":"id2","role":"agent","parts":[{"kind":"text","text":"hi"}]}}`,
			rest: `{"message":{"messageId":"id1","contextId":"id2","role":"ROLE_AGENT","content":[{"text":"hi"}]}}`,
		}
		sameAs(t, "a message as the answer", text, want[b])

		rpcBody, restBody = oldMessage("ask", "")
		_, text = n.ask(b, asked{method: v03.MethodSend, params: rpcBody, verb: "POST", path: "v1/message:send", body: restBody})
		if !strings.Contains(text, map[binding]string{rpc: `"state":"input-required"`, rest: `"state":"TASK_STATE_INPUT_REQUIRED"`}[b]) {
			t.Errorf("ask: %s", text)
		}
		task := uuids.FindString(text)
		ops := operationsOf03(task)
		_, text = n.ask(b, ops["get"])
		want = map[binding]string{
			rpc: `{"jsonrpc":"2.0","id":7,"result":{"kind":"task","id":"id1","contextId":"id2","status":{"state":"input-required",` +
				`"message":{"kind":"message","messageId":"id1-1.1.1","contextId":"id2","taskId":"id1","role":"agent","parts":[{"kind":"text","text":"What next?"}]},"timestamp":"TIME"},"artifacts":[],` +
				`"history":[{"kind":"message","messageId":"m","contextId":"id2","taskId":"id1","role":"user","parts":[{"kind":"text","text":"ask"}]}]}}`,
			rest: `{"id":"id1","contextId":"id2","status":{"state":"TASK_STATE_INPUT_REQUIRED",` +
				`"message":{"messageId":"id1-1.1.1","contextId":"id2","taskId":"id1","role":"ROLE_AGENT","content":[{"text":"What next?"}]},"timestamp":"TIME"},"artifacts":[],` +
				`"history":[{"messageId":"m","contextId":"id2","taskId":"id1","role":"ROLE_USER","content":[{"text":"ask"}]}]}`,
		}
		sameAs(t, "get", text, want[b])

		want = map[binding]string{
			rpc:  `{"jsonrpc":"2.0","id":7,"result":{"taskId":"id1","pushNotificationConfig":{"id":"h","url":"https://h.example/"}}}`,
			rest: `{"name":"tasks/id1/pushNotificationConfigs/h","pushNotificationConfig":{"id":"h","url":"https://h.example/"}}`,
		}
		_, text = n.ask(b, ops["set"])
		sameAs(t, "set", text, want[b])
		_, text = n.ask(b, ops["getHook"])
		sameAs(t, "get a webhook", text, want[b])
		_, text = n.ask(b, ops["listHook"])
		sameAs(t, "list webhooks", text, map[binding]string{
			rpc:  `{"jsonrpc":"2.0","id":7,"result":[{"taskId":"id1","pushNotificationConfig":{"id":"h","url":"https://h.example/"}}]}`,
			rest: `{"configs":[{"name":"tasks/id1/pushNotificationConfigs/h","pushNotificationConfig":{"id":"h","url":"https://h.example/"}}]}`,
		}[b])
		_, text = n.ask(b, ops["deleteHook"])
		sameAs(t, "delete a webhook", text, map[binding]string{rpc: `{"jsonrpc":"2.0","id":7,"result":null}`, rest: `{}`}[b])
		_, text = n.ask(b, ops["getHook"])
		if !strings.Contains(text, map[binding]string{rpc: "-32001", rest: "TASK_NOT_FOUND"}[b]) {
			t.Errorf("a webhook that was deleted: %s", text)
		}

		_, text = n.ask(b, ops["cancel"])
		if !strings.Contains(text, map[binding]string{rpc: `"state":"canceled"`, rest: `"state":"TASK_STATE_CANCELLED"`}[b]) {
			t.Errorf("cancel: %s", text)
		}
		for op, code := range map[string]string{"send": "-32004", "resubscribe": "-32004"} {
			if status, text := n.ask(b, ops[op]); b == rpc && !strings.Contains(text, code) || b == rest && status != 400 {
				t.Errorf("%s of a task that is over: %d %s", op, status, text)
			}
		}
		status, text := n.ask(b, asked{method: v03.MethodExtendedCard, params: "null", verb: "GET", path: "v1/card"})
		if b == rpc && !strings.Contains(text, "-32007") || b == rest && (status != 400 || !strings.Contains(text, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")) {
			t.Errorf("extended card: %d %s", status, text)
		}
	})
}

func TestRow96_FinalAndKindIn03(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{agent: both})
		rpcBody, restBody := oldMessage("burst 2", "")
		stream := asked{method: v03.MethodStream, params: rpcBody, verb: "POST", path: "v1/message:stream", body: restBody}
		_, text := n.ask(b, stream)
		var data []string
		for line := range strings.Lines(text) {
			if d, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
				data = append(data, d)
			}
		}
		frame := func(kind, member, fields string) string {
			if b == rpc {
				return `{"jsonrpc":"2.0","id":7,"result":{"kind":"` + kind + `",` + fields + `}}`
			}
			for old, name := range map[string]string{"submitted": "TASK_STATE_SUBMITTED", "working": "TASK_STATE_WORKING", "completed": "TASK_STATE_COMPLETED"} {
				fields = strings.ReplaceAll(fields, `"state":"`+old+`"`, `"state":"`+name+`"`)
			}
			for _, kind := range []string{"text", "message"} {
				fields = strings.ReplaceAll(fields, `"kind":"`+kind+`",`, "")
			}
			fields = strings.NewReplacer(`"role":"user","parts"`, `"role":"ROLE_USER","content"`).Replace(fields)
			return `{"` + member + `":{` + fields + `}}`
		}
		const about = `"taskId":"id1","contextId":"id2",`
		want := []string{
			frame("task", "task", `"id":"id1","contextId":"id2","status":{"state":"submitted","timestamp":"TIME"},"artifacts":[],`+
				`"history":[{"kind":"message","messageId":"m","contextId":"id2","taskId":"id1","role":"user","parts":[{"kind":"text","text":"burst 2"}]}]`),
			frame("status-update", "statusUpdate", about+`"status":{"state":"working","timestamp":"TIME"},"final":false`),
			frame("artifact-update", "artifactUpdate", about+`"artifact":{"artifactId":"out","parts":[{"kind":"text","text":"0"}]},"append":false,"lastChunk":false`),
			frame("artifact-update", "artifactUpdate", about+`"artifact":{"artifactId":"out","parts":[{"kind":"text","text":"1"}]},"append":true,"lastChunk":false`),
			frame("status-update", "statusUpdate", about+`"status":{"state":"completed","timestamp":"TIME"},"final":true`),
		}
		sameAs(t, "stream", strings.Join(data, "\n"), strings.Join(want, "\n"))

		rpcBody, restBody = oldMessage("ask", "")
		stream.params, stream.body = rpcBody, restBody
		if _, text := n.ask(b, stream); strings.Count(text, `"final":true`) != 1 || !strings.Contains(text[strings.LastIndex(text, "data:"):], `"final":true`) {
			t.Errorf("a stream that asks: %s", text)
		}
		if b == rpc {
			s := n.stream(b, "SendStreamingMessage", send("burst 2"))
			for _, e := range s.rest() {
				if strings.Contains(string(e.Raw), `"final"`) || strings.Contains(string(e.Raw), `"kind"`) {
					t.Errorf("a frame of 1.0: %s", e.Raw)
				}
			}
		}
	})
}

func TestRow110_Version03(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both})
	call := func(method, version string, edit ...func(*http.Request)) string {
		rpcBody, _ := oldMessage("echo x", "")
		params := rpcBody
		if method == "SendMessage" {
			params = `{"message":{"messageId":"n","role":"ROLE_USER","parts":[{"text":"echo x"}]}}`
		}
		return body03(t, n.post("rpc", `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":`+params+`}`, append(edit, header("A2A-Version", version))...))
	}
	for _, tt := range []struct{ method, version, want string }{
		{"message/send", "", `"kind":"task"`},
		{"message/send", "0.3", `"kind":"task"`},
		{"message/send", "0.3.0", `"kind":"task"`},
		{"message/send", "1.0", "-32601"},
		{"message/send", "99.0", "-32009"},
		{"message/send", "0.2", "-32009"},
		{"SendMessage", "1.0", "TASK_STATE_COMPLETED"},
		{"SendMessage", "", "send A2A-Version: 1.0"},
		{"SendMessage", "0.3", "-32601"},
		{"tasks/list", "", "-32601"},
		{"message/Send", "", "-32601"},
	} {
		if got := call(tt.method, tt.version); !strings.Contains(got, tt.want) {
			t.Errorf("%s with version %q: %s, not %s", tt.method, tt.version, got, tt.want)
		}
	}
	if got := call("message/send", "", func(r *http.Request) { r.URL.RawQuery = "A2A-Version=0.3" }); !strings.Contains(got, `"kind":"task"`) {
		t.Errorf("version in the query: %s", got)
	}
	// What is at an address of 0.3 only, asked for in another version.
	for path, want := range map[string]string{"v1/card": "VERSION_NOT_SUPPORTED", "v1/nothing": "There is nothing at"} {
		if status, text := n.ask(rest, asked{verb: "GET", path: path}, header("A2A-Version", "99.0")); status < 400 || !strings.Contains(text, want) {
			t.Errorf("%s in another version: %d %s, not %s", path, status, text, want)
		}
	}
	if status, text := n.ask(rest, asked{verb: "GET", path: "v1/card"}, header("A2A-Version", "1.0")); status != 404 {
		t.Errorf("v1/card in 1.0: %d %s", status, text)
	}
	// 1.0 over gRPC is no place for a client of 0.3.
	if e := n.callGRPC("GetTask", object{"id": "x"}, []func(*http.Request){header("A2A-Version", "0.3")}); e.Error == nil || e.Error.Code != a2a.CodeVersionNotSupported {
		t.Errorf("0.3 over gRPC of 1.0: %+v", e.Error)
	}

	n = newNode(t, setting{agent: func(a *wire.Agent) { both(a); a.Assume = a2a.Version10 }})
	for method, want := range map[string]string{"message/send": `"kind":"task"`, "SendMessage": "TASK_STATE_COMPLETED"} {
		if got := call(method, ""); !strings.Contains(got, want) {
			t.Errorf("%s, 1.0 assumed: %s", method, got)
		}
	}
	n = newNode(t, setting{agent: func(a *wire.Agent) { a.Versions = []a2a.Version{a2a.Version03} }})
	if got := call("SendMessage", "1.0"); !strings.Contains(got, "-32009") || !strings.Contains(got, "send A2A-Version: 0.3") {
		t.Errorf("1.0 to an agent of 0.3: %s", got)
	}
}

func TestRow72_NoListIn03(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both})
	status, text := n.ask(rest, asked{verb: "GET", path: "v1/tasks"})
	if status != 404 || !json.Valid([]byte(text)) {
		t.Errorf("%d %s", status, text)
	}
	status, _ = n.ask(rest, asked{verb: "GET", path: "v1/extendedAgentCard"})
	if status != 404 {
		t.Errorf("the card of 1.0: %d", status)
	}
}

func TestRow112_WhatOldClientsSend(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both})
	file := base64.StdEncoding.EncodeToString([]byte("file"))
	for name, tt := range map[string]struct {
		b          binding
		body, want string
	}{
		"kinds": {rpc, `{"message":{"kind":"message","messageId":"a1","role":"user","parts":[{"kind":"text","text":"echo x"},` +
			`{"kind":"file","file":{"name":"f","mimeType":"text/plain","bytes":"` + file + `"}},{"kind":"file","file":{"uri":"https://x.example/f"}},` +
			`{"kind":"data","data":{"n":1.50,"ß":"<"},"metadata":{"k":1}}]}}`, `[{"kind":"text","text":"x"},{"kind":"file","file":{"name":"f","mimeType":"text/plain","bytes":"` + file + `"}},` +
			`{"kind":"file","file":{"uri":"https://x.example/f"}},{"kind":"data","data":{"n":1.50,"ß":"<"},"metadata":{"k":1}}]`},
		"content": {rest, `{"request":{"messageId":"a2","role":"ROLE_USER","content":[{"text":"echo x"},` +
			`{"file":{"fileWithBytes":"` + base64.StdEncoding.EncodeToString([]byte(file)) + `","mimeType":"text/plain"}},{"file":{"fileWithUri":"https://x.example/f"}},` +
			`{"data":{"data":{"n":1.50}}}]},"configuration":{"blocking":true}}`, `[{"text":"x"},{"file":{"mimeType":"text/plain","fileWithBytes":"` + base64.StdEncoding.EncodeToString([]byte(file)) + `"}},` +
			`{"file":{"fileWithUri":"https://x.example/f"}},{"data":{"data":{"n":1.50}}}]`},
		"the specification's JSON over HTTP": {
			rest, `{"message":{"kind":"message","messageId":"a3","role":"user","parts":[{"kind":"text","text":"echo x"},{"kind":"data","data":{"data":{}}}]}}`,
			`[{"text":"x"},{"data":{"data":{"data":{}}}}]`,
		},
		"snake_case": {
			rpc, `{"message":{"message_id":"a4","role":"user","parts":[{"kind":"text","text":"echo x"},{"kind":"file","file":{"mime_type":"text/plain","bytes":"` + file + `"}}]}}`,
			`[{"kind":"text","text":"x"},{"kind":"file","file":{"mimeType":"text/plain","bytes":"` + file + `"}}]`,
		},
	} {
		_, text := n.ask(tt.b, asked{method: v03.MethodSend, params: tt.body, verb: "POST", path: "v1/message:send", body: tt.body})
		if !strings.Contains(text, `"parts":`+tt.want) {
			t.Errorf("%s: %s\nnot %s", name, text, tt.want)
		}
	}
	// ProtoJSON leaves out what is false.
	_, text := n.ask(rest, asked{verb: "POST", path: "v1/message:send", body: `{"message":{"messageId":"a5","role":"ROLE_USER","content":[{"text":"hold"}]},"configuration":{}}`})
	if !strings.Contains(text, "TASK_STATE_WORKING") && !strings.Contains(text, "TASK_STATE_SUBMITTED") {
		t.Errorf("a call that does not block: %s", text)
	}
	for body, want := range map[string]string{
		`{"message":{"messageId":"b","role":"user","parts":[{"kind":"video"}]}}`:                            "message.parts[0].kind",
		`{"message":{"messageId":"b","role":"user","parts":[{"kind":"text"}]}}`:                             "message.parts[0].text",
		`{"message":{"messageId":"b","role":"user","parts":[{"kind":"file","file":{"bytes":"%%%"}}]}}`:      "message.parts[0].file.bytes",
		`{"message":{"messageId":"b","role":"boss","parts":[{"kind":"text","text":"x"}]}}`:                  "message.role",
		`{"message":{"messageId":7,"role":"user","parts":[{"kind":"text","text":"x"}]}}`:                    "message.messageId",
		`{"message":{"role":"user","parts":[{"kind":"text","text":"x"}]}}`:                                  "message.messageId",
		`{"message":{"kind":"task","messageId":"b","role":"user","parts":[{"kind":"text","text":"x"}]}}`:    "message.kind",
		`{"message":{"messageId":"b","message_id":"c","role":"user","parts":[{"kind":"text","text":"x"}]}}`: "-32700",
		`{}`: "message",
	} {
		if _, text := n.ask(rpc, asked{method: v03.MethodSend, params: body}); !strings.Contains(text, want) || !strings.Contains(text, `"error"`) {
			t.Errorf("%s: %s, not %s", body, text, want)
		}
	}
}

func TestRowS1AndRow113_PrincipalsIn03(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := pushing(t, setting{agent: both})
		rpcBody, restBody := oldMessage("ask", "")
		_, text := n.ask(b, asked{method: v03.MethodSend, params: rpcBody, verb: "POST", path: "v1/message:send", body: restBody}, as("acme/ann"))
		task := uuids.FindString(text)
		const unknown = "0198b5a0-0000-7000-8000-000000000000"
		mine, nobodys := operationsOf03(task), operationsOf03(unknown)
		for op := range mine {
			status, foreign := n.ask(b, mine[op], as("globex/bob"))
			otherStatus, other := n.ask(b, nobodys[op], as("globex/bob"))
			if status != otherStatus || blank(foreign) != blank(other) {
				t.Errorf("%s: %d %s\n%d %s", op, status, foreign, otherStatus, other)
			}
			if !strings.Contains(foreign, "TASK_NOT_FOUND") {
				t.Errorf("%s by another caller: %s", op, foreign)
			}
			if op == "get" || op == "resubscribe" {
				continue
			}
			if _, text := n.ask(b, mine[op], as("acme/viewer")); !strings.Contains(text, "PERMISSION_DENIED") && !strings.Contains(op, "Hook") {
				t.Errorf("%s by a viewer: %s", op, text)
			}
		}
		if _, text := n.ask(b, mine["get"], as("acme/ann")); !strings.Contains(strings.ToLower(text), "input") {
			t.Errorf("ann's task: %s", text)
		}
		outside := header("X-Forwarded-For", "203.0.113.7") // nobody without credentials
		for op := range mine {
			if status, text := n.ask(b, mine[op], outside); status != 401 {
				t.Errorf("%s without credentials: %d %s", op, status, text)
			}
		}
	})
}

func TestVersion03CardsAndTenants(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: func(a *wire.Agent) {
		both(a)
		a.Tenants = []string{"acme"}
		a.Paths.REST = "api"
		a.Card = func(w http.ResponseWriter, _ *http.Request, tenant string) {
			_, _ = w.Write([]byte(`{"tenant":"` + tenant + `"}`))
		}
	}})
	for path, want := range map[string]string{
		"/.well-known/agent.json": `{"tenant":""}`, "/agents/quote/.well-known/agent.json": `{"tenant":""}`, "/agents/quote/t/acme/.well-known/agent.json": `{"tenant":"acme"}`,
	} {
		r, err := n.client.Get(n.base + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := body03(t, r); got != want {
			t.Errorf("%s: %s", path, got)
		}
		_ = r.Body.Close()
	}
	_, restBody := oldMessage("echo hi", "")
	status, text := n.ask(rest, asked{verb: "POST", path: "t/acme/v1/message:send", body: restBody}, as("acme/ann"))
	if status != 200 || !strings.Contains(text, "TASK_STATE_COMPLETED") {
		t.Errorf("a tenant's address: %d %s", status, text)
	}
	if status, text = n.ask(rest, asked{verb: "POST", path: "t/acme/v1/message:send", body: restBody}, as("globex/bob")); status != 404 {
		t.Errorf("another tenant's address: %d %s", status, text)
	}
	_, restBody = oldMessage("echo hi", "")
	if status, text = n.ask(rest, asked{verb: "POST", path: "v1/message:send", body: restBody}, as("acme/ann")); status != 200 {
		t.Errorf("0.3 where 1.0 has moved away: %d %s", status, text)
	}
	if status, _ = n.ask(rest, asked{verb: "POST", path: "v1/message:send", body: restBody}, header("A2A-Version", "1.0")); status != 404 {
		t.Errorf("1.0 there: %d", status)
	}
	for _, path := range []string{"", "t/acme/"} {
		if status, text = n.ask(rest, asked{verb: "POST", path: path, body: "{}"}); status != 400 || !strings.Contains(text, "v1/message:send") {
			t.Errorf("the address %q itself: %d %s", path, status, text)
		}
	}
}

func TestExtendedCardIn03(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{agent: func(a *wire.Agent) {
			both(a)
			a.ExtendedCard = true
			a.Extended = func(_ *http.Request, _ string, caller *auth.Principal, old bool) (card.Document, bool, error) {
				return card.NewDocument(fmt.Appendf(nil, `{"for":%q,"old":%v}`, caller.Subject, old)), true, nil
			}
		}})
		get := asked{method: v03.MethodExtendedCard, params: "null", verb: "GET", path: "v1/card"}
		want := map[binding]string{rpc: `{"jsonrpc":"2.0","id":7,"result":{"for":"ann","old":true}}`, rest: `{"for":"ann","old":true}`}[b]
		if _, text := n.ask(b, get, as("acme/ann")); text != want {
			t.Errorf("%s, not %s", text, want)
		}
		if status, text := n.ask(b, get); status != 401 {
			t.Errorf("without credentials: %d %s", status, text)
		}
	})
}
