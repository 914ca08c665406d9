package upstream_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/upstream"
)

// cluster is some nodes with one store, before one legacy server.
type cluster struct {
	t    *testing.T
	docs store.Docs
	url  string
	runs atomic.Int32  // of the tool interview
	told chan string   // what the tool was answered
	hang chan struct{} // what the tool waits for once it was answered; nil: nothing
	left chan struct{} // the tool was canceled
}

// newCluster has a server whose tool interview asks for three names.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := &cluster{t: t, docs: s, told: make(chan string, 10), left: make(chan struct{}, 1)}
	tools := legacyServer(mcp.Legacy)
	sdk.AddTool(tools, &sdk.Tool{Name: "interview"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		c.runs.Add(1)
		var names []string
		for range 3 {
			answer, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Your name?", RequestedSchema: nameSchema})
			if err != nil {
				return nil, nil, err
			}
			name, _ := answer.Content["name"].(string)
			names = append(names, name)
			c.told <- name
			if c.hang == nil {
				continue
			}
			select {
			case <-c.hang:
			case <-ctx.Done():
				c.left <- struct{}{}
			}
			return nil, nil, errors.New("stopped")
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(names, ", ")}}}, nil, nil
	})
	c.url = serve(t, legacyHandler(t, tools, nil)).URL
	return c
}

// block has the tool interview wait after its first answer, until it is released.
func (c *cluster) block() (release func()) {
	c.hang = make(chan struct{})
	release = sync.OnceFunc(func() { close(c.hang) })
	c.t.Cleanup(release)
	return release
}

// node is one more node. It goes when stop is called.
func (c *cluster) node(docs store.Docs) (s upstream.Server, stop func()) {
	c.t.Helper()
	if docs == nil {
		docs = c.docs
	}
	all := servers(c.t, config.NewMCPServer(c.url), upstream.Options{Docs: docs})
	return only(c.t, all), func() {
		if err := all.Close(context.Background()); err != nil {
			c.t.Error(err)
		}
	}
}

const form = `{"elicitation":{"form":{}}}`

// begin calls a tool and returns the state of the call that waits.
func (c *cluster) begin(s upstream.Server, tool string) string {
	c.t.Helper()
	got := must(c.t, s, asked(tool, "{}", "", "")).Response
	return stateOf(c.t, got)
}

func stateOf(t *testing.T, m *mcp.Message) string {
	t.Helper()
	if m.ResultType != mcp.ResultInputRequired {
		t.Fatalf("got %s", m.Body)
	}
	return m.ParamString("requestState")
}

// asked is a round of a call of somebody.
func asked(tool, args, state, answers string) *upstream.Request {
	params := `{"name":"` + tool + `","arguments":` + args
	if state != "" {
		params += `,"requestState":"` + state + `","inputResponses":` + answers
	}
	r := request(mcp.MethodCallTool, params+"}", form)
	r.Caller = &auth.Principal{Tenant: "acme", Issuer: "idp", Subject: "sari", Role: auth.RoleCaller}
	return r
}

func named(key, name string) string {
	return `{"` + key + `":{"action":"accept","content":{"name":"` + name + `"}}}`
}

// holder returns the document of the one node that holds calls; "" where there is
// none.
func (c *cluster) holder() string {
	c.t.Helper()
	list, err := c.docs.Docs(c.t.Context(), store.ForAll(), "mcp.holder", "", "", 10)
	if err != nil || len(list) > 1 {
		c.t.Fatalf("got %v, %v", list, err)
	}
	for _, d := range list {
		return d.Key
	}
	return ""
}

// bury lets the time of the node be over that holds calls, as if it had died.
func (c *cluster) bury() {
	c.t.Helper()
	if err := c.docs.DeleteDoc(c.t.Context(), store.ForAll(), "mcp.holder", c.holder()); err != nil {
		c.t.Fatal(err)
	}
}

// empty waits until nothing is left of held calls in the store.
func (c *cluster) empty() {
	c.t.Helper()
	for _, space := range []string{"mcp.holder", "mcp.round"} {
		for {
			list, err := c.docs.Docs(c.t.Context(), store.ForAll(), space, "", "", 10)
			if err != nil {
				c.t.Fatal(err)
			}
			if len(list) == 0 {
				break
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-c.t.Context().Done():
				c.t.Fatalf("%s: %d are left", space, len(list))
			}
		}
	}
}

type documents = store.Docs

// fault is a store that a node can lose.
type fault struct {
	documents
	down atomic.Bool
	puts chan string // spaces, of what was written; nil: nobody looks
}

var errDown = errors.New("the store is not there")

func (f *fault) Doc(ctx context.Context, scope store.Scope, space, key string) (*store.Doc, error) {
	if f.down.Load() {
		return nil, errDown
	}
	return f.documents.Doc(ctx, scope, space, key)
}

func (f *fault) PutDoc(ctx context.Context, d *store.Doc) error {
	if f.down.Load() {
		return errDown
	}
	err := f.documents.PutDoc(ctx, d)
	if f.puts != nil {
		f.puts <- d.Space
	}
	return err
}

func (f *fault) DeleteDoc(ctx context.Context, scope store.Scope, space, key string) error {
	if f.down.Load() {
		return errDown
	}
	return f.documents.DeleteDoc(ctx, scope, space, key)
}

// deaf is the store of a node that does not hear of rounds.
type deaf struct{ fault }

func (*deaf) Docs(context.Context, store.Scope, string, string, string, int) ([]store.Doc, error) {
	return nil, errDown
}

// MRT-09: each round of a call may come to another node, and nothing is left of it.
func TestRoundsAtAnyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var nodes []upstream.Server
	for range 3 {
		s, _ := c.node(nil)
		nodes = append(nodes, s)
	}
	m := must(t, nodes[0], asked("interview", "{}", "", "")).Response
	for i, n := range []int{1, 0, 2} {
		r := asked("interview", "{}", stateOf(t, m), named([]string{"input-1", "input-2", "input-3"}[i], string(rune('A'+i))))
		r.Message = r.Message.WithID(jsontext.Value(`"again"`))
		m = must(t, nodes[n], r).Response
		if string(m.ID) != `"again"` {
			t.Errorf("got %s", m.Body)
		}
	}
	if m.ResultType != mcp.ResultComplete || !strings.Contains(string(m.Body), `"A, B, C"`) || c.runs.Load() != 1 {
		t.Errorf("got %s after %d runs", m.Body, c.runs.Load())
	}
	c.empty()
}

// MRT-06 at another node: what is not answered is asked again, under the same state.
func TestPartOfARoundAtAnotherNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, _ := c.node(nil)
	b, _ := c.node(nil)
	state := c.begin(a, "ask_twice")
	m := must(t, b, asked("ask_twice", "{}", state, named("input-2", "A"))).Response
	if stateOf(t, m) != state || strings.Contains(string(m.Body), "input-2") {
		t.Errorf("got %s", m.Body)
	}
	m = must(t, b, asked("ask_twice", "{}", state, named("input-1", "A"))).Response
	if !strings.Contains(string(m.Body), `"AA"`) {
		t.Errorf("got %s", m.Body)
	}
}

// SEC-04, MRT-04: what is refused at the node that holds a call is refused at all,
// in the same words, and leaves the call as it is.
func TestRefusedAtAnyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, _ := c.node(nil)
	b, _ := c.node(nil)
	state := c.begin(a, "ask")
	answer := named("input-1", "Ben")
	stranger := asked("ask", "{}", state, answer)
	stranger.Caller = &auth.Principal{Tenant: "acme", Issuer: "idp", Subject: "ben", Role: auth.RoleCaller}
	impostor := asked("ask", "{}", state, answer)
	impostor.Caller = &auth.Principal{Tenant: "acme", Issuer: "other", Subject: "sari", Role: auth.RoleAdmin}
	nobody := asked("ask", "{}", state, answer)
	nobody.Caller = nil
	unknown, another := "is not known", "that of another call"
	for name, test := range map[string]struct {
		r    *upstream.Request
		want string
	}{
		"stranger":  {stranger, unknown},
		"impostor":  {impostor, unknown},
		"the node":  {nobody, unknown},
		"arguments": {asked("ask", `{"x":1}`, state, answer), another},
		"tool":      {asked("echo", "{}", state, answer), another},
		"guessed":   {asked("ask", "{}", state[:len(state)-1]+"!", answer), unknown},
		"no node":   {asked("ask", "{}", "held.x.y", answer), unknown},
		"no object": {asked("ask", "{}", state, `"yes"`), "not an object"},
	} {
		for node, s := range map[string]upstream.Server{"holder": a, "other": b} {
			e := must(t, s, test.r).Response.Error()
			if e == nil || e.Code != mcp.CodeInvalidParams || !strings.Contains(e.Message, test.want) {
				t.Errorf("%s at the %s: got %v", name, node, e)
			}
		}
	}
	if m := must(t, b, asked("ask", "{}", state, answer)).Response; !strings.Contains(string(m.Body), "Hello Ben") {
		t.Errorf("got %s", m.Body)
	}
	if e := must(t, b, asked("ask", "{}", state, answer)).Response.Error(); e == nil || e.Code != mcp.CodeInvalidParams { // once
		t.Errorf("got %v", e)
	}
}

// Of rounds that come to several nodes at once, one is made.
func TestRoundAtManyNodesAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, _ := c.node(nil)
	state := c.begin(a, "interview")
	var done sync.WaitGroup
	var went, refused atomic.Int32
	for range 4 {
		s, _ := c.node(nil)
		done.Go(func() {
			m, err := ask(t, s, asked("interview", "{}", state, named("input-1", "A")))
			switch {
			case err != nil:
				t.Error(err)
			case m.Response.ResultType == mcp.ResultInputRequired:
				went.Add(1)
			case m.Response.Error() != nil && m.Response.Error().Code == mcp.CodeInvalidParams:
				refused.Add(1)
			default:
				t.Errorf("got %s", m.Response.Body)
			}
		})
	}
	done.Wait()
	if went.Load() != 1 || refused.Load() != 3 || len(c.told) != 1 || c.runs.Load() != 1 {
		t.Errorf("%d went on, %d were refused, the tool was told %d answers in %d runs", went.Load(), refused.Load(), len(c.told), c.runs.Load())
	}
}

// CAN-01: a client that leaves another node has given the call up.
func TestLeaveAnotherNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.block()
	a, _ := c.node(nil)
	b, _ := c.node(nil)
	state := c.begin(a, "interview")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-c.told
		cancel()
	}()
	if _, err := askIn(ctx, b, asked("interview", "{}", state, named("input-1", "A"))); codeOf(err) != mcp.CodeOutcomeUnknown {
		t.Errorf("got %v", err)
	}
	<-c.left
	c.empty()
}

// A call that takes too long ends in its own time, wherever its client waits.
func TestSlowRoundAtAnotherNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.block()
	a, _ := c.node(nil)
	b, _ := c.node(nil)
	r := asked("interview", "{}", c.begin(a, "interview"), named("input-1", "A"))
	r.Timeout = 300 * time.Millisecond
	if _, err := ask(t, b, r); codeOf(err) != mcp.CodeTimeout || !errors.Is(err, upstream.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	<-c.left
}

// A node that is gone takes its calls with it. A round that it never got is refused.
func TestHolderDiesBeforeTheRound(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, stop := c.node(nil)
	b, _ := c.node(nil)
	refused := func(state string) {
		t.Helper()
		e := must(t, b, asked("interview", "{}", state, named("input-1", "A"))).Response.Error()
		if e == nil || e.Code != mcp.CodeInvalidParams || !strings.Contains(e.Message, "is not known") {
			t.Errorf("got %v", e)
		}
	}
	state := c.begin(a, "interview")
	stop()
	c.empty()
	refused(state)

	// It dies while the round waits for it.
	dying, _ := c.node(&deaf{fault{documents: c.docs}})
	state = c.begin(dying, "interview")
	sent := &fault{documents: c.docs, puts: make(chan string, 10)}
	b, _ = c.node(sent)
	go func() {
		<-sent.puts
		c.bury()
	}()
	refused(state)
	if len(c.told) != 0 {
		t.Error("the round was made")
	}
}

// Whether a round was made is not known where the node is lost that has begun with
// it, and it is not made again.
func TestHolderDiesInTheRound(t *testing.T) {
	t.Parallel()
	for name, die := range map[string]func(c *cluster, docs *fault, stop func()){
		"killed": func(c *cluster, docs *fault, _ func()) {
			docs.down.Store(true)
			c.bury()
		},
		"stopped": func(_ *cluster, _ *fault, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			release := c.block()
			docs := &fault{documents: c.docs}
			a, stop := c.node(docs)
			b, _ := c.node(nil)
			state := c.begin(a, "interview")
			done := make(chan struct{})
			go func() {
				defer close(done)
				<-c.told
				die(c, docs, stop)
			}()
			_, err := ask(t, b, asked("interview", "{}", state, named("input-1", "A")))
			if !errors.Is(err, upstream.ErrOutcomeUnknown) || codeOf(err) != mcp.CodeOutcomeUnknown {
				t.Errorf("got %v", err)
			}
			release()
			<-done
			docs.down.Store(false)
			if n := c.runs.Load(); n != 1 {
				t.Errorf("%d runs", n)
			}
		})
	}
}

// A call goes on at its own node when the store is not there, and says nothing of it
// to others where all is answered there.
func TestHeldCallWithoutStore(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	docs := &fault{documents: c.docs}
	docs.down.Store(true)
	a, _ := c.node(docs)
	state := c.begin(a, "ask")
	if m := must(t, a, asked("ask", "{}", state, named("input-1", "Ana"))).Response; !strings.Contains(string(m.Body), "Hello Ana") {
		t.Errorf("got %s", m.Body)
	}
	_, err := ask(t, a, asked("ask", "{}", strings.Replace(state, "held.", "held.x", 1), named("input-1", "Ana")))
	if !errors.Is(err, upstream.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// What is in the store of a round is there for its caller, and without what the
// caller has shown.
func TestDocumentOfARound(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, _ := c.node(&deaf{fault{documents: c.docs}})
	state := c.begin(a, "ask")
	sent := &fault{documents: c.docs, puts: make(chan string, 10)}
	b, _ := c.node(sent)
	r := asked("ask", "{}", state, named("input-1", "Ana"))
	r.Caller.Key, r.Caller.Scopes, r.Caller.Address = "key-1", []string{"tools"}, "192.0.2.1"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		defer cancel()
		<-sent.puts
		list, err := c.docs.Docs(ctx, store.ForOwner("acme", "sari"), "mcp.round", "", "", 10)
		if err != nil || len(list) != 1 {
			t.Errorf("got %v, %v", list, err)
			return
		}
		text := string(list[0].Body)
		for _, secret := range []string{"key-1", "tools\"", "192.0.2.1"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", secret, text)
			}
		}
		if left := time.Until(list[0].Expires); left > 5*time.Minute {
			t.Errorf("it is there for %s", left)
		}
	}()
	_, err := askIn(ctx, b, r)
	<-looked
	if codeOf(err) != mcp.CodeOutcomeUnknown {
		t.Errorf("got %v", err)
	}
	if list, err := c.docs.Docs(t.Context(), store.ForAll(), "mcp.round", "", "", 10); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
}
