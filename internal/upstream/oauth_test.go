package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/upstream"
)

// world is a server that asks for tokens, its authorization server, and the pages of
// the node.
type world struct {
	t       *testing.T
	server  *httptest.Server
	issuer  *httptest.Server
	pages   *httptest.Server
	login   *upstream.Login
	servers *upstream.Servers
	store   *sqlite.Store
	// signedIn is whose browser it is, where that is known.
	signedIn *auth.Principal
	away     atomic.Bool // the inbox is

	mu       sync.Mutex
	good     map[string]string // tokens, with their scopes
	n        int
	forms    []url.Values // that the token endpoint has got
	asked    []url.Values // that the authorization endpoint has got
	register int
	needs    string // scopes of the challenge
	resource string // "": right
	noPKCE   bool
	iss      string // "": right; "-": none
	seen     []string
}

func newWorld(t *testing.T, change func(*config.MCPServer)) *world {
	w := &world{t: t, good: map[string]string{}, needs: "read"}
	w.issuer = serve(t, http.HandlerFunc(w.serveIssuer))
	tools := script(func(rw http.ResponseWriter, r *http.Request) {
		reply("application/json", `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"in"}]}}`)(rw, r)
	})
	w.server = serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
			w.mu.Lock()
			defer w.mu.Unlock()
			resource := w.resource
			if resource == "" {
				resource = w.server.URL + "/mcp"
			}
			fmt.Fprintf(rw, `{"resource":%q,"authorization_servers":[%q],"scopes_supported":["read"]}`, resource, w.issuer.URL)
			return
		}
		if !w.let(rw, r) {
			return
		}
		tools.ServeHTTP(rw, r)
	}))
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	sealer, err := auth.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	w.store = s
	w.login = upstream.NewLogin(upstream.LoginOptions{Docs: s, Sealer: sealer, Inbox: inbox{s, &w.away}, Identify: func(*http.Request) *auth.Principal { return w.signedIn }, BaseURL: func() string { return w.pages.URL }})
	w.pages = serve(t, w.login)
	c := config.NewMCPServer(w.server.URL + "/mcp")
	c.Auth.OAuth = &config.MCPOAuth{Flow: config.PeerFlowAuthorizationCode}
	if change != nil {
		change(c)
	}
	w.servers = servers(t, c, upstream.Options{Login: w.login})
	return w
}

// let asks for a token with the scopes that are needed.
func (w *world) let(rw http.ResponseWriter, r *http.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.seen = append(w.seen, token)
	scopes, ok := w.good[token]
	meta := fmt.Sprintf(`resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, w.server.URL)
	switch {
	case !ok:
		rw.Header().Set("WWW-Authenticate", `Basic realm="x, y", Bearer `+meta+`, scope="`+w.needs+`"`)
		rw.WriteHeader(http.StatusUnauthorized)
	case !strings.Contains(" "+scopes+" ", " "+w.needs+" "):
		rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+w.needs+`", `+meta)
		rw.WriteHeader(http.StatusForbidden)
	default:
		return true
	}
	return false
}

func (w *world) serveIssuer(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json")
	base := w.issuer.URL
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		pkce := `,"code_challenge_methods_supported":["S256"]`
		if w.noPKCE {
			pkce = ""
		}
		fmt.Fprintf(rw, `{"issuer":%q,"authorization_endpoint":"%s/authorize","token_endpoint":"%s/token","registration_endpoint":"%s/register","authorization_response_iss_parameter_supported":true,"token_endpoint_auth_methods_supported":["client_secret_post"]%s}`, base, base, base, base, pkce)
	case "/register":
		w.register++
		rw.WriteHeader(201)
		io.WriteString(rw, `{"client_id":"registered","client_secret":"sssss","token_endpoint_auth_method":"client_secret_post"}`)
	case "/authorize":
		q := r.URL.Query()
		w.asked = append(w.asked, q)
		back := q.Get("redirect_uri") + "?code=c&state=" + url.QueryEscape(q.Get("state"))
		if w.iss == "" {
			back += "&iss=" + url.QueryEscape(base)
		} else if w.iss != "-" {
			back += "&iss=" + url.QueryEscape(w.iss)
		}
		http.Redirect(rw, r, back, http.StatusFound)
	case "/token":
		r.ParseForm()
		w.forms = append(w.forms, r.PostForm)
		w.n++
		token := fmt.Sprintf("token-%d", w.n)
		scope := r.PostForm.Get("scope")
		if len(w.asked) > 0 && scope == "" {
			scope = w.asked[len(w.asked)-1].Get("scope")
		}
		w.good[token] = scope
		fmt.Fprintf(rw, `{"access_token":%q,"token_type":"bearer","expires_in":3600,"refresh_token":"r%d"}`, token, w.n)
	default:
		rw.WriteHeader(404)
	}
}

// visit opens a link as a browser does, and confirms.
func (w *world) visit(link string) (status int, page string) {
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := browser.Get(link)
	if err != nil {
		w.t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	r.Body.Close()
	if strings.Contains(string(body), "<form") {
		form := r.Request.URL
		if r, err = browser.PostForm(form.String(), url.Values{"state": {form.Query().Get("state")}}); err != nil {
			w.t.Fatal(err)
		}
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	return r.StatusCode, string(body)
}

func (w *world) call(p *auth.Principal, params, capabilities string) *mcp.Message {
	w.t.Helper()
	r := request(mcp.MethodCallTool, `{"name":"x","arguments":{}`+params+`}`, capabilities)
	r.Caller = p
	return must(w.t, only(w.t, w.servers), r).Response
}

const canVisit = `{"elicitation":{"url":{}}}`

// link returns the link of the answer that asks for a login.
func (w *world) link(m *mcp.Message) string {
	w.t.Helper()
	var result struct {
		Requests map[string]struct {
			Params struct{ URL, Mode string }
		} `json:"inputRequests"`
	}
	if err := m.Decode(&result); err != nil || m.ResultType != mcp.ResultInputRequired || len(result.Requests) != 1 {
		w.t.Fatalf("got %s, %v", m.Body, err)
	}
	text := string(m.Body)
	i := strings.Index(text, w.pages.URL)
	return text[i : i+strings.IndexByte(text[i:], '"')]
}

func TestLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sari, budi := &auth.Principal{Subject: "sari"}, &auth.Principal{Subject: "budi"}
	// A list cannot send anybody to a page.
	list := request(mcp.MethodListTools, "{}", canVisit)
	list.Caller = sari
	if _, err := ask(t, only(t, w.servers), list); !errors.Is(err, upstream.ErrLogin) || codeOf(err) != mcp.CodeDenied {
		t.Errorf("got %v", err)
	}
	if got := w.call(sari, "", "").Error(); got == nil || got.Code != mcp.CodeMissingCapability {
		t.Errorf("got %v", got)
	}
	link := w.link(w.call(sari, "", canVisit))
	status, page := w.visit(link)
	if status != 200 || !strings.Contains(page, "You are logged in") {
		t.Fatalf("%d, %s", status, page)
	}
	if status, _ := w.visit(link); status != 404 { // once
		t.Errorf("status %d", status)
	}
	if got := w.call(sari, `,"inputResponses":{"handoff-login":{"action":"accept"}}`, canVisit); !strings.Contains(string(got.Body), `"in"`) {
		t.Errorf("got %s", got.Body)
	}
	// One credential per caller.
	if got := w.call(budi, "", canVisit); got.ResultType != mcp.ResultInputRequired {
		t.Errorf("got %s", got.Body)
	}
	if got := w.call(budi, `,"inputResponses":{"handoff-login":{"action":"decline"}}`, canVisit).Error(); got == nil || got.Code != mcp.CodeDenied {
		t.Errorf("got %v", got)
	}
	q, form := w.asked[0], w.forms[0]
	if q.Get("resource") != w.server.URL+"/mcp" || form.Get("resource") != w.server.URL+"/mcp" || q.Get("scope") != "read" || q.Get("code_challenge_method") != "S256" || q.Get("client_id") != "registered" || form.Get("client_secret") != "sssss" {
		t.Errorf("got %v, %v", q, form)
	}
	// A token that the server takes no more is refreshed, once for all.
	w.mu.Lock()
	delete(w.good, "token-1")
	w.mu.Unlock()
	var both sync.WaitGroup
	for range 5 {
		both.Go(func() {
			r := call("x", "{}")
			r.Caller = sari
			if got, err := ask(t, only(t, w.servers), r); err != nil || !strings.Contains(string(got.Response.Body), `"in"`) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	both.Wait()
	if len(w.forms) != 2 || w.forms[1].Get("refresh_token") != "r1" || w.register != 1 {
		t.Errorf("got %v, %d registrations", w.forms, w.register)
	}
}

// inbox keeps items in a store.
type inbox struct {
	store *sqlite.Store
	away  *atomic.Bool // nothing is taken
}

func (i inbox) Raise(ctx context.Context, item *store.InboxItem) error {
	if i.away.Load() {
		return store.ErrUnavailable
	}
	item.Created = time.Now()
	return i.store.Commit(ctx, &store.Change{Item: item})
}

func (i inbox) Settle(ctx context.Context, id, by, decision string) error {
	return i.store.UpdateInbox(ctx, reach, &store.InboxUpdate{
		ID: id, Settle: &store.InboxSettle{ID: id, By: by, Decision: decision}, Entry: store.InboxEntry{By: by, What: decision},
	})
}

var reach = auth.Reach(&auth.Principal{Role: auth.RoleAdmin})

// items returns the items of a principal.
func (w *world) items(p *auth.Principal, settled bool) []store.InboxItem {
	w.t.Helper()
	page, err := w.store.InboxItems(w.t.Context(), auth.Reach(p), store.InboxQuery{Settled: settled, PageSize: 10})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Items
}

// Where the client of a caller can show no pages, the login is in the inbox, of the
// caller alone and once.
func TestLoginByInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sari, budi := &auth.Principal{Subject: "sari", Role: auth.RoleCaller}, &auth.Principal{Subject: "budi", Role: auth.RoleCaller}
	for range 3 {
		if got := w.call(sari, "", "").Error(); got == nil || got.Code != mcp.CodeMissingCapability || !strings.Contains(got.Message, "inbox") {
			t.Fatalf("got %v", got)
		}
	}
	if n := len(w.items(budi, false)); n != 0 {
		t.Errorf("somebody else sees %d items", n)
	}
	items := w.items(sari, false)
	if len(items) != 1 || items[0].Kind != store.InboxLogin || items[0].Owner != "sari" {
		t.Fatalf("got %+v", items)
	}
	link := items[0].URL
	if strings.Contains(link, "sari") {
		t.Errorf("the link %s names the caller", link)
	}
	if status, _ := w.visit(link[:len(link)-1]); status != 404 {
		t.Errorf("another item: status %d", status)
	}
	if status, page := w.visit(link); status != 200 || !strings.Contains(page, "You are logged in") {
		t.Fatalf("%d, %s", status, page)
	}
	if got := w.call(sari, "", ""); !strings.Contains(string(got.Body), `"in"`) {
		t.Errorf("got %s", got.Body)
	}
	if open, settled := w.items(sari, false), w.items(sari, true); len(open) != 0 || len(settled) != 1 || settled[0].Decision != "gone on" || settled[0].By != "sari" {
		t.Errorf("got %+v, %+v", open, settled)
	}
	if status, _ := w.visit(link); status != 404 { // once
		t.Errorf("status %d", status)
	}
}

// What could not be put into the inbox is put there by the next call.
func TestLoginByInboxThatWasAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sari := &auth.Principal{Subject: "sari", Role: auth.RoleCaller}
	r := request(mcp.MethodCallTool, `{"name":"x","arguments":{}}`, "")
	r.Caller = sari
	w.away.Store(true)
	if _, err := ask(t, only(t, w.servers), r); err == nil {
		t.Error("nobody was told")
	}
	w.away.Store(false)
	w.call(sari, "", "")
	w.call(sari, "", "")
	if n := len(w.items(sari, false)); n != 1 {
		t.Errorf("there are %d items", n)
	}
}

// Whoever has signed in to the node as somebody else does not go on with a login
// (ELI-03).
func TestALoginIsForWhoHasBegunIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sari, budi := &auth.Principal{Subject: "sari", Role: auth.RoleCaller}, &auth.Principal{Subject: "budi", Role: auth.RoleCaller}
	link := w.link(w.call(sari, "", canVisit))
	w.signedIn = budi
	if status, page := w.visit(link); status != http.StatusForbidden || !strings.Contains(page, "somebody else") {
		t.Errorf("%d, %s", status, page)
	}
	w.signedIn = sari
	if status, page := w.visit(link); status != http.StatusOK || !strings.Contains(page, "You are logged in") {
		t.Errorf("%d, %s", status, page)
	}
}

// One account for all is asked of those who operate the node, by a list too.
func TestSharedLoginByInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.MCPServer) { c.Auth.OAuth.Shared = true })
	list := request(mcp.MethodListTools, "{}", "")
	list.Caller = &auth.Principal{Subject: "sari", Role: auth.RoleCaller}
	if _, err := ask(t, only(t, w.servers), list); !errors.Is(err, upstream.ErrLogin) {
		t.Fatalf("got %v", err)
	}
	if n := len(w.items(list.Caller, false)); n != 0 {
		t.Errorf("the caller sees %d items", n)
	}
	items := w.items(&auth.Principal{Role: auth.RoleOperator}, false)
	if len(items) != 1 {
		t.Fatalf("got %+v", items)
	}
	if status, page := w.visit(items[0].URL); status != 200 || !strings.Contains(page, "You are logged in") {
		t.Fatalf("%d, %s", status, page)
	}
	if got := w.call(list.Caller, "", ""); !strings.Contains(string(got.Body), `"in"`) {
		t.Errorf("got %s", got.Body)
	}
}

// More scopes are asked for beside those that there are, a few times only (AUT-21).
func TestStepUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	me := &auth.Principal{Local: true} // goes on without a click
	w.visit(w.link(w.call(me, "", canVisit)))
	w.mu.Lock()
	w.needs = "write"
	w.mu.Unlock()
	w.visit(w.link(w.call(me, "", canVisit)))
	if got := w.asked[1].Get("scope"); got != "read write" {
		t.Errorf("asked for %q", got)
	}
	if got := w.call(me, "", canVisit); !strings.Contains(string(got.Body), `"in"`) {
		t.Errorf("got %s", got.Body)
	}
	w.mu.Lock()
	w.needs = "never given"
	w.mu.Unlock()
	for logins := 0; ; logins++ {
		r := request(mcp.MethodCallTool, `{"name":"x","arguments":{}}`, canVisit)
		r.Caller = me
		got, err := ask(t, only(t, w.servers), r)
		if err != nil {
			if codeOf(err) != mcp.CodeUnavailable || logins > 3 {
				t.Errorf("%v after %d logins", err, logins)
			}
			break
		}
		w.visit(w.link(got.Response))
		w.mu.Lock()
		for token := range w.good {
			w.good[token] = "less"
		}
		w.mu.Unlock()
	}
}

func TestLoginRefused(t *testing.T) {
	t.Parallel()
	me := &auth.Principal{Local: true}
	for name, change := range map[string]func(*world){
		"another resource": func(w *world) { w.resource = "https://other.example/mcp" },
		"a resource below": func(w *world) { w.resource = w.server.URL + "/mcp/below" },
		"no PKCE":          func(w *world) { w.noPKCE = true },
	} {
		w := newWorld(t, nil)
		change(w)
		r := request(mcp.MethodCallTool, `{"name":"x","arguments":{}}`, canVisit)
		r.Caller = me
		if _, err := ask(t, only(t, w.servers), r); codeOf(err) != mcp.CodeUnavailable || len(w.asked) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, iss := range []string{"-", "https://other.example"} {
		w := newWorld(t, nil)
		w.iss = iss
		if status, page := w.visit(w.link(w.call(me, "", canVisit))); status != 403 || len(w.forms) > 0 || strings.Contains(page, "other.example") {
			t.Errorf("iss %q: %d, %s", iss, status, page)
		}
	}
	// Another browser than the one in which it began does not end it.
	w := newWorld(t, nil)
	begun := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	link := w.link(w.call(me, "", canVisit))
	r, err := begun.Get(link)
	if err != nil || r.StatusCode != http.StatusSeeOther {
		t.Fatalf("got %v, %v", r, err)
	}
	r.Body.Close()
	u, _ := url.Parse(link)
	back := w.pages.URL + upstream.CallbackPath + "?code=c&iss=" + url.QueryEscape(w.issuer.URL) + "&state=" + url.QueryEscape(u.Query().Get("state"))
	if status, _ := w.visit(back); status != 404 || len(w.forms) > 0 {
		t.Errorf("status %d", status)
	}
	if status, _ := w.visit(link); status != 404 {
		t.Errorf("status %d", status)
	}
}

func TestClientCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.MCPServer) {
		c.Auth.OAuth = &config.MCPOAuth{Flow: config.PeerFlowClientCredentials, ClientID: "node", ClientSecret: config.NewSecret("node-secret")}
	})
	for range 2 {
		if got := w.call(nil, "", ""); !strings.Contains(string(got.Body), `"in"`) {
			t.Errorf("got %s", got.Body)
		}
	}
	if len(w.forms) != 1 || w.forms[0].Get("grant_type") != "client_credentials" || w.forms[0].Get("resource") != w.server.URL+"/mcp" || w.forms[0].Get("scope") != "read" {
		t.Errorf("got %v", w.forms)
	}
}
