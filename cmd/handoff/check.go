package main

import (
	"errors"

	"github.com/spf13/cobra"

	"handoff.example/handoff"
	"handoff.example/handoff/config"
)

func newCheckCommand(a *app) *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use: "check [FILE]", Short: "Check a configuration",
		Long: `Check a configuration: its keys and values, the agent cards that come of it, and
what runs the agents. Every problem is told with its line. Nothing is started.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.file = args[0]
			}
			return a.check(&f)
		},
	}
	f.registerFile(cmd)
	f.registerOverrides(cmd)
	return cmd
}

// checked is what check finds, for programs.
type checked struct {
	File     string           `json:"file"`
	OK       bool             `json:"ok"`
	Agents   []string         `json:"agents"`
	Problems []checkedProblem `json:"problems"`
	Warnings []checkedProblem `json:"warnings"`
}

type checkedProblem struct {
	Line    int    `json:"line,omitzero"`
	Column  int    `json:"column,omitzero"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func checkedProblems(list []config.Problem) []checkedProblem {
	problems := make([]checkedProblem, len(list))
	for i, p := range list {
		problems[i] = checkedProblem{Line: p.Line, Column: p.Column, Path: p.Path, Message: p.Message, Hint: p.Hint}
	}
	return problems
}

func (a *app) check(f *nodeFlags) error {
	c, err := f.load()
	var warnings []config.Problem
	if err == nil {
		if warnings, err = handoff.Check(c); err != nil {
			err = configFailure(err)
		}
	}
	wrong, several := errors.AsType[*config.Error](err)
	if err != nil && !several {
		return err
	}
	if a.output != formatText {
		answer := checked{File: f.path(), OK: err == nil, Agents: []string{}, Problems: []checkedProblem{}, Warnings: checkedProblems(warnings)}
		if c != nil {
			answer.Agents = c.AgentIDs()
		}
		if several {
			answer.Problems = checkedProblems(wrong.Problems)
		}
		if werr := a.writeValue(answer); werr != nil || err == nil {
			return werr
		}
		return exitStatus(exitFailure)
	}
	p := printer{w: a.stdout}
	for _, line := range warningsOf(c, warnings) {
		p.write(line + "\n")
	}
	if err != nil {
		return errors.Join(p.err, a.tellProblems(err))
	}
	p.write(oneLine(f.path()) + ": ok, " + plural(len(c.Agents), "agent") + "\n")
	return p.err
}
