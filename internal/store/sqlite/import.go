package sqlite

import (
	"context"
	"fmt"
	"time"

	"handoff.example/handoff/internal/store/record"
)

// Import fills an empty store with what fill puts, in one transaction: when it
// fails, the store is as empty as before. See record.Portion. A store that is
// not empty is record.ErrNotEmpty. Before it commits, check is told what the
// store has, counted anew.
func (s *Store) Import(ctx context.Context, fill func(put func(*record.Portion) error) error, check func(record.Counts) error) error {
	var failed error
	err := s.write(ctx, func(w *writer, _ time.Time) error {
		m := &importer{w: w, revisions: record.Revisions{
			Last: max(w.clock.rev, 1), Next: func(last int64, _ time.Time) int64 { return last + 1 },
		}}
		if failed = m.begin(); failed == nil {
			failed = fill(m.put)
		}
		var counts record.Counts
		if failed == nil {
			counts, failed = m.end()
		}
		if failed == nil {
			failed = check(counts)
		}
		return failed
	})
	if failed != nil {
		return failed // as it is
	}
	return err
}

type importer struct {
	w         *writer
	revisions record.Revisions
}

// begin sees that the store is empty.
func (m *importer) begin() error {
	n, err := m.w.conn.number(context.Background(), `SELECT EXISTS (SELECT 1 FROM tasks) OR EXISTS (SELECT 1 FROM events) OR
 EXISTS (SELECT 1 FROM claims) OR EXISTS (SELECT 1 FROM grants) OR EXISTS (SELECT 1 FROM jobs) OR EXISTS (SELECT 1 FROM api_keys) OR
 EXISTS (SELECT 1 FROM audit) OR EXISTS (SELECT 1 FROM inbox) OR EXISTS (SELECT 1 FROM peers) OR EXISTS (SELECT 1 FROM docs)`)
	if err != nil {
		return unavailable(err)
	}
	if n != 0 {
		return record.ErrNotEmpty
	}
	return nil
}

func (m *importer) put(p *record.Portion) error {
	if err := m.revisions.Give(p); err != nil {
		return err
	}
	if h := p.Heads; h != nil {
		c := &m.w.clock
		c.at, c.key, c.job, c.epoch = max(c.at, record.Milliseconds(h.At)), max(c.key, h.Task), max(c.job, h.Job), max(c.epoch, h.Epoch)
	}
	for _, step := range []func(*record.Portion) error{m.tasks, m.events, m.beside, m.webhooks, m.claims, m.grants, m.jobs, m.keys, m.audit, m.delegations, m.inbox, m.peers, m.docs} {
		if err := step(p); err != nil {
			return err
		}
	}
	return m.failed("totals", m.w.counts.flush(m.w.conn)) // so that they do not pile up
}

// failed says what could not be written.
func (m *importer) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return unavailable(fmt.Errorf("write %s: %w", what, err))
}

func (m *importer) run(what, statement string, args ...any) error {
	_, err := m.w.conn.run(statement, args...)
	return m.failed(what, err)
}

func (m *importer) tasks(p *record.Portion) (err error) {
	for i := range p.Tasks {
		t := &p.Tasks[i]
		if t.Key > maxKey || t.Seq > maxSeq {
			return fmt.Errorf("task %s has key %d and %d events, which is more than a SQLite store can number", t.ID, t.Key, t.Seq)
		}
		if t.Realm, err = m.w.realmID(realm{t.Tenant, t.Owner, t.Agent}); err != nil {
			return m.failed("realms", err)
		}
		if err := m.run("tasks", insertTask, insertTaskArgs(t)...); err != nil {
			return err
		}
		m.w.counts.add(t.Realm, t.Context, t.State, 1)
	}
	return nil
}

func (m *importer) events(p *record.Portion) error {
	for i := range p.Events {
		e := &p.Events[i]
		l := &e.Links
		if err := m.run("events", insertEvents, rowID(e.Task, e.Seq), l.Rev, l.StatusRow, l.ArtifactRow, l.MessageRow, l.Mark, e.Body); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) beside(p *record.Portion) error {
	for _, v := range p.Private {
		if err := m.run("private state", "INSERT INTO private (task, state) VALUES (?,?)", v.Task, v.State); err != nil {
			return err
		}
	}
	for _, r := range p.Results {
		if err := m.run("results", "INSERT INTO results (task, key, value) VALUES (?,?,?)", r.Task, r.Key, r.Value); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) webhooks(p *record.Portion) error {
	for i := range p.Webhooks {
		w := &p.Webhooks[i]
		if err := m.run("webhooks", insertWebhook, insertWebhookArgs(w.TaskKey, w, w.Seq, w.Created)...); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) delegations(p *record.Portion) error {
	for i := range p.Delegations {
		if err := m.run("delegations", insertDelegation, insertDelegationArgs(&p.Delegations[i])...); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) inbox(p *record.Portion) error {
	for i := range p.Inbox {
		if err := m.run("the inbox", insertItem, insertItemArgs(&p.Inbox[i])...); err != nil {
			return err
		}
	}
	for i := range p.Entries {
		e := &p.Entries[i]
		if err := m.run("the history of the inbox", insertEntry, e.Item, record.Milliseconds(e.At), e.By, e.What, e.Words); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) docs(p *record.Portion) error {
	for i := range p.Docs {
		if err := m.run("documents", insertDoc, docArgs(&p.Docs[i], p.Docs[i].Version)...); err != nil {
			return err
		}
	}
	for i := range p.Counters {
		c := &p.Counters[i]
		if err := m.run("counters", "INSERT INTO counters (space, key, used, expires) VALUES (?,?,?,?)", c.Space, c.Key, c.Used, record.Milliseconds(c.Expires)); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) peers(p *record.Portion) error {
	for i := range p.Peers {
		if err := m.run("peers", insertPeer, peerArgs(&p.Peers[i], p.Peers[i].Version)...); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) claims(p *record.Portion) error {
	for i := range p.Claims {
		c := &p.Claims[i]
		r, err := m.w.realmID(realm{c.Tenant, c.Owner, c.Agent})
		if err != nil {
			return m.failed("realms", err)
		}
		if err := m.run("claims", "INSERT INTO claims (realm, key, hash, lease, task, reply, expires) VALUES (?,?,?,?,?,?,?)",
			r, c.Key, c.Hash, c.Lease, c.Task, c.Reply, record.Milliseconds(c.Expires)); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) grants(p *record.Portion) error {
	for i := range p.Grants {
		g := &p.Grants[i]
		var approved int64
		if g.Approved {
			approved = 1
		}
		if err := m.run("grants", `INSERT INTO grants (id, task, turn, operation, text, url, created, expires, decided, approved, note, data, decider)
 VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			g.ID, g.Task, int64(g.Turn), g.Operation, g.Text, g.URL, record.Milliseconds(g.Created), record.Milliseconds(g.Expires),
			record.Milliseconds(g.Decided), approved, g.Note, g.Data, g.By); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) jobs(p *record.Portion) error {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if err := m.run("jobs", "INSERT INTO jobs (id, kind, task, key, turn, due, attempt) VALUES (?,?,?,?,?,?,?)",
			j.ID, j.Kind, j.Task, j.Key, int64(j.Turn), record.Milliseconds(j.Due), int64(j.Attempt)); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) keys(p *record.Portion) error {
	for i := range p.Keys {
		if err := m.run("API keys", insertAPIKey, apiKeyArgs(&p.Keys[i])...); err != nil {
			return err
		}
	}
	return nil
}

// end sets the counters behind what was written and checks it.
func (m *importer) end() (counts record.Counts, err error) {
	w := m.w
	w.clock.rev = m.revisions.Last
	if err := m.run("webhooks", "UPDATE tasks SET webhooks = (SELECT count(*) FROM webhooks w WHERE w.task = tasks.key) WHERE key IN (SELECT task FROM webhooks)"); err != nil {
		return counts, err
	}
	if err := m.run("delegations", "UPDATE tasks SET delegated = 1 WHERE key IN (SELECT task FROM delegations)"); err != nil {
		return counts, err
	}
	for counter, query := range map[*int64]string{&w.clock.key: "SELECT max(key) FROM tasks", &w.clock.job: "SELECT max(id) FROM jobs"} {
		n, err := w.conn.number(context.Background(), query)
		if err != nil {
			return counts, unavailable(err)
		}
		*counter = max(*counter, n)
	}
	for _, count := range []struct {
		into  *int64
		table string
	}{
		{&counts.Tasks, "tasks"},
		{&counts.Events, "events"},
		{&counts.Private, "private"},
		{&counts.Results, "results"},
		{&counts.Claims, "claims"},
		{&counts.Grants, "grants"},
		{&counts.Jobs, "jobs"},
		{&counts.Webhooks, "webhooks"},
		{&counts.Keys, "api_keys"},
		{&counts.Audit, "audit"},
		{&counts.Delegations, "delegations"},
		{&counts.Inbox, "inbox"},
		{&counts.Entries, "inbox_history"},
		{&counts.Peers, "peers"},
		{&counts.Docs, "docs"},
		{&counts.Counters, "counters"},
	} {
		if *count.into, err = w.conn.number(context.Background(), "SELECT count(*) FROM "+count.table); err != nil {
			return counts, unavailable(err)
		}
	}
	bad := ""
	if _, err := w.conn.one(func(v values) { bad = text(v[0]) }, fmt.Sprintf(`SELECT id FROM tasks t WHERE seq IS NOT
 (SELECT id & %d FROM events WHERE id BETWEEN t.key << %d AND (t.key << %d | %d) ORDER BY id DESC LIMIT 1) LIMIT 1`, maxSeq, seqBits, seqBits, maxSeq)); err != nil {
		return counts, unavailable(err)
	}
	if bad != "" {
		return counts, fmt.Errorf("the last events of task %s are missing: %w", bad, record.ErrDamaged)
	}
	return counts, nil
}

func (m *importer) audit(p *record.Portion) error {
	return m.failed("the audit log", m.w.audit(p.Audit))
}
