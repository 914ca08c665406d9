package handoff_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/crypto/bcrypt"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/agent"
)

// guardedTools is a node whose callers of tools have to authenticate.
type guardedTools struct {
	guarded
	calls chan http.Header // of each call of a tool, as its server has got it
}

// headerServer is a tool server that remembers the headers of calls.
func headerServer(t *testing.T) (url string, calls chan http.Header) {
	t.Helper()
	calls = make(chan http.Header, 100)
	s := mcp.NewServer(&mcp.Implementation{Name: "erp", Version: "1"}, nil)
	for _, name := range []string{"stock", "draft", "post"} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Does something"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			calls <- r.Extra.Header
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
		})
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, calls
}

func newGuardedTools(t *testing.T, further string) *guardedTools {
	t.Helper()
	url, calls := headerServer(t)
	g := &guardedTools{guarded{issuer: newIssuer(t), log: &lockedBuffer{}}, calls}
	hash, err := bcrypt.GenerateFromPassword([]byte(adminPassword), 10)
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, filepath.Join(t.TempDir(), "handoff.yaml"), `
store: sqlite:tasks.db
secret_key: "0123456789abcdef0123456789abcdef"
callers:
  keys: true
  oidc: [{issuer: "`+g.issuer.URL+`", audience: agents}]
  basic: [{user: root, password_hash: "`+string(hash)+`", role: admin}]
mcp:
  scopes: [tools]
  servers:
    erp: {url: "`+url+`", headers: {X-Upstream-Key: "the-key-of-the-server"}, tools: {stock: {}, draft: {scopes: ["erp:read", "erp:write"]}}}
    other: {url: "`+url+`", tools: {stock: {name: other_stock}}}
  sets: {buyers: {tools: ["erp.*"]}}
`+further)
	g.node, err = handoff.New(c, handoff.Options{Logger: slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	open := handoff.NewCard("Open", "Answers.", "1.0.0", handoff.Skill{ID: "a", Name: "A", Description: "A.", Tags: []string{"x"}})
	if err := g.node.Handle("open", open, func(_ context.Context, turn *agent.Turn) error { return turn.Ask("What?", nil) }); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g.node)
	g.url = server.URL
	t.Cleanup(func() {
		server.Close()
		if err := g.node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// tokenFor is a token for an audience.
func (g *guardedTools) tokenFor(t *testing.T, audience, scope string) string {
	t.Helper()
	return g.issuer.sign(t, map[string]any{"iss": g.issuer.URL, "aud": audience, "sub": "alice", "scope": scope, "exp": time.Now().Add(time.Hour).Unix()})
}

// tool calls a tool as a client of revision 2026-07-28 does.
func (g *guardedTools) tool(t *testing.T, path, tool string, headers ...string) (status int, header http.Header, answer string) {
	t.Helper()
	return g.request(t, http.DefaultClient, path, tool, strings.NewReader(toolCall(tool)), headers...)
}

func toolCall(tool string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
}

func (g *guardedTools) request(t *testing.T, c *http.Client, path, tool string, body io.Reader, headers ...string) (status int, header http.Header, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		r.Header.Set(name, value)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(data)
}

const behindProxy = `
public_url: https://agents.example
`

// AUT-02, AUT-03, AUT-13: each endpoint is a resource with a document of its own.
func TestEachToolEndpointIsAResource(t *testing.T) {
	t.Parallel()
	g := newGuardedTools(t, behindProxy)
	for _, path := range []string{"/mcp", "/mcp/erp", "/mcp/s/buyers"} {
		response, err := http.Get(g.url + "/.well-known/oauth-protected-resource" + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		want := `{"resource":"https://agents.example` + path + `","authorization_servers":["` + g.issuer.URL + `"],"scopes_supported":["tools"],"bearer_methods_supported":["header"],"resource_name":"Handoff"}`
		if response.StatusCode != 200 || string(body) != want {
			t.Errorf("%d %s\nwant %s", response.StatusCode, body, want)
		}
	}
}

// AUT-06, AUT-08, AUT-09, AUT-10, AUT-23: who is refused, with what.
func TestRefusedCallersOfTools(t *testing.T) {
	t.Parallel()
	g := newGuardedTools(t, behindProxy)
	key, _ := g.key(t, `{"subject":"erp","scopes":["tools"]}`)
	viewer, _ := g.key(t, `{"subject":"erp","role":"viewer","scopes":["tools"]}`)
	const inBasic = `Basic realm="handoff", charset="UTF-8"`
	meta := func(path string) string {
		return `resource_metadata="https://agents.example/.well-known/oauth-protected-resource` + path + `"`
	}
	first := func(path string) []string {
		return []string{`Bearer realm="handoff", scope="tools", ` + meta(path), inBasic}
	}
	invalid := func(path, message string) []string {
		return []string{`Bearer realm="handoff", error="invalid_token", error_description="` + message + `", scope="tools", ` + meta(path), inBasic}
	}
	lacks := func(message, scopes string) []string {
		return []string{`Bearer realm="handoff", error="insufficient_scope", error_description="` + message + `", scope="` + scopes + `", ` + meta("/mcp/erp")}
	}
	bearer := func(audience, scope string) []string {
		return []string{"Authorization", "Bearer " + g.tokenFor(t, audience, scope)}
	}
	const (
		erp     = "https://agents.example/mcp/erp"
		foreign = "The token is for another audience"
	)
	stranger := newIssuer(t)
	foreigner := stranger.sign(t, map[string]any{"iss": stranger.URL, "aud": erp, "sub": "alice", "scope": "tools", "exp": time.Now().Add(time.Hour).Unix()})
	forged := stranger.sign(t, map[string]any{"iss": g.issuer.URL, "aud": erp, "sub": "alice", "scope": "tools", "exp": time.Now().Add(time.Hour).Unix()})
	expired := g.issuer.sign(t, map[string]any{"iss": g.issuer.URL, "aud": erp, "sub": "alice", "scope": "tools", "exp": time.Now().Add(-time.Hour).Unix()})
	for name, tt := range map[string]struct {
		path, tool string
		headers    []string
		code       int
		challenges []string
	}{
		"nobody, merged":                {"/mcp", "stock", nil, 401, first("/mcp")},
		"nobody, a server":              {"/mcp/erp", "stock", nil, 401, first("/mcp/erp")},
		"nobody, a set":                 {"/mcp/s/buyers", "stock", nil, 401, first("/mcp/s/buyers")},
		"nobody, no such server":        {"/mcp/nosuch", "stock", nil, 401, first("/mcp/nosuch")},
		"a token of the agents":         {"/mcp/erp", "stock", bearer("agents", "tools"), 401, invalid("/mcp/erp", foreign)},
		"a token of all tools":          {"/mcp/erp", "stock", bearer("https://agents.example/mcp", "tools"), 401, invalid("/mcp/erp", foreign)},
		"a token of a server":           {"/mcp", "stock", bearer(erp, "tools"), 401, invalid("/mcp", foreign)},
		"a token of another server":     {"/mcp/other", "other_stock", bearer(erp, "tools"), 401, invalid("/mcp/other", foreign)},
		"a token of the node":           {"/mcp/erp", "stock", bearer("https://agents.example", "tools"), 401, invalid("/mcp/erp", foreign)},
		"an issuer nobody knows":        {"/mcp/erp", "stock", []string{"Authorization", "Bearer " + foreigner}, 401, invalid("/mcp/erp", "The issuer of the token is not known here")},
		"the signature of somebody":     {"/mcp/erp", "stock", []string{"Authorization", "Bearer " + forged}, 401, invalid("/mcp/erp", "The signature of the token is wrong")},
		"a token that has expired":      {"/mcp/erp", "stock", []string{"Authorization", "Bearer " + expired}, 401, invalid("/mcp/erp", "The token has expired")},
		"a token in the query":          {"/mcp/erp?access_token=" + g.tokenFor(t, erp, "tools"), "stock", nil, 401, first("/mcp/erp")},
		"a key that is wrong":           {"/mcp/erp", "stock", []string{"X-API-Key", key[:len(key)-1] + "!"}, 401, invalid("/mcp/erp", "The API key is not one of this node's")},
		"without the endpoint's scope":  {"/mcp/erp", "stock", bearer(erp, "other"), 403, lacks("The credential lacks the scope tools for these tools", "tools")},
		"without the tool's scopes":     {"/mcp/erp", "draft", bearer(erp, "tools erp:read"), 403, lacks("The credential lacks scopes: tools erp:read erp:write are needed", "tools erp:read erp:write")},
		"a key without the tool's":      {"/mcp/erp", "draft", []string{"X-API-Key", key}, 403, lacks("The credential lacks scopes: tools erp:read erp:write are needed", "tools erp:read erp:write")},
		"a viewer":                      {"/mcp/erp", "stock", []string{"X-API-Key", viewer}, 403, nil},
		"a hidden tool takes no scopes": {"/mcp/erp", "post", bearer(erp, "tools"), 200, nil},
	} {
		status, header, body := g.tool(t, tt.path, tt.tool, tt.headers...)
		if status != tt.code {
			t.Errorf("%s: status %d: %s", name, status, body)
		}
		if diff := cmp.Diff(tt.challenges, header.Values("Www-Authenticate")); diff != "" {
			t.Errorf("%s: challenges:\n%s", name, diff)
		}
		if !json.Valid([]byte(body)) || !strings.Contains(body, `"error":{"code":`) {
			t.Errorf("%s: body %s", name, body)
		}
	}
	if len(g.calls) != 0 {
		t.Errorf("%d calls have reached the server", len(g.calls))
	}
	if log := g.log.String(); strings.Contains(log, "eyJ") || strings.Contains(log, key) || strings.Contains(log, "the-key-of-the-server") {
		t.Error("a credential is in the log")
	}
}

// AUT-06: a token for tools is none for agents.
func TestATokenForToolsIsNoneForAgents(t *testing.T) {
	t.Parallel()
	g := newGuardedTools(t, behindProxy)
	for _, audience := range []string{"https://agents.example/mcp", "https://agents.example/mcp/erp"} {
		if status, _, body := g.send(t, "rest", "open", "", "Authorization", "Bearer "+g.tokenFor(t, audience, "tools")); status != 401 {
			t.Errorf("%s: %d %s", audience, status, body)
		}
	}
	if status, _, body := g.send(t, "rest", "open", "", "Authorization", "Bearer "+g.tokenFor(t, "agents", "tools")); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

// AUT-05, AUT-07, SEC-02: who is let in, and what of it the server gets: nothing.
func TestAcceptedCallersOfTools(t *testing.T) {
	t.Parallel()
	g := newGuardedTools(t, behindProxy)
	key, _ := g.key(t, `{"subject":"erp","scopes":["tools"]}`)
	token := g.tokenFor(t, "https://agents.example/mcp/erp", "tools erp:read erp:write")
	for name, tt := range map[string]struct {
		path, tool string
		headers    []string
	}{
		"a token":            {"/mcp/erp", "draft", []string{"Authorization", "Bearer " + token}},
		"a slash at the end": {"/mcp/erp/", "stock", []string{"Authorization", "Bearer " + token}},
		"a token for all":    {"/mcp", "other_stock", []string{"Authorization", "Bearer " + g.tokenFor(t, "https://agents.example/mcp", "tools")}},
		"a token for a set":  {"/mcp/s/buyers", "stock", []string{"Authorization", "Bearer " + g.tokenFor(t, "https://agents.example/mcp/s/buyers", "tools")}},
		"a key":              {"/mcp/erp", "stock", []string{"X-API-Key", key}},
		"a key as a token":   {"/mcp/erp", "stock", []string{"Authorization", "Bearer " + key}},
	} {
		status, _, body := g.tool(t, tt.path, tt.tool, append(tt.headers, "Cookie", "session=of-the-client", "X-Anything", "of-the-client")...)
		if status != 200 || !strings.Contains(body, "done") {
			t.Errorf("%s: %d %s", name, status, body)
			continue
		}
		header := <-g.calls
		for got, values := range header {
			all := strings.Join(values, " ")
			if strings.Contains(all, "eyJ") || strings.Contains(all, key) || strings.Contains(all, "of-the-client") {
				t.Errorf("%s: the server gets %s: %s", name, got, all)
			}
		}
		if tt.tool != "other_stock" && header.Get("X-Upstream-Key") != "the-key-of-the-server" {
			t.Errorf("%s: the server gets %v", name, header)
		}
	}
	if log := g.log.String(); strings.Contains(log, "eyJ") || strings.Contains(log, key) || strings.Contains(log, "the-key-of-the-server") {
		t.Error("a credential is in the log")
	}
}

// AUT-23: scopes are decided by the header alone, before a body is there.
func TestScopesAreDecidedBeforeTheBody(t *testing.T) {
	t.Parallel()
	g := newGuardedTools(t, behindProxy)
	key, _ := g.key(t, `{"subject":"erp","scopes":["tools"]}`)
	for name, headers := range map[string][]string{"scopes": {"X-API-Key", key}, "nobody": nil} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		head := "POST /mcp/erp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: draft\r\nContent-Length: 1000000\r\n"
		for i := 0; i < len(headers); i += 2 {
			head += headers[i] + ": " + headers[i+1] + "\r\n"
		}
		if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 12)
		if _, err := io.ReadFull(conn, answer); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := map[bool]string{true: "HTTP/1.1 403", false: "HTTP/1.1 401"}[headers != nil]; string(answer) != want {
			t.Errorf("%s: got %s", name, answer)
		}
	}
}

// Without public_url nobody knows what an endpoint is called, and the audience of
// the issuer counts.
func TestAudienceWithoutAPublicURL(t *testing.T) {
	t.Parallel()
	g := newGuardedTools(t, "")
	if status, _, body := g.tool(t, "/mcp/erp", "stock", "Authorization", "Bearer "+g.tokenFor(t, "agents", "tools")); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, _, body := g.tool(t, "/mcp/erp", "stock", "Authorization", "Bearer "+g.tokenFor(t, g.url+"/mcp/erp", "tools")); status != 401 {
		t.Errorf("the name that the client has for the endpoint is believed: %d %s", status, body)
	}
}

// SEC-05, TRN-02: pages of others, and names that are bound to this machine.
func TestForeignPagesDoNotReachTools(t *testing.T) {
	t.Parallel()
	url, calls := headerServer(t)
	for name, further := range map[string]string{"direct": "", "behind a proxy": "\ntrusted_proxies: [127.0.0.1/32]\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), `
store: sqlite:tasks.db
callers: {anonymous: everywhere}
mcp: {origins: ["https://app.example"], servers: {erp: {url: "`+url+`"}}}
`+behindProxy+further), handoff.Options{})
			g := &guardedTools{guarded{url: server.URL}, nil}
			for _, tt := range []struct {
				headers       []string
				direct, proxy int
			}{
				{nil, 200, 200},
				{[]string{"Origin", "https://app.example"}, 200, 200},
				{[]string{"Origin", "https://evil.example"}, 403, 403},
				{[]string{"Origin", "null"}, 403, 403},
				{[]string{"Origin", "http://localhost:3000"}, 200, 403},
				{[]string{"Origin", "http://localhost.evil.example"}, 403, 403},
				{[]string{"Origin", "https://app.example", "Origin", "https://evil.example"}, 403, 403},
				{[]string{"Host", "rebound.example:8080"}, 403, 200},
				{[]string{"Host", "rebound.example:8080", "Origin", "http://rebound.example:8080"}, 403, 403},
				{[]string{"Host", "agents.example"}, 200, 200},
				{[]string{"Host", "localhost:8080"}, 200, 200},
			} {
				want := tt.direct
				headers := tt.headers
				if further != "" {
					want, headers = tt.proxy, append(slices.Clone(headers), "X-Forwarded-For", "203.0.113.7")
				}
				status, _, body := g.tool(t, "/mcp", "stock", headers...)
				if status != want {
					t.Errorf("%v: %d %s", tt.headers, status, body)
				}
				if status == 200 {
					<-calls
				}
			}
		})
	}
}

// Anonymous callers get what the policy for them says, and a certificate is as good
// as a key.
func TestCertificatesOfCallersOfTools(t *testing.T) {
	t.Parallel()
	url, calls := headerServer(t)
	dir := t.TempDir()
	ca, certificate := certify(t, dir)
	c := load(t, filepath.Join(dir, "handoff.yaml"), `
store: sqlite:tasks.db
socket: `+filepath.Join(shortDir(t), "s.sock")+`
tls: {cert: server.pem, key: server.key, client_ca: ca.pem, client_auth: optional}
callers: {anonymous: off, mtls: {rules: [{match: "erp.*", role: caller, scopes: [tools]}]}}
mcp: {scopes: [tools], servers: {erp: {url: "`+url+`"}}}
`)
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	g := &guardedTools{guarded{url: "https://" + listener.Addr().String()}, nil}
	for _, known := range []bool{true, false} {
		options := &tls.Config{RootCAs: ca}
		want := 401
		if known {
			options.Certificates, want = []tls.Certificate{certificate}, 200
		}
		transport := &http.Transport{TLSClientConfig: options}
		defer transport.CloseIdleConnections()
		status, header, body := g.request(t, &http.Client{Transport: transport}, "/mcp/erp", "stock", strings.NewReader(toolCall("stock")))
		if status != want {
			t.Errorf("%d %v %s", status, header, body)
		}
	}
	if len(calls) != 1 {
		t.Errorf("%d calls have reached the server", len(calls))
	}
}
