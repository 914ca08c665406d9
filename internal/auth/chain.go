package auth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
)

// ChainOptions are the kinds of credentials that are accepted. A kind that is
// nil or empty is not.
type ChainOptions struct {
	Keys  *Keys
	OIDC  []config.OIDC
	Basic []config.BasicUser
	MTLS  *config.MTLS
	// Anonymous accepts callers without credentials.
	Anonymous Anonymous
	// Client fetches the keys of issuers, which the operator has configured.
	Client *http.Client
	Logger *slog.Logger // nil: slog.Default()
	// Resource returns the URL of the metadata of the resource that a request is
	// for (RFC 9728 §3), "" for none. Nil: none.
	Resource func(r *http.Request) string
	// Audiences returns what a token for the resource of a request has to name in
	// aud, one of them; nil: that of its issuer. Nil: always that.
	Audiences func(r *http.Request) []string
	// Scopes returns the scopes that any use of the resource of a request takes,
	// which callers without a credential are told (MCP AUT-09). Nil: none.
	Scopes func(r *http.Request) []string
	// Before is the chain that this one replaces, nil for none. What it knows of
	// issuers, and of who guesses passwords, is kept.
	Before *Chain
}

// Chain finds the caller of a request by whatever credential it has. The form of
// a credential decides its kind, and a credential that is wrong is refused:
// nobody becomes another caller, or an anonymous one, by it.
type Chain struct {
	keys         *Keys
	tokens       *tokens
	passwords    *passwords
	certificates *certificates
	anonymous    Anonymous
	failures     *failures
	log          *slog.Logger
	resource     func(r *http.Request) string
	audiences    func(r *http.Request) []string
	scopes       func(r *http.Request) []string
}

var _ Authenticator = (*Chain)(nil)

// NewChain returns a chain. The error names the key of the configuration that is
// wrong.
func NewChain(o ChainOptions) (*Chain, error) {
	c := &Chain{keys: o.Keys, anonymous: o.Anonymous, failures: newFailures(), log: o.Logger, resource: o.Resource, audiences: o.Audiences, scopes: o.Scopes}
	if c.log == nil {
		c.log = slog.Default()
	}
	var err error
	if len(o.OIDC) > 0 {
		if c.tokens, err = newTokens(o.OIDC, o.Client); err != nil {
			return nil, err
		}
	}
	if before := o.Before; before != nil {
		c.failures = before.failures
		if before.tokens != nil && c.tokens != nil {
			c.tokens.inherit(before.tokens)
		}
	}
	if len(o.Basic) > 0 {
		if c.passwords, err = newPasswords(o.Basic); err != nil {
			return nil, err
		}
	}
	if o.MTLS != nil {
		c.certificates = &certificates{o.MTLS}
	}
	return c, nil
}

// Authenticate returns the caller of a request, or a *Refusal.
func (c *Chain) Authenticate(r *http.Request) (Principal, error) {
	shown := credentialOf(r.Header)
	if shown.kind == credentialNone {
		return c.withoutCredential(r)
	}
	client := c.anonymous.Proxies.client(r)
	p, err := c.check(r, &shown, client.text)
	if err != nil {
		return Principal{Address: client.text}, err
	}
	p.Address, p.Local = client.text, client.local()
	// The caller of one request must not change what others see.
	p.Scopes = slices.Clip(p.Scopes)
	return p, nil
}

// withoutCredential returns the caller of a request without one: who the
// certificate of its connection is for, or else an anonymous one.
func (c *Chain) withoutCredential(r *http.Request) (Principal, error) {
	// The certificate of a proxy says nothing of whom it forwards.
	if certificate := verified(r.TLS); certificate != nil && c.certificates != nil && !c.anonymous.Proxies.Trusts(r) {
		p, err := c.certificates.authenticate(certificate)
		if err != nil {
			return Principal{}, c.refuse(r, errorInvalid, "The client certificate is not accepted: "+err.Error())
		}
		client := c.anonymous.Proxies.client(r)
		p.Address, p.Local = client.text, client.local()
		return p, nil
	}
	p, err := c.anonymous.Authenticate(r)
	if err != nil {
		return Principal{}, &Refusal{Err: refused(err), Challenges: c.challenges(r, "", "")}
	}
	return p, nil
}

func refused(err error) *a2a.Error {
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return e
	}
	return a2a.Errorf(a2a.CodeUnauthenticated, "Authentication is required")
}

// check returns the caller that a credential is of. Errors of credentials are
// told to the caller in general words, and to the log in full.
func (c *Chain) check(r *http.Request, shown *credential, address string) (Principal, error) {
	const off = "This kind of credential is not accepted here"
	ctx := r.Context()
	switch shown.kind {
	case credentialKey:
		if c.keys == nil {
			return Principal{}, c.refuse(r, errorInvalid, off)
		}
		p, err := c.keys.authenticate(ctx, shown.secret)
		switch {
		case is[keyError](err):
			refusal := c.refuse(r, errorInvalid, "The API key is unknown, revoked or expired")
			refusal.Reason = err.Error()
			return Principal{}, refusal
		case err != nil:
			return Principal{}, unavailable(ctx, err, "API keys cannot be checked now")
		}
		return p, nil
	case credentialToken:
		if c.tokens == nil {
			return Principal{}, c.refuse(r, errorInvalid, off)
		}
		return c.checkToken(r, shown.secret)
	case credentialBasic:
		if c.passwords == nil {
			return Principal{}, c.refuse(r, "", off)
		}
		return c.checkPassword(r, shown, address)
	}
	problem, message := errorInvalid, shown.problem
	if shown.viaBasic {
		problem = ""
	}
	if shown.viaBasic && c.passwords == nil || !shown.viaBasic && c.keys == nil && c.tokens == nil {
		message = off
	}
	return Principal{}, c.refuse(r, problem, message)
}

func (c *Chain) checkToken(r *http.Request, text string) (Principal, error) {
	var audiences []string
	if c.audiences != nil {
		audiences = c.audiences(r)
	}
	p, err := c.tokens.authenticate(r.Context(), text, audiences)
	if err == nil {
		return p, nil
	}
	if wrong, ok := errors.AsType[tokenError](err); ok {
		return Principal{}, c.refuse(r, errorInvalid, wrong.Error())
	}
	if errors.Is(err, errNoRole) {
		return Principal{}, a2a.Errorf(a2a.CodePermissionDenied, "The token is right, but gives its caller no role here")
	}
	if errors.Is(err, errIssuerAway) {
		c.log.ErrorContext(r.Context(), "Tokens cannot be checked, since the keys of their issuer cannot be fetched", "error", err)
	}
	return Principal{}, unavailable(r.Context(), err, "The token cannot be checked now, since the keys of its issuer cannot be fetched")
}

// Identity returns who an ID token is of, which an issuer has given to a client
// for a login with that nonce. The error says what is wrong with the token, or
// that it cannot be checked now.
func (c *Chain) Identity(ctx context.Context, issuer, token, client, nonce string) (Principal, error) {
	if c.tokens == nil {
		return Principal{}, tokenError("No issuers are known here")
	}
	p, err := c.tokens.identify(ctx, issuer, token, client, nonce)
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, errNoRole):
		return Principal{}, a2a.Errorf(a2a.CodePermissionDenied, "This account has no role here")
	case is[tokenError](err):
		return Principal{}, a2a.Errorf(a2a.CodeUnauthenticated, "%s", err.Error())
	}
	return Principal{}, unavailable(ctx, err, "The token cannot be checked now, since the keys of its issuer cannot be fetched")
}

func (c *Chain) checkPassword(r *http.Request, shown *credential, address string) (Principal, error) {
	if p, ok := c.passwords.recall(shown.user, shown.secret); ok {
		return p, nil
	}
	if wait := c.failures.begin(address); wait > 0 {
		return Principal{}, &a2a.Error{
			Code: a2a.CodeResourceExhausted, RetryAfter: wait,
			Message:  "There were too many wrong passwords from this address; try again later",
			Metadata: map[string]string{a2a.MetadataLimit: LimitPasswords},
		}
	}
	p, err := c.passwords.authenticate(r.Context(), shown.user, shown.secret)
	c.failures.end(address, errors.Is(err, errNoPassword))
	switch {
	case errors.Is(err, errNoPassword):
		return Principal{}, c.refuse(r, "", "The name or the password is wrong")
	case err != nil:
		return Principal{}, err
	}
	return p, nil
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// unavailable is the error for a credential that cannot be checked now: whether
// it is right is not known.
func unavailable(ctx context.Context, err error, message string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &a2a.Error{Code: a2a.CodeUnavailable, Message: message, RetryAfter: 2 * time.Second, Err: err}
}

// realm is what credentials are for (RFC 9110 §11.5).
const realm = "handoff"

// Error codes of bearer tokens (RFC 6750 §3.1).
const (
	errorInvalid = "invalid_token"
	errorScope   = "insufficient_scope"
)

// refuse returns the refusal of a wrong credential. The problem is an error code
// of bearer tokens, or "" when it was no such credential.
func (c *Chain) refuse(r *http.Request, problem, message string) *Refusal {
	return &Refusal{
		Err: a2a.Errorf(a2a.CodeUnauthenticated, "%s", message), Challenges: c.challenges(r, problem, message),
	}
}

// challenges returns how a client can authenticate. Without any kind of
// credential it is still a challenge, since a 401 has to have one (RFC 9110
// §15.5.2).
func (c *Chain) challenges(r *http.Request, problem, message string) []string {
	var list []string
	if c.keys != nil || c.tokens != nil || c.passwords == nil {
		scope := ""
		if c.scopes != nil {
			scope = strings.Join(c.scopes(r), " ")
		}
		list = append(list, c.bearer(r, problem, message, scope))
	}
	if c.passwords != nil {
		list = append(list, `Basic realm="`+realm+`", charset="UTF-8"`)
	}
	return list
}

// bearer returns a challenge for bearer tokens (RFC 6750 §3).
func (c *Chain) bearer(r *http.Request, problem, message, scope string) string {
	var b strings.Builder
	b.WriteString(`Bearer realm="` + realm + `"`)
	add := func(name, value string) {
		if value != "" {
			b.WriteString(`, ` + name + `="` + quotable(value) + `"`)
		}
	}
	add("error", problem)
	if problem != "" {
		add("error_description", message)
	}
	add("scope", scope)
	if c.tokens != nil && c.resource != nil {
		add("resource_metadata", c.resource(r))
	}
	return b.String()
}

// quotable returns a text as a quoted string may have it (RFC 6750 §3).
func quotable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '"' || r == '\\':
			return '\''
		case r < 0x20 || r > 0x7e:
			return '?'
		}
		return r
	}, text)
}

// Challenge returns what a caller without a credential is told when it needs
// one, though anonymous callers are let in elsewhere.
func (c *Chain) Challenge(r *http.Request) []string { return c.challenges(r, "", "") }

// ScopeChallenge returns what a caller is told whose credential lacks scopes (RFC
// 6750 §3.1).
func (c *Chain) ScopeChallenge(r *http.Request, scopes []string, message string) []string {
	return []string{c.bearer(r, errorScope, message, strings.Join(scopes, " "))}
}
