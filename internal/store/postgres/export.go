package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// Export gives all that the store keeps, as of one moment, in portions; see
// record.Portion. An error of put ends it. A store that a node uses is
// record.ErrInUse, and no node can join meanwhile.
func (s *Store) Export(ctx context.Context, put func(*record.Portion) error) error {
	return s.move(ctx, pgx.RepeatableRead, func(tx pgx.Tx) error {
		if err := lockUnused(ctx, tx, "nodes", "SHARE"); err != nil {
			return err
		}
		x := &exporter{ctx: ctx, tx: tx, fill: record.Filler{Put: put}}
		for _, step := range []func() error{x.heads, x.tasks, x.claims, x.grants, x.jobs, x.keys, x.audit, x.inbox, x.entries, x.peers, x.docs, x.counters, x.fill.Flush} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

// move calls do in a transaction that may take long and reads whole tables.
func (s *Store) move(ctx context.Context, level pgx.TxIsoLevel, do func(tx pgx.Tx) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return unavailable(err)
	}
	defer conn.Release()
	var failed error
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
		for _, setting := range []string{"idle_in_transaction_session_timeout = 0", "statement_timeout = 0", "enable_seqscan = on"} {
			if _, failed = tx.Exec(ctx, "SET LOCAL "+setting); failed != nil {
				failed = unavailable(failed)
				return failed
			}
		}
		failed = do(tx)
		return failed
	})
	if failed != nil {
		return failed // and not that of the end of the transaction
	}
	return unavailable(err)
}

// lockUnused locks tables and sees that no node uses the store.
func lockUnused(ctx context.Context, tx pgx.Tx, tables, mode string) error {
	if _, err := tx.Exec(ctx, "LOCK TABLE "+tables+" IN "+mode+" MODE"); err != nil {
		return unavailable(fmt.Errorf("lock tables: %w", err))
	}
	rows, err := tx.Query(ctx, "SELECT n.node FROM nodes n WHERE "+aliveSQL+" ORDER BY n.epoch LIMIT 10")
	if err != nil {
		return unavailable(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return unavailable(err)
	}
	if len(names) == 0 {
		return nil
	}
	var quoted []string
	for _, name := range names {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	return fmt.Errorf("%w: stop its nodes first, or wait until their leases have run out: %s", record.ErrInUse, strings.Join(quoted, ", "))
}

type exporter struct {
	ctx  context.Context
	tx   pgx.Tx
	fill record.Filler
}

// each calls take for every row of a query, once it is scanned into targets.
func (x *exporter) each(targets []any, take func() error, query string, args ...any) error {
	var failed error
	rows, err := x.tx.Query(x.ctx, query, args...)
	if err == nil {
		_, err = pgx.ForEachRow(rows, targets, func() error {
			failed = take()
			return failed
		})
	}
	return x.failed(failed, err)
}

// failed tells the errors of those who take rows from those of the database.
func (x *exporter) failed(taking, reading error) error {
	if taking != nil {
		return taking
	}
	if reading != nil {
		return unavailable(fmt.Errorf("read store: %w", reading))
	}
	return nil
}

func (x *exporter) heads() error {
	h := &record.Heads{}
	var revision int64
	err := x.each([]any{&revision, &h.Task, &h.Job, &h.Epoch}, func() error {
		h.At = timeOf(revision)
		return nil
	}, "SELECT (SELECT last_value FROM revisions), (SELECT last_value FROM task_keys), (SELECT last_value FROM job_ids), (SELECT last_value FROM epochs)")
	if err != nil {
		return err
	}
	x.fill.Heads = h
	return x.each([]any{&h.Tasks, &h.Events}, func() error { return nil }, "SELECT count(*), coalesce(sum(seq), 0)::bigint FROM tasks")
}

// tasks gives the tasks with what belongs to them, some at a time.
func (x *exporter) tasks() error {
	last := int64(0)
	for {
		rows, err := collectTasks(x.tx.Query(x.ctx, "SELECT "+taskColumns+` FROM tasks t JOIN realms r ON r.id = t.realm
 WHERE t.rev + 0 > $1 ORDER BY t.rev + 0 LIMIT $2`, last, record.PortionTasks))
		if err = x.failed(nil, err); err != nil || len(rows) == 0 {
			return err
		}
		keys := make([]int64, len(rows))
		size := 0
		for i, t := range rows {
			keys[i], last = t.Key, t.Rev
			x.fill.Tasks = append(x.fill.Tasks, *t)
			size += len(t.Meta) + len(t.ID) + len(t.Context)
		}
		if err := x.fill.Grow(size); err != nil {
			return err
		}
		for _, step := range []func(tasks []int64) error{x.private, x.results, x.webhooks, x.delegations, x.events} {
			if err := step(keys); err != nil {
				return err
			}
		}
		if err := x.fill.Flush(); err != nil {
			return err
		}
	}
}

func (x *exporter) private(tasks []int64) error {
	var p record.Private
	return x.each([]any{&p.Task, &p.State}, func() error {
		x.fill.Private = append(x.fill.Private, p)
		return x.fill.Grow(len(p.State))
	}, "SELECT task, state FROM private WHERE task = ANY($1::bigint[])", tasks)
}

func (x *exporter) webhooks(tasks []int64) error {
	var s webhookScanner
	return x.each(s.targets(), func() error {
		w := s.take()
		x.fill.Webhooks = append(x.fill.Webhooks, w)
		return x.fill.Grow(len(w.URL) + len(w.Secrets) + len(w.Error))
	}, "SELECT "+webhookColumns+webhookTables+" WHERE w.task = ANY($1::bigint[])", tasks)
}

func (x *exporter) delegations(tasks []int64) error {
	var s delegationScanner
	return x.each(s.targets(), func() error {
		d := s.take()
		x.fill.Delegations = append(x.fill.Delegations, d)
		return x.fill.Grow(len(d.Secret) + len(d.Error) + len(d.Interface))
	}, "SELECT "+delegationColumns+delegationTables+" WHERE d.task = ANY($1::bigint[])", tasks)
}

func (x *exporter) inbox() error {
	var s itemScanner
	return x.each(s.targets(), func() error {
		i := s.take()
		x.fill.Inbox = append(x.fill.Inbox, i)
		return x.fill.Grow(len(i.Text) + len(i.Schema) + len(i.Words))
	}, "SELECT "+inboxColumns+" FROM inbox i ORDER BY i.n")
}

func (x *exporter) entries() error {
	var e record.Entry
	var item, by, what, words []byte
	var at int64
	return x.each([]any{&item, &at, &by, &what, &words}, func() error {
		e.Item, e.At, e.By, e.What, e.Words = string(item), record.Time(at), string(by), string(what), string(words)
		x.fill.Entries = append(x.fill.Entries, e)
		return x.fill.Grow(len(e.Words))
	}, "SELECT item, at, doer, what, words FROM inbox_history ORDER BY n")
}

func (x *exporter) peers() error {
	var s peerScanner
	return x.each(s.targets(), func() error {
		p := s.take()
		x.fill.Peers = append(x.fill.Peers, p)
		return x.fill.Grow(len(p.Card) + len(p.Held) + len(p.Added))
	}, selectPeers)
}

func (x *exporter) docs() error {
	var s docScanner
	return x.each(s.targets(), func() error {
		d := s.take()
		x.fill.Docs = append(x.fill.Docs, d)
		return x.fill.Grow(len(d.Body) + len(d.Secret))
	}, selectDocs)
}

func (x *exporter) counters() error {
	var c record.Counter
	var space, key []byte
	var expires int64
	return x.each([]any{&space, &key, &c.Used, &expires}, func() error {
		c.Space, c.Key, c.Expires = string(space), string(key), record.Time(expires)
		x.fill.Counters = append(x.fill.Counters, c)
		return x.fill.Grow(0)
	}, "SELECT space, key, used, expires FROM counters")
}

func (x *exporter) results(tasks []int64) error {
	var r record.Result
	var key []byte
	return x.each([]any{&r.Task, &key, &r.Value}, func() error {
		r.Key = string(key)
		x.fill.Results = append(x.fill.Results, r)
		return x.fill.Grow(len(r.Key) + len(r.Value))
	}, "SELECT task, key, value FROM results WHERE task = ANY($1::bigint[])", tasks)
}

func (x *exporter) events(tasks []int64) error {
	var e record.EventRow
	l := &e.Links
	return x.each([]any{&e.Task, &e.Seq, &l.Rev, &l.StatusRow, &l.ArtifactRow, &l.MessageRow, &l.Mark, &e.Body}, func() error {
		x.fill.Events = append(x.fill.Events, e)
		return x.fill.Grow(len(e.Body))
	}, "SELECT task, seq, rev, prev_status, prev_artifact, prev_message, mark, body FROM events WHERE task = ANY($1::bigint[]) ORDER BY task, seq", tasks)
}

func (x *exporter) claims() error {
	var s claimScanner
	var tenant, owner, agent []byte
	return x.each(append(s.targets(), &tenant, &owner, &agent), func() error {
		c := s.take()
		c.Tenant, c.Owner, c.Agent = string(tenant), string(owner), string(agent)
		x.fill.Claims = append(x.fill.Claims, c)
		return x.fill.Grow(len(c.Key) + len(c.Hash) + len(c.Reply))
	}, "SELECT "+claimColumns+", r.tenant, r.owner, r.agent FROM claims c JOIN realms r ON r.id = c.realm")
}

func (x *exporter) grants() error {
	var failed error
	rows, err := x.tx.Query(x.ctx, "SELECT "+grantColumns+" FROM grants g")
	if err == nil {
		err = eachGrant(rows, func(g store.Grant) error {
			x.fill.Grants = append(x.fill.Grants, g)
			failed = x.fill.Grow(len(g.Text) + len(g.Note) + len(g.Data))
			return failed
		})
	}
	return x.failed(failed, err)
}

func (x *exporter) jobs() error {
	var j store.Job
	var kind, task, key []byte
	var due int64
	return x.each([]any{&j.ID, &kind, &task, &key, &j.Turn, &due, &j.Attempt}, func() error {
		j.Kind, j.Task, j.Key, j.Due = string(kind), string(task), string(key), record.Time(due)
		x.fill.Jobs = append(x.fill.Jobs, j)
		return x.fill.Grow(0)
	}, "SELECT id, kind, task, key, turn, due, attempt FROM jobs")
}

func (x *exporter) keys() error {
	var row apiKeyScanner
	return x.each(row.targets(), func() error {
		k := row.take()
		x.fill.Keys = append(x.fill.Keys, k)
		return x.fill.Grow(len(k.Subject) + len(k.Scopes)*8)
	}, selectAPIKeys)
}

func (x *exporter) audit() error {
	var row auditScanner
	return x.each(row.targets(), func() error {
		r := row.take()
		x.fill.Audit = append(x.fill.Audit, r)
		return x.fill.Grow(len(r.Body))
	}, "SELECT "+auditColumns+" FROM audit ORDER BY id")
}
