package sqlite

import (
	"context"
	"math/bits"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// within returns the condition that a realm r is in a scope, and its
// arguments.
func within(scope store.Scope) (condition string, args []any) {
	if scope.All() {
		return "1", nil
	}
	if tenant, owner, ok := scope.Owner(); ok {
		return "r.tenant = ? AND r.owner = ?", []any{tenant, owner}
	}
	if tenant, ok := scope.Tenant(); ok {
		return "r.tenant = ?", []any{tenant}
	}
	return "0", nil
}

// find returns the row of a task.
func find(c *conn, scope store.Scope, id string) (*record.Row, error) {
	condition, args := within(scope)
	var t record.Row
	found, err := c.one(func(v values) { t = scanTask(v) },
		"SELECT "+taskColumns+" FROM tasks t CROSS JOIN realms r ON r.id = t.realm WHERE t.id = ? AND "+condition,
		append([]any{id}, args...)...)
	if err != nil {
		return nil, unavailable(err)
	}
	if !found {
		return nil, store.ErrNotFound
	}
	return &t, nil
}

// Task returns the row of a task.
func (s *Store) Task(ctx context.Context, scope store.Scope, id string) (*store.Task, error) {
	var t *record.Row
	err := s.read(ctx, func(c *conn) (err error) {
		t, err = find(c, scope, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &t.Task, nil
}

// Tasks returns the rows of those tasks that exist.
func (s *Store) Tasks(ctx context.Context, scope store.Scope, ids []string) ([]store.Task, error) {
	if len(ids) > store.MaxTasks {
		return nil, store.ErrTooMany
	}
	if len(ids) == 0 {
		return nil, nil
	}
	// Ids are asked for again up to a power of two, so that there are few
	// statements.
	n := 1 << bits.Len(uint(len(ids)-1))
	condition, scoped := within(scope)
	args := make([]any, 0, n+len(scoped))
	for i := range n {
		args = append(args, ids[min(i, len(ids)-1)])
	}
	args = append(args, scoped...)
	query := "SELECT " + taskColumns + " FROM tasks t CROSS JOIN realms r ON r.id = t.realm WHERE t.id IN (?" + strings.Repeat(",?", n-1) + ") AND " + condition
	var tasks []store.Task
	err := s.read(ctx, func(c *conn) error {
		return unavailable(c.each(ctx, func(v values) bool {
			tasks = append(tasks, scanTask(v).Task)
			return true
		}, query, args...))
	})
	return tasks, err
}

// Read returns a task with what is wanted of its events.
func (s *Store) Read(ctx context.Context, scope store.Scope, id string, want store.Want) (*store.Item, error) {
	var item *store.Item
	err := s.snapshot(ctx, func(c *conn) error {
		t, err := find(c, scope, id)
		if err != nil {
			return err
		}
		item, err = readItem(c, t, want)
		return err
	})
	return item, err
}

// eventRow is a row of events with its pointers.
type eventRow struct {
	rev                               int64
	prevStatus, prevArtifact, prevMsg int64
	events                            []store.Event
}

// history reads rows of events of one task. It keeps the last one, since the
// status, the artifacts and the messages often lie together.
type history struct {
	conn *conn
	task int64
	upTo int64 // events after this one are not there
	seq  int64 // of the row that is kept
	last *eventRow
}

// row returns the row with that sequence number.
func (h *history) row(seq int64) (*eventRow, error) {
	if h.last != nil && h.seq == seq {
		return h.last, nil
	}
	var e eventRow
	var frame []byte
	found, err := h.conn.one(func(v values) {
		e = eventRow{rev: integer(v[0]), prevStatus: integer(v[1]), prevArtifact: integer(v[2]), prevMsg: integer(v[3])}
		frame = blob(v[4])
	}, "SELECT rev, prev_status, prev_artifact, prev_message, body FROM events WHERE id=?", rowID(h.task, seq))
	if err == nil && !found {
		err = record.ErrDamaged
	}
	if err == nil {
		e.events, err = record.Parse(frame, seq)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	h.seq, h.last = seq, &e
	return &e, nil
}

// walk calls yield for the events of the rows of a chain, newest first, until
// it returns false.
func (h *history) walk(seq int64, prev func(*eventRow) int64, yield func(e *store.Event) bool) error {
	for seq != 0 {
		row, err := h.row(seq)
		if err != nil {
			return err
		}
		for i := len(row.events) - 1; i >= 0; i-- {
			if e := &row.events[i]; e.Seq <= h.upTo && !yield(e) {
				return nil
			}
		}
		seq = prev(row)
	}
	return nil
}

func prevStatus(r *eventRow) int64   { return r.prevStatus }
func prevArtifact(r *eventRow) int64 { return r.prevArtifact }
func prevMessage(r *eventRow) int64  { return r.prevMsg }

// readItem returns a task with what is wanted of its events.
func readItem(c *conn, t *record.Row, want store.Want) (*store.Item, error) {
	item := &store.Item{Task: t.Task}
	h := &history{conn: c, task: t.Key, upTo: maxSeq}
	status, artifact, message := t.StatusRow, t.ArtifactRow, t.MessageRow
	if want.UpTo > 0 && want.UpTo < t.Seq {
		h.upTo = want.UpTo
		// The row that holds the last event is on the way of all three chains,
		// or points to where they go on.
		seq, err := c.number(context.Background(), "SELECT id FROM events WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1",
			rowID(t.Key, want.UpTo), rowID(t.Key, maxSeq))
		if err != nil {
			return nil, unavailable(err)
		}
		seq &= maxSeq
		status, artifact, message = seq, seq, seq
	}
	err := h.walk(status, prevStatus, func(e *store.Event) bool {
		if e.Kind == store.KindStatus {
			item.Status = *e
			return false
		}
		return true
	})
	if err == nil && want.Messages > 0 {
		err = h.walk(message, prevMessage, func(e *store.Event) bool {
			if e.Kind == store.KindMessage || e.Kind == store.KindStatus && e.Says && e.Seq != item.Status.Seq {
				item.Messages = append(item.Messages, *e)
			}
			return len(item.Messages) < want.Messages
		})
	}
	if err == nil && want.Artifacts {
		err = h.walk(artifact, prevArtifact, func(e *store.Event) bool {
			if e.Kind == store.KindArtifact {
				item.Artifacts = append(item.Artifacts, *e)
			}
			return true
		})
	}
	if err != nil {
		return nil, err
	}
	slices.Reverse(item.Messages)
	slices.Reverse(item.Artifacts)
	return item, nil
}

// Events returns events of a task after a sequence number, in order, as many
// as fit into limit bytes, and at least one when there is one.
func (s *Store) Events(ctx context.Context, task, after int64, limit int) ([]store.Event, error) {
	var events []store.Event
	if after >= maxSeq {
		return nil, nil
	}
	err := s.read(ctx, func(c *conn) error {
		size := 0
		var damage error
		err := c.each(context.Background(), func(v values) bool {
			row, err := record.Parse(blob(v[1]), integer(v[0])&maxSeq)
			if err != nil {
				damage = err
				return false
			}
			for i := range row {
				if row[i].Seq <= after {
					continue
				}
				row[i].Mark = store.Mark(integer(v[2]))
				size += len(row[i].Body)
				if size > limit && len(events) > 0 {
					return false
				}
				events = append(events, row[i])
			}
			return size < limit
		}, "SELECT id, body, mark FROM events WHERE id BETWEEN ? AND ? ORDER BY id", rowID(task, max(after, 0)+1), rowID(task, maxSeq))
		if err == nil {
			err = damage
		}
		return unavailable(err)
	})
	return events, err
}

// Messages returns the user messages of a task from the nth on.
func (s *Store) Messages(ctx context.Context, task, from int64) ([]store.Event, error) {
	var messages []store.Event
	err := s.snapshot(ctx, func(c *conn) error {
		var total, newest int64
		found, err := c.one(func(v values) { total, newest = integer(v[0]), integer(v[1]) },
			"SELECT messages, message_row FROM tasks WHERE key=?", task)
		if err != nil {
			return unavailable(err)
		}
		if !found {
			return store.ErrNotFound
		}
		want := total - max(from, 1) + 1
		if want <= 0 {
			return nil
		}
		h := &history{conn: c, task: task, upTo: maxSeq}
		return h.walk(newest, prevMessage, func(e *store.Event) bool {
			if e.Kind == store.KindMessage {
				messages = append(messages, *e)
			}
			return int64(len(messages)) < want
		})
	})
	slices.Reverse(messages)
	return messages, err
}

// bytes returns what a query answers, nil when it answers nothing.
func (s *Store) bytes(ctx context.Context, text string, args ...any) (a2a.JSON, error) {
	var value a2a.JSON
	err := s.read(ctx, func(c *conn) error {
		_, err := c.one(func(v values) { value = notNil(blob(v[0])) }, text, args...)
		return unavailable(err)
	})
	return value, err
}

// Private returns the private state of a task, nil when it has none.
func (s *Store) Private(ctx context.Context, task int64) (a2a.JSON, error) {
	return s.bytes(ctx, "SELECT state FROM private WHERE task=?", task)
}

// Result returns a kept result of a task, nil when there is none.
func (s *Store) Result(ctx context.Context, task int64, key string) (a2a.JSON, error) {
	return s.bytes(ctx, "SELECT value FROM results WHERE task=? AND key=?", task, key)
}

// Claim returns the claim of a message that was sent before.
func (s *Store) Claim(ctx context.Context, scope store.Scope, agent, key string) (*store.Claim, error) {
	condition, args := within(scope)
	var claim store.Claim
	var found bool
	err := s.read(ctx, func(c *conn) (err error) {
		found, err = c.one(func(v values) {
			claim = scanClaim(v)
			claim.Tenant, claim.Owner, claim.Agent = text(v[6]), text(v[7]), text(v[8])
		}, "SELECT "+claimColumns+`, r.tenant, r.owner, r.agent FROM realms r CROSS JOIN claims c ON c.realm = r.id
 WHERE r.agent = ? AND c.key = ? AND (c.expires = 0 OR c.expires > ?) AND `+condition,
			append([]any{agent, key, s.now().UnixMilli()}, args...)...)
		return unavailable(err)
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, store.ErrNotFound
	}
	return &claim, nil
}

// grantColumns are what scanGrant reads of the table grants g.
const grantColumns = "g.id, g.task, g.turn, g.operation, g.text, g.url, g.created, g.expires, g.decided, g.approved, g.note, g.data, g.decider"

func scanGrant(v values) store.Grant {
	return store.Grant{
		ID: text(v[0]), Task: text(v[1]), Turn: int(integer(v[2])), Operation: text(v[3]), Text: text(v[4]), URL: text(v[5]),
		Created: moment(v[6]), Expires: moment(v[7]), Decided: moment(v[8]), Approved: integer(v[9]) != 0,
		Note: text(v[10]), Data: blob(v[11]), By: text(v[12]),
	}
}

const grantTables = " FROM grants g CROSS JOIN tasks t ON t.id = g.task CROSS JOIN realms r ON r.id = t.realm"

// Grant returns a grant request.
func (s *Store) Grant(ctx context.Context, scope store.Scope, id string) (*store.Grant, error) {
	condition, args := within(scope)
	var grant store.Grant
	var found bool
	err := s.read(ctx, func(c *conn) (err error) {
		found, err = c.one(func(v values) { grant = scanGrant(v) },
			"SELECT "+grantColumns+grantTables+" WHERE g.id = ? AND "+condition, append([]any{id}, args...)...)
		return unavailable(err)
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, store.ErrNotFound
	}
	return &grant, nil
}

// Grants returns the undecided grant requests, oldest first.
func (s *Store) Grants(ctx context.Context, scope store.Scope, limit int) ([]store.Grant, error) {
	condition, args := within(scope)
	var grants []store.Grant
	err := s.read(ctx, func(c *conn) error {
		return unavailable(c.each(context.Background(), func(v values) bool {
			grants = append(grants, scanGrant(v))
			return true
		}, "SELECT "+grantColumns+grantTables+" WHERE g.decided = 0 AND t.state = 8 AND t.turn = g.turn AND "+condition+" ORDER BY g.created, g.id LIMIT ?",
			append(args, int64(limit))...))
	})
	return grants, err
}

// Stats counts tasks by agent and state.
func (s *Store) Stats(ctx context.Context, stale time.Time) ([]store.Stat, error) {
	var stats []store.Stat
	err := s.read(ctx, func(c *conn) error {
		return unavailable(c.each(ctx, func(v values) bool {
			stat := store.Stat{Agent: text(v[0]), State: a2a.TaskState(integer(v[1])), Count: int(integer(v[2])), Stale: int(integer(v[4]))}
			if !stat.State.Terminal() {
				stat.Oldest = moment(v[3])
			}
			stats = append(stats, stat)
			return true
		}, `SELECT r.agent, o.state, sum(o.n), min(CASE WHEN o.state NOT IN (3, 4, 5, 7) THEN
  (SELECT t.status_at FROM tasks t WHERE t.realm = o.realm AND t.state = o.state ORDER BY t.rev LIMIT 1) END),
 sum(CASE WHEN o.state = 2 THEN (SELECT count(*) FROM tasks t WHERE t.realm = o.realm AND t.state = 2 AND t.status_at < ?) ELSE 0 END)
 FROM totals o JOIN realms r ON r.id = o.realm GROUP BY r.agent, o.state ORDER BY r.agent, o.state`, record.Milliseconds(stale)))
	})
	return stats, err
}
