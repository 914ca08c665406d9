package mcpgw_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw"
	"handoff.example/handoff/internal/mcpgw/policy"
)

func (f *fixture) rules(v mcpgw.View, name string) mcpgw.Rules {
	f.t.Helper()
	target, err := f.Find(f.t.Context(), v, mcp.MethodCallTool, name)
	if err != nil {
		f.t.Fatal(err)
	}
	return target.Rules
}

func TestTermsOfCalls(t *testing.T) {
	t.Parallel()
	s := newServer(
		"a", `{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, `{"name":"again","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}`,
		`{"name":"shaped","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`, `{"name":"old","inputSchema":{"type":"object","$schema":"http://json-schema.org/draft-04/schema#"}}`,
		`{"name":"away","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://example.com/x"}}}}`, `{"name":"slow","inputSchema":{"type":"object","required":["n"]}}`,
	)
	f := gateway(t, `
servers:
  a:
    url: http://127.0.0.1:1
    trusted: true
    default: {handle_after: 10s, timeout: 2m}
    tools:
      read: {}
      again: {idempotent: false}
      shaped: {}
      old: {}
      away: {}
      slow: {task: {after: 5s}, scopes: [erp], approve: Ask first}
`, s)
	v := mcpgw.View{Caller: as("x")}
	for name, want := range map[string]mcpgw.Terms{
		"read":   {Timeout: 2 * time.Minute, HandleAfter: 10 * time.Second, Idempotent: true},
		"again":  {Timeout: 2 * time.Minute, HandleAfter: 10 * time.Second},
		"shaped": {Timeout: 2 * time.Minute}, // TOL-07
	} {
		got, err := f.rules(v, name).Terms(t.Context(), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, name := range []string{"old", "away"} { // JSS-01, JSS-03
		_, err := f.rules(v, name).Terms(t.Context(), nil, "")
		if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != mcp.CodeBadAnswer {
			t.Errorf("%s: %v", name, err)
		}
	}
	slow := f.rules(v, "slow")
	if _, err := slow.Terms(t.Context(), jsontext.Value(`{}`), ""); err == nil {
		t.Error("arguments are not checked")
	} else if _, ok := errors.AsType[*mcpgw.Result](err); !ok {
		t.Errorf("what a model could mend is told it as %v (TOL-03)", err)
	}
	got, err := slow.Terms(t.Context(), jsontext.Value(`{"n":1}`), "k")
	if err != nil || !got.Kept() || !got.Recorded || got.Approve != "Ask first" || got.TaskAfter != 5*time.Second || got.Key != "k" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = slow.Admit(t.Context())
	scope, ok := errors.AsType[*mcpgw.ScopeError](err)
	if !ok || cmp.Diff([]string{"erp"}, scope.Scopes) != "" {
		t.Errorf("%v (AUT-10)", err)
	}
	release, err := f.rules(mcpgw.View{Caller: &auth.Principal{Subject: "x", Role: auth.RoleCaller, Scopes: []string{"erp"}}}, "slow").Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// A server that asks for a login before it lists its tools is called, as far as
// policy shows what is called by its name.
func TestToolsOfAServerThatListsNothingYet(t *testing.T) {
	t.Parallel()
	s := newServer("a")
	s.fail(errors.New("log in first"))
	other := newServer("b", tool("one"))
	f := gateway(t, "servers: {a: {url: 'http://127.0.0.1:1', tools: {get: {}, post: {hide: true}, old: {name: new}}}}", s, other)
	for _, test := range []struct {
		endpoint mcpgw.Endpoint
		name     string
		want     string
	}{
		{mcpgw.Endpoint{Server: "a"}, "get", "a get"},
		{mcpgw.Endpoint{Server: "a"}, "new", "a old"},
		{mcpgw.Endpoint{}, "a.get", "a get"},
		{mcpgw.Endpoint{}, "one", "b one"},
		{mcpgw.Endpoint{}, "get", ""},
		{mcpgw.Endpoint{Server: "a"}, "old", ""},
		{mcpgw.Endpoint{Server: "a"}, "post", ""},
		{mcpgw.Endpoint{Server: "a"}, "late", ""},
		{mcpgw.Endpoint{Server: "a"}, "get\x00", ""},
		{mcpgw.Endpoint{Server: "b"}, "a.get", ""},
	} {
		target, err := f.Find(t.Context(), mcpgw.View{Endpoint: test.endpoint, Caller: as("x")}, mcp.MethodCallTool, test.name)
		got := ""
		if err == nil {
			got = target.Server.Name() + " " + target.Name
		}
		if got != test.want {
			t.Errorf("%v %q leads to %q (%v)", test.endpoint, test.name, got, err)
		}
	}
}

// What the endpoint can do is what its servers can, as far as it is shown (DSC-05).
func TestDiscover(t *testing.T) {
	t.Parallel()
	a, b := newServer("a"), newServer("b")
	a.lists[mcp.MethodDiscover] = []string{`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"completions":{},"logging":{}},"instructions":"Hi\u001b","ttlMs":5000,"cacheScope":"public"}`}
	b.lists[mcp.MethodDiscover] = []string{`{"capabilities":{"prompts":{},"resources":{"subscribe":true}},"ttlMs":9000}`}
	down := newServer("down")
	down.fail(errors.New("down"))
	type answer struct {
		Versions     []string       `json:"supportedVersions"`
		Capabilities map[string]any `json:"capabilities"`
		Instructions string         `json:"instructions"`
		TTL          int            `json:"ttlMs"`
		Scope        string         `json:"cacheScope"`
	}
	listChanged := map[string]any{"listChanged": true}
	tasks := map[string]any{mcp.ExtensionTasks: map[string]any{}}
	versions := []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}
	for name, test := range map[string]struct {
		yaml     string
		endpoint mcpgw.Endpoint
		want     answer
	}{
		"one": {"", mcpgw.Endpoint{Server: "a"}, answer{versions, map[string]any{"tools": listChanged, "completions": map[string]any{}, "extensions": tasks}, "Hi", 5000, "public"}},
		"all": {"servers: {b: {url: 'http://127.0.0.1:1', prompts: []}}", mcpgw.Endpoint{}, answer{versions, map[string]any{
			"tools": listChanged, "completions": map[string]any{}, "extensions": tasks, "resources": map[string]any{"listChanged": true, "subscribe": true},
		}, "", 5000, "public"}},
		"a set": {"sets: {s1: {tools: [\"a*.*\"], instructions: Use it}}", mcpgw.Endpoint{Set: "s1"}, answer{versions, map[string]any{"tools": listChanged, "extensions": tasks}, "Use it", 5000, "private"}},
		"down":  {"", mcpgw.Endpoint{Server: "down"}, answer{versions, map[string]any{"tools": listChanged, "prompts": listChanged, "resources": listChanged, "extensions": tasks}, "", 5000, "public"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			opts := mcpgw.DirectoryOptions{Now: func() time.Time { return now }}
			servers := []*server{a, b}
			if name == "down" {
				servers = append(servers, down)
			}
			f := gatewayWith(t, opts, test.yaml, servers...)
			result, err := f.Discover(t.Context(), mcpgw.View{Endpoint: test.endpoint, Caller: &auth.Principal{Role: auth.RoleCaller}})
			if err != nil {
				t.Fatal(err)
			}
			var got answer
			if err := json.Unmarshal(result, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What somebody may not read he does not hear of (SUB-09).
func TestWhoHearsOfChanges(t *testing.T) {
	t.Parallel()
	a := newServer("a", tool("one"))
	a.set(mcp.MethodListResources, "resources", `{"uri":"x:/shown","name":"s"}`, `{"uri":"x:/hidden","name":"h"}`)
	b := newServer("b", tool("two"))
	f := gateway(t, `
servers:
  a: {url: "http://127.0.0.1:1", resources: ["x:/shown"], prompts: []}
  b: {url: "http://127.0.0.1:1"}
sets:
  s1: {tools: [b.*]}
  s2: {tools: [a.*], callers: [boss]}
`, a, b)
	v := mcpgw.View{Caller: as("x")}
	set := mcpgw.View{Caller: as("x"), Endpoint: mcpgw.Endpoint{Set: "s1"}}
	f.names(v, mcp.MethodListResources, "resources", "uri")
	for _, test := range []struct {
		view                mcpgw.View
		server, method, uri string
		want                bool
	}{
		{v, "a", mcp.NotifyTools, "", true},
		{v, "a", mcp.NotifyPrompts, "", false},
		{v, "b", mcp.NotifyPrompts, "", true},
		{v, "c", mcp.NotifyTools, "", false},
		{v, "a", mcp.NotifyResource, "x:/shown", true},
		{v, "a", mcp.NotifyResource, "x:/hidden", false},
		{v, "b", mcp.NotifyResource, "x:/shown", false},
		{v, "a", "notifications/message", "", false},
		{set, "a", mcp.NotifyTools, "", false},
		{set, "b", mcp.NotifyTools, "", true},
		{set, "b", mcp.NotifyResources, "", false},
		{mcpgw.View{Caller: as("x"), Endpoint: mcpgw.Endpoint{Set: "s2"}}, "a", mcp.NotifyTools, "", false},
		{mcpgw.View{Caller: as("boss"), Endpoint: mcpgw.Endpoint{Set: "s2"}}, "a", mcp.NotifyTools, "", true},
		{mcpgw.View{Caller: as("x"), Endpoint: mcpgw.Endpoint{Server: "b"}}, "a", mcp.NotifyTools, "", false},
	} {
		if _, got := f.May(test.view, test.server, test.method, test.uri); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
	if f.Known(mcpgw.View{Caller: as("x"), Endpoint: mcpgw.Endpoint{Set: "s2"}}) || !f.Known(mcpgw.View{Caller: as("boss"), Endpoint: mcpgw.Endpoint{Set: "s2"}}) || f.Known(mcpgw.View{Caller: as("x"), Endpoint: mcpgw.Endpoint{Server: "agents"}}) {
		t.Error("endpoints are not known as they should be")
	}
}

// The tools for handles are called the same everywhere, and nobody else's.
func TestToolsForHandles(t *testing.T) {
	t.Parallel()
	agents := newServer(mcpgw.AgentsServer, tool("check_task"), tool("answer_task"), tool("cancel_task"), tool("ask_agent"), tool("desk.book"))
	a := newServer("a", tool("one"), tool("check_task"))
	for name, test := range map[string]struct {
		yaml     string
		endpoint mcpgw.Endpoint
		want     []string
	}{
		"nobody needs them":  {"", mcpgw.Endpoint{}, []string{"a.check_task", "one"}},
		"agents are exposed": {"agents: true\nnames: always", mcpgw.Endpoint{}, []string{"a.check_task", "a.one", "answer_task", "ask_agent", "cancel_task", "check_task", "desk.book"}},
		"of a server":        {"agents: true", mcpgw.Endpoint{Server: "a"}, []string{"check_task", "one"}},
		"of one with handles": {
			"servers: {a: {url: 'http://127.0.0.1:1', default: {handle_after: 1s}}}", mcpgw.Endpoint{Server: "a"}, []string{"answer_task", "cancel_task", "check_task", "one"},
		},
		"of a set that is searched": {
			"servers: {a: {url: 'http://127.0.0.1:1', default: {handle_after: 1s}}}\nsets: {s1: {tools: [a.one], mode: search}}",
			mcpgw.Endpoint{Set: "s1"},
			[]string{"answer_task", "call_tool", "cancel_task", "check_task", "find_tools"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := gateway(t, test.yaml, agents, a)
			v := mcpgw.View{Endpoint: test.endpoint, Caller: as("x")}
			if diff := cmp.Diff(test.want, f.tools(v)); diff != "" {
				t.Error(diff)
			}
			for _, tool := range test.want {
				if tool == "check_task" && test.endpoint.Set+test.endpoint.Server != "" && name != "of a server" {
					if got := f.reaches(t, v, mcp.MethodCallTool, tool); got != "agents check_task" {
						t.Error(got)
					}
				}
			}
		})
	}
}

func TestExplainWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	f := gateway(t, "conflicts: fail\nservers: {a: {url: 'http://127.0.0.1:1', tools: {both: {}, gone: {}, hidden: {hide: true}, bad: {}}}}",
		newServer("a", tool("both"), tool("hidden"), tool("more"), `{"name":"bad"}`), newServer("b", tool("both"), tool("hidden")))
	for name, want := range map[string][]string{
		"both": {"a left out", "b left out"}, "gone": {"a not listed"}, "hidden": {"a hidden", "b allowed"}, "a.more": {"a hidden"}, "bad": {"a left out"}, "b.none": {"b not listed"}, "none": nil,
	} {
		list, err := f.Explain(t.Context(), policy.Question{Tool: name, Caller: as("x")})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range list {
			got = append(got, x.Server+" "+x.Outcome)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, err := f.Explain(t.Context(), policy.Question{Tool: "x", Set: "none", Caller: as("x")}); !errors.Is(err, policy.ErrNoEndpoint) {
		t.Error(err)
	}
}
