package sqlite

import (
	"context"
	"math"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// delegationColumns are what scanDelegation reads of the tables delegations d,
// tasks t and realms r.
const delegationColumns = `d.task, t.id, d.tenant, d.owner, r.agent, t.context, t.state, t.created,
 d.peer, d.ref, d.root, d.parent, d.turn, d.depth, d.asked, d.deadline,
 d.message, d.number, d.send, d.remote_task, d.remote_context, d.remote_state, d.remote_digest, d.seen, d.channel, d.attempts,
 d.error, d.interface, d.card_digest, d.token, d.secret, d.push, d.recalled, d.again`

const delegationTables = " FROM delegations d CROSS JOIN tasks t ON t.key = d.task CROSS JOIN realms r ON r.id = t.realm"

func scanDelegation(v values) record.Delegation {
	return record.Delegation{
		Delegation: store.Delegation{
			TaskKey: integer(v[0]), Task: text(v[1]), Tenant: text(v[2]), Owner: text(v[3]), Agent: text(v[4]), Context: text(v[5]),
			State: a2a.TaskState(integer(v[6])), Created: moment(v[7]),
			Peer: text(v[8]), Ref: text(v[9]), Root: text(v[10]), Parent: text(v[11]), Turn: int(integer(v[12])), Depth: int(integer(v[13])),
			Asked: text(v[14]), Deadline: moment(v[15]),
			Message: text(v[16]), Number: integer(v[17]), Send: store.SendState(integer(v[18])),
			RemoteTask: text(v[19]), RemoteContext: text(v[20]), RemoteState: a2a.TaskState(integer(v[21])), RemoteDigest: text(v[22]),
			Seen: moment(v[23]), Channel: store.Channel(integer(v[24])), Attempts: int(integer(v[25])), Error: text(v[26]),
			Interface: text(v[27]), CardDigest: text(v[28]), Token: blob(v[29]), Secret: blob(v[30]), Push: text(v[31]), Recalled: integer(v[32]) != 0,
		},
		Again: integer(v[33]) != 0,
	}
}

const (
	insertDelegation = `INSERT INTO delegations (task, tenant, owner, peer, ref, again, closed, root, parent, turn, depth, asked, deadline,
 message, number, send, remote_task, remote_context, remote_state, remote_digest, seen, channel, attempts, error, interface, card_digest, token, secret, push, recalled)
 VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`
	updateDelegation = `UPDATE delegations SET message=?, number=?, send=?, remote_task=?, remote_context=?, remote_state=?, remote_digest=?, seen=?, channel=?,
 attempts=?, error=?, interface=?, card_digest=?, token=?, secret=?, push=?, recalled=? WHERE task=?`
)

// peerSide are the values of the half of a delegation that changes.
func peerSide(d *store.Delegation) []any {
	return []any{
		d.Message, d.Number, int64(d.Send), d.RemoteTask, d.RemoteContext, int64(d.RemoteState), d.RemoteDigest, record.Milliseconds(d.Seen),
		int64(d.Channel), int64(d.Attempts), d.Error, d.Interface, d.CardDigest, optional(d.Token), optional(d.Secret), d.Push, record.Flag(d.Recalled),
	}
}

// insertDelegationArgs are the arguments of insertDelegation.
func insertDelegationArgs(d *record.Delegation) []any {
	return append([]any{
		d.TaskKey, d.Tenant, d.Owner, d.Peer, d.Ref, record.Flag(d.Again), record.Flag(d.State.Terminal()),
		d.Root, d.Parent, int64(d.Turn), int64(d.Depth), d.Asked, record.Milliseconds(d.Deadline),
	}, peerSide(&d.Delegation)...)
}

// optional makes NULL of no bytes.
func optional(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// checkDelegation refuses a delegation whose reference is taken, and changes of
// one that is not there.
func (w *writer) checkDelegation(t *record.Row, c *store.Change) error {
	d := c.Delegation
	switch {
	case t == nil:
		return refusal{store.ErrNotFound}
	case c.Insert == nil && !t.Delegated:
		return refusal{store.ErrNotFound}
	case c.Insert == nil || d.Ref == "" || c.Again:
		return nil
	}
	taken := ""
	_, err := w.conn.one(func(v values) { taken = text(v[0]) }, `SELECT t.id FROM delegations d CROSS JOIN tasks t ON t.key = d.task
 WHERE d.ref <> '' AND d.ref = ? AND d.closed = 0 AND +d.tenant = ? AND +d.owner = ? AND +d.peer = ? ORDER BY d.task DESC LIMIT 1`,
		d.Ref, t.Tenant, t.Owner, d.Peer)
	if err == nil && taken != "" {
		err = refusal{&store.RefTakenError{Ref: d.Ref, Task: taken}}
	}
	return err
}

// delegate writes the delegation of a change, and closes that of a task that has
// become terminal.
func (w *writer) delegate(c *store.Change) error {
	t, d := &c.After, c.Delegation
	if c.Insert != nil {
		if d == nil {
			return nil
		}
		record.Complete(d, t)
		if _, err := w.conn.run(insertDelegation, insertDelegationArgs(&record.Delegation{Delegation: *d, Again: c.Again})...); err != nil {
			return err
		}
		c.Insert.Delegated, t.Delegated = true, true
		if kept := w.rows[t.Key]; kept != nil {
			kept.Delegated = true
		}
		_, err := w.conn.run("UPDATE tasks SET delegated=1 WHERE key=?", t.Key)
		return err
	}
	if d != nil {
		record.Complete(d, t)
		if _, err := w.conn.run(updateDelegation, append(peerSide(d), t.Key)...); err != nil {
			return err
		}
	}
	if !t.State.Terminal() {
		return nil
	}
	_, err := w.conn.run("UPDATE delegations SET closed=1 WHERE task=? AND closed=0", t.Key)
	return err
}

// owned returns the condition that a row of a table is in a scope, by its own
// columns, and its arguments. A plus keeps the planner from choosing an index
// for it.
func owned(scope store.Scope, plus, table string) (condition string, args []any) {
	if scope.All() {
		return "1", nil
	}
	tenant, ok := scope.Tenant()
	if !ok {
		return "0", nil
	}
	condition, args = plus+table+".tenant = ?", []any{tenant}
	if _, owner, one := scope.Owner(); one {
		condition, args = condition+" AND "+plus+table+".owner = ?", append(args, owner)
	}
	return condition, args
}

// Delegation returns the delegation that is a task.
func (s *Store) Delegation(ctx context.Context, scope store.Scope, task string) (*store.Delegation, error) {
	condition, args := owned(scope, "+", "d")
	var d *store.Delegation
	err := s.read(ctx, func(c *conn) error {
		_, err := c.one(func(v values) { d = &new(scanDelegation(v)).Delegation },
			"SELECT "+delegationColumns+" FROM tasks t CROSS JOIN delegations d ON d.task = t.key CROSS JOIN realms r ON r.id = t.realm WHERE t.id = ? AND "+condition,
			append([]any{task}, args...)...)
		return unavailable(err)
	})
	if err == nil && d == nil {
		err = store.ErrNotFound
	}
	return d, err
}

// Delegations returns a page of delegations, newest first.
func (s *Store) Delegations(ctx context.Context, scope store.Scope, q store.DelegationQuery) (*store.DelegationPage, error) {
	digest := record.DigestOfQuery(scope, "delegations", q.Peer, q.Ref, q.Root, q.State, q.Open)
	before := int64(math.MaxInt64)
	if q.Cursor != "" {
		n, err := digest.Open(q.Cursor, record.MaxPageCursor)
		if err != nil || len(n) != 1 {
			return nil, store.ErrBadCursor
		}
		before = n[0]
	}
	// One condition chooses the index, the others only filter.
	var conditions []string
	var args []any
	plus := ""
	add := func(condition string, values ...any) {
		conditions, args = append(conditions, condition), append(args, values...)
		plus = "+"
	}
	switch {
	case q.Ref != "":
		add("d.ref <> '' AND d.ref = ?", q.Ref)
	case q.Root != "":
		add("d.root = ?", q.Root)
	}
	if q.Root != "" && q.Ref != "" {
		add("+d.root = ?", q.Root)
	}
	condition, scoped := owned(scope, plus, "d")
	if conditions, args = append(conditions, condition), append(args, scoped...); len(scoped) > 0 {
		plus = "+"
	}
	if q.Peer != "" {
		add(plus+"d.peer = ?", q.Peer)
	}
	if q.Open {
		add(plus + "d.closed = 0")
	}
	if q.State != 0 {
		add("t.state = ?", int64(q.State))
	}
	conditions, args = append(conditions, "d.task < ?"), append(args, before)
	page := &store.DelegationPage{}
	err := s.read(ctx, func(c *conn) error {
		return unavailable(c.each(ctx, func(v values) bool {
			page.Items = append(page.Items, scanDelegation(v).Delegation)
			return true
		}, "SELECT "+delegationColumns+delegationTables+" WHERE "+strings.Join(conditions, " AND ")+" ORDER BY d.task DESC LIMIT ?", append(args, int64(q.PageSize)+1)...))
	})
	if err != nil {
		return nil, err
	}
	if len(page.Items) > q.PageSize {
		page.Items = page.Items[:q.PageSize]
		page.Next = digest.Seal(page.Items[q.PageSize-1].TaskKey)
	}
	return page, nil
}

// Children returns the ids of tasks that a task has delegated and that are not
// terminal.
func (s *Store) Children(ctx context.Context, parent string) (ids []string, err error) {
	err = s.read(ctx, func(c *conn) error {
		return unavailable(c.each(ctx, func(v values) bool {
			ids = append(ids, text(v[0]))
			return true
		}, "SELECT t.id FROM delegations d CROSS JOIN tasks t ON t.key = d.task WHERE d.parent <> '' AND d.parent = ? AND d.closed = 0 ORDER BY d.task", parent))
	})
	return ids, err
}
