package sqlite

import (
	"context"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

const auditColumns = "id, at, subject, task, body"

func scanAudit(v values) store.AuditRow {
	return store.AuditRow{ID: integer(v[0]), At: moment(v[1]), Subject: text(v[2]), Task: text(v[3]), Body: notNil(blob(v[4]))}
}

// auditAtOnce is how many rows one statement adds: what it costs to go on with the
// ids is paid for a statement, not for a row.
const auditAtOnce = 32

const insertAudit = "INSERT INTO audit (at, subject, task, body) VALUES (?,?,?,?)"

var insertAudits = insertAudit + strings.Repeat(",(?,?,?,?)", auditAtOnce-1)

// audit adds rows to the audit log.
func (w *writer) audit(rows []store.AuditRow) error {
	args := make([]any, 0, 4*min(len(rows), auditAtOnce))
	for len(rows) > 0 {
		text, n := insertAudit, 1
		if len(rows) >= auditAtOnce {
			text, n = insertAudits, auditAtOnce
		}
		args = args[:0]
		for i := range rows[:n] {
			r := &rows[i]
			args = append(args, record.Milliseconds(r.At), r.Subject, r.Task, r.Body)
		}
		if _, err := w.conn.run(text, args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// AppendAudit adds rows to the audit log.
func (s *Store) AppendAudit(ctx context.Context, rows []store.AuditRow) error {
	return s.write(ctx, func(w *writer, _ time.Time) error { return w.audit(rows) })
}

// Audit returns rows of the audit log in the order of their ids, or the newest
// first.
func (s *Store) Audit(ctx context.Context, q store.AuditQuery) ([]store.AuditRow, error) {
	var list []store.AuditRow
	err := s.read(ctx, func(c *conn) error {
		query, args := "SELECT "+auditColumns+" FROM audit WHERE id > ?", []any{q.After}
		add := func(condition string, v any) { query, args = query+" AND "+condition, append(args, v) }
		// What is too old and too new is passed over by ids, without being read.
		if !q.Since.IsZero() {
			first, err := c.number(ctx, "SELECT id FROM audit WHERE at < ? ORDER BY at DESC LIMIT 1", record.Milliseconds(q.Since.Add(-store.AuditSlack)))
			if err != nil {
				return unavailable(err)
			}
			args[0] = max(first, q.After)
			add("+at >= ?", record.Milliseconds(q.Since))
		}
		if !q.Until.IsZero() {
			last, err := c.number(ctx, "SELECT id FROM audit WHERE at > ? ORDER BY at LIMIT 1", record.Milliseconds(q.Until.Add(store.AuditSlack)))
			if err != nil {
				return unavailable(err)
			}
			if last > 0 {
				add("id < ?", last)
			}
			add("+at < ?", record.Milliseconds(q.Until))
		}
		if q.Subject != nil {
			add("subject = ?", *q.Subject)
		}
		if q.Task != "" {
			add("task > '' AND task = ?", q.Task)
		}
		if q.Before > 0 {
			add("id < ?", q.Before)
		}
		order := " ORDER BY id"
		if q.Newest {
			order += " DESC"
		}
		return unavailable(c.each(ctx, func(v values) bool {
			list = append(list, scanAudit(v))
			return true
		}, query+order+" LIMIT ?", append(args, int64(q.Limit))...))
	})
	return list, err
}

// ExpireAudit removes rows from before a time.
func (s *Store) ExpireAudit(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.expire(ctx, limit, func(w *writer, _ time.Time, limit int) (int, error) {
		n, err := w.conn.run("DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ? ORDER BY at LIMIT ?)", record.Milliseconds(before), int64(limit))
		return int(n), err
	})
}

// Load counts the tasks of a caller by their state.
func (s *Store) Load(ctx context.Context, tenant, owner, agent string) (map[a2a.TaskState]int, error) {
	load := map[a2a.TaskState]int{}
	err := s.read(ctx, func(c *conn) error {
		query, args := "SELECT o.state, o.n FROM realms r CROSS JOIN totals o ON o.realm = r.id WHERE r.tenant = ? AND r.owner = ?", []any{tenant, owner}
		if agent != "" {
			query, args = query+" AND r.agent = ?", append(args, agent)
		}
		return unavailable(c.each(ctx, func(v values) bool {
			load[a2a.TaskState(integer(v[0]))] += int(integer(v[1]))
			return true
		}, query, args...))
	})
	return load, err
}
