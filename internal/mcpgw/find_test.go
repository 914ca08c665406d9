package mcpgw_test

import (
	"strconv"
	"testing"
	"testing/synctest"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw"
)

// ofServers returns a directory of so many servers, and a function that finds a tool.
func ofServers(t testing.TB, n int) (find func()) {
	var servers []*server
	for i := range n {
		servers = append(servers, newServer("s"+strconv.Itoa(i), tool("t"+strconv.Itoa(i))))
	}
	f := gateway(t, "", servers...)
	v := mcpgw.View{Caller: as("x")}
	return func() {
		if _, err := f.Find(t.Context(), v, mcp.MethodCallTool, "t0"); err != nil {
			t.Fatal(err)
		}
	}
}

// What every call begins with, to find which server a name is of, takes the same for
// many servers as for one.
func TestFindOfManyServers(t *testing.T) {
	find := ofServers(t, 300)
	find()
	if n := testing.AllocsPerRun(100, find); n > 2 {
		t.Errorf("%v allocations: it looks at every server", n)
	}
}

// A list that was for everybody and is for one caller from now on is so at once.
func TestListsBecomePrivate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer("a", tool("all"))
		f := gateway(t, "", s)
		alice, bob := mcpgw.View{Caller: as("alice")}, mcpgw.View{Caller: as("bob")}
		for _, v := range []mcpgw.View{alice, bob} {
			if got := f.reaches(t, v, mcp.MethodCallTool, "all"); got != "a all" {
				t.Errorf("reached %q", got)
			}
		}
		s.mu.Lock()
		s.lists[mcp.MethodListTools] = []string{page(60_000, "private")}
		s.own = map[string]map[string][]string{"alice": {mcp.MethodListTools: {page(60_000, "private", tool("hers"))}}}
		s.mu.Unlock()
		f.Changed("a", mcp.NotifyTools)
		f.tools(alice) // which fetches it
		for range 2 {
			if got := f.reaches(t, alice, mcp.MethodCallTool, "hers"); got != "a hers" {
				t.Errorf("alice reaches %q", got)
			}
			for _, name := range []string{"hers", "all"} {
				if got := f.reaches(t, bob, mcp.MethodCallTool, name); got != "" {
					t.Errorf("bob reaches %q", got)
				}
			}
		}
	})
}

// The lists of a server that is asked for each caller are for that caller, whatever the
// server says of them (CCH-07, CCH-11).
func TestListsOfEachCaller(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"public", "private", ""} {
		s := newServer("a")
		s.own = map[string]map[string][]string{
			"alice": {mcp.MethodListTools: {page(60_000, scope, tool("hers"))}},
			"bob":   {mcp.MethodListTools: {page(60_000, scope, tool("his"))}},
		}
		f := gateway(t, "servers:\n  a:\n    url: http://127.0.0.1:1\n    sharing: principal\n", s)
		for range 2 {
			for who, own := range map[string]string{"alice": "hers", "bob": "his"} {
				v := mcpgw.View{Caller: as(who)}
				for _, name := range []string{"hers", "his"} {
					want := ""
					if name == own {
						want = "a " + name
					}
					if got := f.reaches(t, v, mcp.MethodCallTool, name); got != want {
						t.Errorf("scope %q: %s reaches %q as %q", scope, who, name, got)
					}
				}
				if got := f.list(v, ""); got.Scope != "private" {
					t.Errorf("scope %q: %s is told the scope %q", scope, who, got.Scope)
				}
			}
		}
	}
}

// BenchmarkFind finds a tool among those of one server, and of 300.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1, 300} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			find := ofServers(b, n)
			b.ReportAllocs()
			for b.Loop() {
				find()
			}
		})
	}
}
