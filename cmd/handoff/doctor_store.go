package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"handoff.example/handoff"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/store/postgres"
)

// slowDatabase is the round trip above which every message is noticeably late.
const slowDatabase = 20 * time.Millisecond

// database looks at a PostgreSQL database, and changes nothing there.
func (d *doctor) database(ctx context.Context, c *config.Config) {
	const check = "store"
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	s, err := postgres.Examine(ctx, c.Store)
	if err != nil {
		d.fail(check, postgres.Advice(err), "%v", &handoff.StoreError{Store: c.StoreName(), Err: err})
		return
	}
	tables := fmt.Sprintf("tables of version %d", s.Has)
	if s.Has == 0 {
		tables = "no tables yet in schema " + s.Schema
	}
	trip := s.RoundTrip.Round(10 * time.Microsecond)
	d.ok(check, "%s, PostgreSQL %s, %s, round trip %s", c.StoreName(), s.Server, tables, trip)
	switch {
	case s.Has > s.Knows:
		d.warn(check, "Upgrade this program, once all nodes run the newer version", "its tables are newer than this program, which knows version %d and may use them", s.Knows)
	case s.Has < s.Knows:
		d.warn(check, "Run: handoff migrate, or let the next start of a node do it", "its tables have version %d, this program makes version %d", s.Has, s.Knows)
	}
	if s.RoundTrip > slowDatabase {
		d.warn(check, "Move the node nearer to the database", "a round trip takes %s", trip)
	}
	if !s.TLS && !s.Local {
		d.warn(check, "Add sslmode=verify-full to the store", "the connection is not encrypted")
	}
}

// bus looks whether the node hears of others.
func (d *doctor) bus(b *busStatus) {
	switch {
	case b == nil:
	case b.Connected:
		d.ok("bus", "%s", d.busText(b))
	default:
		d.warn("bus", "Check that the server runs, takes the node's credentials and lets it publish and subscribe (the node's log says what is refused); until then nodes notice changes of each other up to a second later", "%s", d.busText(b))
	}
}

// nodes looks whether the other nodes of the store have the same configuration.
func (d *doctor) nodes(ctx context.Context, node *nodeAPI, c *config.Config) {
	const check = "nodes"
	if !c.UsesPostgres() {
		return
	}
	var list nodeList
	if _, err := node.get(ctx, "GET", "/nodes", nil, &list); err != nil {
		d.warn(check, "", "are not known: %s", classify(err).Message)
		return
	}
	alive := 0
	for _, n := range list.Nodes {
		if n.Alive {
			alive++
		}
		if n.Alive && len(n.Differences) > 0 {
			d.warn(check, "Give all nodes the same configuration file, and reload", "%s: %s", n.Name, strings.Join(n.Differences, ", "))
		}
		if n.Alive && n.Version != versionText() {
			d.warn(check, "Finish the upgrade", "%s runs version %s, and this program is %s", n.Name, n.Version, versionText())
		}
	}
	d.ok(check, "%d alive", alive)
}
