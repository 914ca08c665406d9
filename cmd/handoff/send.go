package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// sendCommand is `send`.
type sendCommand struct {
	*app
	flags clientFlags
	parts partFlags

	contextID  string
	taskID     string
	messageID  string
	references []string
	skill      string
	metadata   string
	accept     []string
	history    int
	async      bool
	stream     bool
	exitState  bool
	delegation delegationFlags
}

func newSendCommand(a *app) *cobra.Command {
	c := &sendCommand{app: a}
	cmd := &cobra.Command{
		Use:   "send [AGENT] [TEXT...]",
		Short: "Send a message to an agent and wait for what becomes of it",
		Long: `Send a message to start or continue an interaction, and wait until the task is
over or waits for you.

AGENT is a URL or host, a card file, or the id of an agent of ./handoff.yaml or
of --node. A message to a peer of ./handoff.yaml goes through its node, which
keeps hold of the work: see handoff delegation. When -a names the agent, all arguments are the text; when the setting
A2ACLI_AGENT_CARD does, a single argument is. The text - reads standard input.`,
		Example: `  handoff send agents.example.com/agents/quote/ "Quote 40 pallets to Surabaya"
  handoff send quote --text "What is in it?" --file order.pdf
  handoff send -a quote --task-id 0199… "FOB, please"
  handoff send supplier --ref PO-2026-0184 "Quote 400 units of BRG-0042"`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeFirstAgent,
		RunE:              c.run,
	}
	c.flags.register(a, cmd)
	c.flags.registerPolling(cmd)
	fs := cmd.Flags()
	alias(fs, map[string]string{"return-immediately": "async", "no-wait": "async", "watch": "wait"})
	c.parts.register(fs)
	fs.StringVar(&c.contextID, "context-id", "", "start a new task in this context")
	fs.StringVar(&c.taskID, "task-id", "", "continue this task")
	fs.StringArrayVar(&c.references, "reference-task", nil, "refer to this earlier task; repeatable")
	fs.StringVar(&c.messageID, "message-id", "", "id of the message, to repeat one that may have been lost (default: a new id)")
	fs.StringVar(&c.skill, "skill", "", "id of the skill that is asked for")
	fs.StringVar(&c.metadata, "metadata", "", "metadata of the message, a JSON object")
	fs.StringSliceVar(&c.accept, "accept", nil, "media type that is taken as an answer; repeatable")
	fs.IntVar(&c.history, "history", 0, "messages of the history to return at most")
	fs.BoolVar(&c.async, "async", false, "return as soon as the task exists (also --return-immediately, --no-wait)")
	fs.Bool("wait", true, "wait until the task is over or waits for you")
	fs.BoolVar(&c.stream, "stream", false, "follow the task's events as they happen")
	fs.BoolVar(&c.exitState, "exit-state", false, "exit with 10 when the task failed, was rejected or canceled, and with 11 when it waits")
	c.delegation.register(fs)
	settable(fs, "context-id", "task-id", "skill", "metadata", "accept", "history", "async", "wait")
	return cmd
}

func (c *sendCommand) run(cmd *cobra.Command, args []string) error {
	if c.stream && c.async {
		if byFlag(cmd.Flags().Lookup("async")) {
			return usagef("--stream and --async exclude each other")
		}
		c.async = false
	}
	if wait := cmd.Flags().Lookup("wait"); wait.Changed && wait.Value.String() == "false" {
		c.async = true
	}
	named, text := c.arguments(args)
	if text != "" {
		c.parts.list = append([]partFlag{{kind: "text", value: text}}, c.parts.list...)
	}
	if len(c.parts.list) == 0 {
		if named != "" {
			return usagef("there is nothing to send").hint("%q was taken as the agent; add the text behind it, or name the agent with -a and the text as the argument or with --text: handoff send -a AGENT %s", named, quoteShell(named))
		}
		return usagef("there is nothing to send").hint("Add the text as an argument, or --text, --file or --data; see: handoff send --help")
	}
	req, err := c.request(cmd)
	if err != nil {
		return err
	}
	node, peer, err := c.ledgerNode(cmd.Context(), named)
	if err != nil {
		return err
	}
	if node != nil {
		defer node.close()
		return c.tellProblems(c.delegate(cmd.Context(), node, peer, req))
	}
	s, end, err := c.open(cmd.Context(), &c.flags, named)
	if err != nil {
		return err
	}
	defer end()
	if c.flags.verbose && c.output == formatText {
		v := c.newView(true)
		v.message("Sent", req.Message)
	}
	if c.stream {
		return c.sendStream(s, req)
	}
	return c.send(s, req)
}

// arguments tells the agent from the text.
func (c *sendCommand) arguments(args []string) (agent, text string) {
	flag := c.flags.set.Lookup("agent-card")
	switch {
	case byFlag(flag), c.flags.agentCard != "" && len(args) == 1:
		return "", strings.Join(args, " ")
	case len(args) == 0:
		return "", ""
	}
	return args[0], strings.Join(args[1:], " ")
}

// request builds what is sent.
func (c *sendCommand) request(cmd *cobra.Command) (*a2a.SendMessageRequest, error) {
	parts, err := c.parts.build(c.stdin)
	if err != nil {
		return nil, err
	}
	m := client.NewMessage(parts...)
	if c.messageID != "" {
		m.MessageID = c.messageID
	}
	m.ContextID, m.TaskID, m.ReferenceTaskIDs = c.contextID, c.taskID, c.references
	var metadata a2a.JSON
	if c.metadata != "" {
		metadata = a2a.JSON(strings.TrimSpace(c.metadata))
	}
	if m.Metadata, err = withSkill(metadata, c.skill); err != nil {
		return nil, err
	}
	configuration := &a2a.SendMessageConfiguration{AcceptedOutputModes: c.accept, ReturnImmediately: c.async}
	if cmd.Flags().Changed("history") {
		if c.history < 0 {
			return nil, usagef("--history %d is negative", c.history)
		}
		configuration.HistoryLength = &c.history
	}
	return &a2a.SendMessageRequest{Message: m, Configuration: configuration}, nil
}

// send sends the message and waits, unless the answer is all that is wanted.
func (c *sendCommand) send(s *session, req *a2a.SendMessageRequest) error {
	answer, err := s.client.SendMessage(s.ctx, req)
	if err != nil {
		answer, err = c.recover(s, req, err)
	}
	if err != nil {
		return err
	}
	if t := answer.Task; t != nil && !c.async && !t.Status.State.Terminal() && !t.Status.State.Interrupted() {
		if t, err = s.wait(t.ID, false, req.Configuration.HistoryLength); err != nil {
			return err
		}
		answer = &a2a.SendMessageResponse{Task: t}
	}
	return c.show(s, answer)
}

func (c *sendCommand) show(s *session, answer *a2a.SendMessageResponse) error {
	if t := answer.Task; t != nil {
		if err := s.showTask(t, answer, false); err != nil {
			return err
		}
		if c.async && !t.Status.State.Terminal() && !t.Status.State.Interrupted() && c.output == formatText {
			p := &printer{w: c.stdout}
			p.field("Follow", s.target.nextCommand(s.flags, "task", "get", quoteShell(t.ID), "--wait"))
		}
		return s.outcome(t, c.exitState)
	}
	if c.output != formatText {
		return s.writeObject(answer, false)
	}
	v := s.newView()
	v.reply(answer.Message)
	return v.err
}

// sendStream sends the message and shows the events of what becomes of it.
func (c *sendCommand) sendStream(s *session, req *a2a.SendMessageRequest) error {
	if !s.client.Streams() {
		s.warn("the agent does not stream; waiting for its answer instead")
	}
	out := s.newSink()
	stream, err := s.client.SendStreamingMessage(s.ctx, req)
	if err != nil {
		answer, err := c.recover(s, req, err)
		if err != nil {
			return err
		}
		seen := new(client.Accumulator)
		if err := s.pollOn(answer.Task.ID, seen, out); err != nil {
			return s.stopped(err, answer.Task.ID)
		}
		return s.outcome(seen.Task, c.exitState)
	}
	seen, err := s.follow(stream, out, true)
	if err != nil {
		id := ""
		if seen.Task != nil {
			id = seen.Task.ID
		}
		return s.stopped(err, id)
	}
	if seen.Task == nil {
		return nil
	}
	return s.outcome(seen.Task, c.exitState)
}

// recover looks for the task of a message whose answer was lost: the connection
// broke, or somebody did not want to wait any longer. It never sends again.
// While there is time it returns the task to wait for; after that the error
// says how to follow it.
func (c *sendCommand) recover(s *session, req *a2a.SendMessageRequest, lost error) (*a2a.SendMessageResponse, error) {
	e, ok := errors.AsType[*client.TransportError](lost)
	if !ok || !e.Sent || e.Kind == client.KindRefused || e.Kind == client.KindProtocol && !gatewayFailed(e) {
		return nil, c.sendFailure(s, lost)
	}
	over := s.ctx.Err() != nil
	ctx := s.ctx
	if over {
		var cancel context.CancelFunc
		ctx, cancel = s.afterwards()
		defer cancel()
	}
	task := c.find(ctx, s, req.Message)
	switch {
	case task == nil:
		f, ok := errors.AsType[*failure](s.failure(lost))
		if !ok {
			return nil, lost
		}
		return nil, f.hint("It is not known whether the agent got the message; repeat the command with --message-id %s, and an agent that knows repeated messages does the work once", req.Message.MessageID)
	case over:
		return nil, s.stopped(lost, task.ID)
	}
	s.warn("the connection was lost; waiting for task %s", task.ID)
	task, err := s.client.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID, HistoryLength: req.Configuration.HistoryLength})
	if err != nil {
		return nil, s.failure(err)
	}
	return &a2a.SendMessageResponse{Task: task}, nil
}

// find returns the task that has the message, or nil when nobody tells.
func (c *sendCommand) find(ctx context.Context, s *session, m *a2a.Message) *a2a.Task {
	length := 20
	holds := func(t *a2a.Task) bool {
		return slices.ContainsFunc(t.History, func(h a2a.Message) bool { return h.MessageID == m.MessageID })
	}
	if m.TaskID != "" {
		t, err := s.client.GetTask(ctx, &a2a.GetTaskRequest{ID: m.TaskID, HistoryLength: &length})
		// Without the message in it, a task that waits still waits for it.
		if err != nil || !holds(t) && (t.Status.State.Interrupted() || t.Status.State.Terminal()) {
			return nil
		}
		return t
	}
	page, err := s.client.ListTasks(ctx, &a2a.ListTasksRequest{ContextID: m.ContextID, HistoryLength: &length, PageSize: &length})
	if err != nil {
		return nil
	}
	for i := range page.Tasks {
		if holds(&page.Tasks[i]) {
			return &page.Tasks[i]
		}
	}
	return nil
}

// sendFailure points at --debug where the agent has refused an id (a2a-cli
// §8.1), and says what to send instead.
func (c *sendCommand) sendFailure(s *session, err error) error {
	err = s.failure(err)
	f, ok := errors.AsType[*failure](err)
	if !ok || f.A2ACode == 0 || c.taskID == "" || f.Exit != exitFailure {
		return err
	}
	const begin, debug = "No task was started. ", "; to see the agent's error, add --debug"
	if f.Code == a2a.CodeTaskNotFound.String() {
		return f.hint(begin+"See your tasks with: %s; leave --task-id out to start a new one%s",
			s.target.nextCommand(s.flags, "task", "list"), debug)
	}
	ctx, cancel := s.afterwards()
	defer cancel()
	none := 0
	if t, err := s.client.GetTask(ctx, &a2a.GetTaskRequest{ID: c.taskID, HistoryLength: &none}); err == nil && t.Status.State.Terminal() {
		return f.hint(begin+"Task %s is %s and takes no more messages; go on with a new one: %s%s", c.taskID, stateText(t.Status.State),
			s.target.nextCommand(s.flags, "send", "--context-id", quoteShell(t.ContextID), "--reference-task", quoteShell(t.ID))+` "<text>"`, debug)
	}
	return f.hint(begin+"See the task with: %s%s", s.target.nextCommand(s.flags, "task", "get", quoteShell(c.taskID)), debug)
}
