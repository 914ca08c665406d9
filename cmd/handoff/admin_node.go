package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// busStatus is how the bus of a node is.
type busStatus struct {
	Kind, Server string
	Connected    bool
	Since        time.Time
	Sent, Heard  uint64
	Dropped      uint64
}

// busText tells people how a bus is.
func (a *app) busText(b *busStatus) string {
	state := "connected"
	if !b.Connected {
		state = "not connected"
	}
	text := fmt.Sprintf("%s %s, %s since %s, %d sent, %d heard", b.Kind, b.Server, state, a.timeText(b.Since), b.Sent, b.Heard)
	if b.Dropped > 0 {
		text += fmt.Sprintf(", %d dropped", b.Dropped)
	}
	return text
}

// nodeList is the answer of the API.
type nodeList struct{ Nodes []nodeEntry }

// nodeEntry is a node of a store.
type nodeEntry struct {
	Epoch              int64
	Name, Version, URL string
	Started, Seen      time.Time
	Alive, This        bool
	Differences        []string
}

func newAdminNodeCommand(a *app) *cobra.Command {
	cmd := newGroup("node", "See the nodes of a store")
	list := adminCommand(a, "list", "List the nodes of a store, and what differs in their configurations", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		var answer nodeList
		value, err := node.get(ctx, "GET", "/nodes", nil, &answer)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		return a.writeNodes(&answer)
	})
	list.Long = `List the nodes that use the store of a node: those that are alive last, below the
others, and the newest of them at the end. A node that is not alive
has given no sign of life for longer than its lease: others have taken over its
tasks. It is forgotten a week later, when a node starts; one that was stopped is
forgotten at once. What is told to differ should be the same on all of them.`
	cmd.AddCommand(list)
	return cmd
}

func (a *app) writeNodes(list *nodeList) error {
	p := printer{w: a.stdout}
	slices.SortStableFunc(list.Nodes, func(a, b nodeEntry) int {
		return map[bool]int{true: 1}[a.Alive] - map[bool]int{true: 1}[b.Alive]
	})
	for _, n := range list.Nodes {
		name := n.Name
		if n.This {
			name += " (this one)"
		}
		p.field("Node", name)
		p.field("Version", n.Version)
		p.field("URL", n.URL)
		if !n.Started.IsZero() {
			p.field("Started", a.timeText(n.Started))
		}
		seen := ""
		if !n.Seen.IsZero() {
			seen = ", seen " + a.timeText(n.Seen)
		}
		if n.Alive {
			p.field("Alive", "yes"+seen)
		} else {
			p.field("Alive", "no"+seen)
		}
		for _, d := range n.Differences {
			p.field("Differs", d)
		}
		p.blank()
	}
	return p.err
}
