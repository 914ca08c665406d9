package mcpgw_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		yaml string
		want []string
	}{
		"auto prefixes what two have (TOL-02)": {"", []string{"a.both", "b.both", "one", "two"}},
		"always":                               {"names: always", []string{"a.both", "a.one", "b.both", "b.two"}},
		"fail":                                 {"conflicts: fail", []string{"one", "two"}},
		"priority":                             {"conflicts: priority\nservers: {b: {url: 'http://127.0.0.1:1', priority: 1}}", []string{"both", "one", "two"}},
		"a list hides the rest":                {"servers: {b: {url: 'http://127.0.0.1:1', tools: [two]}}", []string{"both", "one", "two"}},
		"another name":                         {"servers: {b: {url: 'http://127.0.0.1:1', tools: {two: {name: second}}}}", []string{"both", "one", "second"}},
		"a reserved name":                      {"servers: {b: {url: 'http://127.0.0.1:1', tools: {}}}", []string{"both", "one"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := gateway(t, test.yaml, newServer("a", tool("one"), tool("both")), newServer("b", tool("two"), tool("both")))
			if diff := cmp.Diff(test.want, f.tools(mcpgw.View{Caller: as("x")})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFindReachesWhatIsListed(t *testing.T) {
	t.Parallel()
	f := gateway(t, "", newServer("a", tool("one"), tool("both")), newServer("b", tool("both")))
	v := mcpgw.View{Caller: as("x")}
	for _, name := range f.tools(v) {
		target, err := f.Find(t.Context(), v, mcp.MethodCallTool, name)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]string{"one": "a one", "a.both": "a both", "b.both": "b both"}[name]; target.Server.Name()+" "+target.Name != want {
			t.Errorf("%s is %s of %s", name, target.Name, target.Server.Name())
		}
	}
	if n := f.servers["a"].times(mcp.MethodListTools); n != 1 {
		t.Errorf("the list was fetched %d times", n)
	}
	_, err := f.Find(t.Context(), v, mcp.MethodCallTool, "both")
	if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != mcp.CodeInvalidParams || e.HTTPStatus() != 200 {
		t.Errorf("a name that is not listed is found: %v", err)
	}
}

func TestOneDeadServerEmptiesNoList(t *testing.T) {
	t.Parallel()
	a, b := newServer("a", tool("one")), newServer("b", tool("two"))
	b.fail(errors.New("it is down"))
	f := gateway(t, "", a, b)
	if diff := cmp.Diff([]string{"one"}, f.tools(mcpgw.View{Caller: as("x")})); diff != "" {
		t.Error(diff)
	}
}

// A server cannot take the name that a tool of another one would have, whether that
// one is shown or not, nor one that people cannot tell from another.
func TestNoServerPosesAsAnother(t *testing.T) {
	t.Parallel()
	a := newServer("a", tool("one"), tool("b.two"), tool("agents.x"), tool("a.one"), tool("c.d"), tool("t\u200bwo"), tool("tw\u200do"), tool("t\u00adwo"))
	f := gateway(t, "servers: {b: {url: 'http://127.0.0.1:1', tools: []}}", a, newServer("b", tool("two")))
	v := mcpgw.View{Caller: as("x")}
	want := []string{"a.agents.x", "a.b.two", "a.one", "c.d", "one"}
	if diff := cmp.Diff(want, f.tools(v)); diff != "" {
		t.Error(diff)
	}
	if _, err := f.Find(t.Context(), v, mcp.MethodCallTool, "b.two"); err == nil {
		t.Error("the name of another server's tool is found")
	}
	if target, err := f.Find(t.Context(), v, mcp.MethodCallTool, "a.b.two"); err != nil || target.Server.Name() != "a" || target.Name != "b.two" {
		t.Errorf("%+v, %v", target, err)
	}
}

// A server that is down makes doubtful only what it could show.
func TestAServerThatIsDownHidesNoUnknownName(t *testing.T) {
	t.Parallel()
	for yaml, codes := range map[string]map[string]int{
		"": {"nosuch": mcp.CodeUnavailable, "two": mcp.CodeUnavailable},
		"servers: {b: {url: 'http://127.0.0.1:1', tools: []}}":      {"nosuch": mcp.CodeInvalidParams, "two": mcp.CodeInvalidParams},
		"servers: {b: {url: 'http://127.0.0.1:1', tools: [two]}}":   {"nosuch": mcp.CodeInvalidParams, "two": mcp.CodeUnavailable},
		"servers: {b: {url: 'http://127.0.0.1:1', tools: ['t*']}}":  {"two": mcp.CodeUnavailable},
		"servers: {b: {url: 'http://127.0.0.1:1', prompts: [two]}}": {"two": mcp.CodeUnavailable},
	} {
		b := newServer("b", tool("two"))
		b.fail(errors.New("it is down"))
		f := gateway(t, yaml, newServer("a", tool("one")), b)
		for name, code := range codes {
			_, err := f.Find(t.Context(), mcpgw.View{Caller: as("x")}, mcp.MethodCallTool, name)
			if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != code {
				t.Errorf("%q: %s is %v, not %d", yaml, name, err, code)
			}
		}
	}
}
