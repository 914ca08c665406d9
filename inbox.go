package handoff

import (
	"net/http"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
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
		Deciders: deciders, Keys: linkKeys(c), Base: n.URL, Client: guard.Configured(netguard.Options{MaxRedirects: -1}),
		Audit: n.audit, Address: n.addressOf, Due: n.jobs.Due, Version: n.opts.Version, Logger: n.log,
	})
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
