package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/a2a"
)

// realm is one agent of one owner.
type realm struct{ tenant, owner, agent string }

const maxCachedRealms = 16384

// realmIDs remembers the numbers of realms, which never change.
type realmIDs struct {
	mu    sync.Mutex
	known map[realm]int64
}

// find returns the numbers of realms, and makes those that are new. That is
// committed at once: a realm without tasks does no harm.
func (ids *realmIDs) find(ctx context.Context, conn *pgx.Conn, realms []realm) (map[realm]int64, error) {
	found := make(map[realm]int64, len(realms))
	missing := ids.lookUp(realms, found)
	for _, query := range []string{
		"SELECT r.id, r.tenant, r.owner, r.agent FROM " + unnest(0, 3) + ` AS w(tenant, owner, agent)
 JOIN realms r ON r.tenant = w.tenant AND r.owner = w.owner AND r.agent = w.agent`,
		"INSERT INTO realms AS r (tenant, owner, agent) SELECT * FROM " + unnest(0, 3) + `
 ON CONFLICT (tenant, owner, agent) DO UPDATE SET agent = excluded.agent RETURNING r.id, r.tenant, r.owner, r.agent`,
	} {
		if len(missing) == 0 {
			break
		}
		var tenants, owners, agents []string
		for _, r := range missing {
			tenants, owners, agents = append(tenants, r.tenant), append(owners, r.owner), append(agents, r.agent)
		}
		rows, err := conn.Query(ctx, query, bytesOf(tenants), bytesOf(owners), bytesOf(agents))
		if err != nil {
			return nil, err
		}
		var id int64
		var tenant, owner, agent []byte
		if _, err := pgx.ForEachRow(rows, []any{&id, &tenant, &owner, &agent}, func() error {
			found[realm{string(tenant), string(owner), string(agent)}] = id
			return nil
		}); err != nil {
			return nil, err
		}
		missing = slices.DeleteFunc(missing, func(r realm) bool { return found[r] != 0 })
	}
	ids.remember(found)
	return found, nil
}

// lookUp fills in the numbers that are remembered and returns the other realms,
// sorted and each once.
func (ids *realmIDs) lookUp(realms []realm, found map[realm]int64) (missing []realm) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	for _, r := range realms {
		if id, ok := ids.known[r]; ok {
			found[r] = id
		} else {
			missing = append(missing, r)
		}
	}
	slices.SortFunc(missing, func(a, b realm) int {
		return cmp.Or(strings.Compare(a.tenant, b.tenant), strings.Compare(a.owner, b.owner), strings.Compare(a.agent, b.agent))
	})
	return slices.Compact(missing)
}

func (ids *realmIDs) remember(found map[realm]int64) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if ids.known == nil || len(ids.known)+len(found) > maxCachedRealms {
		ids.known = map[realm]int64{}
	}
	maps.Copy(ids.known, found)
}

// forget drops what is remembered.
func (ids *realmIDs) forget() {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	ids.known = nil
}

// counts gathers how the totals change in a transaction.
type counts struct {
	totals   map[totalKey]int64
	contexts map[contextKey]int64
}

type totalKey struct {
	realm int64
	state a2a.TaskState
}

type contextKey struct {
	totalKey
	context string
}

// add counts n more tasks.
func (c *counts) add(realm int64, context string, state a2a.TaskState, n int64) {
	if c.totals == nil {
		c.totals, c.contexts = map[totalKey]int64{}, map[contextKey]int64{}
	}
	key := totalKey{realm, state}
	c.totals[key] += n
	c.contexts[contextKey{key, context}] += n
}

func (c *counts) changed() bool { return len(c.totals) > 0 }

var (
	insertTotalDeltas   = "INSERT INTO total_deltas (realm, state, n) SELECT * FROM " + unnest(3, 0)
	insertContextDeltas = "INSERT INTO context_deltas (realm, state, n, context) SELECT * FROM " + unnest(3, 1)
)

// write queues the changes of the totals.
func (c *counts) write(q *pgx.Batch) {
	var totals, contexts columns
	for key, n := range c.totals {
		if n != 0 {
			totals.add([]int64{key.realm, int64(key.state), n})
		}
	}
	for key, n := range c.contexts {
		if n != 0 {
			contexts.add([]int64{key.realm, int64(key.state), n}, []byte(key.context))
		}
	}
	totals.queue(q, insertTotalDeltas)
	contexts.queue(q, insertContextDeltas)
}

const (
	// foldPause is how long deltas gather before they are folded, at least.
	foldPause = time.Second
	// foldLimit is how many deltas one transaction folds.
	foldLimit = 20000
)

// folder folds the deltas of the totals now and then, so that reading them
// stays cheap. It runs on every node, and one of them does it at a time.
type folder struct {
	store   *Store
	changed chan struct{}
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newFolder(s *Store) *folder {
	ctx, cancel := context.WithCancel(context.Background())
	f := &folder{store: s, changed: make(chan struct{}, 1), cancel: cancel}
	f.running.Go(func() { f.loop(ctx) })
	return f
}

// wake says that there are deltas.
func (f *folder) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *folder) stop() {
	f.cancel()
	f.running.Wait()
}

func (f *folder) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(foldPause):
		}
		if err := f.store.foldTotals(ctx); err != nil && ctx.Err() == nil {
			f.wake() // what could not be folded is read as it is, until it can
		}
	}
}

// foldTotals adds the deltas to the totals, unless another node is doing that.
func (s *Store) foldTotals(ctx context.Context) error {
	for {
		folded := int64(0)
		err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			var mine bool
			if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock('totals'::regclass::oid::integer, 0)").Scan(&mine); err != nil || !mine {
				return err
			}
			folded = 0
			for _, statement := range foldStatements {
				tag, err := tx.Exec(ctx, statement, foldLimit)
				if err != nil {
					return err
				}
				folded = max(folded, tag.RowsAffected())
			}
			return nil
		})
		if err != nil || folded < foldLimit {
			return err
		}
	}
}

// foldStatements move deltas to the totals, and remove totals of 0 that come of
// it. A row of totals that becomes 0 is deleted rather than updated, in the
// same statement, so that nobody sees it.
var foldStatements = []string{
	foldSQL("total_deltas", "totals", "realm, state"),
	foldSQL("context_deltas", "context_totals", "realm, state, context"),
}

func foldSQL(deltas, totals, key string) string {
	on := func(a, b string) string {
		conditions := []string{}
		for column := range strings.SplitSeq(key, ", ") {
			conditions = append(conditions, a+"."+column+" = "+b+"."+column)
		}
		return strings.Join(conditions, " AND ")
	}
	return `WITH gone AS (
  DELETE FROM ` + deltas + ` WHERE ctid = ANY(ARRAY(SELECT ctid FROM ` + deltas + ` LIMIT $1)) RETURNING ` + key + `, n
), sums AS MATERIALIZED (
  SELECT ` + key + `, sum(n)::bigint AS n FROM gone GROUP BY ` + key + `
), news AS MATERIALIZED (
  SELECT s.*, coalesce(t.n, 0) + s.n AS total FROM sums s LEFT JOIN ` + totals + ` t ON ` + on("t", "s") + `
), emptied AS (
  DELETE FROM ` + totals + ` t USING news s WHERE ` + on("t", "s") + ` AND s.total = 0
), stored AS (
  INSERT INTO ` + totals + ` AS t (` + key + `, n) SELECT ` + key + `, total FROM news WHERE total <> 0
  ON CONFLICT (` + key + `) DO UPDATE SET n = excluded.n
) SELECT 1 FROM gone`
}
