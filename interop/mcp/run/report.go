package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-yaml"
)

// baseline says of a cell, "ROW, COLUMN", which scenarios fail, and why that is
// the suite's fault.
type baseline map[string]map[string]string

func readBaseline(file string) (b baseline, err error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalWithOptions(raw, &b, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("decode %s: %w", file, err)
	}
	for cell, scenarios := range b {
		for name, reason := range scenarios {
			if strings.TrimSpace(reason) == "" {
				return nil, fmt.Errorf("%s: %s, %s has no reason", file, cell, name)
			}
		}
	}
	return b, nil
}

// report writes the table and what is not as expected, and returns how much that is.
func report(w io.Writer, rows []row, outcomes [][]outcome, expected baseline) (unexpected int) {
	var columns []string
	for _, r := range rows {
		for _, c := range r.columns {
			if !slices.Contains(columns, c.name) {
				columns = append(columns, c.name)
			}
		}
	}
	var differences strings.Builder
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "scenarios passed\t%s\n", strings.Join(columns, "\t"))
	for i, r := range rows {
		cells := map[string]string{}
		for j, c := range r.columns {
			passed := 0
			known := maps.Clone(expected[r.name+", "+c.name])
			for _, s := range outcomes[i][j] {
				_, isKnown := known[s.name]
				delete(known, s.name)
				switch {
				case s.passed:
					passed++
					if isKnown {
						unexpected++
						fmt.Fprintf(&differences, "%s, %s: %s passes now, though it is in the baseline\n", r.name, c.name, s.name)
					}
				case !isKnown:
					unexpected++
					fmt.Fprintf(&differences, "%s, %s: %s\n", r.name, c.name, s.name)
					for _, f := range s.failures {
						fmt.Fprintf(&differences, "    %.400s\n", strings.ReplaceAll(f, "\n", " "))
					}
				}
			}
			for name := range known {
				unexpected++
				fmt.Fprintf(&differences, "%s, %s: %s is in the baseline, and did not run\n", r.name, c.name, name)
			}
			cells[c.name] = fmt.Sprintf("%d/%d", passed, len(outcomes[i][j]))
		}
		fmt.Fprint(table, r.name)
		for _, c := range columns {
			cell := cells[c]
			if cell == "" {
				cell = "-"
			}
			fmt.Fprintf(table, "\t%s", cell)
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
	if unexpected > 0 {
		fmt.Fprintf(w, "\nnot as expected:\n%s", differences.String())
	}
	return unexpected
}
