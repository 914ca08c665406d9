package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// Import fills an empty store with what fill puts, in one transaction: when it
// fails, the store is as empty as before. See record.Portion. A store that is
// not empty is record.ErrNotEmpty, one that a node uses record.ErrInUse; no
// node can join meanwhile. Before it commits, check is told what the store has,
// counted anew.
func (s *Store) Import(ctx context.Context, fill func(put func(*record.Portion) error) error, check func(record.Counts) error) error {
	return s.move(ctx, pgx.ReadCommitted, func(tx pgx.Tx) error {
		m := &importer{ctx: ctx, tx: tx, revisions: record.Revisions{Next: nextRevision}}
		if err := m.begin(); err != nil {
			return err
		}
		if err := fill(m.put); err != nil {
			return err
		}
		counts, err := m.end()
		if err != nil {
			return err
		}
		return check(counts)
	})
}

// nextRevision returns the revision of a status that follows one, at a time.
func nextRevision(last int64, at time.Time) int64 { return max(last+1, revisionAt(at.UnixMilli())) }

type importer struct {
	ctx       context.Context
	tx        pgx.Tx
	realms    realmIDs
	revisions record.Revisions
	heads     record.Heads
}

// begin locks the tables and sees that they are empty.
func (m *importer) begin() error {
	if err := lockUnused(m.ctx, m.tx, "nodes, tasks, events, claims, grants, jobs, webhooks, api_keys, audit, delegations, inbox, inbox_history, peers, docs, counters", "SHARE ROW EXCLUSIVE"); err != nil {
		return err
	}
	var some bool
	err := m.tx.QueryRow(m.ctx, `SELECT EXISTS (SELECT 1 FROM tasks) OR EXISTS (SELECT 1 FROM events) OR
 EXISTS (SELECT 1 FROM claims) OR EXISTS (SELECT 1 FROM grants) OR EXISTS (SELECT 1 FROM jobs) OR EXISTS (SELECT 1 FROM api_keys)
 OR EXISTS (SELECT 1 FROM audit) OR EXISTS (SELECT 1 FROM inbox) OR EXISTS (SELECT 1 FROM peers) OR EXISTS (SELECT 1 FROM docs)`).Scan(&some)
	if err != nil {
		return unavailable(err)
	}
	if some {
		return record.ErrNotEmpty
	}
	return nil
}

func (m *importer) put(p *record.Portion) error {
	if err := m.revisions.Give(p); err != nil {
		return err
	}
	if p.Heads != nil {
		m.heads = *p.Heads
	}
	realms, err := m.realmsOf(p)
	if err != nil {
		return unavailable(fmt.Errorf("write realms: %w", err))
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		t.Realm = realms[realm{t.Tenant, t.Owner, t.Agent}]
	}
	for _, table := range []rows{
		{"tasks", taskColumnsCopied, len(p.Tasks), func(i int) []any { return taskValues(&p.Tasks[i]) }},
		{"events", []string{"task", "rev", "seq", "prev_status", "prev_artifact", "prev_message", "mark", "body"}, len(p.Events), func(i int) []any {
			e := &p.Events[i]
			l := &e.Links
			return []any{e.Task, l.Rev, e.Seq, l.StatusRow, l.ArtifactRow, l.MessageRow, l.Mark, notNil(e.Body)}
		}},
		{"private", []string{"task", "state"}, len(p.Private), func(i int) []any {
			return []any{p.Private[i].Task, notNil(p.Private[i].State)}
		}},
		{"results", []string{"task", "key", "value"}, len(p.Results), func(i int) []any {
			r := &p.Results[i]
			return []any{r.Task, []byte(r.Key), notNil(r.Value)}
		}},
		{"claims", []string{"lease", "expires", "realm", "key", "hash", "task", "reply"}, len(p.Claims), func(i int) []any {
			c := &p.Claims[i]
			return []any{c.Lease, record.Milliseconds(c.Expires), realms[realmOfClaim(c)], []byte(c.Key), c.Hash, []byte(c.Task), c.Reply}
		}},
		{"grants", grantColumnsCopied, len(p.Grants), func(i int) []any { return grantValues(&p.Grants[i]) }},
		{"webhooks", webhookColumnsCopied, len(p.Webhooks), func(i int) []any { return webhookValues(&p.Webhooks[i]) }},
		{"jobs", []string{"id", "due", "turn", "attempt", "kind", "task", "key"}, len(p.Jobs), func(i int) []any {
			j := &p.Jobs[i]
			return []any{j.ID, record.Milliseconds(j.Due), j.Turn, j.Attempt, []byte(j.Kind), []byte(j.Task), []byte(j.Key)}
		}},
		{"api_keys", apiKeyColumnsCopied, len(p.Keys), func(i int) []any { return apiKeyValues(&p.Keys[i]) }},
		{"delegations", delegationColumnsCopied, len(p.Delegations), func(i int) []any { return delegationValues(&p.Delegations[i]) }},
		{"inbox", itemColumnsCopied, len(p.Inbox), func(i int) []any { return itemValues(&p.Inbox[i]) }},
		{"inbox_history", []string{"item", "at", "doer", "what", "words"}, len(p.Entries), func(i int) []any {
			e := &p.Entries[i]
			return []any{[]byte(e.Item), record.Milliseconds(e.At), []byte(e.By), []byte(e.What), []byte(e.Words)}
		}},
		{"peers", peerColumnsCopied, len(p.Peers), func(i int) []any { return peerValues(&p.Peers[i], p.Peers[i].Version) }},
		{"docs", docColumnsCopied, len(p.Docs), func(i int) []any { return docValues(&p.Docs[i], p.Docs[i].Version) }},
		{"counters", []string{"space", "key", "used", "expires"}, len(p.Counters), func(i int) []any {
			c := &p.Counters[i]
			return []any{[]byte(c.Space), []byte(c.Key), c.Used, record.Milliseconds(c.Expires)}
		}},
		{"audit", auditColumnsCopied, len(p.Audit), func(i int) []any { return auditValues(&p.Audit[i]) }},
	} {
		if err := m.copy(table); err != nil {
			return err
		}
	}
	return nil
}

var (
	taskColumnsCopied = []string{
		"key", "rev", "lease", "created", "expires", "realm", "seq", "status_row", "artifact_row", "message_row",
		"turn", "attempt", "done", "messages", "read", "since", "state", "wait", "id", "context", "meta",
	}
	grantColumnsCopied = []string{
		"turn", "created", "expires", "decided", "approved",
		"id", "task", "operation", "text", "url", "note", "data", "decider",
	}
)

func taskValues(t *record.Row) []any {
	return []any{
		t.Key, t.Rev, t.Lease, record.Milliseconds(t.Created), record.Milliseconds(t.Expires), t.Realm, t.Seq, t.StatusRow, t.ArtifactRow, t.MessageRow,
		t.Turn, t.Attempt, t.Done, t.Messages, t.Read, t.Since, int64(t.State), int64(t.Wait), []byte(t.ID), []byte(t.Context), t.Meta,
	}
}

func grantValues(g *store.Grant) []any {
	var approved int64
	if g.Approved {
		approved = 1
	}
	return []any{
		g.Turn, record.Milliseconds(g.Created), record.Milliseconds(g.Expires), record.Milliseconds(g.Decided), approved,
		[]byte(g.ID), []byte(g.Task), []byte(g.Operation), []byte(g.Text), []byte(g.URL), []byte(g.Note), g.Data, []byte(g.By),
	}
}

// realmsOf returns the numbers of the realms in a portion.
func (m *importer) realmsOf(p *record.Portion) (map[realm]int64, error) {
	var all []realm
	for i := range p.Tasks {
		t := &p.Tasks[i]
		all = append(all, realm{t.Tenant, t.Owner, t.Agent})
	}
	for i := range p.Claims {
		all = append(all, realmOfClaim(&p.Claims[i]))
	}
	return m.realms.find(m.ctx, m.tx.Conn(), all)
}

// rows are those of a portion for one table.
type rows struct {
	table   string
	columns []string
	n       int
	row     func(i int) []any
}

func (m *importer) copy(r rows) error {
	if r.n == 0 {
		return nil
	}
	source := pgx.CopyFromSlice(r.n, func(i int) ([]any, error) { return r.row(i), nil })
	if _, err := m.tx.CopyFrom(m.ctx, pgx.Identifier{r.table}, r.columns, source); err != nil {
		return unavailable(fmt.Errorf("write %s: %w", r.table, err))
	}
	return nil
}

// countOn are the statements that set the counters behind what was written and
// make the totals.
var countOn = []string{
	"SELECT setval('task_keys', greatest((SELECT max(key) FROM tasks), (SELECT last_value FROM task_keys), $1::bigint))",
	"SELECT setval('job_ids', greatest((SELECT max(id) FROM jobs), (SELECT last_value FROM job_ids), $1::bigint))",
	"SELECT setval('epochs', greatest((SELECT last_value FROM epochs), $1::bigint))",
	"SELECT setval('revisions', greatest((SELECT last_value FROM revisions), $1::bigint))",
}

var countUp = []string{
	"DELETE FROM nodes", // which are dead
	"DELETE FROM totals",
	"DELETE FROM total_deltas",
	"DELETE FROM context_totals",
	"DELETE FROM context_deltas",
	"UPDATE tasks t SET webhooks = w.n FROM (SELECT task, count(*) AS n FROM webhooks GROUP BY task) w WHERE t.key = w.task",
	"UPDATE tasks t SET delegated = 1 FROM delegations d WHERE t.key = d.task",
	"INSERT INTO totals (realm, state, n) SELECT realm, state, count(*) FROM tasks GROUP BY realm, state",
	"INSERT INTO context_totals (context, realm, state, n) SELECT context, realm, state, count(*) FROM tasks GROUP BY context, realm, state",
	"ANALYZE realms, tasks, events, totals, context_totals, private, results, claims, grants, jobs, webhooks, api_keys, audit, delegations, inbox, inbox_history, peers, docs, counters",
}

// end makes the totals, sets the counters behind what was written, and checks
// it.
func (m *importer) end() (counts record.Counts, err error) {
	// A unit of the clock is never half given away.
	last := max(m.revisions.Last, revisionAt(record.Milliseconds(m.heads.At))) | (maxBatch - 1)
	for i, head := range []int64{m.heads.Task, m.heads.Job, m.heads.Epoch, last} {
		if _, err := m.tx.Exec(m.ctx, countOn[i], max(head, 1)); err != nil {
			return counts, unavailable(fmt.Errorf("set counters: %w", err))
		}
	}
	for _, statement := range countUp {
		if _, err := m.tx.Exec(m.ctx, statement); err != nil {
			return counts, unavailable(fmt.Errorf("make totals: %w", err))
		}
	}
	err = m.tx.QueryRow(m.ctx, `SELECT (SELECT count(*) FROM tasks), (SELECT count(*) FROM events), (SELECT count(*) FROM private), (SELECT count(*) FROM results),
 (SELECT count(*) FROM claims), (SELECT count(*) FROM grants), (SELECT count(*) FROM jobs), (SELECT count(*) FROM webhooks), (SELECT count(*) FROM api_keys), (SELECT count(*) FROM audit),
 (SELECT count(*) FROM delegations), (SELECT count(*) FROM inbox), (SELECT count(*) FROM inbox_history), (SELECT count(*) FROM peers),
 (SELECT count(*) FROM docs), (SELECT count(*) FROM counters)`).
		Scan(&counts.Tasks, &counts.Events, &counts.Private, &counts.Results, &counts.Claims, &counts.Grants, &counts.Jobs, &counts.Webhooks, &counts.Keys, &counts.Audit,
			&counts.Delegations, &counts.Inbox, &counts.Entries, &counts.Peers, &counts.Docs, &counts.Counters)
	if err != nil {
		return counts, unavailable(fmt.Errorf("count rows: %w", err))
	}
	var bad []byte
	err = m.tx.QueryRow(m.ctx, `SELECT t.id FROM tasks t WHERE t.seq <> coalesce(
 (SELECT e.seq FROM events e WHERE e.task = t.key ORDER BY e.seq DESC LIMIT 1), 0) LIMIT 1`).Scan(&bad)
	switch {
	case err == nil:
		return counts, fmt.Errorf("the last events of task %s are missing: %w", bad, record.ErrDamaged)
	case !errors.Is(err, pgx.ErrNoRows):
		return counts, unavailable(fmt.Errorf("check events: %w", err))
	}
	return counts, nil
}
