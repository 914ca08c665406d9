package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// clerk runs one turn of a task.
type clerk struct {
	calendar *calendar
	turn     *agent.TurnData
	today    string
	emit     func(agent.Step) error
	pause    func() error
}

// run finds out what is wanted, asks for what is missing, and books.
func (c *clerk) run(ctx context.Context) error {
	// A turn that was interrupted after it booked finds its booking here.
	if b, found, err := c.calendar.bookingOf(ctx, c.turn.TaskID, ""); err != nil {
		return err
	} else if found {
		return c.confirm(&b, "The dock is reserved already; confirming it")
	}
	w, err := wishOf(c.turn)
	if err != nil {
		return err
	}
	if w.PurchaseOrder == "" {
		return c.ask(w, "Which purchase order is to be delivered?", `{"type":"object","properties":{"purchaseOrder":{"type":"string","title":"Purchase order","pattern":"^PO-[0-9]{4}-[0-9]{4}$"}},"required":["purchaseOrder"]}`)
	}
	order, refusal, err := c.order(ctx, w)
	if err != nil {
		return err
	}
	if refusal != "" {
		return c.emit(agent.Step{Reject: agent.Say(refusal)})
	}
	return c.schedule(ctx, w, order)
}

// order returns the purchase order, or why nothing is booked for it.
func (c *clerk) order(ctx context.Context, w *wish) (o order, refusal string, err error) {
	o, err = c.calendar.order(ctx, w.PurchaseOrder)
	switch {
	case errors.Is(err, errUnknownOrder):
		return o, w.PurchaseOrder + " is not known.", nil
	case err != nil:
		return o, "", err
	case o.status != "confirmed":
		return o, o.number + " is not confirmed yet.", nil
	case w.Warehouse != "" && !strings.EqualFold(w.Warehouse, o.warehouse):
		return o, fmt.Sprintf("%s is delivered to the %s DC, not to %s.", o.number, o.warehouse, w.Warehouse), nil
	}
	b, booked, err := c.calendar.bookingOf(ctx, "", o.number)
	if booked {
		refusal = alreadyBooked(&b)
	}
	return o, refusal, err
}

func alreadyBooked(b *booking) string {
	return fmt.Sprintf("%s has a booking already: dock %d at the %s DC on %s, %s.", b.purchaseOrder, b.dock, b.warehouse, date(b.day), b.hours)
}

// schedule books the earliest slot, or asks which dock it is to be.
func (c *clerk) schedule(ctx context.Context, w *wish, o order) error {
	free, err := c.calendar.earliest(ctx, o.warehouse, max(c.today, o.readyOn), w.TailLift != nil && *w.TailLift)
	if err != nil {
		return err
	}
	if len(free.docks) == 0 {
		return c.emit(agent.Step{Reject: agent.Say(fmt.Sprintf("No such dock is free at the %s DC.", o.warehouse))})
	}
	if question := w.missing(&free); question != "" {
		if err := c.calendar.keepTask(ctx, o.number, c.turn.TaskID, c.turn.ContextID, "INPUT_REQUIRED"); err != nil {
			return err
		}
		return c.ask(w, question, form(&free))
	}
	return c.reserve(ctx, w, o, &free)
}

func (c *clerk) reserve(ctx context.Context, w *wish, o order, free *offer) error {
	if err := c.calendar.keepTask(ctx, o.number, c.turn.TaskID, c.turn.ContextID, "WORKING"); err != nil {
		return err
	}
	if err := c.say("Checking dock capacity at the %s DC", o.warehouse); err != nil {
		return err
	}
	if err := c.say("Reserving dock %d on %s, %s", *w.Dock, date(free.day), free.hours); err != nil {
		return err
	}
	b := &booking{
		warehouse: o.warehouse, dock: *w.Dock, day: free.day, hours: free.hours, tailLift: *w.TailLift,
		purchaseOrder: o.number, task: c.turn.TaskID,
	}
	switch err := c.calendar.book(ctx, b, c.turn.ContextID); {
	case errors.Is(err, errBooked):
		other, _, err := c.calendar.bookingOf(ctx, "", o.number)
		return errors.Join(err, c.emit(agent.Step{Reject: agent.Say(alreadyBooked(&other))}))
	case errors.Is(err, errTaken):
		// Somebody was faster: ask again, with what is free now.
		w.Day, w.Hours = free.day, free.hours
		return c.schedule(ctx, w, o)
	case err != nil:
		return err
	}
	return c.confirm(b, "Confirming dock %d with the warehouse", b.dock)
}

// confirm completes the task with its booking.
func (c *clerk) confirm(b *booking, format string, args ...any) error {
	if err := c.say(format, args...); err != nil {
		return err
	}
	document, err := json.Marshal(struct {
		Booking       string `json:"booking"`
		PurchaseOrder string `json:"purchaseOrder"`
		Warehouse     string `json:"warehouse"`
		Dock          int    `json:"dock"`
		Date          string `json:"date"`
		Hours         string `json:"hours"`
		TailLift      bool   `json:"tailLift"`
	}{fmt.Sprintf("DS-%04d", b.id), b.purchaseOrder, b.warehouse + " DC", b.dock, b.day, b.hours, b.tailLift})
	if err != nil {
		return fmt.Errorf("encode booking: %w", err)
	}
	part := a2a.Data(document)
	part.MediaType = "application/json"
	lift := "without a tail lift"
	if b.tailLift {
		lift = "with a tail lift"
	}
	return errors.Join(
		c.emit(agent.Step{Artifact: &agent.Artifact{ID: "booking", Name: "booking", Parts: []a2a.Part{part}, Last: true}}),
		c.emit(agent.Step{Complete: agent.Say(fmt.Sprintf("Dock %d is booked for %s on %s, %s, %s.", b.dock, b.purchaseOrder, date(b.day), b.hours, lift))}),
	)
}

// say tells what is being done, and takes the time for it.
func (c *clerk) say(format string, args ...any) error {
	if err := c.emit(agent.Step{Working: agent.Say(fmt.Sprintf(format, args...))}); err != nil {
		return err
	}
	return c.pause()
}

// ask keeps what is known, asks, and so ends the turn.
func (c *clerk) ask(w *wish, question, schema string) error {
	state, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	return errors.Join(
		c.emit(agent.Step{State: state}),
		c.emit(agent.Step{Ask: &agent.Ask{Content: *agent.Say(question), Schema: a2a.JSON(schema)}}),
	)
}

// form is the JSON Schema of the answer to a question about an offer.
func form(o *offer) string {
	numbers := make([]string, len(o.docks))
	for i, d := range o.docks {
		numbers[i] = strconv.Itoa(d)
	}
	return `{"type":"object","properties":{"dock":{"type":"integer","title":"Dock","enum":[` + strings.Join(numbers, ",") +
		`]},"tailLift":{"type":"boolean","title":"Tail lift needed"}},"required":["dock","tailLift"]}`
}

// date writes a day of the calendar as people do: 11 Sep.
func date(day string) string {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return t.Format("2 Jan")
}
