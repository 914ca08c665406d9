// Package console is the web pages below /console/, with which the people of a
// node see what it does and settle what waits for them. It is a client of the
// node's own API, which it calls in the process as whoever has signed in: so
// roles and tenants are checked in one place, and whatever a page does the API
// can do.
package console

import (
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/form"
)

// Prefix is the path below which the pages are.
const Prefix = "/console/"

// Options are what the console runs on.
type Options struct {
	// API is the node's API. It takes the caller of a request from its context, as
	// auth.Known does.
	API http.Handler
	// Agents takes messages for the agents, below /agents/, with the caller from the
	// context too.
	Agents http.Handler
	// Auth knows who uses a browser: by its session, or by a credential.
	Auth auth.Authenticator
	// Credentials knows the owner of a key with which somebody signs in.
	Credentials auth.Authenticator
	Sessions    *auth.Sessions
	Browser     auth.Browser
	// Identity returns who an issuer's ID token for a client is of; nil: nobody
	// signs in so.
	Identity func(ctx context.Context, issuer, token, client, nonce string) (auth.Principal, error)
	// Sealer seals what a browser keeps while somebody signs in at an issuer.
	Sealer auth.SessionSealer
	// Client is the way to the issuer.
	Client *http.Client
	// Config returns the configuration in force.
	Config  func() *config.Config
	Audit   *audit.Log   // nil: nobody records
	Logger  *slog.Logger // nil: slog.Default()
	Version string
}

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	opts    Options
	log     *slog.Logger
	mux     *http.ServeMux
	origins *http.CrossOriginProtection
	assets  *assets
	issuer  knownIssuer
}

// page is one page, and what its forms do.
type page struct {
	path  string    // below Prefix, with parameters as http.ServeMux has them
	nav   string    // the entry of the navigation that it belongs to
	title string    // until the handler sets another
	role  auth.Role // that somebody has to have at least
	node  bool      // it concerns the whole node, so that people of a tenant do not see it
	get   func(*view) error
	post  func(*view) error // nil: it has no forms
}

// navigation is what there is to go to. Entries are hidden from those whose role
// does not do.
var navigation = []struct {
	path, key, name, icon string
	role                  auth.Role
	node                  bool
}{
	{"/console/", "now", "Now", "now", auth.RoleViewer, false},
	{"/console/inbox", "inbox", "Inbox", "inbox", auth.RoleViewer, false},
	{"/console/tasks", "tasks", "Tasks", "tasks", auth.RoleViewer, false},
	{"/console/delegations", "delegations", "Delegations", "delegations", auth.RoleViewer, false},
	{"/console/agents", "agents", "Agents", "agents", auth.RoleViewer, false},
	{"/console/tools", "tools", "Tools", "tools", auth.RoleOperator, true},
	{"/console/webhooks", "webhooks", "Webhooks", "webhooks", auth.RoleOperator, false},
	{"/console/audit", "audit", "Audit", "audit", auth.RoleAdmin, true},
	{"/console/settings", "settings", "Settings", "settings", auth.RoleViewer, false},
}

// New returns a console.
func New(o Options) (*Console, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	c := &Console{opts: o, log: o.Logger, mux: http.NewServeMux(), origins: http.NewCrossOriginProtection()}
	var err error
	if c.assets, err = loadAssets(); err != nil {
		return nil, err
	}
	for _, p := range pages() {
		path := Prefix + strings.TrimPrefix(p.path, "/")
		if p.path == "/" {
			path += "{$}"
		}
		c.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, &p) })
	}
	c.mux.Handle("GET "+Prefix+"assets/{hash}/{name}", c.assets)
	c.mux.HandleFunc("GET "+Prefix+"login", c.showLogin)
	c.mux.HandleFunc("POST "+Prefix+"login", c.login)
	c.mux.HandleFunc("POST "+Prefix+"logout", c.logout)
	c.mux.HandleFunc("GET "+Prefix+"login/oidc", c.beginOIDC)
	c.mux.HandleFunc("GET "+Prefix+"login/callback", c.endOIDC)
	c.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.fail(c.view(w, r), http.StatusNotFound, "Nothing here", "There is nothing at this address.")
	})
	return c, nil
}

// policy is what pages may load and do: what is the node's own, from files.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
	"font-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Robots-Tag", "noindex")
	header.Set("Cache-Control", "no-store")
	defer c.recover(w, r)
	if !c.opts.Config().Console.Enabled {
		http.NotFound(w, r)
		return
	}
	if r.URL.Path == strings.TrimSuffix(Prefix, "/") {
		http.Redirect(w, r, c.prefix(r)+Prefix, http.StatusMovedPermanently)
		return
	}
	if secret, ok := r.URL.Query()["once"]; ok && r.URL.Path == Prefix && r.Method == http.MethodGet {
		c.redeem(w, r, secret[0])
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := c.origins.Check(r); err != nil && !c.fromPublicURL(r) {
			c.fail(c.view(w, r), http.StatusForbidden, "Not from here", "A web page of another origin may not change anything here.")
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formTimeout))
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	c.mux.ServeHTTP(w, r)
}

// Bounds of what forms send.
const (
	maxForm     = 1 << 20
	formTimeout = 30 * time.Second
)

// serve answers a request for a page, of somebody who has signed in.
func (c *Console) serve(w http.ResponseWriter, r *http.Request, p *page) {
	v := c.view(w, r)
	v.page, v.title = p, p.title
	if err := v.authenticate(); err != nil {
		v.failed(err)
		return
	}
	handler := p.get
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		if handler = p.post; handler != nil {
			if err := v.readForm(); err != nil {
				c.fail(v, http.StatusBadRequest, "That did not work", "What was sent is too large, or did not arrive whole.")
				return
			}
			break
		}
		fallthrough
	default:
		w.Header().Set("Allow", "GET, HEAD")
		c.fail(v, http.StatusMethodNotAllowed, "Not possible", "This page can be read, and nothing else.")
		return
	}
	switch {
	case v.Principal.Role < p.role:
		c.fail(v, http.StatusForbidden, "Not for you", "The role "+v.Principal.Role.String()+" does not see this page; it takes the role "+p.role.String()+".")
	case p.node && v.Principal.Tenant != "":
		c.fail(v, http.StatusForbidden, "Not for you", "This page is about the whole node; people of a tenant do not see it.")
	default:
		if err := handler(v); err != nil {
			v.failed(err)
		}
	}
}

// recover answers when a page has panicked.
func (c *Console) recover(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // it is compared, as net/http does
		panic(p)
	}
	c.log.ErrorContext(r.Context(), "A page of the console panicked", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
	http.Error(w, "That did not work; the log has the reason", http.StatusInternalServerError)
}

// allowed returns the entries of the navigation that somebody may use.
func allowed(p *auth.Principal, current string) []entry {
	var list []entry
	for _, n := range navigation {
		if may(p, n.role, n.node) {
			list = append(list, entry{n.path, n.key, n.name, n.icon, n.key == current})
		}
	}
	return slices.Clip(list)
}

// entry is an entry of the navigation.
type entry struct {
	Path, Key, Name, Icon string
	Current               bool
}

// templates returns the template of each page. They are parsed when the first page is
// asked for, since that takes tens of milliseconds and a few megabytes, which a node
// that nobody looks at does without.
var templates = sync.OnceValues(parseTemplates)

// parseTemplates returns the template of each page.
func parseTemplates() (map[string]*template.Template, error) {
	base, err := template.New("base").Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts*.html")
	if err == nil {
		base, err = base.Parse(form.Fields)
	}
	if err != nil {
		return nil, fmt.Errorf("parse templates: %w", err)
	}
	entries, err := files.ReadDir("templates")
	if err != nil {
		return nil, fmt.Errorf("list templates: %w", err)
	}
	all := map[string]*template.Template{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".html")
		if name == "layout" || strings.HasPrefix(name, "parts") {
			continue
		}
		t, err := base.Clone()
		if err == nil {
			t, err = t.ParseFS(files, "templates/"+e.Name())
		}
		if err != nil {
			return nil, fmt.Errorf("parse templates: %w", err)
		}
		all[name] = t
	}
	return all, nil
}

// errNoAction says that a form does not say what is to be done.
func errNoAction() error {
	return &apiError{Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Message: "The form does not say what is to be done."}
}

var errNotSignedIn = a2a.Errorf(a2a.CodeUnauthenticated, "Nobody has signed in")
