package api

import (
	"slices"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// maxTree is how many tasks of a tree are shown.
const maxTree = 500

// tree is the tree of tasks that a task is in.
type tree struct {
	Root      string      `json:"root"`
	This      string      `json:"this"`
	Nodes     []*treeNode `json:"nodes"`
	Truncated bool        `json:"truncated"`
}

// treeNode is one task of a tree.
type treeNode struct {
	ID       string      `json:"id"`
	Parent   string      `json:"parent,omitempty"`
	Agent    string      `json:"agent"` // or the peer
	Peer     bool        `json:"peer,omitzero"`
	State    string      `json:"state"`
	Ref      string      `json:"ref,omitempty"`
	Depth    int         `json:"depth"`
	Began    time.Time   `json:"began"`
	Ended    time.Time   `json:"ended,omitzero"`
	Text     string      `json:"text,omitempty"` // of the status
	WaitsFor *waitsFor   `json:"waits_for,omitzero"`
	Remote   *treeRemote `json:"remote,omitzero"`
}

// treeRemote is what is known of the peer's side.
type treeRemote struct {
	Task    string    `json:"task,omitempty"`
	State   string    `json:"state,omitempty"`
	Send    string    `json:"send"`
	Channel string    `json:"channel"`
	Seen    time.Time `json:"seen,omitzero"`
	Error   string    `json:"error,omitempty"`
}

// taskTree returns the tree that a task is in, as far as the caller may see it.
func (c *call) taskTree() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	row, err := c.taskRow(c.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	self, err := c.delegationBeside(row)
	if err != nil {
		return nil, err
	}
	t := &tree{Root: row.ID, This: row.ID, Nodes: []*treeNode{}}
	if self != nil {
		t.Root = self.Root
	}
	list, truncated, err := c.delegationsOf(t.Root)
	if err != nil {
		return nil, err
	}
	t.Truncated = truncated
	delegations := map[string]*store.Delegation{}
	ids := []string{t.Root}
	for i := range list {
		delegations[list[i].Task] = &list[i]
		if list[i].Task != t.Root {
			ids = append(ids, list[i].Task)
		}
	}
	if d := self; d != nil && delegations[row.ID] == nil {
		delegations[row.ID] = d
		ids = append(ids, row.ID)
	}
	for _, id := range ids {
		record, err := c.h.opts.Engine.Record(c.context(), c.reach(), id, store.Want{})
		if a2a.CodeOf(err) == a2a.CodeTaskNotFound {
			continue // of somebody else, or gone
		}
		if err != nil {
			return nil, err
		}
		node, err := c.treeNode(record, delegations[id])
		if err != nil {
			return nil, err
		}
		t.Nodes = append(t.Nodes, node)
	}
	slices.SortStableFunc(t.Nodes, func(a, b *treeNode) int {
		if a.Depth != b.Depth {
			return a.Depth - b.Depth
		}
		return a.Began.Compare(b.Began)
	})
	return t, nil
}

// delegationsOf returns the delegations below a task, at most so many as are
// shown.
func (c *call) delegationsOf(root string) (list []store.Delegation, truncated bool, err error) {
	if c.h.opts.Delegations == nil {
		return nil, false, nil
	}
	complete, err := c.eachDelegation(store.DelegationQuery{Root: root}, maxTree-1, func(d *store.Delegation) { list = append(list, *d) })
	return list, !complete, err
}

// eachDelegation calls yield with the delegations of a query, at most with so many,
// and reports whether those were all.
func (c *call) eachDelegation(q store.DelegationQuery, most int, yield func(*store.Delegation)) (complete bool, err error) {
	q.PageSize = a2a.MaxPageSize
	for left := most; ; {
		page, err := c.h.opts.Delegations.Delegations(c.context(), c.reach(), q)
		if err != nil {
			return false, err
		}
		for i := range page.Items[:min(len(page.Items), left)] {
			yield(&page.Items[i])
		}
		if left -= len(page.Items); left <= 0 || page.Next == "" {
			return left >= 0 && page.Next == "", nil
		}
		q.Cursor = page.Next
	}
}

func (c *call) treeNode(r *engine.Record, d *store.Delegation) (*treeNode, error) {
	row := &r.Row
	n := &treeNode{ID: row.ID, Agent: row.Agent, State: row.State.String(), Began: row.Created.UTC(), Text: textOf(r.Task.Status.Message)}
	if row.State.Terminal() {
		n.Ended = row.StatusAt.UTC()
	} else {
		var err error
		if n.WaitsFor, err = c.waitOf(row, d, r.Task.Status.Message); err != nil {
			return nil, err
		}
	}
	if d == nil {
		return n, nil
	}
	n.Parent, n.Ref, n.Depth = d.Parent, d.Ref, d.Depth
	if d.Peer != "" {
		n.Agent, n.Peer = d.Peer, true
		n.Remote = &treeRemote{Task: d.RemoteTask, Send: sendWords[d.Send], Channel: channelWords[d.Channel], Error: clip(d.Error, maxShownText)}
		if d.RemoteState != a2a.StateUnspecified {
			n.Remote.State = d.RemoteState.String()
		}
		if !d.Seen.IsZero() {
			n.Remote.Seen = d.Seen.UTC()
		}
	}
	return n, nil
}
