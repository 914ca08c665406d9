package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/examples/procurement/erp"
	"handoff.example/handoff/examples/procurement/toolclient"
)

// counter is a gateway with the ERP system's tools behind it, and a client's key.
type counter struct {
	*company
	toolclient.Server
}

func gatewayWith(t *testing.T, more string) *counter {
	t.Helper()
	c := founded(t)
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	if more != "" {
		text, err := os.ReadFile(c.file("gateway.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		more = strings.NewReplacer("ADDRESS", c.address[erpPost], "KEY", c.key(erpPost)).Replace(more)
		if err := os.WriteFile(c.file("gateway.yaml"), append(text, more...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{erpRead, erpPost, gateway} {
		if err := c.start(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	var made struct {
		Key string `json:"key"`
	}
	if err := c.ask(ctx, gateway, &made, "keys", "create", "--subject", buyer); err != nil {
		t.Fatal(err)
	}
	return &counter{c, toolclient.Server{URL: c.url(gateway), Key: made.Key}}
}

// The agents see six tools, and those that follow a call which waits for a person,
// through whichever endpoint; nobody without a key sees any.
func TestToolsOfTheGateway(t *testing.T) {
	t.Parallel()
	g := gatewayWith(t, "")
	for path, want := range map[string][]string{
		"":           {"draft_order", "draft_receipt", "get_order_status", "get_price", "get_stock_level", "rebuild_stock_valuation"},
		"/erp-read":  {"get_order_status", "get_price", "get_stock_level"},
		"/erp-draft": {"draft_order", "draft_receipt", "rebuild_stock_valuation"},
		"/erp-post":  nil,
		"/books":     nil,
	} {
		session, err := toolclient.Server{URL: g.URL + path, Key: g.Key}.Connect(t.Context())
		if want == nil {
			if err == nil {
				t.Errorf("there is an endpoint %s", path)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		defer session.Close()
		list, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		want = slices.Sorted(slices.Values(append(want, "answer_task", "cancel_task", "check_task")))
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		if slices.Sort(names); !slices.Equal(want, names) {
			t.Errorf("%s has the tools (-want +got):\n%s", path, cmp.Diff(want, names))
		}
	}
	if _, err := (toolclient.Server{URL: g.URL}).Connect(t.Context()); !errors.Is(err, toolclient.ErrKey) {
		t.Errorf("without a key: %v", err)
	}
	session, err := g.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	resource, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "erp://stock/SBY"})
	if err != nil || !strings.Contains(resource.Contents[0].Text, `"sku":"BRG-0042"`) || resource.TTLMs <= 0 {
		t.Errorf("the stock as a resource: %v, %+v", err, resource)
	}
}

// What the policy asks for is asked for, and a key counts once.
func TestDraftsThroughTheGateway(t *testing.T) {
	t.Parallel()
	g := gatewayWith(t, "")
	small := draft
	small.Units, small.Total = 100, 12_250_000
	var o, again erp.Order
	if err := g.Call(t.Context(), "draft_order", "", small, &o); err == nil {
		t.Error("without an idempotency key it is made")
	}
	if err := g.Call(t.Context(), "draft_order", "k-1", small, &o); err != nil || o.Status != "draft" {
		t.Fatalf("%v: %+v", err, o)
	}
	if err := g.Call(t.Context(), "draft_order", "k-1", small, &again); err != nil || again != o {
		t.Errorf("again: %v, %s", err, cmp.Diff(o, again))
	}
	other := small
	other.Incoterm = "FOB"
	if err := g.Call(t.Context(), "draft_order", "k-1", other, &o); err == nil || errors.Is(err, toolclient.ErrLater) {
		t.Errorf("the key with other arguments: %v", err)
	}
	cheat := draft
	cheat.Number, cheat.Total = "PO-2026-0009", 1 // below the sum, so that nobody is asked
	if err := g.Call(t.Context(), "draft_order", "k-2", cheat, &o); err == nil || !strings.Contains(err.Error(), "the total is not") {
		t.Errorf("a total that is a lie: %v", err)
	}
	if err := g.Call(t.Context(), "draft_order", "k-3", map[string]any{"number": "PO-2026-0010"}, &o); err == nil || errors.Is(err, toolclient.ErrLater) {
		t.Errorf("arguments that do not fit: %v", err)
	}
	var made int
	if err := g.look(t.Context(), "erp.db", "SELECT count(*) FROM made", &made); err != nil || made != 1 {
		t.Errorf("%d calls have made something: %v", made, err)
	}
}

// rpc sends a request of revision 2026-07-28 with the tasks extension, and returns
// the result.
func (g *counter) rpc(ctx context.Context, method, name string, params map[string]any) (result struct {
	ResultType    string         `json:"resultType"`
	TaskID        string         `json:"taskId"`
	Status        string         `json:"status"`
	StatusMessage string         `json:"statusMessage"`
	Result        jsontext.Value `json:"result"`
	Error         jsontext.Value `json:"error"`
}, err error,
) {
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return result, err
	}
	status, text, err := g.post(ctx, "", body, http.Header{
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Mcp-Name": {name},
	})
	if err != nil {
		return result, err
	}
	if i := strings.LastIndex(text, "data: "); i >= 0 { // the last event is the answer
		text = text[i+len("data: "):]
	}
	var answer struct {
		Result jsontext.Value `json:"result"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &answer); err != nil || answer.Result == nil {
		return result, fmt.Errorf("%s is answered with %d: %s (%w)", method, status, text, err)
	}
	return result, json.Unmarshal(answer.Result, &result)
}

func (g *counter) post(ctx context.Context, path string, body []byte, header http.Header) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header = header.Clone()
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, string(content), err
}

// The gateway is killed with SIGKILL while the stock is valued, which is a task of
// it. The task is there afterwards, and ends: what was done is not done again.
func TestValuationOutlivesTheGateway(t *testing.T) {
	t.Parallel()
	g := gatewayWith(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	task, err := g.rpc(ctx, "tools/call", "rebuild_stock_valuation", map[string]any{
		"name": "rebuild_stock_valuation", "arguments": map[string]any{"period": "2026-09"},
	})
	if err != nil || task.ResultType != "task" || task.TaskID == "" {
		t.Fatalf("the call is answered with %+v: %v", task, err)
	}
	id, done := task.TaskID, 0
	for done < 20 {
		if err := g.look(ctx, "erp.db", "SELECT count(*) FROM valued", &done); err != nil {
			t.Fatal(err)
		}
	}
	g.kill(gateway)
	if err := g.look(ctx, "erp.db", "SELECT count(*) FROM valued", &done); err != nil || done == 60 {
		t.Fatalf("it was killed when %d were done: %v", done, err)
	}
	if err := g.start(ctx, gateway); err != nil {
		t.Fatal(err)
	}
	for task.Status != "completed" {
		if task, err = g.rpc(ctx, "tasks/get", id, map[string]any{"taskId": id}); err != nil || task.Status != "working" && task.Status != "completed" {
			t.Fatalf("the task is %+v: %v", task, err)
		}
	}
	var result struct {
		IsError           bool          `json:"isError"`
		StructuredContent erp.Valuation `json:"structuredContent"`
	}
	if err := json.Unmarshal(task.Result, &result); err != nil {
		t.Fatal(err)
	}
	if v := result.StructuredContent; result.IsError || v.Articles != 60 || v.Begun != 2 {
		t.Errorf("it has come to %s", task.Result)
	}
	if again, err := g.rpc(ctx, "tasks/get", id, map[string]any{"taskId": id}); err != nil || string(again.Result) != string(task.Result) {
		t.Errorf("it has another result now: %v, %s", err, again.Result)
	}
}

// A client that knows no tasks waits for the valuation, and has it.
func TestValuationWithoutTasks(t *testing.T) {
	t.Parallel()
	g := gatewayWith(t, "")
	var v erp.Valuation
	if err := g.Call(t.Context(), "rebuild_stock_valuation", "", map[string]any{"period": "2026-09"}, &v); err != nil || v.Articles != 60 {
		t.Errorf("%v: %+v", err, v)
	}
}

// behind puts erp-post behind the gateway, hidden. It is not so in the example, where
// the gateway does not know of it; here is shown that hidden is as good.
const behind = `    erp-post:
      url: http://ADDRESS/mcp
      auth: {bearer: KEY}
      default: {hide: true}
`

// No revision, alias, escape, duplicate key or header reaches a tool that is hidden,
// and it is answered for as one that there is not.
func TestNoWayToPosting(t *testing.T) {
	t.Parallel()
	g := gatewayWith(t, behind)
	system, err := erp.Open(t.Context(), g.file("erp.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer system.Close()
	if _, err := system.DraftOrder(t.Context(), "k", draft); err != nil {
		t.Fatal(err)
	}
	shown := func() { // the same forms reach a tool that is shown
		for _, a := range attempts("get_price", `{"sku":"BRG-0042"}`)[:2] {
			if status, text, err := g.post(t.Context(), "", a.body, a.header); err != nil || !strings.Contains(text, "122500") {
				t.Errorf("%s: get_price is answered with %d: %s (%v)", a.name, status, text, err)
			}
		}
	}
	shown()
	paths := []string{"", "/", "/erp-post", "/erp-post/", "/ERP-POST", "/erp%2Dpost", "/erp-read/../erp-post", "/erp-read/%2e%2e/erp-post", "//erp-post", "/s/erp-post", "/erp-read", "/erp-draft", "/agents"}
	names := []string{"post_order", "erp-post.post_order", "erp-post/post_order", "erp-post:post_order", "erp-post__post_order", "POST_ORDER", "post_order ", "post_order\\u0000", "post\\u005forder", "ｐost_order", "erp-read.post_order", "../erp-post.post_order"}
	n, answers := 0, map[int]int{}
	for _, path := range paths {
		for _, name := range names {
			for _, a := range attempts(name, `{"number":"PO-2026-0001","by":"an agent"}`) {
				n++
				status, text, err := g.post(t.Context(), path, a.body, a.header)
				if err != nil {
					t.Fatalf("%s %s %s: %v", path, name, a.name, err)
				}
				answers[status]++
				if strings.Contains(text, "postedBy") || strings.Contains(text, "binding") {
					t.Errorf("%s %s %s is answered with %d: %s", path, name, a.name, status, text)
				}
			}
		}
	}
	for _, revision := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		n += inSession(t, g, revision, names)
	}
	shown()
	t.Logf("%d attempts, by status: %v", n, answers)
	if o, err := system.Order(t.Context(), draft.Number); err != nil || o.Status != "draft" {
		t.Errorf("the order is %s, by %s: %v", o.Status, o.PostedBy, err)
	}
	hidden, none := attempts("post_order", "{}"), attempts("past_order", "{}")
	for i := range hidden {
		_, want, _ := g.post(t.Context(), "", none[i].body, none[i].header)
		_, got, _ := g.post(t.Context(), "", hidden[i].body, hidden[i].header)
		if got = strings.ReplaceAll(got, "post_order", "past_order"); got != want {
			t.Errorf("%s: a hidden tool is told from none (-none +hidden):\n%s", hidden[i].name, cmp.Diff(want, got))
		}
	}
}

// inSession calls by names in a session of an old revision, and returns how many
// calls these were.
func inSession(t *testing.T, g *counter, revision string, names []string) int {
	t.Helper()
	session, err := g.ConnectWith(t.Context(), revision)
	if err != nil {
		t.Errorf("revision %s: %v", revision, err)
		return 0
	}
	defer session.Close()
	if v := session.InitializeResult().ProtocolVersion; v != revision {
		t.Errorf("revision %s: it has become %s", revision, v)
	}
	if result, text := call(t, session, "get_price", "", map[string]any{"sku": "BRG-0042"}); result.IsError || !strings.Contains(text, "122500") {
		t.Errorf("revision %s: get_price says %s", revision, text)
	}
	for _, name := range names {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"number": draft.Number, "by": "an agent"}})
		if err == nil {
			t.Errorf("revision %s: %s is answered with %+v", revision, name, result)
		}
	}
	return len(names)
}

type attempt struct {
	name   string
	body   []byte
	header http.Header
}

// attempts are requests that call a tool, the first two as they should be.
func attempts(name, arguments string) []attempt {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{},"handoff.example/idempotencyKey":"k"}`
	plain := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":%s,%s}}`, name, arguments, meta)
	legacy := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":%s}}`, name, arguments)
	var real string
	if json.Unmarshal([]byte(`"`+name+`"`), &real) != nil {
		real = name
	}
	real = strings.ReplaceAll(strings.TrimSpace(real), "\x00", "")
	modern := func(name string) http.Header {
		return http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {name}}
	}
	escaped := "=?base64?" + base64.StdEncoding.EncodeToString([]byte(real)) + "?="
	with := func(h http.Header, key string, values ...string) http.Header {
		h[key] = values
		return h
	}
	all := []attempt{
		{"modern", []byte(plain), modern(real)},
		{"escaped header", []byte(plain), modern(escaped)},
		{"another name in the header", []byte(plain), modern("get_price")},
		{"two names in the header", []byte(plain), with(modern(""), "Mcp-Name", "get_price", real)},
		{"another method in the header", []byte(plain), with(modern(real), "Mcp-Method", "tools/list")},
		{"no name in the header", []byte(plain), with(modern(""), "Mcp-Name")},
		{"two names", []byte(strings.Replace(plain, `"name":`, `"name":"get_price","name":`, 1)), modern("get_price")},
		{"two names, the other way round", []byte(strings.Replace(plain, `"arguments":`, `"name":"get_price","arguments":`, 1)), modern("get_price")},
		{"two names, one escaped", []byte(strings.Replace(plain, `"arguments":`, `"n\u0061me":"get_price","arguments":`, 1)), modern("get_price")},
		{"two params", []byte(strings.Replace(plain, `"params":`, `"params":{"name":"get_price","arguments":{}},"params":`, 1)), modern("get_price")},
		{"the method escaped", []byte(strings.Replace(plain, `tools/call`, `tools\/call`, 1)), modern(real)},
		{"a batch", []byte("[" + plain + "]"), modern(real)},
		{"two messages", []byte(strings.Replace(plain, real, "get_price", 1) + "\n" + plain), modern("get_price")},
		{"another key of the name", []byte(strings.Replace(plain, `"name":`, `"name":"get_price","Name":`, 1)), modern("get_price")},
		{"by way of call_tool", []byte(strings.Replace(strings.Replace(plain, real, "call_tool", 1), arguments, `{"name":"`+name+`","arguments":`+arguments+`}`, 1)), modern("call_tool")},
		{"as a prompt", []byte(strings.Replace(plain, "tools/call", "prompts/get", 1)), with(modern(real), "Mcp-Method", "prompts/get")},
	}
	for _, revision := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "9999-01-01", ""} {
		all = append(all, attempt{"revision " + revision, []byte(legacy), http.Header{"Mcp-Protocol-Version": {revision}}})
	}
	return append(all, attempt{"no revision", []byte(legacy), http.Header{}})
}

// In the example itself neither the gateway nor the buyer is told where erp-post is,
// or where finance's books are.
func TestNobodyIsToldOfPosting(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"gateway.yaml", "handoff.yaml"} {
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for line := range strings.Lines(string(text)) {
			if code, _, _ := strings.Cut(line, "#"); strings.Contains(code, "post") || strings.Contains(code, "books") || strings.Contains(code, "8086") || strings.Contains(code, "8087") {
				said = append(said, line)
			}
		}
		if said != nil {
			t.Errorf("%s says %q", file, said)
		}
	}
	c := founded(t)
	for _, name := range []string{gateway, buyer} {
		for _, variable := range c.keys[name] {
			for _, secret := range []string{c.key(erpPost), c.key(books)} {
				if strings.Contains(variable, secret) {
					t.Errorf("%s has the key of another: %s", name, variable)
				}
			}
		}
	}
}
