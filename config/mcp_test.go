package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/config"
)

func TestMCP(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal+`
mcp:
  names: always
  agents: [delivery]
  servers:
    erp-read: {url: "http://127.0.0.1:9001/mcp", tools: [stock, price]}
    erp-draft:
      command: [./erp-draft, --db, erp.db]
      env: {TOKEN: a-secret}
      sharing: principal
      tools:
        draft_order:
          approve_if: {properties: {total: {exclusiveMinimum: 50000000}}, required: [total]}
          idempotency: required
          budget: {calls: 10, sum: {argument: /total, max: 1000000000}}
          rate: {per_second: 0.5}
        draft_receipt: {}
        rebuild: {task: {}, approve: true, hide: false, deny: because}
    erp-post: {url: "https://erp.example/mcp", headers: {X-Key: another-secret}, tools: []}
  rules:
    - {callers: ["buyer-*"], servers: [erp-*], tools: ["*"], policy: {scopes: [orders], timeout: 5s}}
  sets:
    buyers: {tools: ["erp-read.*", erp-draft.draft_order], mode: search}
`)
	if diff := cmp.Diff([]string{"erp-draft", "erp-post", "erp-read"}, c.MCPServerNames()); diff != "" {
		t.Fatal(diff)
	}
	read, draft, post := c.MCP.Servers["erp-read"], c.MCP.Servers["erp-draft"], c.MCP.Servers["erp-post"]
	if p, listed := read.Tools["stock"]; !listed || p != nil || len(read.Tools) != 2 || read.Timeout.Std() != time.Minute || read.Breaker.Failures != 5 {
		t.Errorf("erp-read: %+v", read)
	}
	if post.Tools == nil || len(post.Tools) != 0 || post.Prompts != nil {
		t.Errorf("an empty list is not one: %+v", post)
	}
	if p := draft.Tools["draft_receipt"]; p == nil || p.Hide != nil {
		t.Errorf("a tool without a policy: %+v", p)
	}
	order, rebuild := draft.Tools["draft_order"], draft.Tools["rebuild"]
	if order.Idempotency != config.MCPIdempotencyRequired || order.Budget.Sum.Max != 1e9 || order.Rate.Burst != 1 || order.Hide != nil || len(order.ApproveIf) == 0 {
		t.Errorf("draft_order: %+v", order)
	}
	if rebuild.Task == nil || rebuild.Task.After != 0 || rebuild.Approve != "true" || rebuild.Approve.Text() != "" || *rebuild.Hide || rebuild.Deny.Text() != "because" {
		t.Errorf("rebuild: %+v", rebuild)
	}
	if !c.MCP.Agents.Exposes("delivery") || c.MCP.Agents.Exposes("other") || !c.MCPEnabled() {
		t.Errorf("agents: %+v", c.MCP.Agents)
	}
	if c.MCP.Rules[0].Policy.Timeout.Std() != 5*time.Second || c.MCP.Sets["buyers"].Mode != config.MCPSetSearch {
		t.Errorf("rules and sets: %+v", c.MCP)
	}
	for _, v := range c.Values() {
		if strings.Contains(v.Text, "-secret") {
			t.Errorf("%s is shown as %s", v.Path, v.Text)
		}
	}
	if mustParse(t, minimal).MCPEnabled() {
		t.Error("there are tools without servers")
	}
	if a := mustParse(t, minimal+"mcp: {agents: true}\n").MCP.Agents; !a.Exposes("delivery") || !a.Any() {
		t.Errorf("all agents: %+v", a)
	}
}

func TestMCPThatCannotWork(t *testing.T) {
	t.Parallel()
	const at = `url: "https://erp.example/mcp"`
	for _, test := range []struct{ mcp, want string }{
		{`{servers: {S: {` + at + `}}}`, "mcp.servers.S: is not a name"},
		{`{servers: {s: {` + at + `}}}`, "is a name that the node needs itself"},
		{`{servers: {agents: {` + at + `}}}`, "is a name that the node needs itself"},
		{`{servers: {a: }}`, "mcp.servers.a"},
		{`{servers: {a: {}}}`, "says neither where"},
		{`{servers: {a: {` + at + `, command: [x]}}}`, "has a url and a command"},
		{`{servers: {a: {` + at + `, env: {A: b}}}}`, "env: is for a command"},
		{`{servers: {a: {command: [x], headers: {A: b}}}}`, "headers: is for a url"},
		{`{servers: {a: {command: [""]}}}`, "names no program"},
		{`{servers: {a: {` + at + `, headers: {Mcp-Name: b}}}}`, "is not a header that can be set"},
		{`{servers: {a: {` + at + `, headers: {"X Y": b}}}}`, "is not a header that can be set"},
		{`{servers: {a: {` + at + `, auth: {bearer: x, basic: {user: a, password: b}}}}}`, "several credentials"},
		{`{servers: {a: {` + at + `, auth: {oauth: {flow: client_credentials}}}}}`, "needs client_id and client_secret"},
		{`{servers: {a: {` + at + `, tools: {x: {require: {type: 7}}}}}}`, "require: is not a JSON Schema"},
		{`{servers: {a: {` + at + `, tools: {x: {approve_if: {$ref: "https://elsewhere.example/schema"}}}}}}`, "approve_if: is not a JSON Schema that can be used"},
		{`{servers: {a: {` + at + `, tools: {x: {name: "a b"}}}}}`, "is not a name of a tool"},
		{`{servers: {a: {` + at + `, tools: {x: {name: call_tool}}}}}`, "is a name that the node needs itself"},
		{`{servers: {a: {` + at + `, tools: {x: {name: z}, y: {name: z}}}}}`, "is the name of x too"},
		{`{servers: {a: {` + at + `, tools: {x: {rate: {per_second: 0}}}}}}`, "lets nobody call"},
		{`{servers: {a: {` + at + `, tools: {x: {budget: {sum: {argument: total, max: 1}}}}}}}`, "is not a JSON Pointer"},
		{`{servers: {a: {` + at + `, tools: {x: {idempotency: maybe}}}}}`, "idempotency: is not one of"},
		{`{servers: {a: {` + at + `, tools: true}}}`, "is a list of names, or an object"},
		{`{servers: {a: {` + at + `, default: {name: z}}}}`, "gives all tools one name"},
		{`{rules: [{servers: [b], policy: {}}]}`, `names "b", which is no tool server`},
		{`{rules: [{tools: [""], policy: {}}]}`, "tools[0]: is empty"},
		{`{rules: [{policy: {name: x}}]}`, "renames a tool for some callers only"},
		{`{sets: {x: {}}}`, "has nothing in it"},
		{`{sets: {x: {tools: [stock]}}}`, "names no server"},
		{`{sets: {x: {tools: [erp.stock]}}}`, `names "erp", which is no tool server`},
		{`{agents: [nobody]}`, `names "nobody"`},
		{`{agents: some}`, "is true, false, or a list"},
		{`{revisions: []}`, "is empty"},
		{`{origins: ["https://a.example/x"]}`, "is more than an origin"},
	} {
		got := strings.Join(problems(t, minimal+"mcp: "+test.mcp+"\n"), "\n")
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, not %q", test.mcp, got, test.want)
		}
	}
}
