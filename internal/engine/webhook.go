package engine

import (
	"context"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// waking is a store that says when a commit has woken webhooks. The store makes
// their jobs itself: so no event gets past them, whoever wrote it.
type waking struct {
	store.Store
	due func(time.Time)
}

// Commit makes a change durable.
func (w waking) Commit(ctx context.Context, c *store.Change) error {
	err := w.Store.Commit(ctx, c)
	if err == nil && c.Woken > 0 {
		w.due(time.Now())
	}
	return err
}

// errWebhooks refuses a message whose webhook is one too many for its task.
func errWebhooks(task string) error {
	return &a2a.Error{
		Code: a2a.CodeResourceExhausted, Message: "The task has as many webhooks as it may have; delete one first",
		Metadata: map[string]string{"taskId": task, a2a.MetadataLimit: store.LimitWebhooks},
	}
}
