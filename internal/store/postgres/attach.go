package postgres

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// claimColumns are what claimScanner reads of the table claims c.
const claimColumns = "c.key, c.hash, c.lease, c.task, c.reply, c.expires"

// claimScanner holds what claimColumns are scanned into.
type claimScanner struct {
	key, task []byte
	expires   int64
	claim     store.Claim
}

func (s *claimScanner) targets() []any {
	return []any{&s.key, &s.claim.Hash, &s.claim.Lease, &s.task, &s.claim.Reply, &s.expires}
}

func (s *claimScanner) take() store.Claim {
	c := s.claim
	c.Key, c.Task, c.Expires = string(s.key), string(s.task), record.Time(s.expires)
	return c
}

// live reports whether a claim stands.
func (b *work) live(c *claimEntry) bool {
	return c != nil && c.there && (c.Expires.IsZero() || c.Expires.After(b.at)) &&
		(c.Task != "" || c.Reply != nil || b.alive[c.Lease])
}

// abandoned reports whether a claim has no outcome and its node is dead.
func (b *work) abandoned(c *claimEntry) bool {
	return c != nil && c.there && !b.live(c) && c.Stands(b.at)
}

// check refuses a change whose claim is taken, or whose claim or grant is not
// there to be settled.
func (b *work) check(c *store.Change) error {
	if s := c.Settle; s != nil {
		kept := b.claims[claimKey{b.realms[realmOfClaim(s)], s.Key}]
		if kept == nil || !kept.there || s.Lease != 0 && s.Lease != kept.Lease {
			return store.ErrConflict
		}
	}
	if d := c.Decide; d != nil {
		decided, found := b.grants[d.ID]
		if !found {
			return store.ErrNotFound
		}
		if decided != 0 {
			return store.ErrConflict
		}
	}
	if g := c.Claim; g != nil {
		kept := b.claims[claimKey{b.realms[realmOfClaim(g)], g.Key}]
		if b.live(kept) || c.Respect && b.abandoned(kept) {
			taken := kept.Claim
			taken.Tenant, taken.Owner, taken.Agent = g.Tenant, g.Owner, g.Agent
			return &store.DuplicateError{Claim: taken}
		}
	}
	return nil
}

// attach makes what comes with a change. Task is nil when the change concerns
// none.
func (b *work) attach(t *entry, c *store.Change) {
	if c.Claim != nil {
		b.claim(c)
	}
	if c.Settle != nil {
		b.settle(c.Settle)
	}
	if t != nil && c.State != nil {
		if b.private == nil {
			b.private = map[int64][]byte{}
		}
		b.private[t.Key] = c.State
	}
	if r := c.Result; t != nil && r != nil {
		if b.results == nil {
			b.results = map[resultKey][]byte{}
		}
		b.results[resultKey{t.Key, r.Key}] = notNil(r.Value)
	}
	if g := c.Grant; g != nil {
		b.requests.add([]int64{int64(g.Turn), record.Milliseconds(g.Created), record.Milliseconds(g.Expires)},
			[]byte(g.ID), []byte(g.Task), []byte(g.Operation), []byte(g.Text), []byte(g.URL))
		b.grants[g.ID] = 0
	}
	if d := c.Decide; d != nil {
		var approved int64
		if d.Approved {
			approved = 1
		}
		d.Decided = b.at
		b.grants[d.ID] = b.at.UnixMilli()
		b.decided.add([]int64{b.at.UnixMilli(), approved}, []byte(d.ID), []byte(d.Note), d.Data, []byte(d.By))
	}
	b.putJobs(c)
}

func (b *work) claim(change *store.Change) {
	c := change.Claim
	key := claimKey{b.realms[realmOfClaim(c)], c.Key}
	kept := b.claims[key]
	change.Abandoned = b.abandoned(kept)
	if kept == nil {
		kept = &claimEntry{}
		b.claims[key] = kept
	}
	kept.Claim, kept.there, kept.dirty = *c, true, true
	kept.Expires = record.Time(record.Milliseconds(c.Expires))
}

func (b *work) settle(s *store.Claim) {
	kept := b.claims[claimKey{b.realms[realmOfClaim(s)], s.Key}]
	kept.dirty = true
	if s.Task == "" && s.Reply == nil {
		kept.there = false
		return
	}
	kept.Task, kept.Reply = s.Task, s.Reply
}

// putJobs makes the jobs that a change causes, and removes the one it ends. A
// job that replaces another gets a new id, so that the end of the one before
// does not remove it.
func (b *work) putJobs(c *store.Change) {
	if c.Finish != 0 {
		b.finished = append(b.finished, c.Finish)
	}
	for i := range c.Jobs {
		j := &c.Jobs[i]
		j.ID, b.jobIDs = b.jobIDs[0], b.jobIDs[1:]
		j.Attempt = 0
		if b.jobs == nil {
			b.jobs = map[jobKey]*store.Job{}
		}
		b.jobs[jobKey{j.Task, j.Kind, j.Key}] = j
	}
}

var (
	insertClaims = "INSERT INTO claims (lease, expires, realm, key, hash, task, reply) SELECT * FROM " + unnest(3, 4)
	updateClaims = "UPDATE claims c SET lease = u.lease, expires = u.expires, hash = u.hash, task = u.task, reply = u.reply FROM " +
		unnest(3, 4) + " AS u(lease, expires, realm, key, hash, task, reply) WHERE c.realm = u.realm AND c.key = u.key"
	deleteClaims = "DELETE FROM claims c USING " + unnest(1, 1) + " AS u(realm, key) WHERE c.realm = u.realm AND c.key = u.key"
	putPrivate   = "INSERT INTO private (task, state) SELECT * FROM " + unnest(1, 1) + " ON CONFLICT (task) DO UPDATE SET state = excluded.state"
	putResults   = "INSERT INTO results (task, key, value) SELECT * FROM " + unnest(1, 2) + " ON CONFLICT (task, key) DO UPDATE SET value = excluded.value"
	insertGrants = `INSERT INTO grants (turn, created, expires, decided, approved, id, task, operation, text, url, note, decider)
 SELECT u.turn, u.created, u.expires, 0, 0, u.id, u.task, u.operation, u.text, u.url, '', '' FROM ` + unnest(3, 5) +
		" AS u(turn, created, expires, id, task, operation, text, url)"
	decideGrants = "UPDATE grants g SET decided = u.decided, approved = u.approved, note = u.note, data = u.data, decider = u.decider FROM " +
		unnest(2, 4) + " AS u(decided, approved, id, note, data, decider) WHERE g.id = u.id"
	putJobs = "INSERT INTO jobs (id, due, turn, attempt, kind, task, key) SELECT u.id, u.due, u.turn, 0, u.kind, u.task, u.key FROM " +
		unnest(3, 3) + ` AS u(id, due, turn, kind, task, key)
 ON CONFLICT (task, kind, key) DO UPDATE SET id = excluded.id, due = excluded.due, turn = excluded.turn, attempt = 0`
)

// writeAttached queues what is written beside tasks and events. Rows that other
// nodes may insert too come in one order, so that nobody waits in a circle.
func (b *work) writeAttached(q *pgx.Batch) {
	b.writeClaims(q)
	var private, results, jobs columns
	for task, state := range b.private {
		private.add([]int64{task}, state)
	}
	private.queue(q, putPrivate)
	for key, value := range b.results {
		results.add([]int64{key.task}, []byte(key.key), value)
	}
	results.queue(q, putResults)
	b.requests.queue(q, insertGrants)
	b.decided.queue(q, decideGrants)
	if len(b.finished) > 0 {
		slices.Sort(b.finished)
		q.Queue("DELETE FROM jobs WHERE id = ANY($1::bigint[])", b.finished)
	}
	for _, key := range slices.SortedFunc(maps.Keys(b.jobs), func(x, y jobKey) int {
		return cmp.Or(strings.Compare(x.task, y.task), strings.Compare(x.kind, y.kind), strings.Compare(x.key, y.key))
	}) {
		j := b.jobs[key]
		jobs.add([]int64{j.ID, max(j.Due.UnixMilli(), 1), int64(j.Turn)}, []byte(j.Kind), []byte(j.Task), []byte(j.Key))
	}
	jobs.queue(q, putJobs)
}

func (b *work) writeClaims(q *pgx.Batch) {
	var inserts, updates, deletes columns
	for _, key := range slices.SortedFunc(maps.Keys(b.claims), func(x, y claimKey) int {
		return cmp.Or(cmp.Compare(x.realm, y.realm), strings.Compare(x.key, y.key))
	}) {
		c := b.claims[key]
		into := &updates
		switch {
		case !c.dirty:
			continue
		case !c.there && c.kept:
			deletes.add([]int64{key.realm}, []byte(key.key))
			continue
		case !c.there:
			continue
		case !c.kept:
			into = &inserts
		}
		into.add([]int64{c.Lease, record.Milliseconds(c.Expires), key.realm}, []byte(key.key), c.Hash, []byte(c.Task), c.Reply)
	}
	inserts.queue(q, insertClaims)
	updates.queue(q, updateClaims)
	deletes.queue(q, deleteClaims)
}

// Jobs claims jobs that are due. Due is when each of them was due; it comes
// again after retry.
func (s *Store) Jobs(ctx context.Context, limit int, retry time.Duration) ([]store.Job, error) {
	var jobs []store.Job
	// When the answer is lost, they come again like those of a node that died.
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		jobs = nil
		rows, err := c.Query(ctx, `WITH due AS MATERIALIZED (
  SELECT id, due FROM jobs WHERE due <= `+nowSQL+` ORDER BY due, id LIMIT $1 FOR UPDATE SKIP LOCKED
) UPDATE jobs j SET due = `+nowSQL+` + $2, attempt = j.attempt + 1 FROM due WHERE j.id = due.id
 RETURNING j.id, j.kind, j.task, j.key, j.turn, due.due, j.attempt`, limit, retry.Milliseconds())
		if err != nil {
			return err
		}
		var j store.Job
		var kind, task, key []byte
		var due int64
		_, err = pgx.ForEachRow(rows, []any{&j.ID, &kind, &task, &key, &j.Turn, &due, &j.Attempt}, func() error {
			j.Kind, j.Task, j.Key, j.Due = string(kind), string(task), string(key), record.Time(due)
			jobs = append(jobs, j)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(jobs, func(a, b store.Job) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID)) })
	return jobs, nil
}

// NextJob returns when the earliest job is due, zero when there is none.
func (s *Store) NextJob(ctx context.Context) (time.Time, error) {
	var due int64
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		err := c.QueryRow(ctx, "SELECT due FROM jobs ORDER BY due, id LIMIT 1").Scan(&due)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return record.Time(due), err
}
