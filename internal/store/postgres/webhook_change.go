package postgres

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// hookKey names a webhook.
type hookKey struct {
	task int64
	id   string
}

// webhookWork is what a batch writes of webhooks.
type webhookWork struct {
	puts     map[hookKey]*store.Webhook // with the task's id
	replaced map[hookKey]string         // the ids of their tasks
	counts   map[int64]int              // of the tasks whose number has changed
	wake     map[int64]string           // tasks that have something to send, and their ids
	changes  []*store.Change            // that have
}

// say tells the changes how many jobs came of them all.
func (w *webhookWork) say(woken int) {
	for _, c := range w.changes {
		c.Woken = woken
	}
}

// lookUpWebhooks finds out which of the webhooks that are put exist. Their tasks
// are locked by then.
func (b *work) lookUpWebhooks(q *pgx.Batch) {
	var tasks []int64
	var ids [][]byte
	for _, o := range b.ops {
		if c := o.change; c.Webhook != nil && c.Task != 0 {
			tasks, ids = append(tasks, c.Task), append(ids, []byte(c.Webhook.ID))
		}
	}
	if len(tasks) == 0 {
		return
	}
	q.Queue("SELECT w.task, w.id FROM unnest($1::bigint[], $2::bytea[]) AS u(task, id) JOIN webhooks w ON w.task = u.task AND w.id = u.id", tasks, ids).
		Query(func(rows pgx.Rows) error {
			var task int64
			var id []byte
			_, err := pgx.ForEachRow(rows, []any{&task, &id}, func() error {
				b.hooks[hookKey{task, string(id)}] = true
				return nil
			})
			return err
		})
}

// checkWebhook refuses a webhook that is one too many.
func (b *work) checkWebhook(t *entry, c *store.Change) error {
	switch {
	case c.Webhook == nil:
	case t == nil:
		return store.ErrNotFound
	case !b.hooks[hookKey{t.Key, c.Webhook.ID}] && c.MaxWebhooks > 0 && t.Webhooks >= c.MaxWebhooks:
		return store.ErrLimit
	}
	return nil
}

// notify makes the webhook of a change, and wakes those that have something to
// send after it.
func (b *work) notify(t *entry, c *store.Change) {
	w := &b.webhooks
	c.Woken = 0
	replaces := false
	if h := c.Webhook; h != nil {
		key := hookKey{t.Key, h.ID}
		put := *h
		put.TaskKey, put.Task, put.Created = t.Key, t.ID, b.at
		if put.Seq == 0 {
			put.Seq = t.Seq - int64(len(c.Events))
		}
		if replaces = b.hooks[key]; replaces {
			if earlier := w.puts[key]; earlier != nil {
				put.Seq = earlier.Seq
			}
			w.replaced = with(w.replaced, key, t.ID)
		} else {
			t.Webhooks++
			w.counts = with(w.counts, t.Key, t.Webhooks)
			b.hooks[key] = true
		}
		w.puts = with(w.puts, key, &put)
		c.After.Webhooks = t.Webhooks
		if c.Insert != nil {
			c.Insert.Webhooks = t.Webhooks
		}
	}
	if t.Webhooks > 0 && (replaces || c.Wakes()) {
		w.wake = with(w.wake, t.Key, t.ID)
		w.changes = append(w.changes, c)
	}
}

// with puts into a map that may not be made yet.
func with[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[key] = value
	return m
}

var (
	deletePushJobs = "DELETE FROM jobs j USING unnest($1::bytea[], $2::bytea[]) AS u(task, key) WHERE j.task = u.task AND j.kind = '" + store.JobPush + "' AND j.key = u.key"
	putWebhooks    = `INSERT INTO webhooks (task, created, failing, dead, seq, failures, stuck, id, url, scheme, secrets, version, error)
 SELECT u.task, u.created, 0, 0, u.seq, 0, 0, u.id, u.url, u.scheme, u.secrets, u.version, '' FROM ` + unnest(3, 5) + ` AS u(task, created, seq, id, url, scheme, secrets, version)
 ON CONFLICT (task, id) DO UPDATE SET url = excluded.url, scheme = excluded.scheme, secrets = excluded.secrets, version = excluded.version,
 failures = 0, failing = 0, stuck = 0, error = '', dead = 0`
	countWebhooks = "UPDATE tasks t SET webhooks = u.n FROM unnest($1::bigint[], $2::bigint[]) AS u(key, n) WHERE t.key = u.key"
	wakeWebhooks  = `INSERT INTO jobs (id, due, turn, attempt, kind, task, key)
 SELECT nextval('job_ids'), ` + nowSQL + `, 0, 0, '` + store.JobPush + `', w.id, w.key FROM (
  SELECT u.id, w.id AS key FROM unnest($1::bigint[], $2::bytea[]) AS u(task, id) JOIN webhooks w ON w.task = u.task
  JOIN tasks t ON t.key = u.task WHERE w.dead = 0 AND w.seq < t.seq ORDER BY u.id, w.id) w
 ON CONFLICT (task, kind, key) DO NOTHING`
)

// writeWebhooks queues what is written of webhooks. It returns which of the
// statements of the batch wakes them, -1 when none does.
func (b *work) writeWebhooks(q *pgx.Batch) (woken int) {
	w := &b.webhooks
	if len(w.replaced) > 0 {
		var jobs columns
		for key, task := range w.replaced {
			jobs.add(nil, []byte(task), []byte(key.id))
		}
		jobs.queue(q, deletePushJobs)
	}
	var puts, counts columns
	for _, key := range slices.SortedFunc(maps.Keys(w.puts), func(x, y hookKey) int {
		return cmp.Or(cmp.Compare(x.task, y.task), strings.Compare(x.id, y.id))
	}) {
		h := w.puts[key]
		puts.add([]int64{h.TaskKey, record.Milliseconds(h.Created), h.Seq}, []byte(h.ID), []byte(h.URL), []byte(h.Scheme), h.Secrets, []byte(h.Version))
	}
	puts.queue(q, putWebhooks)
	for key, n := range w.counts {
		counts.add([]int64{key, int64(n)})
	}
	counts.queue(q, countWebhooks)
	if len(w.wake) == 0 {
		return -1
	}
	var wake columns
	for key, id := range w.wake {
		wake.add([]int64{key}, []byte(id))
	}
	woken = q.Len()
	wake.queue(q, wakeWebhooks)
	return woken
}
