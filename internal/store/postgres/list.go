package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// maxMerged is how many realms are read one by one and merged. A list over more
// of them reads the index over all tasks instead.
const maxMerged = 64

// listed is a task in a list: where it stands, and which it is.
type listed struct {
	position int64
	key      int64
}

// lister makes one page.
type lister struct {
	tx    session
	scope store.Scope
	query *store.ListQuery

	realms []int64 // that have such tasks; nil when they are too many
	from   int64   // first revision of a status that is new enough
}

// List returns a page of tasks, newest status first.
func (s *Store) List(ctx context.Context, scope store.Scope, q store.ListQuery) (*store.Page, error) {
	sum := record.DigestOf(scope, &q)
	var given cursor
	if q.Cursor != "" {
		var err error
		if given, err = decodeCursor(q.Cursor, sum); err != nil {
			return nil, err
		}
	}
	var page *store.Page
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		at := given
		if q.Cursor == "" {
			at = cursor{after: math.MaxInt64}
			if err := at.look(ctx, c); err != nil {
				return err
			}
		}
		options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
		return pgx.BeginTxFunc(ctx, c, options, func(tx pgx.Tx) (err error) {
			l := &lister{tx: tx, scope: scope, query: &q, from: firstSince(q.After)}
			page, err = l.page(ctx, &at, sum)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// look fixes the snapshot of a list. It has to come before the transaction that
// reads the tasks: what was in flight before may be committed by then, and is
// not taken for a part of the snapshot; everything else up to the newest
// revision is there.
func (c *cursor) look(ctx context.Context, db session) error {
	var rev, key int64
	var inflight []int64
	if err := db.QueryRow(ctx, "SELECT revision, inflight, newest_key FROM horizon()").Scan(&rev, &inflight, &key); err != nil {
		return err
	}
	if len(inflight) > maxInflight {
		return fmt.Errorf("%w: %d commits at once", store.ErrUnavailable, len(inflight))
	}
	c.setHorizon(rev, inflight, key)
	return nil
}

func (l *lister) page(ctx context.Context, at *cursor, sum record.Digest) (*store.Page, error) {
	if err := l.findRealms(ctx); err != nil {
		return nil, err
	}
	total, err := l.total(ctx)
	if err != nil {
		return nil, err
	}
	page := &store.Page{Total: int(total)}
	if l.query.PageSize <= 0 {
		return page, nil
	}
	entries, err := l.entries(ctx, at, l.query.PageSize+1)
	if err != nil {
		return nil, err
	}
	if len(entries) > l.query.PageSize {
		entries = entries[:l.query.PageSize]
		at.after = entries[l.query.PageSize-1].position
		page.Next = at.encode(sum)
	}
	page.Items, err = l.items(ctx, entries)
	return page, err
}

// where returns the condition that a realm r is one of the list.
func (l *lister) where(args *arguments) string {
	condition := within(l.scope, args)
	if l.query.Agent != "" {
		condition += " AND r.agent = " + args.add([]byte(l.query.Agent))
	}
	return condition
}

// findRealms finds out which realms to read.
func (l *lister) findRealms(ctx context.Context) error {
	var args arguments
	where := l.where(&args)
	state := ""
	if l.query.State != 0 {
		state = " AND x.state = " + args.add(int64(l.query.State))
	}
	// Subqueries with a limit stay what they are: a search in an index each.
	query := "SELECT r.id FROM realms r CROSS JOIN LATERAL ((SELECT 1 FROM totals x WHERE x.realm = r.id" + state +
		" LIMIT 1) UNION ALL (SELECT 1 FROM total_deltas x WHERE x.realm = r.id" + state + " LIMIT 1) LIMIT 1) counted WHERE " + where
	if l.query.Context != "" {
		named := " x.context = " + args.add([]byte(l.query.Context)) + state
		query = "SELECT r.id FROM (SELECT x.realm FROM context_totals x WHERE" + named + " UNION SELECT x.realm FROM context_deltas x WHERE" + named +
			") counted CROSS JOIN LATERAL (SELECT * FROM realms o WHERE o.id = counted.realm LIMIT 1) r WHERE " + where
	}
	rows, err := l.tx.Query(ctx, query+" LIMIT "+args.add(maxMerged+1), args...)
	if err != nil {
		return err
	}
	l.realms, err = pgx.AppendRows([]int64{}, rows, pgx.RowTo[int64])
	if len(l.realms) > maxMerged {
		l.realms = nil
	}
	return err
}

// rev returns the revision of a task as it stands in the index that is to be
// read: that of all tasks, or one of those that have the realm.
func (l *lister) rev(table string) string {
	if l.realms == nil {
		return "(" + table + ".rev + 0)"
	}
	return table + ".rev"
}

// states returns the numbers of the states that the query asks for.
func (l *lister) states() []int64 {
	if l.query.State != 0 {
		return []int64{int64(l.query.State)}
	}
	return []int64{1, 2, 3, 4, 5, 6, 7, 8}
}

// total counts the tasks of all pages: from the totals, or one by one when the
// time of the status counts.
func (l *lister) total(ctx context.Context) (n int64, err error) {
	var args arguments
	condition := "x.state = ANY(" + args.add(l.states()) + "::smallint[])"
	if l.query.Context != "" {
		condition += " AND x.context = " + args.add([]byte(l.query.Context))
	}
	tables, sum := []string{"totals", "total_deltas"}, "sum(x.n)"
	switch {
	case !l.query.After.IsZero():
		tables, sum = []string{"tasks"}, "count(*)"
		condition += " AND " + l.rev("x") + " >= " + args.add(l.from)
	case l.query.Context != "":
		tables = []string{"context_totals", "context_deltas"}
	}
	// Either each realm is looked up, or the realm of each is checked.
	from := ""
	switch {
	case l.realms != nil:
		condition += " AND x.realm = w.realm"
		from = " FROM unnest(" + args.add(l.realms) + "::integer[]) AS w(realm)"
	case l.scope.All() && l.query.Agent == "":
	case tables[0] == "totals":
		condition += " AND x.realm = r.id"
		from = " FROM realms r WHERE " + l.where(&args)
	default:
		condition += " AND x.realm IN (SELECT r.id FROM realms r WHERE " + l.where(&args) + ")"
	}
	var parts []string
	for _, table := range tables {
		parts = append(parts, "coalesce((SELECT "+sum+" FROM "+table+" x WHERE "+condition+"), 0)")
	}
	counted := strings.Join(parts, " + ")
	if from != "" {
		counted = "coalesce(sum(" + counted + "), 0)"
	}
	err = l.tx.QueryRow(ctx, "SELECT ("+counted+")::bigint"+from, args...).Scan(&n)
	return n, err
}

// entries returns the next entries in order, at most n.
func (l *lister) entries(ctx context.Context, at *cursor, n int) ([]listed, error) {
	still, err := l.unmoved(ctx, at, n)
	if err != nil {
		return nil, err
	}
	moved, err := l.moved(ctx, at, n)
	if err != nil {
		return nil, err
	}
	all := append(still, moved...)
	slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(b.position, a.position) })
	return all[:min(n, len(all))], nil
}

// ranges returns the revisions of the snapshot, or those that are not in it,
// within bounds.
func (c *cursor) ranges(in bool, low, high int64) (lows, highs []int64) {
	add := func(l, h int64) {
		if l, h = max(l, low), min(h, high); l <= h {
			lows, highs = append(lows, l), append(highs, h)
		}
	}
	top := c.rev
	if !in {
		add(top+1, math.MaxInt64)
	}
	for _, unit := range c.inflight {
		first, last := unit<<unitBits, (unit+1)<<unitBits-1
		if in {
			add(last+1, top)
		} else {
			add(first, min(last, c.rev))
		}
		top = first - 1
	}
	if in {
		add(0, top)
	}
	return lows, highs
}

// unmoved returns entries of tasks whose status is that of the snapshot.
func (l *lister) unmoved(ctx context.Context, at *cursor, n int) ([]listed, error) {
	lows, highs := at.ranges(true, l.from, at.after-1)
	var args arguments
	query := l.scan(&args, lows, highs, "", args.add(n))
	return collectListed(l.tx.Query(ctx, query+" ORDER BY 1 DESC LIMIT $1", args...))
}

// moved returns entries of tasks whose status is newer than the snapshot, at
// the position that they had in it.
func (l *lister) moved(ctx context.Context, at *cursor, n int) ([]listed, error) {
	lows, highs := at.ranges(false, l.from, math.MaxInt64)
	if len(lows) == 0 {
		return nil, nil
	}
	var args arguments
	limit := args.add(n)
	key := args.add(at.key)
	rev, units := args.add(at.rev), args.add(append([]int64{}, at.inflight...)) // none is not null
	scan := l.scan(&args, lows, highs, "t.key + 0 <= "+key, "")                 // not by the index of keys
	after := args.add(at.after)
	outside := "(w.rev > " + rev + " OR w.rev >> " + fmt.Sprint(unitBits) + " = ANY(" + units + "::bigint[]))"
	// Each task goes back from status to status until it is in the snapshot.
	return collectListed(l.tx.Query(ctx, `WITH RECURSIVE moves AS MATERIALIZED (`+scan+`), walk AS (
  SELECT m.rev, m.key, e.prev_status FROM moves m
  CROSS JOIN LATERAL (SELECT t.status_row FROM tasks t WHERE t.key = m.key LIMIT 1) t
  CROSS JOIN LATERAL (SELECT e.prev_status FROM events e WHERE e.task = m.key AND e.seq = t.status_row LIMIT 1) e
  UNION ALL
  SELECT e.rev, w.key, e.prev_status FROM walk w
  CROSS JOIN LATERAL (SELECT e.rev, e.prev_status FROM events e WHERE e.task = w.key AND e.seq = w.prev_status LIMIT 1) e WHERE `+outside+`
) SELECT w.rev, w.key FROM walk w WHERE w.rev < `+after+` AND NOT `+outside+` ORDER BY 1 DESC LIMIT `+limit, args...))
}

// scan returns a query for revision and key of the tasks of the list with a
// revision in one of the ranges, for which a condition holds. Over few realms
// it merges the ranges of the states in each, which lie in order in an index;
// otherwise it reads the index over all tasks. Each range gives the newest, up
// to a limit, if there is one.
func (l *lister) scan(args *arguments, lows, highs []int64, condition, limit string) string {
	ranges := "unnest(" + args.add(lows) + "::bigint[], " + args.add(highs) + "::bigint[]) AS w(low, high)"
	conditions := []string{l.rev("t") + " BETWEEN w.low AND w.high"}
	if condition != "" {
		conditions = append(conditions, condition)
	}
	if l.query.Context != "" {
		conditions = append(conditions, "t.context = "+args.add([]byte(l.query.Context)))
	}
	if l.realms != nil {
		ranges += ", unnest(" + args.add(l.realms) + "::integer[]) AS o(realm), unnest(" + args.add(l.states()) + "::smallint[]) AS s(state)"
		conditions = append(conditions, "t.realm = o.realm AND t.state = s.state")
	} else {
		if !l.scope.All() || l.query.Agent != "" {
			conditions = append(conditions, "t.realm IN (SELECT r.id FROM realms r WHERE "+l.where(args)+")")
		}
		if l.query.State != 0 {
			conditions = append(conditions, "t.state = "+args.add(int64(l.query.State)))
		}
	}
	rows := "SELECT t.rev, t.key FROM tasks t WHERE " + strings.Join(conditions, " AND ")
	if limit != "" {
		rows += " ORDER BY " + l.rev("t") + " DESC LIMIT " + limit
	} else {
		rows += " OFFSET 0" // one range after the other, each in the index
	}
	return "SELECT p.rev, p.key FROM " + ranges + " CROSS JOIN LATERAL (" + rows + ") p"
}

func collectListed(rows pgx.Rows, err error) ([]listed, error) {
	if err != nil {
		return nil, err
	}
	var e listed
	var found []listed
	_, err = pgx.ForEachRow(rows, []any{&e.position, &e.key}, func() error {
		found = append(found, e)
		return nil
	})
	return found, err
}

// items reads the tasks of the entries.
func (l *lister) items(ctx context.Context, entries []listed) ([]store.Item, error) {
	keys := make([]int64, len(entries))
	for i, e := range entries {
		keys[i] = e.key
	}
	heads, err := collectHeads(l.tx.Query(ctx, "SELECT "+taskColumns+headColumns+headTables+" WHERE t.key = ANY($1::bigint[])", keys))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(heads, func(a, b head) int {
		return cmp.Compare(slices.Index(keys, a.task.Key), slices.Index(keys, b.task.Key))
	})
	want := l.query.Want
	want.UpTo = 0
	found, err := readItems(ctx, l.tx, heads, want)
	if err != nil {
		return nil, err
	}
	items := make([]store.Item, 0, len(found))
	for _, item := range found {
		if item == nil {
			return nil, record.ErrDamaged // nothing is removed in one snapshot
		}
		items = append(items, *item)
	}
	return items, nil
}
