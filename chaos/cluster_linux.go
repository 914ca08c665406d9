package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// clusterLease is short, so that there is time for many faults.
const clusterLease = 2 * time.Second

// clusterPatience is how long clients wait before they turn to another node.
const clusterPatience = 4 * time.Second

const clusterConfiguration = `# written by the chaos test
listen: %s
store: %s
bus: %s
lease: %s
callers: {anonymous: everywhere}
limits: {streams: 0, requests_per_second: 0}
retention: {tasks: 0s}
telemetry: {pprof: true}
`

// cluster is the trial of three nodes with PostgreSQL and NATS, each on a host
// of its own.
type cluster struct {
	options  *options
	dir      string
	net      *fabric
	hosts    []*host // of the nodes
	nodes    *site
	database *database
	bus      *messenger // nil: the nodes wake each other through the database
	kinds    []fault
	random   dice
	vigils   int
}

// newCluster prepares the hosts and what runs on them.
func newCluster(o *options, dir string) (_ trial, err error) {
	if o.bus != busNATS && o.bus != busPostgres {
		return nil, fmt.Errorf("there is no bus %q, only %s and %s", o.bus, busNATS, busPostgres)
	}
	if o.clients == 0 {
		o.clients = 16
	}
	// The database has its files below, and another user.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	t := &cluster{options: o, dir: dir, random: dice{seeded(o.seed + 1)}}
	if t.nodes, err = newSite(dir, clusterLease); err != nil {
		return nil, err
	}
	t.nodes.patience = clusterPatience
	if t.net, err = newFabric(dir); err != nil {
		return nil, err
	}
	if err := t.prepare(); err != nil {
		return nil, errors.Join(err, t.end())
	}
	t.kinds = slices.DeleteFunc(t.faults(), func(f fault) bool { return !strings.Contains(f.name, o.only) })
	if len(t.kinds) == 0 {
		return nil, errors.Join(fmt.Errorf("there is no kind of fault with the text %q", o.only), t.end())
	}
	return t, nil
}

func (t *cluster) prepare() error {
	at, err := t.net.host("database", 11)
	if err != nil {
		return err
	}
	if t.database, err = newDatabase(at, t.dir); err != nil {
		return err
	}
	bus := busPostgres
	if t.options.bus == busNATS {
		if at, err = t.net.host("bus", 12); err != nil {
			return err
		}
		if t.bus, err = newMessenger(at, t.dir); err != nil {
			return err
		}
		bus = t.bus.url()
	}
	for i := range 3 {
		if err := t.prepareNode(i+1, bus); err != nil {
			return err
		}
	}
	return nil
}

func (t *cluster) prepareNode(number int, bus string) error {
	name := "node" + itoa(number)
	at, err := t.net.host(name, number)
	if err != nil {
		return err
	}
	dir := filepath.Join(t.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	address := net.JoinHostPort(at.address, "8080")
	configuration, err := t.nodes.configuration(fmt.Sprintf(clusterConfiguration, address, t.database.dsn(), bus, clusterLease))
	if err != nil {
		return err
	}
	node, err := newServer(name, t.options.program, dir, address, configuration, at.exec()...)
	if err != nil {
		return err
	}
	node.host, node.socket = at.id, filepath.Join(dir, "handoff.sock")
	t.hosts = append(t.hosts, at)
	t.nodes.nodes = append(t.nodes.nodes, node)
	return nil
}

func (t *cluster) site() *site { return t.nodes }

func (t *cluster) start(ctx context.Context) error {
	if err := t.database.begin(ctx); err != nil {
		return err
	}
	if t.bus != nil {
		if err := t.bus.begin(ctx); err != nil {
			return err
		}
	}
	for _, n := range t.nodes.nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	return t.ready(ctx)
}

// ready waits until all nodes take requests.
func (t *cluster) ready(ctx context.Context) error {
	for _, n := range t.nodes.nodes {
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *cluster) end() error {
	err := t.nodes.end()
	if t.database != nil && t.database.process != nil {
		err = errors.Join(err, t.database.end())
	}
	if t.bus != nil {
		err = errors.Join(err, t.bus.end())
	}
	return errors.Join(err, t.net.close())
}

// plan has every kind of fault as often as was asked for.
func (t *cluster) plan(r *rand.Rand) []disruption {
	var all []disruption
	for _, f := range t.kinds {
		all = append(all, slices.Repeat([]disruption{disruption(f.name)}, t.options.faults)...)
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// perform lets a fault happen, and then sees that every node works again. If it
// does not, what the nodes are doing is kept beside their logs.
func (t *cluster) perform(ctx context.Context, c *checker, step disruption) error {
	err := t.performOne(ctx, c, step)
	if ctx.Err() == nil && (err != nil || c.ledger.broken() > 0) {
		for _, n := range t.nodes.nodes {
			err = errors.Join(err, n.keepGoroutines(ctx))
		}
	}
	return err
}

func (t *cluster) performOne(ctx context.Context, c *checker, step disruption) error {
	i := slices.IndexFunc(t.kinds, func(f fault) bool { return f.name == string(step) })
	f := &t.kinds[i]
	if f.calm {
		// What the fault before it interrupted has been recovered by now.
		wait(ctx, clusterLease+2*time.Second)
	}
	var w *vigil
	if f.watched {
		t.vigils++
		var err error
		if w, err = t.watch(ctx, c.ledger); err != nil {
			return err
		}
		defer w.close()
	}
	from := time.Now()
	host, err := f.happen(ctx, w)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if err := t.ready(ctx); err != nil {
		return fmt.Errorf("after %s: %w", f.name, err)
	}
	happened := span{from, time.Now()}
	if f.isolates {
		c.isolated = append(c.isolated, isolation{happened, host})
	}
	for _, n := range t.nodes.nodes {
		if err := t.works(ctx, c.ledger, n); err != nil {
			return fmt.Errorf("after %s: %w", f.name, err)
		}
	}
	if w != nil {
		w.finish()
	}
	if f.calm {
		wait(ctx, time.Second) // a recovery, if there is one, is over
		c.calm = append(c.calm, span{from, time.Now()})
	}
	return t.leaks(c.ledger)
}

// leaks looks for what must not be in a log.
func (t *cluster) leaks(l *ledger) error {
	for _, n := range t.nodes.nodes {
		text, err := os.ReadFile(n.log.Name())
		if err != nil {
			return err
		}
		for _, secret := range []string{databasePassword, "panic: ", "goroutine 1 ["} {
			if bytes.Contains(text, []byte(secret)) {
				l.violate("", "the log of %s has %q", n.name, secret)
			}
		}
	}
	return nil
}

func (t *cluster) report(w io.Writer, l *ledger) {
	var table strings.Builder
	for _, f := range t.kinds {
		fmt.Fprintf(&table, "| %s | %d | %d |\n", f.name, l.counts[f.name], l.counts[f.name])
		delete(l.counts, f.name)
	}
	text := strings.Replace(clusterText, "FAULTS\n", table.String(), 1)
	command := fmt.Sprintf("go run ./chaos -cluster -faults %d -seed %d", t.options.faults, t.options.seed)
	if t.options.bus != busNATS {
		command += " -bus " + t.options.bus
	}
	l.report(w, text, command)
}

// fault is something that goes wrong.
type fault struct {
	name string
	// happen lets it happen and undoes it. It returns the host that was
	// isolated, "" for all of them.
	happen func(ctx context.Context, w *vigil) (host string, err error)
	// isolates says that a host is isolated: it cannot know that others take its
	// turns over.
	isolates bool
	// watched says that streams that are open must survive it.
	watched bool
	// calm says that no turn may be interrupted by it.
	calm bool
}

// faults are all kinds of them.
func (t *cluster) faults() []fault {
	all := []fault{
		{name: "kill -9 of a node", happen: t.killNode},
		{name: "freeze (SIGSTOP) of a node for longer than its lease", happen: t.freezeNode, isolates: true},
		{name: "link of a node down for longer than its lease", happen: t.cutNode((*host).loudly), isolates: true},
		{name: "link of a node losing everything silently for longer than its lease", happen: t.cutNode((*host).silently), isolates: true},
		{name: "way between a node and PostgreSQL losing everything silently for longer than its lease", happen: t.cutFromDatabase, isolates: true, watched: true},
		{name: "rolling restart (SIGTERM) of all nodes", happen: t.restartAll, calm: true},
		{name: "kill -9 of PostgreSQL", happen: t.killDatabase, isolates: true, watched: true},
		{name: "stop (fast) and start of PostgreSQL", happen: t.stopDatabase, isolates: true, watched: true},
		{name: "link of PostgreSQL losing everything silently for longer than a lease", happen: t.cutDatabase, isolates: true, watched: true},
	}
	if t.bus != nil {
		all = append(
			all,
			fault{name: "kill -9 of NATS", happen: t.killBus, watched: true, calm: true},
			fault{name: "link of NATS losing everything silently", happen: t.cutBus, watched: true, calm: true},
		)
	}
	return all
}

func (t *cluster) pick() int { return t.random.IntN(len(t.hosts)) }

// longerThanLease is how long nodes are isolated.
func (t *cluster) longerThanLease() time.Duration {
	return clusterLease + t.random.between(500, 2500)
}

func (t *cluster) killNode(ctx context.Context, _ *vigil) (string, error) {
	n := t.nodes.nodes[t.pick()]
	if err := n.kill(); err != nil {
		return "", err
	}
	wait(ctx, t.random.between(0, 4000)) // it is back before or after the end of its lease
	return "", n.start()
}

func (t *cluster) freezeNode(ctx context.Context, _ *vigil) (string, error) {
	i := t.pick()
	return t.hosts[i].id, t.nodes.nodes[i].freeze(ctx, t.longerThanLease())
}

// during cuts something for a time.
func (t *cluster) during(ctx context.Context, c cut, d time.Duration, then func()) error {
	if err := t.net.run(c.cut...); err != nil {
		return err
	}
	wait(ctx, d)
	then()
	return t.net.run(c.heal...)
}

func (t *cluster) cutNode(how func(*host) cut) func(context.Context, *vigil) (string, error) {
	return func(ctx context.Context, _ *vigil) (string, error) {
		h := t.hosts[t.pick()]
		return h.id, t.during(ctx, how(h), t.longerThanLease(), func() {})
	}
}

func (t *cluster) cutFromDatabase(ctx context.Context, w *vigil) (string, error) {
	i := t.pick()
	h := t.hosts[i]
	return h.id, t.during(ctx, h.from(t.database.on), t.longerThanLease(), func() { w.refused(ctx, t.nodes.nodes[i]) })
}

func (t *cluster) cutDatabase(ctx context.Context, w *vigil) (string, error) {
	return "", t.during(ctx, t.database.on.silently(), t.longerThanLease(), func() { w.refused(ctx, t.nodes.nodes...) })
}

func (t *cluster) killDatabase(ctx context.Context, w *vigil) (string, error) {
	if err := t.database.kill(); err != nil {
		return "", err
	}
	return "", t.backAgain(ctx, w)
}

func (t *cluster) stopDatabase(ctx context.Context, w *vigil) (string, error) {
	if err := t.database.stop(syscall.SIGINT); err != nil {
		return "", err
	}
	return "", t.backAgain(ctx, w)
}

// backAgain starts the database that is gone, after a time in which nodes can
// only refuse.
func (t *cluster) backAgain(ctx context.Context, w *vigil) error {
	wait(ctx, t.random.between(200, 1000))
	w.refused(ctx, t.nodes.nodes...)
	wait(ctx, t.random.between(0, 3000))
	return t.database.begin(ctx)
}

func (t *cluster) killBus(ctx context.Context, _ *vigil) (string, error) {
	if err := t.bus.stop(os.Kill); err != nil {
		return "", err
	}
	wait(ctx, t.random.between(500, 3000))
	return "", t.bus.begin(ctx)
}

func (t *cluster) cutBus(ctx context.Context, _ *vigil) (string, error) {
	return "", t.during(ctx, t.bus.on.silently(), t.longerThanLease(), func() {})
}

// restartAll restarts one node after the other, in some order, each when the
// one before it takes requests again.
func (t *cluster) restartAll(ctx context.Context, _ *vigil) (string, error) {
	for _, i := range t.random.Perm(len(t.hosts)) {
		n := t.nodes.nodes[i]
		if err := n.stop(ctx); err != nil {
			return "", err
		}
		wait(ctx, t.random.between(0, 500))
		if err := errors.Join(n.start(), n.ready(ctx)); err != nil {
			return "", err
		}
	}
	return "", nil
}
