//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"time"
)

// The kinds of disruption of a single node, which are counted.
const (
	countKills           = "kills under load"
	countKillsAtStart    = "kills before the server was ready"
	countKillsInRecovery = "kills within the recovery"
	countFreezes         = "freezes for longer than the lease"
	countStops           = "graceful stops under load"
	countStarts          = "starts of the server"
)

// singleLease is the default of the configuration, which is also that of SQLite.
const singleLease = 10 * time.Second

const singleConfiguration = `# written by the chaos test
listen: %s
store: sqlite:store.db
callers: {anonymous: loopback}
limits: {streams: 0}
retention: {tasks: 0s}
`

// single is the trial of one node over SQLite.
type single struct {
	options *options
	nodes   *site
	node    *server
	random  dice
}

// newSingle prepares a site of one node.
func newSingle(o *options, dir string) (trial, error) {
	if o.clients == 0 {
		o.clients = 32
	}
	s, err := newSite(dir, singleLease)
	if err != nil {
		return nil, err
	}
	// A port that was free a moment ago: every process of the server has the
	// same one.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	configuration, err := s.configuration(fmt.Sprintf(singleConfiguration, address))
	if err != nil {
		return nil, err
	}
	node, err := newServer("the server", o.program, dir, address, configuration)
	if err != nil {
		return nil, err
	}
	node.socket = filepath.Join(dir, "store.db.sock")
	s.nodes = []*server{node}
	return &single{options: o, nodes: s, node: node, random: dice{seeded(o.seed + 1)}}, nil
}

func (s *single) site() *site { return s.nodes }

func (s *single) end() error { return s.nodes.end() }

func (s *single) start(ctx context.Context) error {
	return errors.Join(s.node.start(), s.node.ready(ctx))
}

func (s *single) report(w io.Writer, l *ledger) {
	l.report(w, singleText, fmt.Sprintf("go run ./chaos -kills %d -seed %d", s.options.kills, s.options.seed))
}

// plan decides what happens to the server, and in which order: as many kills as
// were asked for, and among them freezes and graceful stops.
func (s *single) plan(r *rand.Rand) []disruption {
	kinds := []disruption{countKills, countKillsAtStart, countKillsInRecovery}
	var all []disruption
	for i := range s.options.kills {
		switch {
		case i < len(kinds): // each at least once
			all = append(all, kinds[i])
		default:
			all = append(all, kinds[max(0, r.IntN(5)-2)])
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	insert := func(d disruption, n int) {
		for range n {
			at := r.IntN(len(all) + 1)
			all = append(all[:at], append([]disruption{d}, all[at:]...)...)
		}
	}
	insert(countFreezes, 1+s.options.kills/40)
	insert(countStops, 2+s.options.kills/10)
	return all
}

// perform lets one thing happen to the server, and returns when it is ready
// again.
func (s *single) perform(ctx context.Context, c *checker, step disruption) error {
	switch step {
	case countFreezes:
		return s.node.freeze(ctx, singleLease+s.random.between(500, 2000))
	case countStops:
		// What the kill before it interrupted has been recovered by now.
		wait(ctx, time.Second)
		from := time.Now()
		if err := s.node.stop(ctx); err != nil {
			return err
		}
		if err := s.start(ctx); err != nil {
			return err
		}
		wait(ctx, 1500*time.Millisecond) // a recovery, if there is one, is over
		c.calm = append(c.calm, span{from, time.Now()})
		return nil
	}
	if err := s.node.kill(); err != nil {
		return err
	}
	switch step {
	case countKillsAtStart:
		if err := s.node.start(); err != nil {
			return err
		}
		wait(ctx, s.random.between(0, 80))
		if err := s.node.kill(); err != nil {
			return err
		}
	case countKillsInRecovery:
		if err := s.start(ctx); err != nil {
			return err
		}
		wait(ctx, s.random.between(0, 200))
		if err := s.node.kill(); err != nil {
			return err
		}
	}
	return s.start(ctx)
}
