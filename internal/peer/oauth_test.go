package peer_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/oauth"
	"handoff.example/handoff/internal/peer"
)

// issuer is an authorization server. Its tokens are numbered.
type issuer struct {
	*httptest.Server
	mu         sync.Mutex
	issued     int
	grants     []string // that were asked for, with their scopes
	life       int      // of tokens, in seconds
	codes      map[string]url.Values
	refreshing map[string]string // refresh tokens that are good, with their person
	valid      map[string]string // access tokens that are good, with their person
	person     string            // who logs in
	refuse     bool
	metadata   map[string]string // by path
	last       string            // path of the last request for a token
	iss        string            // that comes back from a login; "": none
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{life: 3600, codes: map[string]url.Values{}, refreshing: map[string]string{}, valid: map[string]string{}, person: "nobody"}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) accepts(r *http.Request) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.valid[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] != ""
}

// personOf returns whose token a request has.
func (i *issuer) personOf(r *http.Request) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.valid[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if document, ok := i.metadata[r.URL.Path]; ok {
		fmt.Fprint(w, strings.ReplaceAll(document, "%s", i.URL))
		return
	}
	if strings.HasPrefix(r.URL.Path, "/.well-known/") {
		http.NotFound(w, r)
		return
	}
	if r.URL.Path == "/authorize" {
		q := r.URL.Query()
		if q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" || q.Get("client_id") != "node" {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		i.issued++
		code := fmt.Sprintf("code-%d", i.issued)
		q.Set("person", i.person)
		i.codes[code] = q
		back := url.Values{"code": {code}, "state": {q.Get("state")}}
		if i.iss != "" {
			back.Set("iss", i.iss)
		}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	i.last = r.URL.Path
	grant, person := r.PostFormValue("grant_type"), "node"
	i.grants = append(i.grants, strings.TrimSpace(grant+" "+r.PostFormValue("scope")))
	id, secret, _ := r.BasicAuth()
	if id == "" {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	ok := id == "node" && secret == "a+secret%" && !i.refuse
	switch grant {
	case "authorization_code":
		q := i.codes[r.PostFormValue("code")]
		delete(i.codes, r.PostFormValue("code"))
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		ok = ok && q != nil && q.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:]) && q.Get("redirect_uri") == r.PostFormValue("redirect_uri")
		person = q.Get("person")
	case "refresh_token":
		old := r.PostFormValue("refresh_token")
		person = i.refreshing[old]
		delete(i.refreshing, old) // each works once
		ok = ok && person != ""
	}
	if !ok {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant","error_description":"no \u001b[31mtoken"}`)
		return
	}
	i.issued++
	access, refresh := fmt.Sprintf("access-%d", i.issued), fmt.Sprintf("refresh-%d", i.issued)
	i.valid[access] = person
	if grant == "client_credentials" {
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, access, i.life)
		return
	}
	i.refreshing[refresh] = person
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":"%d","refresh_token":%q}`, access, i.life, refresh)
}

// basic in the header escapes what it holds (RFC 6749 §2.3.1).
func unescaped(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, secret, ok := r.BasicAuth(); ok {
			id, _ = url.QueryUnescape(id)
			secret, _ = url.QueryUnescape(secret)
			r.SetBasicAuth(id, secret)
		}
		h.ServeHTTP(w, r)
	})
}

const oauthScheme = `"o":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"%[1]s/token","scopes":{"work":"Work"}}}}}`

func oauthCard() string {
	return strings.Replace(cardWith(asks([]string{oauthScheme}, "o")), `"o":{"list":[]}`, `"o":{"list":["work"]}`, 1)
}

func TestClientCredentials(t *testing.T) {
	t.Parallel()
	for _, clientAuth := range []string{"basic", "body"} {
		t.Run(clientAuth, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			i.Config.Handler = unescaped(i)
			a, at := newAgent(t, oauthCard()), &clock{time.Now()}
			a.accept = i.accepts
			d := directory(t, `p: {card: "`+a.URL+`", auth: {oauth2: {client_id: node, client_secret: "a+secret%", token_url: "`+i.URL+`/token", client_auth: `+clientAuth+`}}}`, func(o *peer.Options) { o.Now = at.now })
			for range 3 { // one token for all
				if err := ask(t.Context(), dial(t, d, "p", peer.User{})); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
					t.Fatal(err)
				}
			}
			if got := fmt.Sprint(i.grants); got != "[client_credentials work]" {
				t.Errorf("asked for %s", got)
			}
			at.at = at.at.Add(59*time.Minute + 30*time.Second) // before its end
			c := dial(t, d, "p", peer.User{})
			if err := ask(t.Context(), c); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) || len(i.grants) != 2 {
				t.Errorf("%v, %v", err, i.grants)
			}
			// Row 139: refused once, a new token is got, and the request sent again.
			i.mu.Lock()
			i.valid = map[string]string{}
			i.mu.Unlock()
			if err := ask(t.Context(), c); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) || len(i.grants) != 3 {
				t.Errorf("%v, %v", err, i.grants)
			}
			a.set(func() { a.accept = func(*http.Request) bool { return false } })
			before := len(a.calls())
			if err := ask(t.Context(), c); !errors.Is(err, &a2a.Error{Code: a2a.CodeUnauthenticated}) || len(a.calls()) != before+2 {
				t.Errorf("%v after %d requests", err, len(a.calls())-before)
			}
		})
	}
}

// Rows S8, S9 and S27: a card that names a token endpoint does not get the secret,
// unless it is the peer's own.
func TestTheSecretGoesToNoTokenEndpointOfACard(t *testing.T) {
	t.Parallel()
	trap, hits := canary(t)
	i := newIssuer(t)
	const auth = `auth: {oauth2: {client_id: node, client_secret: "a+secret%", client_auth: body}}`
	own := newAgent(t, oauthCard())
	own.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			i.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
	other := newAgent(t, strings.Replace(oauthCard(), "%[1]s/token", trap+"/token", 1))
	plain := newAgent(t, strings.Replace(oauthCard(), "%[1]s/token", "http://sso.example/token", 1))
	d := directory(t, `own: {card: "`+own.URL+`", `+auth+`}, other: {card: "`+other.URL+`", `+auth+`}, plain: {card: "`+plain.URL+`", `+auth+`}`)
	if err := ask(t.Context(), dial(t, d, "own", peer.User{})); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
		t.Error(err)
	}
	for name, want := range map[string]string{"other": "origin not allowed", "plain": "not https"} {
		if err := ask(t.Context(), dial(t, d, name, peer.User{})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if hits.Load() != 0 {
		t.Error("the canary was asked")
	}
}

// person is somebody with a browser.
func person(t *testing.T, node http.Handler) (*http.Client, string) {
	t.Helper()
	s := httptest.NewServer(node)
	t.Cleanup(s.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar}, s.URL
}

// confirm opens the address of a login and goes on; it returns the last page.
func confirm(t *testing.T, browser *http.Client, address string) (status int, page string) {
	t.Helper()
	first, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	first.Body.Close()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	last, err := browser.PostForm(address, url.Values{"state": {u.Query().Get("state")}})
	if err != nil {
		t.Fatal(err)
	}
	defer last.Body.Close()
	text, _ := io.ReadAll(last.Body)
	return last.StatusCode, string(text)
}

// people is a directory with a peer that people log in to, served to browsers.
func people(t *testing.T, i *issuer, a *agent, more string, change ...func(*peer.Options)) (d *peer.Directory, browser *http.Client) {
	t.Helper()
	var node http.Handler
	browser, base := person(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { node.ServeHTTP(w, r) }))
	change = append([]func(*peer.Options){withSealer(t), func(o *peer.Options) { o.BaseURL = func() string { return base } }}, change...)
	d = directory(t, `p: {card: "`+a.URL+`", auth: {oauth2: {flow: authorization_code, client_id: node, client_secret: "a+secret%", client_auth: body,
		token_url: "`+i.URL+`/token", authorization_url: "`+i.URL+`/authorize"`+more+`}}}`, change...)
	node = d
	return d, browser
}

// Row 139: a card that only those see who have logged in.
func TestTheCardOfAPeerThatPeopleLogInTo(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	a := newAgent(t, cardWith(asks([]string{bearerScheme}, "b")))
	a.accept, a.closed = i.accepts, true
	d, browser := people(t, i, a, ", per_user: true")
	alice := peer.User{Subject: "alice"}
	_, _, err := d.Client(t.Context(), "p", alice)
	if e, ok := errors.AsType[*peer.LoginError](err); !ok || e.User != alice {
		t.Fatal(err)
	}
	login, err := d.Login(t.Context(), "p", alice)
	if err != nil {
		t.Fatal(err)
	}
	if status, page := confirm(t, browser, login.URL); status != http.StatusOK {
		t.Fatal(page)
	}
	if err := ask(t.Context(), dial(t, d, "p", alice)); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
		t.Error(err)
	}
}

// Row 139: two users through one client, each with a token of its own.
func TestEachUserLogsIn(t *testing.T) {
	t.Parallel()
	i, at := newIssuer(t), &clock{time.Now()}
	a := newAgent(t, cardWith(asks([]string{bearerScheme}, "b")))
	a.accept = i.accepts
	d, _ := people(t, i, a, ", per_user: true", func(o *peer.Options) { o.Now = at.now })
	users := []peer.User{{Tenant: "acme", Subject: "alice"}, {Tenant: "acme", Subject: "bob"}}
	c := dial(t, d, "p", users[0])
	err := ask(t.Context(), c)
	if e, ok := errors.AsType[*peer.LoginError](err); !ok || e.User != users[0] || !strings.Contains(err.Error(), "handoff peer login p") {
		t.Fatalf("%v", err)
	}
	for _, u := range users {
		login, err := d.Login(t.Context(), "p", u)
		if err != nil {
			t.Fatal(err)
		}
		jar, _ := cookiejar.New(nil)
		i.mu.Lock()
		i.person = u.Subject
		i.mu.Unlock()
		if status, page := confirm(t, &http.Client{Jar: jar}, login.URL); status != http.StatusOK || !strings.Contains(page, "You are logged in to p") {
			t.Fatalf("%d %s", status, page)
		}
	}
	for _, u := range users {
		if err := ask(peer.WithUser(t.Context(), u), c); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
			t.Fatal(err)
		}
		calls := a.calls()
		if got := i.personOf(calls[len(calls)-1]); got != u.Subject {
			t.Errorf("%s came as %s", u.Subject, got)
		}
	}
	// Refreshed before it ends, with refresh tokens that work once.
	for range 3 {
		at.at = at.at.Add(time.Hour)
		if err := ask(t.Context(), c); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
			t.Fatal(err)
		}
	}
	if got := strings.Join(i.grants, ","); strings.Count(got, "refresh_token") != 3 {
		t.Errorf("grants: %s", got)
	}
	// And once when it is refused.
	i.mu.Lock()
	i.valid = map[string]string{}
	i.mu.Unlock()
	if err := ask(t.Context(), c); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
		t.Fatal(err)
	}
	i.mu.Lock()
	i.refuse = true
	i.mu.Unlock()
	at.at = at.at.Add(time.Hour)
	if _, ok := errors.AsType[*peer.LoginError](ask(t.Context(), c)); !ok {
		t.Error("a login that has ended is not told")
	}
	if err := d.Logout(t.Context(), "p", users[1]); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*peer.LoginError](ask(peer.WithUser(t.Context(), users[1]), c)); !ok {
		t.Error("a logout does nothing")
	}
}

func TestALoginWorksOnceAndInOneBrowser(t *testing.T) {
	t.Parallel()
	i, at := newIssuer(t), &clock{time.Now()}
	a := newAgent(t, cardWith(""))
	d, browser := people(t, i, a, "", func(o *peer.Options) { o.Now = at.now })
	login, err := d.Login(t.Context(), "p", peer.User{Subject: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	// What comes back to the node, as the browser got it.
	var back string
	watching := *browser
	watching.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasSuffix(r.URL.Path, peer.CallbackPath) {
			back = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	confirm(t, &watching, login.URL)
	get := func(c *http.Client, address string) int {
		response, err := c.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	other := &http.Client{}
	other.Jar, _ = cookiejar.New(nil)
	if got := get(other, back); got != http.StatusBadRequest {
		t.Errorf("another browser: %d", got)
	}
	if status, _ := confirm(t, other, login.URL); status != http.StatusNotFound {
		t.Errorf("confirmed in another browser: %d", status)
	}
	forged := strings.Replace(back, "state=p.", "state=p.x", 1)
	if got := get(browser, forged); got != http.StatusBadRequest {
		t.Errorf("another state: %d", got)
	}
	if got := get(browser, back); got != http.StatusOK {
		t.Errorf("the right one: %d", got)
	}
	if got := get(browser, back); got != http.StatusBadRequest {
		t.Errorf("again: %d", got)
	}
	late, err := d.Login(t.Context(), "p", peer.User{})
	if err != nil {
		t.Fatal(err)
	}
	at.at = at.at.Add(11 * time.Minute)
	if got := get(browser, late.URL); got != http.StatusNotFound {
		t.Errorf("too late: %d", got)
	}
}

func TestLoginsOfOneUserDoNotDriveOutThoseOfOthers(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	d, browser := people(t, i, newAgent(t, cardWith("")), ", per_user: true")
	begin := func(subject string) string {
		login, err := d.Login(t.Context(), "p", peer.User{Subject: subject})
		if err != nil {
			t.Fatal(err)
		}
		return login.URL
	}
	alice, first := begin("alice"), begin("mallory")
	for range 10 {
		begin("mallory")
	}
	for address, want := range map[string]int{alice: http.StatusOK, first: http.StatusNotFound} {
		response, err := browser.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d", address, response.StatusCode)
		}
	}
}

func TestTokensAreSealedAndInNoLog(t *testing.T) {
	t.Parallel()
	i, kept := newIssuer(t), openStore(t)
	a := newAgent(t, cardWith(""))
	var log strings.Builder
	d, browser := people(t, i, a, "", func(o *peer.Options) {
		o.Store, o.Logger = kept, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	login, err := d.Login(t.Context(), "p", peer.User{})
	if err != nil {
		t.Fatal(err)
	}
	if status, page := confirm(t, browser, login.URL); status != http.StatusOK {
		t.Fatal(page)
	}
	row, err := kept.Peer(t.Context(), "p")
	if err != nil || len(row.Tokens) == 0 {
		t.Fatalf("%+v, %v", row, err)
	}
	for _, secret := range []string{"access-", "refresh-", "a+secret"} {
		if strings.Contains(string(row.Tokens)+string(row.Facts)+log.String(), secret) {
			t.Errorf("%s is in the open", secret)
		}
	}
	plain := directory(t, `p: {card: "`+a.URL+`", auth: {oauth2: {flow: authorization_code, client_id: node}}}`, func(o *peer.Options) { o.BaseURL = func() string { return "https://x" } })
	if _, err := plain.Login(t.Context(), "p", peer.User{}); !errors.Is(err, peer.ErrNoKey) {
		t.Error(err)
	}
}

func TestAnswersOfTokenEndpoints(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":"invalid_client","error_description":"x\u0007y"}`: "invalid_client: xy",
		`not JSON`: "not JSON",
		`{"access_token":"a\nb","token_type":"bearer"}`:          "no usable access_token",
		`{"access_token":"a","token_type":"mac"}`:                "not known here: mac",
		`{"access_token":"` + strings.Repeat("x", 40<<10) + `"}`: "no usable access_token",
		`{}`: "no usable access_token",
		`{"access_token":"` + strings.Repeat("x", 300<<10) + `"}`: "too large",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		a := newAgent(t, cardWith(asks([]string{bearerScheme}, "b")))
		d := directory(t, `p: {card: "`+a.URL+`", auth: {oauth2: {client_id: node, client_secret: s, token_url: "`+s.URL+`"}}}`)
		err := ask(t.Context(), dial(t, d, "p", peer.User{}))
		if e, ok := errors.AsType[*oauth.TokenError](err); !ok || !strings.Contains(e.Error(), want) {
			t.Errorf("%.40s: %v", body, err)
		}
	}
}
