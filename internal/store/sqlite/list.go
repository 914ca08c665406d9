package sqlite

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// maxMerged is how many realms are read one by one and merged. A list over more
// of them reads the index over all tasks instead.
const maxMerged = 64

// entry is a task in a list: where it stands, and which it is.
type entry struct {
	position int64
	key      int64
}

// lister makes one page.
type lister struct {
	conn  *conn
	ctx   context.Context // ends long counts
	scope store.Scope
	query *store.ListQuery

	where  string  // a realm r of the scope and the agent
	args   []any   // of where
	realms []int64 // that have such tasks; nil when they are too many
	from   int64   // revision of the first status that is new enough
}

// List returns a page of tasks, newest status first.
func (s *Store) List(ctx context.Context, scope store.Scope, q store.ListQuery) (*store.Page, error) {
	sum := record.DigestOf(scope, &q)
	at := cursor{after: math.MaxInt64}
	if q.Cursor != "" {
		var err error
		if at, err = decodeCursor(q.Cursor, sum); err != nil {
			return nil, err
		}
	}
	page := &store.Page{}
	err := s.snapshot(ctx, func(c *conn) error {
		l := &lister{conn: c, ctx: ctx, scope: scope, query: &q}
		var rev, key int64
		if _, err := c.one(func(v values) { rev, key = integer(v[0]), integer(v[1]) }, "SELECT rev, key FROM clock"); err != nil {
			return err
		}
		if q.Cursor == "" {
			at.rev, at.key = rev, key
		} else if at.rev > rev {
			return store.ErrBadCursor // of the store that this one was filled from
		}
		if err := l.prepare(); err != nil {
			return err
		}
		total, err := l.total()
		if err != nil {
			return err
		}
		page.Total = int(total)
		if q.PageSize <= 0 {
			return nil
		}
		entries, err := l.entries(at, q.PageSize+1)
		if err != nil {
			return err
		}
		if len(entries) > q.PageSize {
			entries = entries[:q.PageSize]
			at.after = entries[q.PageSize-1].position
			page.Next = at.encode(sum)
		}
		page.Items, err = l.items(entries)
		return err
	})
	if err != nil {
		return nil, unavailable(err)
	}
	return page, nil
}

// prepare finds out which realms to read, and from which revision on.
func (l *lister) prepare() error {
	l.where, l.args = within(l.scope)
	if l.query.Agent != "" {
		l.where += " AND r.agent = ?"
		l.args = append(l.args, l.query.Agent)
	}
	text := "SELECT r.id FROM realms r WHERE " + l.where + " AND EXISTS (SELECT 1 FROM totals o WHERE o.realm = r.id"
	args := slices.Clone(l.args)
	if l.query.State != 0 {
		text += " AND o.state = ?"
		args = append(args, int64(l.query.State))
	}
	args = append(args, int64(maxMerged+1))
	l.realms = []int64{}
	err := l.conn.each(l.ctx, func(v values) bool {
		l.realms = append(l.realms, integer(v[0]))
		return true
	}, text+") LIMIT ?", args...)
	if err != nil {
		return err
	}
	if len(l.realms) > maxMerged {
		l.realms = nil
	}
	if !l.query.After.IsZero() {
		l.from, err = firstSince(l.conn, l.query.After)
	}
	return err
}

// firstSince returns the revision of the first task whose status is not older
// than a time. Time never decreases as revisions grow, so it can be bisected.
func firstSince(c *conn, after time.Time) (int64, error) {
	ms := after.UnixMilli()
	if after.After(time.UnixMilli(ms)) {
		ms++ // statuses are whole milliseconds
	}
	low := int64(0)
	high, err := c.number(context.Background(), "SELECT rev + 1 FROM clock")
	if err != nil {
		return 0, err
	}
	for low < high {
		middle := low + (high-low)/2
		rev, at := high, int64(math.MaxInt64)
		if _, err := c.one(func(v values) { rev, at = integer(v[0]), integer(v[1]) },
			"SELECT rev, status_at FROM tasks WHERE rev >= ? ORDER BY rev LIMIT 1", middle); err != nil {
			return 0, err
		}
		if at >= ms {
			high = middle
		} else {
			low = rev + 1
		}
	}
	return low, nil
}

// states returns the numbers of the states that the query asks for.
func (l *lister) states() []int {
	if l.query.State != 0 {
		return []int{int(l.query.State)}
	}
	return []int{1, 2, 3, 4, 5, 6, 7, 8}
}

// total counts the tasks of all pages: from the totals, or one by one when the
// time of the status counts.
func (l *lister) total() (int64, error) {
	filter, args := "", []any(nil)
	if l.query.Context != "" {
		filter, args = filter+" AND x.context = ?", append(args, l.query.Context)
	}
	if l.query.State != 0 {
		filter, args = filter+" AND x.state = ?", append(args, int64(l.query.State))
	}
	if !l.query.After.IsZero() {
		filter, args = filter+" AND x.state IN (1,2,3,4,5,6,7,8) AND x.rev >= ?", append(args, l.from)
		return l.sum("SELECT count(*) FROM tasks x", filter, args)
	}
	if l.query.Context != "" {
		return l.sum("SELECT sum(x.n) FROM context_totals x", filter, args)
	}
	return l.sum("SELECT sum(x.n) FROM totals x", filter, args)
}

// sum adds up a query over the realms of the list.
func (l *lister) sum(text, filter string, args []any) (int64, error) {
	if l.realms == nil {
		if l.scope.All() && l.query.Agent == "" {
			return l.conn.number(l.ctx, text+" WHERE 1"+filter, args...)
		}
		return l.conn.number(l.ctx, text+" WHERE x.realm IN (SELECT r.id FROM realms r WHERE "+l.where+")"+filter, append(slices.Clone(l.args), args...)...)
	}
	var total int64
	for _, realm := range l.realms {
		n, err := l.conn.number(l.ctx, text+" WHERE x.realm = ?"+filter, append([]any{realm}, args...)...)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// entries returns the next entries in order, at most n.
func (l *lister) entries(at cursor, n int) ([]entry, error) {
	still, err := l.unmoved(at, n)
	if err != nil {
		return nil, err
	}
	moved, err := l.moved(at)
	if err != nil {
		return nil, err
	}
	all := append(still, moved...)
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(b.position, a.position) })
	return all[:min(n, len(all))], nil
}

// unmoved returns entries of tasks whose status is that of the snapshot.
func (l *lister) unmoved(at cursor, n int) ([]entry, error) {
	var found []entry
	take := func(v values) bool {
		found = append(found, entry{position: integer(v[0]), key: integer(v[1])})
		return true
	}
	until := min(at.after-1, at.rev)
	err := l.scan(take, " ORDER BY 1 DESC LIMIT ?", []any{int64(n)}, "t.rev BETWEEN ? AND ?", l.from, until)
	return found, err
}

// moved returns entries of tasks whose status is newer than the snapshot, at
// the position that they had in it.
func (l *lister) moved(at cursor) ([]entry, error) {
	var moves []int64
	take := func(v values) bool {
		moves = append(moves, integer(v[1]))
		return true
	}
	if err := l.scan(take, "", nil, "t.rev >= ? AND t.key <= ?", max(l.from, at.rev+1), at.key); err != nil {
		return nil, err
	}
	var found []entry
	for _, key := range moves {
		seq, err := l.conn.number(l.ctx, "SELECT status_row FROM tasks WHERE key = ?", key)
		if err != nil {
			return nil, err
		}
		var rev int64
		for seq != 0 {
			if _, err := l.conn.one(func(v values) { rev, seq = integer(v[0]), integer(v[1]) },
				"SELECT rev, prev_status FROM events WHERE id = ?", rowID(key, seq)); err != nil {
				return nil, err
			}
			if rev <= at.rev {
				break
			}
		}
		if rev <= at.rev && rev < at.after {
			found = append(found, entry{position: rev, key: key})
		}
	}
	return found, nil
}

// scan reads revision and key of the tasks of the list for which a condition
// holds. Over few realms it merges the ranges of the states in each, which lie
// in order in an index; otherwise it reads the index over all tasks.
func (l *lister) scan(yield func(v values) bool, end string, last []any, condition string, low, high int64) error {
	if l.realms == nil {
		text := "SELECT t.rev, t.key FROM tasks t WHERE " + condition
		args := []any{low, high}
		if !l.scope.All() || l.query.Agent != "" {
			text += " AND t.realm IN (SELECT r.id FROM realms r WHERE " + l.where + ")"
			args = append(args, l.args...)
		}
		if l.query.State != 0 {
			text += " AND t.state = " + strconv.Itoa(int(l.query.State))
		}
		if l.query.Context != "" {
			text += " AND t.context = ?"
			args = append(args, l.query.Context)
		}
		return l.conn.each(l.ctx, yield, text+end, append(args, last...)...)
	}
	for _, realm := range l.realms {
		var text strings.Builder
		var args []any
		for i, state := range l.states() {
			if i > 0 {
				text.WriteString(" UNION ALL ")
			}
			text.WriteString("SELECT t.rev, t.key FROM tasks t WHERE t.realm = ?")
			args = append(args, realm)
			if l.query.Context != "" {
				text.WriteString(" AND t.context = ?")
				args = append(args, l.query.Context)
			}
			text.WriteString(" AND t.state = " + strconv.Itoa(state) + " AND " + condition)
			args = append(args, low, high)
		}
		if err := l.conn.each(l.ctx, yield, text.String()+end, append(args, last...)...); err != nil {
			return err
		}
	}
	return nil
}

// items reads the tasks of the entries.
func (l *lister) items(entries []entry) ([]store.Item, error) {
	want := l.query.Want
	want.UpTo = 0
	items := make([]store.Item, 0, len(entries))
	for _, e := range entries {
		var t record.Row
		if _, err := l.conn.one(func(v values) { t = scanTask(v) },
			"SELECT "+taskColumns+" FROM tasks t CROSS JOIN realms r ON r.id = t.realm WHERE t.key = ?", e.key); err != nil {
			return nil, err
		}
		item, err := readItem(l.conn, &t, want)
		if err != nil {
			return nil, err
		}
		items = append(items, *item)
	}
	return items, nil
}
