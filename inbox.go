package handoff

import (
	"context"
	"errors"
	"net/http"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/inbox"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/store"
)

// newInbox returns what waits for people. Its deciders are those of items that
// are not grant requests.
func (n *Node) newInbox(c *config.Config, guard *netguard.Guard, deciders map[store.InboxKind]inbox.Decider) *inbox.Service {
	return inbox.New(inbox.Options{
		Store: n.store, Scope: auth.Reach(&Principal{Role: RoleAdmin}), Engine: n.engine, Agents: n.spec,
		Settings: func() inbox.Settings { return inboxSettings(&n.Config().Inbox) },
		Deciders: deciders, Looked: n.looked, Keys: linkKeys(c), Base: n.URL, Client: guard.Configured(netguard.Options{MaxRedirects: -1}),
		Audit: n.audit, Address: n.addressOf, Due: n.jobs.Due, Version: n.opts.Version, Logger: n.log,
	})
}

// looked lets a delegation whose peer was silent look at it, since somebody has seen
// to it, and says so.
func (n *Node) looked(ctx context.Context, item *store.InboxItem) (says string, do func(context.Context) error, err error) {
	if item.Task == "" {
		return "Nothing had to be done.", nil, nil
	}
	row, err := n.store.Task(ctx, auth.Reach(&self), item.Task)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.State.Terminal() {
		return "Nothing had to be done: the task is over.", nil, nil
	}
	if err != nil {
		return "", nil, engine.Unavailable(err)
	}
	look := func(ctx context.Context) error { return engine.Unavailable(n.ledger.Look(ctx, item.Task)) }
	return "The node looks at " + item.Agent + " now, and goes on when it answers. What was written is kept here, and not sent to it.", look, nil
}

// Inbox is what waits for people on a node. It sees the items of all tenants.
type Inbox struct{ node *Node }

// InboxItem is an item of the inbox: what is asked, by whom and for which task.
type InboxItem = inbox.Item

// Inbox returns the inbox of the node.
func (n *Node) Inbox() *Inbox { return &Inbox{n} }

// InboxQuery says which items are listed. Its zero value is the open ones of all
// kinds.
type InboxQuery struct {
	Task     string // id of a task; "": of any
	Kind     string // question, grant, stuck, call or card; "": any
	Assignee string // "": anybody, and nobody
	Settled  bool   // those that were settled, in place of the open ones
	Limit    int    // how many are returned at most; 0: 100
}

// List returns items: of the open ones the one that is due first comes first, of
// the settled ones the one that was settled last.
func (i *Inbox) List(ctx context.Context, q InboxQuery) ([]InboxItem, error) {
	by := store.InboxQuery{Task: q.Task, Assignee: q.Assignee, Settled: q.Settled}
	if q.Kind != "" {
		kind, ok := inbox.ParseKind(q.Kind)
		if !ok {
			return nil, a2a.Invalid("kind", "is none of question, grant, stuck, call and card")
		}
		by.Kind = kind
	}
	left := q.Limit
	if left <= 0 {
		left = 100
	}
	var items []InboxItem
	for left > 0 {
		by.PageSize = min(left, 100)
		page, err := i.node.inbox.List(ctx, auth.Reach(&self), by)
		if err != nil {
			return nil, engine.Unavailable(err)
		}
		for k := range page.Items {
			items = append(items, *i.node.inbox.View(&page.Items[k]))
		}
		if left -= len(page.Items); page.Next == "" || len(page.Items) == 0 {
			break
		}
		by.Cursor = page.Next
	}
	return items, nil
}

// Answer answers a question of the inbox in words, for somebody who is named in the
// record, and so lets its task go on. The first answer wins: a later one is an
// *a2a.Error of the code a2a.CodeUnsupportedOperation that says who was first.
func (i *Inbox) Answer(ctx context.Context, item, by, text string) error {
	return i.node.inbox.Answer(ctx, auth.Reach(&self), &inbox.Answer{Item: item, Text: text, By: by})
}

// AnswerData answers a question that has a JSON Schema with data that fits it; the
// error names the field that does not.
func (i *Inbox) AnswerData(ctx context.Context, item, by string, data a2a.JSON) error {
	return i.node.inbox.Answer(ctx, auth.Reach(&self), &inbox.Answer{Item: item, Data: data, By: by})
}

// Approve allows the one operation that an item asks for (A2A §7.6). The note is
// for the agent and the record; "" for none.
func (i *Inbox) Approve(ctx context.Context, item, by, note string) error {
	return i.node.inbox.Decide(ctx, auth.Reach(&self), &inbox.Decision{Item: item, Approved: true, Note: note, By: by})
}

// Deny refuses what an item asks for.
func (i *Inbox) Deny(ctx context.Context, item, by, note string) error {
	return i.node.inbox.Decide(ctx, auth.Reach(&self), &inbox.Decision{Item: item, Note: note, By: by})
}

// linkKeys returns what signs links, and what has signed them before.
func linkKeys(c *config.Config) [][]byte {
	const purpose = "inbox link"
	switch {
	case !c.SecretKey.IsZero():
	case c.StorePath() == ":memory:":
		return [][]byte{auth.GenerateKey()} // what it signs ends with the process too
	default:
		return nil
	}
	keys := [][]byte{derive(c.SecretKey, purpose)}
	for _, old := range c.OldSecretKeys {
		keys = append(keys, derive(old, purpose))
	}
	return keys
}

func inboxSettings(c *config.Inbox) inbox.Settings {
	s := inbox.Settings{Due: c.Due.Std(), LinkTTL: c.LinkTTL.Std()}
	for _, before := range c.Remind {
		s.Remind = append(s.Remind, before.Std())
	}
	if w := c.Webhook; w != nil {
		s.Webhook = &inbox.Webhook{URL: w.URL, Auth: w.Auth.Reveal(), Created: w.Created, Links: w.Links, Retry: w.Retry.Std()}
	}
	return s
}

// addressOf returns from which address a request comes, through proxies that are
// trusted.
func (n *Node) addressOf(r *http.Request) string {
	anybody := auth.Anonymous{Policy: auth.PolicyEverywhere, Proxies: n.Config().TrustedPrefixes()}
	p, err := anybody.Authenticate(r)
	if err != nil {
		return "" // with credentials, which mean nothing there
	}
	return p.Address
}
