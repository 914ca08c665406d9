package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// webhookColumns are what webhookScanner reads of the tables webhooks w, tasks t
// and realms r.
const webhookColumns = `w.id, w.url, w.scheme, w.secrets, w.created, w.seq, w.failures, w.failing, w.stuck, w.error, w.dead,
 t.key, t.id, r.agent, r.tenant, r.owner, t.seq, w.version`

const webhookTables = " FROM webhooks w JOIN tasks t ON t.key = w.task JOIN realms r ON r.id = t.realm"

// webhookScanner holds what webhookColumns are scanned into.
type webhookScanner struct {
	id, url, scheme, text, task, agent, tenant, owner, version []byte
	created, failing, dead                                     int64
	hook                                                       store.Webhook
}

func (s *webhookScanner) targets() []any {
	h := &s.hook
	return []any{
		&s.id, &s.url, &s.scheme, &h.Secrets, &s.created, &h.Seq, &h.Failures, &s.failing, &h.Stuck, &s.text, &s.dead,
		&h.TaskKey, &s.task, &s.agent, &s.tenant, &s.owner, &h.Events, &s.version,
	}
}

func (s *webhookScanner) take() store.Webhook {
	h := s.hook
	h.ID, h.URL, h.Scheme, h.Error = string(s.id), string(s.url), string(s.scheme), string(s.text)
	h.Task, h.Agent, h.Tenant, h.Owner = string(s.task), string(s.agent), string(s.tenant), string(s.owner)
	h.Version = string(s.version)
	h.Created, h.Failing, h.Dead = record.Time(s.created), record.Time(s.failing), record.Time(s.dead)
	return h
}

var webhookColumnsCopied = []string{"task", "created", "failing", "dead", "seq", "failures", "stuck", "id", "url", "scheme", "secrets", "error", "version"}

func webhookValues(h *store.Webhook) []any {
	return []any{
		h.TaskKey, record.Milliseconds(h.Created), record.Milliseconds(h.Failing), record.Milliseconds(h.Dead), h.Seq, h.Failures, h.Stuck,
		[]byte(h.ID), []byte(h.URL), []byte(h.Scheme), h.Secrets, []byte(h.Error), []byte(h.Version),
	}
}

func collectWebhooks(rows pgx.Rows, err error) ([]store.Webhook, error) {
	if err != nil {
		return nil, err
	}
	var hooks []store.Webhook
	var s webhookScanner
	_, err = pgx.ForEachRow(rows, s.targets(), func() error {
		hooks = append(hooks, s.take())
		return nil
	})
	return hooks, err
}

// Webhooks returns the webhooks of a task in the order of their ids.
func (s *Store) Webhooks(ctx context.Context, scope store.Scope, task string) (hooks []store.Webhook, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		t, err := find(ctx, c, scope, task, "")
		if err != nil {
			return err
		}
		hooks, err = collectWebhooks(c.Query(ctx, "SELECT "+webhookColumns+webhookTables+" WHERE w.task = $1 ORDER BY w.id", t.Key))
		return err
	})
	return hooks, err
}

// Webhook returns one webhook of a task.
func (s *Store) Webhook(ctx context.Context, scope store.Scope, task, id string) (hook *store.Webhook, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		hook, err = findWebhook(ctx, c, scope, task, id, "")
		return err
	})
	return hook, err
}

func findWebhook(ctx context.Context, db session, scope store.Scope, task, id, lock string) (*store.Webhook, error) {
	args := arguments{[]byte(task), []byte(id)}
	condition := within(scope, &args)
	hooks, err := collectWebhooks(db.Query(ctx, "SELECT "+webhookColumns+webhookTables+" WHERE t.id = $1 AND w.id = $2 AND "+condition+lock, args...))
	if err != nil {
		return nil, err
	}
	if len(hooks) == 0 {
		return nil, store.ErrNotFound
	}
	return &hooks[0], nil
}

// DeleteWebhook removes a webhook with what waits for it.
func (s *Store) DeleteWebhook(ctx context.Context, scope store.Scope, task, id string) error {
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		t, err := find(ctx, tx, scope, task, " FOR UPDATE OF t")
		if err != nil {
			return err
		}
		return removeWebhook(ctx, tx, t.Key, t.ID, id)
	})
}

// removeWebhook removes a webhook of a task that is locked.
func removeWebhook(ctx context.Context, tx pgx.Tx, key int64, task, id string) error {
	var q pgx.Batch
	q.Queue("DELETE FROM jobs WHERE task = $1 AND kind = $2 AND key = $3", []byte(task), []byte(store.JobPush), []byte(id))
	q.Queue("WITH gone AS (DELETE FROM webhooks WHERE task = $1 AND id = $2 RETURNING 1) UPDATE tasks SET webhooks = webhooks - 1 WHERE key = $1 AND EXISTS (SELECT 1 FROM gone)",
		key, []byte(id))
	return tx.SendBatch(ctx, &q).Close()
}

// DeadWebhooks returns webhooks that were given up, the longest ago first.
func (s *Store) DeadWebhooks(ctx context.Context, scope store.Scope, after *store.Webhook, limit int) (hooks []store.Webhook, err error) {
	if after == nil {
		after = &store.Webhook{}
	}
	args := arguments{record.Milliseconds(after.Dead), after.TaskKey, []byte(after.ID), limit}
	condition := within(scope, &args)
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		hooks, err = collectWebhooks(c.Query(ctx, "SELECT "+webhookColumns+webhookTables+
			" WHERE w.dead > 0 AND (w.dead, w.task, w.id) > ($1, $2, $3) AND "+condition+" ORDER BY w.dead, w.task, w.id LIMIT $4", args...))
		return err
	})
	return hooks, err
}

// ReviveWebhook lets a webhook that was given up go on.
func (s *Store) ReviveWebhook(ctx context.Context, scope store.Scope, task, id string, skip bool) error {
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		hook, err := findWebhook(ctx, tx, scope, task, id, " FOR UPDATE OF t, w")
		if err != nil {
			return err
		}
		if hook.Dead.IsZero() {
			return store.ErrConflict
		}
		seq := hook.Seq
		if skip {
			seq = max(seq, hook.Stuck)
		}
		var q pgx.Batch
		q.Queue("UPDATE webhooks SET seq = $3, failures = 0, failing = 0, stuck = 0, error = '', dead = 0 WHERE task = $1 AND id = $2", hook.TaskKey, []byte(id), seq)
		q.Queue(wakeWebhooks, []int64{hook.TaskKey}, [][]byte{[]byte(hook.Task)})
		return tx.SendBatch(ctx, &q).Close()
	})
}

// Deliver keeps what became of a delivery. When the answer is lost, the event is
// sent again.
func (s *Store) Deliver(ctx context.Context, d *store.Delivery) (left bool, err error) {
	err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		left, err = deliver(ctx, tx, d)
		return err
	})
	return left, err
}

func deliver(ctx context.Context, tx pgx.Tx, d *store.Delivery) (left bool, err error) {
	hook := []any{d.Task, []byte(d.Webhook)}
	var seq int64
	var task []byte
	// Whoever ends a job locks the task before, so that no event is committed in
	// between.
	query := "SELECT seq, id FROM tasks WHERE key = $1"
	switch d.Outcome {
	case store.Delivered, store.DeliverNever:
		query += " FOR SHARE"
	case store.DeliverGone:
		query += " FOR UPDATE"
	}
	if err := tx.QueryRow(ctx, query, d.Task).Scan(&seq, &task); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return false, store.ErrConflict
		}
		return false, err
	}
	var id int64
	err = tx.QueryRow(ctx, "SELECT id FROM jobs WHERE id = $1 AND attempt = $2 FOR UPDATE", d.Job, d.Attempt).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, store.ErrConflict
	}
	if err != nil {
		return false, err
	}
	var q pgx.Batch
	end := func() { q.Queue("DELETE FROM jobs WHERE id = $1", d.Job) }
	again := func() { // the claim is over, so that nobody holds it
		q.Queue("UPDATE jobs SET due = "+nowSQL+" + $2, attempt = attempt + 1 WHERE id = $1", d.Job, d.Wait.Milliseconds())
	}
	const failed = "UPDATE webhooks SET failures = failures + 1, failing = CASE failing WHEN 0 THEN " + nowSQL + " ELSE failing END, stuck = $3, error = $4"
	const which = " WHERE task = $1 AND id = $2"
	switch d.Outcome {
	case store.DeliverOn, store.Delivered:
		q.Queue("UPDATE webhooks SET seq = $3, failures = 0, failing = 0, stuck = 0, error = ''"+which, append(hook, d.Seq)...)
		if left = seq > d.Seq; d.Outcome == store.Delivered && !left {
			end()
		}
	case store.DeliverLater:
		again()
	case store.DeliverAgain:
		q.Queue(failed+which, append(hook, d.Stuck, []byte(d.Error))...)
		again()
	case store.DeliverNever:
		q.Queue(failed+", dead = "+nowSQL+which, append(hook, d.Stuck, []byte(d.Error))...)
		end()
	case store.DeliverGone:
		return false, removeWebhook(ctx, tx, d.Task, string(task), d.Webhook)
	default:
		return false, store.ErrConflict
	}
	return left, tx.SendBatch(ctx, &q).Close()
}

// HoldJob makes a claimed job come again a while from now at the earliest.
func (s *Store) HoldJob(ctx context.Context, id int64, attempt int, hold time.Duration) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		tag, err := c.Exec(ctx, "UPDATE jobs SET due = "+nowSQL+" + $3 WHERE id = $1 AND attempt = $2", id, attempt, hold.Milliseconds())
		if err == nil && tag.RowsAffected() == 0 {
			err = store.ErrConflict
		}
		return err
	})
}

// WebhookStats counts the webhooks that are behind.
func (s *Store) WebhookStats(ctx context.Context) (stats store.WebhookStats, err error) {
	var oldest int64
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, `SELECT count(*), coalesce(min(failing), 0), (SELECT count(*) FROM webhooks WHERE dead > 0) FROM webhooks WHERE failing > 0 AND dead = 0`).
			Scan(&stats.Retrying, &oldest, &stats.Dead)
	})
	stats.Oldest = record.Time(oldest)
	return stats, err
}
