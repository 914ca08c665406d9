package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/oauth"
)

// callbackPath is where people come back from an issuer.
const callbackPath = Prefix + "login/callback"

const (
	loginTime    = 10 * time.Minute // from leaving for the issuer to coming back
	metadataTime = 10 * time.Minute // for which is believed what an issuer says of itself
	maxOIDCNext  = 512              // bytes; it is kept in a cookie
)

// loginVisit is a sign-in at an issuer that has begun. The browser keeps it,
// sealed, so that nobody who has not signed in can fill the store.
type loginVisit struct {
	Authorization *oauth.Authorization `json:"authorization"`
	Issuer        string               `json:"issuer"`
	Client        string               `json:"client"`
	State         string               `json:"state"`
	Nonce         string               `json:"nonce"`
	Next          string               `json:"next"`
	Until         time.Time            `json:"until"`
}

// knownIssuer is what the issuer says of itself; after a reload it may be another. It is
// safe for concurrent use.
type knownIssuer struct {
	mu     sync.Mutex
	name   string
	server *oauth.Server
	until  time.Time
}

// find returns what an issuer says of itself, as it did a while ago at most.
func (i *knownIssuer) find(ctx context.Context, client *http.Client, issuer string) (*oauth.Server, error) {
	i.mu.Lock()
	name, known, until := i.name, i.server, i.until
	i.mu.Unlock()
	if name == issuer && time.Now().Before(until) {
		return known, nil
	}
	server, err := oauth.Discover(ctx, client, issuer)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.name, i.server, i.until = issuer, server, time.Now().Add(metadataTime)
	return server, nil
}

// client returns the console as a client of its issuer.
func (c *Console) client(ctx context.Context, o *config.ConsoleOIDC) (*oauth.Client, error) {
	server, err := c.issuer.find(ctx, c.opts.Client, o.Issuer)
	if err != nil {
		return nil, err
	}
	return &oauth.Client{ID: o.ClientID, Secret: o.ClientSecret.Reveal(), Server: *server, HTTP: c.opts.Client}, nil
}

// loginCookie returns the name of the cookie that keeps a sign-in that has begun.
func loginCookie(secure bool) string {
	if secure {
		return "__Host-handoff_login"
	}
	return "handoff_login"
}

// oidc returns the configuration of signing in at an issuer, nil when nobody does.
func (c *Console) oidc() *config.ConsoleOIDC {
	if c.opts.Identity == nil || c.opts.Sealer == nil {
		return nil
	}
	return c.opts.Config().Console.OIDC
}

// beginOIDC sends a browser to the issuer (OpenID Connect Core §3.1.2.1).
func (c *Console) beginOIDC(w http.ResponseWriter, r *http.Request) {
	v := c.view(w, r)
	o := c.oidc()
	if o == nil {
		c.fail(v, http.StatusNotFound, "Nothing here", "Nobody signs in so on this node.")
		return
	}
	next := localPath(r.URL.Query().Get("next"))
	client, err := c.client(r.Context(), o)
	if err != nil {
		c.issuerAway(v, next, err)
		return
	}
	cfg := c.opts.Config()
	redirect := card.BaseURL(r, cfg.PublicURL, cfg.TrustedPrefixes()) + callbackPath
	visit := &loginVisit{Issuer: o.Issuer, Client: o.ClientID, State: rand.Text(), Nonce: rand.Text(), Next: next, Until: time.Now().Add(loginTime)}
	if len(next) > maxOIDCNext {
		visit.Next = Prefix
	}
	if visit.Authorization, err = client.Authorize(visit.State, redirect, oauth.Access{Scopes: o.Scopes}); err != nil {
		c.issuerAway(v, next, err)
		return
	}
	at, err := url.Parse(visit.Authorization.URL)
	if err != nil {
		v.failed(err)
		return
	}
	q := at.Query()
	q.Set("nonce", visit.Nonce)
	at.RawQuery = q.Encode()
	visit.Authorization.URL = "" // it is not needed again
	plain, err := json.Marshal(visit)
	if err != nil {
		v.failed(err)
		return
	}
	sealed, err := c.opts.Sealer.Seal(plain)
	if err != nil {
		v.failed(err)
		return
	}
	v.setCookie(loginCookie(c.opts.Browser.Secure(r)), base64.RawURLEncoding.EncodeToString(sealed), loginTime)
	http.Redirect(w, r, at.String(), http.StatusSeeOther)
}

// issuerAway says that nobody can sign in at the issuer now. The log has the
// reason.
func (c *Console) issuerAway(v *view, next string, err error) {
	c.log.ErrorContext(v.r.Context(), "Nobody can sign in at the issuer of the console", "error", err)
	c.loginPage(v, http.StatusBadGateway, next, "The issuer of accounts cannot be reached now, or does not answer as it should. Try again in a moment.")
}

// visit returns the sign-in that a browser has begun, and takes it from it.
func (c *Console) visit(v *view) (*loginVisit, bool) {
	name := loginCookie(c.opts.Browser.Secure(v.r))
	list := v.r.CookiesNamed(name)
	if len(list) != 1 {
		return nil, false
	}
	v.setCookie(name, "", 0)
	sealed, err := base64.RawURLEncoding.DecodeString(list[0].Value)
	if err != nil {
		return nil, false
	}
	plain, err := c.opts.Sealer.Open(sealed)
	if err != nil {
		return nil, false
	}
	visit := &loginVisit{}
	if json.Unmarshal(plain, visit) != nil || visit.Authorization == nil || !time.Now().Before(visit.Until) {
		return nil, false
	}
	return visit, true
}

// endOIDC signs somebody in who comes back from the issuer (OpenID Connect Core
// §3.1.2.5).
func (c *Console) endOIDC(w http.ResponseWriter, r *http.Request) {
	v := c.view(w, r)
	v.w.Header().Set("Referrer-Policy", "no-referrer") // the code is in the address
	o := c.oidc()
	if o == nil {
		c.fail(v, http.StatusNotFound, "Nothing here", "Nobody signs in so on this node.")
		return
	}
	q := r.URL.Query()
	visit, ok := c.visit(v)
	if !ok || len(q["state"]) != 1 || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(visit.State)) != 1 || visit.Issuer != o.Issuer || visit.Client != o.ClientID {
		c.loginPage(v, http.StatusBadRequest, Prefix, "This sign-in was not begun in this browser, or it took too long. Begin again.")
		return
	}
	done, err := c.opts.Sessions.Try(c.opts.Browser.Address(r))
	if err != nil {
		c.tooMany(v, visit.Next, err)
		return
	}
	p, err := c.identify(r.Context(), o, visit, q)
	done(err != nil && !isAway(err))
	c.record(v, auth.ByOIDC, &p, err)
	if err == nil {
		c.enter(v, &p, auth.ByOIDC, visit.Next)
		return
	}
	c.log.WarnContext(r.Context(), "Somebody could not sign in at the issuer of the console", "error", err)
	denied, ok := errors.AsType[*oauth.DeniedError](err)
	switch {
	case ok:
		c.loginPage(v, http.StatusUnauthorized, visit.Next, "The issuer has not signed you in: "+denied.Code+".")
	case a2a.CodeOf(err) == a2a.CodePermissionDenied:
		c.loginPage(v, http.StatusForbidden, visit.Next, "This account has no role here. Ask the operator of the node.")
	case isAway(err):
		c.loginPage(v, http.StatusBadGateway, visit.Next, "The issuer of accounts cannot be reached now. Try again in a moment.")
	default:
		c.loginPage(v, http.StatusUnauthorized, visit.Next, "What the issuer says is not accepted here. The node's log has the reason.")
	}
}

// identify returns who the issuer says has signed in.
func (c *Console) identify(ctx context.Context, o *config.ConsoleOIDC, visit *loginVisit, response url.Values) (auth.Principal, error) {
	code, err := visit.Authorization.CodeOf(response)
	if err != nil {
		return auth.Principal{}, err
	}
	client, err := c.client(ctx, o)
	if err != nil {
		return auth.Principal{}, &a2a.Error{Code: a2a.CodeUnavailable, Message: "The issuer cannot be reached", Err: err}
	}
	token, err := client.Exchange(ctx, visit.Authorization, code)
	if err != nil {
		return auth.Principal{}, err
	}
	if token.ID == "" {
		return auth.Principal{}, a2a.Errorf(a2a.CodeUnauthenticated, "The issuer has sent no ID token")
	}
	return c.opts.Identity(ctx, visit.Issuer, token.ID, visit.Client, visit.Nonce)
}
