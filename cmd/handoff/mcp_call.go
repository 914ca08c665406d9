package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"handoff.example/handoff/internal/form"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcp/client"
)

const maxArguments = 4 << 20 // bytes

func newMCPCallCommand(a *app) *cobra.Command {
	var f mcpFlags
	var data, key string
	var detach bool
	cmd := adminCommand(a, "call TOOL [NAME=VALUE …]", "Call a tool", cobra.MinimumNArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		c := &toolCall{app: a, client: a.openMCP(node, &f), tool: args[0], detach: detach}
		arguments, err := c.arguments(ctx, data, args[1:])
		if err != nil {
			return err
		}
		params := client.Params{"name": c.tool, "arguments": arguments}
		if key != "" {
			params["_meta"] = map[string]any{mcp.MetaKey: key}
		}
		return c.run(ctx, params)
	})
	cmd.Long = `Call a tool of a node. What it is given is NAME=VALUE, where the values are read as
the tool's schema has them, or JSON with --data. Questions of the tool are asked on
the terminal. A call that becomes a task is waited for; with --detach its handle is
printed, for handoff mcp tasks.

The exit code is 10 when the tool says that it has failed.`
	cmd.Example = `  handoff mcp call stock article=BRG-0042
  handoff mcp call draft_order --data order.json --key PO-4711
  handoff mcp call rebuild_stock_valuation --detach`
	f.register(cmd)
	cmd.Flags().StringVar(&data, "data", "", "the arguments as JSON: themselves, a file of them, or - for standard input")
	cmd.Flags().StringVar(&key, "key", "", "an idempotency key: the call is made once, however often it is asked for")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait for a call that becomes a task")
	return cmd
}

func newMCPReadCommand(a *app) *cobra.Command {
	var f mcpFlags
	cmd := adminCommand(a, "read URI", "Read a resource", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		c := &toolCall{app: a, client: a.openMCP(node, &f), method: mcp.MethodReadResource}
		return c.run(ctx, client.Params{"uri": args[0]})
	})
	f.register(cmd)
	return cmd
}

func newMCPPromptCommand(a *app) *cobra.Command {
	var f mcpFlags
	cmd := adminCommand(a, "prompt NAME [ARGUMENT=VALUE …]", "Get a prompt", cobra.MinimumNArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		c := &toolCall{app: a, client: a.openMCP(node, &f), method: mcp.MethodGetPrompt}
		arguments := map[string]string{}
		for _, arg := range args[1:] {
			name, value, ok := strings.Cut(arg, "=")
			if !ok {
				return usagef("%q is not ARGUMENT=VALUE", arg)
			}
			arguments[name] = value
		}
		return c.run(ctx, client.Params{"name": args[0], "arguments": arguments})
	})
	f.register(cmd)
	return cmd
}

// toolCall is one call at work.
type toolCall struct {
	*app
	client *mcpClient
	method string // "": tools/call
	tool   string
	detach bool
}

// arguments returns what the tool is given.
func (c *toolCall) arguments(ctx context.Context, data string, pairs []string) (jsontext.Value, error) {
	if data != "" {
		if len(pairs) > 0 {
			return nil, usagef("the arguments are given twice, with --data and as NAME=VALUE")
		}
		return c.readData(data, maxArguments)
	}
	if len(pairs) == 0 {
		return jsontext.Value("{}"), nil
	}
	types, err := c.types(ctx)
	if err != nil {
		return nil, err
	}
	values := map[string]jsontext.Value{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usagef("%q is not NAME=VALUE", pair).hint("Give JSON with --data")
		}
		if _, twice := values[name]; twice {
			return nil, usagef("the argument %q is given twice", name)
		}
		value := jsontext.Value(text)
		if types[name] == "string" || !value.IsValid() {
			if value, err = json.Marshal(text); err != nil {
				return nil, usagef("the argument %q is not UTF-8", name)
			}
		}
		values[name] = value
	}
	return json.Marshal(values, json.Deterministic(true))
}

// types returns the types of the arguments of the tool, as far as they are single
// ones.
func (c *toolCall) types(ctx context.Context) (map[string]string, error) {
	tools, err := c.client.pages(ctx, mcp.MethodListTools, "tools")
	if err != nil {
		return nil, err
	}
	types := map[string]string{}
	for _, item := range tools {
		var t struct {
			Name   string `json:"name"`
			Schema struct {
				Properties map[string]struct {
					Type jsontext.Value `json:"type"`
				} `json:"properties"`
			} `json:"inputSchema"`
		}
		if json.Unmarshal(item, &t) != nil || t.Name != c.tool {
			continue
		}
		for name, p := range t.Schema.Properties {
			var one string
			if json.Unmarshal(p.Type, &one) == nil {
				types[name] = one
			}
		}
	}
	return types, nil
}

// run makes the call, answers what is asked, waits for what becomes a task, and
// tells the result.
func (c *toolCall) run(ctx context.Context, params client.Params) error {
	method := c.method
	if method == "" {
		method = mcp.MethodCallTool
	}
	for {
		result, err := c.client.call(ctx, method, params, c.progress)
		if err != nil {
			return err
		}
		var r struct {
			Type     string                    `json:"resultType"`
			Requests map[string]jsontext.Value `json:"inputRequests"`
			State    jsontext.Value            `json:"requestState"`
		}
		if err := json.Unmarshal(result, &r); err != nil {
			return failf(codeInternal, "the result of the node is not understood: %w", err)
		}
		switch r.Type {
		case mcp.ResultTask:
			return c.follow(ctx, result)
		case mcp.ResultInputRequired:
			answers, err := c.answer(r.Requests)
			if err != nil {
				return err
			}
			params["inputResponses"] = answers
			delete(params, "requestState")
			if r.State != nil {
				params["requestState"] = r.State
			}
		default:
			return c.tell(result)
		}
	}
}

// progress tells a person how far the tool is.
func (c *toolCall) progress(method string, params jsontext.Value) {
	if method != mcp.NotifyProgress || !c.isTerminal {
		return
	}
	var p struct {
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	line := oneLine(p.Message)
	if p.Total > 0 {
		line = strings.TrimSpace(fmt.Sprintf("%3.0f%% %s", 100*p.Progress/p.Total, line))
	}
	if line != "" {
		fmt.Fprintln(c.stderr, line)
	}
}

// answer asks the person what the tool asks (ELI-01, ELI-04).
func (c *toolCall) answer(requests map[string]jsontext.Value) (map[string]jsontext.Value, error) {
	if !c.asksPeople() {
		return nil, failf(codeRefused, "the tool asks something, and nobody is here to answer").hint("Run the command on a terminal; a question of an agent waits in the inbox too: handoff inbox list")
	}
	answers := map[string]jsontext.Value{}
	q := &questioner{in: bufio.NewReader(c.stdin), out: &printer{w: c.stderr}}
	for key, request := range requests {
		var r struct {
			Method string `json:"method"`
			Params struct {
				Mode    string         `json:"mode"`
				Message string         `json:"message"`
				URL     string         `json:"url"`
				Schema  jsontext.Value `json:"requestedSchema"`
			} `json:"params"`
		}
		if json.Unmarshal(request, &r) != nil || r.Method != mcp.MethodElicit {
			return nil, failf(codeRefused, "the tool asks for something that the command line cannot give: %s", oneLine(r.Method))
		}
		q.out.field("Question", r.Params.Message)
		if r.Params.Mode == "url" {
			q.out.field("Open", r.Params.URL)
			if _, err := q.ask("Press Enter when it is done"); err != nil {
				return nil, err
			}
			answers[key] = jsontext.Value(`{"action":"accept"}`)
			continue
		}
		questions, err := form.New(r.Params.Schema)
		if err != nil {
			return nil, failf(codeRefused, "the form of the question cannot be used: %w", err)
		}
		content, err := q.fill(questions)
		if err != nil {
			return nil, err
		}
		answers[key] = append(append(jsontext.Value(`{"action":"accept","content":`), content...), '}')
	}
	return answers, nil
}

// follow waits for a call that has become a task.
func (c *toolCall) follow(ctx context.Context, handle jsontext.Value) error {
	task, err := readMCPTask(handle)
	if err != nil {
		return err
	}
	if c.detach {
		if c.output != formatText {
			return c.writeDocument(c.output, handle, false)
		}
		p := printer{w: c.stdout}
		p.field("Task", task.ID)
		p.field("Status", task.Status)
		return p.err
	}
	if c.isTerminal {
		c.note("The call has become the task %s", task.ID)
	}
	return c.wait(ctx, task)
}

// mcpTask is a task of a client.
type mcpTask struct {
	ID            string                    `json:"taskId"`
	Status        string                    `json:"status"`
	StatusMessage string                    `json:"statusMessage"`
	Created       time.Time                 `json:"createdAt"`
	Updated       time.Time                 `json:"lastUpdatedAt"`
	Poll          int64                     `json:"pollIntervalMs"`
	Requests      map[string]jsontext.Value `json:"inputRequests"`
	Result        jsontext.Value            `json:"result"`
	Error         jsontext.Value            `json:"error"`
}

// question is what the task asks, for people.
func (t *mcpTask) question() string {
	for _, request := range t.Requests {
		var r struct {
			Params struct {
				Message string `json:"message"`
			} `json:"params"`
		}
		if json.Unmarshal(request, &r) == nil && r.Params.Message != "" {
			return r.Params.Message
		}
	}
	return "for input"
}

func readMCPTask(value jsontext.Value) (*mcpTask, error) {
	var t mcpTask
	if err := json.Unmarshal(value, &t); err != nil || t.ID == "" {
		return nil, failf(codeInternal, "the task of the node is not understood: %w", err)
	}
	return &t, nil
}

// wait asks how a task is until it is over, and answers what it asks.
func (c *toolCall) wait(ctx context.Context, t *mcpTask) error {
	said := ""
	for {
		if t.StatusMessage != said && c.isTerminal {
			said = t.StatusMessage
			fmt.Fprintln(c.stderr, oneLine(said))
		}
		switch t.Status {
		case mcp.TaskCompleted:
			return c.tell(t.Result)
		case mcp.TaskFailed:
			return mcpFailure(mcp.ParseError(t.Error), mcp.MethodCallTool)
		case mcp.TaskCancelled:
			return failf(codeRefused, "the task was canceled")
		case mcp.TaskInputRequired:
			if !c.asksPeople() {
				return failf(codeRefused, "the tool asks: %s", oneLine(t.question())).hint("Answer with: handoff mcp tasks answer %s --data JSON, and then: handoff mcp tasks wait %s", t.ID, t.ID)
			}
			answers, err := c.answer(t.Requests)
			if err != nil {
				return err
			}
			if _, err := c.client.call(ctx, mcp.MethodUpdateTask, client.Params{"taskId": t.ID, "inputResponses": answers}, nil); err != nil {
				return err
			}
		}
		poll := time.Duration(t.Poll) * time.Millisecond
		select {
		case <-time.After(min(max(poll, 100*time.Millisecond), time.Minute)):
		case <-ctx.Done():
			return failf(codeInterrupted, "interrupted").hint("The call goes on as the task %s; follow it with: handoff mcp tasks wait %s", t.ID, t.ID)
		}
		value, err := c.client.call(ctx, mcp.MethodGetTask, client.Params{"taskId": t.ID}, nil)
		if err != nil {
			return err
		}
		if t, err = readMCPTask(value); err != nil {
			return err
		}
	}
}

// exitToolFailed is the exit code of a call whose tool says that it has failed, as
// that of a task that has (--exit-state).
const exitToolFailed = 10

// tell shows a result.
func (c *toolCall) tell(result jsontext.Value) error {
	var r struct {
		Content    []mcpContent   `json:"content"`
		Contents   []mcpContent   `json:"contents"`
		Structured jsontext.Value `json:"structuredContent"`
		IsError    bool           `json:"isError"`
		Messages   []struct {
			Role    string     `json:"role"`
			Content mcpContent `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return failf(codeInternal, "the result of the tool is not understood: %w", err)
	}
	err := func() error {
		if c.output != formatText {
			return c.writeDocument(c.output, result, false)
		}
		p := printer{w: c.stdout}
		for i := range r.Content {
			r.Content[i].tell(&p)
		}
		for i := range r.Contents {
			r.Contents[i].tell(&p)
		}
		for i := range r.Messages {
			p.write(oneLine(r.Messages[i].Role) + ":\n")
			r.Messages[i].Content.tell(&p)
		}
		if len(r.Content) == 0 && r.Structured != nil {
			return c.writeDocument(formatJSON, r.Structured, false)
		}
		return p.err
	}()
	if err == nil && r.IsError {
		err = exitStatus(exitToolFailed)
	}
	return err
}

// mcpContent is a block of content, or the content of a resource.
type mcpContent struct {
	Type     string      `json:"type"`
	Text     *string     `json:"text"`
	Data     string      `json:"data"`
	Blob     string      `json:"blob"`
	MIME     string      `json:"mimeType"`
	URI      string      `json:"uri"`
	Name     string      `json:"name"`
	Resource *mcpContent `json:"resource"`
}

func (b *mcpContent) tell(p *printer) {
	switch {
	case b.Resource != nil:
		b.Resource.tell(p)
	case b.Text != nil:
		text := visibleLines(*b.Text)
		p.write(strings.TrimRight(text, "\n") + "\n")
	case b.Data+b.Blob != "":
		size := base64.StdEncoding.DecodedLen(len(b.Data) + len(b.Blob))
		p.write(fmt.Sprintf("[%s, about %d bytes; see them with -o json]\n", oneLine(b.MIME), size))
	case b.URI != "":
		p.write(strings.TrimSpace(oneLine(b.Name)+" "+oneLine(b.URI)) + "\n")
	}
}
