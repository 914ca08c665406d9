package engine

import (
	"context"

	"handoff.example/handoff/internal/store"
)

// delegations is the store of delegations and of the inbox.
type delegations interface {
	Delegation(ctx context.Context, scope store.Scope, task string) (*store.Delegation, error)
	Delegations(ctx context.Context, scope store.Scope, q store.DelegationQuery) (*store.DelegationPage, error)
	Children(ctx context.Context, parent string) ([]string, error)
	InboxItem(ctx context.Context, scope store.Scope, id string) (*store.InboxItem, error)
	InboxItems(ctx context.Context, scope store.Scope, q store.InboxQuery) (*store.InboxPage, error)
}

func (e *Engine) kept() delegations { return e.cfg.Store.(delegations) }
