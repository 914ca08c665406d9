package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// nowSQL is the time of the database in milliseconds, as of the statement, so
// that indexes can be searched for it.
const nowSQL = "floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint"

// upSQL is the time since which the database has been up.
const upSQL = "floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint"

// aliveSQL is the condition that a node n is alive. While the database was away
// nobody could renew a lease: each node has the whole of it from then on.
const aliveSQL = "(n.expires > " + nowSQL + " OR " + upSQL + " + n.lease > " + nowSQL + ")"

// entry is a task that a batch changes.
type entry struct {
	record.Row
	dirty bool
}

// claimKey names a claim.
type claimKey struct {
	realm int64
	key   string
}

// claimEntry is a claim that a batch makes or settles.
type claimEntry struct {
	store.Claim
	kept  bool // in the table
	there bool // after the changes so far
	dirty bool
}

type resultKey struct {
	task int64
	key  string
}

type jobKey struct{ task, kind, key string }

// work is what a batch of changes reads and writes.
type work struct {
	ops    []*op
	realms map[realm]int64

	// What is locked, and how it is after the changes so far.
	at     time.Time
	rev    int64   // of the next status
	keys   []int64 // of new tasks
	jobIDs []int64
	tasks  map[int64]*entry
	taken  map[string]bool // ids of tasks that exist
	claims map[claimKey]*claimEntry
	alive  map[int64]bool   // epochs of nodes
	grants map[string]int64 // when each was decided; 0: not yet
	hooks  map[hookKey]bool // webhooks that exist

	// What is written.
	inserts  columns
	events   columns
	private  map[int64][]byte
	results  map[resultKey][]byte
	requests columns // of grants
	decided  columns
	finished []int64
	jobs     map[jobKey]*store.Job
	webhooks webhookWork
	counts   counts

	delegations delegationWork
	items       map[string]*settledItem // by their ids
	inbox       pgx.Batch               // statements, in the order of the changes
}

func newWork(batch []*op) *work {
	return &work{
		ops:    batch,
		tasks:  map[int64]*entry{},
		taken:  map[string]bool{},
		claims: map[claimKey]*claimEntry{},
		alive:  map[int64]bool{},
		grants: map[string]int64{},
		hooks:  map[hookKey]bool{},
	}
}

// realmsOf returns the realms of the changes.
func (b *work) realmsOf() []realm {
	var all []realm
	for _, o := range b.ops {
		if t := o.change.Insert; t != nil {
			all = append(all, realm{t.Tenant, t.Owner, t.Agent})
		}
		for _, c := range []*store.Claim{o.change.Claim, o.change.Settle} {
			if c != nil {
				all = append(all, realmOfClaim(c))
			}
		}
	}
	return all
}

func realmOfClaim(c *store.Claim) realm { return realm{c.Tenant, c.Owner, c.Agent} }

// needs is what a batch has to lock or to look up.
type needs struct {
	tasks    []int64
	ids      []string // of new tasks
	realms   []int64  // of claims
	claims   []string
	leases   []int64
	grants   []string
	newTasks int
	newJobs  int
}

func (b *work) needs() *needs {
	n := &needs{}
	var claims []claimKey
	for _, o := range b.ops {
		c := o.change
		switch {
		case c.Insert != nil:
			n.ids = append(n.ids, c.Insert.ID)
			n.newTasks++
		case c.Task != 0:
			n.tasks = append(n.tasks, c.Task)
		}
		for _, claim := range []*store.Claim{c.Claim, c.Settle} {
			if claim != nil {
				claims = append(claims, claimKey{b.realms[realmOfClaim(claim)], claim.Key})
			}
		}
		if c.Claim != nil && c.Claim.Lease != 0 {
			n.leases = append(n.leases, c.Claim.Lease)
		}
		if c.Decide != nil {
			n.grants = append(n.grants, c.Decide.ID)
		}
		n.newJobs += len(c.Jobs)
	}
	slices.Sort(n.tasks)
	n.tasks = slices.Compact(n.tasks)
	for _, c := range claims {
		n.realms = append(n.realms, c.realm)
		n.claims = append(n.claims, c.key)
	}
	return n
}

// lock begins the transaction, locks the rows that the guards are about, all
// batches in the same order, and takes a unit of the store's clock once it has
// them: so a task's later event has a later time.
func (b *work) lock(ctx context.Context, conn *pgx.Conn, committer []byte, number int64) error {
	n := b.needs()
	var q pgx.Batch
	q.Queue("BEGIN")
	q.Queue("UPDATE committers SET batch = $2, used = "+nowSQL+" WHERE id = $1 RETURNING batch", committer, number).
		QueryRow(func(row pgx.Row) error {
			err := row.Scan(&number)
			if errors.Is(err, pgx.ErrNoRows) {
				return errForgotten
			}
			return err
		})
	if len(n.tasks) > 0 {
		q.Queue("SELECT "+taskColumns+" FROM tasks t JOIN realms r ON r.id = t.realm WHERE t.key = ANY($1::bigint[]) ORDER BY t.key FOR UPDATE OF t", n.tasks).
			Query(func(rows pgx.Rows) error {
				var s rowScanner
				_, err := pgx.ForEachRow(rows, s.targets(), func() error {
					b.tasks[s.row.Key] = &entry{Row: *s.take()}
					return nil
				})
				return err
			})
	}
	if len(n.ids) > 0 {
		q.Queue("SELECT id FROM tasks WHERE id = ANY($1::bytea[])", bytesOf(n.ids)).Query(func(rows pgx.Rows) error {
			var id []byte
			_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
				b.taken[string(id)] = true
				return nil
			})
			return err
		})
	}
	b.lockClaims(&q, n)
	b.lookUpWebhooks(&q)
	b.lookUpRefs(&q)
	b.lockItems(&q)
	if len(n.grants) > 0 {
		q.Queue("SELECT id, decided FROM grants WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE", bytesOf(n.grants)).
			Query(func(rows pgx.Rows) error {
				var id []byte
				var decided int64
				_, err := pgx.ForEachRow(rows, []any{&id, &decided}, func() error {
					b.grants[string(id)] = decided
					return nil
				})
				return err
			})
	}
	q.Queue(`SELECT tick(), ARRAY(SELECT nextval('task_keys') FROM generate_series(1, $1::int)), ARRAY(SELECT nextval('job_ids') FROM generate_series(1, $2::int))`,
		n.newTasks, n.newJobs).QueryRow(func(row pgx.Row) error {
		return row.Scan(&b.rev, &b.keys, &b.jobIDs)
	})
	if err := conn.SendBatch(ctx, &q).Close(); err != nil {
		return err
	}
	b.at = timeOf(b.rev)
	return nil
}

// lockClaims locks the claims of the changes, and finds out which of the nodes
// that have made them are alive.
func (b *work) lockClaims(q *pgx.Batch, n *needs) {
	if len(n.claims) == 0 {
		return
	}
	q.Queue(`SELECT c.realm, `+claimColumns+`, EXISTS (SELECT 1 FROM nodes n WHERE n.epoch = c.lease AND `+aliveSQL+`)
 FROM unnest($1::bigint[], $2::bytea[]) AS w(realm, key) JOIN claims c ON c.realm = w.realm AND c.key = w.key
 ORDER BY c.realm, c.key FOR UPDATE OF c`, n.realms, bytesOf(n.claims)).Query(func(rows pgx.Rows) error {
		var s claimScanner
		var realm int64
		var alive bool
		_, err := pgx.ForEachRow(rows, append(append([]any{&realm}, s.targets()...), &alive), func() error {
			c := s.take()
			b.claims[claimKey{realm, c.Key}] = &claimEntry{Claim: c, kept: true, there: true}
			if alive {
				b.alive[c.Lease] = true
			}
			return nil
		})
		return err
	})
	if len(n.leases) > 0 {
		q.Queue("SELECT n.epoch FROM nodes n WHERE n.epoch = ANY($1::bigint[]) AND "+aliveSQL, n.leases).Query(func(rows pgx.Rows) error {
			var epoch int64
			_, err := pgx.ForEachRow(rows, []any{&epoch}, func() error {
				b.alive[epoch] = true
				return nil
			})
			return err
		})
	}
}

// errForgotten says that a connection was idle for so long that its row was
// removed. Another one gets a new row.
var errForgotten = errors.New("this connection was forgotten")

// errNotCommitted says that the server ended a transaction otherwise than it
// was asked to.
var errNotCommitted = errors.New("the server did not commit")

// write sends all that the changes write, and commits.
func (b *work) write(ctx context.Context, conn *pgx.Conn) error {
	var q pgx.Batch
	b.writeTasks(&q)
	b.writeDelegations(&q)
	for _, statement := range b.inbox.QueuedQueries {
		q.Queue(statement.SQL, statement.Arguments...)
	}
	b.writeAttached(&q)
	woken := b.writeWebhooks(&q)
	b.counts.write(&q)
	q.Queue("COMMIT")
	results := conn.SendBatch(ctx, &q)
	for i := range q.Len() - 1 {
		tag, err := results.Exec()
		if err != nil {
			_ = results.Close() // says the same
			return err
		}
		if i == woken {
			b.webhooks.say(int(tag.RowsAffected()))
		}
	}
	tag, err := results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("%w: %s", errNotCommitted, tag)
	}
	return err
}
