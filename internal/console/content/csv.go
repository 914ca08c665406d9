package content

import (
	"encoding/csv"
	"errors"
	"io"
	"strconv"
	"strings"
)

// table writes comma or tab separated values as a table whose first row is its
// head. What is no such text is shown as it is.
func (w *writer) table(text string, tabs bool) {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	if tabs {
		r.Comma = '\t'
	} else if head, _, _ := strings.Cut(text, "\n"); strings.Count(head, ";") > strings.Count(head, ",") {
		r.Comma = ';'
	}
	var rows [][]string
	more, columns := false, 0
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			w.text(text)
			return
		}
		if len(rows) > maxRows {
			more = true
			break
		}
		row := make([]string, 0, min(len(record), maxColumns))
		for _, cell := range record[:min(len(record), maxColumns)] {
			row = append(row, clip(cell, maxCell))
		}
		more = more || len(record) > maxColumns
		columns = max(columns, len(row))
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		w.text(text)
		return
	}
	w.open("div", "class", "scroll", "tabindex", "0", "role", "region", "aria-label", "Table")
	w.open("table", "class", "part-rows")
	w.open("thead")
	w.row("th", rows[0], columns)
	w.close("thead")
	w.open("tbody")
	for _, row := range rows[1:] {
		w.row("td", row, columns)
	}
	w.close("tbody")
	w.close("table")
	w.close("div")
	if more {
		w.note("Only " + strconv.Itoa(maxRows) + " rows and " + strconv.Itoa(maxColumns) + " columns are shown here.")
	}
}

func (w *writer) row(cell string, values []string, columns int) {
	w.open("tr")
	for i := range columns {
		value := ""
		if i < len(values) {
			value = values[i]
		}
		switch {
		case cell == "th":
			w.open(cell, "scope", "col", "dir", "auto")
		case number(value):
			w.open(cell, "class", "number")
		default:
			w.open(cell, "dir", "auto")
		}
		w.string(withoutNUL(value))
		w.close(cell)
	}
	w.close("tr")
}

func number(s string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return err == nil
}
