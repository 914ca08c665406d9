package api

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
)

// inbox finds who was asked by which turn, and who has answered.
func (t *chronicler) inbox() error {
	if t.h.opts.Inbox == nil || t.inboxAllowed() != nil {
		return nil
	}
	items, err := t.itemsOf(t.row.ID)
	if err != nil {
		return err
	}
	for i := range items {
		t.asked[items[i].Turn] = &items[i]
	}
	if t.self == nil || t.self.Root == "" || t.self.Root == t.row.ID {
		return nil
	}
	if items, err = t.itemsOf(t.self.Root); err != nil {
		return err
	}
	for i := range items {
		if items[i].Agent == t.self.Peer || items[i].Agent == t.row.Agent {
			t.above = append(t.above, &items[i])
		}
	}
	slices.SortFunc(t.above, func(a, b *store.InboxItem) int { return a.Created.Compare(b.Created) })
	return nil
}

// itemsOf returns the items of the inbox of a task.
func (t *chronicler) itemsOf(task string) ([]store.InboxItem, error) {
	var items []store.InboxItem
	for _, settled := range []bool{true, false} {
		page, err := t.h.opts.Inbox.List(t.context(), t.reach(), store.InboxQuery{Task: task, Settled: settled, PageSize: timelineItems})
		if err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
	}
	return items, nil
}

// item returns the item of what a turn has asked, nil when there is none. What a
// task below a root asks is an item of the root, which is made after it has asked.
func (t *chronicler) item(turn int) *store.InboxItem {
	if item := t.asked[turn]; item != nil {
		return item
	}
	i := slices.IndexFunc(t.above, func(item *store.InboxItem) bool { return !item.Created.Before(t.last) })
	if i < 0 {
		return nil
	}
	item := t.above[i]
	t.above = t.above[i+1:]
	return item
}

// children adds what the task has handed on, and its waits for it.
func (t *chronicler) children() error {
	if t.h.opts.Delegations == nil {
		return nil
	}
	root := t.row.ID
	if t.self != nil {
		root = t.self.Root
	}
	list, truncated, err := t.delegationsOf(root)
	if err != nil {
		return err
	}
	t.out.Truncated = t.out.Truncated || truncated
	mine := slices.DeleteFunc(list, func(d store.Delegation) bool { return d.Parent != t.row.ID })
	ids := make([]string, len(mine))
	for i := range mine {
		ids[i] = mine[i].Task
	}
	rows, err := t.h.opts.Store.Tasks(t.context(), t.reach(), ids)
	if err != nil {
		return err
	}
	byID := map[string]*store.Task{}
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	slices.Reverse(mine)
	for i := range mine {
		t.child(&mine[i], byID[mine[i].Task])
	}
	return nil
}

func (t *chronicler) child(d *store.Delegation, row *store.Task) {
	who, peer := d.Agent, d.Peer != ""
	if peer {
		who = d.Peer
	}
	m := &moment{Kind: "delegation", Title: who, Who: who, Task: d.Task, Peer: peer, Ref: d.Ref, State: d.State.String(), Start: d.Created.UTC(), Turn: d.Turn, Open: true}
	if d.Error != "" {
		m.Detail = clip(d.Error, maxShownText)
	}
	if row != nil && row.State.Terminal() {
		m.End, m.Open = row.StatusAt.UTC(), false
	}
	t.add(m)
	if !m.Open && m.End.Before(m.Start) {
		m.End = m.Start
	}
	w := *m
	w.Kind, w.Title, w.Wait, w.Detail = "wait", "Waits for "+who, waitTask, ""
	if peer {
		w.Wait = waitPeer
	}
	if !w.Open {
		w.Outcome = strings.ToLower(short(d.State))
	}
	t.add(&w)
	// The turn that delegates ends with it, and the next begins when it is over.
	for n, turn := range t.turns {
		switch {
		case turn.Turn == d.Turn && (n+1 == len(t.turns) || t.turns[n+1].Turn != turn.Turn):
			turn.End, turn.Outcome = latest(turn.Start, m.Start), "delegated"
			if t.turn == turn {
				t.turn = nil
			}
		case turn.Turn == d.Turn+1 && turn.Attempt <= 1 && !m.Open && m.End.Before(turn.Start) && turn.Outcome != "delegated":
			turn.Start = m.End
		}
	}
}

// pushes adds the webhooks of the task, as they are now.
func (t *chronicler) pushes() error {
	hooks, err := t.h.opts.Store.Webhooks(t.context(), t.reach(), t.row.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range hooks {
		h := &hooks[i]
		target := push.Origin(h.URL) // the rest may be secret
		_, host, _ := strings.Cut(target, "://")
		m := &moment{Kind: "push", Title: "Webhook " + host, Who: target, Start: h.Created.UTC(), Attempts: h.Failures}
		m.Detail = strconv.FormatInt(h.Seq, 10) + " of " + strconv.FormatInt(h.Events, 10) + " events are behind it"
		if h.Error != "" {
			m.Detail += "; last error: " + auth.Redact(clip(h.Error, maxShownText))
		}
		switch {
		case !h.Dead.IsZero():
			m.Outcome, m.End = "given up", h.Dead.UTC()
		case h.Failures > 0:
			m.Outcome, m.Open = "retrying", true
		case h.Seq < h.Events:
			m.Outcome, m.Open = "behind", true
		case t.out.Open:
			m.Outcome, m.Open = "sent", true
		default:
			m.Outcome, m.End = "sent", latest(h.Created.UTC(), t.last)
		}
		t.add(m)
	}
	return nil
}

// audited adds what operators did to the task, for operators of the node.
func (t *chronicler) audited() error {
	if t.h.opts.Audit == nil || t.caller.Role < auth.RoleOperator || t.caller.Tenant != "" {
		return nil
	}
	rows, err := t.h.opts.Audit.Read(t.context(), store.AuditQuery{Task: t.row.ID, Newest: true, Limit: maxAuditPage})
	if err != nil {
		return err
	}
	for i := range rows {
		var e audit.Entry
		if json.Unmarshal(rows[i].Body, &e) != nil || !tellsOfChange(e.Operation) {
			continue
		}
		t.add(&moment{Kind: "audit", Title: e.Operation, Detail: e.Target, Who: cmp.Or(e.Subject, "anonymous"), Start: e.At.UTC(), Outcome: e.Result})
	}
	return nil
}

// tellsOfChange reports whether an operation is more than a look, and none of the
// messages, which are there already.
func tellsOfChange(operation string) bool {
	for _, reads := range []string{"GET ", "Get", "List", "Subscribe", "Send"} {
		if strings.HasPrefix(operation, reads) {
			return false
		}
	}
	return true
}
