package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/oauth"
	"handoff.example/handoff/internal/store"
)

// Paths below the public URL at which people log in to tool servers.
const (
	LoginPrefix  = "/oauth/mcp/"
	LoginPath    = LoginPrefix + "login"
	CallbackPath = LoginPrefix + "callback"
	// ClientPath has the document that describes the node to authorization servers.
	ClientPath = LoginPrefix + "client.json"
)

const (
	loginTime   = 10 * time.Minute
	maxLogins   = 4 // of one caller to one server
	maxState    = 1 << 10
	loginCookie = "handoff_mcp_login"
)

// Sealer encrypts what is kept and secret.
type Sealer interface {
	Seal(plain []byte) ([]byte, error)
	Open(sealed []byte) ([]byte, error)
}

// LoginOptions are what logins need.
type LoginOptions struct {
	Docs   store.Docs
	Sealer Sealer
	// BaseURL returns the public URL of the node.
	BaseURL func() string
	// Identify returns who uses the browser of a request, where that is known: then
	// only who has begun a login can end it (ELI-03). nil: it is never known.
	Identify func(*http.Request) *auth.Principal
	// Inbox is told which logins somebody has to make; nil: none.
	Inbox Inbox
	Log   *slog.Logger
	Now   func() time.Time
}

// Login is where people log in to tool servers, in the course of a call. It keeps the
// tokens. It serves LoginPrefix.
type Login struct {
	opts LoginOptions

	mu      sync.Mutex
	servers map[string]*login
	ways    [2]*http.Client
}

// NewLogin returns it. Without documents or a sealer nobody can log in.
func NewLogin(o LoginOptions) *Login {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Login{opts: o, servers: map[string]*login{}}
}

func (l *Login) base() string {
	if l.opts.BaseURL == nil {
		return ""
	}
	return strings.TrimSuffix(l.opts.BaseURL(), "/")
}

// client returns the client for authorization servers.
func (l *Login) client(guard *netguard.Guard, o netguard.Options, named bool) *http.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := 0
	if named {
		i = 1
	}
	if l.ways[i] == nil {
		o.Timeout = 30 * time.Second
		if l.ways[i] = guard.Configured(o); named {
			l.ways[i] = guard.Named(o)
		}
	}
	return l.ways[i]
}

func (l *Login) closeIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, way := range l.ways {
		if way != nil {
			way.CloseIdleConnections()
		}
	}
}

func (l *Login) add(c *login) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers[c.name] = c
}

var errNoStore = errors.New("there is no place or no key for tokens of people: secret_key is not set")

// read reads a sealed document.
func (l *Login) read(ctx context.Context, space, key string, into any) (version int64, err error) {
	if l.opts.Docs == nil || l.opts.Sealer == nil {
		return 0, errNoStore
	}
	d, err := l.opts.Docs.Doc(ctx, everything(), space, key)
	if err != nil {
		return 0, err
	}
	plain, err := l.opts.Sealer.Open(d.Secret)
	if err != nil {
		return 0, fmt.Errorf("open what is sealed: %w", err)
	}
	if err := json.Unmarshal(plain, into); err != nil {
		return 0, errors.New("what is kept is damaged")
	}
	return d.Version, nil
}

// write seals and writes a document.
func (l *Login) write(ctx context.Context, space, key string, version int64, from any, expires time.Time) error {
	if l.opts.Docs == nil || l.opts.Sealer == nil {
		return errNoStore
	}
	plain, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("write what is kept: %w", err)
	}
	sealed, err := l.opts.Sealer.Seal(plain)
	if err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	return l.opts.Docs.PutDoc(ctx, &store.Doc{Space: space, Key: key, Version: version, Body: []byte("{}"), Secret: sealed, Expires: expires})
}

// visit is a login that has begun.
type visit struct {
	Server  string              `json:"server"`
	Who     string              `json:"who"`
	Tenant  string              `json:"tenant,omitempty"`
	Issuer  string              `json:"issuer,omitempty"`
	Subject string              `json:"subject,omitempty"`
	Local   bool                `json:"local,omitempty"` // somebody without a name on this machine
	Browser string              `json:"browser,omitempty"`
	Begun   oauth.Authorization `json:"begun"`
	Need    need                `json:"need"`
}

// begin begins a login of a caller, and returns the page where it goes on (ELI-02:
// the link says nothing of the caller, and lets nobody in).
func (c *login) begin(ctx context.Context, caller *auth.Principal, n need) (string, error) {
	if c.desk.base() == "" {
		return "", errors.New("the node has no public URL")
	}
	client, err := c.client(ctx, &n.Server)
	if err != nil {
		return "", err
	}
	who := c.whose(caller)
	state := c.name + "." + hashOf(who) + "." + rand.Text() + rand.Text()
	begun, err := client.Authorize(state, c.desk.base()+CallbackPath, oauth.Access{Scopes: n.Scopes, Resource: n.Resource})
	if err != nil {
		return "", err
	}
	v := &visit{Server: c.name, Who: who, Begun: *begun, Need: n}
	if caller != nil {
		v.Tenant, v.Issuer, v.Subject, v.Local = caller.Tenant, caller.Issuer, caller.Subject, caller.Local && caller.Anonymous()
	}
	key := visitKey(state)
	if err := c.desk.makeRoom(ctx, key[:strings.LastIndexByte(key, '/')+1]); err != nil {
		return "", err
	}
	if err := c.desk.write(ctx, spaceLogin, key, 0, v, c.h.now().Add(loginTime)); err != nil {
		return "", err
	}
	return c.desk.base() + LoginPath + "?state=" + url.QueryEscape(state), nil
}

// visitKey returns the key of a login: its server, its caller, and its state.
func visitKey(state string) string {
	server, rest, _ := strings.Cut(state, ".")
	who, _, _ := strings.Cut(rest, ".")
	return server + "/" + who + "/" + hashOf(state)
}

// makeRoom bounds the logins of one caller to one server.
func (l *Login) makeRoom(ctx context.Context, prefix string) error {
	if l.opts.Docs == nil {
		return errNoStore
	}
	list, err := l.opts.Docs.Docs(ctx, everything(), spaceLogin, prefix, "", maxLogins+1)
	if err != nil {
		return fmt.Errorf("list logins: %w", err)
	}
	for i := 0; i <= len(list)-maxLogins; i++ {
		if err := l.opts.Docs.DeleteDoc(ctx, everything(), spaceLogin, list[i].Key); err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("drop login: %w", err)
		}
	}
	return nil
}

// ServeHTTP serves the pages of a login, and the document of the node.
func (l *Login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	header.Set("Cache-Control", "no-store")
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, ClientPath) && r.Method == http.MethodGet:
		l.serveDocument(w)
	case strings.HasSuffix(path, CallbackPath) && r.Method == http.MethodGet:
		l.serveCallback(w, r)
	case strings.HasSuffix(path, LoginPath) && (r.Method == http.MethodGet || r.Method == http.MethodPost):
		l.serveLogin(w, r)
	default:
		showPage(w, http.StatusNotFound, loginPage{Title: "There is no such page"})
	}
}

func (l *Login) serveDocument(w http.ResponseWriter) {
	body, err := json.Marshal(l.document(l.base() + ClientPath))
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "max-age=3600")
	w.Write(body) //nolint:errcheck // the client is gone
}

// loginPage is what people see.
type loginPage struct {
	Title, Text string
	State       string // of a form to confirm
}

var loginPages = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<style>body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem}button{font:inherit;padding:.5rem 1rem}</style>
<h1>{{.Title}}</h1><p>{{.Text}}</p>
{{if .State}}<form method="post"><input type="hidden" name="state" value="{{.State}}"><button>Continue</button></form>{{end}}
</html>
`))

func showPage(w http.ResponseWriter, status int, p loginPage) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	loginPages.Execute(w, p) //nolint:errcheck // the client is gone
}

var loginOver = loginPage{Title: "This login is over", Text: "It has ended, was used already, or began elsewhere. Call the tool again to begin another."}

// visit returns the login of a state, and its server.
func (l *Login) visit(ctx context.Context, state string) (*visit, *login, int64, error) {
	if len(state) > maxState {
		return nil, nil, 0, store.ErrNotFound
	}
	v := &visit{}
	version, err := l.read(ctx, spaceLogin, visitKey(state), v)
	if err != nil {
		return nil, nil, 0, err
	}
	l.mu.Lock()
	c := l.servers[v.Server]
	l.mu.Unlock()
	if c == nil {
		return nil, nil, 0, store.ErrNotFound
	}
	return v, c, version, nil
}

// serveLogin binds a login to a browser and sends the person on. Somebody who has a
// name is asked first, so that a link that was sent by another does not bring one's
// own account to that other (ELI-03).
func (l *Login) serveLogin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 8<<10)
	if item := r.URL.Query().Get("item"); item != "" && r.Method == http.MethodGet {
		l.serveItem(w, r, item)
		return
	}
	state := r.FormValue("state")
	v, _, version, err := l.visit(r.Context(), state)
	if err != nil {
		l.over(w, err)
		return
	}
	if !l.isTheirs(r, v) {
		showPage(w, http.StatusForbidden, loginPage{Title: "This is somebody else's login", Text: "Only who has begun it can go on."})
		return
	}
	if r.Method == http.MethodGet && !v.Local {
		name := v.Subject
		if name == "" || v.Who == "node" {
			name = "everybody who uses this node"
		}
		showPage(w, http.StatusOK, loginPage{
			Title: "Log in to " + v.Server,
			Text:  fmt.Sprintf("You let %s use %s with your account. Go on only if you have just begun this yourself.", name, v.Server), State: state,
		})
		return
	}
	browser := cookieOf(r)
	if browser == "" {
		browser = rand.Text() + rand.Text()
	}
	if v.Browser != "" && v.Browser != hashOf(browser) {
		l.over(w, store.ErrNotFound)
		return
	}
	v.Browser = hashOf(browser)
	if err := l.write(r.Context(), spaceLogin, visitKey(state), version, v, l.opts.Now().Add(loginTime)); err != nil {
		l.over(w, err)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Value: browser, Path: "/", MaxAge: int(loginTime / time.Second), HttpOnly: true,
		Secure: strings.HasPrefix(l.base(), "https://"), SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, v.Begun.URL, http.StatusSeeOther)
}

func (l *Login) isTheirs(r *http.Request, v *visit) bool {
	if l.opts.Identify == nil {
		return true
	}
	p := l.opts.Identify(r)
	return p == nil || p.Anonymous() || v.Subject == "" || p.Subject == v.Subject && p.Issuer == v.Issuer && p.Tenant == v.Tenant
}

func cookieOf(r *http.Request) string {
	if c, err := r.Cookie(loginCookie); err == nil && len(c.Value) < 200 {
		return c.Value
	}
	return ""
}

func (l *Login) over(w http.ResponseWriter, err error) {
	if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
		l.opts.Log.Warn("a login to an MCP server failed", "error", err)
		showPage(w, http.StatusServiceUnavailable, loginPage{Title: "The login cannot go on", Text: "Try again later."})
		return
	}
	showPage(w, http.StatusNotFound, loginOver)
}

// serveCallback takes a person back from the authorization server.
func (l *Login) serveCallback(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	state := query.Get("state")
	v, c, _, err := l.visit(r.Context(), state)
	if err == nil && (v.Browser == "" || v.Browser != hashOf(cookieOf(r))) {
		err = store.ErrNotFound
	}
	if err == nil { // once
		err = l.opts.Docs.DeleteDoc(r.Context(), everything(), spaceLogin, visitKey(state))
	}
	if err != nil {
		l.over(w, err)
		return
	}
	if err := c.finish(r.Context(), v, query); err != nil {
		l.opts.Log.Warn("a login to an MCP server failed", "server", v.Server, "error", err)
		text := "The authorization server has not let you in."
		if denied, ok := errors.AsType[*oauth.DeniedError](err); ok {
			text = denied.Error()
		}
		showPage(w, http.StatusForbidden, loginPage{Title: "You are not logged in to " + v.Server, Text: text})
		return
	}
	showPage(w, http.StatusOK, loginPage{Title: "You are logged in to " + v.Server, Text: "Go back to where you came from, and go on there."})
}

// finish gets the token of a login (AUT-17).
func (c *login) finish(ctx context.Context, v *visit, query url.Values) error {
	code, err := v.Begun.CodeOf(query)
	if err != nil {
		return err
	}
	client, err := c.client(ctx, &v.Need.Server)
	if err != nil {
		return err
	}
	got, err := client.Exchange(ctx, &v.Begun, code)
	if err != nil {
		return err
	}
	if err := c.keep(ctx, v.Who, &keptToken{Token: *got, Issuer: v.Need.Server.Issuer, Resource: v.Need.Resource, Scopes: v.Need.Scopes, Steps: v.Need.Steps}); err != nil {
		return err
	}
	return c.granted(ctx, v)
}

// appendQuoted appends a JSON string.
func appendQuoted(dst []byte, text string) []byte {
	out, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		return append(dst, `""`...)
	}
	return out
}
