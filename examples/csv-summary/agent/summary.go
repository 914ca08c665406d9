package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// summary is what is known of a table.
type summary struct {
	Rows    int      `json:"rows"` // without the header
	Columns []column `json:"columns"`
}

// column is what is known of a column. The statistics are those of its numbers,
// and absent when it has none.
type column struct {
	Name    string   `json:"name"`
	Count   int      `json:"count"`   // values that are there
	Missing int      `json:"missing"` // empty, NA, N/A, NaN or null
	Numbers int      `json:"numbers"` // values that are numbers
	Mean    *float64 `json:"mean,omitzero"`
	Min     *float64 `json:"min,omitzero"`
	Max     *float64 `json:"max,omitzero"`
	StdDev  *float64 `json:"stddev,omitzero"` // of the sample; absent for less than two numbers

	mean, squares, min, max float64
}

const byteOrderMark = "\uFEFF"

// maxColumns bounds what one file costs.
const maxColumns = 10_000

// summarize reads a table whose first row names its columns.
func summarize(r io.Reader) (*summary, error) {
	buffered := bufio.NewReader(r)
	if mark, err := buffered.Peek(len(byteOrderMark)); err == nil && string(mark) == byteOrderMark {
		_, _ = buffered.Discard(len(byteOrderMark))
	}
	table := csv.NewReader(buffered)
	table.ReuseRecord = true
	header, err := table.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	}
	if err != nil {
		return nil, err
	}
	if len(header) > maxColumns {
		return nil, fmt.Errorf("it has more than %d columns", maxColumns)
	}
	s := &summary{Columns: make([]column, len(header))}
	for i, name := range header {
		s.Columns[i].Name = strings.Clone(strings.TrimSpace(name))
	}
	for {
		row, err := table.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		s.Rows++
		for i, value := range row {
			s.Columns[i].add(strings.TrimSpace(value))
		}
	}
	for i := range s.Columns {
		s.Columns[i].finish()
	}
	return s, nil
}

// add takes a value. The variance is Welford's, which loses no digits on large
// numbers that lie close together.
func (c *column) add(value string) {
	switch strings.ToLower(value) {
	case "", "na", "n/a", "nan", "null":
		c.Missing++
		return
	}
	c.Count++
	x, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return
	}
	c.Numbers++
	if c.Numbers == 1 {
		c.min, c.max = x, x
	}
	delta := x - c.mean
	c.mean += delta / float64(c.Numbers)
	c.squares += delta * (x - c.mean)
	c.min, c.max = min(c.min, x), max(c.max, x)
}

func (c *column) finish() {
	if c.Numbers == 0 || math.IsInf(c.mean, 0) || math.IsNaN(c.mean) {
		return
	}
	c.Mean, c.Min, c.Max = new(c.mean), new(c.min), new(c.max)
	if deviation := math.Sqrt(c.squares / float64(c.Numbers-1)); c.Numbers > 1 && !math.IsInf(deviation, 0) && !math.IsNaN(deviation) {
		c.StdDev = new(deviation)
	}
}

// markdown is the summary as a table for people.
func (s *summary) markdown(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Summary of %s\n\n%d rows, %d columns\n\n", name, s.Rows, len(s.Columns))
	b.WriteString("| column | count | missing | mean | min | max | stddev |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for i := range s.Columns {
		c := &s.Columns[i]
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %s |\n", strings.ReplaceAll(c.Name, "|", `\|`),
			c.Count, c.Missing, number(c.Mean), number(c.Min), number(c.Max), number(c.StdDev))
	}
	return b.String()
}

func number(x *float64) string {
	if x == nil {
		return "-"
	}
	return strconv.FormatFloat(*x, 'g', 6, 64)
}
