package sqlite

import (
	"context"
	"math"
	"strings"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// inboxColumns are what scanItem reads of the table inbox i.
const inboxColumns = `i.id, i.kind, i.task, i.tenant, i.owner, i.turn, i.grant_id, i.agent, i.peer, i.ref, i.text, i.schema, i.url, i.op,
 i.created, i.due, i.assignee, i.reminded, i.settled, i.decider, i.decision, i.words, i.rank, i.n`

func scanItem(v values) store.InboxItem {
	return store.InboxItem{
		ID: text(v[0]), Kind: store.InboxKind(integer(v[1])), Task: text(v[2]), Tenant: text(v[3]), Owner: text(v[4]), Turn: int(integer(v[5])),
		Grant: text(v[6]), Agent: text(v[7]), Peer: integer(v[8]) != 0, Ref: text(v[9]), Text: text(v[10]), Schema: blob(v[11]),
		URL: text(v[12]), Op: text(v[13]), Created: moment(v[14]), Due: moment(v[15]), Assignee: text(v[16]), Reminded: int(integer(v[17])),
		Settled: moment(v[18]), By: text(v[19]), Decision: text(v[20]), Words: text(v[21]),
	}
}

const (
	insertItem = `INSERT INTO inbox (id, kind, task, tenant, owner, turn, grant_id, agent, peer, ref, text, schema, url, op,
 created, due, assignee, reminded, settled, decider, decision, words, rank, closed) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`
	insertEntry = "INSERT INTO inbox_history (item, at, doer, what, words) VALUES (?,?,?,?,?)"
)

// insertItemArgs are the arguments of insertItem.
func insertItemArgs(i *store.InboxItem) []any {
	return []any{
		i.ID, int64(i.Kind), i.Task, i.Tenant, i.Owner, int64(i.Turn), i.Grant, i.Agent, record.Flag(i.Peer), i.Ref, i.Text, optional(i.Schema), i.URL, i.Op,
		record.Milliseconds(i.Created), record.Milliseconds(i.Due), i.Assignee, int64(i.Reminded), record.Milliseconds(i.Settled), i.By, i.Decision, i.Words,
		record.Rank(i), record.Flag(!i.Settled.IsZero()),
	}
}

// checkSettles refuses a change that settles an item which is not open.
func (w *writer) checkSettles(s *store.InboxSettle) error {
	if s.ID == "" {
		return nil
	}
	n, err := w.conn.number(context.Background(), "SELECT count(*) FROM inbox WHERE id=? AND closed=0", s.ID)
	if err == nil && n == 0 {
		err = refusal{store.ErrConflict}
	}
	return err
}

// putInbox settles what a change settles, and puts its item into the inbox.
func (w *writer) putInbox(t *record.Row, c *store.Change, at time.Time) error {
	if s := c.Settles; s != nil {
		if s.ID != "" {
			if err := w.settleItems("id", s.ID, s, at); err != nil {
				return err
			}
		}
		if t != nil {
			if err := w.settleItems("task", t.ID, s, at); err != nil {
				return err
			}
		}
	}
	i := c.Item
	if i == nil {
		return nil
	}
	if t != nil {
		i.Task, i.Tenant, i.Owner = t.ID, t.Tenant, t.Owner
	}
	if i.Created.IsZero() {
		i.Created = at
	}
	n, err := w.conn.run(insertItem+" ON CONFLICT DO NOTHING", insertItemArgs(i)...)
	if err != nil || n == 0 {
		return err
	}
	_, err = w.conn.run(insertEntry, i.ID, at.UnixMilli(), i.Agent, "created", "")
	return err
}

// settleItems settles the open items that have a value in a column.
func (w *writer) settleItems(column, value string, s *store.InboxSettle, at time.Time) error {
	n, err := w.conn.run("INSERT INTO inbox_history (item, at, doer, what, words) SELECT id, ?, ?, ?, ? FROM inbox WHERE "+column+"=? AND closed=0",
		at.UnixMilli(), s.By, s.Decision, s.Words, value)
	if err != nil || n == 0 {
		return err
	}
	_, err = w.conn.run("UPDATE inbox SET closed=1, rank=?1, settled=?1, decider=?2, decision=?3, words=?4 WHERE "+column+"=?5 AND closed=0",
		at.UnixMilli(), s.By, s.Decision, s.Words, value)
	return err
}

func findItem(c *conn, scope store.Scope, id string) (*store.InboxItem, error) {
	condition, args := owned(scope, "+", "i")
	var item *store.InboxItem
	_, err := c.one(func(v values) { item = new(scanItem(v)) }, "SELECT "+inboxColumns+" FROM inbox i WHERE i.id = ? AND "+condition, append([]any{id}, args...)...)
	if err != nil {
		return nil, unavailable(err)
	}
	if item == nil {
		return nil, store.ErrNotFound
	}
	return item, nil
}

// InboxItem returns an item.
func (s *Store) InboxItem(ctx context.Context, scope store.Scope, id string) (item *store.InboxItem, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		item, err = findItem(c, scope, id)
		return err
	})
	return item, err
}

// InboxItems returns a page of items.
func (s *Store) InboxItems(ctx context.Context, scope store.Scope, q store.InboxQuery) (*store.InboxPage, error) {
	digest := record.DigestOfQuery(scope, "inbox", q.Task, q.Kind, q.Assignee, q.Settled, record.Milliseconds(q.DueBy))
	rank, n, order, after := int64(0), int64(0), " ORDER BY i.rank, i.n", " AND (i.rank, i.n) > (?, ?)"
	if q.Settled {
		rank, n, order, after = math.MaxInt64, math.MaxInt64, " ORDER BY i.rank DESC, i.n DESC", " AND (i.rank, i.n) < (?, ?)"
	}
	if q.Cursor != "" {
		at, err := digest.Open(q.Cursor, record.MaxPageCursor)
		if err != nil || len(at) != 2 {
			return nil, store.ErrBadCursor
		}
		rank, n = at[0], at[1]
	}
	// One condition chooses the index, the others only filter.
	var conditions []string
	var args []any
	plus := ""
	switch {
	case q.Task != "":
		conditions, args, plus = append(conditions, "i.task = ?"), append(args, q.Task), "+"
	case q.Assignee != "":
		conditions, args, plus = append(conditions, "i.assignee <> '' AND i.assignee = ?"), append(args, q.Assignee), "+"
	}
	condition, scoped := owned(scope, plus, "i")
	conditions, args = append(conditions, condition), append(args, scoped...)
	if q.Task != "" && q.Assignee != "" {
		conditions, args = append(conditions, "+i.assignee = ?"), append(args, q.Assignee)
	}
	if q.Kind != 0 {
		conditions, args = append(conditions, "i.kind = ?"), append(args, int64(q.Kind))
	}
	if !q.DueBy.IsZero() {
		conditions, args = append(conditions, "i.due > 0 AND i.due <= ?"), append(args, record.Milliseconds(q.DueBy))
	}
	where := " FROM inbox i WHERE i.closed = ? AND " + strings.Join(conditions, " AND ")
	page := &store.InboxPage{}
	type place struct{ rank, n int64 }
	var places []place
	err := s.snapshot(ctx, func(c *conn) error {
		err := c.each(ctx, func(v values) bool {
			page.Items, places = append(page.Items, scanItem(v)), append(places, place{integer(v[22]), integer(v[23])})
			return true
		}, "SELECT "+inboxColumns+where+after+order+" LIMIT ?", append(append([]any{record.Flag(q.Settled)}, args...), rank, n, int64(q.PageSize)+1)...)
		if err == nil && q.Cursor == "" {
			var total int64
			total, err = c.number(ctx, "SELECT count(*)"+where, append([]any{int64(0)}, args...)...)
			page.Total = int(total)
		}
		return unavailable(err)
	})
	if err != nil {
		return nil, err
	}
	if len(page.Items) > q.PageSize {
		page.Items = page.Items[:q.PageSize]
		last := places[q.PageSize-1]
		page.Next = digest.Seal(last.rank, last.n)
	}
	return page, nil
}

// UpdateInbox changes an open item.
func (s *Store) UpdateInbox(ctx context.Context, scope store.Scope, u *store.InboxUpdate) error {
	return s.write(ctx, func(w *writer, at time.Time) error {
		item, err := findItem(w.conn, scope, u.ID)
		switch {
		case err == store.ErrNotFound:
			return refusal{err}
		case err != nil:
			return err
		case !item.Settled.IsZero():
			return refusal{store.ErrConflict}
		}
		u.Entry.At = at
		record.Update(item, u)
		if _, err := w.conn.run("UPDATE inbox SET assignee=?, due=?, reminded=?, settled=?, decider=?, decision=?, words=?, rank=?, closed=? WHERE id=?",
			item.Assignee, record.Milliseconds(item.Due), int64(item.Reminded), record.Milliseconds(item.Settled), item.By, item.Decision, item.Words,
			record.Rank(item), record.Flag(!item.Settled.IsZero()), item.ID); err != nil {
			return err
		}
		e := &u.Entry
		_, err = w.conn.run(insertEntry, item.ID, at.UnixMilli(), e.By, e.What, e.Words)
		return err
	})
}

// InboxHistory returns what happened to an item, oldest first.
func (s *Store) InboxHistory(ctx context.Context, scope store.Scope, id string) (list []store.InboxEntry, err error) {
	err = s.snapshot(ctx, func(c *conn) error {
		if _, err := findItem(c, scope, id); err != nil {
			return err
		}
		return unavailable(c.each(ctx, func(v values) bool {
			list = append(list, store.InboxEntry{At: moment(v[0]), By: text(v[1]), What: text(v[2]), Words: text(v[3])})
			return true
		}, "SELECT at, doer, what, words FROM inbox_history WHERE item = ? ORDER BY n", id))
	})
	return list, err
}
