package agent_test

import (
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

func TestOutcomeText(t *testing.T) {
	t.Parallel()
	said := a2a.TaskStatus{State: a2a.StateCompleted, Message: &a2a.Message{Parts: []a2a.Part{a2a.Text("done")}}}
	artifacts := []a2a.Artifact{
		{Parts: []a2a.Part{a2a.Text("one"), a2a.Data(a2a.JSON(`2`))}},
		{Parts: []a2a.Part{a2a.Text("three")}},
	}
	for want, o := range map[string]agent.Outcome{
		"":           {},
		"done":       {Task: &a2a.Task{Status: said}},
		"one\nthree": {Task: &a2a.Task{Status: said, Artifacts: artifacts}, State: a2a.StateCompleted},
	} {
		if got := o.Text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	o := agent.Outcome{Task: &a2a.Task{Artifacts: artifacts}, State: a2a.StateCompleted}
	if !o.Completed() || len(o.Parts()) != 3 {
		t.Errorf("got %+v", o.Parts())
	}
}
