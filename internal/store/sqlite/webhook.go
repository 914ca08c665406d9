package sqlite

import (
	"context"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// webhookColumns are what scanWebhook reads of the tables webhooks w, tasks t
// and realms r.
const webhookColumns = `w.id, w.url, w.scheme, w.secrets, w.created, w.seq, w.failures, w.failing, w.stuck, w.error, w.dead,
 t.key, t.id, r.agent, r.tenant, r.owner, t.seq, w.version`

const webhookTables = " FROM webhooks w CROSS JOIN tasks t ON t.key = w.task CROSS JOIN realms r ON r.id = t.realm"

func scanWebhook(v values) store.Webhook {
	return store.Webhook{
		ID: text(v[0]), URL: text(v[1]), Scheme: text(v[2]), Secrets: blob(v[3]), Created: moment(v[4]), Seq: integer(v[5]),
		Failures: int(integer(v[6])), Failing: moment(v[7]), Stuck: integer(v[8]), Error: text(v[9]), Dead: moment(v[10]),
		TaskKey: integer(v[11]), Task: text(v[12]), Agent: text(v[13]), Tenant: text(v[14]), Owner: text(v[15]), Events: integer(v[16]), Version: text(v[17]),
	}
}

// hasWebhook reports whether the task has a webhook of that id.
func (w *writer) hasWebhook(task int64, id string) (bool, error) {
	n, err := w.conn.number(context.Background(), "SELECT count(*) FROM webhooks WHERE task=? AND id=?", task, id)
	return n > 0, err
}

// checkWebhook refuses a webhook that is one too many. Whether it replaces
// another comes back.
func (w *writer) checkWebhook(t *record.Row, c *store.Change) (replaces bool, err error) {
	if c.Webhook == nil {
		return false, nil
	}
	if t == nil {
		return false, refusal{store.ErrNotFound}
	}
	if t.Webhooks > 0 {
		if replaces, err = w.hasWebhook(t.Key, c.Webhook.ID); replaces || err != nil {
			return replaces, err
		}
	}
	if c.MaxWebhooks > 0 && t.Webhooks >= c.MaxWebhooks {
		return false, refusal{store.ErrLimit}
	}
	return false, nil
}

// putWebhook makes the webhook of a change, or gives the one that it replaces
// new values. Deliveries of that one that are under way lose their claim.
func (w *writer) putWebhook(c *store.Change, replaces bool, at time.Time) error {
	t, h := &c.After, c.Webhook
	if h == nil {
		return nil
	}
	if replaces {
		if _, err := w.conn.run("DELETE FROM jobs WHERE task=? AND kind=? AND key=?", t.ID, store.JobPush, h.ID); err != nil {
			return err
		}
		_, err := w.conn.run("UPDATE webhooks SET url=?, scheme=?, secrets=?, version=?, failures=0, failing=0, stuck=0, error='', dead=0 WHERE task=? AND id=?",
			h.URL, h.Scheme, h.Secrets, h.Version, t.Key, h.ID)
		return err
	}
	seq := h.Seq
	if seq == 0 {
		seq = t.Seq - int64(len(c.Events))
	}
	if _, err := w.conn.run(insertWebhook, insertWebhookArgs(t.Key, h, seq, at)...); err != nil {
		return err
	}
	return w.countWebhooks(t, 1)
}

const insertWebhook = `INSERT INTO webhooks (task, id, url, scheme, secrets, created, seq, failures, failing, stuck, error, dead, version)
 VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)`

func insertWebhookArgs(task int64, h *store.Webhook, seq int64, created time.Time) []any {
	return []any{
		task, h.ID, h.URL, h.Scheme, h.Secrets, record.Milliseconds(created), seq,
		int64(h.Failures), record.Milliseconds(h.Failing), h.Stuck, h.Error, record.Milliseconds(h.Dead), h.Version,
	}
}

// countWebhooks says how many more webhooks a task has, in its row and in what
// is remembered of it.
func (w *writer) countWebhooks(t *store.Task, more int) error {
	if _, err := w.conn.run("UPDATE tasks SET webhooks = webhooks + ? WHERE key=?", int64(more), t.Key); err != nil {
		return err
	}
	t.Webhooks += more
	if kept := w.rows[t.Key]; kept != nil {
		kept.Webhooks = t.Webhooks
	}
	return nil
}

// wake makes a job for each webhook of the task that has none: one that has is
// at work, or waits for its next try.
func (w *writer) wake(t *store.Task, at time.Time) (int, error) {
	first := w.clock.job
	w.clock.job += int64(t.Webhooks)
	n, err := w.conn.run(`INSERT INTO jobs (id, kind, task, key, turn, due, attempt)
 SELECT ? + row_number() OVER (ORDER BY id), ?, ?, id, 0, ?, 0 FROM webhooks WHERE task=? AND dead=0 AND seq < ? ON CONFLICT (task, kind, key) DO NOTHING`,
		first, store.JobPush, t.ID, at.UnixMilli(), t.Key, t.Seq)
	return int(n), err
}

// Webhooks returns the webhooks of a task in the order of their ids.
func (s *Store) Webhooks(ctx context.Context, scope store.Scope, task string) ([]store.Webhook, error) {
	var hooks []store.Webhook
	err := s.snapshot(ctx, func(c *conn) error {
		t, err := find(c, scope, task)
		if err != nil {
			return err
		}
		return unavailable(c.each(ctx, func(v values) bool {
			hooks = append(hooks, scanWebhook(v))
			return true
		}, "SELECT "+webhookColumns+webhookTables+" WHERE w.task = ? ORDER BY w.id", t.Key))
	})
	return hooks, err
}

// Webhook returns one webhook of a task.
func (s *Store) Webhook(ctx context.Context, scope store.Scope, task, id string) (*store.Webhook, error) {
	var hook store.Webhook
	err := s.read(ctx, func(c *conn) (err error) {
		hook, err = findWebhook(c, scope, task, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &hook, nil
}

func findWebhook(c *conn, scope store.Scope, task, id string) (hook store.Webhook, err error) {
	condition, args := within(scope)
	found, err := c.one(func(v values) { hook = scanWebhook(v) },
		"SELECT "+webhookColumns+" FROM tasks t CROSS JOIN realms r ON r.id = t.realm CROSS JOIN webhooks w ON w.task = t.key WHERE t.id = ? AND w.id = ? AND "+condition,
		append([]any{task, id}, args...)...)
	if err != nil {
		return hook, unavailable(err)
	}
	if !found {
		return hook, store.ErrNotFound
	}
	return hook, nil
}

// DeleteWebhook removes a webhook with what waits for it.
func (s *Store) DeleteWebhook(ctx context.Context, scope store.Scope, task, id string) error {
	return s.write(ctx, func(w *writer, _ time.Time) error {
		t, err := find(w.conn, scope, task)
		if err == store.ErrNotFound {
			return refusal{err}
		}
		if err != nil {
			return err
		}
		return w.removeWebhook(&t.Task, id)
	})
}

func (w *writer) removeWebhook(t *store.Task, id string) error {
	if _, err := w.conn.run("DELETE FROM jobs WHERE task=? AND kind=? AND key=?", t.ID, store.JobPush, id); err != nil {
		return err
	}
	n, err := w.conn.run("DELETE FROM webhooks WHERE task=? AND id=?", t.Key, id)
	if err != nil || n == 0 {
		return err
	}
	return w.countWebhooks(t, -1)
}

// DeadWebhooks returns webhooks that were given up, the longest ago first.
func (s *Store) DeadWebhooks(ctx context.Context, scope store.Scope, after *store.Webhook, limit int) ([]store.Webhook, error) {
	condition, args := within(scope)
	if after == nil {
		after = &store.Webhook{}
	}
	args = append([]any{record.Milliseconds(after.Dead), after.TaskKey, after.ID}, args...)
	var hooks []store.Webhook
	err := s.read(ctx, func(c *conn) error {
		return unavailable(c.each(ctx, func(v values) bool {
			hooks = append(hooks, scanWebhook(v))
			return true
		}, "SELECT "+webhookColumns+webhookTables+" WHERE w.dead > 0 AND (w.dead, w.task, w.id) > (?, ?, ?) AND "+condition+" ORDER BY w.dead, w.task, w.id LIMIT ?",
			append(args, int64(limit))...))
	})
	return hooks, err
}

// ReviveWebhook lets a webhook that was given up go on.
func (s *Store) ReviveWebhook(ctx context.Context, scope store.Scope, task, id string, skip bool) error {
	return s.write(ctx, func(w *writer, at time.Time) error {
		hook, err := findWebhook(w.conn, scope, task, id)
		switch {
		case err == store.ErrNotFound:
			return refusal{err}
		case err != nil:
			return err
		case hook.Dead.IsZero():
			return refusal{store.ErrConflict}
		}
		seq := hook.Seq
		if skip {
			seq = max(seq, hook.Stuck)
		}
		if _, err := w.conn.run("UPDATE webhooks SET seq=?, failures=0, failing=0, stuck=0, error='', dead=0 WHERE task=? AND id=?", seq, hook.TaskKey, id); err != nil {
			return err
		}
		row, err := w.row(hook.TaskKey)
		if err != nil {
			return err
		}
		_, err = w.wake(&row.Task, at)
		return err
	})
}

// Deliver keeps what became of a delivery.
func (s *Store) Deliver(ctx context.Context, d *store.Delivery) (left bool, err error) {
	err = s.write(ctx, func(w *writer, at time.Time) (err error) {
		left, err = w.deliver(d, at)
		return err
	})
	return left, err
}

func (w *writer) deliver(d *store.Delivery, at time.Time) (left bool, err error) {
	claimed, err := w.conn.number(context.Background(), "SELECT count(*) FROM jobs WHERE id=? AND attempt=?", d.Job, int64(d.Attempt))
	if err != nil {
		return false, err
	}
	if claimed == 0 {
		return false, refusal{store.ErrConflict}
	}
	t, err := w.row(d.Task)
	if err != nil {
		return false, err
	}
	end := func() error {
		_, err := w.conn.run("DELETE FROM jobs WHERE id=?", d.Job)
		return err
	}
	again := func() error { // the claim is over, so that nobody holds it
		_, err := w.conn.run("UPDATE jobs SET due=?, attempt=attempt+1 WHERE id=?", at.Add(d.Wait).UnixMilli(), d.Job)
		return err
	}
	switch d.Outcome {
	case store.DeliverOn, store.Delivered:
		if _, err := w.conn.run("UPDATE webhooks SET seq=?, failures=0, failing=0, stuck=0, error='' WHERE task=? AND id=?", d.Seq, d.Task, d.Webhook); err != nil {
			return false, err
		}
		if left = t.Seq > d.Seq; d.Outcome == store.Delivered && !left {
			return false, end()
		}
		return left, nil
	case store.DeliverLater:
		return false, again()
	case store.DeliverAgain:
		if _, err := w.conn.run("UPDATE webhooks SET failures=failures+1, failing=CASE failing WHEN 0 THEN ? ELSE failing END, stuck=?, error=? WHERE task=? AND id=?",
			at.UnixMilli(), d.Stuck, d.Error, d.Task, d.Webhook); err != nil {
			return false, err
		}
		return false, again()
	case store.DeliverNever:
		if _, err := w.conn.run("UPDATE webhooks SET failures=failures+1, failing=CASE failing WHEN 0 THEN ?1 ELSE failing END, stuck=?2, error=?3, dead=?1 WHERE task=?4 AND id=?5",
			at.UnixMilli(), d.Stuck, d.Error, d.Task, d.Webhook); err != nil {
			return false, err
		}
		return false, end()
	case store.DeliverGone:
		return false, w.removeWebhook(&t.Task, d.Webhook)
	}
	return false, refusal{store.ErrConflict}
}

// HoldJob makes a claimed job come again a while from now at the earliest.
func (s *Store) HoldJob(ctx context.Context, id int64, attempt int, hold time.Duration) error {
	return s.write(ctx, func(w *writer, at time.Time) error {
		n, err := w.conn.run("UPDATE jobs SET due=? WHERE id=? AND attempt=?", at.Add(hold).UnixMilli(), id, int64(attempt))
		if err == nil && n == 0 {
			err = refusal{store.ErrConflict}
		}
		return err
	})
}

// WebhookStats counts the webhooks that are behind.
func (s *Store) WebhookStats(ctx context.Context) (stats store.WebhookStats, err error) {
	err = s.read(ctx, func(c *conn) error {
		_, err := c.one(func(v values) {
			stats = store.WebhookStats{Retrying: int(integer(v[0])), Oldest: moment(v[1]), Dead: int(integer(v[2]))}
		}, `SELECT count(*), coalesce(min(failing), 0), (SELECT count(*) FROM webhooks WHERE dead > 0) FROM webhooks WHERE failing > 0 AND dead = 0`)
		return unavailable(err)
	})
	return stats, err
}
