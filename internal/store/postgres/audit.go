package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

var auditColumnsCopied = []string{"at", "subject", "task", "body"}

const auditColumns = "id, at, subject, task, body"

func auditValues(r *store.AuditRow) []any {
	return []any{record.Milliseconds(r.At), []byte(r.Subject), []byte(r.Task), notNil(r.Body)}
}

// auditScanner takes rows of the audit log.
type auditScanner struct {
	id, at              int64
	subject, task, body []byte
}

func (s *auditScanner) targets() []any { return []any{&s.id, &s.at, &s.subject, &s.task, &s.body} }

func (s *auditScanner) take() store.AuditRow {
	return store.AuditRow{ID: s.id, At: record.Time(s.at), Subject: string(s.subject), Task: string(s.task), Body: append([]byte{}, s.body...)}
}

// AppendAudit adds rows to the audit log. Nodes take turns, so that ids become
// visible in their order.
func (s *Store) AppendAudit(ctx context.Context, rows []store.AuditRow) error {
	var c columns
	for i := range rows {
		r := &rows[i]
		c.add([]int64{record.Milliseconds(r.At)}, []byte(r.Subject), []byte(r.Task), notNil(r.Body))
	}
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var q pgx.Batch
		q.Queue("SELECT pg_advisory_xact_lock('audit'::regclass::oid::integer, 0)")
		c.queue(&q, "INSERT INTO audit ("+strings.Join(auditColumnsCopied, ", ")+") SELECT * FROM "+unnest(1, 3))
		return tx.SendBatch(ctx, &q).Close()
	})
}

// Audit returns rows of the audit log in the order of their ids, or the newest
// first.
func (s *Store) Audit(ctx context.Context, q store.AuditQuery) ([]store.AuditRow, error) {
	var list []store.AuditRow
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		list = nil
		var args arguments
		// What is too old and too new is passed over by ids, without being read.
		first, last := int64(0), int64(0)
		err := c.QueryRow(ctx, `SELECT coalesce((SELECT id FROM audit WHERE at < $1 ORDER BY at DESC LIMIT 1), 0),
 coalesce((SELECT id FROM audit WHERE at > $2 ORDER BY at LIMIT 1), 0)`,
			before(q.Since, -store.AuditSlack, 0), before(q.Until, store.AuditSlack, 1<<62)).Scan(&first, &last)
		if err != nil {
			return err
		}
		query := "SELECT " + auditColumns + " FROM audit WHERE id > " + args.add(max(first, q.After))
		if last > 0 {
			query += " AND id < " + args.add(last)
		}
		if !q.Since.IsZero() {
			query += " AND at + 0 >= " + args.add(record.Milliseconds(q.Since))
		}
		if !q.Until.IsZero() {
			query += " AND at + 0 < " + args.add(record.Milliseconds(q.Until))
		}
		if q.Subject != nil {
			query += " AND subject = " + args.add([]byte(*q.Subject))
		}
		if q.Task != "" {
			query += " AND task > '' AND task = " + args.add([]byte(q.Task))
		}
		if q.Before > 0 {
			query += " AND id < " + args.add(q.Before)
		}
		query += " ORDER BY id"
		if q.Newest {
			query += " DESC"
		}
		rows, err := c.Query(ctx, query+" LIMIT "+args.add(q.Limit), args...)
		if err != nil {
			return err
		}
		var row auditScanner
		_, err = pgx.ForEachRow(rows, row.targets(), func() error {
			list = append(list, row.take())
			return nil
		})
		return err
	})
	return list, err
}

// before returns the milliseconds of a time that is moved, or those of none.
func before(t time.Time, by time.Duration, none int64) int64 {
	if t.IsZero() {
		return none
	}
	return record.Milliseconds(t.Add(by))
}

// ExpireAudit removes rows from before a time. Several nodes may do it at once.
func (s *Store) ExpireAudit(ctx context.Context, before time.Time, limit int) (int, error) {
	return portions(limit, func(limit int) (n int, err error) {
		err = s.try(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
			tag, err := c.Exec(ctx, `DELETE FROM audit WHERE id = ANY(ARRAY(
  SELECT id FROM audit WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))`, record.Milliseconds(before), limit)
			n = int(tag.RowsAffected())
			return err
		})
		return n, unavailable(err)
	})
}

// Load counts the tasks of a caller by their state.
func (s *Store) Load(ctx context.Context, tenant, owner, agent string) (map[a2a.TaskState]int, error) {
	load := map[a2a.TaskState]int{}
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		clear(load)
		var args arguments
		query := `SELECT x.state::bigint, sum(x.n)::bigint FROM realms r CROSS JOIN LATERAL (
  SELECT state, n FROM totals WHERE realm = r.id UNION ALL SELECT state, n FROM total_deltas WHERE realm = r.id
) x WHERE r.tenant = ` + args.add([]byte(tenant)) + " AND r.owner = " + args.add([]byte(owner))
		if agent != "" {
			query += " AND r.agent = " + args.add([]byte(agent))
		}
		rows, err := c.Query(ctx, query+" GROUP BY x.state", args...)
		if err != nil {
			return err
		}
		var state, n int64
		_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error {
			if n != 0 {
				load[a2a.TaskState(state)] = int(n)
			}
			return nil
		})
		return err
	})
	return load, err
}
