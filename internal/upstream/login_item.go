package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/store"
)

// Inbox is what waits for people.
type Inbox interface {
	// Raise adds an item. One with an id that there is already is no error.
	Raise(ctx context.Context, item *store.InboxItem) error
	// Settle settles an item. One that is settled or gone is no error.
	Settle(ctx context.Context, id, by, decision string) error
}

// wish is a login that somebody has to make: where the calls of a client cannot send
// its user to a page, an item of the inbox does.
type wish struct {
	Item    string `json:"item"`
	Tenant  string `json:"tenant,omitempty"`
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
	Local   bool   `json:"local,omitempty"`
	Need    need   `json:"need"`
	Raised  bool   `json:"raised,omitempty"` // it is in the inbox
}

const (
	spaceWish = "mcp.wish"
	// wishTime is how long a login can begin by an item. After that the next call
	// makes another item.
	wishTime = 7 * 24 * time.Hour
)

// wishKey returns the key of the wish that an item is about, "" when its id is none
// of ours.
func wishKey(item string) string {
	server, rest, _ := strings.Cut(item, ".")
	who, _, ok := strings.Cut(rest, ".")
	if !ok {
		return ""
	}
	return server + "/" + who
}

// wants puts a login that somebody has to make into the inbox, once.
func (c *login) wants(ctx context.Context, caller *auth.Principal, n need) error {
	if c.desk.opts.Inbox == nil || c.desk.base() == "" {
		return nil
	}
	w := wish{Need: n}
	if !c.shared() {
		if caller == nil || caller.Anonymous() && !caller.Local {
			return nil // nobody can be asked
		}
		w.Tenant, w.Issuer, w.Subject, w.Local = caller.Tenant, caller.Issuer, caller.Subject, caller.Anonymous()
	}
	key := c.tokenKey(c.whose(caller))
	var known wish
	version, err := c.desk.read(ctx, spaceWish, key, &known)
	switch {
	case err == nil: // what is needed may be more by now
		w.Item, w.Raised = known.Item, known.Raised
	case errors.Is(err, store.ErrNotFound):
		w.Item = c.name + "." + hashOf(c.whose(caller)) + "." + rand.Text()
	default:
		return err
	}
	err = c.desk.write(ctx, spaceWish, key, version, &w, c.h.now().Add(wishTime))
	if errors.Is(err, store.ErrConflict) { // another call was faster
		return nil
	}
	if err != nil || w.Raised {
		return err
	}
	whom := w.Subject
	if whom == "" {
		whom = "everybody who uses this node"
	}
	err = c.desk.opts.Inbox.Raise(ctx, &store.InboxItem{
		ID: w.Item, Kind: store.InboxLogin, Tenant: w.Tenant, Owner: w.Subject, Agent: "mcp:" + c.name, Peer: true,
		Text: fmt.Sprintf("The tool server %s asks for a login of %s. Log in at the address of this item.", c.name, whom),
		URL:  c.desk.base() + LoginPath + "?item=" + url.QueryEscape(w.Item),
	})
	if err != nil {
		return err
	}
	w.Raised = true
	err = c.desk.write(ctx, spaceWish, key, version+1, &w, c.h.now().Add(wishTime))
	if errors.Is(err, store.ErrConflict) { // the next call sees to it
		return nil
	}
	return err
}

// granted settles the item of a login that was made.
func (c *login) granted(ctx context.Context, v *visit) error {
	if c.desk.opts.Inbox == nil {
		return nil
	}
	key := c.tokenKey(v.Who)
	var w wish
	if _, err := c.desk.read(ctx, spaceWish, key, &w); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}
	by := v.Subject
	if by == "" {
		by = "node"
	}
	if err := c.desk.opts.Inbox.Settle(ctx, w.Item, by, "gone on"); err != nil {
		return fmt.Errorf("settle inbox: %w", err)
	}
	if err := c.desk.opts.Docs.DeleteDoc(ctx, everything(), spaceWish, key); err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("drop wish: %w", err)
	}
	return nil
}

// serveItem begins the login that an item of the inbox is about. The id of the item
// is unguessable, and says nothing of the caller (ELI-02).
func (l *Login) serveItem(w http.ResponseWriter, r *http.Request, item string) {
	key := wishKey(item)
	if key == "" || len(item) > maxState {
		l.over(w, store.ErrNotFound)
		return
	}
	var wanted wish
	_, err := l.read(r.Context(), spaceWish, key, &wanted)
	if err == nil && wanted.Item != item {
		err = store.ErrNotFound
	}
	l.mu.Lock()
	c := l.servers[strings.SplitN(item, ".", 2)[0]]
	l.mu.Unlock()
	if err == nil && c == nil {
		err = store.ErrNotFound
	}
	if err != nil {
		l.over(w, err)
		return
	}
	var caller *auth.Principal
	if !c.shared() {
		caller = &auth.Principal{Tenant: wanted.Tenant, Issuer: wanted.Issuer, Subject: wanted.Subject, Local: wanted.Local}
	}
	link, err := c.begin(r.Context(), caller, wanted.Need)
	if err != nil {
		l.over(w, err)
		return
	}
	http.Redirect(w, r, link, http.StatusSeeOther)
}
