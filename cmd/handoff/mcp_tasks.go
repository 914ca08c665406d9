package main

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"handoff.example/handoff/internal/form"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcp/client"
)

func newMCPTasksCommand(a *app) *cobra.Command {
	cmd := newGroup("tasks", "Follow calls that have become tasks")
	cmd.Long = `Follow calls that have become tasks, by the handle that the call was answered with.
A handle is only known to the caller who has it: use the same HANDOFF_TOKEN.`
	cmd.AddCommand(newMCPTaskCommand(a, "get", "Show how a task is", showMCPTask), newMCPTaskCommand(a, "wait", "Wait for a task, and show its result", waitMCPTask), newMCPTaskCommand(a, "cancel", "Cancel a task", cancelMCPTask), newMCPAnswerCommand(a))
	return cmd
}

func newMCPTaskCommand(a *app, use, short string, run func(ctx context.Context, c *toolCall, handle string) error) *cobra.Command {
	var f mcpFlags
	cmd := adminCommand(a, use+" HANDLE", short, cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		return run(ctx, &toolCall{app: a, client: a.openMCP(node, &f)}, args[0])
	})
	f.register(cmd)
	return cmd
}

func (c *toolCall) task(ctx context.Context, handle string) (jsontext.Value, *mcpTask, error) {
	value, err := c.client.call(ctx, mcp.MethodGetTask, client.Params{"taskId": handle}, nil)
	if err != nil {
		return nil, nil, err
	}
	task, err := readMCPTask(value)
	return value, task, err
}

func showMCPTask(ctx context.Context, c *toolCall, handle string) error {
	value, task, err := c.task(ctx, handle)
	if err != nil {
		return err
	}
	if c.output != formatText {
		return c.writeDocument(c.output, value, false)
	}
	p := printer{w: c.stdout}
	p.field("Task", task.ID)
	p.field("Status", task.Status)
	p.field("Said", task.StatusMessage)
	p.field("Created", c.timeText(task.Created))
	p.field("Updated", c.timeText(task.Updated))
	for key, request := range task.Requests {
		var r struct {
			Params struct {
				Message string `json:"message"`
			} `json:"params"`
		}
		_ = json.Unmarshal(request, &r)
		p.field("Asks ("+key+")", r.Params.Message)
	}
	if task.Error != nil {
		p.field("Error", mcp.ParseError(task.Error).Message)
	}
	if p.err != nil || task.Result == nil {
		return p.err
	}
	p.blank()
	// A result that is an error is a result here: the command has shown what it was
	// asked for.
	if err := c.tell(task.Result); err != exitStatus(exitToolFailed) {
		return err
	}
	p.field("Outcome", "the tool says that the call has failed")
	return p.err
}

func waitMCPTask(ctx context.Context, c *toolCall, handle string) error {
	_, task, err := c.task(ctx, handle)
	if err != nil {
		return err
	}
	return c.wait(ctx, task)
}

func cancelMCPTask(ctx context.Context, c *toolCall, handle string) error {
	if _, err := c.client.call(ctx, mcp.MethodCancelTask, client.Params{"taskId": handle}, nil); err != nil {
		return err
	}
	return c.tellDone("Canceled", "canceled", handle)
}

func newMCPAnswerCommand(a *app) *cobra.Command {
	var f mcpFlags
	var data string
	cmd := adminCommand(a, "answer HANDLE", "Answer what a task asks", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		c := &toolCall{app: a, client: a.openMCP(node, &f)}
		_, task, err := c.task(ctx, args[0])
		if err != nil {
			return err
		}
		if len(task.Requests) == 0 {
			return failf(codeRefused, "the task asks nothing: it is %s", task.Status)
		}
		var answers map[string]jsontext.Value
		if data == "" {
			answers, err = c.answer(task.Requests)
		} else {
			answers, err = c.given(task.Requests, data)
		}
		if err != nil {
			return err
		}
		if _, err := c.client.call(ctx, mcp.MethodUpdateTask, client.Params{"taskId": task.ID, "inputResponses": answers}, nil); err != nil {
			return err
		}
		return a.tellDone("Answered", "answered", args[0])
	})
	cmd.Long = `Answer what a task asks: on the terminal, or with --data, which is the content of the
form when there is one question, and an object of contents by the keys of the
questions when there are several.`
	f.register(cmd)
	cmd.Flags().StringVar(&data, "data", "", "the answer as JSON: itself, a file of it, or - for standard input")
	return cmd
}

// given returns the answers that --data has.
func (c *toolCall) given(requests map[string]jsontext.Value, data string) (map[string]jsontext.Value, error) {
	value, err := c.readData(data, form.MaxAnswer)
	if err != nil {
		return nil, err
	}
	contents := map[string]jsontext.Value{}
	if len(requests) == 1 {
		for key := range requests {
			contents[key] = value
		}
	} else if json.Unmarshal(value, &contents) != nil {
		return nil, usagef("the task asks several things; --data is an object of answers by their keys")
	}
	answers := map[string]jsontext.Value{}
	for key, content := range contents {
		answers[key] = append(append(jsontext.Value(`{"action":"accept","content":`), content...), '}')
	}
	return answers, nil
}
