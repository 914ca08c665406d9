// Command planner is a node whose agent makes a plan, hands each step of it to a
// researcher, and assembles what comes back.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

func main() {
	file := flag.String("c", "examples/planner/handoff.yaml", "the configuration `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *file); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, file string) error {
	config, err := handoff.LoadConfig(file)
	if err != nil {
		return err
	}
	node, err := handoff.New(config, handoff.Options{})
	if err != nil {
		return err
	}
	card := handoff.NewCard("Planner", "Plans a comparison and has each part researched.", "1.0.0", handoff.Skill{
		ID: "compare", Name: "Compare", Description: "Compares protocols in a report.",
		Tags: []string{"planning"}, Examples: []string{"Compare MCP with A2A"},
	})
	card.OnInterrupt = "resume" // what a turn delegates is delegated once, however often the turn runs
	if err := node.Handle("planner", card, plan); err != nil {
		return errors.Join(err, node.Shutdown(ctx))
	}
	return node.ListenAndServe(ctx)
}

var protocol = regexp.MustCompile(`\b[A-Z][A-Z0-9]+\b`)

// progress is the private state of a task: what there is to research, and how
// much of it is in the report.
type progress struct {
	Subjects []string
	Done     int
}

// plan is the agent: one turn for the request and one for each outcome, with days
// or a restart between them.
func plan(_ context.Context, t *handoff.Turn) error {
	if t.Outcome == nil {
		p := progress{Subjects: protocol.FindAllString(t.Text(), -1)}
		if len(p.Subjects) == 0 {
			return t.Ask("Which protocols shall I compare?", nil)
		}
		if err := t.Working("Plan: " + strings.Join(p.Subjects, ", ")); err != nil {
			return err
		}
		return research(t, p)
	}
	var p progress
	if err := json.Unmarshal(t.State, &p); err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	subject := p.Subjects[p.Done]
	if !t.Outcome.Completed() {
		return agent.Errorf("nothing was found on %s: %s", subject, t.Outcome.Text())
	}
	p.Done++
	section := &agent.Artifact{
		ID: "report", Name: "report",
		Parts:  append([]a2a.Part{a2a.Text("## " + subject + "\n\n")}, t.Outcome.Parts()...),
		Append: p.Done > 1, Last: p.Done == len(p.Subjects),
	}
	if err := t.Emit(agent.Step{Artifact: section}); err != nil {
		return err
	}
	if section.Last {
		return t.Complete()
	}
	return research(t, p)
}

// research hands on the next subject. The researcher gets one question: neither
// what the client has said nor what was found so far is any business of it.
func research(t *handoff.Turn, p progress) error {
	state, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := t.SetState(state); err != nil {
		return err
	}
	return t.Delegate("researcher", a2a.Text("What is "+p.Subjects[p.Done]+" for?"))
}
