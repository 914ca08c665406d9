package mcpgw_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw"
)

// listed is what a list says beside its items.
type listed struct {
	ResultType string              `json:"resultType"`
	TTL        int64               `json:"ttlMs"`
	Scope      string              `json:"cacheScope"`
	Next       string              `json:"nextCursor"`
	Meta       map[string][]string `json:"_meta"`
}

func (f *fixture) list(v mcpgw.View, cursor string) listed {
	f.t.Helper()
	result, err := f.List(f.t.Context(), v, mcp.MethodListTools, cursor)
	if err != nil {
		f.t.Fatal(err)
	}
	var l listed
	if err := json.Unmarshal(result, &l); err != nil {
		f.t.Fatalf("%s: %v", result, err)
	}
	return l
}

func page(ttl int, scope string, tools ...string) string {
	return fmt.Sprintf(`{"resultType":"complete","tools":[%s],"ttlMs":%d,"cacheScope":%q}`, strings.Join(tools, ","), ttl, scope)
}

// The merged list is fresh for as long as the part that is not any more first
// (CCH-12), and is fetched again on the next use, not before (CCH-04).
func TestListsAreFreshAsLongAsTheirParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := newServer("a"), newServer("b")
		a.lists[mcp.MethodListTools] = []string{page(60_000, "public", tool("one"))}
		b.lists[mcp.MethodListTools] = []string{page(10_000, "public", tool("two"))}
		f := gateway(t, "", a, b)
		anybody := mcpgw.View{Caller: &auth.Principal{Role: auth.RoleCaller}}
		if got := f.list(anybody, ""); got.TTL != 10_000 || got.Scope != "public" || got.ResultType != "complete" {
			t.Errorf("%+v", got)
		}
		time.Sleep(4 * time.Second)
		if got := f.list(anybody, ""); got.TTL != 6_000 {
			t.Errorf("%+v", got)
		}
		if got := f.list(mcpgw.View{Caller: as("x")}, ""); got.Scope != "private" {
			t.Error("what is for callers with credentials may be served to anybody")
		}
		time.Sleep(7 * time.Second)
		f.list(anybody, "")
		if a.times(mcp.MethodListTools) != 1 || b.times(mcp.MethodListTools) != 2 {
			t.Errorf("fetched %d and %d times", a.times(mcp.MethodListTools), b.times(mcp.MethodListTools))
		}
		// A change makes what is fresh stale (CCH-08).
		a.set(mcp.MethodListTools, "tools", tool("three"))
		f.Changed("a", mcp.NotifyTools)
		if diff := cmp.Diff([]string{"three", "two"}, f.tools(anybody)); diff != "" {
			t.Error(diff)
		}
	})
}

// Stale parts are served when their server is down, and said to be (GWY-06).
func TestStalePartsAreServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := newServer("a", tool("one")), newServer("b", tool("two"))
		f := gateway(t, "", a, b)
		v := mcpgw.View{Caller: as("x")}
		f.list(v, "")
		b.fail(errors.New("down"))
		time.Sleep(2 * time.Minute)
		got := f.list(v, "")
		if diff := cmp.Diff([]string{"b"}, got.Meta[mcp.MetaStale]); diff != "" || got.TTL > 5_000 {
			t.Errorf("%+v", got)
		}
		if diff := cmp.Diff([]string{"one", "two"}, f.tools(v)); diff != "" {
			t.Error(diff)
		}
		if _, err := f.Find(t.Context(), v, mcp.MethodCallTool, "two"); err != nil {
			t.Error(err)
		}
		asked := b.times(mcp.MethodListTools)
		f.list(v, "")
		if b.times(mcp.MethodListTools) != asked {
			t.Error("a server that is down is asked by everybody")
		}
		b.fail(nil)
		b.set(mcp.MethodListTools, "tools", tool("back"))
		time.Sleep(6 * time.Second)
		if diff := cmp.Diff([]string{"back", "one"}, f.tools(v)); diff != "" {
			t.Error(diff)
		}
	})
}

// A list that was told one caller is for that one (CCH-07), whatever the first to
// ask was told.
func TestPrivateListsAreForTheirCaller(t *testing.T) {
	t.Parallel()
	s := newServer("a")
	s.lists[mcp.MethodListTools] = []string{page(60_000, "private")}
	s.own = map[string]map[string][]string{
		"alice": {mcp.MethodListTools: {page(60_000, "private", tool("hers"))}},
		"bob":   {mcp.MethodListTools: {page(60_000, "private", tool("his"))}},
	}
	f := gateway(t, "", s)
	for range 2 {
		for who, want := range map[string]string{"alice": "hers", "bob": "his"} {
			v := mcpgw.View{Caller: as(who)}
			if got := f.tools(v); len(got) != 1 || got[0] != want {
				t.Errorf("%s sees %v", who, got)
			}
			if got := f.list(v, ""); got.Scope != "private" {
				t.Error(got)
			}
			other := map[string]string{"hers": "his", "his": "hers"}[want]
			if got := f.reaches(t, v, mcp.MethodCallTool, other); got != "" {
				t.Errorf("%s reaches %s", who, got)
			}
		}
	}
}

// Many who ask at once are one request.
func TestOneRequestForMany(t *testing.T) {
	t.Parallel()
	s := newServer("a", tool("one"))
	f := gateway(t, "", s)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { f.tools(mcpgw.View{Caller: as("x")}) })
	}
	all.Wait()
	if n := s.times(mcp.MethodListTools); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// All pages of a server are fetched, and cut into pages anew, whose cursors are good
// for who got them only (PAG-03).
func TestPages(t *testing.T) {
	t.Parallel()
	s := newServer("a")
	var pages, want []string
	for n := range 3 {
		var tools []string
		for i := range 400 {
			name := fmt.Sprintf("tool-%04d", (n*400+i)*7919%1200)
			tools, want = append(tools, tool(name)), append(want, name)
		}
		next := ""
		if n < 2 {
			next = fmt.Sprintf(`,"nextCursor":"page-%d"`, n+1)
		}
		pages = append(pages, `{"tools":[`+strings.Join(tools, ",")+`],"ttlMs":60000`+next+`}`)
	}
	s.lists[mcp.MethodListTools] = pages
	f := gateway(t, "", s)
	v := mcpgw.View{Caller: as("x")}
	slices.Sort(want)
	if diff := cmp.Diff(want, f.tools(v)); diff != "" {
		t.Error(diff)
	}
	cursor := f.list(v, "").Next
	changed := "A" + cursor[1:]
	if cursor[0] == 'A' {
		changed = "B" + cursor[1:]
	}
	for name, try := range map[string]struct {
		view   mcpgw.View
		method string
		cursor string
	}{
		"another caller":   {mcpgw.View{Caller: as("y")}, mcp.MethodListTools, cursor},
		"another endpoint": {mcpgw.View{Caller: as("x"), Endpoint: mcpgw.Endpoint{Server: "a"}}, mcp.MethodListTools, cursor},
		"another list":     {v, mcp.MethodListPrompts, cursor},
		"a changed one":    {v, mcp.MethodListTools, changed},
		"nonsense":         {v, mcp.MethodListTools, "page-1"},
		"a long one":       {v, mcp.MethodListTools, strings.Repeat("A", 1<<20)},
	} {
		_, err := f.List(t.Context(), try.view, try.method, try.cursor)
		if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != mcp.CodeInvalidParams {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Definitions reach clients byte for byte (JSS-05), but for the name that they have
// here; what nobody may see is left out.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	odd := `{ "x-first" : 1.50, "name":"odd","inputSchema":{"type":"object","$defs":{"a":{"$anchor":"b"}},"properties":{"é":{"const":"\u00e9"}}},"_meta":{"k":[1,  2]} }`
	s := newServer(
		"a", odd, tool("twice"), tool("twice"), `{"name":"no_schema"}`, `{"name":"list","inputSchema":{"type":"array"}}`,
		`{"name":"bad\u001bname","inputSchema":{"type":"object"}}`, `{"name":"bidi\u202ename","inputSchema":{"type":"object"}}`, `{"name":"","inputSchema":{"type":"object"}}`,
		`{"name":"`+strings.Repeat("n", 129)+`","inputSchema":{"type":"object"}}`, `7`,
		`{"name":"poison","description":"Hi\u001b[2J there\u200e\n\ud83d\udc4d","inputSchema":{"type":"object","properties":{"a":{"description":"x\u0007y","pattern":"\u0007"}}}}`,
		`{"name":"good_header","inputSchema":{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string","x-mcp-header":"Region"}}}}}}`,
		`{"name":"number_header","inputSchema":{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"N"}}}}`,
		`{"name":"items_header","inputSchema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"N"}}}}}`,
		`{"name":"defs_header","inputSchema":{"type":"object","$defs":{"a":{"type":"string","x-mcp-header":"N"}}}}`,
		`{"name":"twice_header","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"N"},"b":{"type":"string","x-mcp-header":"n"}}}}`,
		`{"name":"space_header","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b"}}}}`,
		`{"name":"root_header","inputSchema":{"type":"object","x-mcp-header":"N"}}`,
		`{"name":"called_so","inputSchema":{"type":"object","properties":{"x-mcp-header":{"type":"array"}}}}`,
	)
	f := gateway(t, "", s)
	result, err := f.List(t.Context(), mcpgw.View{Caller: as("x")}, mcp.MethodListTools, "")
	if err != nil {
		t.Fatal(err)
	}
	var tools struct{ Tools []jsontext.Value }
	if err := json.Unmarshal(result, &tools, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	var names []string
	for _, text := range tools.Tools {
		var one struct{ Name string }
		if err := json.Unmarshal(text, &one, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		texts[one.Name] = string(text)
		names = append(names, one.Name)
	}
	if diff := cmp.Diff([]string{"called_so", "good_header", "odd", "poison", "twice"}, names); diff != "" {
		t.Error(diff)
	}
	if texts["odd"] != odd {
		t.Errorf("it has become %s", texts["odd"])
	}
	if want := `{"name":"poison","description":"Hi[2J there\n👍","inputSchema":{"type":"object","properties":{"a":{"description":"xy","pattern":"\u0007"}}}}`; texts["poison"] != want {
		t.Errorf("it has become %s", texts["poison"])
	}
	f.use("names: always")
	target, err := f.Find(t.Context(), mcpgw.View{Caller: as("x")}, mcp.MethodCallTool, "a.odd")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(odd, `"odd"`, `"a.odd"`, 1); string(target.Definition) != want {
		t.Errorf("it has become %s", target.Definition)
	}
	var left []string
	for _, report := range f.Reports() {
		for _, one := range report.LeftOut {
			left = append(left, one.Name+": "+one.Reason)
		}
	}
	if len(left) != 14 {
		t.Errorf("%d are left out: %s", len(left), strings.Join(left, "\n"))
	}
}
