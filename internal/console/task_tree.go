package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/internal/console/graph"
	"handoff.example/handoff/internal/console/timeline"
)

// taskTree is the tree that a task is in, as the API has it. Parents come before
// their children.
type taskTree struct {
	Root      string     `json:"root"`
	This      string     `json:"this"`
	Nodes     []treeNode `json:"nodes"`
	Truncated bool       `json:"truncated"`
}

// treeNode is a task of a tree.
type treeNode struct {
	ID     string    `json:"id"`
	Parent string    `json:"parent"`
	Agent  string    `json:"agent"`
	Peer   bool      `json:"peer"`
	State  string    `json:"state"`
	Ref    string    `json:"ref"`
	Depth  int       `json:"depth"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended"`
	Text   string    `json:"text"`
	Waits  *waitsFor `json:"waits_for"`
	Remote *struct {
		Task    string    `json:"task"`
		State   string    `json:"state"`
		Channel string    `json:"channel"`
		Seen    time.Time `json:"seen"`
		Error   string    `json:"error"`
	} `json:"remote"`

	now    time.Time
	within string // the task of the tree for which it waits, if it is one
}

// passOn finds which tasks wait for others of the tree. A question that a task has
// passed on from one that it delegated is that one's: who waits for a person is
// the one that asked first.
func (t *taskTree) passOn() {
	byID := make(map[string]*treeNode, len(t.Nodes))
	for i := range t.Nodes {
		byID[t.Nodes[i].ID] = &t.Nodes[i]
	}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.Waits != nil && byID[n.Waits.Task] != nil && n.Waits.Task != n.ID {
			n.within = n.Waits.Task
		}
		parent := byID[n.Parent]
		if parent == nil || parent == n || n.Waits == nil || !n.Waits.Person() || parent.Waits == nil || parent.Waits.Kind != n.Waits.Kind {
			continue
		}
		if parent.Waits.Item == n.Waits.Item && n.Waits.Item != "" || parent.Waits.Text == n.Waits.Text && n.Waits.Text != "" {
			parent.within = n.ID
		}
	}
}

// Over reports whether nothing happens to the task any more.
func (n *treeNode) Over() bool { return !n.Ended.IsZero() || terminal(n.State) }

func terminal(state string) bool { return slices.Contains(endStates, state) }

// Length is how long the task took, or has taken until now.
func (n *treeNode) Length() string {
	if n.Ended.IsZero() {
		return timeline.Length(n.now.Sub(n.Began))
	}
	return timeline.Length(n.Ended.Sub(n.Began))
}

// Waited is how long the task has waited for whom it waits now; "" if it does not.
func (n *treeNode) Waited() string {
	if n.Waits == nil || n.Waits.Since.IsZero() {
		return ""
	}
	return timeline.Length(n.now.Sub(n.Waits.Since))
}

// Delegated reports whether the task is work that was handed on.
func (n *treeNode) Delegated() bool { return n.Peer || n.Parent != "" }

// Who is the agent that does the work: a peer by its name.
func (n *treeNode) Who() string { return strings.TrimPrefix(n.Agent, "peer:") }

// tree asks the API for the tree that a task is in.
func (v *view) tree(id string, now time.Time) (*taskTree, error) {
	t := &taskTree{}
	if err := v.get("/tasks/"+url.PathEscape(id)+"/tree", t); err != nil {
		return nil, err
	}
	for i := range t.Nodes {
		t.Nodes[i].now = now
	}
	return t, nil
}

// drawnTree is a tree as a picture and as a list.
type drawnTree struct {
	*taskTree
	*graph.Picture
	Cards []*treeCard
	Lines []treeLine
	List  []*branch
}

// branch is a task with those below it.
type branch struct {
	*treeNode
	Below []*branch
}

// treeCard is a box of the picture: a task, or for whom it waits.
type treeCard struct {
	graph.Box
	*treeNode
	Current bool // the task that was asked for
}

// Waiter says for whom the task of the card waits.
func (c *treeCard) Waiter() *waitsFor { return c.treeNode.Waits }

// WaiterName is the first line of a card of somebody who is waited for.
func (c *treeCard) WaiterName() string {
	if w := c.treeNode.Waits; w.Who != "" || !w.Person() {
		return w.Whom()
	}
	return "Somebody"
}

// WaiterSays is the second line of a card of somebody who is waited for.
func (c *treeCard) WaiterSays() string {
	w := c.treeNode.Waits
	switch w.Kind {
	case "answer":
		return "is to answer"
	case "grant":
		return "is to approve"
	case "callback":
		return "is to call back"
	case "time":
		return "to go on by itself"
	case "worker":
		return "nobody is free"
	}
	return "is waited for"
}

// Tooltip is what the picture shows of a task when one points at it.
func (c *treeCard) Tooltip() string {
	return strings.TrimSpace(c.Who() + " · " + stateOf(c.State).Word + " · " + c.Length() + "\n" + c.Text)
}

// treeLine is an edge of the picture, from who waits to who is waited for.
type treeLine struct {
	graph.Edge
	Path    string // of the curve
	Label   string
	Waiting bool // now
	LabelX  int
	LabelY  int
}

// below is the part of a tree below a task, itself left out; nil if there is
// none.
func (t *taskTree) below(id string) *drawnTree {
	within := map[string]bool{id: true}
	part := &taskTree{Root: t.Root, This: t.This, Truncated: t.Truncated}
	for _, n := range t.Nodes {
		if within[n.Parent] && n.ID != id {
			within[n.ID] = true
			part.Nodes = append(part.Nodes, n)
		}
	}
	if len(part.Nodes) == 0 {
		return nil
	}
	return part.draw()
}

// draw lays out a tree.
func (t *taskTree) draw() *drawnTree {
	nodes := make([]graph.Node, len(t.Nodes))
	t.passOn()
	for i := range t.Nodes {
		n := &t.Nodes[i]
		nodes[i] = graph.Node{ID: n.ID, Parent: n.Parent, Waits: n.Waits != nil && n.within == "" && !(n.Waits.Kind == "peer" && n.Peer)}
	}
	d := &drawnTree{taskTree: t, Picture: graph.Draw(nodes)}
	for _, box := range d.Boxes {
		n := &t.Nodes[box.Node]
		d.Cards = append(d.Cards, &treeCard{Box: box, treeNode: n, Current: n.ID == t.This && !box.Waits})
	}
	for _, edge := range d.Edges {
		d.Lines = append(d.Lines, d.line(edge))
	}
	d.List = t.branches()
	return d
}

func (d *drawnTree) line(edge graph.Edge) treeLine {
	from, to := d.Cards[edge.From], d.Cards[edge.To]
	l := treeLine{
		Edge: edge, Path: fmt.Sprintf("M%d %dH%dV%dH%d", edge.X1, edge.Y1, edge.X1+10, edge.Y2, edge.X2-1),
		LabelX: (edge.X1 + edge.X2) / 2, LabelY: edge.Y2 - 6,
	}
	switch {
	case to.Box.Waits, from.within != "" && from.within == to.ID:
		l.Waiting, l.Label = true, from.Waited()
	default:
		l.Label = to.Length()
	}
	return l
}

// branches returns the roots with what is below them.
func (t *taskTree) branches() []*branch {
	byID := make(map[string]*branch, len(t.Nodes))
	var roots []*branch
	for i := range t.Nodes {
		n := &t.Nodes[i]
		b := &branch{treeNode: n}
		if parent := byID[n.Parent]; parent != nil { // parents come first, so there are no rings
			parent.Below = append(parent.Below, b)
		} else {
			roots = append(roots, b)
		}
		if byID[n.ID] == nil {
			byID[n.ID] = b
		}
	}
	return roots
}

// treeWait is how long one task of a tree has waited for somebody, in all.
type treeWait struct {
	Node *treeNode
	waitSum
}

// passedOn reports whether what a task waited for of people was a question of those
// that it delegated, which it passed on.
func passedOn(list []treeWait, w *treeWait) bool {
	if w.Kind != "answer" && w.Kind != "grant" {
		return false
	}
	below := int64(0)
	for i := range list {
		if list[i].Kind == w.Kind && list[i].Node.Parent == w.Node.ID {
			below += list[i].MS
		}
	}
	return below > 0 && w.MS <= below
}

// maxTimelines bounds the tasks of a tree whose waits are added up.
const maxTimelines = 30

// waits adds up who waited for whom in a tree, longest first.
func (v *view) waits(t *taskTree) (list []treeWait, whole bool, err error) {
	for i := range t.Nodes {
		if i == maxTimelines {
			break
		}
		n := &t.Nodes[i]
		line, err := v.timeline(n.ID)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		for _, w := range line.Waits {
			if w.Kind == "peer" && n.Peer {
				continue // what waits for a peer here is the peer's work itself
			}
			list = append(list, treeWait{n, w})
		}
	}
	all := slices.Clone(list)
	list = slices.DeleteFunc(list, func(w treeWait) bool { return passedOn(all, &w) })
	slices.SortStableFunc(list, func(a, b treeWait) int { return int(min(max(b.MS-a.MS, -1), 1)) })
	return list, len(t.Nodes) <= maxTimelines && !t.Truncated, nil
}
