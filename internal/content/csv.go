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
	w.head(rows, columns)
	w.close("thead")
	w.open("tbody")
	for _, row := range rows[1:] {
		w.row(row, columns)
	}
	w.close("tbody")
	w.close("table")
	w.close("div")
	if more {
		w.note("Only " + strconv.Itoa(maxRows) + " rows and " + strconv.Itoa(maxColumns) + " columns are shown here.")
	}
}

func (w *writer) row(values []string, columns int) {
	w.open("tr")
	for i := range columns {
		value := ""
		if i < len(values) {
			value = values[i]
		}
		if number(value) {
			w.open("td", "class", "number")
		} else {
			w.open("td", "dir", "auto")
		}
		w.string(withoutNUL(value))
		w.close("td")
	}
	w.close("tr")
}

// head writes the names of the columns. They stand where the first values do.
func (w *writer) head(rows [][]string, columns int) {
	w.open("tr")
	for i := range columns {
		if len(rows) > 1 && i < len(rows[1]) && number(rows[1][i]) {
			w.open("th", "scope", "col", "class", "number")
		} else {
			w.open("th", "scope", "col", "dir", "auto")
		}
		if i < len(rows[0]) {
			w.string(withoutNUL(rows[0][i]))
		}
		w.close("th")
	}
	w.close("tr")
}

func number(s string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return err == nil
}
