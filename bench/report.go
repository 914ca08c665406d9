package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// row is a line of the result.
type row struct {
	Key     string  `json:"key"` // of the benchmark, which may have several rows
	Name    string  `json:"name"`
	Handoff string  `json:"handoff"`
	Peer    string  `json:"peer,omitzero"`
	Ratio   float64 `json:"ratio,omitzero"` // Handoff to peer
	Budget  string  `json:"budget,omitzero"`
	Held    bool    `json:"held,omitzero"`
	Nodes   bool    `json:"nodes,omitzero"` // is about many nodes; Peer is one on SQLite
	Comment string  `json:"comment,omitzero"`
	Detail  string  `json:"detail,omitzero"` // Markdown
}

// kept returns the rows of an earlier run.
func kept() ([]row, error) {
	text, err := os.ReadFile("results.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rows []row
	return rows, json.Unmarshal(text, &rows)
}

// merged puts new rows in the places of those with the same key.
func merged(before, now []row) []row {
	var rows []row
	for _, b := range benchmarks {
		is := func(r row) bool { return r.Key == b.name }
		from := now
		if !slices.ContainsFunc(now, is) {
			from = before
		}
		for _, r := range from {
			if is(r) {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

func report(rows []row) error {
	text, err := json.Marshal(rows, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	if err := os.WriteFile("results.json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	var m strings.Builder
	fmt.Fprintf(&m, `# Benchmarks

Written by %s. The machine of this run: %d cores, %s, the load generator and
the database included. Rates are medians of rounds in which the sides take turns.
The two tables may be of different runs, and are not to be compared with each other.

## Beside a2a-go

Handoff and the official Go SDK (a2a-go v2.4.0 with its in-memory store) in turn.
Handoff commits every event to SQLite with full fsync; the SDK keeps everything
in memory.

`, "`make bench`", runtime.NumCPU(), runtime.Version())
	table(&m, "a2a-go", slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.Nodes || isMCP(r) }))
	m.WriteString(`
## Many nodes

Nodes on one PostgreSQL server with fsync, beside one node on SQLite with full
fsync in the same run. The server is as installed but for shared_buffers=256MB
and max_wal_size=2GB, and is reached over a socket of the machine. In brackets are
the least and the greatest of the rounds. What the numbers mean is in
[scale.md](scale.md).

`)
	table(&m, "SQLite", slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !r.Nodes }))
	m.WriteString(`
## The gateway for tools

Calls of a tool server that answers at once: through Handoff with policy on (rate,
concurrency, a list of tools, the body held against its headers), through nginx and Go's
ReverseProxy, both of which route by the same header and read no body, and straight. A cold
list is fetched from its server for every call that finds none under way, and its
definitions are checked and named again, which the others do not do.

`)
	table(&m, "nginx", slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !isMCP(r) }))
	return os.WriteFile("../docs/benchmarks.md", []byte(m.String()), 0o644)
}

func isMCP(r row) bool { return r.Key == "mcp" || r.Key == "mcp-more" }

// table writes rows and their comments.
func table(m *strings.Builder, peer string, rows []row) {
	fmt.Fprintf(m, "| what | Handoff | %s | ratio | budget | held |\n| --- | --- | --- | --- | --- | --- |\n", peer)
	for _, r := range rows {
		ratio, held := "", "no"
		if r.Ratio != 0 {
			ratio = fmt.Sprintf("%.2f", r.Ratio)
		}
		switch {
		case r.Budget == "":
			held = ""
		case r.Held:
			held = "yes"
		}
		fmt.Fprintf(m, "| %s | %s | %s | %s | %s | %s |\n", r.Name, r.Handoff, r.Peer, ratio, r.Budget, held)
	}
	for _, r := range rows {
		if r.Comment != "" {
			fmt.Fprintf(m, "\n**%s.** %s\n", r.Name, r.Comment)
		}
		if r.Detail != "" {
			fmt.Fprintf(m, "\n%s\n", strings.TrimSpace(r.Detail))
		}
	}
}
