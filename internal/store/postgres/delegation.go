package postgres

import (
	"context"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// delegationColumns are what delegationScanner reads of the tables delegations d,
// tasks t and realms r.
const delegationColumns = `d.task, t.id, d.tenant, d.owner, r.agent, t.context, t.state, t.created,
 d.peer, d.ref, d.root, d.parent, d.turn, d.depth, d.asked, d.deadline,
 d.message, d.number, d.send, d.remote_task, d.remote_context, d.remote_state, d.remote_digest, d.seen, d.channel, d.attempts,
 d.error, d.interface, d.card_digest, d.token, d.secret, d.push, d.recalled, d.again`

const delegationTables = " FROM delegations d JOIN tasks t ON t.key = d.task JOIN realms r ON r.id = t.realm"

// delegationScanner holds what delegationColumns are scanned into.
type delegationScanner struct {
	id, tenant, owner, agent, context, peer, ref, root, parent, asked []byte
	message, task, remote, digest, failure, iface, card, push         []byte
	state, remoteState, send, channel, recalled, again                int16
	created, deadline, seen                                           int64
	row                                                               store.Delegation
}

func (s *delegationScanner) targets() []any {
	d := &s.row
	return []any{
		&d.TaskKey, &s.id, &s.tenant, &s.owner, &s.agent, &s.context, &s.state, &s.created,
		&s.peer, &s.ref, &s.root, &s.parent, &d.Turn, &d.Depth, &s.asked, &s.deadline,
		&s.message, &d.Number, &s.send, &s.task, &s.remote, &s.remoteState, &s.digest, &s.seen, &s.channel, &d.Attempts,
		&s.failure, &s.iface, &s.card, &d.Token, &d.Secret, &s.push, &s.recalled, &s.again,
	}
}

func (s *delegationScanner) take() record.Delegation {
	d := s.row
	d.Task, d.Tenant, d.Owner, d.Agent, d.Context = string(s.id), string(s.tenant), string(s.owner), string(s.agent), string(s.context)
	d.State, d.Created, d.Deadline = a2a.TaskState(s.state), record.Time(s.created), record.Time(s.deadline)
	d.Peer, d.Ref, d.Root, d.Parent, d.Asked = string(s.peer), string(s.ref), string(s.root), string(s.parent), string(s.asked)
	d.Message, d.Send, d.RemoteTask, d.RemoteContext = string(s.message), store.SendState(s.send), string(s.task), string(s.remote)
	d.RemoteState, d.RemoteDigest, d.Seen, d.Channel = a2a.TaskState(s.remoteState), string(s.digest), record.Time(s.seen), store.Channel(s.channel)
	d.Error, d.Interface, d.CardDigest, d.Push, d.Recalled = string(s.failure), string(s.iface), string(s.card), string(s.push), s.recalled != 0
	return record.Delegation{Delegation: d, Again: s.again != 0}
}

func collectDelegations(rows pgx.Rows, err error) ([]store.Delegation, error) {
	if err != nil {
		return nil, err
	}
	var list []store.Delegation
	var s delegationScanner
	_, err = pgx.ForEachRow(rows, s.targets(), func() error {
		list = append(list, s.take().Delegation)
		return nil
	})
	return list, err
}

// owned returns the condition that a row of a table is in a scope, by its own
// columns.
func owned(scope store.Scope, table string, args *arguments) string {
	if scope.All() {
		return "true"
	}
	tenant, ok := scope.Tenant()
	if !ok {
		return "false"
	}
	condition := table + ".tenant = " + args.add([]byte(tenant))
	if _, owner, one := scope.Owner(); one {
		condition += " AND " + table + ".owner = " + args.add([]byte(owner))
	}
	return condition
}

// Delegation returns the delegation that is a task.
func (s *Store) Delegation(ctx context.Context, scope store.Scope, task string) (*store.Delegation, error) {
	args := arguments{[]byte(task)}
	query := "SELECT " + delegationColumns + delegationTables + " WHERE t.id = $1 AND " + owned(scope, "d", &args)
	var list []store.Delegation
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		list, err = collectDelegations(c.Query(ctx, query, args...))
		return err
	})
	if err == nil && len(list) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return &list[0], nil
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
	args := arguments{before, q.PageSize + 1}
	conditions := []string{"d.task < $1", owned(scope, "d", &args)}
	if q.Peer != "" {
		conditions = append(conditions, "d.peer = "+args.add([]byte(q.Peer)))
	}
	if q.Ref != "" {
		conditions = append(conditions, "d.ref <> '' AND d.ref = "+args.add([]byte(q.Ref)))
	}
	if q.Root != "" {
		conditions = append(conditions, "d.root = "+args.add([]byte(q.Root)))
	}
	if q.Open {
		conditions = append(conditions, "d.closed = 0")
	}
	if q.State != 0 {
		conditions = append(conditions, "t.state = "+args.add(int16(q.State)))
	}
	page := &store.DelegationPage{}
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		page.Items, err = collectDelegations(c.Query(ctx, "SELECT "+delegationColumns+delegationTables+" WHERE "+strings.Join(conditions, " AND ")+" ORDER BY d.task DESC LIMIT $2", args...))
		return err
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
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		ids = nil
		rows, err := c.Query(ctx, "SELECT t.id FROM delegations d JOIN tasks t ON t.key = d.task WHERE d.parent <> '' AND d.parent = $1 AND d.closed = 0 ORDER BY d.task", []byte(parent))
		if err != nil {
			return err
		}
		var id []byte
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
			ids = append(ids, string(id))
			return nil
		})
		return err
	})
	return ids, err
}
