package handoff

import (
	"context"
	"errors"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcpgw"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/peer"
	"handoff.example/handoff/internal/store"
)

// openCatalog makes the directory of the peers that work is handed to, with those
// of a configuration.
func (n *Node) openCatalog(c *config.Config, guard *netguard.Guard, sealer *auth.Sealer) error {
	if sealer == nil && c.StorePath() == ":memory:" {
		// What is kept ends with the process, and so may its key.
		var err error
		if sealer, err = auth.NewSealer(auth.GenerateKey()); err != nil {
			return err
		}
	}
	opts := peer.Options{Store: n.store, Guard: guard, BaseURL: n.URL, Logger: n.log, Inbox: cardInbox{n}, Tracer: n.tracing.Tracer}
	if sealer != nil {
		opts.Sealer = sealer
	}
	n.catalog = peer.New(opts)
	set, err := n.catalog.Prepare(c)
	if err != nil {
		return err
	}
	n.catalog.Use(set)
	return nil
}

// decideCard carries out what was decided on a changed card of a peer, or on the
// changed definition of a tool.
func (n *Node) decideCard(ctx context.Context, item *store.InboxItem, approved bool) error {
	if mcpgw.IsDefinition(item) {
		return n.gateway.held.Decide(ctx, item, approved)
	}
	return n.catalog.Decide(ctx, item, approved)
}

// cardInbox puts changed cards of peers into the inbox, where those see them who
// operate all of the node.
type cardInbox struct{ node *Node }

// Raise adds an item.
func (i cardInbox) Raise(ctx context.Context, item *store.InboxItem) error {
	c := &store.Change{Item: item}
	item.Created = time.Now()
	item.Due, c.Jobs = i.node.inbox.Schedule(item)
	if err := i.node.store.Commit(ctx, c); err != nil {
		return err
	}
	for _, j := range c.Jobs {
		i.node.jobs.Due(j.Due)
	}
	return nil
}

// settleItem settles an item, unless somebody has done so meanwhile.
func (n *Node) settleItem(ctx context.Context, id, by, decision string) error {
	err := n.store.UpdateInbox(ctx, auth.Reach(&Principal{Role: RoleAdmin}), &store.InboxUpdate{
		ID: id, Settle: &store.InboxSettle{ID: id, By: by, Decision: decision}, Entry: store.InboxEntry{By: by, What: decision},
	})
	if err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// loginInbox puts the logins to servers of tools into the inbox, where those see
// them for whom they are.
type loginInbox struct{ node *Node }

// Raise adds an item.
func (i loginInbox) Raise(ctx context.Context, item *store.InboxItem) error {
	return cardInbox(i).Raise(ctx, item)
}

// Settle settles an item.
func (i loginInbox) Settle(ctx context.Context, id, by, decision string) error {
	return i.node.settleItem(ctx, id, by, decision)
}

// Settle settles the open items about the card of a peer but one.
func (i cardInbox) Settle(ctx context.Context, name, by, decision, except string) error {
	kept, all := i.node.store, auth.Reach(&Principal{Role: RoleAdmin})
	q := store.InboxQuery{Kind: store.InboxCard, PageSize: 100}
	for {
		page, err := kept.InboxItems(ctx, all, q)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			if item.Agent != name || item.ID == except {
				continue
			}
			if err := i.node.settleItem(ctx, item.ID, by, decision); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.Cursor = page.Next
	}
}
