package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/internal/store"
)

const (
	remindTimeout = 15 * time.Second
	firstBackoff  = 5 * time.Second
	lastBackoff   = 10 * time.Minute
	defaultRetry  = 24 * time.Hour
	// linkLife is how long the link of a reminder is good where nothing else says.
	linkLife = 72 * time.Hour
	// node is who sends reminders, for the record.
	node = "handoff"
)

// moments returns when the webhook hears of an item, in order.
func (c *Settings) moments(i *store.InboxItem) (all []time.Time) {
	if c.Webhook == nil {
		return nil
	}
	if !i.Due.IsZero() {
		for _, before := range c.Remind {
			all = append(all, i.Due.Add(-before))
		}
		slices.SortFunc(all, time.Time.Compare)
		all = slices.CompactFunc(all, time.Time.Equal)
		all = slices.DeleteFunc(all, func(at time.Time) bool { return at.Before(i.Created) })
	}
	if c.Webhook.Created {
		all = append([]time.Time{i.Created}, all...)
	}
	return all
}

// sent returns how many of the moments of an item are over by a time.
func (c *Settings) sent(i *store.InboxItem, at time.Time) int {
	n := 0
	for _, m := range c.moments(i) {
		if !m.After(at) {
			n++
		}
	}
	return n
}

// Schedule says when a new item is due, and which job reminds of it. The engine
// calls it before it commits the item.
func (s *Service) Schedule(i *store.InboxItem) (due time.Time, jobs []store.Job) {
	c := s.opts.Settings()
	item := *i
	if item.Created.IsZero() {
		item.Created = s.opts.Now()
	}
	if item.Due.IsZero() && c.Due > 0 {
		item.Due = item.Created.Add(c.Due)
	}
	if moments := c.moments(&item); len(moments) > 0 {
		jobs = []store.Job{jobFor(&item, moments[0])}
	}
	return item.Due, jobs
}

func jobFor(i *store.InboxItem, at time.Time) store.Job {
	return store.Job{Kind: store.JobInbox, Task: i.Task, Turn: i.Turn, Key: i.ID, Due: at}
}

// later makes the job for the next reminder of an item, and ends the one that is
// done.
func (s *Service) later(ctx context.Context, c *Settings, i *store.InboxItem, done int64) error {
	change := &store.Change{Finish: done}
	if moments := c.moments(i); i.Reminded < len(moments) {
		at := moments[i.Reminded]
		change.Jobs = []store.Job{jobFor(i, at)}
		defer s.opts.Due(at)
	}
	if change.Finish == 0 && change.Jobs == nil {
		return nil
	}
	return s.opts.Store.Commit(ctx, change)
}

// Remind is the handler of jobs of the kind store.JobInbox: it tells the webhook
// of an item. A webhook that does not take it is tried again.
func (s *Service) Remind(ctx context.Context, job *store.Job) error {
	select {
	case s.sending <- struct{}{}:
		defer func() { <-s.sending }()
	case <-ctx.Done():
		return ctx.Err()
	}
	finish := func() error { return s.opts.Store.Commit(ctx, &store.Change{Finish: job.ID}) }
	item, err := s.opts.Store.InboxItem(ctx, s.opts.Scope, job.Key)
	if errors.Is(err, store.ErrNotFound) || err == nil && !item.Settled.IsZero() {
		return finish()
	}
	if err != nil {
		return err
	}
	c := s.opts.Settings()
	n := c.sent(item, s.opts.Now())
	if n <= item.Reminded {
		return s.later(ctx, &c, item, job.ID) // the due date was moved
	}
	words, err := "", s.tell(ctx, &c, item, n)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		wait := min(firstBackoff<<min(job.Attempt-1, 20), lastBackoff)
		if !s.spent(&c, job) {
			s.log.WarnContext(ctx, "The webhook of the inbox did not take a reminder, and is tried again", "item", item.ID, "wait", wait.String(), "error", err)
			if err := s.opts.Store.HoldJob(ctx, job.ID, job.Attempt, wait); err != nil && !errors.Is(err, store.ErrConflict) {
				return err
			}
			s.opts.Due(s.opts.Now().Add(wait))
			return nil
		}
		s.log.ErrorContext(ctx, "The webhook of the inbox did not take a reminder, which is given up", "item", item.ID, "error", err)
		words = "nobody could be told: " + err.Error()
	}
	err = s.opts.Store.UpdateInbox(ctx, s.opts.Scope, &store.InboxUpdate{
		ID: item.ID, Reminded: &n, Entry: store.InboxEntry{By: node, What: "reminded", Words: words},
	})
	switch {
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound):
		return finish()
	case err != nil:
		return err
	}
	item.Reminded = n
	return s.later(ctx, &c, item, job.ID)
}

// spent reports whether a reminder was tried for as long as it may be.
func (s *Service) spent(c *Settings, job *store.Job) bool {
	limit := c.Webhook.Retry
	if limit == 0 {
		limit = defaultRetry
	}
	tried := time.Duration(0)
	for i := range job.Attempt {
		if tried += min(firstBackoff<<min(i, 20), lastBackoff); tried >= limit {
			return true
		}
	}
	return false
}

// notice is what the webhook is sent.
type notice struct {
	Event  string `json:"event"` // created, reminder or overdue
	Number int    `json:"number"`
	Item   *Item  `json:"item"`
	Link   string `json:"link,omitempty"`
}

// tell posts an item to the webhook.
func (s *Service) tell(ctx context.Context, c *Settings, i *store.InboxItem, number int) error {
	m := &notice{Event: "reminder", Number: number, Item: s.View(i)}
	switch {
	case m.Item.Overdue:
		m.Event = "overdue"
	case c.Webhook.Created && number == 1:
		m.Event = "created"
	}
	if c.Webhook.Links && len(s.opts.Keys) > 0 {
		m.Link = s.link(i.ID, i.Assignee, s.opts.Now().Add(c.linkLife()))
	}
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write reminder: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, remindTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Webhook.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Handoff/"+s.opts.Version)
	r.Header.Set("X-Handoff-Event-ID", i.ID+"/"+strconv.Itoa(number))
	if c.Webhook.Auth != "" {
		r.Header.Set("Authorization", c.Webhook.Auth)
	}
	response, err := s.opts.Client.Do(r)
	if err != nil {
		return fmt.Errorf("send reminder: %w", err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 4<<10)) // so that the connection can be used again
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("the receiver answered HTTP %d", response.StatusCode)
	}
	return nil
}

func (c *Settings) linkLife() time.Duration {
	if c.LinkTTL > 0 {
		return c.LinkTTL
	}
	return linkLife
}
