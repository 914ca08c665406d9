//go:build unix

// Command chaos does harm to nodes under load again and again and checks that
// nothing is lost, doubled, reordered or stuck: to one node over SQLite
// (docs/chaos.md says what exactly), or to a cluster of three with PostgreSQL
// and NATS in network namespaces of their own (docs/cluster-chaos.md), or to
// nodes that delegate, by kills and by what partners do wrong
// (docs/delegation-chaos.md).
//
//	go run ./chaos -kills 100 -seed 1
//	go run ./chaos -cluster -faults 20 -seed 1
//	go run ./chaos -delegations -kills 200 -seed 1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

type options struct {
	kills, faults, clients int
	cluster, delegations   bool
	bus, only              string
	seed                   uint64
	duration               time.Duration
	program                string
	report                 string
	keep                   bool
}

func main() {
	if child, ok := children[argument(1)]; ok && len(os.Args) == 3 {
		if err := child(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.IntVar(&o.kills, "kills", 5, "kill the server this often; beside that it is frozen and stopped now and then")
	flag.BoolVar(&o.cluster, "cluster", false, "harm a cluster of three nodes with PostgreSQL and NATS; needs root, iproute2 and a PostgreSQL server's programs")
	flag.BoolVar(&o.delegations, "delegations", false, "kill nodes that delegate to partners that do everything wrong, and to each other")
	flag.IntVar(&o.faults, "faults", 2, "with -cluster: the number of faults of each kind")
	flag.StringVar(&o.bus, "bus", busNATS, "with -cluster: how nodes wake each other, nats or postgres")
	flag.StringVar(&o.only, "only", "", "with -cluster: only the kinds of faults whose names contain this `text`")
	flag.DurationVar(&o.duration, "duration", 0, "go on with accidents until this time is over")
	flag.IntVar(&o.clients, "clients", 0, "the number of clients (default 32; 16 with -cluster and with -delegations)")
	flag.Uint64Var(&o.seed, "seed", 1, "the seed of what is decided by chance")
	flag.StringVar(&o.program, "server", "bin/handoff", "the `program` of the server")
	flag.StringVar(&o.report, "report", "", "write the counts to this `file`, as Markdown")
	flag.BoolVar(&o.keep, "keep", false, "keep the store, the journals and the logs, also when all is well")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	begin := run
	if o.delegations {
		begin = runDelegations
	}
	if err := begin(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func argument(i int) string {
	if i < len(os.Args) {
		return os.Args[i]
	}
	return ""
}

// The kinds of bus.
const (
	busNATS     = "nats"
	busPostgres = "postgres"
)

// children are what this program is when others start it.
var children = map[string]func(argument string) error{
	"program": runProgram,
	"nats":    runNATS,
}

// trial is what is under test, and what happens to it.
type trial interface {
	// site returns the nodes.
	site() *site
	// start brings everything up, until all nodes take requests.
	start(ctx context.Context) error
	// plan decides what happens, and in which order.
	plan(r *rand.Rand) []disruption
	// perform lets one thing happen, and returns when all nodes take requests
	// again.
	perform(ctx context.Context, c *checker, step disruption) error
	// report writes the page about a run without a violation.
	report(w io.Writer, l *ledger)
	// end ends what is left, and removes all but the directory.
	end() error
}

// tempPrefix begins the names of the directories of runs.
const tempPrefix = "chaos-"

func run(ctx context.Context, o *options) (err error) {
	dir, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return err
	}
	prepare := newSingle
	if o.cluster {
		prepare = newCluster
	}
	t, err := prepare(o, dir)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	defer func() {
		if err = errors.Join(err, t.end()); err != nil && ctx.Err() == nil || o.keep {
			fmt.Println("store, journals and logs are in", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	l := newLedger()
	c := newChecker(l, t.site())
	began := time.Now()
	if err := disrupt(ctx, o, t, c); err != nil {
		return err
	}
	fmt.Println("check")
	// Whatever was interrupted last has the time of a lease, and that of its
	// work.
	if err := c.settle(ctx, t.site().lease+10*time.Second); err != nil {
		return err
	}
	if err := c.check(ctx); err != nil {
		return err
	}
	for _, line := range l.lines() {
		fmt.Println(line)
	}
	fmt.Printf("took %s\n", time.Since(began).Round(time.Second))
	if err := c.explain(ctx); err != nil {
		return err
	}
	if o.report == "" {
		return nil
	}
	file, err := os.Create(o.report)
	if err != nil {
		return err
	}
	t.report(file, l)
	return file.Close()
}

// explain prints the violations, with the histories of the tasks.
func (c *checker) explain(ctx context.Context) error {
	const most = 10
	for i, v := range c.ledger.violations {
		if i == most {
			fmt.Printf("… and %d more\n", len(c.ledger.violations)-most)
			break
		}
		fmt.Printf("\nVIOLATION: %s\n", v.text)
		if v.task == "" {
			continue
		}
		fmt.Printf("task %s\n", v.task)
		events, err := c.admin.events(ctx, v.task)
		if err != nil {
			fmt.Println(err)
		}
		for _, e := range events {
			fmt.Printf("  %4d %-8s %.300s\n", e.Seq, e.Kind, e.Event)
		}
		for _, agent := range programs {
			text, _ := os.ReadFile(c.site.journal(agent))
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, v.task) {
					fmt.Printf("  journal  %s", line)
				}
			}
		}
	}
	if n := len(c.ledger.violations); n > 0 {
		return fmt.Errorf("%d violations", n)
	}
	return nil
}

// disruption is one thing that happens.
type disruption string

// seeded returns the source of what happens to the nodes.
func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1<<32)) }

// dice decides how long something takes.
type dice struct{ *rand.Rand }

// between returns a number of milliseconds.
func (d dice) between(from, to int) time.Duration {
	return time.Duration(from+d.IntN(to-from)) * time.Millisecond
}

// disrupt runs the load and lets things happen. When it returns, the nodes run,
// and the clients have finished.
func disrupt(ctx context.Context, o *options, t trial, c *checker) error {
	if err := t.start(ctx); err != nil {
		return err
	}
	l, random := c.ledger, dice{seeded(o.seed)}
	load := newLoad(t.site(), l, o.clients, o.seed)
	began := time.Now()
	steps := t.plan(random.Rand)
	for i := 0; i < len(steps) || time.Since(began) < o.duration; i++ {
		if i == len(steps) {
			steps = append(steps, t.plan(random.Rand)...)
		}
		if l.broken() > 0 || ctx.Err() != nil {
			break // the sooner it ends, the less there is to read
		}
		step := steps[i]
		fmt.Printf("%3d/%d %s\n", i+1, len(steps), step)
		l.count(string(step), 1)
		wait(ctx, random.between(200, 1500))
		if err := t.perform(ctx, c, step); err != nil {
			l.violate("", "%v", err)
			break
		}
	}
	l.count(countStarts, t.site().starts())
	load.finish(t.site().lease + 20*time.Second)
	return ctx.Err()
}
