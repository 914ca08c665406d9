package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/oauth"
	"handoff.example/handoff/internal/store"
)

const (
	tokenTimeout = 30 * time.Second
	maxUsers     = 1000 // who have logged in to one peer
)

// login is a login that has begun.
type login struct {
	State   string              `json:"state"` // SHA-256 of the state
	Browser string              `json:"browser,omitempty"`
	User    User                `json:"user"`
	Begun   oauth.Authorization `json:"begun"`
	Expires time.Time           `json:"expires"`
}

// userToken is the token of a user.
type userToken struct {
	User  User        `json:"user"`
	Token oauth.Token `json:"token"`
}

// wallet is what Peer.Tokens of the store holds, sealed.
type wallet struct {
	Tokens []userToken `json:"tokens,omitempty"`
	Logins []login     `json:"logins,omitempty"`
}

func (w *wallet) find(u User) *oauth.Token {
	for i := range w.Tokens {
		if w.Tokens[i].User == u {
			return &w.Tokens[i].Token
		}
	}
	return nil
}

func (w *wallet) put(u User, t *oauth.Token) error {
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
	found discovered
	own   oauth.Token // of the node itself, by client credentials
	read  int64       // the version of the row that wallet is from
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
	if known.Good(t.directory.now()) && known.Access != refused {
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
	if known.Good(t.directory.now()) && known.Access != refused {
		return known.Access, nil
	}
	asking, err := t.client(ctx, c)
	if err != nil {
		return "", err
	}
	got, err := asking.ClientCredentials(ctx, t.entry.access(c))
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	t.own = *got
	t.mu.Unlock()
	return got.Access, nil
}

// access returns what a token is to be for.
func (e *entry) access(c chosen) oauth.Access {
	o := e.config.Auth.OAuth2
	scopes := o.Scopes
	if len(scopes) == 0 {
		scopes = c.scopes
	}
	return oauth.Access{Scopes: scopes, Audience: o.Audience, Resource: o.Resource}
}

// kept returns the token of a user that is in the store, or nil.
func (t *tokens) kept(ctx context.Context, u User) (*oauth.Token, error) {
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
	case known.Good(d.now()) && known.Access != refused:
		return known.Access, nil
	case known.Refresh == "" && known.Access != refused && d.now().Before(known.Expires):
		return known.Access, nil // to the last moment
	case known.Refresh == "":
		return "", &LoginError{Peer: name, User: u, Err: errors.New("the token has expired, and there is none to refresh it with")}
	}
	asking, err := t.client(ctx, c)
	if err != nil {
		return "", err
	}
	got, err := asking.Refresh(ctx, known, t.entry.access(c))
	if e, ok := errors.AsType[*oauth.TokenError](err); ok && e.Code == "invalid_grant" {
		// Another node may have used the refresh token, which works once only.
		if _, err := d.rows.get(ctx, name, 0); err != nil {
			return "", err
		}
		if other, err := t.kept(ctx, u); err == nil && other.Good(d.now()) && other.Access != known.Access {
			return other.Access, nil
		}
		return "", &LoginError{Peer: name, User: u, Err: e}
	}
	if err != nil {
		return "", err
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

func (d *Directory) keepToken(ctx context.Context, name string, u User, t *oauth.Token) error {
	return d.changeWallet(ctx, name, func(w *wallet) error { return w.put(u, t) })
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
