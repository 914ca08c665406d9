package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/oauth"
	"handoff.example/handoff/internal/store"
)

// Spaces of the store (see store.Docs).
const (
	spaceToken  = "mcp.token"
	spaceLogin  = "mcp.login"
	spaceClient = "mcp.client"
)

// keptToken is a token with what it was asked for.
type keptToken struct {
	Token    oauth.Token `json:"token"`
	Issuer   string      `json:"issuer"` // only its authorization server sees it again (AUT-20)
	Resource string      `json:"resource"`
	Scopes   []string    `json:"scopes"`
	Steps    int         `json:"steps"`

	read time.Time
}

// keptFor is how long a token is used without looking whether there is another.
const keptFor = 10 * time.Second

// everything is the scope of the node itself.
func everything() store.Scope { return auth.Reach(&auth.Principal{Role: auth.RoleAdmin}) }

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// token returns the token of somebody; nil: there is none.
func (c *login) token(ctx context.Context, who string) (*keptToken, error) {
	c.mu.Lock()
	known := c.kept[who]
	c.mu.Unlock()
	if c.config.Flow == config.PeerFlowClientCredentials || known != nil && c.h.now().Sub(known.read) < keptFor {
		return known, nil
	}
	return c.readToken(ctx, who)
}

// readToken reads the token of somebody from the store.
func (c *login) readToken(ctx context.Context, who string) (*keptToken, error) {
	t := &keptToken{}
	_, err := c.desk.read(ctx, spaceToken, c.tokenKey(who), t)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, errNoStore) {
		c.remember(who, nil)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read token: %w", err)
	}
	t.read = c.h.now()
	c.remember(who, t)
	return t, nil
}

func (c *login) tokenKey(who string) string { return c.name + "/" + hashOf(who) }

func (c *login) remember(who string, t *keptToken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t == nil {
		delete(c.kept, who)
		return
	}
	if len(c.kept) > maxTokens {
		c.kept = map[string]*keptToken{}
	}
	c.kept[who] = t
	c.h.secrets.Add(t.Token.Access)
}

// keep stores the token of somebody.
func (c *login) keep(ctx context.Context, who string, t *keptToken) error {
	for try := 0; ; try++ {
		version, err := c.desk.read(ctx, spaceToken, c.tokenKey(who), &keptToken{})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("keep token: %w", err)
		}
		err = c.desk.write(ctx, spaceToken, c.tokenKey(who), version, t, time.Time{})
		if errors.Is(err, store.ErrConflict) && try < 5 {
			continue
		}
		if err != nil {
			return fmt.Errorf("keep token: %w", err)
		}
		t.read = c.h.now()
		c.remember(who, t)
		return nil
	}
}

// refresh replaces a token that will not do any more, one request at a time. It
// returns nil where somebody has to log in again.
func (c *login) refresh(ctx context.Context, who, stale string) (*keptToken, error) {
	leave, err := c.enter(ctx, who)
	if err != nil {
		return nil, err
	}
	defer leave()
	t, err := c.readToken(ctx, who)
	if err != nil || t == nil || t.Token.Access != stale && t.Token.Good(c.h.now()) {
		return t, err
	}
	if t.Token.Refresh == "" {
		return nil, nil
	}
	server, err := c.discover(ctx, t.Issuer)
	if err != nil {
		return nil, err
	}
	client, err := c.client(ctx, server)
	if err != nil {
		return nil, err
	}
	got, err := client.Refresh(ctx, &t.Token, oauth.Access{Resource: t.Resource})
	if e, ok := errors.AsType[*oauth.TokenError](err); ok && (e.Code == "invalid_grant" || e.Code == "invalid_client") {
		return c.lost(ctx, who, stale)
	}
	if err != nil {
		return nil, err
	}
	next := *t
	next.Token = *got
	return &next, c.keep(ctx, who, &next)
}

// lost forgets a token whose refresh token is of no use, unless another node has
// used it and got another.
func (c *login) lost(ctx context.Context, who, stale string) (*keptToken, error) {
	t, err := c.readToken(ctx, who)
	if err != nil || t != nil && t.Token.Access != stale {
		return t, err
	}
	c.remember(who, nil)
	if err := c.desk.opts.Docs.DeleteDoc(ctx, everything(), spaceToken, c.tokenKey(who)); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("forget token: %w", err)
	}
	return nil, nil
}

// ask gets a token for the node itself, one request at a time.
func (c *login) ask(ctx context.Context, who string, n *need, refused string) error {
	leave, err := c.enter(ctx, who)
	if err != nil {
		return err
	}
	defer leave()
	c.mu.Lock()
	known := c.kept[who]
	c.mu.Unlock()
	if known != nil && known.Token.Access != refused && known.Token.Good(c.h.now()) {
		return nil
	}
	client, err := c.client(ctx, &n.Server)
	if err != nil {
		return err
	}
	got, err := client.ClientCredentials(ctx, oauth.Access{Scopes: n.Scopes, Resource: n.Resource})
	if err != nil {
		return err
	}
	c.remember(who, &keptToken{Token: *got, Issuer: n.Server.Issuer, Resource: n.Resource, Scopes: n.Scopes, Steps: n.Steps})
	return nil
}
