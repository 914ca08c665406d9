package wire_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/wire"
)

// writer is an agent that asks once and then sums up what it was given.
func writer(t *agent.Turn) error {
	if t.Number == 1 {
		_ = t.Working("reading")
		return t.Ask("For whom?", nil)
	}
	_ = t.Emit(agent.Step{Artifact: &agent.Artifact{Name: "summary", Parts: []a2a.Part{a2a.Text(t.Text())}, Last: true}})
	return t.Complete()
}

func TestTasksSendOfTheSeed(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both, spec: runs(writer)})
	call := func(method, params string) string {
		_, text := n.ask(rpc, asked{method: method, params: params})
		return text
	}
	const seed = `{"id":"task-1","sessionId":"s-9","message":{"role":"user","parts":[` +
		`{"type":"text","text":"Summarize this paper."},` +
		`{"type":"file","file":{"name":"paper.pdf","mimeType":"application/pdf","bytes":"JVBERi0="}},` +
		`{"type":"data","data":{"targetLength":"3 paragraphs"}}]}}`
	sameAs(t, "tasks/send", call(v03.MethodTasksSend, seed),
		`{"jsonrpc":"2.0","id":7,"result":{"id":"task-1","sessionId":"s-9","status":{"state":"input-required",`+
			`"message":{"role":"agent","parts":[{"type":"text","text":"For whom?"}]},"timestamp":"TIME"},"artifacts":[]}}`)
	sameAs(t, "tasks/get", call(v03.MethodGet, `{"id":"task-1","historyLength":9}`),
		`{"jsonrpc":"2.0","id":7,"result":{"id":"task-1","sessionId":"s-9","status":{"state":"input-required",`+
			`"message":{"role":"agent","parts":[{"type":"text","text":"For whom?"}]},"timestamp":"TIME"},"artifacts":[],`+
			`"history":[{"role":"user","parts":[{"type":"text","text":"Summarize this paper."},`+
			`{"type":"file","file":{"name":"paper.pdf","mimeType":"application/pdf","bytes":"JVBERi0="}},`+
			`{"type":"data","data":{"targetLength":"3 paragraphs"}}],"metadata":{"sessionId":"s-9"}},`+
			`{"role":"agent","parts":[{"type":"text","text":"reading"}]}]}}`)
	sameAs(t, "the answer", call(v03.MethodTasksSend, `{"id":"task-1","sessionId":"s-9","message":{"role":"user","parts":[{"type":"text","text":"for everybody"}]}}`),
		`{"jsonrpc":"2.0","id":7,"result":{"id":"task-1","sessionId":"s-9","status":{"state":"completed","timestamp":"TIME"},`+
			`"artifacts":[{"name":"summary","parts":[{"type":"text","text":"for everybody"}],"index":0}]}}`)
	if got := call(v03.MethodCancel, `{"id":"task-1"}`); !strings.Contains(got, "-32002") {
		t.Errorf("cancel of a task that is over: %s", got)
	}
	// Our own name of the task works as well, and gets the answers of 0.3.
	list := n.list(rpc, object{})
	if got := call(v03.MethodGet, `{"id":"`+list.Tasks[0].ID+`"}`); !strings.Contains(got, `"kind":"task"`) {
		t.Errorf("by our id: %s", got)
	}
	for params, want := range map[string]string{
		`{"message":{"role":"user","parts":[{"type":"text","text":"x"}]}}`:                                         "id: is required",
		`{"id":"` + strings.Repeat("x", 300) + `","message":{"role":"user","parts":[{"type":"text","text":"x"}]}}`: "id: is longer",
		`{"id":"t","message":{"role":"user","parts":[]}}`:                                                          "message.parts",
		`{"id":"t"}`: "message",
	} {
		if got := call(v03.MethodTasksSend, params); !strings.Contains(got, want) || !strings.Contains(got, "-32602") {
			t.Errorf("%s: %s", params, got)
		}
	}
}

func TestTasksSendSubscribe(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both})
	_, text := n.ask(rpc, asked{method: v03.MethodTasksSendSubscribe, params: `{"id":"b-1","message":{"role":"user","parts":[{"type":"text","text":"burst 1"}]}}`})
	var data []string
	for line := range strings.Lines(text) {
		if d, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			data = append(data, d)
		}
	}
	frame := func(fields string) string { return `{"jsonrpc":"2.0","id":7,"result":{"id":"b-1",` + fields + `}}` }
	sameAs(t, "stream", strings.Join(data, "\n"), strings.Join([]string{
		frame(`"status":{"state":"submitted","timestamp":"TIME"},"final":false`),
		frame(`"status":{"state":"working","timestamp":"TIME"},"final":false`),
		frame(`"artifact":{"parts":[{"type":"text","text":"0"}],"index":0,"append":false,"lastChunk":false}`),
		frame(`"status":{"state":"completed","timestamp":"TIME"},"final":true`),
	}, "\n"))
	_, text = n.ask(rpc, asked{method: v03.MethodTasksSend, params: `{"id":"m-x","message":{"role":"user","parts":[{"type":"text","text":"message hi"}]}}`})
	if !strings.Contains(text, `"result":{"id":"m-x","status":{"state":"completed","message":{"role":"agent","parts":[{"type":"text","text":"hi"}]}}}`) {
		t.Errorf("an answer without a task: %s", text)
	}
}

// What one caller has named is not what another one names the same.
func TestTasksSendAliasesBelongToTheirCaller(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: both, spec: runs(writer)})
	params := `{"id":"task-1","message":{"role":"user","parts":[{"type":"text","text":"Summarize."}]}}`
	ask := func(method, params string, edit ...func(*http.Request)) string {
		_, text := n.ask(rpc, asked{method: method, params: params}, edit...)
		return text
	}
	if got := ask(v03.MethodTasksSend, params, as("acme/ann")); !strings.Contains(got, "input-required") {
		t.Fatal(got)
	}
	for _, method := range []string{v03.MethodGet, v03.MethodCancel, v03.MethodResubscribe} {
		if got := ask(method, `{"id":"task-1"}`, as("acme/bob")); !strings.Contains(got, "-32001") {
			t.Errorf("%s by another caller: %s", method, got)
		}
	}
	if got := ask(v03.MethodTasksSend, params, as("acme/bob")); !strings.Contains(got, "input-required") {
		t.Errorf("bob's own task of that name: %s", got)
	}
	if got := ask(v03.MethodCancel, `{"id":"task-1"}`, as("acme/bob")); !strings.Contains(got, `"id":"task-1"`) || !strings.Contains(got, "canceled") {
		t.Errorf("bob cancels his own: %s", got)
	}
	if got := ask(v03.MethodGet, `{"id":"task-1"}`, as("acme/ann")); !strings.Contains(got, "input-required") {
		t.Errorf("ann's task: %s", got)
	}

	// Callers without credentials are one owner: from afar, names have to be hard
	// to guess.
	n = newNode(t, setting{agent: both, options: everywhere})
	afar := header("X-Forwarded-For", "203.0.113.7")
	if got := ask(v03.MethodTasksSend, params, afar); !strings.Contains(got, "at least 16 bytes") {
		t.Errorf("a short name from afar: %s", got)
	}
	long := strings.Replace(params, "task-1", "7f3c9d52e0b14a6c", 1)
	if got := ask(v03.MethodTasksSend, long, afar); !strings.Contains(got, "completed") {
		t.Errorf("a long name from afar: %s", got)
	}
}

func everywhere(o *wire.Options) {
	o.Auth = testCallers{&auth.Anonymous{Policy: auth.PolicyEverywhere, Proxies: auth.Proxies{netip.MustParsePrefix("127.0.0.0/8")}}}
}
