package push

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// Letter is an event that could not be delivered. Its webhook was given up with
// it: what comes after in the task waits behind it.
type Letter struct {
	Task    string
	Webhook string
	Agent   string
	Tenant  string
	Owner   string
	Target  string // scheme, host and port of the URL
	Event   string // the id that receivers see
	Error   string
	Tries   int
	Since   time.Time // of the first failure
	Dead    time.Time
	Waiting int64 // events of the task that were not sent, about

	at store.Webhook
}

// Dead returns events that could not be delivered, the oldest first, after one
// of them; nil begins.
func (s *Service) Dead(ctx context.Context, scope store.Scope, after *Letter, limit int) ([]Letter, error) {
	var from *store.Webhook
	if after != nil {
		from = &after.at
	}
	hooks, err := s.opts.Store.DeadWebhooks(ctx, scope, from, limit)
	if err != nil {
		return nil, unavailable(err)
	}
	letters := make([]Letter, len(hooks))
	for i := range hooks {
		h := &hooks[i]
		letters[i] = Letter{
			Task: h.Task, Webhook: h.ID, Agent: h.Agent, Tenant: h.Tenant, Owner: h.Owner, Target: Origin(h.URL), Event: eventID(h.Task, h.Stuck),
			Error: h.Error, Tries: h.Failures, Since: h.Failing, Dead: h.Dead, Waiting: h.Events - h.Seq, at: *h,
		}
	}
	return letters, nil
}

// Cursor names the place of a letter among the others.
func (l *Letter) Cursor() string {
	place := fmt.Sprintf("%d.%d.%s", l.at.Dead.UnixMilli(), l.at.TaskKey, l.at.ID)
	return base64.RawURLEncoding.EncodeToString([]byte(place))
}

// ParseCursor returns a letter to go on after.
func ParseCursor(cursor string) (*Letter, error) {
	place, err := base64.RawURLEncoding.DecodeString(cursor)
	parts := strings.SplitN(string(place), ".", 3)
	if err != nil || len(parts) != 3 {
		return nil, errCursor
	}
	dead, err := strconv.ParseInt(parts[0], 10, 64)
	key, keyErr := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || keyErr != nil || dead <= 0 {
		return nil, errCursor
	}
	return &Letter{at: store.Webhook{Dead: time.UnixMilli(dead), TaskKey: key, ID: parts[2]}}, nil
}

var errCursor = errors.New("the cursor is not one of ours")

// Redeliver lets a webhook that was given up go on: with the event that could
// not be delivered or, with skip, with the one after it.
func (s *Service) Redeliver(ctx context.Context, scope store.Scope, task, id string, skip bool) error {
	switch err := s.opts.Store.ReviveWebhook(ctx, scope, task, id, skip); {
	case errors.Is(err, store.ErrNotFound):
		return noLetter(task, id)
	case errors.Is(err, store.ErrConflict):
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "The webhook has not been given up; its events are being delivered")
	case err != nil:
		return unavailable(err)
	}
	s.opts.Due(time.Now())
	return nil
}

// Drop removes a webhook that was given up, with what waits for it.
func (s *Service) Drop(ctx context.Context, scope store.Scope, task, id string) error {
	hook, err := s.opts.Store.Webhook(ctx, scope, task, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return noLetter(task, id)
	case err != nil:
		return unavailable(err)
	case hook.Dead.IsZero():
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "The webhook has not been given up; its caller deletes it")
	}
	err = s.opts.Store.DeleteWebhook(ctx, scope, task, id)
	if errors.Is(err, store.ErrNotFound) {
		return noLetter(task, id)
	}
	return unavailable(err)
}

func noLetter(task, id string) error {
	return &a2a.Error{
		Code: a2a.CodeTaskNotFound, Message: "There is no such dead letter",
		Metadata: map[string]string{"taskId": task, "configId": id},
	}
}

// Stats counts the webhooks that are behind.
func (s *Service) Stats(ctx context.Context) (store.WebhookStats, error) {
	return s.opts.Store.WebhookStats(ctx)
}
