package card_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/card"
)

const file = `
agents:
  delivery:
    name: Delivery
    description: Books docks.
    version: 1.4.0
    provider: {organization: Example, url: "https://example.com"}
    documentation_url: https://example.com/docs
    icon_url: https://example.com/icon.png
    tenants: [acme]
    streaming: false
    extensions: [{uri: "https://example.com/ext/v1", required: true, params: {n: 12345678901234567890}}]
    skills:
      - {id: book, name: Book, description: Books a dock., tags: [logistics], examples: [x], input_modes: [text/plain]}
    run: {exec: [./book]}
  moved:
    name: Moved
    description: Elsewhere.
    version: 1.0.0
    paths: {jsonrpc: /a2a, rest: api/v1, card: /cards/moved.json}
    skills: [{id: s, name: S, description: D., tags: [t]}]
    run: {exec: [./x]}
`

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text), "")
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c
}

// Over gRPC all agents of a node have one address, so that the tenant leads to
// the agent; a path leads nowhere.
func TestBuild_GRPC(t *testing.T) {
	t.Parallel()
	agent := *load(t, file).Agents["delivery"]
	grpc := func(base, tenant string) string {
		var list []string
		for _, f := range card.Build(&agent, "delivery", base, tenant).SupportedInterfaces {
			if f.ProtocolBinding == a2a.BindingGRPC {
				list = append(list, f.URL+" "+f.Tenant+" "+f.ProtocolVersion)
			}
		}
		return strings.Join(list, "; ")
	}
	for _, c := range []struct{ base, tenant, want string }{
		{"https://a.example", "", "a.example:443 delivery 1.0"},
		{"https://a.example/", "acme", "a.example:443 delivery/acme 1.0"},
		{"http://a.example", "", "a.example:80 delivery 1.0"},
		{"http://127.0.0.1:8080", "", "127.0.0.1:8080 delivery 1.0"},
		{"https://[::1]", "", "[::1]:443 delivery 1.0"},
		{"http://[::1]:9", "", "[::1]:9 delivery 1.0"},
		{"https://a.example/x", "", ""},
		{"", "", ""},
	} {
		if got := grpc(c.base, c.tenant); got != c.want {
			t.Errorf("%q %q: %q, want %q", c.base, c.tenant, got, c.want)
		}
	}
	if agent.GRPC = false; grpc("https://a.example", "") != "" {
		t.Error("the card names what is switched off")
	}
	agent.GRPC, agent.Versions = true, nil
	if grpc("https://a.example", "") != "" {
		t.Error("the card names a version that is not spoken")
	}
}

// Over gRPC of version 0.3 nothing tells the agent, so that the default one
// alone has it.
func TestFor_OldGRPC(t *testing.T) {
	t.Parallel()
	c := load(t, file)
	c.Agents["delivery"].Versions = []string{"1.0", "0.3"}
	old := func(base, tenant string) string {
		for _, f := range card.For(c, "delivery", base, tenant).SupportedInterfaces {
			if f.ProtocolBinding == a2a.BindingGRPC && f.ProtocolVersion == "0.3" {
				return f.URL + f.Tenant
			}
		}
		return ""
	}
	c.DefaultAgent = "delivery"
	for _, tt := range []struct{ base, tenant, want string }{
		{"https://a.example/", "", "a.example:443"},
		{"https://a.example", "acme", ""},
		{"https://a.example/x", "", ""},
	} {
		if got := old(tt.base, tt.tenant); got != tt.want {
			t.Errorf("%s %q: got %q, want %q", tt.base, tt.tenant, got, tt.want)
		}
	}
	c.Agents["other"] = c.Agents["delivery"]
	c.DefaultAgent = "other"
	if got := old("https://a.example", ""); got != "" {
		t.Errorf("not the default agent: %s", got)
	}
}

// lineage is how cards declare the extension that they have unless it is turned
// off.
const lineage = `{"uri":"https://handoff.example/extensions/lineage/v1","description":"Reads in the metadata of a message for which task it is sent and through which agents it came, and refuses loops."}`

func TestBuild(t *testing.T) {
	t.Parallel()
	c := load(t, file)
	for _, tt := range []struct {
		id, base, tenant string
		want             string
	}{
		{"delivery", "https://a.example/x/", "acme", `{"name":"Delivery","description":"Books docks.","supportedInterfaces":[` +
			`{"url":"https://a.example/x/agents/delivery/rpc","protocolBinding":"JSONRPC","tenant":"acme","protocolVersion":"1.0"},` +
			`{"url":"https://a.example/x/agents/delivery/v1","protocolBinding":"HTTP+JSON","tenant":"acme","protocolVersion":"1.0"}],` +
			`"provider":{"url":"https://example.com","organization":"Example"},"version":"1.4.0","documentationUrl":"https://example.com/docs",` +
			`"capabilities":{"streaming":false,"pushNotifications":true,"extensions":[{"uri":"https://example.com/ext/v1","required":true,"params":{"n":12345678901234567890}},` + lineage + `],"extendedAgentCard":false},` +
			`"defaultInputModes":["text/plain","application/json"],"defaultOutputModes":["text/plain","application/json"],` +
			`"skills":[{"id":"book","name":"Book","description":"Books a dock.","tags":["logistics"],"examples":["x"],"inputModes":["text/plain"]}],"iconUrl":"https://example.com/icon.png"}`},
		{"moved", "http://h:1", "", `{"name":"Moved","description":"Elsewhere.","supportedInterfaces":[` +
			`{"url":"http://h:1/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"},` +
			`{"url":"http://h:1/agents/moved/api/v1","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"},` +
			`{"url":"h:1","protocolBinding":"GRPC","tenant":"moved","protocolVersion":"1.0"}],"version":"1.0.0",` +
			`"capabilities":{"streaming":true,"pushNotifications":true,"extensions":[` + lineage + `],"extendedAgentCard":false},` +
			`"defaultInputModes":["text/plain","application/json"],"defaultOutputModes":["text/plain","application/json"],"skills":[{"id":"s","name":"S","description":"D.","tags":["t"]}]}`},
	} {
		got := string(card.Build(c.Agents[tt.id], tt.id, tt.base, tt.tenant).AppendJSON(nil))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", tt.id, tt.tenant, diff)
		}
	}
}

func TestOwnExtensions(t *testing.T) {
	t.Parallel()
	a := load(t, file).Agents["moved"]
	uris := func() (list []string) {
		for _, e := range card.Build(a, "moved", "http://h:1", "").Capabilities.Extensions {
			if e.Required {
				t.Errorf("%s is required", e.URI)
			}
			list = append(list, e.URI)
		}
		return list
	}
	for _, tt := range []struct {
		lineage bool
		grants  config.Grants
		once    config.Idempotency
		own     []config.Extension
		want    []string
	}{
		{true, config.GrantsOperator, config.IdempotencyAuto, nil, []string{a2a.LineageExtension}},
		{true, config.GrantsCaller, config.IdempotencyOff, nil, []string{a2a.LineageExtension, a2a.GrantExtension}},
		{false, config.GrantsOperator, config.IdempotencyAuto, nil, nil},
		{false, config.GrantsOperator, config.IdempotencyOn, nil, []string{a2a.IdempotencyExtension}},
		{true, config.GrantsOperator, config.IdempotencyAuto, []config.Extension{{URI: a2a.LineageExtension}}, []string{a2a.LineageExtension}},
	} {
		a.Lineage, a.Grants, a.Idempotency, a.Extensions = tt.lineage, tt.grants, tt.once, tt.own
		if diff := cmp.Diff(tt.want, uris()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt, diff)
		}
	}
}

// What is recognized for callers with credentials is declared for them, by nodes
// that have any.
func TestIdempotencyIsDeclaredForWhomItHolds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ callers, once, want string }{
		{"callers: {keys: true}", "auto", `{"callers":"authenticated"}`},
		{"callers: {keys: true, anonymous: everywhere}", "auto", `{"callers":"authenticated"}`},
		{"callers: {keys: false}", "auto", "none"},
		{"callers: {keys: true}", "on", ""},
		{"callers: {keys: true}", "off", "none"},
	} {
		c := load(t, file+tt.callers+"\n")
		c.Agents["delivery"].Idempotency = config.Idempotency(tt.once)
		got := "none"
		for _, e := range card.For(c, "delivery", "https://a.example", "").Capabilities.Extensions {
			if e.URI == a2a.IdempotencyExtension {
				got = string(e.Params)
			}
		}
		if got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	c := load(t, file)
	got := []any{
		card.PathsOf(c.Agents["delivery"], "delivery", ""), card.PathsOf(c.Agents["delivery"], "delivery", "acme"), card.PathsOf(c.Agents["moved"], "moved", ""),
		card.Address("https://a.example/", "delivery", ""), card.URL("https://a.example", c.Agents["delivery"], "delivery", "acme"),
	}
	want := []any{
		card.Paths{JSONRPC: "/agents/delivery/rpc", REST: "/agents/delivery/v1", Card: "/agents/delivery/.well-known/agent-card.json"},
		card.Paths{JSONRPC: "/agents/delivery/rpc", REST: "/agents/delivery/v1", Card: "/agents/delivery/t/acme/.well-known/agent-card.json"},
		card.Paths{JSONRPC: "/a2a", REST: "/agents/moved/api/v1", Card: "/cards/moved.json"},
		"https://a.example/agents/delivery/", "https://a.example/agents/delivery/t/acme/.well-known/agent-card.json",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

// What Parse accepts makes a card that the specification accepts.
func TestCheckOfAcceptedConfigurations(t *testing.T) {
	t.Parallel()
	for _, text := range []string{file, string(config.Template())} {
		problems, warnings := card.Check(load(t, text))
		if len(problems)+len(warnings) > 0 {
			t.Errorf("findings: %v %v", problems, warnings)
		}
	}
}

func TestCheckNamesTheKey(t *testing.T) {
	t.Parallel()
	c := load(t, strings.NewReplacer("Books a dock.", "token=abcdefgh12345678", "docs", "docs#x").Replace(file))
	_, warnings := card.Check(c)
	var got []string
	for _, w := range warnings {
		got = append(got, fmt.Sprintf("%d %s", w.Line, w.Path))
	}
	want := []string{"8 agents.delivery.documentation_url", "14 agents.delivery.skills[0].description"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	c := load(t, file)
	for _, tt := range []struct {
		name   string
		change func(*a2a.AgentCard)
		want   []string // level field paragraph
	}{
		{"nothing", func(*a2a.AgentCard) {}, nil},
		{"empty card", func(c *a2a.AgentCard) { *c = a2a.AgentCard{} }, []string{
			"error name A2A §4.4.1", "error description A2A §4.4.1", "error version A2A §4.4.1", "error supportedInterfaces A2A §4.4.1",
			"error defaultInputModes A2A §4.4.1", "error defaultOutputModes A2A §4.4.1", "warning skills A2A §4.4.1",
		}},
		{"no tags", func(c *a2a.AgentCard) { c.Skills[0].Tags = nil }, []string{"error skills[0].tags A2A §4.4.5"}},
		{"skill twice", func(c *a2a.AgentCard) { c.Skills = append(c.Skills, c.Skills[0]) }, []string{"error skills[1].id A2A §4.4.5"}},
		{"relative URL", func(c *a2a.AgentCard) { c.SupportedInterfaces[0].URL = "/rpc" }, []string{"error supportedInterfaces[0].url A2A §4.4.6"}},
		{"credentials", func(c *a2a.AgentCard) { c.SupportedInterfaces[0].URL = "https://u:p@h/rpc" }, []string{"error supportedInterfaces[0].url A2A §4.4.6"}},
		{"http", func(c *a2a.AgentCard) { c.SupportedInterfaces[1].URL = "http://h.example/rpc" }, []string{"warning supportedInterfaces[1].url A2A §7.1"}},
		{"loopback", func(c *a2a.AgentCard) { c.SupportedInterfaces[1].URL = "http://[::1]:8/rpc" }, nil},
		{"gRPC target", func(c *a2a.AgentCard) {
			c.SupportedInterfaces[1].ProtocolBinding, c.SupportedInterfaces[1].URL = "GRPC", "h.example:443"
		}, nil},
		{"binding", func(c *a2a.AgentCard) { c.SupportedInterfaces[0].ProtocolBinding = "jsonrpc" }, []string{"error supportedInterfaces[0].protocolBinding A2A §4.4.6"}},
		{"custom binding", func(c *a2a.AgentCard) { c.SupportedInterfaces[0].ProtocolBinding = "https://example.com/b" }, nil},
		{"version", func(c *a2a.AgentCard) { c.SupportedInterfaces[0].ProtocolVersion = "1.0.0" }, []string{"error supportedInterfaces[0].protocolVersion A2A §4.4.6"}},
		{"media type", func(c *a2a.AgentCard) { c.DefaultInputModes = []string{"text", "text/plain", "text/plain"} }, []string{
			"error defaultInputModes[0] A2A §4.4.1", "warning defaultInputModes[2] ",
		}},
		{"unknown scheme", func(c *a2a.AgentCard) {
			c.SecurityRequirements = []a2a.SecurityRequirement{{Schemes: map[string][]string{"x": nil}}}
		}, []string{"error securityRequirements[0] A2A §4.4.1"}},
		{"extension", func(c *a2a.AgentCard) {
			c.Capabilities.Extensions = append(c.Capabilities.Extensions, a2a.AgentExtension{URI: "x"})
		}, []string{"error capabilities.extensions[2].uri A2A §4.4.4"}},
		{"icon", func(c *a2a.AgentCard) { c.IconURL = new("javascript:x") }, []string{"error iconUrl A2A §4.4.1"}},
		{"secret", func(c *a2a.AgentCard) { c.Description = "Call with Bearer abcdefghijklmnop123" }, []string{"warning description A2A §14.3"}},
		{"key", func(c *a2a.AgentCard) {
			c.Skills[0].Examples = []string{"-----BEGIN EC PRIVATE KEY-----"}
		}, []string{"warning skills[0].examples[0] A2A §14.3"}},
		{"long", func(c *a2a.AgentCard) { c.Description = strings.Repeat("x", 5000) }, []string{"warning description "}},
		{"control", func(c *a2a.AgentCard) { c.Name = "a\x1b[2J" }, []string{"warning name "}},
		{"large", func(c *a2a.AgentCard) {
			c.Skills[0].Examples = slices.Repeat([]string{strings.Repeat("x", 3000)}, 100)
		}, []string{"warning  "}},
		{"extended", func(c *a2a.AgentCard) { c.Capabilities.ExtendedAgentCard = new(true) }, []string{"warning capabilities.extendedAgentCard A2A §3.1.11"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			built := card.Build(c.Agents["delivery"], "delivery", "https://a.example", "")
			tt.change(built)
			var got []string
			for _, f := range card.Lint(built) {
				got = append(got, fmt.Sprintf("%s %s %s", f.Level, f.Field, f.Paragraph))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	body := []byte(`{"name":"x"}`)
	etag := card.NewDocument(body).ETag()
	for _, tt := range []struct {
		name, method string
		match        []string
		status       int
		body         string
	}{
		{"plain", "GET", nil, 200, string(body)},
		{"head", "HEAD", nil, 200, ""},
		{"match", "GET", []string{etag}, 304, ""},
		{"match of head", "HEAD", []string{etag}, 304, ""},
		{"weak", "GET", []string{"W/" + etag}, 304, ""},
		{"list", "GET", []string{`"a,b" , W/"c",` + etag}, 304, ""},
		{"lines", "GET", []string{`"a"`, etag}, 304, ""},
		{"any", "GET", []string{" * "}, 304, ""},
		{"other", "GET", []string{`"other"`}, 200, string(body)},
		{"no quotes", "GET", []string{strings.Trim(etag, `"`)}, 200, string(body)},
		{"open quote", "GET", []string{`"` + strings.Trim(etag, `"`)}, 200, string(body)},
		{"empty", "GET", []string{""}, 200, string(body)},
		{"post", "POST", nil, 405, ""},
		{"delete with match", "DELETE", []string{etag}, 405, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(tt.method, "/", nil)
			r.Header["If-None-Match"] = tt.match
			w := httptest.NewRecorder()
			card.Serve(w, r, body, time.Minute)
			h := w.Result().Header
			if w.Code != tt.status || tt.status != 405 && w.Body.String() != tt.body {
				t.Fatalf("%d %q, want %d %q", w.Code, w.Body, tt.status, tt.body)
			}
			if tt.status == 405 {
				if h.Get("Allow") != "GET, HEAD" || h.Get("Content-Type") != "application/json" || !strings.HasPrefix(w.Body.String(), `{"error":`) {
					t.Errorf("header %v, body %s", h, w.Body)
				}
				return
			}
			if h.Get("ETag") != etag || h.Get("Cache-Control") != "public, max-age=60" {
				t.Errorf("header %v", h)
			}
			if tt.status == 200 && (h.Get("Content-Length") != "12" || h.Get("Content-Type") != "application/json") {
				t.Errorf("header %v", h)
			}
		})
	}
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	const proxy, stranger = "10.1.2.3:4444", "203.0.113.9:4444"
	for _, tt := range []struct {
		name, remote, public string
		header               http.Header
		want                 string
	}{
		{"configured", stranger, "https://pub.example/a/", nil, "https://pub.example/a"},
		{"request", stranger, "", nil, "http://internal:8080"},
		{"proxy", proxy, "", http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"pub.example"}, "X-Forwarded-Prefix": {"/a"}}, "https://pub.example/a"},
		{"stranger", stranger, "", http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"evil.test"}, "X-Forwarded-Prefix": {"/a"}, "Forwarded": {"host=evil.test"}}, "http://internal:8080"},
		{"prefix with slash", proxy, "", http.Header{"X-Forwarded-Prefix": {"/a/b/"}}, "http://internal:8080/a/b"},
		{"client first", proxy, "", http.Header{"X-Forwarded-Host": {"evil.test, pub.example"}, "X-Forwarded-Proto": {"ftp", "https"}}, "https://pub.example"},
		{"rfc 7239", proxy, "", http.Header{"Forwarded": {`for=1.2.3.4;host=evil.test, for="[2001:db8::1]:47"; HOST="pub.example:8443" ;proto=https`}}, "https://pub.example:8443"},
		{"both agree", proxy, "", http.Header{"Forwarded": {"host=pub.example"}, "X-Forwarded-Host": {"Pub.example"}}, "http://pub.example"},
		{"both disagree", proxy, "", http.Header{"Forwarded": {"host=evil.test;proto=https"}, "X-Forwarded-Host": {"pub.example"}, "X-Forwarded-Proto": {"https"}}, "https://internal:8080"},
		{"bad proto", proxy, "", http.Header{"X-Forwarded-Proto": {"javascript"}}, "http://internal:8080"},
		{"host with path", proxy, "", http.Header{"X-Forwarded-Host": {"evil.test/x"}}, "http://internal:8080"},
		{"host with user", proxy, "", http.Header{"X-Forwarded-Host": {"a@evil.test"}}, "http://internal:8080"},
		{"host with header", proxy, "", http.Header{"X-Forwarded-Host": {"evil.test\r\nX: y"}}, "http://internal:8080"},
		{"host with quote", proxy, "", http.Header{"X-Forwarded-Host": {`a"b`}}, "http://internal:8080"},
		{"host with port", proxy, "", http.Header{"X-Forwarded-Host": {"a:99999999"}}, "http://internal:8080"},
		{"IPv6 host", proxy, "", http.Header{"X-Forwarded-Host": {"[2001:db8::1]:8443"}}, "http://[2001:db8::1]:8443"},
		{"bad IPv6 host", proxy, "", http.Header{"X-Forwarded-Host": {"[::1%25lo]"}}, "http://internal:8080"},
		{"bad prefix", proxy, "", http.Header{"X-Forwarded-Prefix": {"//evil.test"}}, "http://internal:8080"},
		{"prefix up", proxy, "", http.Header{"X-Forwarded-Prefix": {"/a/../b"}}, "http://internal:8080"},
		{"prefix URL", proxy, "", http.Header{"X-Forwarded-Prefix": {"http://evil.test"}}, "http://internal:8080"},
		{"malformed forwarded", proxy, "", http.Header{"Forwarded": {`host="evil.test`}}, "http://internal:8080"},
		{"forwarded twice", proxy, "", http.Header{"Forwarded": {`host=a.test;host=b.test`}}, "http://internal:8080"},
		{"mapped proxy", "[::ffff:10.1.2.3]:1", "", http.Header{"X-Forwarded-Host": {"pub.example"}}, "http://pub.example"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest("GET", "http://internal:8080/x", nil)
			r.RemoteAddr = tt.remote
			for name, values := range tt.header {
				r.Header[name] = values
			}
			if got := card.BaseURL(r, tt.public, trusted); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	t.Run("hostile Host", func(t *testing.T) {
		t.Parallel()
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = `evil"/<x>`
		if got := card.BaseURL(r, "", nil); got != "http://localhost" {
			t.Errorf("got %s", got)
		}
	})
}

// Whatever a request says, a base URL is a URL of a host and a plain path.
func FuzzBaseURL(f *testing.F) {
	f.Add("a.example:80", "https", "b.example", "/p", `for=x;host="c";proto=http, host=d`)
	f.Add("[::1]:80", "", "", "", "")
	f.Fuzz(func(t *testing.T, host, proto, forwardedHost, prefix, forwarded string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host, r.RemoteAddr = host, "10.0.0.1:1"
		r.Header = http.Header{"X-Forwarded-Proto": {proto}, "X-Forwarded-Host": {forwardedHost}, "X-Forwarded-Prefix": {prefix}, "Forwarded": {forwarded}}
		base := card.BaseURL(r, "", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
		u, err := url.Parse(base)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.String() != base || strings.HasSuffix(base, "/") {
			t.Fatalf("base URL %q: %v", base, err)
		}
	})
}

func TestPublisher(t *testing.T) {
	t.Parallel()
	p := card.NewPublisher(load(t, file), nil)
	for _, tt := range []struct {
		id, tenant string
		want       bool
	}{{"delivery", "", true}, {"delivery", "acme", true}, {"delivery", "other", false}, {"moved", "acme", false}, {"nobody", "", false}} {
		if _, ok, _ := p.Document(tt.id, tt.tenant, "https://a.example"); ok != tt.want {
			t.Errorf("%+v: %v", tt, ok)
		}
	}
	first, _, _ := p.Document("delivery", "", "https://a.example")
	again, _, _ := p.Document("delivery", "", "https://a.example")
	if &first.Body()[0] != &again.Body()[0] {
		t.Error("the same card is built twice")
	}
	for i := range 2000 {
		p.Document("delivery", "", fmt.Sprintf("https://h%d.example", i))
	}
	if n := p.Len(); n > 256 {
		t.Errorf("%d documents are kept", n)
	}
}

// A cache must not give one client the URLs that another has asked by.
func TestDerivedCardsVary(t *testing.T) {
	t.Parallel()
	vary := func(public string) string {
		c := load(t, file)
		c.PublicURL = public
		document, ok, _ := card.NewPublisher(c, nil).Document("delivery", "", "https://a.example")
		if !ok {
			t.Fatal("no card")
		}
		w := httptest.NewRecorder()
		w.Header().Set("Vary", "Origin")
		document.Serve(w, httptest.NewRequest(http.MethodGet, "/", nil), time.Minute)
		return strings.Join(w.Header().Values("Vary"), ", ")
	}
	if got := vary(""); got != "Origin, Host, X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Prefix, Forwarded" {
		t.Errorf("derived: Vary %q", got)
	}
	if got := vary("https://a.example"); got != "Origin" {
		t.Errorf("configured: Vary %q", got)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	c := load(t, file)
	build := func() *a2a.AgentCard { return card.Build(c.Agents["delivery"], "delivery", "https://a.example", "") }
	a, b := build(), build()
	b.Signatures = []a2a.AgentCardSignature{{Protected: "x", Signature: "y"}}
	other := build()
	other.Skills[0].Description = "Other."
	digests := make([]string, 3)
	for i, built := range []*a2a.AgentCard{a, b, other} {
		var err error
		if digests[i], err = card.Digest(built); err != nil {
			t.Fatal(err)
		}
	}
	if digests[0] != digests[1] || digests[0] == digests[2] {
		t.Errorf("digests: %v", digests)
	}
	// The example of A2A §8.4.1.
	example := &a2a.AgentCard{Name: "Example Agent", Capabilities: a2a.AgentCapabilities{Streaming: new(false), PushNotifications: new(false)}}
	canonical, err := card.Canonical(example)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`{"capabilities":{"pushNotifications":false,"streaming":false},`, `"description":"","name":"Example Agent","skills":[]`} {
		if !strings.Contains(strings.ReplaceAll(string(canonical), `"defaultInputModes":[],"defaultOutputModes":[],`, ""), part) {
			t.Errorf("canonical form %s lacks %s", canonical, part)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	c := load(t, file)
	build := func() *a2a.AgentCard { return card.Build(c.Agents["delivery"], "delivery", "https://a.example", "") }
	after := build()
	after.Version = "1.5.0"
	after.IconURL = nil
	after.Skills[0].Tags = []string{"logistics", "dock"}
	after.Skills = append(after.Skills, a2a.AgentSkill{ID: "cancel", Name: "C", Description: "D", Tags: []string{"t"}})
	after.SupportedInterfaces = after.SupportedInterfaces[:1]
	after.SupportedInterfaces[0].URL = "https://b.example/rpc"
	after.Signatures = []a2a.AgentCardSignature{{Protected: "x", Signature: "y"}}
	var got []string
	for _, change := range card.Diff(build(), after) {
		got = append(got, change.String())
	}
	want := []string{
		"supportedInterfaces[JSONRPC 1.0].url: https://a.example/agents/delivery/rpc -> https://b.example/rpc",
		`supportedInterfaces[HTTP+JSON 1.0]: removed {"url":"https://a.example/agents/delivery/v1","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}`,
		`supportedInterfaces[GRPC 1.0 delivery]: removed {"url":"a.example:443","protocolBinding":"GRPC","tenant":"delivery","protocolVersion":"1.0"}`,
		"version: 1.4.0 -> 1.5.0",
		`skills[book].tags: ["logistics"] -> ["logistics","dock"]`,
		`skills[cancel]: added {"id":"cancel","name":"C","description":"D","tags":["t"]}`,
		"iconUrl: removed https://example.com/icon.png",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if changes := card.Diff(build(), build()); changes != nil {
		t.Errorf("changes of the same card: %v", changes)
	}
	swapped := build()
	slices.Reverse(swapped.SupportedInterfaces)
	if changes := card.Diff(build(), swapped); len(changes) != 1 || changes[0].Field != "supportedInterfaces" {
		t.Errorf("changes of an order: %v", changes)
	}
}
