package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
)

func newTaskCancelCommand(a *app) *cobra.Command {
	var flags clientFlags
	var stream bool
	var metadata string
	cmd := &cobra.Command{
		Use:     "cancel [AGENT] TASK",
		Short:   "Cancel a task",
		Example: "  handoff task cancel quote 0199…",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			req := new(a2a.CancelTaskRequest)
			if metadata != "" {
				var err error
				if req.Metadata, err = withSkill(a2a.JSON(strings.TrimSpace(metadata)), ""); err != nil {
					return err
				}
			}
			s, id, end, err := a.openTask(cmd.Context(), &flags, args)
			if err != nil {
				return err
			}
			defer end()
			req.ID = id
			task, err := s.client.CancelTask(s.ctx, req)
			if err != nil {
				err = s.failure(err)
				if f, ok := errors.AsType[*failure](err); ok && f.Code == a2a.CodeTaskNotCancelable.String() {
					f.Hint = "The task is over; see it with: " + s.target.nextCommand(&flags, "task", "get", quoteShell(id))
				}
				return err
			}
			if state := task.Status.State; state != a2a.StateCanceled {
				s.warn("the task is not canceled yet: it is %s", stateText(state))
			}
			return s.showTask(task, task, stream)
		},
	}
	flags.register(a, cmd)
	cmd.Flags().StringVar(&metadata, "metadata", "", "metadata of the request, a JSON object")
	addStreamFlag(cmd, &stream)
	settable(cmd.Flags(), "metadata")
	return cmd
}
