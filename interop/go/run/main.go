// Command run starts a server for each configuration of the fixture, lets the
// suites of the official clients talk to them, says what came of it, and keeps
// the tables of docs/interop.md:
//
//	go run ./run           # all suites; fails where the tables are out of date
//	go run ./run -write    # all suites; writes the tables
//	go run ./run js py     # these suites only, and no tables
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.program, "server", "../../bin/handoff", "the `program` that serves")
	flag.StringVar(&o.examples, "examples", "../../examples", "the `directory` of the examples")
	flag.StringVar(&o.document, "document", "../../docs/interop.md", "the `file` with the tables")
	flag.BoolVar(&o.write, "write", false, "write the tables instead of comparing them")
	flag.StringVar(&o.filter, "run", "", "of the Go suite, the tests that match this `expression` only, and no tables")
	flag.Parse()
	o.only = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	program, examples, document string
	write                       bool
	filter                      string
	only                        []string
}

func run(ctx context.Context, o options) (err error) {
	for _, path := range []*string{&o.program, &o.examples, &o.document} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	suites, err := chosen(o)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "handoff-interop-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	flags, err := secret(dir)
	if err != nil {
		return err
	}
	signing, authorization, err := signed(ctx, o.program, dir)
	if err != nil {
		return err
	}
	env := append(os.Environ(), "AUTHORIZATION="+authorization, "HANDOFF="+o.program)
	for i, c := range append(configurations, signing) {
		if !filepath.IsAbs(c.file) {
			c.file = filepath.Join(o.examples, c.file)
		}
		c.flags = append(c.flags, flags...)
		s, err := serve(ctx, o.program, filepath.Join(dir, strconv.Itoa(i)), c)
		if err != nil {
			return err
		}
		defer s.stop()
		env = append(env, c.name+"_URL=http://"+s.address+"/agents/"+c.agent+"/", c.name+"_LOG="+s.log)
	}
	var all, ofAgents []result
	failed := false
	for _, s := range suites {
		results := filepath.Join(dir, s.id+".jsonl")
		out := s.execute(ctx, append(env, "RESULTS="+results))
		if out.results, err = read(results, s); err != nil {
			return err
		}
		failed = out.report(s) || failed
		if s.agents {
			ofAgents = append(ofAgents, out.results...)
		} else {
			all = append(all, out.results...)
		}
	}
	switch {
	case failed:
		return errors.New("a client does not get along with a server")
	case len(o.only) > 0 || o.filter != "":
		return nil
	}
	suites = slices.DeleteFunc(suites, func(s suite) bool { return s.agents })
	clients, err := render(suites, all)
	if err != nil {
		return err
	}
	agents, err := renderAgents(suites, ofAgents)
	if err != nil {
		return err
	}
	return errors.Join(
		document(o.document, "tables", clients, o.write),
		document(o.document, "tables of agents", agents, o.write),
	)
}

// chosen returns the suites to run.
func chosen(o options) ([]suite, error) {
	all, err := suites(o.filter)
	if err != nil || len(o.only) == 0 {
		return all, err
	}
	var some []suite
	for _, name := range o.only {
		found := false
		for _, s := range all {
			if s.id == name {
				some, found = append(some, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no suite %q", name)
		}
	}
	return some, nil
}

// report prints what came of a suite and returns whether it failed.
func (o outcome) report(s suite) (failed bool) {
	passed, not := 0, 0
	for _, r := range o.results {
		switch r.Result {
		case "pass":
			passed++
		case "not offered", "cannot":
			not++
		default:
			failed = true
			fmt.Printf("failed: %s, %s, %s\n", r.Case, r.SDK, r.Binding)
		}
	}
	failed = failed || o.err != nil || passed == 0
	verdict := "pass"
	if failed {
		verdict = "FAIL"
	}
	if failed || s.show {
		fmt.Println(strings.TrimRight(o.details, "\n"))
	}
	fmt.Printf("%s  %-40s %3d cases passed, %d not offered or impossible, %s\n", verdict, s.title+" "+s.version, passed, not, o.took.Round(100*time.Millisecond))
	if o.err != nil {
		fmt.Printf("      %v\n", o.err)
	}
	return failed
}
