package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/store"
)

const (
	tokenTimeout = 30 * time.Second
	maxTokenBody = 256 << 10 // bytes of an answer of a token endpoint
	maxToken     = 32 << 10  // bytes of a token
	maxUsers     = 1000      // who have logged in to one peer
	// early is how long before its end a token is replaced, at most; short-lived
	// ones are when a tenth of their life is left.
	early = time.Minute
	// unknownLife is how long a token counts as good of which the server does not
	// say it (RFC 6749 §5.1).
	unknownLife = 10 * time.Minute
)

// token is what an authorization server has given for a user.
type token struct {
	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitempty"`
	Got     time.Time `json:"got"`
	Expires time.Time `json:"expires"`
	Scope   string    `json:"scope,omitempty"`
}

// good reports whether the token will do for a while.
func (t *token) good(now time.Time) bool {
	if t == nil || t.Access == "" {
		return false
	}
	return now.Before(t.Expires.Add(-min(early, t.Expires.Sub(t.Got)/10)))
}

// login is a login that has begun.
type login struct {
	State    string    `json:"state"` // SHA-256 of the state
	Browser  string    `json:"browser,omitempty"`
	User     User      `json:"user"`
	Verifier string    `json:"verifier"` // of PKCE (RFC 7636)
	TokenURL string    `json:"token_url"`
	Address  string    `json:"address"` // where the person is sent
	Redirect string    `json:"redirect"`
	Expires  time.Time `json:"expires"`
}

// userToken is the token of a user.
type userToken struct {
	User  User  `json:"user"`
	Token token `json:"token"`
}

// wallet is what Peer.Tokens of the store holds, sealed.
type wallet struct {
	Tokens []userToken `json:"tokens,omitempty"`
	Logins []login     `json:"logins,omitempty"`
}

func (w *wallet) find(u User) *token {
	for i := range w.Tokens {
		if w.Tokens[i].User == u {
			return &w.Tokens[i].Token
		}
	}
	return nil
}

func (w *wallet) put(u User, t *token) error {
	if known := w.find(u); known != nil {
		*known = *t
		return nil
	}
	if len(w.Tokens) >= maxUsers {
		return fmt.Errorf("more than %d users have logged in", maxUsers)
	}
	w.Tokens = append(w.Tokens, userToken{u, *t})
	return nil
}

// tokens are those of one peer, of all its users.
type tokens struct {
	directory *Directory
	entry     *entry

	mu    sync.Mutex
	busy  map[User]chan struct{} // holds one: only one call gets a token of a user
	own   token                  // of the node itself, by client credentials
	read  int64                  // the version of the row that wallet is from
	store wallet
}

func newTokens(d *Directory, e *entry) *tokens {
	return &tokens{directory: d, entry: e, busy: map[User]chan struct{}{}, read: -1}
}

// enter makes others wait for a user's token until the function is called.
func (t *tokens) enter(ctx context.Context, u User) (leave func(), err error) {
	t.mu.Lock()
	gate := t.busy[u]
	if gate == nil {
		gate = make(chan struct{}, 1)
		if len(t.busy) > maxUsers { // of people who did not log in
			t.busy = map[User]chan struct{}{}
		}
		t.busy[u] = gate
	}
	t.mu.Unlock()
	select {
	case gate <- struct{}{}:
		return func() { <-gate }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// forUser returns whose token a user needs: the node has one for all, unless each
// user logs in.
func (t *tokens) forUser(u User) User {
	if o := t.entry.config.Auth.OAuth2; o.Flow == config.PeerFlowAuthorizationCode && o.PerUser {
		return u
	}
	return User{}
}

// get returns a token that will do, and gets one where there is none.
func (t *tokens) get(ctx context.Context, u User, c chosen) (string, error) {
	return t.ready(ctx, t.forUser(u), c, "")
}

// renew gets a new token in the place of one that the peer has refused.
func (t *tokens) renew(ctx context.Context, u User, c chosen, refused string) error {
	_, err := t.ready(ctx, t.forUser(u), c, refused)
	return err
}

// ready returns a token that will do and is not the one that was refused.
func (t *tokens) ready(ctx context.Context, u User, c chosen, refused string) (string, error) {
	if t.entry.config.Auth.OAuth2.Flow == config.PeerFlowClientCredentials {
		return t.ofNode(ctx, c, refused)
	}
	known, err := t.kept(ctx, u)
	if err != nil {
		return "", err
	}
	if known.good(t.directory.now()) && known.Access != refused {
		return known.Access, nil
	}
	leave, err := t.enter(ctx, u)
	if err != nil {
		return "", err
	}
	defer leave()
	return t.refreshed(ctx, u, c, refused)
}

// ofNode returns the node's own token.
func (t *tokens) ofNode(ctx context.Context, c chosen, refused string) (string, error) {
	leave, err := t.enter(ctx, User{})
	if err != nil {
		return "", err
	}
	defer leave()
	t.mu.Lock()
	known := t.own
	t.mu.Unlock()
	if known.good(t.directory.now()) && known.Access != refused {
		return known.Access, nil
	}
	endpoint, err := t.tokenURL(c)
	if err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	t.entry.ask(form, c)
	got, err := t.request(ctx, endpoint, form)
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	t.own = *got
	t.mu.Unlock()
	return got.Access, nil
}

// ask adds what the token is to be for.
func (e *entry) ask(form url.Values, c chosen) {
	o := e.config.Auth.OAuth2
	scopes := o.Scopes
	if len(scopes) == 0 {
		scopes = c.scopes
	}
	for name, value := range map[string]string{"scope": strings.Join(scopes, " "), "audience": o.Audience, "resource": o.Resource} {
		if value != "" {
			form.Set(name, value)
		}
	}
}

// kept returns the token of a user that is in the store, or nil.
func (t *tokens) kept(ctx context.Context, u User) (*token, error) {
	row, err := t.directory.rows.get(ctx, t.entry.name, rowAge)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read != row.Version {
		w, err := t.directory.openWallet(row)
		if err != nil {
			return nil, err
		}
		t.store, t.read = *w, row.Version
	}
	if found := t.store.find(u); found != nil {
		one := *found
		return &one, nil
	}
	return nil, nil
}

// refreshed replaces the token of a user by its refresh token, unless another node
// already has.
func (t *tokens) refreshed(ctx context.Context, u User, c chosen, refused string) (string, error) {
	d, name := t.directory, t.entry.name
	if _, err := d.rows.get(ctx, name, 0); err != nil {
		return "", err
	}
	known, err := t.kept(ctx, u)
	switch {
	case err != nil:
		return "", err
	case known == nil:
		return "", &LoginError{Peer: name, User: u}
	case known.good(d.now()) && known.Access != refused:
		return known.Access, nil
	case known.Refresh == "" && known.Access != refused && d.now().Before(known.Expires):
		return known.Access, nil // to the last moment
	case known.Refresh == "":
		return "", &LoginError{Peer: name, User: u, Err: errors.New("the token has expired, and there is none to refresh it with")}
	}
	endpoint, err := t.tokenURL(c)
	if err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {known.Refresh}}
	if r := t.entry.config.Auth.OAuth2.Resource; r != "" {
		form.Set("resource", r)
	}
	got, err := t.request(ctx, endpoint, form)
	if e, ok := errors.AsType[*TokenError](err); ok && e.Code == "invalid_grant" {
		// Another node may have used the refresh token, which works once only.
		if _, err := d.rows.get(ctx, name, 0); err != nil {
			return "", err
		}
		if other, err := t.kept(ctx, u); err == nil && other.good(d.now()) && other.Access != known.Access {
			return other.Access, nil
		}
		return "", &LoginError{Peer: name, User: u, Err: e}
	}
	if err != nil {
		return "", err
	}
	if got.Refresh == "" {
		got.Refresh = known.Refresh // RFC 6749 §6
	}
	if err := d.keepToken(ctx, name, u, got); err != nil {
		return "", err
	}
	return got.Access, nil
}

// openWallet returns what is kept of tokens and logins.
func (d *Directory) openWallet(row *store.Peer) (*wallet, error) {
	w := &wallet{}
	if len(row.Tokens) == 0 {
		return w, nil
	}
	if d.opts.Sealer == nil {
		return nil, fmt.Errorf("open tokens of the peer %q: %w", row.Name, ErrNoKey)
	}
	plain, err := d.opts.Sealer.Open(row.Tokens)
	if err != nil {
		return nil, fmt.Errorf("open tokens of the peer %q: %w", row.Name, err)
	}
	if err := json.Unmarshal(plain, w); err != nil {
		return nil, fmt.Errorf("open tokens of the peer %q: they are damaged", row.Name)
	}
	return w, nil
}

// changeWallet changes what is kept of tokens and logins.
func (d *Directory) changeWallet(ctx context.Context, name string, change func(*wallet) error) error {
	if d.opts.Sealer == nil {
		return ErrNoKey
	}
	_, err := d.rows.update(ctx, name, func(row *store.Peer) (bool, error) {
		w, err := d.openWallet(row)
		if err != nil {
			return false, err
		}
		w.Logins = slices.DeleteFunc(w.Logins, func(l login) bool { return !d.now().Before(l.Expires) })
		if err := change(w); err != nil {
			return false, err
		}
		plain, err := json.Marshal(w)
		if err != nil {
			return false, fmt.Errorf("write tokens: %w", err)
		}
		row.Tokens, err = d.opts.Sealer.Seal(plain)
		return true, err
	})
	return err
}

func (d *Directory) keepToken(ctx context.Context, name string, u User, t *token) error {
	return d.changeWallet(ctx, name, func(w *wallet) error { return w.put(u, t) })
}

// tokenURL returns the token endpoint: that of the configuration, or the one that
// the card names at an origin of the peer. A card that names another would have
// the node send its secret there.
func (t *tokens) tokenURL(c chosen) (string, error) {
	o := t.entry.config.Auth.OAuth2
	if o.TokenURL != "" {
		return o.TokenURL, nil
	}
	named := ""
	if s := c.scheme.OAuth2; s != nil {
		switch {
		case o.Flow == config.PeerFlowAuthorizationCode && s.Flows.AuthorizationCode != nil:
			named = s.Flows.AuthorizationCode.TokenURL
		case o.Flow == config.PeerFlowClientCredentials && s.Flows.ClientCredentials != nil:
			named = s.Flows.ClientCredentials.TokenURL
		}
	}
	return t.entry.trusted(named, "token_url")
}

// trusted returns an address of an authorization server that the card names, if
// it is at an origin of the peer.
func (e *entry) trusted(named, key string) (string, error) {
	refuse := func(format string, args ...any) (string, error) {
		return "", &FieldError{"auth.oauth2." + key, fmt.Errorf("set peers.%s.auth.oauth2.%s: "+format, append([]any{e.name, key}, args...)...)}
	}
	if named == "" {
		return refuse("the card does not say where tokens come from")
	}
	u, err := url.Parse(named)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return refuse("the address for tokens in the card is not https")
	case !e.way.owns(u):
		return refuse("the card has tokens come from %s: origin not allowed, unless it is listed in origins", Clean(originOf(named), maxName, false))
	}
	return named, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// TokenError is an error of an authorization server (RFC 6749 §5.2).
type TokenError struct {
	Endpoint string // its origin
	Status   int
	Code     string // such as invalid_client; "" when the server has not said one
	Text     string // of the server, cleaned
}

// Error says what the server said.
func (e *TokenError) Error() string {
	text := fmt.Sprintf("the authorization server %s gives no token: HTTP %d", e.Endpoint, e.Status)
	for _, s := range []string{e.Code, e.Text} {
		if s != "" {
			text += ": " + s
		}
	}
	return text
}

// request asks a token endpoint.
func (t *tokens) request(ctx context.Context, endpoint string, form url.Values) (*token, error) {
	o, began := t.entry.config.Auth.OAuth2, t.directory.now()
	if o.ClientAuth == config.OAuthClientBody || o.ClientSecret.IsZero() {
		form.Set("client_id", o.ClientID)
		if secret := o.ClientSecret.Reveal(); secret != "" {
			form.Set("client_secret", secret)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("get token: the address is not valid")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if o.ClientAuth != config.OAuthClientBody && !o.ClientSecret.IsZero() {
		r.SetBasicAuth(url.QueryEscape(o.ClientID), url.QueryEscape(o.ClientSecret.Reveal()))
	}
	httpClient := t.directory.auth
	if t.entry.way.owns(r.URL) {
		c := *t.entry.http
		c.Timeout = tokenTimeout
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		httpClient = &c
	}
	response, err := httpClient.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // its URL is that of the configuration, which may hold more than an address
		}
		return nil, fmt.Errorf("get token of %s: %w", originOf(endpoint), err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxTokenBody+1))
	if err != nil {
		return nil, fmt.Errorf("get token of %s: %w", originOf(endpoint), err)
	}
	return readToken(response, body, originOf(endpoint), began)
}

// readToken reads the answer of a token endpoint (RFC 6749 §5).
func readToken(response *http.Response, body []byte, endpoint string, began time.Time) (*token, error) {
	var answer struct {
		Access  string `json:"access_token"`
		Type    string `json:"token_type"`
		Refresh string `json:"refresh_token"`
		Life    any    `json:"expires_in"` // a number, and of some servers a text
		Scope   any    `json:"scope"`
		Error   string `json:"error"`
		Text    string `json:"error_description"`
	}
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	err := json.Unmarshal(body, &answer)
	e := &TokenError{Endpoint: endpoint, Status: response.StatusCode}
	switch {
	case len(body) > maxTokenBody:
		e.Text = "the answer is too large"
		return nil, e
	case response.StatusCode != http.StatusOK || answer.Error != "":
		if err == nil {
			e.Code, e.Text = Clean(answer.Error, maxName, false), Clean(answer.Text, maxError, false)
		}
		return nil, e
	case err != nil || mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json"):
		e.Text = "the answer is not JSON"
		return nil, e
	case answer.Access == "" || len(answer.Access) > maxToken || len(answer.Refresh) > maxToken || strings.ContainsFunc(answer.Access, notInHeader):
		e.Text = "the answer has no usable access_token"
		return nil, e
	case answer.Type != "" && !strings.EqualFold(answer.Type, "bearer"):
		e.Text = "the token is of a type that is not known here: " + Clean(answer.Type, maxName, false)
		return nil, e
	}
	t := &token{Access: answer.Access, Refresh: answer.Refresh, Got: began, Expires: began.Add(life(answer.Life))}
	t.Scope, _ = answer.Scope.(string)
	return t, nil
}

func notInHeader(r rune) bool { return r <= ' ' || r > '~' }

// life returns how long a token is good.
func life(expires any) time.Duration {
	seconds := 0.0
	switch v := expires.(type) {
	case float64:
		seconds = v
	case string:
		_, _ = fmt.Sscanf(v, "%g", &seconds)
	}
	if seconds <= 0 {
		return unknownLife
	}
	return time.Duration(min(seconds, (365*24*time.Hour).Seconds()) * float64(time.Second))
}

// lastToken is the token that a client has used last for a user.
type lastToken struct {
	mu    sync.Mutex
	users map[User]string
}

func (l *lastToken) set(u User, token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == nil || len(l.users) > maxUsers {
		l.users = map[User]string{}
	}
	l.users[u] = token
}

func (l *lastToken) get(u User) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.users[u]
}
