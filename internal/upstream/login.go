package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/oauth"
)

// ErrLogin says that a server asks for a login of the caller, which there has not
// been.
var ErrLogin = errors.New("the caller has not logged in to the server")

// loginError is a request that has to wait for a login.
type loginError struct {
	login *login
	who   *auth.Principal
	need  need
}

func (e *loginError) Error() string { return ErrLogin.Error() }

func (e *loginError) Unwrap() error { return ErrLogin }

func isLogin(err error) bool { return errors.Is(err, ErrLogin) }

// need is what a token is to be for.
type need struct {
	Server   oauth.Server `json:"server"`
	Resource string       `json:"resource"`
	Scopes   []string     `json:"scopes"`
	Steps    int          `json:"steps"` // how often scopes were asked for that were there
}

// login gets the tokens of one server, for the node or for each caller (AUT-14 to
// AUT-22). One token is for one caller, and for the authorization server that gave
// it.
type login struct {
	h      *httpServer
	config *config.MCPOAuth
	name   string
	desk   *Login
	guard  *netguard.Guard

	mu    sync.Mutex
	gates map[string]chan struct{} // of those for whom a token is being got
	kept  map[string]*keptToken
	found map[string]foundServer // authorization servers by issuer
}

type foundServer struct {
	server *oauth.Server
	until  time.Time
}

const (
	metadataAge = time.Hour
	maxSteps    = 2 // logins for scopes that a token should have had (AUT-21)
	maxTokens   = 10_000
)

func newLogin(h *httpServer, c *config.MCPOAuth, desk *Login, guard *netguard.Guard) *login {
	return &login{h: h, config: c, name: h.name, desk: desk, guard: guard, gates: map[string]chan struct{}{}, kept: map[string]*keptToken{}, found: map[string]foundServer{}}
}

// shared reports whether one token counts for all.
func (c *login) shared() bool {
	return c.config.Flow == config.PeerFlowClientCredentials || c.config.Shared
}

// whose names for whom the token of a caller is.
func (c *login) whose(caller *auth.Principal) string {
	if c.shared() {
		return "node"
	}
	return callerKey(caller)
}

// enter makes others wait for a token until the function is called.
func (c *login) enter(ctx context.Context, who string) (leave func(), err error) {
	c.mu.Lock()
	gate := c.gates[who]
	if gate == nil {
		if len(c.gates) > maxTokens {
			c.gates = map[string]chan struct{}{}
		}
		gate = make(chan struct{}, 1)
		c.gates[who] = gate
	}
	c.mu.Unlock()
	select {
	case gate <- struct{}{}:
		return func() { <-gate }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// apply shows the token of the caller, if there is one; the server says so if it
// asks for one.
func (c *login) apply(ctx context.Context, header http.Header, caller *auth.Principal) error {
	header.Del("Authorization")
	who := c.whose(caller)
	t, err := c.token(ctx, who)
	if err != nil {
		return err
	}
	if t != nil && !t.Token.Good(c.h.now()) && t.Token.Refresh != "" {
		if t, err = c.refresh(ctx, who, t.Token.Access); err != nil {
			return err
		}
	}
	if t != nil && c.h.now().Before(t.Token.Expires) {
		header.Set("Authorization", "Bearer "+t.Token.Access)
	}
	return nil
}

// refused gets what the server asks for.
func (c *login) refused(ctx context.Context, r *http.Response, caller *auth.Principal, attempt int) (bool, error) {
	asked := challengeOf(r)
	if attempt > 2 || r.StatusCode == http.StatusForbidden && asked.problem != "insufficient_scope" {
		return false, nil
	}
	who, shown := c.whose(caller), strings.TrimPrefix(r.Request.Header.Get("Authorization"), "Bearer ")
	t, err := c.token(ctx, who)
	if err != nil {
		return false, err
	}
	unauthorized := r.StatusCode == http.StatusUnauthorized && t != nil
	if unauthorized && t.Token.Access != shown && t.Token.Good(c.h.now()) && attempt == 1 {
		return true, nil // another request has replaced it
	}
	n, err := c.needs(ctx, asked, t)
	if err != nil {
		return false, err
	}
	if unauthorized && t.Token.Refresh != "" && t.Issuer == n.Server.Issuer && attempt == 1 {
		if t, err = c.refresh(ctx, who, shown); err != nil || t != nil {
			return err == nil, err
		}
	}
	if c.config.Flow == config.PeerFlowClientCredentials {
		return true, c.ask(ctx, who, n, shown)
	}
	if n.Steps > maxSteps {
		return false, nil
	}
	return false, &loginError{login: c, who: caller, need: *n}
}

// needs works out where a token is to be got, and for what (AUT-18, AUT-21).
func (c *login) needs(ctx context.Context, asked challenge, t *keptToken) (*need, error) {
	described, err := c.describeResource(ctx, asked)
	if err != nil && c.config.Issuer == "" {
		return nil, err
	}
	if described == nil {
		u, err := url.Parse(c.h.url)
		if err != nil {
			return nil, fmt.Errorf("read URL of the server: %w", err)
		}
		described = &resource{Resource: canonical(u), Servers: []string{c.config.Issuer}}
	}
	issuers := described.Servers
	if c.config.Issuer != "" {
		if !slices.Contains(issuers, c.config.Issuer) && len(issuers) > 0 && asked.metadata != "" {
			return nil, fmt.Errorf("the server believes the authorization server %.200q and not %q, which is configured", issuers[0], c.config.Issuer)
		}
		issuers = []string{c.config.Issuer}
	}
	var server *oauth.Server
	for _, issuer := range issuers[:min(len(issuers), 5)] {
		if server, err = c.discover(ctx, issuer); err == nil {
			break
		}
	}
	if server == nil {
		return nil, err
	}
	n := &need{Server: *server, Resource: described.Resource}
	switch {
	case len(c.config.Scopes) > 0:
		n.Scopes = slices.Clone(c.config.Scopes)
	case len(asked.scopes) > 0:
		n.Scopes = asked.scopes
	default:
		n.Scopes = described.Scopes
	}
	if t != nil && t.Issuer == server.Issuer && asked.problem == "insufficient_scope" {
		more := false
		for _, scope := range asked.scopes {
			more = more || !slices.Contains(t.Scopes, scope)
		}
		if !more || t.Steps > 0 {
			n.Steps = t.Steps + 1
		}
		if more && n.Steps == 0 {
			n.Steps = 1
		}
		n.Scopes = union(t.Scopes, union(n.Scopes, asked.scopes))
	}
	if c.config.Flow != config.PeerFlowClientCredentials && slices.Contains(server.Scopes, "offline_access") {
		n.Scopes = union(n.Scopes, []string{"offline_access"})
	}
	return n, nil
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, one := range b {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// discover returns what an authorization server says of itself (AUT-15, AUT-16).
func (c *login) discover(ctx context.Context, issuer string) (*oauth.Server, error) {
	now := c.h.now()
	c.mu.Lock()
	known := c.found[issuer]
	c.mu.Unlock()
	if known.server != nil && now.Before(known.until) {
		return known.server, nil
	}
	s, err := oauth.Discover(ctx, c.wayTo(issuer), issuer)
	if err != nil {
		return nil, err
	}
	if s256, _ := s.PKCE(); !s256 && c.config.Flow != config.PeerFlowClientCredentials {
		return nil, &oauth.MetadataError{Place: issuer, Err: errors.New("it does not say that it takes challenges of the method S256 (PKCE)")}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.found) > 100 {
		c.found = map[string]foundServer{}
	}
	c.found[issuer] = foundServer{s, now.Add(metadataAge)}
	return s, nil
}

// wayTo returns the way to an address that the server, or somebody whom it names, has
// told of. It has to be public, unless the operator has named its origin (SEC-03); a
// server of this machine may name others of this machine.
func (c *login) wayTo(address string) *http.Client {
	o := netguard.Options{DialTimeout: c.h.connect, TLSTimeout: c.h.connect, MaxRedirects: -1}
	u, err := url.Parse(address)
	if err != nil {
		return c.desk.client(c.guard, o, true)
	}
	for _, own := range []string{c.h.url, c.config.Issuer} {
		v, err := url.Parse(own)
		if own != "" && err == nil && (netguard.SameOrigin(u, v) || netguard.IsLoopback(u.Hostname()) && netguard.IsLoopback(v.Hostname())) {
			return c.desk.client(c.guard, o, false)
		}
	}
	return c.desk.client(c.guard, o, true)
}

// orLogin returns the answer to a request that waits for a login: a client that can
// send its user to a page is told which (AUT-21, ELI-05).
func (h *httpServer) orLogin(r *Request, err error) (Answer, error) {
	e, ok := errors.AsType[*loginError](err)
	if !ok {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.timeout)
	defer cancel()
	m := r.Message
	if !takesInput(m.Method) || !m.Capabilities().ElicitURL {
		// The client cannot send its user anywhere.
		if err := e.login.wants(ctx, e.who, e.need); err != nil {
			return nil, h.refused("a login cannot be asked for", err)
		}
	}
	if !takesInput(m.Method) {
		return nil, &Error{
			Server: h.name, Kind: ErrUnavailable, Err: e,
			Reply: &mcp.Error{Code: mcp.CodeDenied, Message: fmt.Sprintf("The server %q asks for a login, which a call of one of its tools begins, or the inbox", h.name)},
		}
	}
	if !m.Capabilities().ElicitURL {
		missing := mcp.MissingCapability(`{"elicitation":{"url":{}}}`)
		missing.Message = fmt.Sprintf("The server %q asks for a login. It waits in the inbox of the node, since the client has not declared that it can send its user to a page", h.name)
		return single(failure(m.ID, missing))
	}
	link, err := e.login.begin(ctx, e.who, e.need)
	if err != nil {
		return nil, h.refused("a login cannot begin", err)
	}
	return single(loginQuestion(m.ID, fmt.Sprintf("Log in to %s to go on.", h.name), link))
}

// loginKey is the key of the question that sends a user to a login.
const loginKey = "handoff-login"

func loginQuestion(id []byte, message, link string) (*mcp.Message, error) {
	return urlQuestions(id, []page{{loginKey, message, link}})
}

// withoutLogin returns a request without the answer to the question that sent the
// user to a login: the server has not asked it. refused says that the user would
// not go (ELI-04).
func withoutLogin(r *Request) (without *Request, refused bool) {
	m := r.Message
	answers, bad := answersOf(m)
	answer, ok := answers[loginKey]
	if bad != nil || !ok {
		return r, false
	}
	var next []byte
	next = append(next, '{')
	for key, value := range answers {
		if key == loginKey {
			continue
		}
		if len(next) > 1 {
			next = append(next, ',')
		}
		next = appendQuoted(next, key)
		next = append(append(next, ':'), value...)
	}
	next = append(next, '}')
	if len(answers) == 1 {
		next = nil
	}
	one := *r
	one.Message = m.WithParam("inputResponses", next)
	return &one, strings.Contains(string(answer), `"decline"`) || strings.Contains(string(answer), `"cancel"`)
}
