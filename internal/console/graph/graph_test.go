package graph_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"handoff.example/handoff/internal/console/graph"
)

func TestAChainStandsOnALine(t *testing.T) {
	t.Parallel()
	p := graph.Draw([]graph.Node{{ID: "order"}, {ID: "quote", Parent: "order"}, {ID: "freight", Parent: "quote", Waits: true}})
	want := []graph.Box{
		{Node: 0, Depth: 0, X: 12, Y: 12}, {Node: 1, Depth: 1, X: 312, Y: 12}, {Node: 2, Depth: 2, X: 612, Y: 12}, {Node: 2, Depth: 3, X: 912, Y: 12, Waits: true},
	}
	if diff := cmp.Diff(want, p.Boxes); diff != "" {
		t.Error(diff)
	}
	if len(p.Edges) != 3 || p.Edges[2] != (graph.Edge{From: 0, To: 1, X1: 212, Y1: 44, X2: 312, Y2: 44}) {
		t.Errorf("%+v", p.Edges)
	}
	if p.Width != 912+graph.NodeWidth+graph.Margin || p.Height != 12+graph.NodeHeight+graph.Margin {
		t.Errorf("%d x %d", p.Width, p.Height)
	}
}

func TestSiblingsStandBelowEachOther(t *testing.T) {
	t.Parallel()
	p := graph.Draw([]graph.Node{{ID: "order"}, {ID: "a", Parent: "order"}, {ID: "b", Parent: "order"}, {ID: "a1", Parent: "a"}, {ID: "a2", Parent: "a"}})
	at := map[int]graph.Box{}
	for _, b := range p.Boxes {
		at[b.Node] = b
	}
	if at[0].Y != at[1].Y || at[1].Y != at[3].Y || at[4].Y <= at[3].Y || at[2].Y <= at[4].Y {
		t.Errorf("%+v", p.Boxes)
	}
}

// Whatever the parents are, every task has one box and no two overlap.
func TestEveryTaskHasAPlaceOfItsOwn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		nodes := make([]graph.Node, n)
		for i := range nodes {
			nodes[i] = graph.Node{ID: strconv.Itoa(rapid.IntRange(0, n).Draw(t, "id")), Parent: strconv.Itoa(rapid.IntRange(0, n).Draw(t, "parent")), Waits: rapid.Bool().Draw(t, "waits")}
		}
		p := graph.Draw(nodes)
		seen := map[[2]int]bool{}
		drawn := 0
		for _, b := range p.Boxes {
			place := [2]int{b.X, b.Y}
			if seen[place] {
				t.Fatalf("two boxes at %v", place)
			}
			seen[place] = true
			if b.X+graph.NodeWidth > p.Width || b.Y+graph.NodeHeight > p.Height {
				t.Fatalf("%+v lies outside of %d x %d", b, p.Width, p.Height)
			}
			if !b.Waits {
				drawn++
			}
		}
		if drawn != n {
			t.Fatalf("%d of %d tasks are drawn", drawn, n)
		}
		for _, e := range p.Edges {
			if p.Boxes[e.To].Depth != p.Boxes[e.From].Depth+1 {
				t.Fatalf("an edge goes from %+v to %+v", p.Boxes[e.From], p.Boxes[e.To])
			}
		}
	})
}
