package api

import (
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/inbox"
	"handoff.example/handoff/internal/store"
)

// inboxList is a page of items.
type inboxList struct {
	Items         []*inbox.Item `json:"items"`
	NextPageToken string        `json:"next_page_token,omitempty"`
	PageSize      int           `json:"page_size"`
	// TotalSize counts the open items of the query, on the first page.
	TotalSize *int `json:"total_size,omitempty"`
}

// inboxAllowed refuses callers without credentials: all of them are one owner.
func (c *call) inboxAllowed() error {
	if c.caller.Anonymous() && !c.caller.Local {
		return a2a.Errorf(a2a.CodePermissionDenied, "Callers without credentials may not see the inbox")
	}
	return nil
}

// by names the caller, for the record.
func (c *call) by() string {
	if c.caller.Subject == "" {
		return "anonymous"
	}
	return c.caller.Subject
}

// listInbox returns what waits for somebody, the earliest due first.
func (c *call) listInbox() (any, error) {
	q := c.query("task", "kind", "assignee", "settled", "due_by", "page_size", "page_token")
	list := store.InboxQuery{
		Task: q.values.Get("task"), Assignee: q.values.Get("assignee"), Settled: q.flag("settled"), DueBy: q.time("due_by"),
		PageSize: int(q.number("page_size", defaultPage, 1, a2a.MaxPageSize)), Cursor: q.values.Get("page_token"),
	}
	if name := q.values.Get("kind"); name != "" {
		var ok bool
		if list.Kind, ok = inbox.ParseKind(name); !ok {
			q.bad("kind", "is none of question, grant, stuck, call, card")
		}
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	if err := c.inboxAllowed(); err != nil {
		return nil, err
	}
	page, err := c.h.opts.Inbox.List(c.context(), c.reach(), list)
	if err != nil {
		return nil, err
	}
	answer := &inboxList{Items: make([]*inbox.Item, len(page.Items)), NextPageToken: page.Next, PageSize: list.PageSize}
	for i := range page.Items {
		answer.Items[i] = c.h.opts.Inbox.View(&page.Items[i])
	}
	if list.Cursor == "" {
		answer.TotalSize = &page.Total
	}
	return answer, nil
}

// getItem returns an item with the conversation of its task and its history.
func (c *call) getItem() (any, error) {
	q := c.query("part_bytes")
	c.partBytes = int(q.number("part_bytes", 0, 0, maxPartBytes))
	if err := q.err(); err != nil {
		return nil, err
	}
	return c.item()
}

func (c *call) item() (any, error) {
	if err := c.inboxAllowed(); err != nil {
		return nil, err
	}
	detail, err := c.h.opts.Inbox.Show(c.context(), c.reach(), c.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	for i := range detail.Conversation {
		detail.Conversation[i] = cutMessage(detail.Conversation[i], c.partBytes)
	}
	return detail, nil
}

// answerItem answers a question.
func (c *call) answerItem() (any, error) {
	var q struct {
		Text string   `json:"text"`
		Data a2a.JSON `json:"data"`
	}
	if err := c.change(&q); err != nil {
		return nil, err
	}
	answer := &inbox.Answer{Item: c.r.PathValue("id"), Text: q.Text, Data: q.Data, By: c.by()}
	if err := c.h.opts.Inbox.Answer(c.context(), c.reach(), answer); err != nil {
		return nil, err
	}
	c.h.log.InfoContext(c.context(), "An item of the inbox was answered", "item", answer.Item, "by", answer.By)
	return c.item()
}

// change reads the body of a request that changes an item.
func (c *call) change(q any) error {
	if err := c.inboxAllowed(); err != nil {
		return err
	}
	return c.read(q)
}

// decideItem approves or denies what an item asks for (A2A §7.6).
func (c *call) decideItem() (any, error) {
	d, err := c.decision()
	if err != nil {
		return nil, err
	}
	d.Item = c.r.PathValue("id")
	if err := c.h.opts.Inbox.Decide(c.context(), c.reach(), d); err != nil {
		return nil, err
	}
	c.h.log.InfoContext(c.context(), "An item of the inbox was settled", "item", d.Item, "approved", d.Approved, "by", d.By)
	return c.item()
}

// assignItem says who is to answer an item.
func (c *call) assignItem() (any, error) {
	var q struct {
		Assignee string `json:"assignee"`
	}
	if err := c.change(&q); err != nil {
		return nil, err
	}
	if err := c.h.opts.Inbox.Assign(c.context(), c.reach(), c.r.PathValue("id"), q.Assignee, c.by()); err != nil {
		return nil, err
	}
	return c.item()
}

// setItemDue gives an item a due date, or takes it away.
func (c *call) setItemDue() (any, error) {
	var q struct {
		Due time.Time `json:"due"`
	}
	if err := c.change(&q); err != nil {
		return nil, err
	}
	if err := c.h.opts.Inbox.SetDue(c.context(), c.reach(), c.r.PathValue("id"), q.Due, c.by()); err != nil {
		return nil, err
	}
	return c.item()
}

// linkItem makes a link that answers an item once.
func (c *call) linkItem() (any, error) {
	var q struct {
		For     string    `json:"for"`
		Expires time.Time `json:"expires"`
	}
	if err := c.change(&q); err != nil {
		return nil, err
	}
	var life time.Duration
	if !q.Expires.IsZero() {
		if life = time.Until(q.Expires); life <= 0 {
			return nil, a2a.Invalid("expires", "is over")
		}
	}
	return c.h.opts.Inbox.Link(c.context(), c.reach(), c.r.PathValue("id"), q.For, life, c.by())
}
