package agent_test

import (
	"context"
	"fmt"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// A payment must not be made twice: the number of the charge is kept with the
// task, and a turn that goes on after a crash gets it back.
func ExampleOnce() {
	charge := func(context.Context) (string, error) { return "ch-1", nil } // calls the bank
	pay := agent.Func(func(ctx context.Context, t *agent.Turn) error {
		number, err := agent.Once(ctx, t, "charge", charge)
		if err != nil {
			return err
		}
		return t.Complete("Paid with " + number)
	})
	fmt.Println(run(pay, "pay 100 EUR"))
	// Output: COMPLETED Paid with ch-1
}

// A question ends the turn. The answer begins the next one.
func ExampleTurn_Ask() {
	quote := agent.Func(func(_ context.Context, t *agent.Turn) error {
		if t.Number == 1 {
			return t.Ask("Incoterm?", a2a.JSON(`{"enum":["FOB","DDP"]}`))
		}
		return t.Complete("4,200 EUR, " + t.Text())
	})
	fmt.Println(run(quote, "Quote 400 units", "DDP"))
	// Output: INPUT_REQUIRED Incoterm?; COMPLETED 4,200 EUR, DDP
}

// An artifact that grows: its chunks have one id, and the last says so.
func ExampleTurn_Emit() {
	report := agent.Func(func(_ context.Context, t *agent.Turn) error {
		lines := []string{"one", "two", "three"}
		for i, line := range lines {
			err := t.Emit(agent.Step{Artifact: &agent.Artifact{
				ID: "report", Parts: []a2a.Part{a2a.Text(line)}, Append: i > 0, Last: i == len(lines)-1,
			}})
			if err != nil {
				return err
			}
		}
		return nil
	})
	fmt.Println(run(report, "report"))
	// Output: artifact one; artifact two; artifact three
}

// Errors of Errorf are for the client; others are for the operator's log.
func ExampleErrorf() {
	err := fmt.Errorf("book slot: %w", agent.Errorf("The warehouse is closed on 12 Sep."))
	text, ok := agent.Public(err)
	fmt.Println(text, ok)
	// Output: The warehouse is closed on 12 Sep. true
}

// run lets an agent run a turn for each message and says what it emitted. The
// engine does that, and keeps everything; here a recorder is enough.
func run(a agent.Agent, messages ...string) string {
	said := ""
	for i, text := range messages {
		r := &recorder{}
		info := agent.Info{TaskID: "t-1", Number: i + 1, Attempt: 1, Messages: []a2a.Message{{Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text(text)}}}}
		if err := a.Run(context.Background(), agent.NewTurn(context.Background(), info, r)); err != nil {
			panic(err)
		}
		for _, s := range r.steps {
			if said != "" {
				said += "; "
			}
			switch {
			case s.Ask != nil:
				said += "INPUT_REQUIRED " + s.Ask.Parts[0].Text
			case s.Complete != nil:
				said += "COMPLETED " + s.Complete.Parts[0].Text
			case s.Artifact != nil:
				said += "artifact " + s.Artifact.Parts[0].Text
			}
		}
	}
	return said
}

// recorder is a Runtime that remembers what an agent does.
type recorder struct {
	steps []agent.Step
	kept  map[string]a2a.JSON
}

func (r *recorder) Emit(_ context.Context, s agent.Step) error {
	r.steps = append(r.steps, s)
	return nil
}
func (r *recorder) Skip(agent.Step)             {}
func (r *recorder) Flush(context.Context) error { return nil }
func (r *recorder) Pending(context.Context) ([]a2a.Message, error) {
	return nil, nil
}
func (r *recorder) History(context.Context) ([]a2a.Message, error)    { return nil, nil }
func (r *recorder) Artifacts(context.Context) ([]a2a.Artifact, error) { return nil, nil }
func (r *recorder) Result(_ context.Context, key string) (a2a.JSON, error) {
	return r.kept[key], nil
}

func (r *recorder) SaveResult(_ context.Context, key string, value a2a.JSON) error {
	if r.kept == nil {
		r.kept = map[string]a2a.JSON{}
	}
	r.kept[key] = value
	return nil
}
