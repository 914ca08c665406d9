package postgres

import (
	"context"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// inboxColumns are what itemScanner reads of the table inbox i.
const inboxColumns = `i.id, i.kind, i.task, i.tenant, i.owner, i.turn, i.grant_id, i.agent, i.peer, i.ref, i.text, i.schema, i.url, i.op,
 i.created, i.due, i.assignee, i.reminded, i.settled, i.decider, i.decision, i.words, i.rank, i.n`

var itemColumnsCopied = []string{
	"id", "kind", "task", "tenant", "owner", "turn", "grant_id", "agent", "peer", "ref", "text", "schema", "url", "op",
	"created", "due", "assignee", "reminded", "settled", "decider", "decision", "words", "rank", "closed",
}

var putItem = "WITH i AS (INSERT INTO inbox (" + strings.Join(itemColumnsCopied, ", ") + `) VALUES
 ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24) ON CONFLICT (id) DO NOTHING RETURNING id, agent)
 INSERT INTO inbox_history (item, at, doer, what, words) SELECT id, $25, agent, 'created', '' FROM i`

func itemValues(i *store.InboxItem) []any {
	return []any{
		[]byte(i.ID), int64(i.Kind), []byte(i.Task), []byte(i.Tenant), []byte(i.Owner), i.Turn, []byte(i.Grant), []byte(i.Agent), record.Flag(i.Peer),
		[]byte(i.Ref), []byte(i.Text), optional(i.Schema), []byte(i.URL), []byte(i.Op),
		record.Milliseconds(i.Created), record.Milliseconds(i.Due), []byte(i.Assignee), i.Reminded, record.Milliseconds(i.Settled),
		[]byte(i.By), []byte(i.Decision), []byte(i.Words), record.Rank(i), record.Flag(!i.Settled.IsZero()),
	}
}

// itemScanner holds what inboxColumns are scanned into.
type itemScanner struct {
	id, task, tenant, owner, grant, agent, ref, text, schema, url, op []byte
	assignee, by, decision, words                                     []byte
	kind, peer                                                        int16
	created, due, settled, rank, n                                    int64
	row                                                               store.InboxItem
}

func (s *itemScanner) targets() []any {
	i := &s.row
	return []any{
		&s.id, &s.kind, &s.task, &s.tenant, &s.owner, &i.Turn, &s.grant, &s.agent, &s.peer, &s.ref, &s.text, &s.schema, &s.url, &s.op,
		&s.created, &s.due, &s.assignee, &i.Reminded, &s.settled, &s.by, &s.decision, &s.words, &s.rank, &s.n,
	}
}

func (s *itemScanner) take() store.InboxItem {
	i := s.row
	i.ID, i.Kind, i.Task, i.Tenant, i.Owner = string(s.id), store.InboxKind(s.kind), string(s.task), string(s.tenant), string(s.owner)
	i.Grant, i.Agent, i.Peer, i.Ref, i.Text, i.Schema = string(s.grant), string(s.agent), s.peer != 0, string(s.ref), string(s.text), s.schema
	i.URL, i.Op, i.Created, i.Due, i.Assignee = string(s.url), string(s.op), record.Time(s.created), record.Time(s.due), string(s.assignee)
	i.Settled, i.By, i.Decision, i.Words = record.Time(s.settled), string(s.by), string(s.decision), string(s.words)
	return i
}

func findItem(ctx context.Context, db session, scope store.Scope, id, lock string) (*store.InboxItem, error) {
	args := arguments{[]byte(id)}
	rows, err := db.Query(ctx, "SELECT "+inboxColumns+" FROM inbox i WHERE i.id = $1 AND "+owned(scope, "i", &args)+lock, args...)
	if err != nil {
		return nil, err
	}
	var item *store.InboxItem
	var s itemScanner
	_, err = pgx.ForEachRow(rows, s.targets(), func() error {
		item = new(s.take())
		return nil
	})
	if err == nil && item == nil {
		err = store.ErrNotFound
	}
	return item, err
}

// InboxItem returns an item.
func (s *Store) InboxItem(ctx context.Context, scope store.Scope, id string) (item *store.InboxItem, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		item, err = findItem(ctx, c, scope, id, "")
		return err
	})
	return item, err
}

// InboxItems returns a page of items.
func (s *Store) InboxItems(ctx context.Context, scope store.Scope, q store.InboxQuery) (*store.InboxPage, error) {
	digest := record.DigestOfQuery(scope, "inbox", q.Task, q.Kind, q.Assignee, q.Settled, record.Milliseconds(q.DueBy))
	rank, n, order, after := int64(0), int64(0), " ORDER BY i.rank, i.n", " AND (i.rank, i.n) > "
	if q.Settled {
		rank, n, order, after = math.MaxInt64, math.MaxInt64, " ORDER BY i.rank DESC, i.n DESC", " AND (i.rank, i.n) < "
	}
	if q.Cursor != "" {
		at, err := digest.Open(q.Cursor, record.MaxPageCursor)
		if err != nil || len(at) != 2 {
			return nil, store.ErrBadCursor
		}
		rank, n = at[0], at[1]
	}
	args := arguments{}
	conditions := []string{owned(scope, "i", &args)}
	if q.Task != "" {
		conditions = append(conditions, "i.task = "+args.add([]byte(q.Task)))
	}
	if q.Assignee != "" {
		conditions = append(conditions, "i.assignee <> '' AND i.assignee = "+args.add([]byte(q.Assignee)))
	}
	if q.Kind != 0 {
		conditions = append(conditions, "i.kind = "+args.add(int16(q.Kind)))
	}
	if !q.DueBy.IsZero() {
		conditions = append(conditions, "i.due > 0 AND i.due <= "+args.add(record.Milliseconds(q.DueBy)))
	}
	where := strings.Join(conditions, " AND ")
	count, counted := "SELECT count(*) FROM inbox i WHERE i.closed = 0 AND "+where, args[:len(args):len(args)]
	closed := "0"
	if q.Settled {
		closed = "1"
	}
	query := "SELECT " + inboxColumns + " FROM inbox i WHERE i.closed = " + closed + " AND " + where +
		after + "(" + args.add(rank) + ", " + args.add(n) + ")" + order + " LIMIT " + args.add(q.PageSize+1)
	page := &store.InboxPage{}
	var next string
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		page.Items, next = nil, ""
		rows, err := c.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		var row itemScanner
		if _, err := pgx.ForEachRow(rows, row.targets(), func() error {
			if page.Items = append(page.Items, row.take()); len(page.Items) == q.PageSize {
				next = digest.Seal(row.rank, row.n)
			}
			return nil
		}); err != nil || q.Cursor != "" {
			return err
		}
		return c.QueryRow(ctx, count, counted...).Scan(&page.Total)
	})
	if err != nil {
		return nil, err
	}
	if len(page.Items) > q.PageSize {
		page.Items, page.Next = page.Items[:q.PageSize], next
	}
	return page, nil
}

// UpdateInbox changes an open item.
func (s *Store) UpdateInbox(ctx context.Context, scope store.Scope, u *store.InboxUpdate) error {
	entry := u.Entry
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		item, err := findItem(ctx, tx, scope, u.ID, " FOR UPDATE OF i")
		if err != nil {
			return err
		}
		if !item.Settled.IsZero() {
			return store.ErrConflict
		}
		var at int64
		if err := tx.QueryRow(ctx, "SELECT "+nowSQL).Scan(&at); err != nil {
			return err
		}
		u.Entry = entry
		u.Entry.At = record.Time(at)
		record.Update(item, u)
		e := &u.Entry
		var q pgx.Batch
		q.Queue("UPDATE inbox SET assignee = $2, due = $3, reminded = $4, settled = $5, decider = $6, decision = $7, words = $8, rank = $9, closed = $10 WHERE id = $1",
			[]byte(item.ID), []byte(item.Assignee), record.Milliseconds(item.Due), item.Reminded, record.Milliseconds(item.Settled),
			[]byte(item.By), []byte(item.Decision), []byte(item.Words), record.Rank(item), record.Flag(!item.Settled.IsZero()))
		q.Queue("INSERT INTO inbox_history (item, at, doer, what, words) VALUES ($1, $2, $3, $4, $5)", []byte(item.ID), at, []byte(e.By), []byte(e.What), []byte(e.Words))
		return tx.SendBatch(ctx, &q).Close()
	})
}

// InboxHistory returns what happened to an item, oldest first.
func (s *Store) InboxHistory(ctx context.Context, scope store.Scope, id string) (list []store.InboxEntry, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		list = nil
		if _, err := findItem(ctx, c, scope, id, ""); err != nil {
			return err
		}
		rows, err := c.Query(ctx, "SELECT at, doer, what, words FROM inbox_history WHERE item = $1 ORDER BY n", []byte(id))
		if err != nil {
			return err
		}
		var at int64
		var by, what, words []byte
		_, err = pgx.ForEachRow(rows, []any{&at, &by, &what, &words}, func() error {
			list = append(list, store.InboxEntry{At: record.Time(at), By: string(by), What: string(what), Words: string(words)})
			return nil
		})
		return err
	})
	return list, err
}

// optional makes NULL of no bytes.
func optional(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
