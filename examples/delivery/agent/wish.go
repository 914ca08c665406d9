package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// wish is what the messages of a task have asked for so far. Between turns it is
// the task's private state, and as a data part it is the form.
type wish struct {
	PurchaseOrder string `json:"purchaseOrder,omitzero"`
	Warehouse     string `json:"warehouse,omitzero"`
	Dock          *int   `json:"dock,omitzero"`
	TailLift      *bool  `json:"tailLift,omitzero"`

	// The time that was offered with the last question.
	Day   string `json:"day,omitzero"`
	Hours string `json:"hours,omitzero"`
	Only  int    `json:"only,omitzero"` // the one dock that was offered
}

// wishOf adds what the new messages say to what the task knows.
func wishOf(t *agent.TurnData) (*wish, error) {
	w := &wish{}
	if len(t.State) > 0 {
		if err := json.Unmarshal(t.State, w); err != nil {
			return nil, fmt.Errorf("read state of task: %w", err)
		}
	}
	for i := range t.Messages {
		for _, p := range t.Messages[i].Parts {
			switch p.Kind {
			case a2a.PartText:
				w.read(p.Text)
			case a2a.PartData:
				var form wish
				if err := json.Unmarshal(p.Data, &form); err == nil {
					w.take(&form)
				}
			}
		}
	}
	return w, nil
}

func (w *wish) take(from *wish) {
	if from.PurchaseOrder != "" {
		w.PurchaseOrder = from.PurchaseOrder
	}
	if from.Warehouse != "" {
		w.Warehouse = from.Warehouse
	}
	if from.Dock != nil {
		w.Dock = from.Dock
	}
	if from.TailLift != nil {
		w.TailLift = from.TailLift
	}
}

var (
	orderWords     = regexp.MustCompile(`(?i)\bPO-\d{4}-\d{4}\b`)
	warehouseWords = regexp.MustCompile(`\b(\p{Lu}\p{L}+) DC\b`)
	dockWords      = regexp.MustCompile(`(?i)\bdock\s+(\d{1,3})\b`)
	liftWords      = regexp.MustCompile(`(?i)\btail[ -]?lift\b`)
	yesWords       = regexp.MustCompile(`(?i)^\s*(yes|ok)\b`)
	noLiftWords    = regexp.MustCompile(`(?i)\b(no|without( a)?) tail[ -]?lift\b|\btail[ -]?lift( is)? not\b`)
)

// read takes what a sentence says. A model would understand more of them.
func (w *wish) read(text string) {
	if match := orderWords.FindString(text); match != "" {
		w.PurchaseOrder = strings.ToUpper(match)
	}
	if match := warehouseWords.FindStringSubmatch(text); match != nil {
		w.Warehouse = match[1]
	}
	if match := dockWords.FindStringSubmatch(text); match != nil {
		number, _ := strconv.Atoi(match[1])
		w.Dock = new(number)
	}
	if w.Dock == nil && w.Only != 0 && yesWords.MatchString(text) {
		w.Dock = new(w.Only)
	}
	if liftWords.MatchString(text) {
		w.TailLift = new(!noLiftWords.MatchString(text))
	}
}

var numerals = [...]string{"No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"}

// missing returns the question for what has to be known before a slot can be
// booked, or "". The answer to an earlier question holds for the time that was
// offered then and for no other.
func (w *wish) missing(o *offer) string {
	day, prefix := date(o.day), ""
	if moved := w.Day != "" && (w.Day != o.day || w.Hours != o.hours); moved {
		prefix = fmt.Sprintf("Nothing that fits is free on %s, %s. ", date(w.Day), w.Hours)
		w.Dock = nil
	}
	w.Day, w.Hours, w.Only = o.day, o.hours, 0
	if w.Dock != nil && !slices.Contains(o.docks, *w.Dock) {
		lift := ""
		if w.TailLift != nil && *w.TailLift {
			lift = " with a tail lift"
		}
		prefix = fmt.Sprintf("Dock %d cannot be had on %s%s. ", *w.Dock, day, lift)
		w.Dock = nil
	}
	if w.Dock != nil {
		if w.TailLift == nil {
			return "Is a tail lift needed?"
		}
		return ""
	}
	question := fmt.Sprintf("%s docks are free on %s. Which one", numeral(len(o.docks)), day)
	if len(o.docks) == 1 {
		w.Only = o.docks[0]
		question = fmt.Sprintf("Only dock %d is free on %s. Is it to be dock %[1]d", o.docks[0], day)
	}
	if w.TailLift == nil {
		question += ", and is a tail lift needed"
	}
	return prefix + question + "?"
}

func numeral(n int) string {
	if n < len(numerals) {
		return numerals[n]
	}
	return strconv.Itoa(n)
}
