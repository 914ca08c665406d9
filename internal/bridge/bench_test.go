package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
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

var (
	alice = &auth.Principal{Subject: "alice", Issuer: "test", Role: auth.RoleCaller}
	bob   = &auth.Principal{Subject: "bob", Issuer: "test", Role: auth.RoleCaller}
)

// node is one process.
type node struct {
	store  store.Store
	dying  *storetest.Dying
	engine *engine.Engine
	jobs   *job.Runner
	calls  *bridge.Calls
	server *bridge.Server
	tools  *toolServer
	lookup func(id string) *engine.Spec
}

// opener opens a store of a test once more.
type opener func(t *testing.T) store.Store

// sqliteStore is the opener of a store in a file.
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

// bench is a node that keeps calls, and the tool server behind it, which does not
// die with it.
type bench struct {
	*node
	t      *testing.T
	open   opener
	work   *work
	unsure atomic.Int64 // calls of the server whose answers are lost
	agents map[string]agent.Func
	inputs map[string]a2a.JSON
	limits engine.Limits // of the agents
}

func newBench(t *testing.T, open opener, change ...func(*bench)) *bench {
	t.Helper()
	b := &bench{t: t, open: open, work: newWork(), agents: map[string]agent.Func{}, inputs: map[string]a2a.JSON{}}
	for _, f := range change {
		f(b)
	}
	b.start()
	t.Cleanup(func() { b.close(b.node) })
	return b
}

func (b *bench) start() {
	b.t.Helper()
	st := b.open(b.t)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	if os.Getenv("BRIDGE_LOG") != "" {
		quiet = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	n := &node{store: st, dying: storetest.NewDying(st)}
	n.tools = &toolServer{work: b.work, dead: n.dying.Dead()}
	specs := map[string]*engine.Spec{}
	for id, f := range b.agents {
		specs[id] = &engine.Spec{ID: id, Run: f, FirstStepWait: 20 * time.Millisecond, OnInterrupt: engine.InterruptResume, History: 100, Claims: time.Hour, Recall: bridge.JobRecall, Limits: b.limits}
	}
	lookup := func(id string) *engine.Spec {
		if server, ok := strings.CutPrefix(id, bridge.AgentPrefix); ok {
			return n.calls.Spec(server)
		}
		return specs[id]
	}
	n.lookup = lookup
	n.engine = engine.New(engine.Config{
		Store: n.dying, Node: store.Node{Name: "test"}, Lease: 300 * time.Millisecond, Logger: quiet, Agents: lookup,
		JobsDue: func(at time.Time) { n.jobs.Due(at) },
	})
	n.calls = bridge.NewCalls(bridge.CallsOptions{
		Engine: n.engine, Store: n.dying, Scope: store.ForAll(), Agents: lookup, Logger: quiet,
		Poll: func() time.Duration { return 20 * time.Millisecond },
		Server: func(name string) (upstream.Server, bool) {
			if name == "unsure" {
				return &unsureServer{n.tools, &b.unsure}, true
			}
			return n.tools, name == "erp"
		},
	})
	n.server = bridge.NewServer(bridge.ServerOptions{
		Calls: n.calls, Logger: quiet, Progress: 50 * time.Millisecond,
		Wait: func() time.Duration { return time.Second },
		Agents: func(*auth.Principal) []*bridge.Exposed {
			var list []*bridge.Exposed
			for id := range b.agents {
				list = append(list, &bridge.Exposed{
					Name: id, Spec: specs[id], Title: id, Description: "The agent " + id, Inputs: b.inputs,
					Skills: []a2a.AgentSkill{{ID: "work", Name: "Work", Description: "Does the work"}},
				})
			}
			return list
		},
	})
	handlers := map[string]job.Handler{bridge.JobRecall: n.calls.Recall}
	for _, kind := range engine.JobKinds() {
		handlers[kind] = n.engine.DoJob
	}
	n.jobs = job.NewRunner(n.dying, handlers, quiet)
	n.jobs.Claim(time.Second)
	if err := n.engine.Start(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	n.jobs.Start()
	b.node = n
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

// eventually waits until f says that it is so.
func (b *bench) eventually(what string, f func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for !f() {
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond) // for what only the store can tell
	}
}

var requests atomic.Int64

const clientMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s,"progressToken":"p"}`

// Capabilities of clients.
const (
	knowsAll     = `{"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	knowsForms   = `{"elicitation":{"form":{}}}`
	knowsNothing = `{}`
)

// request is a modern request.
func request(t testing.TB, method, params, capabilities string) *mcp.Message {
	t.Helper()
	meta := fmt.Sprintf(clientMeta, capabilities)
	id := strconv.FormatInt(requests.Add(1), 10)
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"_meta":` + meta
	if inner := strings.TrimSuffix(strings.TrimPrefix(params, "{"), "}"); inner != "" {
		body += "," + inner
	}
	m, err := mcp.Scan([]byte(body+"}}"), mcp.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

// call is a kept call of the tool server.
func (b *bench) call(tool, arguments string, change ...func(*bridge.Call)) *bridge.Call {
	b.t.Helper()
	m := request(b.t, "tools/call", `{"name":"`+tool+`","arguments":`+arguments+`}`, knowsAll)
	c := &bridge.Call{
		Endpoint: "/mcp", Server: "erp", Tool: tool, Exposed: tool, Caller: alice,
		Request: &upstream.Request{Message: m, Caller: alice}, Capabilities: m.Capabilities(), TTL: time.Hour,
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func withKey(key string) func(*bridge.Call)  { return func(c *bridge.Call) { c.Key = key } }
func idempotent(c *bridge.Call)              { c.Idempotent = true }
func approved(why string) func(*bridge.Call) { return func(c *bridge.Call) { c.Approve = why } }

// await waits until a task is over or asks.
func (b *bench) await(handle string) *mcp.Task {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	t, err := b.calls.Await(ctx, alice, handle)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

func (b *bench) start1(c *bridge.Call) *mcp.Task {
	b.t.Helper()
	t, err := b.calls.Start(b.t.Context(), c)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

// work is what the tool server has done, whichever process asked for it.
type work struct {
	mu    sync.Mutex
	calls map[string]int // by tool
	keys  map[string]int // by idempotency key: what is told to do once is done once
	asked map[string]*serverTask
	n     int
	told  []string // cancels
	gate  chan struct{}
	began chan string
}

type serverTask struct {
	tool   string
	polls  int
	answer jsontext.Value
	over   string
}

func newWork() *work {
	return &work{calls: map[string]int{}, keys: map[string]int{}, asked: map[string]*serverTask{}, gate: make(chan struct{}), began: make(chan string, 100)}
}

func (w *work) count(tool string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[tool]
}

// toolServer is a tool server as one process reaches it.
type toolServer struct {
	work *work
	dead <-chan struct{}
}

func (s *toolServer) Name() string { return "erp" }

// unsureServer is one whose first two answers are lost.
type unsureServer struct {
	upstream.Server
	calls *atomic.Int64
}

func (s *unsureServer) Do(ctx context.Context, r *upstream.Request) (upstream.Answer, error) {
	if s.calls.Add(1) <= 2 {
		return nil, &upstream.Error{Kind: upstream.ErrOutcomeUnknown, Reply: mcp.Errorf(mcp.CodeOutcomeUnknown, "The answer was lost")}
	}
	return s.Server.Do(ctx, r)
}

// document keeps its spaces and the order of its keys.
const document = `{"zebra": 1,  "content":[{"type":"text","text":"é"}], "structuredContent":{"n":12345678901234567890,"b":1.10}, "resultType":"complete","x-own":[ ]}`

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
	step int
}

func (a *toolAnswer) Close() error { return nil }

func (a *toolAnswer) Next() (*mcp.Message, error) {
	if a.over {
		return nil, io.EOF
	}
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
	a.over = m.IsResponse()
	return m, nil
}

func (a *toolAnswer) result(result string) string {
	return string(mcp.AppendResult(nil, a.m.ID, jsontext.Value(result)))
}

func (a *toolAnswer) fail(code int, text string) string {
	return string(mcp.AppendError(nil, a.m.ID, mcp.Errorf(code, "%s", text)))
}

func (a *toolAnswer) next() string {
	w := a.s.work
	tool := a.m.NameValue()
	if a.m.Method != mcp.MethodCallTool {
		return a.task(tool)
	}
	w.mu.Lock()
	if key := a.m.MetaString(mcp.MetaKey); a.step == 0 && (key == "" || w.keys[key] == 0) {
		w.calls[tool]++
		w.keys[key]++
	}
	w.mu.Unlock()
	switch tool {
	case "plain":
		return a.result(document)
	case "bad":
		return a.result(`{"resultType":"complete","content":[{"type":"text","text":"credit too low"}],"isError":true}`)
	case "error":
		return a.fail(-32050, "no such order")
	case "held":
		if a.step++; a.step == 1 {
			return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1,"message":"half way"}}`
		}
		w.began <- tool
		select {
		case <-w.gate:
		case <-a.ctx.Done():
		case <-a.s.dead:
		}
		return a.result(document)
	case "ask":
		responses := a.m.Param("inputResponses")
		switch string(a.m.Param("requestState")) {
		case "":
			return a.result(`{"resultType":"input_required","inputRequests":{"who":` + elicit("Who?") + `,"when":` + elicit("When?") + `},"requestState":"s-1"}`)
		case `"s-1"`:
			if !strings.Contains(string(responses), `"who"`) || !strings.Contains(string(responses), `"when"`) {
				return a.fail(-32602, "answers are missing: "+string(responses))
			}
			return a.result(`{"resultType":"input_required","inputRequests":{"who":` + elicit("Who else?") + `},"requestState":"s-2"}`)
		case `"s-2"`:
			return a.result(`{"resultType":"complete","content":[],"structuredContent":` + string(responses) + `}`)
		}
		return a.fail(-32602, "a state of somebody else")
	case "task", "task-ask":
		w.mu.Lock()
		defer w.mu.Unlock()
		w.n++
		id := "theirs-" + strconv.Itoa(w.n)
		w.asked[id] = &serverTask{tool: tool}
		return a.result(`{"resultType":"task","taskId":"` + id + `","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":60}`)
	}
	return a.fail(-32602, "Unknown tool")
}

func elicit(message string) string {
	return `{"method":"elicitation/create","params":{"mode":"form","message":"` + message + `","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`
}

// task answers what is asked of a task of the server.
func (a *toolAnswer) task(id string) string {
	w := a.s.work
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.asked[id]
	if t == nil {
		return a.fail(-32602, "Task not found")
	}
	is := func(status, more string) string {
		return a.result(`{"resultType":"complete","taskId":"` + id + `","status":"` + status + `","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":60` + more + `}`)
	}
	switch a.m.Method {
	case mcp.MethodCancelTask:
		w.told = append(w.told, id)
		t.over = "cancelled"
		return a.result(`{"resultType":"complete"}`)
	case mcp.MethodUpdateTask:
		t.answer = append(jsontext.Value(nil), a.m.Param("inputResponses")...)
		return a.result(`{"resultType":"complete"}`)
	}
	t.polls++
	switch {
	case t.over != "":
		return is(t.over, "")
	case t.polls < 3:
		return is("working", `,"statusMessage":"step `+strconv.Itoa(t.polls)+`"`)
	case t.tool == "task-ask" && t.answer == nil:
		return is("input_required", `,"inputRequests":{"who":`+elicit("Who?")+`}`)
	}
	return is("completed", `,"result":`+document)
}
