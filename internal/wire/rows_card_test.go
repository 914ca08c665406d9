package wire_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/wire"
)

// withCard gives the agent the card of a configuration.
func withCard(t *testing.T, trusted []string, edit func(*wire.Agent)) func(*wire.Agent) {
	t.Helper()
	proxies, err := auth.ParseProxies(trusted)
	if err != nil {
		t.Fatal(err)
	}
	return func(a *wire.Agent) {
		if edit != nil {
			edit(a)
		}
		c := config.Default()
		described := config.NewAgent()
		described.Name, described.Description, described.Version = "Quote", "Quotes.", "1.0.0"
		described.Tenants = a.Tenants
		if a.Paths != (wire.Paths{}) {
			described.Paths = config.Paths(a.Paths)
		}
		described.Skills = []config.Skill{{ID: "quote", Name: "Quote", Description: "Quotes.", Tags: []string{"x"}}}
		c.Agents["quote"] = described
		publisher := card.NewPublisher(c, nil)
		a.Card = func(w http.ResponseWriter, r *http.Request, tenant string) {
			document, ok, _ := publisher.Document("quote", tenant, card.BaseURL(r, "", proxies))
			if !ok {
				http.NotFound(w, r)
				return
			}
			document.Serve(w, r, time.Minute)
		}
	}
}

// get gets a path of the server.
func (n *node) get(method, path string, edit ...func(*http.Request)) *http.Response {
	n.t.Helper()
	r, err := http.NewRequest(method, n.base+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, e := range edit {
		e(r)
	}
	response, err := n.client.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

const cardPath = "/agents/quote/.well-known/agent-card.json"

func TestRow119_CardCaching(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: withCard(t, nil, nil)})
	for _, path := range []string{cardPath, "/.well-known/agent-card.json"} {
		r := n.get("GET", path)
		text := body(t, r)
		etag := r.Header.Get("ETag")
		if r.StatusCode != 200 || etag == "" || !strings.Contains(r.Header.Get("Cache-Control"), "max-age=") {
			t.Fatalf("%s: %d %v", path, r.StatusCode, r.Header)
		}
		var c a2a.AgentCard
		if err := a2a.Unmarshal([]byte(text), &c); err != nil || c.Name != "Quote" {
			t.Fatalf("%v: %s", err, text)
		}
		if r := n.get("GET", path, header("If-None-Match", etag)); r.StatusCode != 304 {
			t.Errorf("%s again: %d", path, r.StatusCode)
		}
		if r := n.get("HEAD", path); r.StatusCode != 200 || body(t, r) != "" {
			t.Errorf("HEAD %s: %d", path, r.StatusCode)
		}
		if r := n.get("POST", path); r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("POST %s: %d %q", path, r.StatusCode, r.Header.Get("Allow"))
		}
	}
}

func TestRow121_InterfacesOfTheCardAnswer(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: withCard(t, nil, func(a *wire.Agent) { a.Tenants = []string{"acme"} })})
	for _, path := range []string{cardPath, "/agents/quote/t/acme/.well-known/agent-card.json"} {
		var c a2a.AgentCard
		if err := a2a.Unmarshal([]byte(body(t, n.get("GET", path))), &c); err != nil {
			t.Fatal(err)
		}
		bindings := map[string]bool{}
		for _, i := range c.SupportedInterfaces {
			bindings[i.ProtocolBinding] = true
			params, _ := json.Marshal(send("echo x"))
			at, text := i.URL, string(params)
			switch i.ProtocolBinding {
			case a2a.BindingJSONRPC:
				text = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + strings.Replace(text, "{", `{"tenant":"`+i.Tenant+`",`, 1) + `}`
			case a2a.BindingREST:
				at += "/message:send"
				if i.Tenant != "" {
					at = i.URL + "/" + i.Tenant + "/message:send"
				}
			default:
				continue
			}
			for _, slash := range []string{"", "/"} {
				r, _ := http.NewRequest("POST", i.URL+slash, strings.NewReader("{}"))
				response, err := n.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				if response.StatusCode == 404 || response.StatusCode == 405 {
					t.Errorf("POST %s: %d", i.URL+slash, response.StatusCode)
				}
			}
			r, _ := http.NewRequest("POST", at, strings.NewReader(text))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("A2A-Version", i.ProtocolVersion)
			response, err := n.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			got := body(t, response)
			_ = response.Body.Close()
			if response.StatusCode != 200 || !strings.Contains(got, "TASK_STATE_COMPLETED") {
				t.Errorf("%s at %s: %d %s", i.ProtocolBinding, at, response.StatusCode, got)
			}
		}
		if !bindings[a2a.BindingJSONRPC] || !bindings[a2a.BindingREST] {
			t.Errorf("bindings %v", bindings)
		}
	}
}

func TestRow122_CardBehindAProxy(t *testing.T) {
	t.Parallel()
	forwarded := func(r *http.Request) {
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header.Set("X-Forwarded-Host", "pub.example")
		r.Header.Set("X-Forwarded-Prefix", "/a")
	}
	n := newNode(t, setting{agent: withCard(t, []string{"127.0.0.0/8"}, nil)})
	if got := body(t, n.get("GET", cardPath, forwarded)); !strings.Contains(got, `"url":"https://pub.example/a/agents/quote/rpc"`) {
		t.Errorf("trusted: %s", got)
	}
	n = newNode(t, setting{agent: withCard(t, nil, nil)})
	if got := body(t, n.get("GET", cardPath, forwarded)); strings.Contains(got, "pub.example") || !strings.Contains(got, n.base) {
		t.Errorf("not trusted: %s", got)
	}
}

func TestPathsCanBeMoved(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: withCard(t, nil, func(a *wire.Agent) {
		a.Paths = wire.Paths{JSONRPC: "/a2a", REST: "rest/api", Card: "card.json"}
	})})
	n.url = n.base + "/agents/quote/"
	if r := n.get("GET", "/agents/quote/card.json"); r.StatusCode != 200 {
		t.Errorf("card: %d", r.StatusCode)
	}
	for _, c := range []struct {
		b    binding
		path string
	}{{rpc, "/a2a"}, {rpc, "/a2a/"}, {rest, "/agents/quote/rest/api/message:send"}} {
		if a := n.call(c.b, "SendMessage", send("echo x"), func(r *http.Request) { r.URL.Path = c.path }); a.Status != 200 || a.Error != nil {
			t.Errorf("%s: %d %s", c.path, a.Status, a.Body)
		}
	}
	if a := n.call(rest, "SendMessage", send("echo x")); a.Status != 404 {
		t.Errorf("the default path: %d", a.Status)
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{
		agent: withCard(t, nil, nil),
		options: func(o *wire.Options) {
			o.CORS = wire.CORS{Origins: []string{"https://app.example"}, Headers: []string{"X-Mine"}, MaxAge: time.Minute}
			o.Auth = testCallers{&auth.Anonymous{Policy: auth.PolicyEverywhere}}
		},
	})
	preflight := func(r *http.Request) {
		r.Header.Set("Origin", "https://app.example")
		r.Header.Set("Access-Control-Request-Method", "POST")
		r.Header.Set("Access-Control-Request-Headers", "a2a-version,content-type,x-mine")
	}
	for _, path := range []string{"/agents/quote/rpc", "/agents/quote/v1/message:stream", cardPath} {
		r := n.get("OPTIONS", path, preflight)
		if r.StatusCode != 204 || r.Header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
			!strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), "A2A-Version") ||
			!strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), "X-Mine") ||
			r.Header.Get("Access-Control-Max-Age") != "60" {
			t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
		}
		r = n.get("OPTIONS", path, preflight, header("Origin", "https://evil.example"))
		if r.Header.Get("Access-Control-Allow-Origin") != "" || r.Header.Get("Vary") != "Origin" {
			t.Errorf("%s for another origin: %v", path, r.Header)
		}
	}
	for _, b := range []binding{rpc, rest} {
		a := n.call(b, "GetTask", object{"id": "x"}, header("Origin", "https://app.example"))
		if a.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "A2A-Extensions") {
			t.Errorf("%s: %v", b, a.Header)
		}
	}
}

// Naming an origin lets its pages call as local programs do; letting any page
// read answers does not.
func TestListedOriginsAreLocalCallers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listed, origin string
		status         int
	}{
		{"https://app.example", "https://app.example", 200},
		{"https://app.example", "https://evil.example", 401},
		{"*", "https://evil.example", 401},
		{"*", "*", 401},
	} {
		n := newNode(t, setting{options: func(o *wire.Options) { o.CORS = wire.CORS{Origins: []string{c.listed}} }})
		a := n.call(rest, "ListTasks", object{}, header("Origin", c.origin))
		if a.Status != c.status || c.status == 401 && !strings.Contains(a.Error.Message, "Origin is") {
			t.Errorf("%+v: %d %s", c, a.Status, a.Body)
		}
		if a := n.call(rest, "ListTasks", object{}, header("Origin", c.origin), func(r *http.Request) { r.Host = "evil.example" }); a.Status != 401 {
			t.Errorf("%+v, under another name: %d", c, a.Status)
		}
	}
}

// plain hides everything that a response writer can do beside writing.
type plain struct{ inner http.ResponseWriter }

func (p plain) Header() http.Header         { return p.inner.Header() }
func (p plain) WriteHeader(status int)      { p.inner.WriteHeader(status) }
func (p plain) Write(b []byte) (int, error) { return p.inner.Write(b) }
func (p plain) Unwrap() http.ResponseWriter { return p.inner }

func TestStreamsFlushThroughMiddleware(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{wrap: func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(plain{w}, r) })
		}})
		s := n.stream(b, "SendStreamingMessage", send("never"))
		s.must()
		s.must()
	})
}

func TestHTTP2WithoutTLS(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{options: func(o *wire.Options) {
			o.KeepAlive, o.WriteTimeout = 100*time.Millisecond, time.Second
		}})
		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(true)
		n.client = &http.Client{Transport: &http.Transport{Protocols: protocols}}
		n.sent(b, send("echo x"))
		// Longer than the time for one write: an idle stream must not end.
		s := n.stream(b, "SendStreamingMessage", send("slow 40"))
		if s.response.ProtoMajor != 2 {
			t.Errorf("HTTP/%d", s.response.ProtoMajor)
		}
		events := s.rest()
		if last := events[len(events)-1]; last.state() != "TASK_STATE_COMPLETED" {
			t.Errorf("last frame %s", last.Data)
		}
		_, refused := n.open(b, "SendMessage", send("echo "+strings.Repeat("x", 17<<20)))
		if refused.Status != 413 || !bytes.Contains(refused.Body, []byte("16777216")) {
			t.Errorf("%d %.200s", refused.Status, refused.Body)
		}
	})
}
