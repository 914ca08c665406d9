package bridge

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/form"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// ServerOptions is what a Server works with.
type ServerOptions struct {
	Calls *Calls
	// Agents returns the agents and peers whose skills are tools for a caller, with
	// the skills that he may use.
	Agents func(p *auth.Principal) []*Exposed
	// Wait is how long a call may block before it is answered with a handle. Nil:
	// 50 s (row 127).
	Wait func() time.Duration
	// Quick is how long a client that knows tasks waits for a result before it
	// gets a task; 0: 300 ms.
	Quick time.Duration
	// Progress is how often progress is told at least; 0: 10 s.
	Progress time.Duration
	// ListTTL is how long a list of tools is good. Nil: a minute.
	ListTTL func() time.Duration
	// Changed returns a channel that is closed when the agents change. Nil: they
	// do not.
	Changed func() <-chan struct{}
	// Version is that of the program.
	Version string
	Logger  *slog.Logger // nil: slog.Default()
}

// Server is the MCP server, in this process, whose tools are agents and peers. Its
// answers depend on who asks. It is safe for concurrent use.
type Server struct {
	opts  ServerOptions
	calls *Calls
	log   *slog.Logger
}

var _ upstream.Server = (*Server)(nil)

// NewServer returns the server, and lets Calls know it.
func NewServer(opts ServerOptions) *Server {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Quick == 0 {
		opts.Quick = 300 * time.Millisecond
	}
	if opts.Progress == 0 {
		opts.Progress = 10 * time.Second
	}
	s := &Server{opts: opts, calls: opts.Calls, log: opts.Logger}
	opts.Calls.agents = s
	return s
}

func (s *Server) wait() time.Duration {
	if s.opts.Wait == nil {
		return 50 * time.Second
	}
	return s.opts.Wait()
}

// Name returns the name of the server.
func (s *Server) Name() string { return ServerName }

// Do answers a request.
func (s *Server) Do(ctx context.Context, r *upstream.Request) (upstream.Answer, error) {
	p := r.Caller
	if p == nil && r.Message.Method != mcp.MethodListen && r.Message.Method != mcp.MethodDiscover {
		return nil, mcp.Errorf(mcp.CodeDenied, "Agents are asked on behalf of somebody")
	}
	switch m := r.Message; m.Method {
	case mcp.MethodDiscover:
		return result(m, s.discover()), nil
	case mcp.MethodListTools:
		return result(m, s.list(p)), nil
	case mcp.MethodCallTool:
		return s.call(ctx, p, r)
	case mcp.MethodListen:
		return s.listen(ctx, m), nil
	case mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		return s.aboutTask(ctx, p, m)
	default:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "The method %s is not there", short(m.Method, 64))
	}
}

func (s *Server) discover() jsontext.Value {
	return object(append([]member{
		{"resultType", quoted(mcp.ResultComplete)},
		{"supportedVersions", jsontext.Value(`["` + mcp.Modern + `"]`)},
		{"capabilities", jsontext.Value(`{"tools":{"listChanged":true},"extensions":{"` + mcp.ExtensionTasks + `":{}}}`)},
		{"instructions", quoted("Tools are agents. Work that takes long is a task: check_task says how it is.")},
		{"_meta", object([]member{{mcp.MetaServer, object([]member{{"name", quoted("handoff-agents")}, {"version", quoted(s.version())}})}})},
	}, s.cache()...))
}

func (s *Server) version() string {
	if s.opts.Version == "" {
		return "0"
	}
	return s.opts.Version
}

// cache says how long a list may be kept, and by whom: it is the caller's own.
func (s *Server) cache() []member {
	ttl := time.Minute
	if s.opts.ListTTL != nil {
		ttl = s.opts.ListTTL()
	}
	return []member{{"ttlMs", jsontext.Value(strconv.FormatInt(ttl.Milliseconds(), 10))}, {"cacheScope", quoted("private")}}
}

func (s *Server) list(p *auth.Principal) jsontext.Value {
	tools := s.tools(p)
	defined := make([]jsontext.Value, len(tools))
	for i := range tools {
		defined[i] = tools[i].json
	}
	return object(append([]member{{"resultType", quoted(mcp.ResultComplete)}, {"tools", array(defined)}}, s.cache()...))
}

// aboutTask answers the methods of the tasks extension, for gateways that hand
// them on.
func (s *Server) aboutTask(ctx context.Context, p *auth.Principal, m *mcp.Message) (upstream.Answer, error) {
	var err error
	switch id := m.ParamString("taskId"); m.Method {
	case mcp.MethodGetTask:
		t, err := s.calls.Get(ctx, p, id)
		if err != nil {
			return nil, err
		}
		return result(m, t.AppendJSON(nil, mcp.ResultComplete)), nil
	case mcp.MethodUpdateTask:
		err = s.calls.Update(ctx, p, id, m.Param("inputResponses"))
	default:
		err = s.calls.Cancel(ctx, p, id)
	}
	if err != nil {
		return nil, err
	}
	return result(m, jsontext.Value(`{"resultType":"complete"}`)), nil
}

// call calls a tool.
func (s *Server) call(ctx context.Context, p *auth.Principal, r *upstream.Request) (upstream.Answer, error) {
	m := r.Message
	name := m.NameValue()
	tools := s.tools(p)
	i := slices.IndexFunc(tools, func(t tool) bool { return t.name == name })
	if i < 0 {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", short(name, maxName)) // TOL-03
	}
	arguments := m.Text(m.Args)
	if arguments == nil {
		arguments = jsontext.Value(`{}`)
	}
	if err := fits(tools[i].input, arguments); err != nil {
		return result(m, failure(err.Error())), nil
	}
	switch name {
	case ToolList:
		return result(m, listed(tools)), nil
	case ToolCheck:
		return s.check(ctx, p, m, arguments)
	case ToolAnswer:
		return s.answer(ctx, p, m, arguments)
	case ToolCancel:
		if err := s.calls.Cancel(ctx, p, textOf(arguments, "taskId")); err != nil {
			return toolError(m, err)
		}
		return s.check(ctx, p, m, arguments)
	case ToolAsk:
		return s.ask(ctx, p, m, arguments)
	}
	t := &tools[i]
	message, err := messageFor(t, arguments)
	if err != nil {
		return result(m, failure(err.Error())), nil
	}
	return s.send(ctx, p, m, t.agent, message)
}

// fits checks arguments against the schema of a tool (TOL-05).
func fits(schema, arguments jsontext.Value) error {
	f, err := form.New(schema)
	if err != nil {
		return nil // an agent's own, which it checks itself
	}
	return f.Check(arguments)
}

// failure is a result that says that the call has come to nothing.
func failure(text string) jsontext.Value {
	return object([]member{
		{"resultType", quoted(mcp.ResultComplete)}, {"content", array([]jsontext.Value{textBlock(text)})}, {"isError", jsontext.Value("true")},
	})
}

// toolError answers with what went wrong: as a result, where the model can do
// something about it.
func toolError(m *mcp.Message, err error) (upstream.Answer, error) {
	e := mcp.AsError(errorOf(err))
	if e.Code == mcp.CodeInvalidParams {
		return result(m, failure(e.Message)), nil
	}
	return nil, e
}

// messageFor is the message that a call of a skill is.
func messageFor(t *tool, arguments jsontext.Value) (*a2a.Message, error) {
	message := &a2a.Message{MessageID: newMessageID(), Role: a2a.RoleUser}
	if string(t.input) == string(messageInput) {
		message.Parts = []a2a.Part{a2a.Text(textOf(arguments, "message"))}
		if data := valueOf(arguments, "data"); data.Kind() == '{' {
			part := a2a.Data(a2a.JSON(data))
			part.MediaType = "application/json"
			message.Parts = append(message.Parts, part)
		}
		var files []jsontext.Value
		if v := valueOf(arguments, "files"); v != nil && json.Unmarshal(v, &files) != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "files has to be a list")
		}
		for _, file := range files {
			part, ok := partOf(file)
			if !ok {
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "a file has to have data in base64, or a uri")
			}
			message.Parts = append(message.Parts, part)
		}
	} else {
		part := a2a.Data(a2a.JSON(arguments))
		part.MediaType = "application/json"
		message.Parts = []a2a.Part{part}
	}
	if t.skill != nil {
		message.Metadata = a2a.JSON(object([]member{{"skillId", quoted(t.skill.ID)}}))
	}
	return message, nil
}

// listed is the result of list_agents.
func listed(tools []tool) jsontext.Value {
	var agents []jsontext.Value
	text := ""
	for i := 0; i < len(tools); {
		e := tools[i].agent
		if e == nil {
			i++
			continue
		}
		var skills []jsontext.Value
		text += e.Name + ": " + clean(e.Description, 500) + "\n"
		for ; i < len(tools) && tools[i].agent == e; i++ {
			skill := tools[i].skill
			skills = append(skills, object([]member{
				{"id", quoted(skill.ID)}, {"name", quoted(clean(skill.Name, 200))}, {"description", quoted(clean(skill.Description, 1000))}, {"tool", quoted(tools[i].name)},
			}))
			text += "  " + skill.ID + ": " + clean(skill.Description, 500) + "\n"
		}
		agents = append(agents, object([]member{
			{"name", quoted(e.Name)}, {"title", quoted(clean(e.Title, 200))}, {"description", quoted(clean(e.Description, 1000))}, {"skills", array(skills)},
		}))
	}
	if text == "" {
		text = "There are no agents that can be asked."
	}
	return object([]member{
		{"resultType", quoted(mcp.ResultComplete)},
		{"content", array([]jsontext.Value{textBlock(text)})},
		{"structuredContent", object([]member{{"agents", array(agents)}})},
	})
}

// ask sends a message to an agent by its name.
func (s *Server) ask(ctx context.Context, p *auth.Principal, m *mcp.Message, arguments jsontext.Value) (upstream.Answer, error) {
	exposed := s.exposed(p)
	name, skill, task := textOf(arguments, "agent"), textOf(arguments, "skill"), textOf(arguments, "task")
	i := slices.IndexFunc(exposed, func(e *Exposed) bool { return e.Name == name })
	if i < 0 {
		return result(m, failure("There is no agent "+strconv.Quote(short(name, 100))+". "+agentNames(exposed))), nil // row 140
	}
	e := exposed[i]
	message := &a2a.Message{MessageID: newMessageID(), Role: a2a.RoleUser, TaskID: task, Parts: []a2a.Part{a2a.Text(textOf(arguments, "message"))}}
	if data := valueOf(arguments, "data"); data.Kind() == '{' {
		part := a2a.Data(a2a.JSON(data))
		part.MediaType = "application/json"
		message.Parts = append(message.Parts, part)
	}
	if skill != "" {
		if !slices.ContainsFunc(e.Skills, func(s a2a.AgentSkill) bool { return s.ID == skill }) {
			ids := ""
			for _, s := range e.Skills {
				ids += " " + s.ID
			}
			return result(m, failure("The agent "+e.Name+" has no skill "+strconv.Quote(short(skill, 100))+". Its skills are:"+short(ids, maxShown))), nil
		}
		message.Metadata = a2a.JSON(object([]member{{"skillId", quoted(skill)}}))
	}
	return s.send(ctx, p, m, e, message)
}

// check says how a task is.
func (s *Server) check(ctx context.Context, p *auth.Principal, m *mcp.Message, arguments jsontext.Value) (upstream.Answer, error) {
	t, err := s.calls.Get(ctx, p, textOf(arguments, "taskId"))
	if err != nil {
		return toolError(m, err)
	}
	return result(m, s.told(ctx, p, t)), nil
}

// told is a task as the result of a tool: its result when it is over, and else the
// handle with what is known.
func (s *Server) told(ctx context.Context, p *auth.Principal, t *mcp.Task) jsontext.Value {
	switch t.Status {
	case mcp.TaskCompleted:
		return t.Result
	case mcp.TaskFailed:
		return failure("The task has failed: " + textOf(t.Error, "message"))
	case mcp.TaskCancelled:
		return failure("The task was canceled.")
	}
	record, err := s.calls.find(ctx, p, t.ID)
	if err != nil {
		return Handle(t, "")
	}
	state := record.Task.Status.State
	switch {
	case t.Status == mcp.TaskInputRequired || state == a2a.StateInputRequired:
		text := "The task waits for an answer: " + saidBy(record.Task)
		if schema := schemaIn(partsOf(record.Task)); schema != nil {
			text += "\nIt fits the schema " + short(string(schema), maxShown)
		}
		waits := *t
		waits.Status = mcp.TaskInputRequired
		return Handle(&waits, text)
	case state == a2a.StateAuthRequired:
		return Handle(t, "The task waits for an authorization: "+t.StatusMessage)
	}
	return Handle(t, "")
}

func partsOf(t *a2a.Task) []a2a.Part {
	if t.Status.Message == nil {
		return nil
	}
	return t.Status.Message.Parts
}

// Handle is the result for a client that knows no tasks, of a call that is not
// over: the id of its task, and how to go on. The text says why; "": it takes long.
func Handle(t *mcp.Task, text string) jsontext.Value {
	if text == "" {
		text = "The work goes on"
		if t.StatusMessage != "" {
			text += ": " + t.StatusMessage
		}
	}
	next := " Call " + ToolCheck + " with it in " + strconv.Itoa(int(pollAfter/time.Second)) + " seconds or later, or " + ToolCancel + " to stop it."
	if t.Status == mcp.TaskInputRequired {
		next = " Call " + ToolAnswer + " with it and the answer, or " + ToolCancel + " to stop it."
	}
	return object([]member{
		{"resultType", quoted(mcp.ResultComplete)},
		{"content", array([]jsontext.Value{textBlock(text + "\nIt is not over yet. Its taskId is " + t.ID + "." + next)})},
		{"structuredContent", object([]member{{"taskId", quoted(t.ID)}, {"status", quoted(t.Status)}, {"statusMessage", quoted(t.StatusMessage)}})},
	})
}

// answer answers what a task asks.
func (s *Server) answer(ctx context.Context, p *auth.Principal, m *mcp.Message, arguments jsontext.Value) (upstream.Answer, error) {
	id := textOf(arguments, "taskId")
	record, err := s.calls.find(ctx, p, id)
	if err != nil {
		return toolError(m, err)
	}
	t := s.calls.view(ctx, record)
	state := record.Task.Status.State
	if state != a2a.StateInputRequired {
		return result(m, failure("The task asks for nothing: it is "+t.Status+".")), nil
	}
	message, err := inOneAnswer(record, valueOf(arguments, "answer"))
	if err != nil {
		return toolError(m, err)
	}
	if err := s.calls.reply(ctx, p, record, message); err != nil {
		return toolError(m, err)
	}
	return s.follow(ctx, p, m, id, false)
}

// inOneAnswer is the message that answers a task in a text or in data.
func inOneAnswer(record *engine.Record, value jsontext.Value) (*a2a.Message, error) {
	message := &a2a.Message{MessageID: newMessageID(), TaskID: record.Row.ID, Role: a2a.RoleUser}
	text := plainText(value)
	schema := schemaIn(partsOf(record.Task))
	if value.Kind() == '"' {
		// A text may be the JSON that is asked for: models write it so.
		if v := jsontext.Value(text); schema != nil && v.IsValid() && v.Kind() == '{' {
			value = v
		}
	}
	if value.Kind() == '{' {
		if schema != nil {
			if err := checked(schema, value); err != nil {
				return nil, err
			}
		}
		message.Parts = answerParts(value, plainText(value))
		return message, nil
	}
	if text == "" {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "The answer is empty")
	}
	if schema != nil && checked(schema, value) == nil { // a single value
		message.Parts = answerParts(value, text)
		return message, nil
	}
	message.Parts = []a2a.Part{a2a.Text(text)}
	return message, nil
}

// once is an answer that is there.
type once struct{ m *mcp.Message }

func (o *once) Next() (*mcp.Message, error) {
	if o.m == nil {
		return nil, io.EOF
	}
	m := o.m
	o.m = nil
	return m, nil
}

func (o *once) Close() error { return nil }

// response is the response to a request.
func response(to *mcp.Message, result jsontext.Value) *mcp.Message {
	m, err := mcp.Scan(mcp.AppendResult(nil, to.ID, result), mcp.Limits{Depth: 200})
	if err != nil { // what an agent has sent is not JSON for everybody
		m, _ = mcp.Scan(mcp.AppendError(nil, to.ID, mcp.Errorf(mcp.CodeBadAnswer, "The agent's answer cannot be sent: %v", err)), mcp.Limits{})
	}
	return m
}

func result(to *mcp.Message, result jsontext.Value) upstream.Answer {
	return &once{response(to, result)}
}
