package main

import (
	"bufio"
	"strings"
	"testing"

	"handoff.example/handoff/internal/form"
)

const askedSchema = `{"type":"object","required":["qty","sku"],"properties":{
 "qty":{"type":"integer","minimum":1,"title":"How many\u001b[2J"},"sku":{"type":"string","pattern":"^[A-Z]+$"},"fast":{"type":"boolean"},
 "color":{"enum":["red","blue"],"default":"red"},"tags":{"type":"array","items":{"type":"string"}},"day":{"type":"string","format":"date"}}}`

// TestFill answers the questions of a form on a terminal, wrongly at first.
func TestFill(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ lines, want, says string }{
		"all":     {"5\nABC\nyes\nblue\na\nb\n\n2026-01-31\n", `{"qty":5,"sku":"ABC","fast":true,"color":"blue","tags":["a","b"],"day":"2026-01-31"}`, "How many"},
		"least":   {"5\nABC\n\n\n\n\n", `{"qty":5,"sku":"ABC","color":"red"}`, "optional; default red"},
		"at once": {"x\n1.5\n\n5\nABC\nperhaps\nno\n\n\n\n", `{"qty":5,"sku":"ABC","fast":false,"color":"red"}`, "qty is not a number"},
		"later":   {"0\nabc\n\n\n\n\n5\nABC\n", `{"qty":5,"sku":"ABC","color":"red"}`, "qty is less than 1"},
		"date":    {"5\nABC\n\n\n\nsoon\n2026-02-01\n", `{"qty":5,"sku":"ABC","color":"red","day":"2026-02-01"}`, "day is not a date"},
		"end":     {"5\n", "", "sku"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := form.New([]byte(askedSchema))
			if err != nil {
				t.Fatal(err)
			}
			lines := tt.lines
			if name == "later" && !strings.Contains(lines, "ABC") {
				t.Fatal("the lines do not end")
			}
			var out strings.Builder
			q := &questioner{in: bufio.NewReader(strings.NewReader(lines)), out: &printer{w: &out}}
			got, err := q.fill(f)
			if string(got) != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %s, %v, want %s\n%s", got, err, tt.want, out.String())
			}
			if !strings.Contains(out.String(), tt.says) || strings.Contains(out.String(), "\x1b") {
				t.Errorf("asked: %q", out.String())
			}
		})
	}
}
