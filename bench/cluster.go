package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// setup is nodes that share a store.
type setup struct {
	nodes int
	bus   string // "" is LISTEN/NOTIFY; ignored with SQLite
	store string // URL; "" is SQLite
	more  string // of the configuration: agents
}

// cluster is nodes that run.
type cluster struct {
	nodes []*process
	urls  []string
	dir   string
}

// start starts the nodes of a setup.
func (s setup) start(ctx context.Context) (*cluster, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir}
	text, socket := config+s.more, "bench.db.sock"
	if s.store != "" {
		store := "store: " + s.store + "\n"
		if s.bus != "" {
			store += "bus: " + s.bus + "\n"
		}
		text, socket = strings.Replace(text, "store: sqlite:bench.db\n", store, 1), "handoff.sock"
	}
	for i := range s.nodes {
		own := fmt.Sprintf("%s/%d", dir, i)
		if err := os.Mkdir(own, 0o700); err != nil {
			c.stop()
			return nil, err
		}
		p, err := startNode(ctx, own, text, socket)
		if err != nil {
			c.stop()
			return nil, err
		}
		c.nodes, c.urls = append(c.nodes, p), append(c.urls, p.url)
	}
	return c, nil
}

func (c *cluster) stop() {
	for _, p := range c.nodes {
		p.stop()
	}
	os.RemoveAll(c.dir)
}

// warm sends a few messages, so that connections, pools and statements are
// there.
func (c *cluster) warm(ctx context.Context) error {
	_, err := rateAt(ctx, c.urls, connections, "echo warm", "TASK_STATE_COMPLETED", 500*len(c.nodes))
	return err
}

// metric returns the sum of a metric of all nodes.
func (c *cluster) metric(name string) (sum float64, err error) {
	for _, p := range c.nodes {
		v, err := p.metric(name)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

// spent is seconds of CPU by who has used them.
type spent struct{ nodes, database, bus, load, others float64 }

func (s spent) minus(t spent) spent {
	return spent{s.nodes - t.nodes, s.database - t.database, s.bus - t.bus, s.load - t.load, s.others - t.others}
}

func (s spent) plus(t spent) spent { return s.minus(spent{}.minus(t)) }

func (s spent) each(n float64) spent {
	return spent{s.nodes / n, s.database / n, s.bus / n, s.load / n, s.others / n}
}

// spent returns what was used so far. The bus may be nil.
func (c *cluster) spent(d *database, bus *busServer) (s spent, err error) {
	for _, p := range c.nodes {
		seconds, err := p.cpu()
		if err != nil {
			return s, err
		}
		s.nodes += seconds
	}
	if s.database, err = d.cpu(); err != nil {
		return s, err
	}
	if bus != nil {
		if s.bus, err = bus.cpu(); err != nil {
			return s, err
		}
	}
	if s.load, err = cpuOf(os.Getpid(), false); err != nil {
		return s, err
	}
	all, err := busy()
	s.others = all - s.nodes - s.database - s.bus - s.load
	return s, err
}

// underLoad runs f while messages are sent at about half the rate that the
// nodes can take, and returns that rate.
func (c *cluster) underLoad(ctx context.Context, f func() error) (float64, error) {
	most, err := rateAt(ctx, c.urls, connections, "echo hello", "TASK_STATE_COMPLETED", 2000)
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type result struct {
		sent int64
		err  error
	}
	ended := make(chan result, 1)
	began := time.Now()
	go func() {
		sent, err := pace(ctx, c.urls, "echo hello", "TASK_STATE_COMPLETED", most/2)
		ended <- result{sent, err}
	}()
	err = f()
	stop()
	r := <-ended
	if err == nil {
		err = r.err
	}
	return float64(r.sent) / time.Since(began).Seconds(), err
}
