package sqlite

import (
	"context"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// check refuses a change whose claim or grant is not there to be settled.
func (w *writer) check(c *store.Change) error {
	if s := c.Settle; s != nil {
		r, err := w.realmID(realm{s.Tenant, s.Owner, s.Agent})
		if err != nil {
			return err
		}
		lease := int64(-1)
		if _, err := w.conn.one(func(v values) { lease = integer(v[0]) },
			"SELECT lease FROM claims WHERE realm=? AND key=?", r, s.Key); err != nil {
			return err
		}
		if lease == -1 || s.Lease != 0 && s.Lease != lease {
			return refusal{store.ErrConflict}
		}
	}
	if d := c.Decide; d != nil {
		decided := int64(-1)
		if _, err := w.conn.one(func(v values) { decided = integer(v[0]) }, "SELECT decided FROM grants WHERE id=?", d.ID); err != nil {
			return err
		}
		if decided == -1 {
			return refusal{store.ErrNotFound}
		}
		if decided != 0 {
			return refusal{store.ErrConflict}
		}
	}
	return nil
}

// claimColumns are what scanClaim reads of the table claims c.
const claimColumns = "c.key, c.hash, c.lease, c.task, c.reply, c.expires"

func scanClaim(v values) store.Claim {
	return store.Claim{
		Key: text(v[0]), Hash: blob(v[1]), Lease: integer(v[2]),
		Task: text(v[3]), Reply: blob(v[4]), Expires: moment(v[5]),
	}
}

// liveClaim is the condition that a claim c stands, at ?1.
const liveClaim = `(c.expires = 0 OR c.expires > ?1) AND
 (c.task <> '' OR c.reply IS NOT NULL OR EXISTS (SELECT 1 FROM nodes n WHERE n.epoch = c.lease AND n.expires > ?1))`

// claim makes the claim of a change, or refuses it with the live one that has
// its key.
func (w *writer) claim(change *store.Change, at time.Time) error {
	c := change.Claim
	r, err := w.realmID(realm{c.Tenant, c.Owner, c.Agent})
	if err != nil {
		return err
	}
	n, err := w.conn.run("INSERT INTO claims (realm, key, hash, lease, task, reply, expires) VALUES (?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
		r, c.Key, c.Hash, c.Lease, c.Task, c.Reply, record.Milliseconds(c.Expires))
	if err != nil || n == 1 {
		return err
	}
	var taken store.Claim
	live := false
	_, err = w.conn.one(func(v values) { taken, live = scanClaim(v), integer(v[6]) != 0 },
		"SELECT "+claimColumns+", "+liveClaim+" FROM claims c WHERE c.realm=?2 AND c.key=?3", at.UnixMilli(), r, c.Key)
	if err != nil {
		return err
	}
	abandoned := !live && taken.Stands(at)
	if live || abandoned && change.Respect {
		taken.Tenant, taken.Owner, taken.Agent = c.Tenant, c.Owner, c.Agent
		return refusal{&store.DuplicateError{Claim: taken}}
	}
	change.Abandoned = abandoned
	_, err = w.conn.run("UPDATE claims SET hash=?, lease=?, task=?, reply=?, expires=? WHERE realm=? AND key=?",
		c.Hash, c.Lease, c.Task, c.Reply, record.Milliseconds(c.Expires), r, c.Key)
	return err
}

// attach writes what comes with a change. Task is nil when the change concerns
// none.
func (w *writer) attach(t *record.Row, c *store.Change) error {
	if s := c.Settle; s != nil {
		if err := w.settle(s); err != nil {
			return err
		}
	}
	if t != nil {
		if c.State != nil {
			if _, err := w.conn.run("INSERT OR REPLACE INTO private (task, state) VALUES (?,?)", t.Key, []byte(c.State)); err != nil {
				return err
			}
		}
		if r := c.Result; r != nil {
			if _, err := w.conn.run("INSERT OR REPLACE INTO results (task, key, value) VALUES (?,?,?)", t.Key, r.Key, notNil(r.Value)); err != nil {
				return err
			}
		}
	}
	if g := c.Grant; g != nil {
		if _, err := w.conn.run(`INSERT INTO grants (id, task, turn, operation, text, url, created, expires, decided, approved, note, data, decider)
 VALUES (?,?,?,?,?,?,?,?,0,0,'',NULL,'')`,
			g.ID, g.Task, int64(g.Turn), g.Operation, g.Text, g.URL, record.Milliseconds(g.Created), record.Milliseconds(g.Expires)); err != nil {
			return err
		}
	}
	if d := c.Decide; d != nil {
		if err := w.decide(d); err != nil {
			return err
		}
	}
	return w.putJobs(c)
}

func (w *writer) settle(s *store.Claim) error {
	r, err := w.realmID(realm{s.Tenant, s.Owner, s.Agent})
	if err != nil {
		return err
	}
	if s.Task == "" && s.Reply == nil {
		_, err = w.conn.run("DELETE FROM claims WHERE realm=? AND key=?", r, s.Key)
		return err
	}
	_, err = w.conn.run("UPDATE claims SET task=?, reply=? WHERE realm=? AND key=?", s.Task, s.Reply, r, s.Key)
	return err
}

// decide settles a grant request at the time of the commit.
func (w *writer) decide(d *store.Grant) error {
	var approved int64
	if d.Approved {
		approved = 1
	}
	_, err := w.conn.run("UPDATE grants SET decided=?, approved=?, note=?, data=?, decider=? WHERE id=?",
		w.clock.at, approved, d.Note, d.Data, d.By, d.ID)
	d.Decided = time.UnixMilli(w.clock.at).UTC()
	return err
}

// putJobs writes the jobs that a change causes, and removes the one it ends. A
// job that replaces another gets a new id, so that the end of the one before
// does not remove it.
func (w *writer) putJobs(c *store.Change) error {
	if c.Finish != 0 {
		if _, err := w.conn.run("DELETE FROM jobs WHERE id=?", c.Finish); err != nil {
			return err
		}
	}
	for i := range c.Jobs {
		j := &c.Jobs[i]
		w.clock.job++
		j.ID, j.Attempt = w.clock.job, 0
		if _, err := w.conn.run("INSERT OR REPLACE INTO jobs (id, kind, task, key, turn, due, attempt) VALUES (?,?,?,?,?,?,0)",
			j.ID, j.Kind, j.Task, j.Key, int64(j.Turn), max(j.Due.UnixMilli(), 1)); err != nil {
			return err
		}
	}
	return nil
}

// notNil makes empty bytes of none, for columns that are never null.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Jobs claims jobs that are due. Due is when each of them was due; it comes
// again after retry.
func (s *Store) Jobs(ctx context.Context, limit int, retry time.Duration) ([]store.Job, error) {
	var jobs []store.Job
	err := s.write(ctx, func(w *writer, at time.Time) error {
		jobs = nil // of an attempt before
		err := w.conn.each(context.Background(), func(v values) bool {
			jobs = append(jobs, store.Job{
				ID: integer(v[0]), Kind: text(v[1]), Task: text(v[2]), Key: text(v[3]),
				Turn: int(integer(v[4])), Due: moment(v[5]), Attempt: int(integer(v[6])) + 1,
			})
			return true
		}, "SELECT id, kind, task, key, turn, due, attempt FROM jobs WHERE due <= ? ORDER BY due, id LIMIT ?", at.UnixMilli(), int64(limit))
		if err != nil {
			return err
		}
		for i := range jobs {
			if _, err := w.conn.run("UPDATE jobs SET due=?, attempt=attempt+1 WHERE id=?", at.Add(retry).UnixMilli(), jobs[i].ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

// NextJob returns when the earliest job is due, zero when there is none.
func (s *Store) NextJob(ctx context.Context) (due time.Time, err error) {
	err = s.read(ctx, func(c *conn) error {
		_, err := c.one(func(v values) { due = time.UnixMilli(integer(v[0])).UTC() }, "SELECT due FROM jobs ORDER BY due LIMIT 1")
		return unavailable(err)
	})
	return due, err
}
