package bridge_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/upstream"
)

// said is what a server has answered to a request.
type said struct {
	progress []string
	*mcp.Message
}

// ask sends a request to the server whose tools are agents.
func (b *bench) ask(p *auth.Principal, m *mcp.Message) (said, error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	answer, err := b.server.Do(ctx, &upstream.Request{Message: m, Caller: p})
	if err != nil {
		return said{}, err
	}
	defer func() { _ = answer.Close() }()
	return b.heard(answer, nil)
}

// heard reads an answer to its end. Each progress is given to then, which may be nil.
func (b *bench) heard(answer upstream.Answer, then func(progress []string)) (said, error) {
	b.t.Helper()
	var all said
	last := 0.0
	for {
		next, err := answer.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if next.IsResponse() {
			all.Message = next
			continue
		}
		var n struct {
			Token    string  `json:"progressToken"`
			Progress float64 `json:"progress"`
			Message  string  `json:"message"`
		}
		if err := next.Decode(&n); err != nil || n.Token != "p" || n.Progress <= last {
			b.t.Errorf("CAN-04: %s, %v", next.Body, err)
		}
		last = n.Progress
		all.progress = append(all.progress, n.Message)
		if then != nil {
			then(all.progress)
		}
	}
}

// tool calls a tool.
func (b *bench) tool(name, arguments, capabilities string, more ...string) said {
	b.t.Helper()
	params := `{"name":"` + name + `","arguments":` + arguments
	for _, m := range more {
		params += "," + m
	}
	all, err := b.ask(alice, request(b.t, "tools/call", params+"}", capabilities))
	if err != nil {
		b.t.Fatalf("%s %s: %v", name, arguments, err)
	}
	return all
}

// texts are the texts of the content of a result.
func (s said) texts() string {
	var content []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(s.Param("content"), &content)
	var all []string
	for _, c := range content {
		all = append(all, c.Text)
	}
	return strings.Join(all, "|")
}

func (s said) failed() bool { return string(s.Param("isError")) == "true" }

// handle is the handle that a result has.
func (s said) handle() string {
	var h struct {
		ID string `json:"taskId"`
	}
	_ = json.Unmarshal(s.Param("structuredContent"), &h)
	return h.ID
}

func with(id string, f agent.Func) func(*bench) {
	return func(b *bench) { b.agents[id] = f }
}

// quote asks for an incoterm, and then quotes.
func quote(_ context.Context, t *agent.Turn) error {
	if t.Number == 1 {
		return t.Ask("Which incoterm?", a2a.JSON(`{"type":"object","properties":{"incoterm":{"type":"string","enum":["FOB","DDP"]},"notes":{"type":"object"}},"required":["incoterm"]}`))
	}
	for _, p := range t.Messages[0].Parts {
		if p.Kind == a2a.PartData {
			return t.Artifact(a2a.Text("A quote"), a2a.Data(a2a.JSON(`{"price": 4200, "for":`+string(p.Data)+`}`)))
		}
	}
	return t.Artifact(a2a.Text("A quote for " + t.Text()))
}

func TestToolsAreSkills(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), with("quote", quote), with("an agent\x07", quote))
	all, err := b.ask(alice, request(t, "tools/list", `{}`, knowsNothing))
	if err != nil {
		t.Fatal(err)
	}
	var tools []struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		InputSchema jsontext.Value `json:"inputSchema"`
	}
	if err := json.Unmarshal(all.Param("tools"), &tools); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
		if strings.Contains(tool.Description, "\x07") || !strings.Contains(string(tool.InputSchema), `"type":"object"`) {
			t.Errorf("%+v", tool)
		}
	}
	if diff := cmp.Diff([]string{"an_agent_.work", "quote.work", "ask_agent", "list_agents", "check_task", "answer_task", "cancel_task"}, names); diff != "" {
		t.Error(diff)
	}
	if got := all.ParamString("cacheScope"); got != "private" {
		t.Errorf("cacheScope %q", got)
	}
	for name, want := range map[string]string{"tools/nothing": "-32601", "resources/list": "-32601"} {
		if _, err := b.ask(alice, request(t, name, `{}`, knowsNothing)); err == nil || !strings.Contains(fmt.Sprint(codeOf(err)), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.ask(alice, request(t, "tools/call", `{"name":"nobody","arguments":{}}`, knowsNothing)); codeOf(err) != mcp.CodeInvalidParams {
		t.Errorf("TOL-03: an unknown tool: %v", err)
	}
	if got := b.tool("quote.work", `{"text":"x"}`, knowsNothing); !got.failed() {
		t.Errorf("TOL-05: arguments that do not fit: %s", got.Body)
	}
}

// MRT-01, MRT-02, ELI-01: a question of an agent is asked of the client, and its
// answer begins the next turn.
func TestQuestionOverRoundTrips(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), with("quote", quote))
	asked := b.tool("quote.work", `{"message":"400 bolts"}`, knowsForms)
	if asked.ResultType != mcp.ResultInputRequired {
		t.Fatalf("got %s", asked.Body)
	}
	var requests map[string]struct {
		Method string `json:"method"`
		Params struct {
			Message string         `json:"message"`
			Schema  jsontext.Value `json:"requestedSchema"`
		} `json:"params"`
	}
	if err := json.Unmarshal(asked.Param("inputRequests"), &requests); err != nil || len(requests) != 1 {
		t.Fatalf("%s: %v", asked.Body, err)
	}
	state := string(asked.Param("requestState"))
	for key, r := range requests {
		want := `{"type":"object","properties":{"incoterm":{"type":"string","enum":["FOB","DDP"]}},"required":["incoterm"]}`
		if r.Method != "elicitation/create" || r.Params.Message != "Which incoterm?" || string(r.Params.Schema) != want {
			t.Errorf("got %+v", r)
		}
		retry := func(p *auth.Principal, state, answer string) (said, error) {
			return b.ask(p, request(t, "tools/call", `{"name":"quote.work","arguments":{"message":"400 bolts"},"requestState":`+state+`,"inputResponses":{"`+key+`":`+answer+`}}`, knowsForms))
		}
		if _, err := retry(bob, state, `{"action":"accept","content":{"incoterm":"FOB"}}`); codeOf(err) != mcp.CodeInvalidParams {
			t.Errorf("S1: the state of somebody else: %v", err)
		}
		if _, err := retry(alice, `"made up"`, `{"action":"accept"}`); codeOf(err) != mcp.CodeInvalidParams {
			t.Errorf("MRT-03: a state that was made up: %v", err)
		}
		if _, err := retry(alice, state, `{"action":"accept","content":{"incoterm":"EXW"}}`); codeOf(err) != mcp.CodeInvalidParams {
			t.Errorf("MRT-06: an answer that does not fit: %v", err)
		}
		again, err := b.ask(alice, request(t, "tools/call", `{"name":"quote.work","arguments":{"message":"400 bolts"},"requestState":`+state+`}`, knowsForms))
		if err != nil || string(again.Param("inputRequests")) != string(asked.Param("inputRequests")) {
			t.Errorf("MRT-06: answers that are missing are asked for again: %s, %v", again.Body, err)
		}
		done, err := retry(alice, state, `{"action":"accept","content":{"incoterm":"DDP"}}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(done.Param("structuredContent")); got != `{"price": 4200, "for":{"incoterm":"DDP"}}` || !strings.HasPrefix(done.texts(), "A quote|") {
			t.Errorf("got %s", done.Body)
		}
	}
}

// TSK-02, TSK-04, TSK-07: a client that knows tasks gets one, which is the task of
// the agent.
func TestQuestionOverTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), with("quote", func(ctx context.Context, turn *agent.Turn) error {
		if turn.Number == 1 {
			<-time.After(400 * time.Millisecond)
		}
		return quote(ctx, turn)
	}))
	made := b.tool("quote.work", `{"message":"400 bolts"}`, knowsAll)
	if made.ResultType != mcp.ResultTask || made.Param("requestState") != nil {
		t.Fatalf("got %s", made.Body)
	}
	id := made.ParamString("taskId")
	asked := b.await(id)
	if asked.Status != mcp.TaskInputRequired {
		t.Fatalf("got %s", asked.AppendJSON(nil, ""))
	}
	var requests map[string]jsontext.Value
	if err := json.Unmarshal(asked.InputRequests, &requests); err != nil || len(requests) != 1 {
		t.Fatal(err)
	}
	for key := range requests {
		if err := b.calls.Update(t.Context(), alice, id, jsontext.Value(`{"`+key+`":{"action":"accept","content":{"incoterm":"FOB"}}}`)); err != nil {
			t.Fatal(err)
		}
	}
	b.eventually("it is over", func() bool { return b.await(id).Status == mcp.TaskCompleted })
	if got := b.await(id); !strings.Contains(string(got.Result), `{"price": 4200, "for":{"incoterm":"FOB"}}`) {
		t.Errorf("got %s", got.Result)
	}
	// The same row that operators see.
	if d, err := b.store.Delegation(t.Context(), store.ForAll(), id); err != nil || d.Agent != "quote" {
		t.Errorf("the ledger has %+v, %v", d, err)
	}
	if _, err := b.calls.Get(t.Context(), bob, id); codeOf(err) != mcp.CodeInvalidParams {
		t.Errorf("S1: %v", err)
	}
}

// Row 127: a client that knows neither tasks nor questions gets a handle, and goes
// on with tools. Nothing runs twice.
func TestRow127_Handles(t *testing.T) {
	t.Parallel()
	turns := make(chan int, 10)
	b := newBench(t, sqliteStore(t), with("quote", func(ctx context.Context, turn *agent.Turn) error {
		turns <- turn.Number
		return quote(ctx, turn)
	}))
	asked := b.tool("quote.work", `{"message":"400 bolts"}`, knowsNothing)
	id := asked.handle()
	if id == "" || !strings.Contains(asked.texts(), "Which incoterm?") || !strings.Contains(asked.texts(), "answer_task") || asked.failed() {
		t.Fatalf("got %s", asked.Body)
	}
	if got := b.tool("check_task", `{"taskId":"`+id+`"}`, knowsNothing); got.handle() != id || !strings.Contains(got.texts(), "DDP") {
		t.Errorf("got %s", got.Body)
	}
	if got := b.tool("answer_task", `{"taskId":"`+id+`","answer":{"incoterm":"EXW"}}`, knowsNothing); !got.failed() {
		t.Errorf("an answer that does not fit: %s", got.Body)
	}
	if got := b.tool("answer_task", `{"taskId":"`+id+`","answer":"{\"incoterm\":\"FOB\"}"}`, knowsNothing); !strings.Contains(string(got.Param("structuredContent")), `"incoterm":"FOB"`) {
		t.Errorf("got %s", got.Body)
	}
	if got := b.tool("check_task", `{"taskId":"`+id+`"}`, knowsNothing); !strings.HasPrefix(got.texts(), "A quote") {
		t.Errorf("got %s", got.Body)
	}
	if got := b.tool("answer_task", `{"taskId":"`+id+`","answer":"x"}`, knowsNothing); !got.failed() {
		t.Errorf("an answer to nothing: %s", got.Body)
	}
	if n := len(turns); n != 2 {
		t.Errorf("%d turns", n)
	}
	foreign, err := b.ask(bob, request(t, "tools/call", `{"name":"check_task","arguments":{"taskId":"`+id+`"}}`, knowsNothing))
	unknown := b.tool("check_task", `{"taskId":"nothing"}`, knowsNothing)
	if err != nil || foreign.texts() != unknown.texts() || !foreign.failed() {
		t.Errorf("S1: %s and %s, %v", foreign.texts(), unknown.texts(), err)
	}
}

// Row 125: progress comes while an agent works, and closing the call cancels it.
func TestRow125_ProgressAndCancel(t *testing.T) {
	t.Parallel()
	stopped, found := make(chan error, 1), make(chan struct{})
	b := newBench(t, sqliteStore(t), with("slow", func(ctx context.Context, turn *agent.Turn) error {
		if err := turn.Working("Looking"); err != nil {
			return err
		}
		if turn.Text() == "wait" {
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return ctx.Err()
		}
		select {
		case <-found:
			return turn.Complete("Found")
		case <-ctx.Done():
			return ctx.Err()
		}
	}))
	call := func(ctx context.Context, message string) upstream.Answer {
		t.Helper()
		answer, err := b.server.Do(ctx, &upstream.Request{Message: request(t, "tools/call", `{"name":"slow.work","arguments":{"message":"`+message+`"}}`, knowsNothing), Caller: alice})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer := call(ctx, "quick")
	var once sync.Once
	got, err := b.heard(answer, func(progress []string) {
		// A beat may come before the agent has said anything; two have to come after.
		if i := slices.Index(progress, "Looking"); i >= 0 && len(progress) > i+2 {
			once.Do(func() { close(found) })
		}
	})
	if err != nil || got.Message == nil || got.texts() != "Found" {
		t.Errorf("got %v, %v, progress %q", got.Message, err, got.progress)
	}
	if err := answer.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	answer = call(ctx, "wait")
	if _, err := answer.Next(); err != nil { // progress
		t.Fatal(err)
	}
	cancel() // the client has gone (CAN-01)
	if _, err := answer.Next(); err == nil {
		_, err = answer.Next()
		if err == nil {
			t.Error("an answer for nobody")
		}
	}
	if err := answer.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case cause := <-stopped:
		if cause != agent.ErrCanceled {
			t.Errorf("stopped by %v", cause)
		}
	case <-time.After(patience):
		t.Error("the agent still works")
	}
	// What takes longer than a call may is a handle.
	handed := b.tool("slow.work", `{"message":"wait"}`, knowsNothing)
	id := handed.handle()
	if id == "" || !strings.Contains(handed.texts(), "check_task") {
		t.Fatalf("got %s", handed.Body)
	}
	if got := b.tool("cancel_task", `{"taskId":"`+id+`"}`, knowsNothing); !strings.Contains(got.texts(), "canceled") {
		t.Errorf("got %s", got.Body)
	}
}

// Row 129: why an agent has failed is what the client is told. Row 140: so are the
// names of agents.
func TestRow129_FailuresAndNames(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t),
		with("bank", func(_ context.Context, turn *agent.Turn) error { return turn.Fail("credit too low") }),
		with("picky", func(_ context.Context, turn *agent.Turn) error { return turn.Reject("not for you") }),
		with("files", func(_ context.Context, turn *agent.Turn) error {
			return turn.Artifact(
				a2a.Raw([]byte("png"), "image/png", "a.png"), a2a.Raw([]byte("wav"), "audio/wav", "a.wav"), a2a.Raw([]byte("zip"), "application/zip", "a b.zip"),
				a2a.URL("https://example.com/a.pdf", "application/pdf", "a.pdf"), a2a.Data(a2a.JSON(`1`)), a2a.Data(a2a.JSON(`{"b": 2}`)),
			)
		}),
		with("words", func(_ context.Context, turn *agent.Turn) error {
			return turn.Message(a2a.Text("Hello, " + turn.Text()))
		}),
	)
	if got := b.tool("bank.work", `{"message":"pay"}`, knowsNothing); !got.failed() || got.texts() != "credit too low" {
		t.Errorf("got %s", got.Body)
	}
	if got := b.tool("picky.work", `{"message":"pay"}`, knowsNothing); !got.failed() || got.texts() != "not for you" {
		t.Errorf("got %s", got.Body)
	}
	if got := b.tool("words.work", `{"message":"Ann"}`, knowsNothing); got.failed() || got.texts() != "Hello, Ann" {
		t.Errorf("got %s", got.Body)
	}
	files := b.tool("files.work", `{"message":"all"}`, knowsNothing)
	want := `[{"type":"image","data":"cG5n","mimeType":"image/png"},{"type":"audio","data":"d2F2","mimeType":"audio/wav"},` +
		`{"type":"resource","resource":{"uri":"artifact:///a%20b.zip","mimeType":"application/zip","blob":"emlw"}},` +
		`{"type":"resource_link","uri":"https://example.com/a.pdf","name":"a.pdf","mimeType":"application/pdf"},{"type":"text","text":"1"},{"type":"text","text":"{\"b\": 2}"}]`
	if diff := cmp.Diff(want, string(files.Param("content"))); diff != "" {
		t.Error(diff)
	}
	if got := string(files.Param("structuredContent")); got != `[1,{"b": 2}]` {
		t.Errorf("got %s", got)
	}
	if got := b.tool("ask_agent", `{"agent":"words","message":"Bob","skill":"work"}`, knowsNothing); got.texts() != "Hello, Bob" {
		t.Errorf("got %s", got.Body)
	}
	if got := b.tool("ask_agent", `{"agent":"work","message":"Bob"}`, knowsNothing); !got.failed() || !strings.Contains(got.texts(), "bank, files, picky, words") {
		t.Errorf("row 140: %s", got.texts())
	}
	if got := b.tool("list_agents", `{}`, knowsNothing); !strings.Contains(string(got.Param("structuredContent")), `"tool":"bank.work"`) {
		t.Errorf("got %s", got.Body)
	}
}

// A skill that says which data it takes is a tool that takes just that.
func TestInputSchemaOfASkill(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), with("quote", func(_ context.Context, turn *agent.Turn) error {
		return turn.Artifact(turn.Messages[0].Parts...)
	}), func(b *bench) {
		b.inputs["work"] = a2a.JSON(`{"type":"object","properties":{"sku":{"type":"string"},"units":{"type":"integer","minimum":100}},"required":["sku"]}`)
	})
	if got := b.tool("quote.work", `{"sku":"A",  "units":100}`, knowsNothing); string(got.Param("structuredContent")) != `{"sku":"A",  "units":100}` {
		t.Errorf("got %s", got.Body)
	}
	if got := b.tool("quote.work", `{"sku":"A","units":1}`, knowsNothing); !got.failed() {
		t.Errorf("got %s", got.Body)
	}
}
