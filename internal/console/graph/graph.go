// Package graph lays out a tree of tasks, each with those that it has delegated,
// as a graph from left to right.
package graph

// Node is a task.
type Node struct {
	ID     string
	Parent string // "" of the root; one that is unknown makes a root as well
	Waits  bool   // whether somebody who is no task of the tree keeps it waiting
}

// The measures of a picture, in units of its view box.
const (
	NodeWidth  = 200
	NodeHeight = 64
	columnGap  = 100
	rowGap     = 22
	Margin     = 12

	maxDepth = 40 // columns; what is deeper stands in the last one
)

// Picture is a layout.
type Picture struct {
	Width, Height int
	Boxes         []Box  // in the order of the tree: a parent before its children
	Edges         []Edge // from parents to children, and to what they wait for
}

// Box is the place of a task, or with Waits that of somebody outside of the tree
// for whom a task waits.
type Box struct {
	Node  int // index of the task
	Depth int
	X, Y  int
	Waits bool
}

// Edge goes from the right side of one box to the left side of another.
type Edge struct {
	From, To       int // indexes of boxes
	X1, Y1, X2, Y2 int
}

// Draw lays out nodes. Those that are each other's parents are roots.
func Draw(nodes []Node) *Picture {
	d := &drawing{nodes: nodes, children: map[int][]int{}, drawn: make([]bool, len(nodes)), y: Margin}
	byID := make(map[string]int, len(nodes))
	for i := range nodes {
		if _, ok := byID[nodes[i].ID]; !ok {
			byID[nodes[i].ID] = i
		}
	}
	var roots []int
	for i := range nodes {
		if parent, ok := byID[nodes[i].Parent]; ok && parent != i && nodes[i].Parent != "" {
			d.children[parent] = append(d.children[parent], i)
		} else {
			roots = append(roots, i)
		}
	}
	for _, root := range roots {
		d.box(root, 0)
	}
	for i := range nodes { // those of a ring, which no root leads to
		d.box(i, 0)
	}
	d.picture.Height = d.y - rowGap + Margin
	d.picture.Width += Margin
	if len(nodes) == 0 {
		d.picture.Height = 0
	}
	return &d.picture
}

type drawing struct {
	nodes    []Node
	children map[int][]int
	drawn    []bool
	picture  Picture
	y        int // where the next leaf stands
}

// box places a node and all below it, and returns the index of its box, or -1
// for one that has been drawn. A parent stands beside its first child, so that
// one reads a chain along a line.
func (d *drawing) box(node, depth int) int {
	if d.drawn[node] {
		return -1
	}
	d.drawn[node] = true
	index := len(d.picture.Boxes)
	d.picture.Boxes = append(d.picture.Boxes, Box{Node: node, Depth: depth, X: column(depth), Y: d.y})
	d.picture.Width = max(d.picture.Width, column(depth)+NodeWidth)
	below := false
	if d.nodes[node].Waits {
		to := len(d.picture.Boxes)
		d.picture.Boxes = append(d.picture.Boxes, Box{Node: node, Depth: depth + 1, X: column(depth + 1), Y: d.y, Waits: true})
		d.picture.Width = max(d.picture.Width, column(depth+1)+NodeWidth)
		d.edge(index, to)
		d.y += NodeHeight + rowGap
		below = true
	}
	for _, child := range d.children[node] {
		if to := d.box(child, depth+1); to >= 0 {
			d.edge(index, to)
			below = true
		}
	}
	if !below {
		d.y += NodeHeight + rowGap
	}
	return index
}

func column(depth int) int { return Margin + min(depth, maxDepth)*(NodeWidth+columnGap) }

func (d *drawing) edge(from, to int) {
	a, b := d.picture.Boxes[from], d.picture.Boxes[to]
	d.picture.Edges = append(d.picture.Edges, Edge{
		From: from, To: to, X1: a.X + NodeWidth, Y1: a.Y + NodeHeight/2, X2: b.X, Y2: b.Y + NodeHeight/2,
	})
}
