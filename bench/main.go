// Command bench compares Handoff with the official Go SDK, side by side in one
// run on one machine: the same load, the two servers in turn, medians and
// ratios. It writes results.json beside itself and ../docs/benchmarks.md.
//
// The rows of many nodes compare them with one node on SQLite; they need the
// programs of a PostgreSQL server, and start one of their own.
//
//	cd bench && go run .              everything, about 30 minutes
//	cd bench && go run . -only send   one row
//	cd bench && go run . -only send -keep   one row, into the results of an earlier run
//	cd bench && go run . -quick       small counts, to see that it works
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
)

// scale is how much of everything is done.
type scale struct {
	rounds      int // of each comparison
	sends       int // in a round
	peerSends   int
	subscribers int
	tasks       int // in the store of the list
	parked      int
	inFlight    int
	nodeSends   int // in a round of many nodes
	costTasks   int
	streamed    int // tasks that are streamed at once
	frames      int // of each
	cancels     int

	clientSends, clientEvents int
}

var full = scale{
	rounds: 5, sends: 20000, peerSends: 4000, subscribers: 1000, tasks: 1_000_000, parked: 100_000, inFlight: 10_000, nodeSends: 10_000, costTasks: 20_000, streamed: 8, frames: 250, cancels: 120, clientSends: 10_000, clientEvents: 100_000,
}

var quick = scale{
	rounds: 1, sends: 1000, peerSends: 500, subscribers: 50, tasks: 10_000, parked: 2000, inFlight: 200, nodeSends: 1000, costTasks: 1000, streamed: 4, frames: 50, cancels: 10, clientSends: 2000, clientEvents: 20_000,
}

// benchmark is measured in one go, and may give several rows.
type benchmark struct {
	name string
	run  func(context.Context, scale) ([]row, error)
}

var benchmarks = []benchmark{
	{"codec", one(benchCodec)},
	{"send", one(benchSend)},
	{"message", one(benchMessage)},
	{"chunks", one(benchChunks)},
	{"client", benchClient},
	{"subscribers", one(benchSubscribers)},
	{"list", one(benchList)},
	{"parked", one(benchParked)},
	{"kill", one(benchKill)},
	{"start", one(benchStart)},
	{"nodes", benchNodes},
	{"cost", benchCost},
	{"delay", benchDelay},
	{"cancel", benchCancel},
	{"list-postgres", one(benchListPostgres)},
	{"mcp", benchMCP},
	{"mcp-more", benchMCPMore},
}

// one is a benchmark of a single row.
func one(run func(context.Context, scale) (row, error)) func(context.Context, scale) ([]row, error) {
	return func(ctx context.Context, s scale) ([]row, error) {
		r, err := run(ctx, s)
		return []row{r}, err
	}
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] { // the processes of a benchmark
		case "peer":
			servePeer()
			return
		case "client":
			if err := runClient(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		case "mcp-server":
			serveMCP()
			return
		case "mcp-proxy":
			serveReverseProxy(os.Args[2])
			return
		case "nats":
			serveNATS()
			return
		case "hold":
			hold(os.Args[2:])
			return
		}
	}
	if len(os.Args) == 6 && os.Args[1] == "load" { // URL, text, wanted answer, count: for profiles
		n, _ := strconv.Atoi(os.Args[5])
		fmt.Println(rate(context.Background(), os.Args[2], os.Args[3], os.Args[4], n))
		return
	}
	only := flag.String("only", "", "run just these rows, separated by commas")
	keep := flag.Bool("keep", false, "with -only: put the rows into the results of an earlier run")
	small := flag.Bool("quick", false, "small counts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := full
	if *small {
		s = quick
	}
	rows, err := measure(ctx, s, *only)
	if err == nil && !*small && (*only == "" || *keep) {
		var before []row
		if *keep {
			before, err = kept()
		}
		if err == nil {
			err = report(merged(before, rows))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// measure runs the benchmarks that are named, or all.
func measure(ctx context.Context, s scale, only string) ([]row, error) {
	var rows []row
	for _, b := range benchmarks {
		if only != "" && !slices.Contains(strings.Split(only, ","), b.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s\n", b.name)
		found, err := b.run(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
		for i := range found {
			r := &found[i]
			r.Key = b.name
			fmt.Fprintf(os.Stderr, "    %s: %s | %s | %.2f | budget %s | held %v\n", r.Name, r.Handoff, cmp.Or(r.Peer, "-"), r.Ratio, cmp.Or(r.Budget, "-"), r.Held)
			if r.Comment != "" {
				fmt.Fprintln(os.Stderr, "       ", r.Comment)
			}
			if r.Detail != "" {
				fmt.Fprintln(os.Stderr, r.Detail)
			}
		}
		rows = append(rows, found...)
	}
	return rows, nil
}
