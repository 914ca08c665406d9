package bridge

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/form"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// Members that our own status messages and messages have in their metadata.
const (
	metaInputs    = "handoff.example/mcp-input-requests"  // of a question: what is asked of the client
	metaError     = "handoff.example/mcp-error"           // of a failure: the error of JSON-RPC
	metaCancelled = "handoff.example/mcp-cancelled"       // of a failure: the server has canceled its task
	metaResponses = "handoff.example/mcp-input-responses" // of a message: its data part are answers by their keys
)

// resultID names the artifact that is the result of a call, byte by byte.
const resultID = "result"

// How the task of a server is followed.
const (
	minPoll    = 50 * time.Millisecond
	maxPoll    = time.Minute
	parkPoll   = 10 * time.Second // from here on the turn ends between two polls
	followTurn = 2 * time.Minute  // how long a turn polls
	retryPoll  = time.Second      // after a failure, doubled each time
	repeats    = 3                // how often a call is made again whose outcome is unknown
)

// caller is the agent that calls the tools of a server.
type caller struct {
	calls  *Calls
	server string
}

// work is one turn of a kept call.
type work struct {
	*caller
	ctx   context.Context
	turn  *agent.Turn
	call  *keptCall
	state *callState
	rim   rim
	keep  func(state jsontext.Value) error // keeps the state; nil: it is that of the task
	name  string                           // of the call among those of its task; "": it is the only one
	spoke time.Time                        // when progress was told last
	heard string                           // the last status message of the server's task

	refused error // that the gate has returned
}

// rim is how a call is shown outside: as a call, or as the work of an agent.
type rim interface {
	complete(w *work, result jsontext.Value) error
	fail(w *work, e jsontext.Value, text string) error
	canceled(w *work, text string) error // the server has canceled its task
	ask(w *work, open []input) error
}

// Run goes on with a call from where it is: before it, in the middle of it, asked,
// or with a task of the server.
func (c *caller) Run(ctx context.Context, t *agent.Turn) error {
	k, err := decodeKept(t.Metadata)
	if err != nil {
		return err
	}
	s, err := decodeState(t.State)
	if err != nil {
		return err
	}
	w := &work{caller: c, ctx: ctx, turn: t, call: k, state: s, rim: callRim{}}
	if k.Task != "" && s.Stage == stageNew {
		s.Stage, s.Task, s.Since = stageFollowing, k.Task, time.Now()
	}
	return w.run()
}

// run goes on with a call from its stage.
func (w *work) run() error {
	switch w.state.Stage {
	case stageCalling:
		return w.recover()
	case stageAsked:
		return w.answered()
	case stageFollowing:
		return w.goOn()
	}
	return w.begin()
}

// begin makes the call, once it is approved.
func (w *work) begin() error {
	if w.call.Approve != "" && !w.state.Approved {
		g := w.turn.Grant
		if g == nil {
			return w.approval()
		}
		if !g.Approved {
			text := "The call was not approved"
			if g.Note != "" {
				text += ": " + g.Note
			}
			return w.fail(mcp.Errorf(mcp.CodeDenied, "%s", text))
		}
		w.state.Approved = true
	}
	m, err := w.call.message(w.turn.TaskID)
	if err != nil {
		return err
	}
	return w.make(m)
}

// approval asks for a decision (ELI-06).
func (w *work) approval() error {
	m, err := w.call.message(w.turn.TaskID)
	if err != nil {
		return err
	}
	return w.turn.Emit(agent.Step{Authorize: &agent.Authorize{
		Content: w.call.question(m.Text(m.Args)), Operation: engine.CallOperation(w.call.Server, w.call.Tool),
	}})
}

// setState keeps the state, durably with what comes next.
func (w *work) setState() error {
	text, err := w.state.encode()
	if err != nil {
		return err
	}
	if w.keep != nil {
		return w.keep(jsontext.Value(text))
	}
	return w.turn.SetState(text)
}

// save keeps the state durably.
func (w *work) save() error {
	if err := w.setState(); err != nil || w.keep != nil {
		return err
	}
	return w.turn.Flush()
}

// make sends the request. That it may be at the server is kept before.
func (w *work) make(m *mcp.Message) error {
	w.state.Stage = stageCalling
	if err := w.save(); err != nil {
		return err
	}
	return w.send(m)
}

// recover goes on where a process died, or was stopped, with the request at the
// server. It is made again only where that does no harm (TSK-21).
func (w *work) recover() error {
	body, err := w.keptAnswer()
	if err != nil {
		return err
	}
	if body != nil {
		m, err := mcp.Scan(body, mcp.Limits{})
		if err != nil {
			return err
		}
		return w.take(m)
	}
	if !w.call.mayRepeat() {
		return w.fail(mcp.Errorf(mcp.CodeOutcomeUnknown, "The node that made the call was interrupted. Whether the server has done what was asked is not known; it was not asked again"))
	}
	m, err := w.call.message(w.turn.TaskID)
	if err != nil {
		return err
	}
	if w.state.Round > 0 {
		m = w.state.retry(m)
	}
	return w.send(m)
}

// answerKey is where an answer is kept that came when its turn was being handed
// over.
func (w *work) answerKey() string { return w.name + "answer:" + strconv.Itoa(w.state.Round) }

var errNone = errors.New("there is none")

func (w *work) keptAnswer() ([]byte, error) {
	body, err := agent.Once(w.ctx, w.turn, w.answerKey(), func(context.Context) ([]byte, error) { return nil, errNone })
	if errors.Is(err, errNone) {
		return nil, nil
	}
	return body, err
}

// send sends a request and takes the answer.
func (w *work) send(m *mcp.Message) error {
	ctx, done := w.sendContext()
	defer done()
	answer, err := w.exchange(ctx, m)
	if cause := context.Cause(w.ctx); cause != nil {
		if errors.Is(cause, agent.ErrHandedOver) && err == nil && !w.call.mayRepeat() {
			// Nothing more can be emitted; the next attempt finds it.
			_, err := agent.Once(ctx, w.turn, w.answerKey(), func(context.Context) ([]byte, error) { return answer.Body, nil })
			return err
		}
		return cause
	}
	if err != nil {
		return w.fail(mcp.AsError(err))
	}
	return w.take(answer)
}

// sendContext is the context of a request. One that must not be made twice goes on
// when the turn is handed over: its answer would be lost with it.
func (w *work) sendContext() (context.Context, func()) {
	if w.call.mayRepeat() {
		return context.WithCancel(w.ctx)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(w.ctx))
	stop := context.AfterFunc(w.ctx, func() {
		if cause := context.Cause(w.ctx); !errors.Is(cause, agent.ErrHandedOver) {
			cancel(cause)
		}
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// exchange sends a request and returns the response. Where nobody knows what has
// become of it, it is sent again if that does no harm.
func (w *work) exchange(ctx context.Context, m *mcp.Message) (*mcp.Message, error) {
	for try := 1; ; try++ {
		answer, err := w.once(ctx, m)
		if err == nil || !errors.Is(err, upstream.ErrOutcomeUnknown) || !w.call.mayRepeat() || try > repeats {
			return answer, err
		}
		if !pause(ctx, backoff(try)) {
			return nil, err
		}
	}
}

func (w *work) once(ctx context.Context, m *mcp.Message) (*mcp.Message, error) {
	server, ok := w.calls.server(w.caller.server)
	if !ok {
		return nil, &upstream.Error{
			Server: w.server, Kind: upstream.ErrUnavailable,
			Reply: mcp.Errorf(mcp.CodeUnavailable, "There is no server %s any more", w.server),
		}
	}
	answer, err := server.Do(ctx, &upstream.Request{Message: m, Header: w.call.Header, Caller: w.call.principal(), Timeout: time.Duration(w.call.Timeout) * time.Millisecond})
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Close() }() // there is nobody to tell
	for {
		next, err := answer.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, &upstream.Error{
				Server: w.server, Kind: upstream.ErrOutcomeUnknown,
				Reply: mcp.Errorf(mcp.CodeOutcomeUnknown, "The server has ended its answer before the result"),
			}
		case err != nil:
			return nil, err
		case next.IsResponse():
			return mcp.Scan(append([]byte(nil), next.Body...), mcp.Limits{})
		case next.Method == mcp.NotifyProgress:
			w.progress(next)
		}
	}
}

// betweenProgress is how long the status of a task stays at least before more
// progress is told.
const betweenProgress = time.Second

// progress makes a status of what a server says of its progress. It is told in a
// status, since tasks have no progress of their own (TSK-17).
func (w *work) progress(m *mcp.Message) {
	text := m.ParamString("message")
	if text == "" {
		value, total := m.Param("progress"), m.Param("total")
		if value.Kind() != '0' {
			return
		}
		text = string(value)
		if total.Kind() == '0' {
			text += " of " + string(total)
		}
	}
	w.say(text)
}

func (w *work) say(text string) {
	if time.Since(w.spoke) < betweenProgress {
		return
	}
	w.spoke = time.Now()
	_ = w.turn.Working(short(text, maxShown)) // the turn's end is heard of elsewhere
}

// take does what a response says.
func (w *work) take(m *mcp.Message) error {
	if e := m.Text(m.Err); e != nil {
		return w.failWith(e)
	}
	switch m.ResultType {
	case mcp.ResultComplete:
		return w.complete(m.Text(m.Result))
	case mcp.ResultInputRequired:
		return w.inputRequired(m)
	case mcp.ResultTask:
		id := m.ParamString("taskId")
		if id == "" {
			return w.fail(mcp.Errorf(mcp.CodeBadAnswer, "The server has answered with a task that has no id"))
		}
		w.state.Stage, w.state.Task, w.state.Since, w.state.Inputs = stageFollowing, id, time.Now(), nil
		if err := w.save(); err != nil { // before anything else is done with it
			return err
		}
		return w.follow(pollOf(m))
	}
	return w.fail(mcp.Errorf(mcp.CodeBadAnswer, "The server has answered with a result that is not understood")) // BAS-13
}

// complete ends the task with the result of the server.
func (w *work) complete(result jsontext.Value) error { return w.rim.complete(w, result) }

// fail ends the task with an error of JSON-RPC (TSK-08).
func (w *work) fail(e *mcp.Error) error {
	list := []member{{"code", jsontext.Value(strconv.Itoa(e.Code))}, {"message", quoted(e.Message)}, {"data", e.Data}}
	return w.failWith(object(list))
}

func (w *work) failWith(e jsontext.Value) error {
	text := short(textOf(e, "message"), maxShown)
	if text == "" {
		text = "The server has refused the call"
	}
	return w.rim.fail(w, e, text)
}

// inputRequired asks the client what the server asks for.
func (w *work) inputRequired(m *mcp.Message) error {
	requests, _ := membersOf(m.Param("inputRequests"))
	w.state.RequestState = m.Param("requestState").Clone()
	if len(requests) == 0 && w.state.RequestState == nil {
		return w.fail(mcp.Errorf(mcp.CodeBadAnswer, "The server asks for something, and does not say what")) // MRT-01
	}
	w.state.Stage = stageAsked
	w.state.asked(requests)
	if len(requests) == 0 { // it wants the request again, with its state
		return w.again()
	}
	return w.ask()
}

// ask asks for what is still open. People see the same in the inbox.
func (w *work) ask() error {
	if err := w.setState(); err != nil {
		return err
	}
	return w.rim.ask(w, w.state.open())
}

// questionOf is what requests for input say to people.
func questionOf(open []input) string {
	text := ""
	for _, in := range open {
		params := valueOf(in.Request, "params")
		message := textOf(params, "message")
		if message == "" {
			message = "The server asks for " + textOf(in.Request, "method")
		}
		if url := textOf(params, "url"); url != "" {
			message += "\n" + url
		}
		if text != "" {
			text += "\n"
		}
		text += short(message, maxShown)
	}
	return text
}

// schemaOf is the schema of the answer to a single form, nil for anything else, or
// one that is no form.
func schemaOf(open []input) a2a.JSON {
	if len(open) != 1 || textOf(open[0].Request, "method") != mcp.MethodElicit {
		return nil
	}
	schema := valueOf(valueOf(open[0].Request, "params"), "requestedSchema")
	if schema == nil {
		return nil
	}
	if _, err := form.New(schema); err != nil {
		return nil
	}
	return a2a.JSON(schema)
}

// answered goes on when messages have come in.
func (w *work) answered() error {
	w.read()
	if len(w.state.open()) > 0 {
		return w.ask()
	}
	return w.again()
}

// again makes the request again, with the answers.
func (w *work) again() error {
	m, err := w.call.message(w.turn.TaskID)
	if err != nil {
		return err
	}
	w.state.Round++
	if w.state.Round > maxRounds {
		return w.fail(mcp.Errorf(mcp.CodeBadAnswer, "The server has asked %d times", maxRounds))
	}
	return w.make(w.state.retry(m))
}

// maxRounds bounds how often one call may ask.
const maxRounds = 100

// read takes the answers in the messages of the turn: those that came as answers
// by their keys, and what a person has answered to a single form.
func (w *work) read() {
	for i := range w.turn.Messages {
		m := &w.turn.Messages[i]
		if valueOf(jsontext.Value(m.Metadata), metaResponses) != nil {
			for j := range m.Parts {
				if list, ok := membersOf(jsontext.Value(m.Parts[j].Data)); ok && m.Parts[j].Kind == a2a.PartData {
					w.state.answer(list)
				}
			}
			continue
		}
		open := w.state.open()
		if len(open) > 1 && w.state.Call == nil { // several at once, each under its key
			for j := range m.Parts {
				list, _ := membersOf(jsontext.Value(m.Parts[j].Data))
				for _, r := range list {
					if r.value.Kind() == '{' {
						w.state.answer([]member{{r.name, accepted(r.value)}})
					}
				}
			}
			continue
		}
		if len(open) == 1 || len(open) > 0 && w.state.Call != nil { // an agent asks for one after the other
			if answer := inWords(&open[0], m); answer != nil {
				w.state.answer([]member{{open[0].Key, answer}})
			}
		}
	}
}

// inWords is what a message of a person answers to a request for input, nil when
// it does not fit.
func inWords(in *input, m *a2a.Message) jsontext.Value {
	if textOf(in.Request, "method") != mcp.MethodElicit {
		return nil
	}
	params := valueOf(in.Request, "params")
	if textOf(params, "mode") == "url" {
		return jsontext.Value(`{"action":"accept"}`)
	}
	for i := range m.Parts {
		if m.Parts[i].Kind == a2a.PartData {
			return accepted(jsontext.Value(m.Parts[i].Data))
		}
	}
	schema := valueOf(params, "requestedSchema")
	properties, _ := membersOf(valueOf(schema, "properties"))
	if len(properties) != 1 {
		return nil
	}
	f, err := form.New(schema)
	if err != nil || len(f.Fields) != 1 {
		return nil
	}
	value, err := f.Fields[0].Read([]string{m.Text()})
	if err != nil || value == nil {
		return nil
	}
	return accepted(object([]member{{properties[0].name, value}}))
}

func accepted(content jsontext.Value) jsontext.Value {
	return object([]member{{"action", jsontext.Value(`"accept"`)}, {"content", content}})
}

// pause waits, and reports false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// backoff is how long to wait after a number of failures.
func backoff(failures int) time.Duration {
	d := min(retryPoll<<min(failures-1, 10), maxPoll)
	return d/2 + rand.N(d/2)
}

// pollOf is how often a server wants its task to be looked at; 0: it does not say.
func pollOf(m *mcp.Message) time.Duration {
	var ms float64
	if v := m.Param("pollIntervalMs"); v.Kind() != '0' || json.Unmarshal(v, &ms) != nil || ms <= 0 {
		return 0
	}
	return min(max(time.Duration(min(ms, 1e9))*time.Millisecond, minPoll), maxPoll)
}
