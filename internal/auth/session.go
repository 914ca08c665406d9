package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// How a session began.
const (
	ByKey  = "key"  // with an API key
	ByOIDC = "oidc" // at an issuer of callers.oidc
	ByLink = "link" // by a link that works once
)

// Bounds of sessions and of links.
const (
	sessionLife  = 12 * time.Hour
	linkLife     = 10 * time.Minute
	spaceSession = "console.session"
	spaceLink    = "console.link"
	secretLength = 43 // letters and digits: more than 256 bits
)

// LimitSignIns is the name of the limit on sign-ins that fail, under
// a2a.MetadataLimit.
const LimitSignIns = "sign-ins"

// ErrNoSession says that there is no such session, or that it has ended.
var ErrNoSession = errors.New("there is no such session")

// ErrNoLink says that a link is unknown, used or too old.
var ErrNoLink = errors.New("there is no such link")

// SessionSealer encrypts what is kept of sessions.
type SessionSealer interface {
	Seal(plain []byte) ([]byte, error)
	Open(sealed []byte) ([]byte, error)
}

// SessionOptions are what sessions need.
type SessionOptions struct {
	Docs store.Docs
	// Sealer seals who a session is of; nil: it is kept as it is.
	Sealer SessionSealer
	// Keys are looked at whenever a session is used that one of them began; nil:
	// there are none.
	Keys *Keys
	// Issuer reports whether tokens of an issuer are still accepted; nil: none are.
	Issuer func(issuer string) bool
	Now    func() time.Time // nil: time.Now
}

// Sessions are the sessions of people with a browser. What is kept of one is
// found by the hash of a random id, which the browser alone has. It is safe for
// concurrent use.
type Sessions struct {
	opts     SessionOptions
	failures *failures
}

// NewSessions returns the sessions of a store.
func NewSessions(o SessionOptions) *Sessions {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sessions{opts: o, failures: newFailures()}
}

// Session is a session of a person.
type Session struct {
	Principal Principal
	How       string // ByKey, ByOIDC or ByLink
	Begun     time.Time
	Ends      time.Time
}

// sessionDoc is what is kept of a session.
type sessionDoc struct {
	Tenant  string    `json:"tenant,omitempty"`
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"`
	Scopes  []string  `json:"scopes,omitempty"`
	Role    string    `json:"role"`
	Key     string    `json:"key,omitempty"`
	How     string    `json:"how"`
	Begun   time.Time `json:"begun"`
	Ends    time.Time `json:"ends"`
}

// Begin begins a session and returns its id, which is nowhere else.
func (s *Sessions) Begin(ctx context.Context, p *Principal, how string) (id string, session *Session, err error) {
	now := s.opts.Now().UTC().Truncate(time.Millisecond)
	if p.Anonymous() || p.Role == RoleNone {
		return "", nil, errors.New("begin session: nobody has signed in")
	}
	session = &Session{Principal: *p, How: how, Begun: now, Ends: now.Add(sessionLife)}
	id = randomText(secretLength)
	err = s.put(ctx, spaceSession, id, session.Ends, &sessionDoc{
		Tenant: p.Tenant, Issuer: p.Issuer, Subject: p.Subject, Scopes: p.Scopes, Role: p.Role.String(), Key: p.Key,
		How: how, Begun: session.Begun, Ends: session.Ends,
	})
	if err != nil {
		return "", nil, fmt.Errorf("begin session: %w", err)
	}
	return id, session, nil
}

// Find returns a session, with its principal as it is now; or ErrNoSession. The
// error may be that of the store.
func (s *Sessions) Find(ctx context.Context, id string) (*Session, error) {
	var d sessionDoc
	if err := s.read(ctx, spaceSession, id, &d); err != nil {
		return nil, err
	}
	role, ok := ParseRole(d.Role)
	if !ok || !s.opts.Now().Before(d.Ends) {
		return nil, ErrNoSession
	}
	session := &Session{How: d.How, Begun: d.Begun, Ends: d.Ends, Principal: Principal{
		Tenant: d.Tenant, Issuer: d.Issuer, Subject: d.Subject, Scopes: d.Scopes, Role: role, Key: d.Key, Session: d.How,
	}}
	switch {
	case d.Key != "":
		if s.opts.Keys == nil {
			return nil, ErrNoSession
		}
		if err := s.opts.Keys.stillGood(ctx, d.Key); is[keyError](err) {
			return nil, ErrNoSession
		} else if err != nil {
			return nil, err
		}
	case d.How == ByOIDC && (s.opts.Issuer == nil || !s.opts.Issuer(d.Issuer)):
		return nil, ErrNoSession
	}
	return session, nil
}

// End ends a session. One that there is not is ErrNoSession.
func (s *Sessions) End(ctx context.Context, id string) error {
	return s.take(ctx, spaceSession, id, ErrNoSession)
}

// Link makes a secret that signs one person in, once, within ten minutes.
func (s *Sessions) Link(ctx context.Context) (secret string, expires time.Time, err error) {
	secret, expires = randomText(secretLength), s.opts.Now().Add(linkLife).UTC().Truncate(time.Second)
	if err := s.put(ctx, spaceLink, secret, expires, struct{}{}); err != nil {
		return "", time.Time{}, fmt.Errorf("make link: %w", err)
	}
	return secret, expires, nil
}

// Redeem uses a link up. One that there is not, or that somebody else has used,
// is ErrNoLink.
func (s *Sessions) Redeem(ctx context.Context, secret string) error {
	if err := s.read(ctx, spaceLink, secret, &struct{}{}); err != nil {
		if errors.Is(err, ErrNoSession) {
			return ErrNoLink
		}
		return err
	}
	return s.take(ctx, spaceLink, secret, ErrNoLink) // only one of several takes it
}

// Try lets a client try to sign in, unless too much has gone wrong for it. The
// error is an *a2a.Error. What is returned has to be called with whether it went
// wrong.
func (s *Sessions) Try(address string) (done func(wrong bool), err error) {
	if wait := s.failures.begin(address); wait > 0 {
		return nil, &a2a.Error{
			Code: a2a.CodeResourceExhausted, RetryAfter: wait, Message: "There were too many sign-ins that failed from this address; try again later",
			Metadata: map[string]string{a2a.MetadataLimit: LimitSignIns},
		}
	}
	return func(wrong bool) { s.failures.end(address, wrong) }, nil
}

// docKey is the name of what is found by a secret.
func docKey(space, secret string) string {
	sum := sha256.Sum256([]byte("handoff " + space + "\x00" + secret))
	return hex.EncodeToString(sum[:])
}

// plausible reports whether a text can be a secret of ours.
func plausible(secret string) bool {
	return len(secret) == secretLength && strings.Trim(secret, keyDigits) == ""
}

// put keeps something under a secret.
func (s *Sessions) put(ctx context.Context, space, secret string, expires time.Time, what any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	d := &store.Doc{Space: space, Key: docKey(space, secret), Body: body, Expires: expires}
	if s.opts.Sealer != nil {
		if d.Secret, err = s.opts.Sealer.Seal(body); err != nil {
			return err
		}
		d.Body = []byte("{}")
	}
	return s.opts.Docs.PutDoc(ctx, d)
}

// read reads what is kept under a secret, or ErrNoSession.
func (s *Sessions) read(ctx context.Context, space, secret string, into any) error {
	if !plausible(secret) {
		return ErrNoSession
	}
	d, err := s.opts.Docs.Doc(ctx, store.ForAll(), space, docKey(space, secret))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ErrNoSession
	case err != nil:
		return fmt.Errorf("find session: %w", err)
	case !s.opts.Now().Before(d.Expires):
		return ErrNoSession
	}
	body := d.Body
	if s.opts.Sealer != nil {
		// What was kept before there was a key, or with one that is gone, is of no use.
		if body, err = s.opts.Sealer.Open(d.Secret); err != nil {
			return ErrNoSession
		}
	} else if d.Secret != nil {
		return ErrNoSession
	}
	if err := json.Unmarshal(body, into); err != nil {
		return ErrNoSession
	}
	return nil
}

// take removes what is kept under a secret.
func (s *Sessions) take(ctx context.Context, space, secret string, missing error) error {
	if !plausible(secret) {
		return missing
	}
	err := s.opts.Docs.DeleteDoc(ctx, store.ForAll(), space, docKey(space, secret))
	if errors.Is(err, store.ErrNotFound) {
		return missing
	}
	return err
}

// stillGood returns a keyError when the key of a session is gone, revoked or
// expired.
func (k *Keys) stillGood(ctx context.Context, id string) error {
	row, err := k.find(ctx, id)
	switch {
	case err != nil:
		return err
	case row == nil:
		return keyError("there is no API key " + id)
	}
	return k.ended(row)
}

// Browser says how requests of browsers reach the node.
type Browser struct {
	Proxies   Proxies
	PublicURL string
	// Hosts are the names, besides those of the loopback interface, under which
	// somebody on this machine may address the node.
	Hosts []string
}

// Secure reports whether a browser sends a request over TLS.
func (b *Browser) Secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if b.Proxies.Trusts(r) {
		for _, value := range r.Header["X-Forwarded-Proto"] {
			if i := strings.LastIndexByte(value, ','); strings.EqualFold(strings.TrimSpace(value[i+1:]), "https") {
				return true
			}
		}
	}
	u, err := url.Parse(b.PublicURL)
	return err == nil && u.Scheme == "https" && strings.EqualFold(u.Host, r.Host)
}

// Local reports whether a request comes from this machine, to an address of this
// machine that no other reaches, and not for a web page or through a proxy of
// somebody else.
func (b *Browser) Local(r *http.Request) bool {
	a := Anonymous{Policy: PolicyLoopback, Proxies: b.Proxies, Hosts: b.Hosts}
	if client := a.Proxies.client(r); !client.local() || !a.isLocalName(r.Host) || a.foreignOrigin(r) != "" {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	address, err := netip.ParseAddrPort(local.String())
	return err == nil && address.Addr().Unmap().IsLoopback()
}

// Address returns the network address that a request comes from.
func (b *Browser) Address(r *http.Request) string { c := b.Proxies.client(r); return c.text }

// CookieName returns the name of the cookie that holds the id of a session. Over
// TLS it is one that only this host itself can set (RFC 6265bis §4.1.3.2). The
// ports of a host share their cookies, so that the name has the port: two nodes on
// one machine do not sign people out of each other.
func (b *Browser) CookieName(r *http.Request) string {
	name := "handoff_session"
	if b.Secure(r) {
		name = "__Host-" + name
	}
	if _, port, err := net.SplitHostPort(r.Host); err == nil && isNumber(port) {
		name += "_" + port
	}
	return name
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// SessionID returns the id of the session that a request names; "" for none.
func (b *Browser) SessionID(r *http.Request) string {
	list := r.CookiesNamed(b.CookieName(r))
	if len(list) != 1 {
		return "" // of several, one is not ours
	}
	return list[0].Value
}

// Authenticator returns one that knows the sessions too: a request without
// another credential is that of its session, and one without a session is next's
// to judge. A session that has ended is refused, so that nobody becomes an
// anonymous caller by it.
func (s *Sessions) Authenticator(next Authenticator, b Browser) Authenticator {
	return &sessionAuthenticator{next, s, b}
}

type sessionAuthenticator struct {
	Authenticator
	sessions *Sessions
	browser  Browser
}

// Authenticate returns the caller of a request.
func (a *sessionAuthenticator) Authenticate(r *http.Request) (Principal, error) {
	if len(r.Header[headerAuthorization])+len(r.Header[headerAPIKey]) > 0 {
		return a.Authenticator.Authenticate(r)
	}
	id := a.browser.SessionID(r)
	if id == "" {
		return a.Authenticator.Authenticate(r)
	}
	client := a.browser.Proxies.client(r)
	session, err := a.sessions.Find(r.Context(), id)
	switch {
	case errors.Is(err, ErrNoSession):
		return Principal{Address: client.text}, &Refusal{
			Err: a2a.Errorf(a2a.CodeUnauthenticated, "The session has ended; sign in again"), Challenges: []string{`Bearer realm="` + realm + `"`},
		}
	case err != nil:
		return Principal{Address: client.text}, unavailable(r.Context(), err, "Sessions cannot be checked now")
	}
	p := session.Principal
	p.Address, p.Local = client.text, client.local()
	return p, nil
}

type principalKey struct{}

// WithPrincipal returns a context of a request whose caller is known.
func WithPrincipal(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// Known is the Authenticator of requests that the node makes to itself, in the
// name of a caller that it has authenticated: WithPrincipal says who.
type Known struct{}

// Authenticate returns the caller that the context of the request names.
func (Known) Authenticate(r *http.Request) (Principal, error) {
	if p, ok := r.Context().Value(principalKey{}).(*Principal); ok {
		return *p, nil
	}
	return Principal{}, a2a.Errorf(a2a.CodeUnauthenticated, "Authentication is required")
}
