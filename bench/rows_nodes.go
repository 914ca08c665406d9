package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// contender is a setup whose rate is measured.
type contender struct {
	name  string
	setup setup
	rates []float64
	wide  []float64 // with as many connections for each node
	spent spent     // of rates
	batch float64   // tasks in a commit, the sum of all rounds
}

// benchNodes measures how many tasks a second one, two and three nodes do with
// one database, by turns with one node on SQLite.
func benchNodes(ctx context.Context, s scale) ([]row, error) {
	d, err := startDatabase(ctx, false)
	if err != nil {
		return nil, err
	}
	defer d.stop()
	bus, err := startNATS(ctx)
	if err != nil {
		return nil, err
	}
	defer bus.stop()
	list := []*contender{{name: "SQLite", setup: setup{nodes: 1}}}
	for _, b := range []struct{ name, address string }{{"LISTEN/NOTIFY", ""}, {"NATS", bus.address}} {
		for n := range 3 {
			_, url := d.schema()
			name := fmt.Sprintf("%d nodes, %s", n+1, b.name)
			list = append(list, &contender{name: strings.Replace(name, "1 nodes", "1 node", 1), setup: setup{nodes: n + 1, store: url, bus: b.address}})
		}
	}
	peer, err := startPeer(ctx)
	if err != nil {
		return nil, err
	}
	defer peer.stop()
	var peers []float64
	took, others := 0.0, 0.0
	for range s.rounds {
		r, err := rate(ctx, peer.url, "echo hello", "TASK_STATE_COMPLETED", s.peerSends)
		if err != nil {
			return nil, fmt.Errorf("a2a-go: %w", err)
		}
		peers = append(peers, r)
		for _, c := range list {
			seconds, err := c.round(ctx, d, bus, s.nodeSends)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			took += seconds
		}
	}
	var rows []row
	base := median(list[0].rates)
	for _, c := range list {
		others += c.spent.others
		tasks := float64(s.rounds * s.nodeSends)
		cost := c.spent.each(tasks)
		r := row{
			Name: "tasks/s of four events, " + c.name, Nodes: true, Ratio: median(c.rates) / base,
			Handoff: fmt.Sprintf("%.0f tasks/s (%.0f to %.0f)", median(c.rates), slices.Min(c.rates), slices.Max(c.rates)),
			Peer:    fmt.Sprintf("%.0f tasks/s", base),
		}
		if c != list[0] {
			r.Comment = fmt.Sprintf("CPU of a task: nodes %.0f µs, PostgreSQL %.0f µs, NATS %.0f µs, load generator %.0f µs; %.1f tasks in a commit.",
				cost.nodes*1e6, cost.database*1e6, cost.bus*1e6, cost.load*1e6, c.batch/float64(s.rounds))
			if len(c.wide) > 0 {
				r.Handoff += fmt.Sprintf("; with %d connections %.0f (%.0f to %.0f)", connections*c.setup.nodes, median(c.wide), slices.Min(c.wide), slices.Max(c.wide))
			}
			rows = append(rows, r)
			continue
		}
		r.Name, r.Peer, r.Ratio = "tasks/s of four events, one node on SQLite", "", 0
		r.Comment = fmt.Sprintf("CPU of a task: node %.0f µs, load generator %.0f µs; %.1f tasks in a commit.", cost.nodes*1e6, cost.load*1e6, c.batch/float64(s.rounds))
		rows = append(rows, r)
	}
	rows = append(rows, row{
		Name: "tasks/s of four events, a2a-go with its in-memory store in the same run", Nodes: true, Ratio: median(peers) / base,
		Handoff: fmt.Sprintf("(a2a-go) %.0f tasks/s (%.0f to %.0f)", median(peers), slices.Min(peers), slices.Max(peers)), Peer: fmt.Sprintf("%.0f tasks/s", base),
	})
	rows[0].Comment += fmt.Sprintf(" All of these rows: blocking SendMessage by JSON-RPC, %d connections, %d tasks in each of %d rounds; meanwhile other programs of the machine used %.2f of its cores.",
		connections, s.nodeSends, s.rounds, others/took)
	return rows, nil
}

// round starts the nodes, measures them once, and returns how long that took.
func (c *contender) round(ctx context.Context, d *database, bus *busServer, sends int) (float64, error) {
	nodes, err := c.setup.start(ctx)
	if err != nil {
		return 0, err
	}
	defer nodes.stop()
	if err := nodes.warm(ctx); err != nil {
		return 0, err
	}
	before, err := nodes.spent(d, bus)
	if err != nil {
		return 0, err
	}
	sizes, err := commits(nodes)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	rate, err := rateAt(ctx, nodes.urls, connections, "echo hello", "TASK_STATE_COMPLETED", sends)
	if err != nil {
		return 0, err
	}
	took := time.Since(began).Seconds()
	after, err := nodes.spent(d, bus)
	if err != nil {
		return 0, err
	}
	sizesAfter, err := commits(nodes)
	if err != nil {
		return 0, err
	}
	c.rates = append(c.rates, rate)
	c.spent = c.spent.plus(after.minus(before))
	c.batch += float64(sends) / (sizesAfter - sizes)
	if c.setup.nodes == 1 {
		return took, nil
	}
	rate, err = rateAt(ctx, nodes.urls, connections*c.setup.nodes, "echo hello", "TASK_STATE_COMPLETED", sends)
	c.wide = append(c.wide, rate)
	return took, err
}

// commits returns how many transactions of changes the nodes have committed.
func commits(c *cluster) (float64, error) { return c.metric("handoff_store_commit_seconds_count") }
