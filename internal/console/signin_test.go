package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	handoff "handoff.example/handoff"
)

// cookie returns the cookie that an answer sets, nil for none.
func (s *shown) cookie(name string) *http.Cookie {
	for _, c := range (&http.Response{Header: s.header}).Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// sessionCookie is the name of the cookie with the session.
func (f *fixture) sessionCookie() string {
	u, _ := url.Parse(f.server.URL)
	return "handoff_session_" + u.Port()
}

// session returns the id of the session that a browser has.
func (p *person) session() string {
	u, _ := url.Parse(p.f.server.URL)
	for _, c := range p.client.Jar.Cookies(u) {
		if c.Name == p.f.sessionCookie() {
			return c.Value
		}
	}
	return ""
}

// leadsTo fails the test unless the answer leads to an address.
func (s *shown) leadsTo(to string) *shown {
	s.t.Helper()
	if got := s.header.Get("Location"); s.status != http.StatusSeeOther || got != to {
		s.t.Errorf("status %d and Location %q, not %q", s.status, got, to)
	}
	return s
}

func TestWhoHasNotSignedInIsAskedTo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	nobody := f.nobody()
	nobody.get("/console/").leadsTo("/console/login")
	nobody.get("/console/settings").leadsTo("/console/login?next=%2Fconsole%2Fsettings")
	nobody.get("/console/tasks?state=a&q=b").leadsTo("/console/login?next=%2Fconsole%2Ftasks%3Fstate%3Da%26q%3Db")
	nobody.post("/console/settings/keys", url.Values{"action": {"create"}}).leadsTo("/console/login")
	if got := nobody.get("/console/", "X-Live", "1"); got.status != http.StatusUnauthorized {
		t.Errorf("a live page without a session answers %d", got.status)
	}
	nobody.get("/console/login").ok().has(`name="key"`, `handoff console`).lacks(`<nav aria-label="Pages"`)
	// A program with a credential needs no session.
	key, _ := f.newKey("viewer", "robot", "")
	nobody.get("/console/settings", "X-Api-Key", key).ok().says("Signed in as robot").lacks("Sign out")
}

func TestSignInWithAKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key, id := f.newKey("operator", "mara", "acme")
	p := f.nobody()
	other, _ := f.newKey("operator", "mara", "acme")
	for _, wrong := range []string{"", "hk_", "Bearer x", key[:len(key)-1], key[:20] + other[20:], strings.Repeat("x", 500)} {
		if got := p.post("/console/login", url.Values{"key": {wrong}}); got.status != http.StatusUnauthorized || p.session() != "" {
			t.Errorf("the key %q: status %d, session %q", wrong, got.status, p.session())
		}
	}
	got := p.post("/console/login", url.Values{"key": {" " + key + "\n"}, "next": {"/console/settings?x=1"}}).leadsTo("/console/settings?x=1")
	c := got.cookie(f.sessionCookie())
	if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Secure || c.Domain != "" || c.MaxAge < 43_000 || c.MaxAge > 43_200 {
		t.Errorf("the cookie is %v", c)
	}
	if strings.Contains(got.body+got.header.Get("Location"), key) {
		t.Error("the answer has the key")
	}
	p.get("/console/settings").ok().says("Signed in as mara", "Tenant acme", "Role operator", "with an API key "+id)
	p.get("/console/login").leadsTo("/console/")
	var me struct{ How, Subject, Tenant string }
	p.api("GET", "/me", nil, &me)
	if me.How != "session" || me.Subject != "mara" || me.Tenant != "acme" {
		t.Errorf("the API sees %+v", me)
	}

	// The session is for the console and the API, and not for agents or tools.
	session := "handoff_session=" + p.session()
	for _, path := range []string{"/agents/quote/v1/tasks", "/mcp"} {
		if got := f.nobody().get(path, "Cookie", session); strings.Contains(got.body, "mara") {
			t.Errorf("%s knows the session: %s", path, got.body)
		}
	}

	if got := f.entries("POST /console/login"); !slices.Contains(got, "console mara key OK") || !slices.Contains(got, "console  key UnauthenticatedError") {
		t.Errorf("the audit log has %q", got)
	}
}

func TestSignInIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key, _ := f.newKey("viewer", "vera", "")
	p := f.nobody()
	for i := range 10 {
		if got := p.post("/console/login", url.Values{"key": {"hk_wrong"}}); got.status != http.StatusUnauthorized {
			t.Fatalf("attempt %d: status %d", i, got.status)
		}
	}
	got := p.post("/console/login", url.Values{"key": {key}})
	if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" || p.session() != "" {
		t.Errorf("after ten wrong keys: status %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
	if got := p.get(f.link()); got.status != http.StatusTooManyRequests {
		t.Errorf("a link after ten wrong keys: status %d", got.status)
	}
}

func TestImagesOfOtherPagesAreNoAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key, _ := f.newKey("viewer", "vera", "")
	for range 30 {
		f.nobody().get("/console/?once="+strings.Repeat("x", 43), "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "image")
	}
	f.nobody().post("/console/login", url.Values{"key": {key}}).leadsTo("/console/")
}

func TestALinkWorksOnceAndOnTheNodesMachine(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	link := f.link()
	// Whoever is elsewhere, or is sent by another page, does not use it up.
	for name, headers := range map[string][]string{
		"a proxy":         {"X-Forwarded-For", "203.0.113.7"},
		"another name":    {"Host", "rebound.example"},
		"a page":          {"Origin", "https://evil.example"},
		"an image":        {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "image"},
		"a proxy's name":  {"Forwarded", "for=203.0.113.7"},
		"an unknown host": {"Host", "203.0.113.7"},
	} {
		if got := f.nobody().get(link, headers...); got.status != http.StatusForbidden || got.cookie(f.sessionCookie()) != nil {
			t.Errorf("through %s: status %d", name, got.status)
		}
	}
	p := f.nobody()
	p.get(link + "&next=/console/settings").leadsTo("/console/settings")
	p.get("/console/settings").ok().says("Signed in as local admin", "Role admin", "by a link of the node")
	p.get(link).leadsTo("/console/") // who has used it is in
	if got := f.nobody().get(link); got.status != http.StatusUnauthorized || !strings.Contains(got.text(), "This link was used") {
		t.Errorf("the second time: status %d: %s", got.status, got.text())
	}
	if got := f.nobody().get("/console/?once=" + strings.Repeat("x", 43)); got.status != http.StatusUnauthorized {
		t.Errorf("a link that nobody made: status %d", got.status)
	}
	if got := f.entries("POST /console/login"); !slices.Contains(got, "console local admin link OK") {
		t.Errorf("the audit log has %q", got)
	}
	// Links are made over the socket, and not in a session.
	if got := f.admin.do("POST", "/api/v1/console-links", "application/json", "{}"); got.status != http.StatusForbidden {
		t.Errorf("an admin's session makes links: status %d", got.status)
	}
}

func TestSigningInBeginsANewSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// An id that somebody else has put there is not taken over.
	p := f.nobody()
	u, _ := url.Parse(f.server.URL)
	planted := strings.Repeat("A", 43)
	p.client.Jar.SetCookies(u, []*http.Cookie{{Name: f.sessionCookie(), Value: planted, Path: "/"}})
	key, _ := f.newKey("viewer", "vera", "")
	p.post("/console/login", url.Values{"key": {key}}).leadsTo("/console/")
	if p.session() == planted || p.session() == "" {
		t.Errorf("the session is %q", p.session())
	}
	// The one before ends with the next sign-in.
	before := p.session()
	p.post("/console/login", url.Values{"key": {key}}).leadsTo("/console/")
	f.nobody().get("/console/", "Cookie", f.sessionCookie()+"="+before).leadsTo("/console/login")
	p.get("/console/").ok()
	// Two cookies of one name: one of them is not ours.
	f.nobody().get("/console/", "Cookie", f.sessionCookie()+"="+planted+"; "+f.sessionCookie()+"="+p.session()).leadsTo("/console/login")
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.as("viewer", "vera", "")
	session := p.session()
	p.post("/console/logout", nil).leadsTo("/console/login")
	if p.session() != "" {
		t.Error("the browser still has the cookie")
	}
	thief := f.nobody()
	thief.get("/console/", "Cookie", f.sessionCookie()+"="+session).leadsTo("/console/login")
	// Nor does it make anybody an anonymous caller.
	if got := thief.get("/api/v1/me", "Cookie", f.sessionCookie()+"="+session); got.status != http.StatusUnauthorized {
		t.Errorf("the API takes a session that has ended: status %d: %s", got.status, got.body)
	}
	if got := f.entries("POST /console/logout"); !cmp.Equal(got, []string{"console vera  OK"}) {
		t.Errorf("the audit log has %q", got)
	}
}

func TestARevokedKeyEndsItsSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.as("operator", "mara", "")
	p.get("/console/settings/configuration").ok()
	f.admin.follow("/console/settings/keys", url.Values{"action": {"revoke"}, "id": {p.keyID}}).ok().says("is revoked")
	p.get("/console/").leadsTo("/console/login")
	if got := p.get("/api/v1/me"); got.status != http.StatusUnauthorized {
		t.Errorf("the API answers %d", got.status)
	}
}

func TestAfterSigningInNobodyIsSentElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key, _ := f.newKey("viewer", "vera", "")
	for _, next := range []string{
		"https://evil.example/", "//evil.example/", `/\evil.example`, `/console/\..\\evil`, "javascript:alert(1)", "/console/../api/v1/me", "/console//evil.example",
		"/console/login", "/console/logout", "/api/v1/me", "console/", "/console/\r\nX: y", "http:/console/", "/console/%2e%2e/x\x00", "", strings.Repeat("/console/", 1000),
	} {
		f.nobody().post("/console/login", url.Values{"key": {key}, "next": {next}}).leadsTo("/console/")
		f.nobody().get("/console/login?" + url.Values{"next": {next}}.Encode()).ok().has(`name="next" value="/console/"`)
	}
	f.nobody().post("/console/login", url.Values{"key": {key}, "next": {"/chat/quote"}}).leadsTo("/chat/quote")
	f.nobody().get("/console/login?next=" + url.QueryEscape(`/console/"><script>`)).ok().lacks("<script>")
}

func TestOtherOriginsChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key, id := f.newKey("viewer", "vera", "")
	for name, headers := range map[string][]string{
		"another site":      {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		"another port":      {"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"},
		"an old browser":    {"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
		"a sandboxed frame": {"Sec-Fetch-Site", "cross-site", "Origin", "null"},
	} {
		for path, form := range map[string]url.Values{
			"/console/settings/keys":          {"action": {"revoke"}, "id": {id}},
			"/console/settings/configuration": {"action": {"reload"}},
			"/console/logout":                 nil,
			"/console/login":                  {"key": {key}},
		} {
			if got := f.admin.post(path, form, headers...); got.status != http.StatusForbidden {
				t.Errorf("%s, POST %s: status %d", name, path, got.status)
			}
		}
	}
	f.admin.get("/console/settings/keys").ok().has(`value="` + id + `"`)
	// Nor does JSON for the API.
	if got := f.admin.do("DELETE", "/api/v1/keys/"+id, "application/json", "", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"); got.status != http.StatusForbidden {
		t.Errorf("the API answers %d", got.status)
	}
}

func TestOverTLSCookiesAreSecure(t *testing.T) {
	t.Parallel()
	f := startFixture(t, "trusted_proxies: [127.0.0.1]\npublic_url: https://agents.example.com/handoff"+configuration, handoff.Options{})
	key, _ := f.newKey("viewer", "vera", "")
	over := []string{"X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "https", "Origin", "https://agents.example.com"}
	got := f.nobody().post("/console/login", url.Values{"key": {key}}, over...).leadsTo("/handoff/console/")
	c := got.cookie("__Host-" + f.sessionCookie())
	if c == nil || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" {
		t.Fatalf("the cookies are %q", got.header["Set-Cookie"])
	}
	page := f.nobody().get("/console/settings", append(over, "Cookie", c.Name+"="+c.Value)...).ok()
	page.has(`href="/handoff/console/tasks"`, `data-root="/handoff/console/"`, `src="/handoff/console/assets/`, `action="/handoff/console/logout"`).lacks(`="/console/`)
	// The name without the prefix is not believed there.
	f.nobody().get("/console/", append(over, "Cookie", f.sessionCookie()+"="+c.Value)...).leadsTo("/handoff/console/login")
	// The same on the node's machine, without TLS and without the proxy's path.
	f.admin.get("/console/").ok().has(`href="/console/tasks"`)
}

func TestTheConsoleCanBeOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "console: {enabled: false}")
	for _, path := range []string{"/console/", "/console", "/console/login", "/console/assets/x/console.css"} {
		if got := f.nobody().get(path); got.status != http.StatusNotFound {
			t.Errorf("%s answers %d", path, got.status)
		}
	}
	if _, _, err := f.node.ConsoleLink(t.Context(), ""); err == nil {
		t.Error("there is a link to it")
	}
}

func TestWithoutASecretKeySessionsWorkToo(t *testing.T) {
	t.Parallel()
	f := startFixture(t, strings.Replace(configuration, "secret_key:", "# secret_key:", 1)+"console: {title: Procurement}\n", handoff.Options{})
	f.as("viewer", "vera", "").get("/console/").ok().has("<title>Now · Procurement</title>")
}

func TestWhatARoleSees(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, test := range []struct {
		role, tenant string
		nav          []string
	}{
		{"viewer", "", []string{"now", "inbox", "tasks", "delegations", "agents", "settings"}},
		{"caller", "acme", []string{"now", "inbox", "tasks", "delegations", "agents", "settings"}},
		{"operator", "acme", []string{"now", "inbox", "tasks", "delegations", "agents", "webhooks", "settings"}},
		{"operator", "", []string{"now", "inbox", "tasks", "delegations", "agents", "tools", "webhooks", "settings"}},
		{"admin", "", []string{"now", "inbox", "tasks", "delegations", "agents", "tools", "webhooks", "audit", "settings"}},
	} {
		p := f.as(test.role, fmt.Sprint(test.role, "-", test.tenant), test.tenant)
		page := p.get("/console/settings").ok()
		var nav []string
		for part := range strings.SplitSeq(page.body, `data-nav="`) {
			if name, _, ok := strings.Cut(part, `"`); ok && len(name) < 20 && !strings.Contains(name, "<") {
				nav = append(nav, name)
			}
		}
		if diff := cmp.Diff(test.nav, nav, cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("%s of %q: %s", test.role, test.tenant, diff)
		}
		node := test.tenant == ""
		for path, may := range map[string]bool{
			"/console/settings/configuration": node && (test.role == "operator" || test.role == "admin"),
			"/console/settings/keys":          node && test.role == "admin",
		} {
			if got := p.get(path); (got.status == http.StatusOK) != may || !may && got.status != http.StatusForbidden {
				t.Errorf("%s of %q sees %s with %d", test.role, test.tenant, path, got.status)
			}
			if strings.Contains(page.body, `href="`+path+`"`) != may {
				t.Errorf("%s of %q: link to %s", test.role, test.tenant, path)
			}
		}
		if test.role == "admin" {
			continue
		}
		for path, form := range map[string]url.Values{
			"/console/settings/keys":          {"action": {"create"}, "subject": {"me"}, "role": {"admin"}},
			"/console/settings/configuration": {"action": {"reload"}},
		} {
			if got := p.post(path, form); got.status != http.StatusForbidden {
				t.Errorf("%s of %q: POST %s: %d", test.role, test.tenant, path, got.status)
			}
		}
	}
	f.as("operator", "olga", "").get("/console/settings/configuration").ok().lacks("Read the file again")
}
