package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// maxWords bounds what an item of the inbox and its record quote, in bytes.
const maxWords = 16 << 10

// Decisions with which items of the inbox are settled.
const (
	itemAnswered = "answered"
	itemApproved = "approved"
	itemDenied   = "denied"
	itemCanceled = "canceled"
	itemExpired  = "expired"
	itemGoneOn   = "gone on"
)

// putItem puts an item into the inbox with a change, and fills in what is empty of
// it.
func (e *Engine) putItem(c *store.Change, row *store.Task, item *store.InboxItem) {
	if item.ID == "" {
		item.ID = rand.Text()
	}
	item.Task, item.Tenant, item.Owner = row.ID, row.Tenant, row.Owner
	if item.Turn == 0 {
		item.Turn = row.Turn
	}
	if item.Created.IsZero() {
		item.Created = soon()
	}
	due, jobs := e.cfg.ItemDue(item)
	if item.Due.IsZero() {
		item.Due = due
	}
	c.Item = item
	c.Jobs = append(c.Jobs, jobs...)
}

// question is what a task asks for, and who asks: the task itself, or one that it
// waits for.
type question struct {
	state   a2a.TaskState
	message *a2a.Message // nil when nothing is said
	grant   *store.Grant // with AUTH_REQUIRED
	asker   *store.Task
	spec    *Spec    // of the asker; nil when it does not exist any more
	lineage *lineage // likewise
}

// putQuestion puts what an interrupted task asks into the inbox.
func (e *Engine) putQuestion(c *store.Change, row *store.Task, q question) {
	item := &store.InboxItem{Kind: store.InboxQuestion, Agent: q.asker.Agent}
	if q.spec != nil && q.spec.Peer != "" {
		item.Agent, item.Peer = q.spec.Peer, true
	}
	if q.lineage != nil {
		item.Ref = q.lineage.Ref
	}
	if q.state == a2a.StateAuthRequired {
		item.Kind = store.InboxGrant
		if q.grant != nil && !item.Peer && holdsCall(q.grant.Operation) {
			item.Kind = store.InboxCall
		}
	}
	if q.message != nil {
		item.Text, item.Schema = words(q.message.Parts), schemaOf(q.message.Parts)
	}
	if q.grant != nil {
		item.Grant, item.Op, item.URL = q.grant.ID, q.grant.Operation, q.grant.URL
	}
	e.putItem(c, row, item)
}

// words returns the texts of parts, as far as the inbox quotes them.
func words(parts []a2a.Part) string {
	var b strings.Builder
	for i := range parts {
		if parts[i].Kind != a2a.PartText || b.Len() > maxWords {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(parts[i].Text)
	}
	return shortened(b.String())
}

func shortened(text string) string {
	if len(text) <= maxWords {
		return text
	}
	return strings.ToValidUTF8(text[:maxWords], "") + "…"
}

// schemaOf returns the schema of the answer that a question asks for, nil when it
// has none.
func schemaOf(parts []a2a.Part) a2a.JSON {
	i := slices.IndexFunc(parts, func(p a2a.Part) bool {
		return p.Kind == a2a.PartData && p.MediaType == agent.SchemaMediaType
	})
	if i < 0 {
		return nil
	}
	return parts[i].Data
}

// leave adds to a change what goes with a task that leaves an interrupted state:
// its items are settled, and the task that waits for it hears of it.
func (e *Engine) leave(c *store.Change, row *store.Task, s store.InboxSettle) {
	if !row.State.Interrupted() {
		return
	}
	c.Settles = &s
	e.tellParent(c, decodeMeta(row.Meta).Lineage)
}

// tellOthers adds to a change of a turn what others have to hear of the new state
// of its task: who waits for it, the people who are asked, and the peer.
func (r *run) tellOthers(c *store.Change, o outcome) {
	switch {
	case o.state.Terminal():
		if r.spec.Peer != "" {
			r.e.recallPeer(c, &r.row)
		}
	case !o.state.Interrupted() || !o.parked:
		return
	case !r.meta.Lineage.child():
		r.e.putQuestion(c, &r.row, question{
			state: o.state, message: o.said(), grant: o.grant, asker: &r.row, spec: r.spec, lineage: r.meta.Lineage,
		})
	}
	r.e.tellParent(c, r.meta.Lineage)
}

// said is the message of the last status of an outcome.
func (o *outcome) said() *a2a.Message {
	for _, u := range slices.Backward(o.updates) {
		if u.StatusUpdate != nil {
			return u.StatusUpdate.Status.Message
		}
	}
	return nil
}

// recallPeer adds to a change that ends a delegation what is left to do at the
// peer, and settles what was in the inbox of it.
func (e *Engine) recallPeer(c *store.Change, row *store.Task) {
	c.Jobs = append(c.Jobs, store.Job{Kind: store.JobRecall, Task: row.ID, Turn: row.Turn, Due: soon()})
	if c.Settles == nil {
		c.Settles = &store.InboxSettle{By: row.Agent, Decision: itemGoneOn}
	}
}

// checkItem refuses an answer to an item of the inbox that is not open.
func (e *Engine) checkItem(ctx context.Context, scope store.Scope, id, task string) error {
	item, err := e.store.InboxItem(ctx, scope, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && task != "" && item.Task != task {
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "There is no such item in the inbox")
	}
	if err != nil {
		return unavailable(err)
	}
	if item.Settled.IsZero() {
		return nil
	}
	by := item.By
	if by == "" {
		by = "somebody"
	}
	return &a2a.Error{
		Code: a2a.CodeUnsupportedOperation, Message: fmt.Sprintf("This was settled already (%s), by %s", item.Decision, by),
		Metadata: map[string]string{"itemId": id, "by": by, "decision": item.Decision},
	}
}

// itemOf returns the id of the open item of a root that asks for a decision on a
// grant request of a task below it, or of itself; "" when there is none.
func (e *Engine) itemOf(ctx context.Context, root, grant string) (string, error) {
	page, err := e.store.InboxItems(ctx, nodeScope, store.InboxQuery{Task: root, PageSize: 100})
	if err != nil {
		return "", err
	}
	for i := range page.Items {
		if page.Items[i].Grant == grant {
			return page.Items[i].ID, nil
		}
	}
	return "", nil
}

// settled is how the items of an interrupted task are settled by a message to it:
// as answered, or as the message decides on what the task, or one that it waits
// for, may do.
func settled(q *Request, row *store.Task) (store.InboxSettle, error) {
	s := answered(q)
	if row.State != a2a.StateAuthRequired || q.Message.Metadata == nil {
		return s, nil
	}
	d, err := a2a.GrantDecisionOf(q.Message.Metadata)
	if d == nil || err != nil {
		return s, err
	}
	s.Words = shortened(d.Note)
	if s.Decision = itemDenied; d.Approved {
		s.Decision = itemApproved
	}
	return s, nil
}

// answered is how the items of a task are settled by a message to it.
func answered(q *Request) store.InboxSettle {
	s := store.InboxSettle{ID: q.Item, By: q.By, Decision: itemAnswered, Words: words(q.Message.Parts)}
	if s.By == "" {
		s.By = q.Caller.Subject
	}
	if s.By == "" {
		s.By = string(ByCaller)
	}
	return s
}
