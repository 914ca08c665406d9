// Command agent is a program that an exec agent runs for each turn: it looks for
// an article in the stock list, and has a missing one ordered.
package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"handoff.example/handoff/agent"
)

func main() {
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		// The last line of standard error is the reason of the failed task.
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file string, in io.Reader, out io.Writer) error {
	input, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read turn: %w", err)
	}
	turn, err := agent.ParseTurn(input)
	if err != nil {
		return err
	}
	steps, err := answer(file, turn)
	for _, s := range steps {
		_, werr := out.Write(append(s.AppendJSON(nil), '\n'))
		err = errors.Join(err, werr)
	}
	return err
}

var sku = regexp.MustCompile(`[A-Z]{3}-\d{4}`)

// answer returns what is to be done in a turn. The first one comes with a question
// about the stock; the second, hours later, with what became of an order.
func answer(file string, turn *agent.TurnData) ([]agent.Step, error) {
	if turn.Cause == agent.CauseOutcome {
		return arrived(turn.Outcome), nil
	}
	name := sku.FindString(turn.Messages[len(turn.Messages)-1].Text())
	a, err := find(file, name)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return []agent.Step{{Reject: agent.Say(fmt.Sprintf("There is no article %q. Ask for one such as BRG-0042.", name))}}, nil
	case a.onHand >= a.below:
		return []agent.Step{{Complete: agent.Say(fmt.Sprintf("There are %d of %s.", a.onHand, a.sku))}}, nil
	}
	return []agent.Step{
		{Working: agent.Say(fmt.Sprintf("There are %d of %s, less than %d: ordering %d", a.onHand, a.sku, a.below, a.order))},
		// The reference keeps it from being ordered again while an order is open.
		{Delegate: &agent.Delegate{
			To: "supplier", Ref: "stock of " + a.sku,
			Content: *agent.Say(fmt.Sprintf("Order %d units of %s", a.order, a.sku)),
		}},
	}, nil
}

// arrived hands on the delivery note of an order, or says why there is none.
func arrived(o *agent.Outcome) []agent.Step {
	if !o.Completed() && strings.Contains(o.Text(), "has the reference") {
		return []agent.Step{{Complete: agent.Say("It is missing, and is ordered already: " + o.Text())}}
	}
	if !o.Completed() {
		return []agent.Step{{Fail: agent.Say("It was not ordered: " + o.Text())}}
	}
	return []agent.Step{
		{Artifact: &agent.Artifact{Name: "Delivery note", Parts: o.Parts(), Last: true}},
		{Complete: agent.Say("It was missing, and is on its way.")},
	}
}

type article struct {
	sku                  string
	onHand, below, order int
}

// find returns the line of the stock list that is of an article, nil when none is.
func find(file, sku string) (*article, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for _, line := range lines[min(1, len(lines)):] {
		if len(line) != 5 || line[0] != sku {
			continue
		}
		a := &article{sku: sku}
		for i, n := range []*int{&a.onHand, &a.below, &a.order} {
			if *n, err = strconv.Atoi(line[2+i]); err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
		}
		return a, nil
	}
	return nil, nil
}
