//go:build postgres

package postgres_test

import (
	"context"
	"time"

	"handoff.example/handoff/internal/store"
)

func (a *alternating) CreateKey(ctx context.Context, k *store.APIKey) error {
	return a.next().CreateKey(ctx, k)
}

func (a *alternating) Key(ctx context.Context, id string) (*store.APIKey, error) {
	return a.next().Key(ctx, id)
}

func (a *alternating) Keys(ctx context.Context) ([]store.APIKey, error) { return a.next().Keys(ctx) }

func (a *alternating) RevokeKey(ctx context.Context, id string, at time.Time) error {
	return a.next().RevokeKey(ctx, id, at)
}

func (a *alternating) UseKey(ctx context.Context, id string, at time.Time) error {
	return a.next().UseKey(ctx, id, at)
}
