package llm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/backend/llm"
	"handoff.example/handoff/internal/bridge"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/job"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/store/storetest"
	"handoff.example/handoff/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(end)) }

// atEnd is called when all tests are over.
var atEnd []func() error

func end(code int) {
	for _, f := range atEnd {
		if err := f(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long a test waits for what has to happen.
const patience = 20 * time.Second

var alice = &auth.Principal{Subject: "alice", Issuer: "test", Role: auth.RoleCaller}

// opener opens a store of a test once more.
type opener func(t *testing.T) store.Store

// stores are those that a test runs on, by name.
var stores = map[string]func(*testing.T) opener{"sqlite": sqliteStore}

func eachStore(t *testing.T, f func(t *testing.T, open func(*testing.T) opener)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, open)
		})
	}
}

func sqliteStore(t *testing.T) opener {
	path := filepath.Join(t.TempDir(), "tasks.db")
	return func(t *testing.T) store.Store {
		st, err := sqlite.Open(context.Background(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
}

// node is one process.
type node struct {
	store  store.Store
	dying  *storetest.Dying
	engine *engine.Engine
	jobs   *job.Runner
	calls  *bridge.Calls
	lookup func(id string) *engine.Spec
}

// bench is a node with an agent that is a model, the tool server behind it, and
// another agent that work is handed to. The tool server does not die with the node.
type bench struct {
	*node
	t     *testing.T
	open  opener
	conf  *config.LLM
	model *modelServer
	tools *tools
	log   *lockedBuilder
	seen  observer
	// limits of the agent
	limits engine.Limits
}

// lockedBuilder gathers logs.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const secretKey = "sk-very-secret-key"

// configured returns a configuration of a model with every default.
func configured(t testing.TB, url, more string) *config.LLM {
	t.Helper()
	text := "mcp: {servers: {erp: {url: http://127.0.0.1:1/mcp}}}\nagents:\n  a:\n    name: A\n    description: A.\n    version: \"1\"\n" +
		"    skills: [{id: s, name: S, description: S., tags: [t]}]\n    run:\n      llm:\n        base_url: " + url + "/v1\n        key: " + secretKey +
		"\n        model: m-1\n        instructions: You buy.\n        price: {input: 2, cached_input: 1, output: 10}\n"
	if !strings.Contains(more, "tools:") {
		more = "tools: [erp/*]\npeers: [helper]\n" + more
	}
	for line := range strings.Lines(more) {
		text += "        " + line
	}
	c, err := config.Parse([]byte(text+"\n"), "")
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return c.Agents["a"].Run.LLM
}

func newBench(t *testing.T, open opener, more string, script func(*modelRequest) reply) *bench {
	t.Helper()
	b := &bench{t: t, open: open, tools: newTools(), log: &lockedBuilder{}}
	b.model = newModel(t, script)
	b.conf = configured(t, b.model.URL, more)
	b.start()
	t.Cleanup(func() { b.close(b.node) })
	return b
}

func (b *bench) start() {
	b.t.Helper()
	st := b.open(b.t)
	var out io.Writer = b.log
	if os.Getenv("LLM_LOG") != "" {
		out = os.Stderr
	}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n := &node{store: st, dying: storetest.NewDying(st)}
	server := &toolServer{tools: b.tools, dead: n.dying.Dead()}
	transport := &http.Transport{}
	b.t.Cleanup(transport.CloseIdleConnections)
	model, err := llm.New(llm.Options{
		Agent: "a", Config: b.conf, Client: &http.Client{Transport: dyingTransport{transport, n.dying.Dead()}}, Logger: log,
		Observer: &b.seen, Calls: func() *bridge.Calls { return n.calls }, Gate: func(string) bridge.Gate { return gate{b.tools} },
		Other: func(name string) *llm.Other {
			return &llm.Other{Name: name, Description: "Helps.", Skills: []a2a.AgentSkill{{ID: "quote", Name: "Quote", Description: "Makes a quote."}}}
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	specs := map[string]*engine.Spec{
		"a":      {ID: "a", Run: model, FirstStepWait: 20 * time.Millisecond, OnInterrupt: engine.InterruptResume, History: 100, Claims: time.Hour, Answers: engine.AnswersTask, Recall: bridge.JobRecall, Limits: b.limits},
		"helper": {ID: "helper", Run: agent.Func(b.tools.help), FirstStepWait: 20 * time.Millisecond, OnInterrupt: engine.InterruptResume, History: 100, Claims: time.Hour},
	}
	n.lookup = func(id string) *engine.Spec {
		if server, ok := strings.CutPrefix(id, bridge.AgentPrefix); ok {
			return n.calls.Spec(server)
		}
		return specs[id]
	}
	n.engine = engine.New(engine.Config{
		Store: n.dying, Node: store.Node{Name: "test"}, Lease: 300 * time.Millisecond, Logger: log, Agents: n.lookup,
		JobsDue: func(at time.Time) { n.jobs.Due(at) },
	})
	n.calls = bridge.NewCalls(bridge.CallsOptions{
		Engine: n.engine, Store: n.dying, Scope: store.ForAll(), Agents: n.lookup, Logger: log,
		Poll:   func() time.Duration { return 20 * time.Millisecond },
		Server: func(name string) (upstream.Server, bool) { return server, name == "erp" },
	})
	handlers := map[string]job.Handler{bridge.JobRecall: n.calls.Recall}
	for _, kind := range engine.JobKinds() {
		handlers[kind] = n.engine.DoJob
	}
	n.jobs = job.NewRunner(n.dying, handlers, log)
	n.jobs.Claim(time.Second)
	if err := n.engine.Start(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	n.jobs.Start()
	b.node = n
}

// dyingTransport reaches nobody when its process is dead.
type dyingTransport struct {
	http.RoundTripper
	dead <-chan struct{}
}

func (d dyingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-d.dead:
		return nil, storetest.ErrDead
	default:
		return d.RoundTripper.RoundTrip(r)
	}
}

func (b *bench) close(n *node) {
	n.jobs.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no grace
	_ = n.engine.Stop(ctx)
	_ = n.store.Close()
}

// crash ends the process without warning and starts another.
func (b *bench) crash() {
	b.t.Helper()
	dead := b.node
	dead.dying.Kill()
	if err := dead.store.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.start()
	b.t.Cleanup(func() { b.close(dead) })
}

var messages atomic.Int64

func (b *bench) request(task string, parts ...a2a.Part) *engine.Request {
	return &engine.Request{
		Spec: b.lookup("a"), Scope: auth.Scope(alice), Caller: agent.Caller{Subject: "alice", Issuer: "test"}, Authenticated: true,
		Message: &a2a.Message{MessageID: fmt.Sprint("m-", messages.Add(1)), TaskID: task, Role: a2a.RoleUser, Parts: parts},
	}
}

// send sends a message, and returns the task when it is over or asks.
func (b *bench) send(task, text string) *a2a.Task {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	answer, err := b.engine.Send(ctx, b.request(task, a2a.Text(text)))
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.Task
}

func (b *bench) scope() store.Scope { return store.ForAll() }

// get returns a task as it is.
func (b *bench) get(id string) *a2a.Task {
	b.t.Helper()
	all := 100
	task, err := b.engine.Get(b.t.Context(), store.ForAll(), nil, id, &all)
	if err != nil {
		b.t.Fatal(err)
	}
	return task
}

// eventually waits until f says that it is so.
func (b *bench) eventually(what string, f func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) { // for what only the store can tell
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func said(t *a2a.Task) string {
	if t.Status.Message == nil {
		return ""
	}
	return t.Status.Message.Text()
}

// answerOf is the text of the artifact that has the answer.
func answerOf(t *a2a.Task) string {
	text := ""
	for i := range t.Artifacts {
		if t.Artifacts[i].ArtifactID == "answer" {
			for j := range t.Artifacts[i].Parts {
				text += t.Artifacts[i].Parts[j].Text
			}
		}
	}
	return text
}

// reports are what a task says of its calls, by the member of their metadata.
func reports(t *a2a.Task, name string) []map[string]any {
	var list []map[string]any
	read := func(m *a2a.Message) {
		if m == nil || m.Metadata == nil {
			return
		}
		var data map[string]map[string]any
		if json.Unmarshal(m.Metadata, &data) == nil && data[name] != nil {
			list = append(list, data[name])
		}
	}
	for i := range t.History {
		read(&t.History[i])
	}
	read(t.Status.Message)
	return list
}

// tools are what the tool server and the other agent have done, whichever process
// asked for it.
type tools struct {
	mu     sync.Mutex
	calls  map[string]int // by tool and arguments
	helped map[string]int // by task
	told   []string
	held   chan struct{}
	began  chan string
	server map[string]int // polls of tasks of the server
	hidden bool           // nobody may know the tools any more
}

func newTools() *tools {
	return &tools{calls: map[string]int{}, helped: map[string]int{}, held: make(chan struct{}), began: make(chan string, 10), server: map[string]int{}}
}

func (w *tools) count(tool string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for name, times := range w.calls {
		if name == tool || strings.HasPrefix(name, tool+" ") {
			n += times
		}
	}
	return n
}

// twice returns a call that was made more than once, "" when there is none.
func (w *tools) twice() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range w.calls {
		if n > 1 {
			return name
		}
	}
	if len(w.helped) > 1 {
		return "the delegation"
	}
	return ""
}

// help is the other agent.
func (w *tools) help(_ context.Context, t *agent.Turn) error {
	text := t.Text()
	w.mu.Lock()
	if t.Number == 1 && t.Attempt == 1 {
		w.helped[t.TaskID]++
	}
	w.mu.Unlock()
	switch {
	case strings.Contains(text, "fail"):
		return t.Fail("no capacity")
	case strings.Contains(text, "ask") && t.Number == 1:
		return t.Ask("Which Incoterm?", nil)
	}
	return t.Artifact(a2a.Text("quote for " + text))
}

// gate lets every call through but those of the tool that is denied.
type gate struct{ tools *tools }

func (g gate) Tools(context.Context, *auth.Principal) ([]jsontext.Value, error) {
	var list []jsontext.Value
	g.tools.mu.Lock()
	defer g.tools.mu.Unlock()
	if g.tools.hidden {
		return nil, nil
	}
	for _, name := range []string{"stock", "order.make", "bad", "error", "ask", "task", "denied", "approve", "held", "large"} {
		list = append(list, jsontext.Value(`{"name":"`+name+`","description":"Does `+name+`","inputSchema":{"type":"object","properties":{"sku":{"type":"string"},"n":{"type":"integer"}}}}`))
	}
	return list, nil
}

func (gate) Admit(_ context.Context, p *auth.Principal, tool string, _ jsontext.Value, key string) (*bridge.Admitted, error) {
	if p.Subject != "alice" {
		return nil, fmt.Errorf("for %q", p.Subject)
	}
	if !strings.Contains(key, ":call-") {
		return nil, fmt.Errorf("the key is %q", key)
	}
	a := &bridge.Admitted{Server: "erp", Tool: tool}
	switch tool {
	case "denied":
		return nil, mcp.Errorf(mcp.CodeDenied, "This tool is not for you")
	case "approve":
		a.Approve = "it is dear"
	}
	return a, nil
}

// toolServer is the tool server as one process reaches it.
type toolServer struct {
	tools *tools
	dead  <-chan struct{}
}

func (s *toolServer) Name() string { return "erp" }

func (s *toolServer) Do(ctx context.Context, r *upstream.Request) (upstream.Answer, error) {
	select {
	case <-s.dead:
		return nil, storetest.ErrDead
	default:
	}
	if r.Caller == nil || r.Caller.Subject != "alice" {
		return nil, errors.New("for nobody")
	}
	return &toolAnswer{s: s, ctx: ctx, m: r.Message}, nil
}

type toolAnswer struct {
	s    *toolServer
	ctx  context.Context
	m    *mcp.Message
	over bool
}

func (a *toolAnswer) Close() error { return nil }

func (a *toolAnswer) Next() (*mcp.Message, error) {
	if a.over {
		return nil, io.EOF
	}
	a.over = true
	body := a.next()
	select {
	case <-a.s.dead: // the process is gone, and so is the connection
		return nil, fmt.Errorf("%w: %w", upstream.ErrOutcomeUnknown, storetest.ErrDead)
	case <-a.ctx.Done():
		return nil, a.ctx.Err()
	default:
	}
	m, err := mcp.Scan([]byte(body), mcp.Limits{})
	if err != nil {
		panic(err)
	}
	return m, nil
}

func (a *toolAnswer) result(result string) string {
	return string(mcp.AppendResult(nil, a.m.ID, jsontext.Value(result)))
}

func (a *toolAnswer) said(text string) string {
	return a.result(`{"resultType":"complete","content":[{"type":"text","text":` + quote(text) + `}]}`)
}

func (a *toolAnswer) next() string {
	w := a.s.tools
	name := a.m.NameValue()
	arguments := string(a.m.Text(a.m.Args))
	w.mu.Lock()
	if a.m.Method != mcp.MethodCallTool {
		defer w.mu.Unlock()
		if a.m.Method == mcp.MethodCancelTask {
			w.told = append(w.told, name)
			return a.result(`{"resultType":"complete"}`)
		}
		status, more := "working", ""
		if w.server[name]++; w.server[name] > 2 && !strings.Contains(name, "slow") {
			status, more = "completed", `,"result":{"resultType":"complete","content":[{"type":"text","text":"counted"}]}`
		}
		return a.result(`{"resultType":"complete","taskId":"` + name + `","status":"` + status + `","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":60` + more + `}`)
	}
	again := a.m.Param("inputResponses") != nil
	if !again {
		w.calls[strings.TrimSpace(name+" "+arguments)]++
	}
	w.mu.Unlock()
	switch name {
	case "bad":
		return a.result(`{"resultType":"complete","content":[{"type":"text","text":"credit too low"}],"isError":true}`)
	case "error":
		return string(mcp.AppendError(nil, a.m.ID, mcp.Errorf(-32050, "no such order")))
	case "ask":
		if again {
			return a.said("for " + string(a.m.Param("inputResponses")))
		}
		return a.result(`{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who signs?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}},"requestState":"s-1"}`)
	case "task":
		id := "theirs"
		if strings.Contains(arguments, "slow") {
			id = "slow"
		}
		return a.result(`{"resultType":"task","taskId":"` + id + `","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":60}`)
	case "held":
		w.began <- name
		select {
		case <-w.held:
		case <-a.ctx.Done():
		case <-a.s.dead:
		}
		return a.said("let go")
	case "large":
		return a.said(strings.Repeat("x", 100_000))
	}
	return a.said(name + " of " + arguments)
}
