package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// send sends a message to an agent and answers with what comes of it. A request
// that has answers goes on with the task that it names (MRT-02).
func (s *Server) send(ctx context.Context, p *auth.Principal, m *mcp.Message, e *Exposed, message *a2a.Message) (upstream.Answer, error) {
	if m.Param("requestState") != nil {
		return s.retry(ctx, p, m, e)
	}
	client := m.Capabilities()
	if key := m.MetaString(mcp.MetaKey); key != "" {
		message.Metadata = a2a.WithMember(message.Metadata, "idempotencyKey", a2a.JSON(quoted(key)))
	}
	if err := message.Validate(); err != nil {
		return toolError(m, err)
	}
	q := &engine.Request{
		Spec: e.Spec, Scope: auth.Scope(p), Caller: callerOf(p), Authenticated: !p.Anonymous(), Message: message,
		Config: a2a.SendMessageConfiguration{ReturnImmediately: true},
	}
	if message.TaskID == "" {
		// It is in the ledger, and a task whatever the agent answers.
		q.Delegation = &engine.Delegating{ID: newHandle(client)}
	}
	answer, err := s.calls.opts.Engine.Send(ctx, q)
	if err != nil {
		return toolError(m, err)
	}
	if answer.Task == nil { // of a message that came before, outside of this
		return result(m, resultOf(&a2a.Task{Status: a2a.TaskStatus{State: a2a.StateCompleted, Message: answer.Message}})), nil
	}
	return s.follow(ctx, p, m, answer.Task.ID, q.Delegation != nil && answer.Task.ID == q.Delegation.ID)
}

// retry goes on with a call that has asked. The state is the handle of its task:
// everything else is looked up, so that it says nothing that could be forged
// (MRT-03, MRT-04).
func (s *Server) retry(ctx context.Context, p *auth.Principal, m *mcp.Message, e *Exposed) (upstream.Answer, error) {
	id := m.ParamString("requestState")
	record, err := s.calls.find(ctx, p, id)
	if err != nil || record.Row.Agent != e.Spec.ID {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "requestState does not belong to this call")
	}
	if record.Task.Status.State == a2a.StateInputRequired {
		answers, _ := membersOf(m.Param("inputResponses"))
		message, err := answerTo(record.Task, answers, &a2a.Message{MessageID: newMessageID(), TaskID: id, Role: a2a.RoleUser})
		switch {
		case errors.Is(err, errDismissed):
			return result(m, s.told(ctx, p, s.calls.view(ctx, record))), nil
		case err != nil:
			return nil, err
		case message != nil:
			if err := s.calls.reply(ctx, p, record, message); err != nil {
				return nil, err
			}
		}
	}
	return s.follow(ctx, p, m, id, true)
}

// asking is the answer to a call that waits for a task.
type asking struct {
	s      *Server
	ctx    context.Context
	stop   context.CancelFunc
	p      *auth.Principal
	m      *mcp.Message
	client mcp.Capabilities
	id     string
	stream *engine.Stream // nil: the task is over
	until  time.Time
	token  jsontext.Value // of progress; nil: none is told
	steps  int
	told   time.Time
	latest string // what came too early to be told
	bytes  int    // of artifacts so far
	owns   bool   // the task was made for this call
	over   bool   // the response was given
}

// follow answers a call with what becomes of a task.
func (s *Server) follow(ctx context.Context, p *auth.Principal, m *mcp.Message, id string, owns bool) (upstream.Answer, error) {
	a := &asking{s: s, p: p, m: m, client: m.Capabilities(), id: id, owns: owns, told: time.Now()}
	stream, err := s.calls.opts.Engine.Subscribe(ctx, auth.Scope(p), nil, id, "")
	switch {
	case errors.Is(err, &a2a.Error{Code: a2a.CodeUnsupportedOperation}): // it is over
	case errors.Is(err, engine.ErrDraining):
		return result(m, s.handle(ctx, p, m, id)), nil
	case err != nil:
		return toolError(m, err)
	default:
		a.stream = stream
	}
	if token := m.MetaValue(mcp.MetaProgress); token.Kind() == '"' || token.Kind() == '0' {
		a.token = token
	}
	wait := s.wait()
	if a.client.Tasks {
		wait = s.opts.Quick
	}
	a.until = time.Now().Add(wait)
	a.ctx, a.stop = context.WithCancel(ctx)
	return a, nil
}

// handle is what a call is answered with that is not over: a task for who knows
// tasks, a result with its handle for everybody else.
func (s *Server) handle(ctx context.Context, p *auth.Principal, m *mcp.Message, id string) jsontext.Value {
	t, err := s.calls.Get(context.WithoutCancel(ctx), p, id)
	switch {
	case err != nil:
		return failure(mcp.AsError(err).Message)
	case m.Capabilities().Tasks && m.NameValue() != ToolCheck:
		return t.AppendJSON(nil, mcp.ResultTask)
	}
	return s.told(ctx, p, t)
}

// Next returns progress, and then the response.
func (a *asking) Next() (*mcp.Message, error) {
	if a.over {
		return nil, io.EOF
	}
	for {
		if a.stream == nil {
			return a.finish()
		}
		frame, err := a.next()
		switch {
		case a.ctx.Err() != nil:
			return nil, a.ctx.Err()
		case errors.Is(err, context.DeadlineExceeded) && !time.Now().Before(a.until), errors.Is(err, engine.ErrDraining):
			return a.respond(a.s.handle(a.ctx, a.p, a.m, a.id)), nil
		case errors.Is(err, context.DeadlineExceeded):
			if m := a.progress(cmp.Or(a.latest, "The work goes on")); m != nil {
				return m, nil
			}
			continue
		case errors.Is(err, io.EOF):
			return a.finish()
		case err != nil:
			return nil, errorOf(err)
		}
		var e a2a.StreamResponse
		if err := a2a.Unmarshal(frame.Body, &e); err != nil {
			return nil, fmt.Errorf("read event: %w", err)
		}
		switch state := stateOf(&e); {
		case state.Terminal():
			return a.finish()
		case state.Interrupted():
			m, err := a.interrupted()
			if m != nil || err != nil {
				return m, err
			}
		}
		text := a.said(&e)
		if m := a.progress(text); m != nil {
			return m, nil
		}
		// What comes too early is said with the next beat.
		a.latest = cmp.Or(text, a.latest)
	}
}

// next returns the next event, or the error of a deadline when progress, or the
// handle, is due before.
func (a *asking) next() (engine.Frame, error) {
	due := a.until
	if a.token != nil {
		if beat := a.told.Add(a.s.opts.Progress); beat.Before(due) {
			due = beat
		}
	}
	ctx, cancel := context.WithDeadline(a.ctx, due)
	defer cancel()
	return a.stream.Next(ctx)
}

// said is what an event says of the progress; "": nothing.
func (a *asking) said(e *a2a.StreamResponse) string {
	switch {
	case e.Task != nil && e.Task.Status.Message != nil:
		return short(textsOf(e.Task.Status.Message.Parts), maxShown)
	case e.StatusUpdate != nil && e.StatusUpdate.Status.Message != nil:
		return short(textsOf(e.StatusUpdate.Status.Message.Parts), maxShown)
	case e.ArtifactUpdate != nil:
		for i := range e.ArtifactUpdate.Artifact.Parts {
			p := &e.ArtifactUpdate.Artifact.Parts[i]
			a.bytes += len(p.Text) + len(p.Raw) + len(p.Data)
		}
		name := e.ArtifactUpdate.Artifact.Name
		if name == "" {
			name = "the result"
		}
		return "Received " + strconv.Itoa(a.bytes) + " bytes of " + short(name, 200)
	}
	return ""
}

// minProgress is how much time lies between two notifications at least (CAN-04).
const minProgress = 50 * time.Millisecond

// progress is a notification of progress, nil when none is due (row 125).
func (a *asking) progress(text string) *mcp.Message {
	if a.token == nil || text == "" || a.steps > 0 && time.Since(a.told) < minProgress {
		return nil
	}
	a.steps++
	a.told, a.latest = time.Now(), ""
	params := object([]member{{"progressToken", a.token}, {"progress", jsontext.Value(strconv.Itoa(a.steps))}, {"message", quoted(text)}})
	body := object([]member{{"jsonrpc", jsontext.Value(`"2.0"`)}, {"method", quoted(mcp.NotifyProgress)}, {"params", params}})
	m, err := mcp.Scan(body, mcp.Limits{})
	if err != nil {
		return nil
	}
	return m
}

// interrupted asks the client what the task asks, nil when the client cannot be
// asked that, and something else may come.
func (a *asking) interrupted() (*mcp.Message, error) {
	record, err := a.s.calls.find(a.ctx, a.p, a.id)
	if err != nil {
		return nil, err
	}
	var key string
	var request jsontext.Value
	switch record.Task.Status.State {
	case a2a.StateInputRequired:
		if !a.client.ElicitForm {
			return a.respond(a.s.handle(a.ctx, a.p, a.m, a.id)), nil
		}
		q := questionFor(record.Task)
		key, request = q.key, q.request()
	case a2a.StateAuthRequired:
		if !a.client.ElicitURL {
			return nil, nil
		}
		url := authorizeURL(record.Task)
		if url == "" || a.m.ParamString("requestState") == a.id && valueOf(a.m.Param("inputResponses"), keyOf(record.Task)) != nil {
			return nil, nil // it has been asked; the authorization comes from elsewhere
		}
		key, request = keyOf(record.Task), urlRequest(record.Task, url)
	default:
		return nil, nil
	}
	return a.respond(object([]member{
		{"resultType", quoted(mcp.ResultInputRequired)},
		{"inputRequests", object([]member{{key, request}})},
		{"requestState", quoted(a.id)},
	})), nil
}

// finish is the response with the result.
func (a *asking) finish() (*mcp.Message, error) {
	t, err := a.s.calls.Get(a.ctx, a.p, a.id)
	if err != nil {
		return nil, err
	}
	return a.respond(a.s.told(a.ctx, a.p, t)), nil
}

func (a *asking) respond(result jsontext.Value) *mcp.Message {
	a.over = true
	return response(a.m, result)
}

// Close cancels the task when nobody waits for its result any more, and nobody was
// told of it (row 125).
func (a *asking) Close() error {
	a.stop()
	if a.stream != nil {
		a.stream.Close()
	}
	if a.over || !a.owns {
		return nil
	}
	a.over = true
	return a.s.calls.Cancel(context.WithoutCancel(a.ctx), a.p, a.id)
}

// listening is a subscription. It tells when the agents change.
type listening struct {
	s       *Server
	ctx     context.Context
	stop    context.CancelFunc
	m       *mcp.Message
	changed <-chan struct{}
	acked   bool
	tools   bool
}

// listen opens a subscription (SUB-03).
func (s *Server) listen(ctx context.Context, m *mcp.Message) upstream.Answer {
	l := &listening{s: s, m: m, tools: string(valueOf(m.Param("notifications"), "toolsListChanged")) == "true"}
	l.ctx, l.stop = context.WithCancel(ctx)
	if s.opts.Changed != nil {
		l.changed = s.opts.Changed()
	}
	return l
}

// Next returns the next notification.
func (l *listening) Next() (*mcp.Message, error) {
	if !l.acked {
		l.acked = true
		honored := jsontext.Value(`{}`)
		if l.tools {
			honored = jsontext.Value(`{"toolsListChanged":true}`)
		}
		return l.notify(mcp.NotifyAcknowledged, member{"notifications", honored})
	}
	changed := l.changed
	if !l.tools {
		changed = nil
	}
	select {
	case <-changed:
		l.changed = l.s.opts.Changed()
		return l.notify(mcp.NotifyTools)
	case <-l.ctx.Done():
		return nil, l.ctx.Err()
	}
}

func (l *listening) notify(method string, with ...member) (*mcp.Message, error) {
	meta := member{"_meta", object([]member{{mcp.MetaSubscription, l.m.ID}})}
	return mcp.Scan(object([]member{
		{"jsonrpc", jsontext.Value(`"2.0"`)}, {"method", quoted(method)}, {"params", object(append([]member{meta}, with...))},
	}), mcp.Limits{})
}

// Close ends the subscription.
func (l *listening) Close() error {
	l.stop()
	return nil
}
