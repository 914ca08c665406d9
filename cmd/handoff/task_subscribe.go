package main

import (
	"errors"

	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
)

func newTaskSubscribeCommand(a *app) *cobra.Command {
	var flags clientFlags
	var stream, exitState bool
	var lastEvent string
	cmd := &cobra.Command{
		Use:   "subscribe [AGENT] TASK",
		Short: "Follow the events of a task until it is over or waits for you",
		Long: `Follow the events of a task until it is over or waits for you.

With --stream every event is shown as it happens; without it, the task at the
end. While the task waits for an authorization, which comes from somebody else,
the command waits too, unless --exit-state is given.`,
		Example: "  handoff task subscribe quote 0199… --stream",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, id, end, err := a.openTask(cmd.Context(), &flags, args)
			if err != nil {
				return err
			}
			defer end()
			events, err := s.client.SubscribeAfter(s.ctx, &a2a.SubscribeToTaskRequest{ID: id}, lastEvent)
			if err != nil {
				err = s.failure(err)
				if f, ok := errors.AsType[*failure](err); ok && f.Code == a2a.CodeUnsupportedOperation.String() {
					f.Hint = "A task that is over has no events, and some agents do not stream; use: " +
						s.target.nextCommand(&flags, "task", "get", quoteShell(id), "--wait")
				}
				return err
			}
			out := sink(silentSink{})
			if stream {
				out = s.newSink()
			}
			seen, err := s.follow(events, out, exitState)
			if err != nil {
				return s.stopped(err, id)
			}
			task := seen.Task
			if task == nil {
				return failf(codeInternal, "the agent told nothing of task %s", id)
			}
			if !stream {
				if err := s.showTask(task, task, false); err != nil {
					return err
				}
			}
			return s.outcome(task, exitState)
		},
	}
	flags.register(a, cmd)
	flags.registerPolling(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&stream, "stream", false, "show the events as they happen")
	fs.StringVar(&lastEvent, "last-event-id", "", "go on after this event, where the agent can do that")
	fs.BoolVar(&exitState, "exit-state", false, "exit with 10 when the task failed, was rejected or canceled, and with 11 when it waits")
	return cmd
}
