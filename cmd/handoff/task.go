package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newTaskCommand(a *app) *cobra.Command {
	cmd := newGroup("task", "Read, follow and cancel the tasks of an agent")
	cmd.AddCommand(
		newTaskGetCommand(a),
		newTaskListCommand(a),
		newTaskCancelCommand(a),
		newTaskSubscribeCommand(a),
		newTaskDownloadCommand(a),
		newTaskPushConfigCommand(a),
	)
	return cmd
}

// taskArguments are the arguments of a command about one task: the agent, if it
// is there, and then one for each of the names.
func taskArguments(args []string, f *clientFlags, names ...string) (agent string, values []string, err error) {
	switch len(args) - len(names) {
	case 0:
		values = args
	case 1:
		if byFlag(f.set.Lookup("agent-card")) {
			return "", nil, usagef("the agent is named twice, as %q and by -a", args[0])
		}
		agent, values = args[0], args[1:]
	default:
		text := ""
		for _, name := range names {
			text += " " + name
		}
		if len(args) < len(names) {
			return "", nil, usagef("%s is missing; the arguments are [AGENT]%s", names[len(args)], text)
		}
		return "", nil, usagef("there are too many arguments; they are [AGENT]%s", text)
	}
	for i, value := range values {
		if value == "" {
			return "", nil, usagef("%s is empty", names[i])
		}
	}
	return agent, values, nil
}

// openTask opens a session for a command about one task.
func (a *app) openTask(ctx context.Context, f *clientFlags, args []string) (s *session, taskID string, end func(), err error) {
	named, values, err := taskArguments(args, f, "TASK")
	if err != nil {
		return nil, "", nil, err
	}
	s, end, err = a.open(ctx, f, named)
	if e, ok := errors.AsType[*failure](err); ok && len(args) == 1 && e.Code == codeUsage && e.Hint != "" {
		e.Hint += fmt.Sprintf("; %q was taken as the task", args[0])
	}
	if s != nil && len(args) == 1 {
		s.taken = args[0]
	}
	return s, values[0], end, err
}
