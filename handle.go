package handoff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// Delegation is work for another agent.
type Delegation struct {
	// To is the name of a peer, or the id of an agent of this node.
	To string
	// Message is what the agent is told: its parts, and its metadata. With a
	// ContextID it goes on with a conversation of earlier delegations, and with
	// ReferenceTaskIDs it refers to tasks of those. A message with an id that was
	// delegated before is the same delegation; without one, it is a new one.
	Message *a2a.Message
	// Ref is the key by which the business knows the work, such as the number of
	// an order. While a delegation to the same peer with the same Ref is open, a
	// second one is refused, unless Again.
	Ref   string
	Again bool
	// Deadline is how long the work may take; 0: as long as the peer is
	// configured to.
	Deadline time.Duration
	// Skill is the id of the skill that the work is for; "": none is named.
	Skill string
}

// Handle is a delegation as a program holds it. It outlives the process: the
// delegation goes on without it, and Node.Delegation finds it again.
type Handle struct {
	node *Node
	id   string
}

// self is the program that a node is part of, as the owner of what it delegates.
var self = Principal{Subject: "local admin", Issuer: "program", Role: RoleAdmin, Local: true}

// Delegate hands work to another agent, and returns when that is kept: before
// the agent has heard of it, and so that it hears of it whatever happens to this
// process. An *a2a.Error with the reason delegation_ref says that the Ref belongs
// to an open delegation, which its metadata names as taskId.
func (n *Node) Delegate(ctx context.Context, d Delegation) (*Handle, error) {
	if err := n.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	id, err := n.delegate(ctx, &self, &d)
	if err != nil {
		return nil, err
	}
	return &Handle{n, id}, nil
}

// delegate makes a delegation for a principal and returns the id of its task.
func (n *Node) delegate(ctx context.Context, by *Principal, d *Delegation) (string, error) {
	spec := n.delegateSpec(d.To)
	if spec == nil {
		return "", a2a.Invalid("to", "is neither a peer nor an agent of this node")
	}
	if d.Message == nil || len(d.Message.Parts) == 0 {
		return "", a2a.Invalid("message", "says nothing")
	}
	message := *d.Message
	message.Role, message.TaskID = a2a.RoleUser, ""
	if message.MessageID == "" {
		message.MessageID = newMessageID()
	}
	if d.Skill != "" {
		var err error
		if message.Metadata, err = withSkill(message.Metadata, d.Skill); err != nil {
			return "", err
		}
	}
	if err := message.Validate(); err != nil {
		return "", err
	}
	if len(d.Ref) > a2a.MaxIDLength {
		return "", a2a.Invalid("ref", "is longer than %d bytes", a2a.MaxIDLength)
	}
	asked := &engine.Delegating{Ref: d.Ref, Again: d.Again, Asked: by.Subject}
	switch {
	case d.Deadline < 0:
		return "", a2a.Invalid("deadline", "is before now")
	case d.Deadline > 0:
		asked.Deadline = time.Now().Add(d.Deadline)
	}
	answer, err := n.engine.Send(ctx, &engine.Request{
		Spec: spec, Scope: auth.Scope(by), Authenticated: true, Message: &message, Delegation: asked,
		Caller: agent.Caller{Tenant: by.Tenant, Subject: by.Subject, Issuer: by.Issuer, Scopes: by.Scopes},
		Config: a2a.SendMessageConfiguration{ReturnImmediately: true},
	})
	if err != nil {
		return "", err
	}
	if answer.Task == nil {
		return "", a2a.Errorf(a2a.CodeUnsupportedOperation, "The agent %q answered with a message; it has no tasks", d.To)
	}
	return answer.Task.ID, nil
}

// delegateSpec returns the agent that work for a peer, or for an agent of this
// node, is a task of; nil when there is none.
func (n *Node) delegateSpec(to string) *engine.Spec {
	if spec := n.peerSpec(to); spec != nil {
		return spec
	}
	return n.current.Load().specs[to]
}

// Delegation returns a delegation by its id, or by its Ref: the open one, or else
// the newest that had it. An error that is a2a.CodeTaskNotFound says that there
// is none, and one that is a2a.CodeUnsupportedOperation that several are open.
func (n *Node) Delegation(ctx context.Context, idOrRef string) (*Handle, error) {
	if err := n.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	id, err := n.findDelegation(ctx, &self, idOrRef)
	if err != nil {
		return nil, err
	}
	return &Handle{n, id}, nil
}

func (n *Node) findDelegation(ctx context.Context, by *Principal, idOrRef string) (string, error) {
	scope := auth.Reach(by)
	d, err := n.store.Delegation(ctx, scope, idOrRef)
	if err == nil {
		return d.Task, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return "", engine.Unavailable(err)
	}
	if idOrRef == "" {
		return "", a2a.TaskNotFound(idOrRef)
	}
	for _, open := range [...]bool{true, false} {
		page, err := n.store.Delegations(ctx, scope, store.DelegationQuery{Ref: idOrRef, Open: open, PageSize: maxNamed})
		switch {
		case err != nil:
			return "", engine.Unavailable(err)
		case open && len(page.Items) > 1:
			return "", ambiguous(idOrRef, page.Items)
		case len(page.Items) > 0:
			return page.Items[0].Task, nil
		}
	}
	return "", a2a.TaskNotFound(idOrRef)
}

// maxNamed bounds how many delegations of a reference an error names.
const maxNamed = 10

// ambiguous is the error of a reference that several open delegations have.
func ambiguous(ref string, open []store.Delegation) error {
	names := make([]string, len(open))
	for i := range open {
		names[i] = open[i].Task
		if open[i].Peer != "" {
			names[i] += " (to " + open[i].Peer + ")"
		}
	}
	return a2a.Errorf(a2a.CodeUnsupportedOperation, "Several open delegations have the reference %q: %s. Name the one that is meant by its id", ref, strings.Join(names, ", "))
}

// ID returns the id of the delegation, which is that of its task.
func (h *Handle) ID() string { return h.id }

// Task returns the task as it is now.
func (h *Handle) Task(ctx context.Context) (*a2a.Task, error) {
	return h.node.engine.Get(ctx, auth.Reach(&self), nil, h.id, nil)
}

// Wait returns the task when it is over or waits for somebody: for an answer
// (INPUT_REQUIRED), which Send gives, or a decision (AUTH_REQUIRED), which
// Node.Grant makes. It takes as long as the work. When ctx ends first, the
// delegation goes on.
func (h *Handle) Wait(ctx context.Context) (*a2a.Task, error) {
	for {
		task, err := h.Task(ctx)
		if err != nil || task.Status.State.Terminal() || task.Status.State.Interrupted() {
			return task, err
		}
		if err := h.next(ctx); err != nil {
			return nil, err
		}
	}
}

// next returns when the task may have got into a state that Wait waits for.
func (h *Handle) next(ctx context.Context) error {
	stream, err := h.node.engine.Subscribe(ctx, auth.Reach(&self), nil, h.id, "")
	if errors.Is(err, &a2a.Error{Code: a2a.CodeUnsupportedOperation}) {
		return nil // it is over meanwhile
	}
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		frame, err := stream.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("wait for delegation: %w", err)
		}
		var e a2a.StreamResponse
		if err := a2a.Unmarshal(frame.Body, &e); err != nil {
			return fmt.Errorf("wait for delegation: %w", err)
		}
		state := a2a.StateUnspecified
		switch {
		case e.Task != nil:
			state = e.Task.Status.State
		case e.StatusUpdate != nil:
			state = e.StatusUpdate.Status.State
		}
		if state.Terminal() || state.Interrupted() {
			return nil
		}
	}
}

// Send sends the agent another message of those parts: the answer to what it
// asks, or something that it should know.
func (h *Handle) Send(ctx context.Context, parts ...a2a.Part) error {
	message := &a2a.Message{Parts: parts}
	return h.node.sendTo(ctx, &self, h.id, message)
}

// sendTo sends a message to the task of a delegation.
func (n *Node) sendTo(ctx context.Context, by *Principal, id string, message *a2a.Message) error {
	scope := auth.Reach(by)
	row, err := n.store.Task(ctx, scope, id)
	if errors.Is(err, store.ErrNotFound) {
		return a2a.TaskNotFound(id)
	}
	if err != nil {
		return engine.Unavailable(err)
	}
	spec := n.spec(row.Agent)
	if spec == nil {
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "The agent %q of the task does not exist any more", row.Agent)
	}
	m := *message
	m.Role, m.TaskID, m.ContextID = a2a.RoleUser, id, ""
	if m.MessageID == "" {
		m.MessageID = newMessageID()
	}
	if err := m.Validate(); err != nil {
		return err
	}
	_, err = n.engine.Send(ctx, &engine.Request{
		Spec: spec, Scope: scope, Authenticated: true, Message: &m,
		Caller: agent.Caller{Tenant: by.Tenant, Subject: by.Subject, Issuer: by.Issuer, Scopes: by.Scopes},
		Config: a2a.SendMessageConfiguration{ReturnImmediately: true},
	})
	return err
}

// Cancel ends the delegation as CANCELED, and tells the agent to stop. It is told
// until it has answered, whatever happens to this process. Canceling what is over
// is an error, a2a.CodeTaskNotCancelable; what is canceled already is none.
func (h *Handle) Cancel(ctx context.Context) error {
	_, err := h.node.engine.Cancel(ctx, auth.Reach(&self), nil, h.id, engine.ByOperator)
	return err
}

// Look lets the delegation look at its agent now, and not when it would have.
func (h *Handle) Look(ctx context.Context) error { return delegator{h.node}.Look(ctx, h.id) }
