package changes

import (
	"context"
	"sync/atomic"

	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/store"
)

// Publisher brings hints to the other nodes of a store. It does not block.
type Publisher interface {
	Publish(h bus.Hint)
}

// Store is a store that tells what is changed through it, once it is.
type Store struct {
	store.Store
	feed  *Feed
	other atomic.Pointer[Publisher]
}

// NewStore returns a store that tells a feed of what is changed through it.
func NewStore(s store.Store, feed *Feed) *Store { return &Store{Store: s, feed: feed} }

// Share makes other nodes hear of what changes without an event of a task, which
// the engine tells them of.
func (s *Store) Share(p Publisher) { s.other.Store(&p) }

// share tells other nodes that something has changed about a task.
func (s *Store) share(task string) {
	if p := s.other.Load(); p != nil && task != "" {
		(*p).Publish(bus.Hint{Task: task})
	}
}

// Commit makes a change durable, and tells of it.
func (s *Store) Commit(ctx context.Context, c *store.Change) error {
	if err := s.Store.Commit(ctx, c); err != nil || !s.feed.Heard() {
		return err
	}
	row := &c.After
	if row.ID == "" {
		if c.Item != nil {
			s.feed.Tell(Change{Topics: Inbox, Task: c.Item.Task, Item: c.Item.ID, Known: true, Tenant: c.Item.Tenant, Owner: c.Item.Owner})
		} else if c.Settles != nil {
			s.feed.Tell(Change{Topics: Inbox, Item: c.Settles.ID})
		}
		return nil
	}
	var topics Topic
	if len(c.Events) > 0 || c.Set.Lease != nil || c.Set.Wait != nil {
		topics |= Tasks
		if row.Delegated {
			topics |= Delegations
		}
	}
	if c.Delegation != nil {
		topics |= Delegations
	}
	if c.Item != nil || c.Settles != nil {
		topics |= Inbox
	}
	if c.Webhook != nil {
		topics |= Pushes
	}
	if topics != 0 {
		s.feed.Tell(Change{Topics: topics, Task: row.ID, Known: true, Tenant: row.Tenant, Owner: row.Owner, Delegated: row.Delegated})
	}
	return nil
}

// UpdateInbox changes an item of the inbox, and tells of it.
func (s *Store) UpdateInbox(ctx context.Context, scope store.Scope, u *store.InboxUpdate) error {
	err := s.Store.UpdateInbox(ctx, scope, u)
	if err == nil {
		s.feed.Tell(Change{Topics: Inbox, Item: u.ID})
		s.share(itemHint + u.ID)
	}
	return err
}

// Deliver keeps what became of a delivery, and tells of it; other nodes hear of
// those that went wrong.
func (s *Store) Deliver(ctx context.Context, d *store.Delivery) (left bool, err error) {
	left, err = s.Store.Deliver(ctx, d)
	if err == nil && d.Outcome != store.DeliverLater {
		s.feed.Tell(Change{Topics: Pushes})
		if d.Outcome == store.DeliverAgain || d.Outcome == store.DeliverNever {
			s.share(pushHint)
		}
	}
	return left, err
}

// DeleteWebhook removes a webhook, and tells of it.
func (s *Store) DeleteWebhook(ctx context.Context, scope store.Scope, task, id string) error {
	return s.told(s.Store.DeleteWebhook(ctx, scope, task, id), Pushes, task)
}

// ReviveWebhook lets a webhook go on, and tells of it.
func (s *Store) ReviveWebhook(ctx context.Context, scope store.Scope, task, id string, skip bool) error {
	return s.told(s.Store.ReviveWebhook(ctx, scope, task, id, skip), Pushes, task)
}

// Delete removes a task, and tells of it.
func (s *Store) Delete(ctx context.Context, scope store.Scope, id string) error {
	return s.told(s.Store.Delete(ctx, scope, id), Tasks|Delegations|Inbox|Pushes, "")
}

// Expire removes what is over, and tells when that was something.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	n, err := s.Store.Expire(ctx, limit)
	if n > 0 {
		s.feed.Tell(Change{Topics: Tasks | Delegations | Inbox | Pushes})
	}
	return n, err
}

func (s *Store) told(err error, topics Topic, task string) error {
	if err == nil {
		s.feed.Tell(Change{Topics: topics, Task: task})
		s.share(task)
	}
	return err
}
