// Command bench compares Handoff with the official Go SDK, side by side in one
// run on one machine: the same load, the two servers in turn, medians and
// ratios. It writes results.json beside itself and ../docs/benchmarks.md.
//
//	cd bench && go run .              everything, about 10 minutes
//	cd bench && go run . -only send   one row
//	cd bench && go run . -quick       small counts, to see that it works
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
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
}

var full = scale{rounds: 5, sends: 20000, peerSends: 4000, subscribers: 1000, tasks: 1_000_000, parked: 100_000, inFlight: 10_000}

var quick = scale{rounds: 1, sends: 1000, peerSends: 500, subscribers: 50, tasks: 10_000, parked: 2000, inFlight: 200}

// row is a line of the result.
type row struct {
	Name    string  `json:"name"`
	Handoff string  `json:"handoff"`
	Peer    string  `json:"peer,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"` // Handoff to peer
	Budget  string  `json:"budget"`
	Held    bool    `json:"held"`
	Comment string  `json:"comment,omitempty"`
}

var benchmarks = []struct {
	name string
	run  func(context.Context, scale) (row, error)
}{
	{"codec", benchCodec},
	{"send", benchSend},
	{"message", benchMessage},
	{"chunks", benchChunks},
	{"subscribers", benchSubscribers},
	{"list", benchList},
	{"parked", benchParked},
	{"kill", benchKill},
	{"start", benchStart},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "peer" {
		servePeer()
		return
	}
	if len(os.Args) == 6 && os.Args[1] == "load" { // URL, text, wanted answer, count: for profiles
		n, _ := strconv.Atoi(os.Args[5])
		fmt.Println(rate(context.Background(), os.Args[2], os.Args[3], os.Args[4], n))
		return
	}
	only := flag.String("only", "", "run just these rows, separated by commas")
	small := flag.Bool("quick", false, "small counts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := full
	if *small {
		s = quick
	}
	var rows []row
	for _, b := range benchmarks {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), b.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%-12s ", b.name)
		r, err := b.run(ctx, s)
		if err != nil {
			fmt.Fprintln(os.Stderr, "failed:", err)
			os.Exit(1)
		}
		fmt.Fprintf(os.Stderr, "%s | %s | %.2f | budget %s | held %v\n", r.Handoff, cmp.Or(r.Peer, "-"), r.Ratio, r.Budget, r.Held)
		if r.Comment != "" {
			fmt.Fprintln(os.Stderr, "            ", r.Comment)
		}
		rows = append(rows, r)
	}
	if *only == "" && !*small {
		if err := report(rows); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func report(rows []row) error {
	var b strings.Builder
	b.WriteString("[\n")
	for i, r := range rows {
		fmt.Fprintf(&b, "  {\"name\": %q, \"handoff\": %q, \"peer\": %q, \"ratio\": %.3f, \"budget\": %q, \"held\": %v, \"comment\": %q}", r.Name, r.Handoff, r.Peer, r.Ratio, r.Budget, r.Held, r.Comment)
		if i < len(rows)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]\n")
	if err := os.WriteFile("results.json", []byte(b.String()), 0o644); err != nil {
		return err
	}
	var m strings.Builder
	fmt.Fprintf(&m, `# Benchmarks

Written by %s, which runs Handoff and the official Go SDK (a2a-go v2.4.0 with
its in-memory store) in turn on the same machine, load generator included, and
takes medians. Handoff commits every event to SQLite with full fsync; the SDK
keeps everything in memory. The machine of this run: %d cores, %s.

| what | Handoff | a2a-go | ratio | budget | held |
| --- | --- | --- | --- | --- | --- |
`, "`make bench`", runtime.NumCPU(), runtime.Version())
	for _, r := range rows {
		ratio, held := "", "no"
		if r.Ratio != 0 {
			ratio = fmt.Sprintf("%.2f", r.Ratio)
		}
		if r.Held {
			held = "yes"
		}
		fmt.Fprintf(&m, "| %s | %s | %s | %s | %s | %s |\n", r.Name, r.Handoff, r.Peer, ratio, r.Budget, held)
	}
	for _, r := range rows {
		if r.Comment != "" {
			fmt.Fprintf(&m, "\n**%s.** %s\n", r.Name, r.Comment)
		}
	}
	return os.WriteFile("../docs/benchmarks.md", []byte(m.String()), 0o644)
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[len(s)/2]
}

func percentile(values []float64, p float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[min(len(s)-1, int(p*float64(len(s))))]
}
