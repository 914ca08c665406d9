package store

import (
	"context"
	"errors"
	"time"
)

// JobPush is the kind of the job that delivers the events of a task to one of
// its webhooks, whose id is the key of the job. The store makes it itself, in
// the commit that has an event for the webhook.
const JobPush = "push"

// ErrLimit says that a task has as many webhooks as it may have.
var ErrLimit = errors.New("the task has as many webhooks as it may have")

// LimitWebhooks is the name of that limit, as errors of the protocol have it under
// a2a.MetadataLimit.
const LimitWebhooks = "webhooks"

// Webhooks keeps the webhooks of tasks (A2A §4.3). The events of a task are
// what is to be sent: each webhook keeps how far it has got.
type Webhooks interface {
	// Webhooks returns the webhooks of a task in the order of their ids.
	Webhooks(ctx context.Context, scope Scope, task string) ([]Webhook, error)
	// Webhook returns one webhook of a task.
	Webhook(ctx context.Context, scope Scope, task, id string) (*Webhook, error)
	// DeleteWebhook removes a webhook with what waits for it. One that is not
	// there is no error, a task that is not there is ErrNotFound.
	DeleteWebhook(ctx context.Context, scope Scope, task, id string) error
	// DeadWebhooks returns webhooks that were given up, the longest ago first,
	// after one in that order; nil begins.
	DeadWebhooks(ctx context.Context, scope Scope, after *Webhook, limit int) ([]Webhook, error)
	// ReviveWebhook lets a webhook that was given up go on, with the event that
	// it was given up for or, with skip, the one after it. ErrConflict says
	// that it was not given up.
	ReviveWebhook(ctx context.Context, scope Scope, task, id string, skip bool) error
	// Deliver keeps what became of a delivery. A claim that is not the caller's
	// any more is ErrConflict, and nothing is changed. With Delivered, left
	// reports that the task has newer events and the claim goes on.
	Deliver(ctx context.Context, d *Delivery) (left bool, err error)
	// HoldJob makes a claimed job come again a while from now at the earliest.
	// ErrConflict says that the claim is not the caller's any more.
	HoldJob(ctx context.Context, id int64, attempt int, hold time.Duration) error
	// WebhookStats counts the webhooks that are behind.
	WebhookStats(ctx context.Context) (WebhookStats, error)
}

// Webhook is where the events of a task are sent.
type Webhook struct {
	ID      string // within the task
	URL     string
	Scheme  string // of the authentication; "": none
	Version string // of the protocol, for what is sent; "": 1.0
	Secrets []byte // sealed; nil: none
	Created time.Time
	// Seq is the last event that was sent. In a change, 0 stands for the last
	// event before those of the change.
	Seq int64

	Failures int       // in a row
	Failing  time.Time // since; zero: not
	Stuck    int64     // the event that could not be sent; 0: none
	Error    string    // of the last failure
	Dead     time.Time // when it was given up; zero: it was not

	// The task, which the store fills in.
	TaskKey int64
	Task    string
	Agent   string
	Tenant  string
	Owner   string
	Events  int64 // how many the task has
	// Next is when something is tried next; zero: nothing is. Only AllWebhooks
	// fills it in.
	Next time.Time
}

// Outcome is what became of a delivery.
type Outcome int8

// What can become of a delivery.
const (
	// DeliverOn: the events up to Seq were sent, and the claim goes on.
	DeliverOn Outcome = iota + 1
	// Delivered: nothing is left after Seq, and the job ends; unless the task
	// has newer events.
	Delivered
	// DeliverLater: nothing was tried, and the job comes again after Wait.
	DeliverLater
	// DeliverAgain: the event Stuck could not be sent, and the job comes again
	// after Wait.
	DeliverAgain
	// DeliverNever: the event Stuck cannot be sent, and the webhook is given up.
	DeliverNever
	// DeliverGone: the webhook is not wanted any more and is removed.
	DeliverGone
)

// Delivery is what became of a job of the kind JobPush.
type Delivery struct {
	Job     int64 // the claim under which it was made
	Attempt int
	Task    int64 // key
	Webhook string
	Outcome Outcome
	Seq     int64         // with DeliverOn and Delivered: the last event that was sent
	Stuck   int64         // with DeliverAgain and DeliverNever
	Error   string        // likewise
	Wait    time.Duration // with DeliverLater and DeliverAgain
}

// WebhookStats counts webhooks that are behind.
type WebhookStats struct {
	Retrying int       // that have failed and are tried again
	Oldest   time.Time // since when the first of them has failed; zero: none
	Dead     int       // that were given up
}

// GoesOut reports whether the event is sent to webhooks and streams.
func (e *Event) GoesOut() bool { return e.Kind != KindMessage }

// Wakes reports whether a change has something for the webhooks of its task.
func (c *Change) Wakes() bool {
	for i := range c.Events {
		if c.Events[i].GoesOut() {
			return true
		}
	}
	return false
}
