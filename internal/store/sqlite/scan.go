package sqlite

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// Scan returns rows of tasks in the order of their status.
func (s *Store) Scan(ctx context.Context, scope store.Scope, q store.ScanQuery) (*store.ScanPage, error) {
	page := &store.ScanPage{}
	if q.Limit <= 0 {
		return page, nil
	}
	err := s.snapshot(ctx, func(c *conn) error {
		low, high, err := revisions(c, &q)
		if err != nil || low > high {
			return err
		}
		realms, err := scanned(ctx, c, scope, &q)
		if err != nil {
			return err
		}
		var entries []entry
		if realms == nil {
			entries, err = scanAll(ctx, c, &q, low, high)
		} else {
			entries, err = scanRealms(ctx, c, &q, realms, low, high)
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			var t record.Row
			if _, err := c.one(func(v values) { t = scanTask(v) },
				"SELECT "+taskColumns+" FROM tasks t CROSS JOIN realms r ON r.id = t.realm WHERE t.key = ?", e.key); err != nil {
				return err
			}
			page.Looked++
			page.Reached = t.StatusAt
			if scope.Includes(t.Tenant, t.Owner) && q.Has(&t.Task) {
				page.Tasks, page.Positions = append(page.Tasks, t.Task), append(page.Positions, e.position)
			}
		}
		if len(entries) == q.Limit {
			page.Next = entries[len(entries)-1].position
		}
		return nil
	})
	if err != nil {
		return nil, unavailable(err)
	}
	return page, nil
}

// revisions returns the bounds of the revisions of the statuses of a scan.
func revisions(c *conn, q *store.ScanQuery) (low, high int64, err error) {
	high = math.MaxInt64
	if !q.Since.IsZero() {
		if low, err = firstSince(c, q.Since); err != nil {
			return 0, 0, err
		}
	}
	if !q.Until.IsZero() {
		if high, err = firstSince(c, q.Until); err != nil {
			return 0, 0, err
		}
		high--
	}
	switch {
	case q.After == 0:
	case q.Oldest:
		low = max(low, q.After+1)
	default:
		high = min(high, q.After-1)
	}
	return low, high, nil
}

// scanned returns the realms of a scan that have tasks, nil when it is over all
// there is, or they are too many to be read one by one.
func scanned(ctx context.Context, c *conn, scope store.Scope, q *store.ScanQuery) ([]int64, error) {
	if scope.All() && q.Any() {
		return nil, nil
	}
	where, args := within(scope)
	if q.Agent != "" {
		where, args = where+" AND r.agent = ?", append(args, q.Agent)
	}
	if q.Owner != "" {
		where, args = where+" AND r.owner = ?", append(args, q.Owner)
	}
	realms := []int64{}
	err := c.each(ctx, func(v values) bool {
		realms = append(realms, integer(v[0]))
		return true
	}, "SELECT r.id FROM realms r WHERE "+where+" AND EXISTS (SELECT 1 FROM totals o WHERE o.realm = r.id) LIMIT ?", append(args, int64(maxMerged+1))...)
	if len(realms) > maxMerged {
		realms = nil
	}
	return realms, err
}

func scanOrder(q *store.ScanQuery) string {
	if q.Oldest {
		return " ORDER BY 1 LIMIT ?"
	}
	return " ORDER BY 1 DESC LIMIT ?"
}

// scanAll reads the index over all tasks, whoever they belong to.
func scanAll(ctx context.Context, c *conn, q *store.ScanQuery, low, high int64) (entries []entry, err error) {
	err = c.each(ctx, func(v values) bool {
		entries = append(entries, entry{position: integer(v[0]), key: integer(v[1])})
		return true
	}, "SELECT t.rev, t.key FROM tasks t WHERE t.rev BETWEEN ? AND ?"+scanOrder(q), low, high, int64(q.Limit))
	return entries, err
}

// scanRealms merges the ranges of the states of each realm, which lie in order in
// an index.
func scanRealms(ctx context.Context, c *conn, q *store.ScanQuery, realms []int64, low, high int64) (entries []entry, err error) {
	for _, realm := range realms {
		var text strings.Builder
		var args []any
		for state := a2a.StateSubmitted; state <= a2a.StateAuthRequired; state++ {
			if q.States != 0 && !q.States.Has(state) {
				continue
			}
			if text.Len() > 0 {
				text.WriteString(" UNION ALL ")
			}
			text.WriteString("SELECT t.rev, t.key FROM tasks t WHERE t.realm = ?")
			args = append(args, realm)
			if q.Context != "" {
				text.WriteString(" AND t.context = ?")
				args = append(args, q.Context)
			}
			text.WriteString(" AND t.state = " + strconv.Itoa(int(state)) + " AND t.rev BETWEEN ? AND ?")
			args = append(args, low, high)
		}
		if text.Len() == 0 {
			return nil, nil
		}
		if err := c.each(ctx, func(v values) bool {
			entries = append(entries, entry{position: integer(v[0]), key: integer(v[1])})
			return true
		}, text.String()+scanOrder(q), append(args, int64(q.Limit))...); err != nil {
			return nil, err
		}
		slices.SortFunc(entries, func(a, b entry) int {
			if q.Oldest {
				return cmp.Compare(a.position, b.position)
			}
			return cmp.Compare(b.position, a.position)
		})
		if len(entries) < q.Limit {
			continue
		}
		// What lies behind these is not looked for in the other realms.
		entries = entries[:q.Limit]
		if last := entries[q.Limit-1].position; q.Oldest {
			high = last
		} else {
			low = last
		}
	}
	return entries, nil
}

// Counts counts the tasks of a scope by agent and state.
func (s *Store) Counts(ctx context.Context, scope store.Scope) ([]store.Stat, error) {
	where, args := within(scope)
	var stats []store.Stat
	err := s.read(ctx, func(c *conn) error {
		return unavailable(c.each(ctx, func(v values) bool {
			stat := store.Stat{Agent: text(v[0]), State: a2a.TaskState(integer(v[1])), Count: int(integer(v[2]))}
			if !stat.State.Terminal() {
				stat.Oldest = moment(v[3])
			}
			stats = append(stats, stat)
			return true
		}, `SELECT r.agent, o.state, sum(o.n), min(CASE WHEN o.state NOT IN (3, 4, 5, 7) THEN
  (SELECT t.status_at FROM tasks t WHERE t.realm = o.realm AND t.state = o.state ORDER BY t.rev LIMIT 1) END)
 FROM realms r CROSS JOIN totals o ON o.realm = r.id WHERE `+where+` GROUP BY r.agent, o.state ORDER BY r.agent, o.state`, args...))
	})
	return stats, err
}

// AllWebhooks returns webhooks of the newest task first, or the longest failing
// first.
func (s *Store) AllWebhooks(ctx context.Context, scope store.Scope, q store.WebhookQuery) ([]store.Webhook, error) {
	condition, args := within(scope)
	order := "w.task DESC, w.id DESC"
	if q.Failing {
		condition += " AND w.failing > 0 AND w.dead = 0"
		order = "w.failing, w.task, w.id"
	}
	switch {
	case q.After == nil:
	case q.Failing:
		condition += " AND (w.failing, w.task, w.id) > (?, ?, ?)"
		args = append(args, record.Milliseconds(q.After.Failing), q.After.TaskKey, q.After.ID)
	default:
		condition += " AND (w.task, w.id) < (?, ?)"
		args = append(args, q.After.TaskKey, q.After.ID)
	}
	var hooks []store.Webhook
	err := s.read(ctx, func(c *conn) error {
		return unavailable(c.each(ctx, func(v values) bool {
			hook := scanWebhook(v)
			hook.Next = moment(v[18])
			hooks = append(hooks, hook)
			return true
		}, "SELECT "+webhookColumns+", (SELECT j.due FROM jobs j WHERE j.task = t.id AND j.kind = 'push' AND j.key = w.id)"+webhookTables+
			" WHERE "+condition+" ORDER BY "+order+" LIMIT ?", append(args, int64(q.Limit))...))
	})
	return hooks, err
}
