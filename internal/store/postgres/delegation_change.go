package postgres

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// refKey names what one open delegation may have.
type refKey struct{ tenant, owner, peer, ref string }

// delegationWork is what a batch knows and writes of delegations.
type delegationWork struct {
	refs    map[refKey][]string // ids of the open ones, oldest first
	inserts columns
	changes map[int64]*store.Delegation
	closed  []int64
}

// settledItem is an item of the inbox that a batch settles by its id.
type settledItem struct {
	task string
	open bool // after the changes so far
}

// refOf returns what a change takes, false when it takes nothing.
func refOf(c *store.Change) (refKey, bool) {
	if c.Insert == nil || c.Delegation == nil || c.Delegation.Ref == "" {
		return refKey{}, false
	}
	return refKey{c.Insert.Tenant, c.Insert.Owner, c.Delegation.Peer, c.Delegation.Ref}, true
}

// lookUpRefs finds out which references of the changes are taken.
func (b *work) lookUpRefs(q *pgx.Batch) {
	var keys columns
	for _, o := range b.ops {
		if key, ok := refOf(o.change); ok {
			keys.add(nil, []byte(key.tenant), []byte(key.owner), []byte(key.peer), []byte(key.ref))
		}
	}
	if keys.n == 0 {
		return
	}
	b.delegations.refs = map[refKey][]string{}
	q.Queue(`SELECT d.tenant, d.owner, d.peer, d.ref, t.id FROM (SELECT DISTINCT * FROM `+unnest(0, 4)+` AS u(tenant, owner, peer, ref)) u
 JOIN delegations d ON d.ref = u.ref AND d.ref <> '' AND d.tenant = u.tenant AND d.owner = u.owner AND d.peer = u.peer AND d.closed = 0
 JOIN tasks t ON t.key = d.task ORDER BY d.task`, keys.bytes[0], keys.bytes[1], keys.bytes[2], keys.bytes[3]).Query(func(rows pgx.Rows) error {
		var tenant, owner, peer, ref, id []byte
		_, err := pgx.ForEachRow(rows, []any{&tenant, &owner, &peer, &ref, &id}, func() error {
			key := refKey{string(tenant), string(owner), string(peer), string(ref)}
			b.delegations.refs[key] = append(b.delegations.refs[key], string(id))
			return nil
		})
		return err
	})
}

// lockItems locks the items of the inbox that changes settle by their ids.
func (b *work) lockItems(q *pgx.Batch) {
	var ids [][]byte
	for _, o := range b.ops {
		if s := o.change.Settles; s != nil && s.ID != "" {
			ids = append(ids, []byte(s.ID))
		}
	}
	if len(ids) == 0 {
		return
	}
	b.items = map[string]*settledItem{}
	q.Queue("SELECT id, task, closed FROM inbox WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE", ids).Query(func(rows pgx.Rows) error {
		var id, task []byte
		var closed int64
		_, err := pgx.ForEachRow(rows, []any{&id, &task, &closed}, func() error {
			b.items[string(id)] = &settledItem{task: string(task), open: closed == 0}
			return nil
		})
		return err
	})
}

// checkDelegation refuses a delegation whose reference is taken, and changes of
// one that is not there.
func (b *work) checkDelegation(t *entry, c *store.Change) error {
	if c.Delegation == nil {
		return nil
	}
	if t == nil || c.Insert == nil && !t.Delegated {
		return store.ErrNotFound
	}
	if key, ok := refOf(c); ok && !c.Again {
		if taken := b.delegations.refs[key]; len(taken) > 0 {
			return &store.RefTakenError{Ref: key.ref, Task: taken[len(taken)-1]}
		}
	}
	return nil
}

// checkSettles refuses a change that settles an item which is not open.
func (b *work) checkSettles(c *store.Change) error {
	if s := c.Settles; s != nil && s.ID != "" {
		if i := b.items[s.ID]; i == nil || !i.open {
			return store.ErrConflict
		}
	}
	return nil
}

// delegate makes or changes the delegation of a change, and closes that of a task
// that has become terminal.
func (b *work) delegate(t *entry, c *store.Change) {
	w, d := &b.delegations, c.Delegation
	if d != nil {
		record.Complete(d, &t.Task)
	}
	switch {
	case c.Insert != nil && d != nil:
		t.Delegated, c.Insert.Delegated, c.After.Delegated = true, true, true
		full := record.Delegation{Delegation: *d, Again: c.Again}
		w.inserts.add(delegationNumbers(&full), delegationBytes(d)...)
		if key, ok := refOf(c); ok && !t.State.Terminal() {
			w.refs[key] = append(w.refs[key], t.ID)
		}
		return
	case d != nil:
		put := *d
		w.changes = with(w.changes, t.Key, &put)
	}
	if t.Delegated && t.State.Terminal() {
		w.closed = append(w.closed, t.Key)
		for key, ids := range w.refs {
			w.refs[key] = slices.DeleteFunc(ids, func(id string) bool { return id == t.ID })
		}
	}
}

// delegationNumbers and delegationBytes are the columns of a delegation: first
// those of the half that changes.
func delegationNumbers(d *record.Delegation) []int64 {
	return append(peerNumbers(&d.Delegation), record.Milliseconds(d.Deadline), record.Flag(d.Again), record.Flag(d.State.Terminal()), int64(d.Turn), int64(d.Depth))
}

func delegationBytes(d *store.Delegation) [][]byte {
	return append(peerBytes(d), []byte(d.Tenant), []byte(d.Owner), []byte(d.Peer), []byte(d.Ref), []byte(d.Root), []byte(d.Parent), []byte(d.Asked))
}

func peerNumbers(d *store.Delegation) []int64 {
	return []int64{
		d.TaskKey, d.Number, record.Milliseconds(d.Seen), int64(d.Send), int64(d.RemoteState), int64(d.Channel), int64(d.Attempts), record.Flag(d.Recalled),
	}
}

func peerBytes(d *store.Delegation) [][]byte {
	return [][]byte{
		[]byte(d.Message), []byte(d.RemoteTask), []byte(d.RemoteContext), []byte(d.RemoteDigest), []byte(d.Error),
		[]byte(d.Interface), []byte(d.CardDigest), d.Token, d.Secret, []byte(d.Push),
	}
}

var delegationColumnsCopied = []string{
	"task", "number", "seen", "send", "remote_state", "channel", "attempts", "recalled", "deadline", "again", "closed", "turn", "depth",
	"message", "remote_task", "remote_context", "remote_digest", "error", "interface", "card_digest", "token", "secret", "push",
	"tenant", "owner", "peer", "ref", "root", "parent", "asked",
}

func delegationValues(d *record.Delegation) (values []any) {
	for _, n := range delegationNumbers(d) {
		values = append(values, n)
	}
	for _, b := range delegationBytes(&d.Delegation) {
		values = append(values, b)
	}
	return values
}

var (
	insertDelegations = `INSERT INTO delegations (task, number, seen, send, remote_state, channel, attempts, recalled, deadline, again, closed, turn, depth,
 message, remote_task, remote_context, remote_digest, error, interface, card_digest, token, secret, push,
 tenant, owner, peer, ref, root, parent, asked) SELECT * FROM ` + unnest(13, 17)
	updateDelegations = `UPDATE delegations d SET number = u.number, seen = u.seen, send = u.send, remote_state = u.remote_state, channel = u.channel,
 attempts = u.attempts, recalled = u.recalled, message = u.message, remote_task = u.remote_task, remote_context = u.remote_context,
 remote_digest = u.remote_digest, error = u.error, interface = u.interface, card_digest = u.card_digest, token = u.token, secret = u.secret, push = u.push
 FROM ` + unnest(8, 10) + ` AS u(task, number, seen, send, remote_state, channel, attempts, recalled,
 message, remote_task, remote_context, remote_digest, error, interface, card_digest, token, secret, push) WHERE d.task = u.task`
)

// writeDelegations queues what is written of delegations, once their tasks are.
func (b *work) writeDelegations(q *pgx.Batch) {
	w := &b.delegations
	var changes columns
	for _, key := range slices.SortedFunc(maps.Keys(w.changes), cmp.Compare[int64]) {
		changes.add(peerNumbers(w.changes[key]), peerBytes(w.changes[key])...)
	}
	changes.queue(q, updateDelegations)
	if len(w.closed) > 0 {
		q.Queue("UPDATE delegations SET closed = 1 WHERE task = ANY($1::bigint[]) AND closed = 0", w.closed)
	}
	if w.inserts.n > 0 {
		w.inserts.queue(q, insertDelegations)
		q.Queue("UPDATE tasks SET delegated = 1 WHERE key = ANY($1::bigint[])", w.inserts.numbers[0])
	}
}

const (
	settleItems = `WITH s AS (UPDATE inbox SET closed = 1, rank = $1, settled = $1, decider = $2, decision = $3, words = $4 WHERE closed = 0 AND `
	logSettled  = ` = $5 RETURNING id) INSERT INTO inbox_history (item, at, doer, what, words) SELECT id, $1, $2, $3, $4 FROM s`
	settleByID  = settleItems + "id" + logSettled
	settleTask  = settleItems + "task" + logSettled
)

// putInbox settles what a change settles, and puts its item into the inbox, in
// the order of the changes.
func (b *work) putInbox(t *entry, c *store.Change) {
	if s := c.Settles; s != nil {
		at := b.at.UnixMilli()
		args := []any{at, []byte(s.By), []byte(s.Decision), []byte(s.Words)}
		if s.ID != "" {
			b.inbox.Queue(settleByID, append(args[:4:4], []byte(s.ID))...)
			b.items[s.ID].open = false
		}
		if t != nil {
			b.inbox.Queue(settleTask, append(args[:4:4], []byte(t.ID))...)
			for _, i := range b.items {
				i.open = i.open && i.task != t.ID
			}
		}
	}
	i := c.Item
	if i == nil {
		return
	}
	if t != nil {
		i.Task, i.Tenant, i.Owner = t.ID, t.Tenant, t.Owner
	}
	if i.Created.IsZero() {
		i.Created = b.at
	}
	b.inbox.Queue(putItem, append(itemValues(i), b.at.UnixMilli())...)
	if b.items != nil && b.items[i.ID] == nil {
		b.items[i.ID] = &settledItem{task: i.Task, open: true}
	}
}
