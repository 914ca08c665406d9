package main

import (
	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
)

func newTaskGetCommand(a *app) *cobra.Command {
	var flags clientFlags
	var wait, stream, exitState bool
	var history int
	cmd := &cobra.Command{
		Use:     "get [AGENT] TASK",
		Short:   "Show a task, or wait for it",
		Example: "  handoff task get quote 0199… --wait",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			length, err := historyLength(cmd, history)
			if err != nil {
				return err
			}
			s, id, end, err := a.openTask(cmd.Context(), &flags, args)
			if err != nil {
				return err
			}
			defer end()
			var task *a2a.Task
			if wait {
				task, err = s.wait(id, true, length)
			} else {
				task, err = s.client.GetTask(s.ctx, &a2a.GetTaskRequest{ID: id, HistoryLength: length})
			}
			if err != nil {
				return s.failure(err)
			}
			if err := s.showTask(task, task, stream); err != nil {
				return err
			}
			return s.outcome(task, exitState)
		},
	}
	flags.register(a, cmd)
	flags.registerPolling(cmd)
	fs := cmd.Flags()
	alias(fs, map[string]string{"watch": "wait"})
	fs.BoolVar(&wait, "wait", false, "poll until the task is over or waits for you (also --watch)")
	fs.IntVar(&history, "history", 0, "messages of the history to return at most")
	fs.BoolVar(&exitState, "exit-state", false, "exit with 10 when the task failed, was rejected or canceled, and with 11 when it waits")
	addStreamFlag(cmd, &stream)
	settable(fs, "wait", "history")
	return cmd
}

// addStreamFlag adds --stream to a command whose result is one object: it is
// written on one line then (a2a-cli Appendix B).
func addStreamFlag(cmd *cobra.Command, stream *bool) {
	cmd.Flags().BoolVar(stream, "stream", false, "with -o json, write each object on one line")
}

// historyLength returns --history, or nil when it is not set.
func historyLength(cmd *cobra.Command, n int) (*int, error) {
	switch {
	case !cmd.Flags().Changed("history"):
		return nil, nil
	case n < 0:
		return nil, usagef("--history %d is negative", n)
	}
	return &n, nil
}
