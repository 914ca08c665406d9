// Command run runs the conformance suite of MCP against the gateway, with servers
// of every kind behind it, and says what came of it:
//
//	go run ./run                     # everything; fails on what baseline.yml does not expect
//	go run ./run -direct             # the servers themselves, without a gateway
//	go run ./run -only stdio,client  # these rows only
//	go run ./run -columns tasks      # this column only
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
	"strings"
	"sync"
	"syscall"
	"time"
)

type options struct {
	program, results, example, baseline string
	direct                              bool
	only, columns                       string
	parallel                            int
}

func main() {
	var o options
	flag.StringVar(&o.program, "server", "../../bin/handoff", "the `program` that serves")
	flag.StringVar(&o.example, "example", "../../examples/mcp-conformance/handoff.yaml", "the configuration `file` of the gateway before servers over HTTP")
	flag.StringVar(&o.results, "results", "build/results", "the `directory` for what the suite writes")
	flag.StringVar(&o.baseline, "baseline", "baseline.yml", "the `file` with the failures that are expected")
	flag.BoolVar(&o.direct, "direct", false, "run the suite against the servers, without a gateway")
	flag.StringVar(&o.only, "only", "", "the rows to run, as a `list` of words in their names")
	flag.StringVar(&o.columns, "columns", "", "the columns to run, as a `list` of words in their names")
	flag.IntVar(&o.parallel, "parallel", 3, "how many rows run at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	for _, path := range []*string{&o.program, &o.results, &o.example, &o.baseline} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	expected, err := readBaseline(o.baseline)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(o.results); err != nil {
		return err
	}
	suite, err := newSuite(o.results)
	if err != nil {
		return err
	}
	begun := time.Now()
	rows := chosen(o)
	outcomes := make([][]outcome, len(rows))
	failed := make([]error, len(rows))
	limit := make(chan struct{}, max(1, o.parallel))
	var running sync.WaitGroup
	for i, r := range rows {
		running.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			outcomes[i], failed[i] = r.run(ctx, suite, o)
		})
	}
	running.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	unexpected := report(os.Stdout, rows, outcomes, expected)
	fmt.Printf("\n%s; details in %s\n", time.Since(begun).Round(time.Second), o.results)
	if unexpected > 0 {
		return fmt.Errorf("%d differences from %s", unexpected, filepath.Base(o.baseline))
	}
	return nil
}

// chosen returns the rows that are to be run.
func chosen(o options) (rows []row) {
	all := gatewayRows
	if o.direct {
		all = directRows
	}
	for _, r := range all {
		r.columns = slices.DeleteFunc(slices.Clone(r.columns), func(c column) bool { return !named(o.columns, c.name) })
		if named(o.only, r.name) && len(r.columns) > 0 {
			rows = append(rows, r)
		}
	}
	return rows
}

// named reports whether a name has one of the words in a list.
func named(list, name string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(word string) bool { return strings.Contains(name, word) })
}
