package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// within returns the condition that a realm r is in a scope.
func within(scope store.Scope, args *arguments) string {
	if scope.All() {
		return "true"
	}
	if tenant, owner, ok := scope.Owner(); ok {
		return "r.tenant = " + args.add([]byte(tenant)) + " AND r.owner = " + args.add([]byte(owner))
	}
	if tenant, ok := scope.Tenant(); ok {
		return "r.tenant = " + args.add([]byte(tenant))
	}
	return "false"
}

// collectTasks returns the rows of a query for taskColumns.
func collectTasks(rows pgx.Rows, err error) ([]*record.Row, error) {
	if err != nil {
		return nil, err
	}
	var s rowScanner
	var tasks []*record.Row
	_, err = pgx.ForEachRow(rows, s.targets(), func() error {
		tasks = append(tasks, s.take())
		return nil
	})
	return tasks, err
}

// find returns the row of a task; lock is a clause that locks it.
func find(ctx context.Context, db session, scope store.Scope, id, lock string) (*record.Row, error) {
	args := arguments{[]byte(id)}
	condition := within(scope, &args)
	tasks, err := collectTasks(db.Query(ctx, "SELECT "+taskColumns+" FROM tasks t JOIN realms r ON r.id = t.realm WHERE t.id = $1 AND "+condition+lock, args...))
	if err != nil {
		return nil, err
	}
	if len(tasks) == 0 {
		return nil, store.ErrNotFound
	}
	return tasks[0], nil
}

// Task returns the row of a task.
func (s *Store) Task(ctx context.Context, scope store.Scope, id string) (*store.Task, error) {
	var t *record.Row
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		t, err = find(ctx, c, scope, id, "")
		return err
	})
	if err != nil {
		return nil, err
	}
	return &t.Task, nil
}

// Tasks returns the rows of those tasks that exist. The limits keep a planner
// from reading a whole table when many are asked for.
func (s *Store) Tasks(ctx context.Context, scope store.Scope, ids []string) ([]store.Task, error) {
	if len(ids) > store.MaxTasks {
		return nil, store.ErrTooMany
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var tasks []store.Task
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		args := arguments{bytesOf(ids)}
		condition := within(scope, &args)
		rows, err := collectTasks(c.Query(ctx, "SELECT "+taskColumns+` FROM (SELECT DISTINCT id FROM unnest($1::bytea[]) AS u(id)) w
 CROSS JOIN LATERAL (SELECT * FROM tasks x WHERE x.id = w.id LIMIT 1) t
 CROSS JOIN LATERAL (SELECT * FROM realms y WHERE y.id = t.realm LIMIT 1) r WHERE `+condition, args...))
		tasks = make([]store.Task, len(rows))
		for i, row := range rows {
			tasks[i] = row.Task
		}
		return err
	})
	return tasks, err
}

// Read returns a task with what is wanted of its events. All of it is of the
// moment at which the row was read, since rows of events never change.
func (s *Store) Read(ctx context.Context, scope store.Scope, id string, want store.Want) (*store.Item, error) {
	var item *store.Item
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		args := arguments{[]byte(id)}
		condition := within(scope, &args)
		found, err := collectHeads(c.Query(ctx, "SELECT "+taskColumns+headColumns+headTables+" WHERE t.id = $1 AND "+condition, args...))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return store.ErrNotFound
		}
		items, err := readItems(ctx, c, found, want)
		if err == nil && items[0] == nil {
			return store.ErrNotFound // removed meanwhile
		}
		if err == nil {
			item = items[0]
		}
		return err
	})
	return item, err
}

// eventRow is a row of events with its pointers.
type eventRow struct {
	seq, prevStatus, prevArtifact, prevMessage int64
	body                                       []byte
	events                                     []store.Event
}

func (e *eventRow) targets() []any {
	return []any{&e.seq, &e.prevStatus, &e.prevArtifact, &e.prevMessage, &e.body}
}

// head is a task with the row of events that its status is in; that is nil when
// the task was removed meanwhile.
type head struct {
	task   *record.Row
	status *eventRow
}

const (
	headColumns = ", e.seq, e.prev_status, e.prev_artifact, e.prev_message, e.body"
	headTables  = " FROM tasks t JOIN realms r ON r.id = t.realm JOIN events e ON e.task = t.key AND e.seq = t.status_row"
)

func collectHeads(rows pgx.Rows, err error) ([]head, error) {
	if err != nil {
		return nil, err
	}
	var s rowScanner
	var e eventRow
	var heads []head
	_, err = pgx.ForEachRow(rows, append(s.targets(), e.targets()...), func() (err error) {
		found := e
		if found.events, err = record.Parse(e.body, e.seq); err != nil {
			return err
		}
		heads = append(heads, head{s.take(), &found})
		return nil
	})
	return heads, err
}

// chainSQL reads at most $3 rows of a chain of events, from a row on. The last
// events of a task's rows are the newest.
func chainSQL(pointer string) string {
	return `WITH RECURSIVE chain AS (
  SELECT seq, prev_status, prev_artifact, prev_message, body FROM events WHERE task = $1 AND seq = $2
  UNION ALL
  SELECT e.seq, e.prev_status, e.prev_artifact, e.prev_message, e.body FROM chain c JOIN events e ON e.task = $1 AND e.seq = c.` + pointer + `
) SELECT seq, prev_status, prev_artifact, prev_message, body FROM chain LIMIT $3`
}

var (
	statusChain   = chainSQL("prev_status")
	artifactChain = chainSQL("prev_artifact")
	messageChain  = chainSQL("prev_message")
	// The row that holds the last event is on the way of all three chains, or
	// points to where they go on.
	rowWith = "SELECT seq, prev_status, prev_artifact, prev_message, body FROM events WHERE task = $1 AND seq >= $2 ORDER BY seq LIMIT 1"
)

// collectEvents returns the rows of a query for rows of events.
func collectEvents(rows pgx.Rows) ([]*eventRow, error) {
	var e eventRow
	var found []*eventRow
	_, err := pgx.ForEachRow(rows, e.targets(), func() (err error) {
		next := e
		if next.events, err = record.Parse(e.body, e.seq); err != nil {
			return err
		}
		found = append(found, &next)
		return nil
	})
	return found, err
}

// reading is a task while its item is read.
type reading struct {
	head
	upTo      int64 // events after this one are not there
	artifacts []*eventRow
	messages  []*eventRow
	statuses  []*eventRow
	gone      bool
}

// readItems returns tasks with what is wanted of their events, nil for those
// that were removed meanwhile. It takes one round trip, or none when all is in
// the rows that are there; for a task as it was, one more.
func readItems(ctx context.Context, db session, heads []head, want store.Want) ([]*store.Item, error) {
	all := make([]*reading, len(heads))
	for i, h := range heads {
		all[i] = &reading{head: h, upTo: maxSeq, statuses: []*eventRow{h.status}}
	}
	if want.UpTo > 0 {
		if err := goBack(ctx, db, all, want.UpTo); err != nil {
			return nil, err
		}
	}
	var q pgx.Batch
	for _, r := range all {
		if r.gone {
			continue
		}
		artifact, message := r.task.ArtifactRow, r.task.MessageRow
		if r.upTo != maxSeq {
			first := r.status.seq
			artifact, message = first, first
			// Where it goes on from that row is the status, if it has none itself.
			r.chain(&q, statusChain, first, 2, prevStatus, &r.statuses)
		}
		if want.Messages > 0 {
			// Each row of the chain has something for the history, but for the
			// first, and the one of the current status.
			r.chain(&q, messageChain, message, int64(want.Messages)+2, prevMessage, &r.messages)
		}
		if want.Artifacts {
			r.chain(&q, artifactChain, artifact, math.MaxInt32, prevArtifact, &r.artifacts)
		}
	}
	if q.Len() > 0 {
		if err := db.SendBatch(ctx, &q).Close(); err != nil {
			return nil, err
		}
	}
	items := make([]*store.Item, len(all))
	for i, r := range all {
		if !r.gone {
			items[i] = r.item(want)
		}
	}
	return items, nil
}

// goBack makes the readings those of tasks as they were after an event.
func goBack(ctx context.Context, db session, all []*reading, upTo int64) error {
	var q pgx.Batch
	for _, r := range all {
		if upTo >= r.task.Seq {
			continue
		}
		r.upTo = upTo
		q.Queue(rowWith, r.task.Key, upTo).Query(func(rows pgx.Rows) error {
			found, err := collectEvents(rows)
			if r.gone = len(found) == 0; !r.gone {
				r.status = found[0]
			}
			return err
		})
	}
	if q.Len() == 0 {
		return nil
	}
	return db.SendBatch(ctx, &q).Close()
}

func prevStatus(e *eventRow) int64   { return e.prevStatus }
func prevArtifact(e *eventRow) int64 { return e.prevArtifact }
func prevMessage(e *eventRow) int64  { return e.prevMessage }

// chain reads rows of a chain, newest first. When the first row is there
// already and the last one too, nothing is asked for.
func (r *reading) chain(q *pgx.Batch, statement string, first, limit int64, prev func(*eventRow) int64, into *[]*eventRow) {
	*into = nil
	if first == 0 {
		return
	}
	if first == r.status.seq && prev(r.status) == 0 {
		*into = []*eventRow{r.status}
		return
	}
	q.Queue(statement, r.task.Key, first, limit).Query(func(rows pgx.Rows) (err error) {
		*into, err = collectEvents(rows)
		r.gone = r.gone || err == nil && len(*into) == 0
		return err
	})
}

// newest calls yield for the events of rows, newest first, until it returns
// false.
func (r *reading) newest(rows []*eventRow, yield func(e *store.Event) bool) {
	for _, row := range rows {
		for i := len(row.events) - 1; i >= 0; i-- {
			if e := &row.events[i]; e.Seq <= r.upTo && !yield(e) {
				return
			}
		}
	}
}

func (r *reading) item(want store.Want) *store.Item {
	item := &store.Item{Task: r.task.Task}
	r.newest(r.statuses, func(e *store.Event) bool {
		if e.Kind == store.KindStatus {
			item.Status = *e
		}
		return e.Kind != store.KindStatus
	})
	r.newest(r.messages, func(e *store.Event) bool {
		if e.Kind == store.KindMessage || e.Kind == store.KindStatus && e.Says && e.Seq != item.Status.Seq {
			item.Messages = append(item.Messages, *e)
		}
		return len(item.Messages) < want.Messages
	})
	r.newest(r.artifacts, func(e *store.Event) bool {
		if e.Kind == store.KindArtifact {
			item.Artifacts = append(item.Artifacts, *e)
		}
		return true
	})
	slices.Reverse(item.Messages)
	slices.Reverse(item.Artifacts)
	return item
}

// Events returns events of a task after a sequence number, in order, as many
// as fit into limit bytes, and at least one when there is one.
func (s *Store) Events(ctx context.Context, task, after int64, limit int) ([]store.Event, error) {
	const portion = 1000 // rows
	var events []store.Event
	size := 0
	after = max(after, 0)
	for more := true; more && after < maxSeq; {
		more = false
		var found []*eventRow
		err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
			// Rows come until those before have reached the limit, so that the
			// server does not send what is not wanted.
			rows, err := c.Query(ctx, `SELECT seq, mark, 0, 0, body FROM (
  SELECT seq, mark, body, sum(octet_length(body)) OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM (
    SELECT seq, mark, body FROM events WHERE task = $1 AND seq > $2 ORDER BY seq LIMIT $4
  ) rows
) sums WHERE before IS NULL OR before < $3 ORDER BY seq`, task, after, limit-size, portion)
			if err != nil {
				return err
			}
			found, err = collectEvents(rows)
			return err
		})
		if err != nil {
			return nil, err
		}
		more = len(found) == portion
		for _, row := range found {
			for _, e := range row.events {
				if e.Seq <= after {
					continue
				}
				e.Mark = store.Mark(row.prevStatus) // which stands in its place
				if size += len(e.Body); size > limit && len(events) > 0 {
					return events, nil
				}
				events = append(events, e)
			}
			if size >= limit {
				return events, nil
			}
			after = row.seq
		}
	}
	return events, nil
}

// Messages returns the user messages of a task from the nth on.
func (s *Store) Messages(ctx context.Context, task, from int64) ([]store.Event, error) {
	var messages []store.Event
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		messages = nil
		var total, newest int64
		err := c.QueryRow(ctx, "SELECT messages, message_row FROM tasks WHERE key = $1", task).Scan(&total, &newest)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNotFound
		}
		if err != nil {
			return err
		}
		want := total - max(from, 1) + 1
		// Statuses are part of the chain too: it is not known how long it is.
		for limit := want + 8; want > int64(len(messages)) && newest != 0; limit *= 2 {
			rows, err := c.Query(ctx, messageChain, task, newest, limit)
			if err != nil {
				return err
			}
			found, err := collectEvents(rows)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return store.ErrNotFound // removed meanwhile
			}
			newest = found[len(found)-1].prevMessage
			r := reading{upTo: maxSeq}
			r.newest(found, func(e *store.Event) bool {
				if e.Kind == store.KindMessage {
					messages = append(messages, *e)
				}
				return int64(len(messages)) < want
			})
		}
		return nil
	})
	slices.Reverse(messages)
	return messages, err
}

// bytes returns what a query answers, nil when it answers nothing.
func (s *Store) bytes(ctx context.Context, query string, args ...any) (a2a.JSON, error) {
	var value []byte
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		err := c.QueryRow(ctx, query, args...).Scan(&value)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return value, err
}

// Private returns the private state of a task, nil when it has none.
func (s *Store) Private(ctx context.Context, task int64) (a2a.JSON, error) {
	return s.bytes(ctx, "SELECT state FROM private WHERE task = $1", task)
}

// Result returns a kept result of a task, nil when there is none.
func (s *Store) Result(ctx context.Context, task int64, key string) (a2a.JSON, error) {
	return s.bytes(ctx, "SELECT value FROM results WHERE task = $1 AND key = $2", task, []byte(key))
}

// Claim returns the claim of a message that was sent before.
func (s *Store) Claim(ctx context.Context, scope store.Scope, agent, key string) (*store.Claim, error) {
	args := arguments{[]byte(agent), []byte(key)}
	condition := within(scope, &args)
	var found *store.Claim
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, "SELECT "+claimColumns+`, r.tenant, r.owner, r.agent FROM realms r JOIN claims c ON c.realm = r.id
 WHERE r.agent = $1 AND c.key = $2 AND (c.expires = 0 OR c.expires > `+nowSQL+`) AND `+condition+" LIMIT 1", args...)
		if err != nil {
			return err
		}
		var s claimScanner
		var tenant, owner, agent []byte
		_, err = pgx.ForEachRow(rows, append(s.targets(), &tenant, &owner, &agent), func() error {
			claim := s.take()
			claim.Tenant, claim.Owner, claim.Agent = string(tenant), string(owner), string(agent)
			found = &claim
			return nil
		})
		return err
	})
	if err == nil && found == nil {
		err = store.ErrNotFound
	}
	return found, err
}

var authRequired = strconv.Itoa(int(a2a.StateAuthRequired))

// grantColumns are what eachGrant reads of the table grants g.
const grantColumns = "g.id, g.task, g.turn, g.operation, g.text, g.url, g.created, g.expires, g.decided, g.approved, g.note, g.data, g.decider"

const grantQuery = "SELECT " + grantColumns + " FROM grants g JOIN tasks t ON t.id = g.task JOIN realms r ON r.id = t.realm WHERE "

// eachGrant calls take for every row of a query for grantColumns.
func eachGrant(rows pgx.Rows, take func(store.Grant) error) error {
	var g store.Grant
	var id, task, operation, text, url, note, by []byte
	var created, expires, decided int64
	var approved int16
	_, err := pgx.ForEachRow(rows, []any{&id, &task, &g.Turn, &operation, &text, &url, &created, &expires, &decided, &approved, &note, &g.Data, &by}, func() error {
		g.ID, g.Task, g.Operation, g.Text, g.URL = string(id), string(task), string(operation), string(text), string(url)
		g.Note, g.By, g.Approved = string(note), string(by), approved != 0
		g.Created, g.Expires, g.Decided = record.Time(created), record.Time(expires), record.Time(decided)
		return take(g)
	})
	return err
}

func collectGrants(rows pgx.Rows, err error) (grants []store.Grant, _ error) {
	if err != nil {
		return nil, err
	}
	err = eachGrant(rows, func(g store.Grant) error {
		grants = append(grants, g)
		return nil
	})
	return grants, err
}

// Grant returns a grant request.
func (s *Store) Grant(ctx context.Context, scope store.Scope, id string) (*store.Grant, error) {
	args := arguments{[]byte(id)}
	condition := within(scope, &args)
	var found []store.Grant
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		found, err = collectGrants(c.Query(ctx, grantQuery+"g.id = $1 AND "+condition, args...))
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, store.ErrNotFound
	}
	return &found[0], nil
}

// Grants returns the grant requests that can be decided, oldest first: those of
// tasks that still wait for an authorization, in the turn that asked.
func (s *Store) Grants(ctx context.Context, scope store.Scope, limit int) ([]store.Grant, error) {
	args := arguments{limit}
	condition := within(scope, &args)
	var found []store.Grant
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		found, err = collectGrants(c.Query(ctx, grantQuery+"g.decided = 0 AND t.state = "+authRequired+" AND t.turn = g.turn AND "+condition+" ORDER BY g.created, g.id LIMIT $1", args...))
		return err
	})
	return found, err
}

// Stats counts tasks by agent and state.
func (s *Store) Stats(ctx context.Context, stale time.Time) ([]store.Stat, error) {
	var stats []store.Stat
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		stats = nil
		working := strconv.Itoa(int(a2a.StateWorking))
		rows, err := c.Query(ctx, `WITH counted AS MATERIALIZED (
  SELECT realm, state, sum(n)::bigint AS n FROM (SELECT realm, state, n FROM totals UNION ALL SELECT realm, state, n FROM total_deltas) o
  GROUP BY realm, state HAVING sum(n) > 0
) SELECT r.agent, o.state, sum(o.n)::bigint,
  coalesce(min(CASE WHEN o.state NOT IN (3, 4, 5, 7) THEN (SELECT t.rev FROM tasks t WHERE t.realm = o.realm AND t.state = o.state ORDER BY t.rev LIMIT 1) END), 0),
  sum(CASE WHEN o.state = `+working+` THEN (SELECT count(*) FROM tasks t WHERE t.realm = o.realm AND t.state = `+working+` AND t.rev < $1) ELSE 0 END)::bigint
 FROM counted o JOIN realms r ON r.id = o.realm GROUP BY r.agent, o.state ORDER BY r.agent, o.state`, firstSince(stale))
		if err != nil {
			return err
		}
		var agent []byte
		var state int16
		var oldest int64
		var stat store.Stat
		_, err = pgx.ForEachRow(rows, []any{&agent, &state, &stat.Count, &oldest, &stat.Stale}, func() error {
			stat.Agent, stat.State, stat.Oldest = string(agent), a2a.TaskState(state), time.Time{}
			if oldest != 0 {
				stat.Oldest = timeOf(oldest)
			}
			stats = append(stats, stat)
			return nil
		})
		return err
	})
	return stats, err
}

// firstSince returns the first revision of statuses that are not older than a
// time, 0 for no time.
func firstSince(after time.Time) int64 {
	if after.IsZero() {
		return 0
	}
	ms := after.UnixMilli()
	if after.After(time.UnixMilli(ms)) {
		ms++ // statuses are whole milliseconds
	}
	return revisionAt(min(max(ms, 0), math.MaxInt64>>timeBits))
}
