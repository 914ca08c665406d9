package engine

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// PeerPrefix begins the ids of the agents that stand for peers: peer:NAME.
const PeerPrefix = "peer:"

// DelegationLimits bound the trees of tasks that agents make by delegating; zero
// is no limit.
type DelegationLimits struct {
	Depth int           // hops from the root, over all nodes
	Tasks int           // tasks below one root on this node's store
	Time  time.Duration // from the beginning of the root to the end of its tree
}

// DefaultDelegationLimits are those of an engine that is not told others.
var DefaultDelegationLimits = DelegationLimits{Depth: 8, Tasks: 100, Time: 30 * 24 * time.Hour}

// Delegating says of a message that it is to make a delegation, and what of it is
// not in the message.
type Delegating struct {
	ID       string    // of the task, when it is known before; "": a new one
	Ref      string    // the business key; "": none
	Again    bool      // although an open delegation to the same peer has the Ref
	Deadline time.Time // zero: as the agent has it
	Asked    string    // who asks; "": the caller

	lineage *lineage // of a child
}

// lineage is where a task stands in a tree of tasks. It is kept with the task,
// and absent at a root that nobody told anything else.
type lineage struct {
	Root     string    `json:"root,omitzero"`   // the highest task above on this store; "": the task itself
	Parent   string    `json:"parent,omitzero"` // the task of this store that has delegated it
	Turn     int       `json:"turn,omitzero"`   // of the parent
	Depth    int       `json:"depth,omitzero"`  // hops from the root over all nodes
	Path     []string  `json:"path,omitempty"`  // the agents above
	Origin   string    `json:"origin,omitzero"` // the root as the caller named it
	Ref      string    `json:"ref,omitzero"`    // the business key of a delegation
	Made     bool      `json:"made,omitzero"`   // by an agent or a person here, as a delegation
	Deadline time.Time `json:"deadline,omitzero"`
}

// child reports whether a task of this store waits for it.
func (l *lineage) child() bool { return l != nil && l.Parent != "" }

// delegated reports whether the task is a delegation of this store.
func (l *lineage) delegated() bool { return l != nil && l.Made }

// lineageIn returns what a message says of its lineage, nil for nothing, and
// refuses loops and trees that are too deep.
func (e *Engine) lineageIn(q *Request) (*lineage, error) {
	if e.own(q.Spec) == q.Spec.ID {
		return nil, refusal(ReasonLoop, "The peer %s, to which the agent %s hands everything, is this agent itself, so that this would be a loop", q.Spec.Peer, q.Spec.ID)
	}
	if q.Spec.NoLineage {
		return nil, nil
	}
	in, err := a2a.LineageOf(q.Message.Metadata)
	if in == nil || err != nil {
		return nil, err
	}
	if err := e.mayDelegate(in.Path, in.Depth, q.Spec); err != nil {
		return nil, err
	}
	return &lineage{Depth: in.Depth, Path: in.Path, Origin: in.Root, Deadline: in.Deadline}, nil
}

// Reasons for which a delegation is refused, in the metadata of the error.
const (
	MetadataReason = "reason"
	ReasonLoop     = "delegation_loop"
	ReasonDepth    = "delegation_depth"
	ReasonTasks    = "delegation_tasks"
	ReasonRef      = "delegation_ref"
)

func refusal(reason, format string, args ...any) *a2a.Error {
	return &a2a.Error{
		Code: a2a.CodeUnsupportedOperation, Message: fmt.Sprintf(format, args...),
		Metadata: map[string]string{MetadataReason: reason},
	}
}

// mayDelegate refuses a task of an agent that stands above it already, or that is
// too far from its root.
func (e *Engine) mayDelegate(path []string, depth int, spec *Spec) error {
	if limit := e.cfg.Delegations().Depth; limit > 0 && depth > limit {
		return refusal(ReasonDepth, "The task would be %d hops from the task that it is for; at most %d are allowed", depth, limit)
	}
	if slices.Contains(path, e.pathID(spec.ID)) {
		return refusal(ReasonLoop, "The agent %s is already at work on this above, so that this would be a loop", spec.ID)
	}
	// A peer may pass on no lineage, and so not find out itself.
	if own := e.own(spec); own != "" && slices.Contains(path, e.pathID(own)) {
		return refusal(ReasonLoop, "The peer %s is the agent %s of this node, which is already at work on this above, so that this would be a loop", spec.Peer, own)
	}
	return nil
}

// own returns the agent of this node that the peer of an agent is, "" for none.
func (e *Engine) own(spec *Spec) string {
	if spec.Peer == "" || e.cfg.OwnAgent == nil {
		return ""
	}
	return e.cfg.OwnAgent(spec.Peer)
}

// pathID is how lineages name an agent of this store. It tells others nothing,
// and all nodes of the store know it again.
func (e *Engine) pathID(agentID string) string {
	sum := sha256.Sum256([]byte("handoff lineage\x00" + e.self + "\x00" + agentID))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// pathOf is the path of what a task of an agent hands on.
func (e *Engine) pathOf(l *lineage, agentID string) []string {
	var path []string
	if l != nil {
		path = slices.Clip(l.Path)
	}
	if strings.HasPrefix(agentID, PeerPrefix) {
		return path // it stands for the one to which it hands everything
	}
	return append(path, e.pathID(agentID))
}

// lineageOut is what a turn of a delegation tells its peer.
func (e *Engine) lineageOut(r *run) *a2a.Lineage { return e.lineageOf(r.id, r.spec.ID, r.meta.Lineage) }

// LineageOf returns what the messages of a delegation tell its peer, also when no
// turn of it runs.
func (e *Engine) LineageOf(ctx context.Context, task string) (*a2a.Lineage, error) {
	row, err := e.store.Task(ctx, nodeScope, task)
	if err != nil {
		return nil, fmt.Errorf("read lineage: %w", err)
	}
	return e.lineageOf(row.ID, row.Agent, decodeMeta(row.Meta).Lineage), nil
}

func (e *Engine) lineageOf(task, agentID string, l *lineage) *a2a.Lineage {
	out := &a2a.Lineage{Root: task, Parent: task, Depth: 1, Path: e.pathOf(l, agentID)}
	if l != nil {
		out.Deadline = l.Deadline
		switch {
		case l.Origin != "":
			out.Root = l.Origin
		case l.Root != "":
			out.Root = l.Root
		}
		out.Depth = max(l.Depth, 1)
		if l.Parent == "" && l.Depth > 0 { // a relay of what came from elsewhere
			out.Depth = l.Depth + 1
		}
	}
	return out
}

// delegationOf returns the row beside a new task, nil when it is no delegation, and
// keeps in its lineage what is to be kept.
func (e *Engine) delegationOf(q *Request, row *store.Task, m *meta) *store.Delegation {
	if q.Delegation == nil && q.Spec.Peer == "" {
		return nil
	}
	asked := q.Delegation
	if asked == nil {
		asked = &Delegating{}
	}
	if asked.lineage != nil {
		m.Lineage = asked.lineage
	}
	if m.Lineage == nil {
		m.Lineage = &lineage{}
	}
	l := m.Lineage
	l.Made, l.Ref = q.Delegation != nil, asked.Ref
	deadline := asked.Deadline
	if deadline.IsZero() && q.Spec.Deadline > 0 {
		deadline = row.Created.Add(q.Spec.Deadline)
	}
	l.Deadline = earlier(deadline, l.Deadline)
	d := &store.Delegation{
		Task: row.ID, Tenant: row.Tenant, Owner: row.Owner, Agent: row.Agent, Context: row.Context, Created: row.Created,
		Peer: q.Spec.Peer, Ref: asked.Ref, Root: l.Root, Parent: l.Parent, Turn: l.Turn, Depth: l.Depth,
		Asked: asked.Asked, Deadline: l.Deadline,
	}
	if d.Root == "" {
		d.Root = row.ID
	}
	if d.Asked == "" {
		d.Asked = q.Caller.Subject
	}
	return d
}

// earlier returns the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// lineageBelow is the lineage of a task that a turn of a task makes.
func (e *Engine) lineageBelow(parent *store.Task, m *meta) *lineage {
	l := &lineage{Root: parent.ID, Parent: parent.ID, Turn: parent.Turn, Depth: 1, Made: true, Path: e.pathOf(m.Lineage, parent.Agent)}
	if above := m.Lineage; above != nil {
		l.Depth, l.Origin, l.Deadline = above.Depth+1, above.Origin, above.Deadline
		if above.Root != "" {
			l.Root = above.Root
		}
	}
	return l
}

// checkBudget refuses one task too many below a root.
func (l *lineage) checkBudget(ctx context.Context, e *Engine, scope store.Scope) error {
	limits := e.cfg.Delegations()
	if limits.Tasks == 0 {
		return nil
	}
	n := 0
	for cursor := ""; ; {
		page, err := e.store.Delegations(ctx, scope, store.DelegationQuery{Root: l.Root, PageSize: 100, Cursor: cursor})
		if err != nil {
			return err
		}
		for i := range page.Items {
			if page.Items[i].Parent != "" {
				n++
			}
		}
		if n >= limits.Tasks {
			return refusal(ReasonTasks, "There are %d tasks below the task %s already, and more are not allowed", n, l.Root)
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}
