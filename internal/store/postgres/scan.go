package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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
	low, high := revisions(&q)
	if low > high {
		return page, nil
	}
	var rows []*record.Row
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		realms, err := scanned(ctx, c, scope, &q)
		if err != nil {
			return err
		}
		var args arguments
		query := scanQuery(&args, &q, realms, low, high)
		rows, err = collectTasks(c.Query(ctx, query, args...))
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		page.Looked++
		page.Reached = row.StatusAt
		if scope.Includes(row.Tenant, row.Owner) && q.Has(&row.Task) {
			page.Tasks, page.Positions = append(page.Tasks, row.Task), append(page.Positions, row.Rev)
		}
	}
	if len(rows) == q.Limit {
		page.Next = rows[len(rows)-1].Rev
	}
	return page, nil
}

// revisions returns the bounds of the revisions of the statuses of a scan.
func revisions(q *store.ScanQuery) (low, high int64) {
	low, high = firstSince(q.Since), math.MaxInt64
	if !q.Until.IsZero() {
		high = firstSince(q.Until) - 1
	}
	switch {
	case q.After == 0:
	case q.Oldest:
		low = max(low, q.After+1)
	default:
		high = min(high, q.After-1)
	}
	return low, high
}

// scanned returns the realms of a scan that have tasks, nil when it is over all
// there is, or they are too many to be read one by one.
func scanned(ctx context.Context, db session, scope store.Scope, q *store.ScanQuery) ([]int64, error) {
	if scope.All() && q.Any() {
		return nil, nil
	}
	var args arguments
	where := within(scope, &args)
	if q.Agent != "" {
		where += " AND r.agent = " + args.add([]byte(q.Agent))
	}
	if q.Owner != "" {
		where += " AND r.owner = " + args.add([]byte(q.Owner))
	}
	rows, err := db.Query(ctx, `SELECT r.id FROM realms r CROSS JOIN LATERAL ((SELECT 1 FROM totals x WHERE x.realm = r.id LIMIT 1) UNION ALL
 (SELECT 1 FROM total_deltas x WHERE x.realm = r.id LIMIT 1) LIMIT 1) counted WHERE `+where+" LIMIT "+args.add(maxMerged+1), args...)
	if err != nil {
		return nil, err
	}
	realms, err := pgx.AppendRows([]int64{}, rows, pgx.RowTo[int64])
	if len(realms) > maxMerged {
		realms = nil
	}
	return realms, err
}

// scanQuery returns the query of a scan. Over few realms it merges the ranges of
// the states in each, which lie in order in an index; otherwise it reads the index
// over all tasks, whoever they belong to.
func scanQuery(args *arguments, q *store.ScanQuery, realms []int64, low, high int64) string {
	limit := args.add(q.Limit)
	bounds := " BETWEEN " + args.add(low) + " AND " + args.add(high)
	way := " DESC"
	if q.Oldest {
		way = ""
	}
	found := "SELECT t.key, t.rev FROM tasks t WHERE (t.rev + 0)" + bounds + " ORDER BY (t.rev + 0)" + way + " LIMIT " + limit
	if realms != nil {
		states := []int64{}
		for state := a2a.StateSubmitted; state <= a2a.StateAuthRequired; state++ {
			if q.States == 0 || q.States.Has(state) {
				states = append(states, int64(state))
			}
		}
		in := ""
		if q.Context != "" {
			in = " AND t.context = " + args.add([]byte(q.Context))
		}
		found = "SELECT p.key, p.rev FROM unnest(" + args.add(realms) + "::integer[]) AS o(realm), unnest(" + args.add(states) + `::smallint[]) AS s(state)
 CROSS JOIN LATERAL (SELECT t.key, t.rev FROM tasks t WHERE t.realm = o.realm AND t.state = s.state` + in + " AND t.rev" + bounds + " ORDER BY t.rev" + way + " LIMIT " + limit + `) p
 ORDER BY p.rev` + way + " LIMIT " + limit
	}
	return "SELECT " + taskColumns + " FROM (" + found + `) f CROSS JOIN LATERAL (SELECT * FROM tasks x WHERE x.key = f.key LIMIT 1) t
 CROSS JOIN LATERAL (SELECT * FROM realms y WHERE y.id = t.realm LIMIT 1) r ORDER BY f.rev` + way
}

// Counts counts the tasks of a scope by agent and state.
func (s *Store) Counts(ctx context.Context, scope store.Scope) ([]store.Stat, error) {
	var stats []store.Stat
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		stats = nil
		var args arguments
		where := within(scope, &args)
		rows, err := c.Query(ctx, `WITH counted AS MATERIALIZED (
  SELECT r.id, r.agent, x.state, sum(x.n)::bigint AS n FROM realms r CROSS JOIN LATERAL (
    SELECT state, n FROM totals WHERE realm = r.id UNION ALL SELECT state, n FROM total_deltas WHERE realm = r.id) x
  WHERE `+where+` GROUP BY r.id, r.agent, x.state HAVING sum(x.n) > 0
) SELECT o.agent, o.state, sum(o.n)::bigint,
  coalesce(min(CASE WHEN o.state NOT IN (3, 4, 5, 7) THEN (SELECT t.rev FROM tasks t WHERE t.realm = o.id AND t.state = o.state ORDER BY t.rev LIMIT 1) END), 0)
 FROM counted o GROUP BY o.agent, o.state ORDER BY o.agent, o.state`, args...)
		if err != nil {
			return err
		}
		var agent []byte
		var state int16
		var oldest int64
		var stat store.Stat
		_, err = pgx.ForEachRow(rows, []any{&agent, &state, &stat.Count, &oldest}, func() error {
			stat.Agent, stat.State = string(agent), a2a.TaskState(state)
			if stat.Oldest = (store.Stat{}).Oldest; oldest != 0 {
				stat.Oldest = timeOf(oldest)
			}
			stats = append(stats, stat)
			return nil
		})
		return err
	})
	return stats, err
}

// AllWebhooks returns webhooks of the newest task first, or the longest failing
// first.
func (s *Store) AllWebhooks(ctx context.Context, scope store.Scope, q store.WebhookQuery) ([]store.Webhook, error) {
	var args arguments
	condition := within(scope, &args)
	order := "w.task DESC, w.id DESC"
	if q.Failing {
		condition += " AND w.failing > 0 AND w.dead = 0"
		order = "w.failing, w.task, w.id"
	}
	switch {
	case q.After == nil:
	case q.Failing:
		condition += " AND (w.failing, w.task, w.id) > (" + args.add(record.Milliseconds(q.After.Failing)) + ", " + args.add(q.After.TaskKey) + ", " + args.add([]byte(q.After.ID)) + ")"
	default:
		condition += " AND (w.task, w.id) < (" + args.add(q.After.TaskKey) + ", " + args.add([]byte(q.After.ID)) + ")"
	}
	query := "SELECT " + webhookColumns + ", coalesce((SELECT j.due FROM jobs j WHERE j.task = t.id AND j.kind = 'push' AND j.key = w.id LIMIT 1), 0)" + webhookTables +
		" WHERE " + condition + " ORDER BY " + order + " LIMIT " + args.add(q.Limit)
	var hooks []store.Webhook
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		hooks = nil
		rows, err := c.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		var w webhookScanner
		var due int64
		_, err = pgx.ForEachRow(rows, append(w.targets(), &due), func() error {
			hook := w.take()
			hook.Next = record.Time(due)
			hooks = append(hooks, hook)
			return nil
		})
		return err
	})
	return hooks, err
}
