package bridge

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/upstream"
)

// JobRecall is the kind of the job that cancels the task of a server whose call was
// canceled. Recall does it.
const JobRecall = "mcp.recall"

// Engine runs the tasks.
type Engine interface {
	Send(ctx context.Context, q *engine.Request) (*a2a.SendMessageResponse, error)
	Record(ctx context.Context, scope store.Scope, id string, want store.Want) (*engine.Record, error)
	Subscribe(ctx context.Context, scope store.Scope, spec *engine.Spec, id, lastEventID string) (*engine.Stream, error)
	Cancel(ctx context.Context, scope store.Scope, spec *engine.Spec, id string, by engine.By) (*a2a.Task, error)
}

// Store is what is read of the store beside the engine.
type Store interface {
	Private(ctx context.Context, task int64) (a2a.JSON, error)
	Result(ctx context.Context, task int64, key string) (a2a.JSON, error)
	InboxItems(ctx context.Context, scope store.Scope, q store.InboxQuery) (*store.InboxPage, error)
	Commit(ctx context.Context, c *store.Change) error
	Doc(ctx context.Context, scope store.Scope, space, key string) (*store.Doc, error)
	PutDoc(ctx context.Context, d *store.Doc) error
}

// CallsOptions is what Calls works with.
type CallsOptions struct {
	Engine Engine
	Store  Store
	// Scope is that of the node itself, for what is left to do after a call.
	Scope store.Scope
	// Agents returns what the engine has to know of an agent: those of Spec too.
	Agents func(id string) *engine.Spec
	// Server returns an MCP server by its name.
	Server func(name string) (upstream.Server, bool)
	// Poll is how often clients are told to look at a task, and how often the task
	// of a server is looked at that does not say. Nil: a second.
	Poll func() time.Duration
	// TTL is how long tasks are kept. Nil: a day.
	TTL func() time.Duration
	// Claims is how long an idempotency key is known; 0: a day.
	Claims time.Duration
	Logger *slog.Logger // nil: slog.Default()
}

// Calls keeps calls of tools: each is a task of the agent mcp:SERVER, and survives
// a crash. Its tasks are those of the tasks extension of MCP (TSK-01 to TSK-22).
// It also shows the tasks of other agents in that form. It is safe for concurrent
// use.
type Calls struct {
	opts   CallsOptions
	log    *slog.Logger
	agents *Server // nil: agents are no tools
}

// server returns an MCP server by its name.
func (c *Calls) server(name string) (upstream.Server, bool) {
	if name == ServerName && c.agents != nil {
		return c.agents, true
	}
	return c.opts.Server(name)
}

// NewCalls returns what keeps calls.
func NewCalls(opts CallsOptions) *Calls {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Claims == 0 {
		opts.Claims = 24 * time.Hour
	}
	return &Calls{opts: opts, log: opts.Logger}
}

func (c *Calls) poll() time.Duration {
	if c.opts.Poll == nil {
		return time.Second
	}
	return c.opts.Poll()
}

func (c *Calls) ttl() time.Duration {
	if c.opts.TTL == nil {
		return 24 * time.Hour
	}
	return c.opts.TTL()
}

// Spec returns what the engine has to know of the agent that calls the tools of a
// server. There is one for every name, so that calls of a server that is gone
// still end.
func (c *Calls) Spec(server string) *engine.Spec {
	return &engine.Spec{
		ID: AgentPrefix + server, Run: &caller{calls: c, server: server}, Answers: engine.AnswersTask,
		Idempotency: engine.IdempotencyOn, OnInterrupt: engine.InterruptResume,
		Retention: c.ttl(), Claims: c.opts.Claims, History: 100, NoLineage: true,
		Recall: JobRecall,
	}
}

// maxTries bounds how often a key is used again after calls that came to nothing.
const maxTries = 50

// Start makes a task of a call. It is durable when Start returns (TSK-05). A key
// that is known gives the task that has it; with other arguments that is an error.
func (c *Calls) Start(ctx context.Context, call *Call) (*mcp.Task, error) {
	k := keptOf(call)
	metadata, err := k.encode()
	if err != nil {
		return nil, err
	}
	if call.Server == ServerName && call.UpstreamTask != "" {
		return c.Get(ctx, call.Caller, call.UpstreamTask) // its tasks are ours already
	}
	spec := *c.Spec(call.Server)
	if k.Key == "" {
		spec.Idempotency = engine.IdempotencyOff
	}
	spec.Retention = max(spec.Retention, k.ttl())
	arguments := call.Request.Message.Text(call.Request.Message.Args)
	for try := 0; try < maxTries; try++ {
		handle := newHandle(call.Capabilities)
		facts := []member{{"tool", quoted(k.Tool)}, {"arguments", quoted(digest(arguments))}}
		if k.Key != "" {
			facts = append(facts, member{"idempotencyKey", quoted(k.keyOf(call.Caller, try))})
		}
		answer, err := c.opts.Engine.Send(ctx, &engine.Request{
			Spec: &spec, Scope: auth.Scope(call.Caller), Caller: callerOf(call.Caller), Authenticated: !call.Caller.Anonymous(),
			Message: &a2a.Message{
				MessageID: handle, Role: a2a.RoleUser, Parts: k.describe(arguments), Metadata: a2a.JSON(object(facts)),
			},
			Metadata: metadata, ID: handle, Config: a2a.SendMessageConfiguration{ReturnImmediately: true},
		})
		if err != nil {
			return nil, errorOf(err)
		}
		if answer.Task == nil {
			return nil, mcp.Errorf(mcp.CodeInternal, "The call has made no task")
		}
		t, err := c.Get(ctx, call.Caller, answer.Task.ID)
		if err != nil || answer.Task.ID == handle || !k.cameToNothing(t) {
			return t, err
		}
		// The call was certainly not made, or the server has refused it (GWY-03).
	}
	return nil, mcp.Errorf(mcp.CodeIdempotencyConflict, "Too many calls with this key have come to nothing; take another one")
}

func callerOf(p *auth.Principal) agent.Caller {
	return agent.Caller{Tenant: p.Tenant, Subject: p.Subject, Issuer: p.Issuer, Scopes: p.Scopes}
}

// errUnknown is the error for a task that does not exist or is somebody else's;
// the two are one (S1, TSK-12, TSK-18).
func errUnknown() error { return mcp.Errorf(mcp.CodeInvalidParams, "There is no such task") }

// errorOf makes an error of MCP of one of the engine.
func errorOf(err error) error {
	e, ok := errors.AsType[*a2a.Error](err)
	if !ok {
		return err
	}
	reply := &mcp.Error{Message: e.Message, RetryAfter: int((e.RetryAfter + time.Second - 1) / time.Second), Err: err}
	switch e.Code {
	case a2a.CodeTaskNotFound:
		return errUnknown()
	case a2a.CodeInvalidParams:
		reply.Code = mcp.CodeInvalidParams
		for _, v := range e.Violations {
			if v.Field == "message.metadata.idempotencyKey" {
				reply.Code, reply.Message = mcp.CodeIdempotencyConflict, "The idempotency key was used for a call with other arguments"
			}
		}
	case a2a.CodeInvalidRequest, a2a.CodeContentTypeNotSupported, a2a.CodeTooLarge, a2a.CodeUnsupportedOperation, a2a.CodeTaskNotCancelable:
		reply.Code = mcp.CodeInvalidParams
	case a2a.CodePermissionDenied, a2a.CodeUnauthenticated:
		reply.Code = mcp.CodeDenied
	case a2a.CodeResourceExhausted:
		reply.Code = mcp.CodeRateLimited
	case a2a.CodeUnavailable:
		reply.Code = mcp.CodeUnavailable
	default:
		reply.Code = mcp.CodeInternal
	}
	return reply
}

// find returns a task of the caller.
func (c *Calls) find(ctx context.Context, p *auth.Principal, handle string) (*engine.Record, error) {
	if handle == "" || len(handle) > a2a.MaxIDLength {
		return nil, errUnknown()
	}
	record, err := c.opts.Engine.Record(ctx, auth.Scope(p), handle, store.Want{Artifacts: true})
	if err != nil {
		return nil, errorOf(err)
	}
	return record, nil
}

// Get returns a task of the caller (TSK-07).
func (c *Calls) Get(ctx context.Context, p *auth.Principal, handle string) (*mcp.Task, error) {
	record, err := c.find(ctx, p, handle)
	if err != nil {
		return nil, err
	}
	return c.view(ctx, record), nil
}

// Await returns a task when it is over or asks for something. When ctx ends
// before, or the node stops, it returns the task as it is.
func (c *Calls) Await(ctx context.Context, p *auth.Principal, handle string) (*mcp.Task, error) {
	for {
		record, err := c.find(ctx, p, handle)
		if err != nil {
			return nil, err
		}
		t := c.view(ctx, record)
		if t.Terminal() || t.Status == mcp.TaskInputRequired {
			return t, nil
		}
		stream, err := c.opts.Engine.Subscribe(ctx, auth.Scope(p), nil, handle, "")
		switch {
		case errors.Is(err, &a2a.Error{Code: a2a.CodeUnsupportedOperation}):
			continue // it is over
		case errors.Is(err, engine.ErrDraining):
			return t, nil
		case err != nil:
			return nil, errorOf(err)
		}
		stopped := untilChange(ctx, stream, record.Task.Status.State)
		stream.Close()
		if stopped {
			return c.Get(context.WithoutCancel(ctx), p, handle)
		}
	}
}

// untilChange returns when a task may be over or ask for something else than when it
// was seen in a state, and reports whether it does not help to wait any more.
func untilChange(ctx context.Context, stream *engine.Stream, seen a2a.TaskState) (stopped bool) {
	for {
		frame, err := stream.Next(ctx)
		if err != nil {
			return !errors.Is(err, io.EOF)
		}
		var e a2a.StreamResponse
		if a2a.Unmarshal(frame.Body, &e) != nil {
			return false
		}
		state := stateOf(&e)
		if e.Task != nil && state == seen {
			continue
		}
		if state.Terminal() || state.Interrupted() {
			return false
		}
	}
}

// stateOf returns the state that a frame tells, or the unspecified one.
func stateOf(e *a2a.StreamResponse) a2a.TaskState {
	switch {
	case e.Task != nil:
		return e.Task.Status.State
	case e.StatusUpdate != nil:
		return e.StatusUpdate.Status.State
	}
	return a2a.StateUnspecified
}

// Update gives a task answers by their keys (TSK-09). What is not asked for is
// ignored.
func (c *Calls) Update(ctx context.Context, p *auth.Principal, handle string, responses jsontext.Value) error {
	answers, ok := membersOf(responses)
	if !ok {
		return mcp.Errorf(mcp.CodeInvalidParams, "inputResponses has to be an object")
	}
	record, err := c.find(ctx, p, handle)
	if err != nil {
		return err
	}
	if strings.HasPrefix(record.Row.Agent, AgentPrefix) {
		return c.updateCall(ctx, p, record, answers)
	}
	message, err := answerTo(record.Task, answers, answerMessage(record))
	if errors.Is(err, errDismissed) {
		return nil // the question stays (ELI-04)
	}
	if message == nil || err != nil {
		return err
	}
	return c.reply(ctx, p, record, message)
}

// reply sends an answer to a task that has asked.
func (c *Calls) reply(ctx context.Context, p *auth.Principal, record *engine.Record, message *a2a.Message) error {
	spec := c.opts.Agents(record.Row.Agent)
	if spec == nil {
		return mcp.Errorf(mcp.CodeUnavailable, "The agent of the task does not exist any more; cancel the task")
	}
	q := &engine.Request{
		Spec: spec, Scope: auth.Scope(p), Caller: callerOf(p), Authenticated: !p.Anonymous(), Message: message,
		Config: a2a.SendMessageConfiguration{ReturnImmediately: true},
	}
	if valueOf(jsontext.Value(message.Metadata), metaResponses) == nil {
		// The answer is for this question, and not for one that comes after it.
		// Those by their keys say so themselves.
		page, err := c.opts.Store.InboxItems(ctx, auth.Scope(p), store.InboxQuery{Task: record.Row.ID, PageSize: 2})
		if err != nil {
			return errorOf(engine.Unavailable(err))
		}
		if len(page.Items) == 1 && page.Items[0].Kind == store.InboxQuestion {
			q.Item = page.Items[0].ID
		}
	}
	_, err := c.opts.Engine.Send(ctx, q)
	if errors.Is(err, &a2a.Error{Code: a2a.CodeUnsupportedOperation}) {
		return nil // it has gone on, or is over
	}
	if err != nil {
		return errorOf(err)
	}
	return nil
}

// Cancel cancels a task, and so the work of the server. One that is over stays as
// it is (TSK-11).
func (c *Calls) Cancel(ctx context.Context, p *auth.Principal, handle string) error {
	if handle == "" || len(handle) > a2a.MaxIDLength {
		return errUnknown()
	}
	_, err := c.opts.Engine.Cancel(ctx, auth.Scope(p), nil, handle, engine.ByCaller)
	if errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotCancelable}) {
		return nil
	}
	if err != nil {
		return errorOf(err)
	}
	return nil
}

// Watch returns a task whenever it changes, and once as it is. The channel is
// closed when the task is over, ctx ends, or the node stops (TSK-17).
func (c *Calls) Watch(ctx context.Context, p *auth.Principal, handle string) (<-chan *mcp.Task, error) {
	t, err := c.Get(ctx, p, handle)
	if err != nil {
		return nil, err
	}
	changes := make(chan *mcp.Task, 1)
	changes <- t
	if t.Terminal() {
		close(changes)
		return changes, nil
	}
	stream, err := c.opts.Engine.Subscribe(ctx, auth.Scope(p), nil, handle, "")
	if err != nil && !errors.Is(err, &a2a.Error{Code: a2a.CodeUnsupportedOperation}) {
		return nil, errorOf(err)
	}
	go func() {
		defer close(changes)
		if stream != nil {
			defer stream.Close()
		}
		for over := false; !over; {
			if stream == nil {
				over = true
			} else if over, err = nextChange(ctx, stream); err != nil {
				return
			}
			next, err := c.Get(ctx, p, handle)
			if err != nil {
				return
			}
			over = over || next.Terminal()
			select {
			case changes <- next:
			case <-ctx.Done():
				return
			}
		}
	}()
	return changes, nil
}

// nextChange returns when the status of a task has changed, and reports whether it
// is over.
func nextChange(ctx context.Context, stream *engine.Stream) (over bool, err error) {
	for changed := false; !changed || stream.Ready(); {
		frame, err := stream.Next(ctx)
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		var e a2a.StreamResponse
		if err := a2a.Unmarshal(frame.Body, &e); err != nil {
			return false, err
		}
		changed = changed || e.StatusUpdate != nil || e.Task != nil
	}
	return false, nil
}

// recallTries is how often a server is asked to cancel its task.
const recallTries = 12

// Recall cancels the task that a server has for a call that was canceled. It is a
// job, so that it is done whatever happens to the node.
func (c *Calls) Recall(ctx context.Context, job *store.Job) error {
	record, err := c.opts.Engine.Record(ctx, c.opts.Scope, job.Task, store.Want{})
	if a2a.CodeOf(err) == a2a.CodeTaskNotFound {
		return c.finish(ctx, job)
	}
	if err != nil {
		return err
	}
	state, err := c.stateOf(ctx, record.Row.Key)
	if err != nil {
		return err
	}
	s, err := decodeState(state)
	if err != nil {
		return c.finish(ctx, job)
	}
	k := s.Call
	if k == nil {
		if k, err = decodeKept(engine.MetadataOf(&record.Row)); err != nil {
			return c.finish(ctx, job)
		}
	}
	if s.Task == "" {
		s.Task = k.Task
	}
	server, ok := c.server(k.Server)
	if s.Task == "" || !ok {
		return c.finish(ctx, job)
	}
	m, err := k.aboutTask(mcp.MethodCancelTask, s.Task)
	if err != nil {
		return c.finish(ctx, job)
	}
	answer, err := server.Do(ctx, &upstream.Request{Message: m, Header: k.Header, Caller: k.principal()})
	if err == nil {
		for err == nil {
			_, err = answer.Next()
		}
		_ = answer.Close()
		if errors.Is(err, io.EOF) {
			return c.finish(ctx, job)
		}
	}
	if transient(err) && job.Attempt < recallTries && ctx.Err() == nil {
		return err
	}
	c.log.WarnContext(ctx, "A server was not told that a call was canceled", "server", k.Server, "tool", k.Tool, "task", job.Task, "error", err)
	return c.finish(ctx, job)
}

// stateOf returns the state of the call of a task: it is kept beside the task, is a
// member of its private state, or is that state.
func (c *Calls) stateOf(ctx context.Context, task int64) (a2a.JSON, error) {
	kept, err := c.opts.Store.Result(ctx, task, keptTurnKey)
	if err != nil {
		return nil, err
	}
	if kept != nil {
		of, err := decodeToolTurn(kept)
		if err != nil || of.Call == nil {
			return nil, nil // there is nothing to cancel
		}
		done, err := c.opts.Store.Result(ctx, task, callKey(of.Call.Name))
		if err != nil || done != nil {
			return nil, err
		}
		return of.Call.State, nil
	}
	state, err := c.opts.Store.Private(ctx, task)
	if err != nil {
		return nil, err
	}
	if within := valueOf(jsontext.Value(state), StateMember); within != nil {
		return a2a.JSON(within), nil
	}
	return state, nil
}

func (c *Calls) finish(ctx context.Context, job *store.Job) error {
	return c.opts.Store.Commit(ctx, &store.Change{Finish: job.ID})
}
