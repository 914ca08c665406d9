package push

import (
	"context"
	"errors"
	"net"
	"net/url"
	"time"

	"handoff.example/handoff/internal/store"
)

const (
	readBytes = 128 << 10       // of events that are read at once, one at least
	shift     = 2 * time.Second // after which a webhook makes room for others of its target
	settling  = 5 * time.Second // for what is kept when the node stops
	lingering = 3 * time.Second // for the answer to what was sent by then
	patience  = 200 * time.Millisecond
)

// Do does a job of the kind store.JobPush: it sends a webhook the events that it
// has not been sent yet, one after another. It may take long, and bounds itself.
func (s *Service) Do(ctx context.Context, job *store.Job) error {
	hook, err := s.opts.Store.Webhook(ctx, s.opts.Scope, job.Task, job.Key)
	if errors.Is(err, store.ErrNotFound) || err == nil && !hook.Dead.IsZero() {
		return s.opts.Store.Commit(ctx, &store.Change{Finish: job.ID})
	}
	if err != nil {
		return err
	}
	d := &delivery{s: s, job: job, hook: hook}
	slot, later := s.pool.enter(ctx, party{hook.Tenant, hook.Owner}, targetOf(hook.URL))
	if slot == nil {
		return d.putOff(ctx, later)
	}
	s.opts.Observer.PushInFlight(1)
	answered := true
	defer func() {
		s.opts.Observer.PushInFlight(-1)
		s.pool.leave(slot, answered)
	}()
	answered, err = d.run(ctx, slot)
	if errors.Is(err, store.ErrConflict) {
		return nil // the claim is somebody else's, or there is nothing to do any more
	}
	return err
}

// targetOf returns the host and port that a webhook is reached at.
func targetOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// delivery is one claim of the job of a webhook.
type delivery struct {
	s      *Service
	job    *store.Job
	hook   *store.Webhook
	secret secrets
}

// run sends events until none is left. Answered says whether the receiver is
// there.
func (d *delivery) run(ctx context.Context, slot *slot) (answered bool, err error) {
	if d.secret, err = d.s.open(d.hook); err != nil {
		t := try{verdict: failed, answered: true, reason: "the secrets of the webhook cannot be opened: add the secret_key that sealed them to old_secret_keys"}
		return true, d.fail(ctx, &store.Event{Seq: d.hook.Seq + 1}, t)
	}
	d.hook.URL += d.secret.Place
	began, sent := time.Now(), d.hook.Seq
	for {
		events, err := d.s.opts.Store.Events(ctx, d.hook.TaskKey, sent, readBytes)
		if err != nil {
			return true, err
		}
		for i := range events {
			event := &events[i]
			if event.GoesOut() {
				if t, err := d.send(ctx, event); t.verdict != accepted || err != nil {
					return t.answered, err
				}
			}
			if sent = event.Seq; i < len(events)-1 && event.GoesOut() {
				if _, err := d.keep(ctx, &store.Delivery{Outcome: store.DeliverOn, Seq: sent}); err != nil {
					return true, err
				}
			}
		}
		left, err := d.keep(ctx, &store.Delivery{Outcome: store.Delivered, Seq: sent})
		if err != nil || !left {
			return true, err
		}
		if time.Since(began) > shift && d.s.pool.contended(slot) {
			return true, d.putOff(ctx, 0)
		}
	}
}

// send sends an event, and keeps what a failure comes to.
func (d *delivery) send(ctx context.Context, event *store.Event) (try, error) {
	if ctx.Err() != nil {
		return try{verdict: failed, answered: true}, d.putOff(ctx, 0)
	}
	began := time.Now()
	// What is under way when the node stops may end, so that it need not be sent
	// again.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lingering, cancel) })
	defer stop()
	t := d.s.send(lasting, d.hook, &d.secret, event)
	switch {
	case t.verdict == accepted:
		d.s.opts.Observer.PushDelivered(d.hook.Agent, time.Since(began))
		return t, nil
	case ctx.Err() != nil:
		t.answered = true // it is not the receiver's fault
		return t, d.putOff(ctx, 0)
	}
	return t, d.fail(ctx, event, t)
}

// fail keeps that an event could not be sent.
func (d *delivery) fail(ctx context.Context, event *store.Event, t try) error {
	failures, failing := d.hook.Failures+1, d.hook.Failing
	if d.hook.Stuck != event.Seq {
		failures, failing = 1, time.Now()
	}
	o := &store.Delivery{Outcome: store.DeliverAgain, Stuck: event.Seq, Error: t.reason}
	outcome := "retry"
	switch {
	case t.verdict == gone:
		o.Outcome, outcome = store.DeliverGone, "gone"
	case t.verdict == refused && failures >= d.s.limits.Refusals, time.Since(failing) >= d.s.limits.Retry:
		o.Outcome, outcome = store.DeliverNever, "dead"
	default:
		o.Wait = d.s.backoff(failures)
		if t.after > 0 {
			o.Wait = max(o.Wait, t.after+jitter(t.after/16))
		}
		// The last try is at the end of the time, not behind it.
		o.Wait = min(o.Wait, max(d.s.limits.Retry-time.Since(failing), d.s.limits.Backoff))
	}
	d.s.opts.Observer.PushFailed(d.hook.Agent, outcome)
	attributes := []any{"task", d.hook.Task, "webhook", d.hook.ID, "target", Origin(d.hook.URL), "event", event.Seq, "attempt", failures, "reason", t.reason}
	switch o.Outcome {
	case store.DeliverGone:
		d.s.log.InfoContext(ctx, "A webhook was removed: its receiver is gone", attributes...)
	case store.DeliverNever:
		d.s.log.WarnContext(ctx, "An event could not be delivered; its webhook was given up", attributes...)
	default:
		d.s.log.DebugContext(ctx, "An event could not be delivered and will be tried again", attributes...)
	}
	_, err := d.keep(ctx, o)
	if err == nil && o.Outcome == store.DeliverAgain {
		d.s.opts.Due(time.Now().Add(o.Wait))
	}
	return err
}

// backoff returns the time before another try, after so many failures.
func (s *Service) backoff(failures int) time.Duration {
	wait := s.limits.Backoff
	for range failures - 1 {
		if wait *= 2; wait >= s.limits.MaxBackoff {
			wait = s.limits.MaxBackoff
			break
		}
	}
	return jitter(wait)
}

// putOff lets the job come again, when there was no place for it or when the
// node stops.
func (d *delivery) putOff(ctx context.Context, wait time.Duration) error {
	_, err := d.keep(ctx, &store.Delivery{Outcome: store.DeliverLater, Wait: wait})
	if err == nil {
		d.s.opts.Due(time.Now().Add(wait))
	}
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// keep keeps what became of a delivery, also when ctx has ended, and tries for a
// while when the store is away: what was sent and is not kept is sent again.
func (d *delivery) keep(ctx context.Context, o *store.Delivery) (left bool, err error) {
	o.Job, o.Attempt, o.Task, o.Webhook = d.job.ID, d.job.Attempt, d.hook.TaskKey, d.hook.ID
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
	defer cancel()
	for {
		left, err = d.s.opts.Store.Deliver(bounded, o)
		if err == nil || !errors.Is(err, store.ErrUnavailable) {
			return left, err
		}
		select {
		case <-bounded.Done():
			return false, err
		case <-time.After(patience):
		}
	}
}
