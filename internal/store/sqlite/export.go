package sqlite

import (
	"context"
	"fmt"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// Export gives all that the store keeps, as of one moment, in portions; see
// record.Portion. An error of put ends it.
func (s *Store) Export(ctx context.Context, put func(*record.Portion) error) error {
	return s.snapshot(ctx, func(c *conn) error {
		x := &exporter{ctx: ctx, conn: c, fill: record.Filler{Put: put}}
		for _, step := range []func() error{x.heads, x.tasks, x.claims, x.grants, x.jobs, x.keys, x.audit, x.inbox, x.entries, x.peers, x.docs, x.counters, x.fill.Flush} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

type exporter struct {
	ctx  context.Context
	conn *conn
	fill record.Filler
}

// each calls take for every row of a query, until it fails.
func (x *exporter) each(take func(v values) error, query string, args ...any) error {
	var failed error
	err := x.conn.each(x.ctx, func(v values) bool {
		failed = take(v)
		return failed == nil
	}, query, args...)
	if failed != nil {
		return failed
	}
	if err != nil {
		return unavailable(fmt.Errorf("read store: %w", err))
	}
	return nil
}

func (x *exporter) heads() error {
	h := &record.Heads{}
	err := x.each(func(v values) error {
		h.At, h.Task, h.Job, h.Epoch = moment(v[0]), integer(v[1]), integer(v[2]), integer(v[3])
		return nil
	}, "SELECT at, key, job, epoch FROM clock")
	if err != nil {
		return err
	}
	x.fill.Heads = h
	return x.each(func(v values) error {
		h.Tasks, h.Events = integer(v[0]), integer(v[1])
		return nil
	}, "SELECT count(*), coalesce(sum(seq), 0) FROM tasks")
}

// tasks gives the tasks with what belongs to them, some at a time.
func (x *exporter) tasks() error {
	last := int64(0)
	for {
		var keys []int64
		delegated := map[int64]bool{}
		size := 0
		err := x.each(func(v values) error {
			t := scanTask(v)
			last = t.Rev
			keys = append(keys, t.Key)
			if t.Delegated {
				delegated[t.Key] = true
			}
			x.fill.Tasks = append(x.fill.Tasks, t)
			size += len(t.Meta) + len(t.ID) + len(t.Context)
			return nil
		}, "SELECT "+taskColumns+" FROM tasks t CROSS JOIN realms r ON r.id = t.realm WHERE t.rev > ? ORDER BY t.rev LIMIT ?", last, int64(record.PortionTasks))
		if err != nil || len(keys) == 0 {
			return err
		}
		if err := x.fill.Grow(size); err != nil {
			return err
		}
		for _, key := range keys {
			for _, step := range []func(task int64) error{x.private, x.results, x.webhooks, x.events} {
				if err := step(key); err != nil {
					return err
				}
			}
			if delegated[key] {
				if err := x.delegation(key); err != nil {
					return err
				}
			}
		}
		if err := x.fill.Flush(); err != nil {
			return err
		}
	}
}

func (x *exporter) private(task int64) error {
	return x.each(func(v values) error {
		p := record.Private{Task: task, State: notNil(blob(v[0]))}
		x.fill.Private = append(x.fill.Private, p)
		return x.fill.Grow(len(p.State))
	}, "SELECT state FROM private WHERE task = ?", task)
}

func (x *exporter) webhooks(task int64) error {
	return x.each(func(v values) error {
		w := scanWebhook(v)
		x.fill.Webhooks = append(x.fill.Webhooks, w)
		return x.fill.Grow(len(w.URL) + len(w.Secrets) + len(w.Error))
	}, "SELECT "+webhookColumns+webhookTables+" WHERE w.task = ?", task)
}

func (x *exporter) delegation(task int64) error {
	return x.each(func(v values) error {
		d := scanDelegation(v)
		x.fill.Delegations = append(x.fill.Delegations, d)
		return x.fill.Grow(len(d.Secret) + len(d.Error) + len(d.Interface))
	}, "SELECT "+delegationColumns+delegationTables+" WHERE d.task = ?", task)
}

func (x *exporter) inbox() error {
	return x.each(func(v values) error {
		i := scanItem(v)
		x.fill.Inbox = append(x.fill.Inbox, i)
		return x.fill.Grow(len(i.Text) + len(i.Schema) + len(i.Words))
	}, "SELECT "+inboxColumns+" FROM inbox i ORDER BY i.n")
}

func (x *exporter) entries() error {
	return x.each(func(v values) error {
		e := record.Entry{Item: text(v[0]), InboxEntry: store.InboxEntry{At: moment(v[1]), By: text(v[2]), What: text(v[3]), Words: text(v[4])}}
		x.fill.Entries = append(x.fill.Entries, e)
		return x.fill.Grow(len(e.Words))
	}, "SELECT item, at, doer, what, words FROM inbox_history ORDER BY n")
}

func (x *exporter) peers() error {
	return x.each(func(v values) error {
		p := scanPeer(v)
		x.fill.Peers = append(x.fill.Peers, p)
		return x.fill.Grow(len(p.Card) + len(p.Held) + len(p.Added))
	}, "SELECT "+peerColumns+" FROM peers")
}

func (x *exporter) docs() error {
	return x.each(func(v values) error {
		d := scanDoc(v)
		x.fill.Docs = append(x.fill.Docs, d)
		return x.fill.Grow(len(d.Body) + len(d.Secret))
	}, "SELECT "+docColumns+" FROM docs")
}

func (x *exporter) counters() error {
	return x.each(func(v values) error {
		x.fill.Counters = append(x.fill.Counters, record.Counter{Space: text(v[0]), Key: text(v[1]), Used: integer(v[2]), Expires: moment(v[3])})
		return x.fill.Grow(0)
	}, "SELECT space, key, used, expires FROM counters")
}

func (x *exporter) results(task int64) error {
	return x.each(func(v values) error {
		r := record.Result{Task: task, Key: text(v[0]), Value: notNil(blob(v[1]))}
		x.fill.Results = append(x.fill.Results, r)
		return x.fill.Grow(len(r.Key) + len(r.Value))
	}, "SELECT key, value FROM results WHERE task = ?", task)
}

func (x *exporter) events(task int64) error {
	return x.each(func(v values) error {
		body := blob(v[5])
		x.fill.Events = append(x.fill.Events, record.EventRow{
			Task: task, Seq: integer(v[0]) & maxSeq, Body: body,
			Links: record.Links{Rev: integer(v[1]), StatusRow: integer(v[2]), ArtifactRow: integer(v[3]), MessageRow: integer(v[4]), Mark: integer(v[6])},
		})
		return x.fill.Grow(len(body))
	}, "SELECT id, rev, prev_status, prev_artifact, prev_message, body, mark FROM events WHERE id BETWEEN ? AND ? ORDER BY id", rowID(task, 0), rowID(task, maxSeq))
}

func (x *exporter) claims() error {
	return x.each(func(v values) error {
		c := scanClaim(v)
		c.Tenant, c.Owner, c.Agent = text(v[6]), text(v[7]), text(v[8])
		x.fill.Claims = append(x.fill.Claims, c)
		return x.fill.Grow(len(c.Key) + len(c.Hash) + len(c.Reply))
	}, "SELECT "+claimColumns+", r.tenant, r.owner, r.agent FROM claims c CROSS JOIN realms r ON r.id = c.realm")
}

func (x *exporter) grants() error {
	return x.each(func(v values) error {
		g := scanGrant(v)
		x.fill.Grants = append(x.fill.Grants, g)
		return x.fill.Grow(len(g.Text) + len(g.Note) + len(g.Data))
	}, "SELECT "+grantColumns+" FROM grants g")
}

func (x *exporter) jobs() error {
	return x.each(func(v values) error {
		x.fill.Jobs = append(x.fill.Jobs, store.Job{
			ID: integer(v[0]), Kind: text(v[1]), Task: text(v[2]), Key: text(v[3]),
			Turn: int(integer(v[4])), Due: moment(v[5]), Attempt: int(integer(v[6])),
		})
		return x.fill.Grow(0)
	}, "SELECT id, kind, task, key, turn, due, attempt FROM jobs")
}

func (x *exporter) keys() error {
	return x.each(func(v values) error {
		k := scanAPIKey(v)
		x.fill.Keys = append(x.fill.Keys, k)
		return x.fill.Grow(len(k.Subject) + len(k.Scopes)*8)
	}, "SELECT "+apiKeyColumns+" FROM api_keys")
}

func (x *exporter) audit() error {
	return x.each(func(v values) error {
		r := scanAudit(v)
		x.fill.Audit = append(x.fill.Audit, r)
		return x.fill.Grow(len(r.Body))
	}, "SELECT "+auditColumns+" FROM audit ORDER BY id")
}
