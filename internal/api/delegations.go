package api

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// maxMessage bounds the body of a request with a message: files travel in it.
const maxMessage = 32 << 20

// Delegation is work that a caller hands to another agent.
type Delegation struct {
	To       string
	Message  *a2a.Message
	Ref      string
	Again    bool
	Deadline time.Duration
	Skill    string
}

// Delegator hands work to other agents.
type Delegator interface {
	// Delegate makes a delegation, and returns the id of its task.
	Delegate(ctx context.Context, by *auth.Principal, d *Delegation) (id string, err error)
	// Send sends a message to the agent of a delegation.
	Send(ctx context.Context, by *auth.Principal, id string, message *a2a.Message) error
	// Find returns the id of the delegation that has an id or a reference.
	Find(ctx context.Context, by *auth.Principal, idOrRef string) (id string, err error)
	// Look lets a delegation look at its agent now.
	Look(ctx context.Context, id string) error
}

// delegation is a delegation as an operator sees it.
type delegation struct {
	ID       string    `json:"id"`
	To       string    `json:"to"`
	Peer     bool      `json:"peer"` // an agent elsewhere
	Ref      string    `json:"ref,omitempty"`
	State    string    `json:"state"`
	Context  string    `json:"context"`
	Tenant   string    `json:"tenant"`
	Owner    string    `json:"owner"`
	Asked    string    `json:"asked"`
	Root     string    `json:"root"`
	Parent   string    `json:"parent,omitempty"`
	Depth    int       `json:"depth"`
	Created  time.Time `json:"created"`
	Deadline time.Time `json:"deadline,omitzero"`
	WaitsFor *waitsFor `json:"waits_for,omitzero"`
	Remote   *remote   `json:"remote,omitzero"`
	Children []string  `json:"children,omitempty"`
	Task     *a2a.Task `json:"task,omitzero"`
}

// remote is what is known of the peer's side.
type remote struct {
	Send       string    `json:"send"`
	Task       string    `json:"task,omitempty"`
	Context    string    `json:"context,omitempty"`
	State      string    `json:"state,omitempty"`
	Seen       time.Time `json:"seen,omitzero"`
	Channel    string    `json:"channel"`
	Message    string    `json:"message,omitempty"`
	Number     int64     `json:"number,omitzero"`
	Attempts   int       `json:"attempts,omitzero"`
	Error      string    `json:"error,omitempty"`
	Interface  string    `json:"interface,omitempty"`
	CardDigest string    `json:"card_digest,omitempty"`
	Recalled   bool      `json:"recalled,omitzero"`
}

// The words for the enums of a row.
var (
	sendWords = map[store.SendState]string{
		store.SendUnsent: "unsent", store.SendSending: "sending", store.SendUnknown: "unknown",
		store.SendAccepted: "accepted", store.SendLost: "lost",
	}
	channelWords = map[store.Channel]string{
		store.ChannelNone: "none", store.ChannelStream: "stream", store.ChannelPush: "push", store.ChannelPoll: "poll",
	}
)

func delegationOf(d *store.Delegation) *delegation {
	v := &delegation{
		ID: d.Task, To: d.Agent, Ref: d.Ref, State: d.State.String(), Context: d.Context, Tenant: d.Tenant, Owner: d.Owner,
		Asked: d.Asked, Root: d.Root, Parent: d.Parent, Depth: d.Depth, Created: d.Created.UTC(),
	}
	if !d.Deadline.IsZero() {
		v.Deadline = d.Deadline.UTC()
	}
	if d.Peer == "" {
		return v
	}
	v.To, v.Peer = d.Peer, true
	v.Remote = &remote{
		Send: sendWords[d.Send], Task: d.RemoteTask, Context: d.RemoteContext, Channel: channelWords[d.Channel],
		Message: d.Message, Number: d.Number, Attempts: d.Attempts, Error: d.Error, Interface: d.Interface,
		CardDigest: d.CardDigest, Recalled: d.Recalled,
	}
	if d.RemoteState != a2a.StateUnspecified {
		v.Remote.State = d.RemoteState.String()
	}
	if !d.Seen.IsZero() {
		v.Remote.Seen = d.Seen.UTC()
	}
	return v
}

// listDelegations returns the delegations that the caller may see, newest first.
func (c *call) listDelegations() (any, error) {
	q := c.query("ref", "peer", "root", "state", "open", "page_size", "page_token")
	list := store.DelegationQuery{
		Ref: q.values.Get("ref"), Peer: q.values.Get("peer"), Root: q.values.Get("root"), State: q.state("state"), Open: q.flag("open"),
		PageSize: int(q.number("page_size", defaultPage, 1, a2a.MaxPageSize)), Cursor: q.values.Get("page_token"),
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	if err := c.mayList(); err != nil {
		return nil, err
	}
	page, err := c.h.opts.Delegations.Delegations(c.context(), c.reach(), list)
	if errors.Is(err, store.ErrBadCursor) {
		return nil, a2a.Invalid("page_token", "is not one of this list")
	}
	if err != nil {
		return nil, err
	}
	answer := struct {
		Delegations   []*delegation `json:"delegations"`
		NextPageToken string        `json:"next_page_token,omitempty"`
	}{make([]*delegation, len(page.Items)), page.Next}
	for i := range page.Items {
		answer.Delegations[i] = delegationOf(&page.Items[i])
	}
	return answer, c.waitsOf(page.Items, answer.Delegations)
}

// waitsOf fills in what the delegations of a page wait for that are not over.
func (c *call) waitsOf(list []store.Delegation, views []*delegation) error {
	var ids []string
	at := map[string]int{}
	for i := range list {
		if !list[i].State.Terminal() {
			at[list[i].Task] = i
			ids = append(ids, list[i].Task)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := c.h.opts.Store.Tasks(c.context(), c.reach(), ids)
	if err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		var status *a2a.Message
		if row.State.Interrupted() {
			record, err := c.h.opts.Engine.Record(c.context(), c.reach(), row.ID, store.Want{})
			if a2a.CodeOf(err) == a2a.CodeTaskNotFound {
				continue // it has gone meanwhile
			}
			if err != nil {
				return err
			}
			row, status = &record.Row, record.Task.Status.Message
		}
		n, ok := at[row.ID]
		if !ok {
			continue
		}
		if views[n].WaitsFor, err = c.waitOf(row, &list[n], status); err != nil {
			return err
		}
	}
	return nil
}

// mayList refuses lists to callers that cannot be told from each other, and where
// there is nothing to list.
func (c *call) mayList() error {
	if c.h.opts.Delegations == nil || c.h.opts.Delegator == nil {
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "This node hands on no work")
	}
	if c.caller.Anonymous() && !c.caller.Local {
		return a2a.Errorf(a2a.CodePermissionDenied, "Callers without credentials may not see delegations")
	}
	return nil
}

// message reads the message of a request: a text, or an object with parts.
func message(value jsontext.Value) (*a2a.Message, error) {
	m := &a2a.Message{}
	switch value.Kind() {
	case '"':
		var text string
		if json.Unmarshal(value, &text) != nil {
			return nil, a2a.Invalid("message", "is not a text")
		}
		m.Parts = []a2a.Part{a2a.Text(text)}
		return m, nil
	case '{':
		return m, a2a.Unmarshal(value, m)
	}
	return nil, a2a.Invalid("message", "has to be a text, or an object with parts")
}

// createDelegation hands work to another agent.
func (c *call) createDelegation() (any, error) {
	var q struct {
		To       string         `json:"to"`
		Message  jsontext.Value `json:"message"`
		Ref      string         `json:"ref"`
		Again    bool           `json:"again"`
		Deadline string         `json:"deadline"`
		Skill    string         `json:"skill"`
	}
	if err := c.readUpTo(&q, maxMessage); err != nil {
		return nil, err
	}
	if err := c.mayList(); err != nil {
		return nil, err
	}
	d := &Delegation{To: q.To, Ref: q.Ref, Again: q.Again, Skill: q.Skill}
	var err error
	if d.Message, err = message(q.Message); err != nil {
		return nil, err
	}
	if q.Deadline != "" {
		var deadline config.Duration
		if deadline.UnmarshalText([]byte(q.Deadline)) != nil || deadline <= 0 {
			return nil, a2a.Invalid("deadline", "is not a duration such as 48h or 2d")
		}
		d.Deadline = deadline.Std()
	}
	id, err := c.h.opts.Delegator.Delegate(c.context(), &c.caller, d)
	if err != nil {
		return nil, err
	}
	c.target = id
	return c.delegation(id)
}

// getDelegation returns a delegation by its id or its reference, with its task.
func (c *call) getDelegation() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	id, err := c.found()
	if err != nil {
		return nil, err
	}
	return c.delegation(id)
}

// found returns the id of the delegation that the path names.
func (c *call) found() (string, error) {
	if err := c.mayList(); err != nil {
		return "", err
	}
	id := c.r.PathValue("id")
	if len(id) > a2a.MaxIDLength {
		return "", a2a.TaskNotFound(clip(id, a2a.MaxIDLength))
	}
	return c.h.opts.Delegator.Find(c.context(), &c.caller, id)
}

func (c *call) delegation(id string) (any, error) {
	d, err := c.h.opts.Delegations.Delegation(c.context(), c.reach(), id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, a2a.TaskNotFound(id)
	}
	if err != nil {
		return nil, err
	}
	record, err := c.h.opts.Engine.Record(c.context(), c.reach(), id, store.Want{Messages: 100, Artifacts: true})
	if err != nil {
		return nil, err
	}
	v := delegationOf(d)
	v.Task = record.Task
	if v.WaitsFor, err = c.waitOf(&record.Row, d, record.Task.Status.Message); err != nil {
		return nil, err
	}
	if v.Children, err = c.h.opts.Delegations.Children(c.context(), id); err != nil {
		return nil, err
	}
	return v, nil
}

// sendDelegation sends the agent of a delegation another message.
func (c *call) sendDelegation() (any, error) {
	var q struct {
		Message jsontext.Value `json:"message"`
	}
	if err := c.readUpTo(&q, maxMessage); err != nil {
		return nil, err
	}
	id, err := c.found()
	if err != nil {
		return nil, err
	}
	m, err := message(q.Message)
	if err != nil {
		return nil, err
	}
	if err := c.h.opts.Delegator.Send(c.context(), &c.caller, id, m); err != nil {
		return nil, err
	}
	return c.delegation(id)
}

// cancelDelegation ends a delegation, here and at the agent.
func (c *call) cancelDelegation() (any, error) {
	if err := c.read(&nothing{}); err != nil {
		return nil, err
	}
	id, err := c.found()
	if err != nil {
		return nil, err
	}
	by := engine.ByCaller
	if c.caller.Role >= auth.RoleOperator {
		by = engine.ByOperator
	}
	if _, err := c.h.opts.Engine.Cancel(c.context(), c.reach(), nil, id, by); err != nil {
		return nil, err
	}
	return c.delegation(id)
}

// resumeDelegation lets a delegation look at its agent now.
func (c *call) resumeDelegation() (any, error) {
	if err := c.read(&nothing{}); err != nil {
		return nil, err
	}
	id, err := c.found()
	if err != nil {
		return nil, err
	}
	if err := c.h.opts.Delegator.Look(c.context(), id); err != nil {
		return nil, err
	}
	return c.delegation(id)
}
