package policy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw/policy"
	"handoff.example/handoff/internal/store"
)

func compile(t *testing.T, yaml string) *policy.Policy {
	t.Helper()
	c, err := config.Parse([]byte("agents: {}\nmcp:\n"+yaml), "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(&c.MCP)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func as(subject string, scopes ...string) *auth.Principal {
	return &auth.Principal{Subject: subject, Role: auth.RoleCaller, Scopes: scopes}
}

func tool(server, name string) policy.Subject {
	return policy.Subject{Server: server, Kind: policy.Tools, Name: name}
}

const rules = `
  scopes: [mcp]
  servers:
    erp:
      url: http://127.0.0.1:1
      default: {role: caller, rate: {per_second: 1}}
      tools:
        get: {scopes: [erp:read]}
        post: {hide: true}
        pay: {deny: The books are closed, callers: ["*@acme"]}
        "list_*": {}
    open: {url: "http://127.0.0.1:1"}
  rules:
    - {callers: [boss], servers: [erp], tools: [pay], policy: {deny: false}}
    - {callers: [boss], policy: {hide: false}}
    - {roles: [admin], tools: [get], policy: {rate: {per_second: 5}}}
    - {tenants: [evil], policy: {hide: true}}
`

func TestDecide(t *testing.T) {
	t.Parallel()
	p := compile(t, rules)
	boss, viewer, evil := as("boss"), as("v"), as("e")
	viewer.Role, evil.Tenant = auth.RoleViewer, "evil"
	for name, test := range map[string]struct {
		caller *auth.Principal
		on     policy.Subject
		want   string
	}{
		"listed":                                {as("a"), tool("erp", "get"), "allowed"},
		"a pattern":                             {as("a"), tool("erp", "list_all"), "allowed"},
		"not listed":                            {as("a"), tool("erp", "late"), "hidden"},
		"not listed, whatever the rules say":    {boss, tool("erp", "late"), "hidden"},
		"hidden":                                {as("a"), tool("erp", "post"), "hidden"},
		"shown by a rule":                       {boss, tool("erp", "post"), "allowed"},
		"denied":                                {as("a@acme"), tool("erp", "pay"), "denied"},
		"hidden for callers":                    {as("a@other"), tool("erp", "pay"), "hidden"},
		"a rule does not undo callers":          {boss, tool("erp", "pay"), "hidden"},
		"too low a role":                        {viewer, tool("erp", "get"), "hidden"},
		"no list":                               {viewer, tool("open", "anything"), "allowed"},
		"a tenant":                              {evil, tool("open", "anything"), "hidden"},
		"names are compared as they are":        {as("a"), tool("erp", "GET"), "hidden"},
		"servers too":                           {as("a"), tool("ERP", "post"), "allowed"}, // there is none of that name
		"prompts of a server with a role":       {viewer, policy.Subject{Server: "erp", Kind: policy.Prompts, Name: "x"}, "hidden"},
		"a list of tools is not one of prompts": {as("a"), policy.Subject{Server: "erp", Kind: policy.Prompts, Name: "x"}, "allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := p.Decide(test.caller, test.on).String(); got != test.want {
				_, steps := p.Explain(test.caller, test.on)
				t.Errorf("got %s: %v", got, steps)
			}
		})
	}
	admin := as("root")
	admin.Role = auth.RoleAdmin
	if d := p.Decide(admin, tool("erp", "get")); d.Rate.PerSecond != 5 {
		t.Errorf("the rate is %v", d.Rate)
	}
	if p.Class(boss) == p.Class(as("a")) || p.Class(as("a")) != p.Class(as("b")) {
		t.Error("callers are not told apart as they should")
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	d := compile(t, rules).Decide(as("a"), tool("erp", "get"))
	if diff := cmp.Diff([]string{"mcp", "erp:read"}, d.Scopes); diff != "" {
		t.Error(diff)
	}
	for scopes, missing := range map[string]bool{"": true, "mcp": true, "mcp erp:read": false, "erp:* mcp": false, "mcp erp": true, "mcp erp:write": true, "erp:read": true} {
		if got := d.Missing(as("a", strings.Fields(scopes)...)); got != missing {
			t.Errorf("%q (AUT-11): %v", scopes, got)
		}
	}
}

func TestExplainNamesTheKeys(t *testing.T) {
	t.Parallel()
	_, steps := compile(t, rules).Explain(as("boss"), tool("erp", "post"))
	var keys []string
	for _, s := range steps {
		keys = append(keys, s.Key+" = "+s.Says+": "+s.Effect)
	}
	want := []string{
		"mcp.scopes = mcp: a call needs these scopes", "mcp.servers.erp.tools.post = listed: shown",
		"mcp.servers.erp.default.role = caller: this caller may see it", "mcp.servers.erp.default.rate = 1 a second, 1 at once: counts",
		"mcp.servers.erp.tools.post.hide = true: hidden",
		"mcp.rules[0] = tools: pay: is not for this", "mcp.rules[1] = fits: counts on top", "mcp.rules[1].hide = false: shown",
		"mcp.rules[2] = tools: get: is not for this", "mcp.rules[3] = callers, tenants, roles: is not for this caller",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Error(diff)
	}
}

const terms = `
  servers:
    erp:
      url: http://127.0.0.1:1
      tools:
        draft: {approve_if: {properties: {total: {exclusiveMinimum: 100}}, required: [total]}, require: {properties: {currency: {const: IDR}}}, idempotency: required}
        free: {idempotency: accepted, approve: true}
        off: {idempotency: "off"}
        bare: {}
        spend: {budget: {calls: 3, sum: {argument: /order/total, max: 10.5}}}
`

func TestArguments(t *testing.T) {
	t.Parallel()
	p := compile(t, terms)
	input, err := policy.CompileSchema([]byte(`{"type":"object","properties":{"total":{"type":"number"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("k", 256)
	for name, test := range map[string]struct {
		tool, args, key string
		code            int // -1: an InputError
		want            policy.Outcome
	}{
		"needs a key":                       {tool: "draft", args: `{"total":1}`, code: mcp.CodeKeyRequired},
		"with a key":                        {tool: "draft", args: `{"total":1}`, key: "k", want: policy.Outcome{Key: "k"}},
		"no arguments":                      {tool: "draft", key: "k", want: policy.Outcome{Key: "k"}},
		"the schema of the tool (TOL-03)":   {tool: "draft", args: `{"total":"1"}`, key: "k", code: -1},
		"what policy requires":              {tool: "draft", args: `{"total":1,"currency":"USD"}`, key: "k", code: mcp.CodeDenied},
		"approval by arguments":             {tool: "draft", args: `{"total":101}`, key: "k", want: policy.Outcome{Key: "k", Approve: "Calls with such arguments have to be approved"}},
		"a way to write a number":           {tool: "draft", args: `{"total":1.01e2}`, key: "k", want: policy.Outcome{Key: "k", Approve: "Calls with such arguments have to be approved"}},
		"an escaped name":                   {tool: "draft", args: `{"t\u006ftal":101}`, key: "k", want: policy.Outcome{Key: "k", Approve: "Calls with such arguments have to be approved"}},
		"a name twice (SEC-08)":             {tool: "draft", args: `{"total":101,"total":1}`, key: "k", code: -1},
		"a key that is long":                {tool: "free", key: long, code: mcp.CodeInvalidParams},
		"a key with controls":               {tool: "free", key: "a\nb", code: mcp.CodeInvalidParams},
		"accepted":                          {tool: "free", key: "k", want: policy.Outcome{Key: "k", Approve: "Each call has to be approved"}},
		"accepted without":                  {tool: "free", want: policy.Outcome{Approve: "Each call has to be approved"}},
		"off":                               {tool: "off", key: "k", want: policy.Outcome{}},
		"where nothing is said it is taken": {tool: "bare", key: "k", want: policy.Outcome{Key: "k"}},
		"null for what is not required":     {tool: "bare", args: `{"total":null}`},
		"no object":                         {tool: "bare", args: `[]`, code: mcp.CodeInvalidParams},
		"no JSON":                           {tool: "bare", args: `{`, code: -1},
		"an amount":                         {tool: "spend", args: `{"order":{"total":1.00001}}`, want: policy.Outcome{Amount: 10001}},
		"no amount":                         {tool: "spend", args: `{}`, code: mcp.CodeDenied},
		"less than nothing":                 {tool: "spend", args: `{"order":{"total":-1}}`, code: mcp.CodeDenied},
		"a text":                            {tool: "spend", args: `{"order":{"total":"1"}}`, code: mcp.CodeDenied},
		"too much at once":                  {tool: "spend", args: `{"order":{"total":11}}`, code: mcp.CodeBudget},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := p.Decide(as("a"), tool("erp", test.tool)).Arguments(jsontext.Value(test.args), test.key, input)
			code := 0
			if e, ok := errors.AsType[*mcp.Error](err); ok {
				code = e.Code
			} else if err != nil {
				code = -1
			}
			if code != test.code {
				t.Fatalf("%v, %v", got, err)
			}
			if err == nil {
				if diff := cmp.Diff(&test.want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// counter counts like the store.
type counter map[string]int64

func (c counter) Spend(_ context.Context, space, key string, amount, limit int64, _ time.Time) (int64, error) {
	if c[space+key]+amount > limit {
		return c[space+key], store.ErrExceeded
	}
	c[space+key] += amount
	return c[space+key], nil
}

func TestBudget(t *testing.T) {
	t.Parallel()
	d := compile(t, terms).Decide(as("a"), tool("erp", "spend"))
	counted := counter{}
	g := policy.NewGuard(counted, func() time.Time { return time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC) })
	spend := func(who string, total, key string) int {
		o, err := d.Arguments(jsontext.Value(`{"order":{"total":`+total+`}}`), key, nil)
		if err == nil {
			err = g.Spend(t.Context(), as(who), d, o)
		}
		if e, ok := errors.AsType[*mcp.Error](err); ok {
			if e.RetryAfter != 3601 {
				t.Errorf("%v after %d s", e, e.RetryAfter)
			}
			return e.Code
		}
		if err != nil {
			t.Error(err)
		}
		return 0
	}
	if code := spend("a", "10", "one"); code != 0 {
		t.Fatal(code)
	}
	for range 5 {
		if code := spend("a", "10", "one"); code != 0 { // sent again
			t.Fatal(code)
		}
	}
	if code := spend("a", "1", ""); code != mcp.CodeBudget {
		t.Error(code)
	}
	if code := spend("a", "0.5", "two"); code != 0 { // what was refused has cost nothing
		t.Error(code)
	}
	if code := spend("a", "0", ""); code != 0 {
		t.Error(code)
	}
	if code := spend("a", "0", ""); code != mcp.CodeBudget {
		t.Error("a fourth call:", code)
	}
	if code := spend("b", "10", "one"); code != 0 {
		t.Error("another caller:", code)
	}
}

func TestRatesAndPlaces(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000, 0)
	g := policy.NewGuard(nil, func() time.Time { return now })
	p := compile(t, "  servers:\n    a: {url: \"http://127.0.0.1:1\", default: {rate: {per_second: 0.5, burst: 2}}, tools: {x: {}, y: {}, slots: {rate: {per_second: 1000, burst: 1000}, concurrency: 2}, no: {deny: Not today}}}\n")
	admit := func(who, name string) (func(), *mcp.Error) {
		release, err := g.Admit(as(who), p.Decide(as(who), tool("a", name)))
		e, _ := errors.AsType[*mcp.Error](err)
		return release, e
	}
	for range 2 {
		if _, err := admit("a", "x"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := admit("a", "x")
	if err == nil || err.Code != mcp.CodeRateLimited || err.HTTPStatus() != 429 || err.RetryAfter != 2 {
		t.Fatalf("%v", err)
	}
	for _, other := range []struct{ who, tool string }{{"b", "x"}, {"a", "y"}} {
		if _, err := admit(other.who, other.tool); err != nil {
			t.Error(other, err)
		}
	}
	now = now.Add(2 * time.Second)
	if _, err := admit("a", "x"); err != nil {
		t.Error(err)
	}
	first, _ := admit("a", "slots")
	if _, err := admit("b", "slots"); err != nil {
		t.Error(err)
	}
	if _, err := admit("c", "slots"); err == nil || err.Code != mcp.CodeRateLimited {
		t.Error(err)
	}
	first()
	first() // which gives back once
	if _, err := admit("c", "slots"); err != nil {
		t.Error(err)
	}
	if _, err := admit("c", "slots"); err == nil {
		t.Error("a place was given back twice")
	}
	if _, err := admit("a", "no"); err == nil || err.Code != mcp.CodeDenied || !strings.Contains(err.Message, "Not today") {
		t.Error(err)
	}
	// A crowd does not take memory without end.
	for i := range 250_000 {
		anonymous := &auth.Principal{Address: "10." + string(rune('0'+i%10)) + "." + strings.Repeat("x", i%7) + time.Duration(i).String(), Role: auth.RoleCaller}
		_, _ = g.Admit(anonymous, p.Decide(anonymous, tool("a", "x")))
	}
	if n := g.Metered(); n > 100_000 {
		t.Errorf("%d callers are kept", n)
	}
}
