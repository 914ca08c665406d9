package mcpgw_test

import (
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw"
)

// erp are the servers of the purchasing example: post_order is hidden in every way
// that there is, on erp-post as a whole and by name on erp-draft.
func erp() []*server {
	read := newServer("erp-read", tool("get_stock"), tool("get_price"))
	draft := newServer("erp-draft", tool("draft_order"), tool("post_order"), tool("late_tool"))
	post := newServer("erp-post", tool("post_order"), tool("post_receipt"))
	post.set(mcp.MethodListPrompts, "prompts", `{"name":"post_now"}`)
	post.set(mcp.MethodListResources, "resources", `{"uri":"erp://ledger/posted","name":"posted"}`)
	post.set(mcp.MethodListTemplates, "resourceTemplates", `{"uriTemplate":"erp://ledger/{id}","name":"entry"}`)
	return []*server{read, draft, post}
}

const erpPolicy = `
servers:
  erp-draft: {url: "http://127.0.0.1:1", tools: [draft_order]}
  erp-post: {url: "http://127.0.0.1:1", tools: [], prompts: [], resources: []}
rules:
  - {callers: [boss], policy: {hide: false}}
sets:
  all: {tools: ["*.*"], prompts: ["*.*"], resources: ["* *"]}
  some: {tools: ["*.*"], mode: search}
`

// endpoints are all from which a caller might try.
var endpoints = []mcpgw.Endpoint{{}, {Server: "erp-read"}, {Server: "erp-draft"}, {Server: "erp-post"}, {Set: "all"}, {Set: "some"}, {Set: "none"}, {Server: "nowhere"}}

// spellings are ways to write a name by which somebody might hope to pass.
func spellings(name string) []string {
	list := []string{
		name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], " " + name, name + " ", "\t" + name, name + "\x00", name + "\n", "\u200b" + name, name + "\u202e",
		mcp.EscapeHeader(name), "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?=", "=?BASE64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?=",
		url.PathEscape(name), strings.ReplaceAll(name, "_", "%5F"), strings.ReplaceAll(name, "_", "%255F"), strings.ReplaceAll(name, "o", "\\u006f"),
		strings.ReplaceAll(name, "o", "о"), strings.ReplaceAll(name, "s", "ſ"), strings.ReplaceAll(name, "_", "＿"), `"` + name + `"`, name + "/../" + name, "./" + name, "../erp-post/" + name,
	}
	for _, server := range []string{"erp-post", "erp-draft", "erp-read", "ERP-POST", "agents", "s", ""} {
		for _, separator := range []string{".", "/", ":", "__", "-", "_", " ", ".."} {
			list = append(list, server+separator+name)
		}
	}
	return list
}

// reaches reports the server and the tool that a name leads to; "": none. The error
// has to be that of a name that nobody has ever heard of (GWY-01).
func (f *fixture) reaches(t interface{ Errorf(string, ...any) }, v mcpgw.View, method, name string) string {
	target, err := f.Find(f.t.Context(), v, method, name)
	if err == nil {
		if target.Server == nil {
			return "local " + target.Name
		}
		return target.Server.Name() + " " + target.Name
	}
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Code != mcp.CodeInvalidParams || e.HTTPStatus() != 200 {
		t.Errorf("%q: %v", name, err)
		return ""
	}
	_, other := f.Find(f.t.Context(), v, method, "nobody_has_ever_heard_of_it")
	o, ok := errors.AsType[*mcp.Error](other)
	if !ok {
		t.Errorf("%v", other)
		return ""
	}
	// The text differs in the name that is repeated, and in nothing else.
	a, _, _ := strings.Cut(e.Message, ":")
	b, _, _ := strings.Cut(o.Message, ":")
	if a != b || e.Code != o.Code || e.Status != o.Status || e.RetryAfter != o.RetryAfter || (e.Data == nil) != (o.Data == nil) {
		t.Errorf("%q is told apart from an unknown name: %v, %v", name, e, o)
	}
	return ""
}

func TestNothingReachesAHiddenTool(t *testing.T) {
	t.Parallel()
	for _, names := range []string{"auto", "always", "never"} {
		for _, conflicts := range []string{"prefix", "priority", "fail"} {
			f := gateway(t, "names: "+names+"\nconflicts: "+conflicts+erpPolicy, erp()...)
			for _, who := range []string{"buyer", "boss", ""} {
				for _, e := range endpoints {
					v := mcpgw.View{Endpoint: e, Caller: as(who)}
					for _, name := range f.tools(v) {
						if strings.Contains(name, "post") || strings.Contains(name, "late") {
							t.Errorf("%v lists %s for %q", e, name, who)
						}
					}
					for _, hidden := range []string{"post_order", "post_receipt", "late_tool"} {
						for _, name := range spellings(hidden) {
							if got := f.reaches(t, v, mcp.MethodCallTool, name); got != "" {
								t.Errorf("%v: %q of %q leads to %s", e, name, who, got)
							}
						}
					}
					for _, name := range spellings("post_now") {
						if got := f.reaches(t, v, mcp.MethodGetPrompt, name); got != "" {
							t.Errorf("%v: the prompt %q leads to %s", e, name, got)
						}
					}
					for _, name := range []string{"erp://ledger/posted", "erp://ledger/1", "ERP://ledger/posted", "erp://ledger/%70osted", "erp://LEDGER/posted"} {
						if got := f.reaches(t, v, mcp.MethodReadResource, name); got != "" {
							t.Errorf("%v: the resource %q leads to %s", e, name, got)
						}
					}
				}
			}
		}
	}
}

// What call_tool is asked for goes the way of any other call.
func TestTheSearchToolIsNoWayAround(t *testing.T) {
	t.Parallel()
	f := gateway(t, erpPolicy, erp()...)
	v := mcpgw.View{Endpoint: mcpgw.Endpoint{Set: "some"}, Caller: as("buyer")}
	if diff := cmp.Diff([]string{"call_tool", "find_tools"}, f.tools(v)); diff != "" {
		t.Error(diff)
	}
	find, err := f.Find(t.Context(), v, mcp.MethodCallTool, "find_tools")
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string][]string{
		"draft an order": {"draft_order"}, "post": {}, "post_order erp-post": {"draft_order"}, "": {"draft_order", "get_price", "get_stock"}, "getStock": {"get_stock", "get_price"},
	} {
		params := jsontext.Value(`{"name":"find_tools","arguments":{"query":` + string(quoted(query)) + `}}`)
		answer, redirect, err := find.Local(t.Context(), params)
		if err != nil || redirect != nil {
			t.Fatal(err)
		}
		var result struct {
			Structured struct {
				Tools []struct{ Name string }
			} `json:"structuredContent"`
		}
		if err := json.Unmarshal(answer, &result, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, one := range result.Structured.Tools {
			got = append(got, one.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", query, diff)
		}
	}
	call, err := f.Find(t.Context(), v, mcp.MethodCallTool, "call_tool")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(spellings("post_order"), "call_tool", "find_tools") {
		_, redirect, err := call.Local(t.Context(), jsontext.Value(`{"name":"call_tool","arguments":{"name":`+string(quoted(name))+`,"arguments":{}}}`))
		if err != nil {
			continue // refused
		}
		if got := f.reaches(t, v, mcp.MethodCallTool, redirect.Name); got != "" {
			t.Errorf("%q leads to %s", name, got)
		}
	}
	_, redirect, err := call.Local(t.Context(), jsontext.Value(`{"arguments":{"name":"draft_order","arguments":{"total":1}}}`))
	if err != nil || redirect.Name != "draft_order" || string(redirect.Arguments) != `{"total":1}` {
		t.Errorf("%v, %v", redirect, err)
	}
}

func quoted(s string) []byte {
	out, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "?"))
	return out
}

// Whatever the policy, what is found is what is listed, and never what is hidden.
func TestWhatIsFoundIsListed(t *testing.T) {
	t.Parallel()
	tools := []string{"a", "b", "A", "erp-read.a", "check_task", "c.d"}
	rapid.Check(t, func(r *rapid.T) {
		var yaml strings.Builder
		yaml.WriteString("names: " + rapid.SampledFrom([]string{"auto", "always", "never"}).Draw(r, "names") + "\n")
		yaml.WriteString("conflicts: " + rapid.SampledFrom([]string{"prefix", "priority", "fail"}).Draw(r, "conflicts") + "\nservers:\n")
		shown := map[string]bool{} // by the policy as it is written here
		var list []*server
		for _, name := range []string{"erp-read", "x"} {
			var have []string
			for _, one := range tools {
				if rapid.Bool().Draw(r, "has") {
					have = append(have, tool(one))
				}
			}
			list = append(list, newServer(name, have...))
			yaml.WriteString("  " + name + ":\n    url: http://127.0.0.1:1\n    tools:\n      never: {}\n")
			for i, one := range tools {
				switch rapid.IntRange(0, 4).Draw(r, "policy") {
				case 0: // not listed
				case 1:
					yaml.WriteString("      " + one + ": {hide: true}\n")
				case 2:
					yaml.WriteString("      " + one + ": {callers: [other]}\n")
				case 3:
					yaml.WriteString("      " + one + ": {name: n" + string(rune('0'+i)) + "}\n")
					shown[name+" "+one] = true
				default:
					yaml.WriteString("      " + one + ": {}\n")
					shown[name+" "+one] = true
				}
			}
		}
		yaml.WriteString("sets: {s1: {tools: ['x.*']}}\n")
		f := gateway(t, yaml.String(), list...)
		for _, e := range []mcpgw.Endpoint{{}, {Server: "erp-read"}, {Server: "x"}, {Set: "s1"}} {
			v := mcpgw.View{Endpoint: e, Caller: as("me")}
			listed := f.tools(v)
			if !slices.IsSorted(listed) || len(slices.Compact(slices.Clone(listed))) != len(listed) {
				r.Errorf("%v: %v", e, listed)
			}
			tried := slices.Clone(listed)
			for _, one := range append(tools, "n0", "n1", "n2", "n3", "n4", "n5") {
				tried = append(tried, one, "x."+one, "erp-read."+one, strings.ToUpper(one))
			}
			for _, name := range tried {
				got := f.reaches(r, v, mcp.MethodCallTool, name)
				if (got != "") != slices.Contains(listed, name) {
					r.Errorf("%v: %q leads to %q, and the list is %v", e, name, got, listed)
				}
				if got != "" && !shown[got] {
					r.Errorf("%v: %q leads to %q, which is hidden\n%s", e, name, got, yaml.String())
				}
				if server, _, _ := strings.Cut(got, " "); got != "" && (e.Server != "" && e.Server != server || e.Set == "s1" && server != "x") {
					r.Errorf("%v: %q leads to %s", e, name, got)
				}
			}
		}
	})
}

// A URI that a template covers is looked at in each way in which a server might read
// it.
func TestURIsOfTemplates(t *testing.T) {
	t.Parallel()
	s := newServer("files")
	s.set(mcp.MethodListResources, "resources", `{"uri":"file:///pub/listed%20one","name":"l"}`, `{"uri":"file:///pub/secret","name":"s"}`)
	s.set(mcp.MethodListTemplates, "resourceTemplates", `{"uriTemplate":"file:///{+path}","name":"any"}`)
	f := gateway(t, `
servers:
  files:
    url: "http://127.0.0.1:1"
    resources:
      "file:///pub/*": {}
      "file:///pub/secret": {hide: true}
      "file:///pub/keys/*": {hide: true}
`, s)
	v := mcpgw.View{Caller: as("x")}
	for uri, want := range map[string]bool{
		"file:///pub/listed%20one": true, "file:///pub/a": true, "file:///pub/a/b.txt?x=1": true, "file:///pub/%C3%A9": true,
		"file:///pub/secret": false, "file:///pub/%73ecret": false, "file:///pub/%2573ecret": false, "file:///pub//secret": false, "file:///pub/./secret": false,
		"file:///pub/x/../secret": false, "file:///pub/../etc/passwd": false, "file:///pub/%2e%2e/etc/passwd": false, "file:///pub/..%2fetc": false, "file:///pub/%252e%252e/etc": false,
		"file:///pub/keys/a": false, "file:///pub/keys%2Fa": false, "file:///pub//keys/a": false, "FILE:///pub/a": false, "file:///pub/a\x00": false, "file:///pub/a\\b": false,
		"file:///pub/ｓecret": false, "file:///etc/passwd": false, "http://example.com/": false, "": false, "pub/a": false,
	} {
		if got := f.reaches(t, v, mcp.MethodReadResource, uri); (got != "") != want {
			t.Errorf("%q leads to %q", uri, got)
		}
	}
}

// A server that parses the authority of a URI reads no hidden resource either.
func TestURIsWithAuthorities(t *testing.T) {
	t.Parallel()
	s := newServer("erp")
	s.set(mcp.MethodListTemplates, "resourceTemplates", `{"uriTemplate":"erp://{+x}","name":"any"}`)
	f := gateway(t, `
servers:
  erp: {url: "http://127.0.0.1:1", resources: {"erp://*": {}, "erp://secret/*": {hide: true}}}
`, s)
	v := mcpgw.View{Caller: as("x")}
	for uri, want := range map[string]bool{
		"erp://stock/1": true, "erp://stock:80/1": true, "erp:///stock/1": true, "erp://u@stock/1": true,
		"erp://secret/1": false, "erp:///secret/1": false, "erp://u@secret/1": false, "erp://u:p@secret:80/1": false, "erp://secret:80/1": false, "erp://secret./1": false, "erp:////secret/1": false,
	} {
		if got := f.reaches(t, v, mcp.MethodReadResource, uri); (got != "") != want {
			t.Errorf("%q leads to %q", uri, got)
		}
	}
}
