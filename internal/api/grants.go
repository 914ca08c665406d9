package api

import (
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/inbox"
	"handoff.example/handoff/internal/store"
)

// grant is a request for an authorization that waits for a decision.
type grant struct {
	ID        string    `json:"id"`
	Task      string    `json:"task"`
	Turn      int       `json:"turn"`
	Operation string    `json:"operation,omitempty"`
	Text      string    `json:"text"`
	URL       string    `json:"url,omitempty"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"`
}

func grantOf(g *store.Grant) *grant {
	answer := &grant{
		ID: g.ID, Task: g.Task, Turn: g.Turn, Operation: g.Operation, Text: g.Text, URL: g.URL, Created: g.Created.UTC(),
	}
	if !g.Expires.IsZero() {
		answer.Expires = g.Expires.UTC()
	}
	return answer
}

// listGrants returns the requests that wait for a decision, oldest first.
func (c *call) listGrants() (any, error) {
	q := c.query("limit")
	limit := int(q.number("limit", 100, 1, maxGrants))
	if err := q.err(); err != nil {
		return nil, err
	}
	if c.caller.Anonymous() && !c.caller.Local {
		// All anonymous callers are one owner.
		return nil, a2a.Errorf(a2a.CodePermissionDenied, "Callers without credentials may not see grant requests")
	}
	grants, err := c.h.opts.Engine.Grants(c.context(), c.reach(), limit)
	if err != nil {
		return nil, err
	}
	answer := struct {
		Grants []*grant `json:"grants"`
	}{make([]*grant, len(grants))}
	for i := range grants {
		answer.Grants[i] = grantOf(&grants[i])
	}
	return answer, nil
}

// decision reads a decision of the caller.
func (c *call) decision() (*inbox.Decision, error) {
	var q struct {
		Decision string   `json:"decision"`
		Note     string   `json:"note"`
		Data     a2a.JSON `json:"data"`
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	switch {
	case q.Decision != "approve" && q.Decision != "deny":
		return nil, a2a.Invalid("decision", "is neither approve nor deny")
	case len(q.Note) > maxNote:
		return nil, a2a.Invalid("note", "is longer than %d bytes", maxNote)
	case q.Data != nil && q.Decision == "deny":
		return nil, a2a.Invalid("data", "goes with approve only")
	}
	if q.Data.Kind() == 'n' {
		q.Data = nil
	}
	return &inbox.Decision{Approved: q.Decision == "approve", Note: q.Note, Data: q.Data, By: c.by()}, nil
}

// decideGrant settles a request (A2A §7.6), and so lets its task go on.
func (c *call) decideGrant() (any, error) {
	d, err := c.decision()
	if err != nil {
		return nil, err
	}
	row, err := c.h.opts.Inbox.DecideGrant(c.context(), c.reach(), c.r.PathValue("id"), d)
	if err != nil {
		return nil, err
	}
	c.h.log.InfoContext(c.context(), "A grant request was settled", "grant", c.r.PathValue("id"), "approved", d.Approved, "by", d.By, "task", row.ID)
	return c.record(row.ID, 100)
}
