//go:build unix

// Command chaos kills a server under load again and again and checks that
// nothing is lost, doubled, reordered or stuck; docs/chaos.md says what exactly.
//
//	go run ./chaos -kills 100 -seed 1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// The kinds of disruption that are counted.
const (
	countKills           = "kills under load"
	countKillsAtStart    = "kills before the server was ready"
	countKillsInRecovery = "kills within the recovery"
	countFreezes         = "freezes for longer than the lease"
	countStops           = "graceful stops under load"
	countStarts          = "starts of the server"
)

type options struct {
	kills, clients int
	seed           uint64
	duration       time.Duration
	program        string
	report         string
	keep           bool
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "program" {
		if err := runProgram(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.IntVar(&o.kills, "kills", 5, "kill the server this often; beside that it is frozen and stopped now and then")
	flag.DurationVar(&o.duration, "duration", 0, "go on with kills until this time is over")
	flag.IntVar(&o.clients, "clients", 32, "the number of clients")
	flag.Uint64Var(&o.seed, "seed", 1, "the seed of what is decided by chance")
	flag.StringVar(&o.program, "server", "bin/handoff", "the `program` of the server")
	flag.StringVar(&o.report, "report", "", "write the counts to this `file`, as Markdown")
	flag.BoolVar(&o.keep, "keep", false, "keep the store, the journals and the server's log, also when all is well")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) (err error) {
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil || o.keep {
			fmt.Println("store, journals and log are in", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	s, err := newServer(o.program, dir)
	if err != nil {
		return err
	}
	defer s.end()
	l := newLedger()
	c := &checker{ledger: l, server: s, admin: newAdmin(s.socket()), caller: newCaller(s.address)}
	began := time.Now()
	if err := disrupt(ctx, o, s, l, c); err != nil {
		return err
	}
	fmt.Println("check")
	// Whatever was interrupted last has the time of a lease, and that of its
	// work.
	if err := c.settle(ctx, lease+10*time.Second); err != nil {
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
	l.report(file, fmt.Sprintf("go run ./chaos -kills %d -seed %d", o.kills, o.seed))
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
			text, _ := os.ReadFile(c.server.journal(agent))
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

// disruption is one thing that happens to the server.
type disruption string

// seeded returns the source of what happens to the server.
func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1<<32)) }

// plan decides what happens to the server, and in which order: as many kills as
// were asked for, and among them freezes and graceful stops.
func plan(o *options, r *rand.Rand) []disruption {
	kinds := []disruption{countKills, countKillsAtStart, countKillsInRecovery}
	var all []disruption
	for i := range o.kills {
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
	insert(countFreezes, 1+o.kills/40)
	insert(countStops, 2+o.kills/10)
	return all
}

// disrupt runs the load and lets things happen to the server. When it returns,
// the server runs, and the clients have finished.
func disrupt(ctx context.Context, o *options, s *server, l *ledger, c *checker) error {
	random := seeded(o.seed)
	between := func(from, to int) time.Duration {
		return time.Duration(from+random.IntN(to-from)) * time.Millisecond
	}
	if err := errors.Join(s.start(), s.ready(ctx)); err != nil {
		return err
	}
	d := newLoad(s, l, o.clients, o.seed)
	began := time.Now()
	steps := plan(o, random)
	for i := 0; i < len(steps) || time.Since(began) < o.duration; i++ {
		if i == len(steps) {
			steps = append(steps, plan(o, random)...)
		}
		if l.broken() > 0 || ctx.Err() != nil {
			break // the sooner it ends, the less there is to read
		}
		step := steps[i]
		fmt.Printf("%3d/%d %s\n", i+1, len(steps), step)
		l.count(string(step), 1)
		wait(ctx, between(200, 1500))
		if err := c.perform(ctx, step, between); err != nil {
			l.violate("", "%v", err)
			break
		}
	}
	l.count(countStarts, s.starts)
	d.finish(lease + 20*time.Second)
	return ctx.Err()
}

// perform lets one thing happen to the server, and returns when it is ready
// again.
func (c *checker) perform(ctx context.Context, step disruption, between func(from, to int) time.Duration) error {
	s := c.server
	restart := func() error { return errors.Join(s.start(), s.ready(ctx)) }
	switch step {
	case countFreezes:
		return s.freeze(ctx, lease+between(500, 2000))
	case countStops:
		// What the kill before it interrupted has been recovered by now.
		wait(ctx, time.Second)
		from := time.Now()
		if err := s.stop(ctx); err != nil {
			return err
		}
		if err := restart(); err != nil {
			return err
		}
		wait(ctx, 1500*time.Millisecond) // a recovery, if there is one, is over
		c.stops = append(c.stops, span{from, time.Now()})
		return nil
	}
	if err := s.kill(); err != nil {
		return err
	}
	switch step {
	case countKillsAtStart:
		if err := s.start(); err != nil {
			return err
		}
		wait(ctx, between(0, 80))
		if err := s.kill(); err != nil {
			return err
		}
	case countKillsInRecovery:
		if err := restart(); err != nil {
			return err
		}
		wait(ctx, between(0, 200))
		if err := s.kill(); err != nil {
			return err
		}
	}
	return restart()
}
