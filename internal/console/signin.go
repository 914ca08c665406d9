package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
)

// maxNext bounds the path to which somebody returns after signing in, in bytes.
const maxNext = 2 << 10

// localPath returns a path of the node's pages, and else that of the console: a
// link to the sign-in page must not lead anywhere else afterwards.
func localPath(next string) string {
	u, err := url.Parse(next)
	switch {
	case err != nil || len(next) > maxNext || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "":
	case strings.ContainsFunc(next, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }):
	case strings.Contains(u.Path, "//") || strings.Contains(u.Path, "/.."):
	case strings.HasPrefix(u.Path, Prefix+"login") || strings.HasPrefix(u.Path, Prefix+"logout"):
	case strings.HasPrefix(u.Path, Prefix) || strings.HasPrefix(u.Path, "/chat/"):
		return u.RequestURI()
	}
	return Prefix
}

// loginPath returns the address of the page where people sign in and come back
// from.
func loginPath(next string) string {
	if next = localPath(next); next == Prefix {
		return Prefix + "login"
	}
	return Prefix + "login?" + url.Values{"next": {next}}.Encode()
}

// loginData is what the sign-in page shows.
type loginData struct {
	Next    string
	Keys    bool   // whether API keys are accepted
	OIDC    string // the name of the way over an issuer; "" for none
	Local   bool   // whether a link of `handoff console` would work from here
	Problem string
}

// showLogin shows the page where people sign in.
func (c *Console) showLogin(w http.ResponseWriter, r *http.Request) {
	v := c.view(w, r)
	next := localPath(r.URL.Query().Get("next"))
	if v.authenticate() == nil {
		http.Redirect(w, r, c.prefix(r)+next, http.StatusSeeOther)
		return
	}
	c.loginPage(v, http.StatusOK, next, "")
}

func (c *Console) loginPage(v *view, status int, next, problem string) {
	cfg := c.opts.Config()
	v.status, v.title = status, "Sign in"
	d := loginData{Next: next, Keys: cfg.Callers.Keys, Local: c.opts.Browser.Local(v.r), Problem: problem}
	if o := c.oidc(); o != nil {
		if d.OIDC = o.Name; d.OIDC == "" {
			if u, err := url.Parse(o.Issuer); err == nil {
				d.OIDC = u.Host
			}
		}
	}
	if err := v.render("login", &d); err != nil {
		v.failed(err)
	}
}

// login signs somebody in who has an API key.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	v := c.view(w, r)
	if err := v.readForm(); err != nil {
		c.fail(v, http.StatusBadRequest, "That did not work", "What was sent is too large, or did not arrive whole.")
		return
	}
	next, key := localPath(v.form.Get("next")), strings.TrimSpace(v.form.Get("key"))
	done, err := c.opts.Sessions.Try(c.opts.Browser.Address(r))
	if err != nil {
		c.record(v, auth.ByKey, &auth.Principal{}, err)
		c.tooMany(v, next, err)
		return
	}
	p, err := c.ownerOf(r, key)
	done(err != nil && !isAway(err))
	c.record(v, auth.ByKey, &p, err)
	if err != nil {
		status, problem := http.StatusUnauthorized, "This key is not known here, or it is revoked or expired."
		if isAway(err) {
			status, problem = http.StatusServiceUnavailable, "Keys cannot be checked now. Try again in a moment."
		}
		c.loginPage(v, status, next, problem)
		return
	}
	c.enter(v, &p, auth.ByKey, next)
}

// tooMany refuses a sign-in after too many that failed.
func (c *Console) tooMany(v *view, next string, err error) {
	e, _ := errors.AsType[*a2a.Error](err)
	v.w.Header().Set("Retry-After", seconds(e.RetryAfter))
	c.loginPage(v, http.StatusTooManyRequests, next, "Too many attempts to sign in have failed from your address. Try again in "+seconds(e.RetryAfter)+" seconds.")
}

func isAway(err error) bool {
	e, ok := errors.AsType[*a2a.Error](err)
	return ok && (e.Code == a2a.CodeUnavailable || e.Code == a2a.CodeInternal)
}

// ownerOf returns who an API key is of.
func (c *Console) ownerOf(r *http.Request, key string) (auth.Principal, error) {
	if !strings.HasPrefix(key, "hk_") || !c.opts.Config().Callers.Keys {
		return auth.Principal{}, a2a.Errorf(a2a.CodeUnauthenticated, "This is no API key, or none are accepted here")
	}
	q := r.Clone(r.Context())
	q.Header = http.Header{"X-Api-Key": {key}}
	for _, name := range forwarded {
		if values := r.Header[name]; values != nil {
			q.Header[name] = values
		}
	}
	p, err := c.opts.Credentials.Authenticate(q)
	if err == nil && p.Key == "" {
		err = a2a.Errorf(a2a.CodeUnauthenticated, "This is no API key")
	}
	return p, err
}

// redeem signs somebody in who has a link that works once. It is for people on
// this machine.
func (c *Console) redeem(w http.ResponseWriter, r *http.Request, secret string) {
	v := c.view(w, r)
	v.w.Header().Set("Referrer-Policy", "no-referrer")
	if dest := r.Header.Get("Sec-Fetch-Dest"); dest != "" && dest != "document" {
		// A page of somebody else that names a link as an image only tries it.
		c.fail(v, http.StatusForbidden, "Not from here", "A link that signs in is opened, and not fetched by a page.")
		return
	}
	if !c.opts.Browser.Local(r) {
		c.fail(v, http.StatusForbidden, "Only on the node's machine", "A link that signs in is for a browser on the machine of the node, at an address of that machine alone. Sign in with an API key.")
		return
	}
	done, err := c.opts.Sessions.Try(c.opts.Browser.Address(r))
	if err != nil {
		c.tooMany(v, Prefix, err)
		return
	}
	p := localAdmin
	err = c.opts.Sessions.Redeem(r.Context(), secret)
	done(errors.Is(err, auth.ErrNoLink))
	switch {
	case errors.Is(err, auth.ErrNoLink):
		if v.authenticate() == nil { // who has used it, and comes back over the history
			http.Redirect(w, r, c.prefix(r)+Prefix, http.StatusSeeOther)
			return
		}
		c.record(v, auth.ByLink, &auth.Principal{}, a2a.Errorf(a2a.CodeUnauthenticated, "The link is not good"))
		c.loginPage(v, http.StatusUnauthorized, Prefix, "This link was used, or it is too old. For a new one, run: handoff console")
	case err != nil:
		v.failed(err)
	default:
		c.record(v, auth.ByLink, &p, nil)
		c.enter(v, &p, auth.ByLink, localPath(r.URL.Query().Get("next")))
	}
}

// localAdmin is whoever can read what the node prints, or open its admin socket.
var localAdmin = auth.Principal{Subject: "local admin", Issuer: auth.IssuerSocket, Role: auth.RoleAdmin}

// enter begins a session, in place of one that the browser has, and goes on.
func (c *Console) enter(v *view, p *auth.Principal, how, next string) {
	ctx := v.r.Context()
	if old := c.opts.Browser.SessionID(v.r); old != "" {
		if err := c.opts.Sessions.End(ctx, old); err != nil && !errors.Is(err, auth.ErrNoSession) {
			c.log.WarnContext(ctx, "An old session could not be ended", "error", err)
		}
	}
	id, session, err := c.opts.Sessions.Begin(ctx, p, how)
	if err != nil {
		v.failed(err)
		return
	}
	v.setCookie(c.opts.Browser.CookieName(v.r), id, time.Until(session.Ends))
	http.Redirect(v.w, v.r, c.prefix(v.r)+next, http.StatusSeeOther)
}

// logout ends the session of a browser.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	v := c.view(w, r)
	id := c.opts.Browser.SessionID(r)
	if id != "" {
		_ = v.authenticate() // for the record
		switch err := c.opts.Sessions.End(r.Context(), id); {
		case err == nil:
			c.recordAs(v, "POST "+Prefix+"logout", "", &v.Principal, nil)
		case !errors.Is(err, auth.ErrNoSession):
			v.failed(err)
			return
		}
	}
	v.setCookie(c.opts.Browser.CookieName(r), "", 0)
	w.Header().Set("Clear-Site-Data", `"cache"`)
	http.Redirect(w, r, c.prefix(r)+Prefix+"login", http.StatusSeeOther)
}

// auditTimeout bounds how long a person waits for the audit log.
const auditTimeout = 10 * time.Second

// record records in the audit log that somebody has signed in, or has tried to.
func (c *Console) record(v *view, how string, p *auth.Principal, err error) {
	c.recordAs(v, "POST "+Prefix+"login", how, p, err)
}

func (c *Console) recordAs(v *view, operation, how string, p *auth.Principal, err error) {
	if !c.opts.Audit.Wants(true) {
		return
	}
	e := &audit.Entry{
		At: time.Now(), Tenant: p.Tenant, Subject: p.Subject, Issuer: p.Issuer, Key: p.Key, Role: p.Role.String(), Address: c.opts.Browser.Address(v.r),
		Operation: operation, Binding: "console", Target: how, Result: audit.OK, Request: auth.RequestID(v.r.Header["X-Request-Id"]),
	}
	if err != nil {
		e.Result = a2a.CodeUnauthenticated.String()
		if refused, ok := errors.AsType[*a2a.Error](err); ok {
			e.Result = refused.Code.String()
		}
		c.opts.Audit.Record(e) // of which there can be many
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), auditTimeout)
	defer cancel()
	if err := c.opts.Audit.Commit(ctx, e); err != nil {
		c.log.ErrorContext(ctx, "It could not be recorded in the audit log who has signed in or out", "error", err)
	}
}
