package mcpgw

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// keep makes a call that survives a crash.
func (x *exchange) keep(c *call, terms *Terms) {
	caps := x.message.Capabilities()
	task, err := x.h.opts.Calls.Start(x.ctx(), x.kept(c, terms, x.request(c, terms), ""))
	if err != nil {
		x.refuseAny(err)
		return
	}
	out := x.open()
	defer out.close()
	if caps.Tasks && !x.old {
		wait := x.h.opts.Wait
		switch {
		case terms.Task:
			wait = terms.TaskAfter
		case terms.Approve != "":
			wait = 0
		}
		if task = x.await(task, wait, false); task != nil {
			x.tellTask(task)
		}
		return
	}
	x.awaitKept(c, terms, task)
}

// kept is a call as Calls keep it.
func (x *exchange) kept(c *call, terms *Terms, request *upstream.Request, upstreamTask string) *Call {
	return &Call{
		Endpoint: x.view.Endpoint.Path(), Server: c.target.Server.Name(), Tool: c.target.Name, Exposed: c.target.Exposed,
		Caller: &x.caller, Request: request, Capabilities: x.message.Capabilities(), Terms: terms, TTL: x.h.opts.TaskTTL, UpstreamTask: upstreamTask,
	}
}

// agentsServer is the server in this process whose tools are agents and peers.
const agentsServer = "agents"

// adopt makes a task of the server one of the gateway's (TSK-21).
func (x *exchange) adopt(c *call, terms *Terms, request *upstream.Request, m *mcp.Message) {
	if c.target.Server.Name() == agentsServer { // whose tasks are known already
		x.outcome = "task"
		x.out.last(http.StatusOK, m.Body)
		return
	}
	id := m.ParamString("taskId")
	if id == "" {
		x.refuse(&mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server has answered with a task that has no id"})
		return
	}
	task, err := x.h.opts.Calls.Start(x.ctx(), x.kept(c, terms, request, id))
	if err != nil {
		x.refuseAny(err)
		return
	}
	if x.carries() {
		x.awaitKept(c, terms, task)
		return
	}
	x.tellTask(task)
}

// await waits for a task that long, and tells the client of its progress. It returns
// nil when the request is over.
func (x *exchange) await(task *mcp.Task, wait time.Duration, progress bool) *mcp.Task {
	if task.Terminal() || wait <= 0 {
		return task
	}
	ctx, cancel := context.WithTimeout(x.ctx(), wait)
	defer cancel()
	if token := x.message.MetaValue(mcp.MetaProgress); progress && token != nil {
		stop := x.tellProgress(ctx, task.ID, token)
		defer stop()
	}
	task, err := x.h.opts.Calls.Await(ctx, &x.caller, task.ID)
	if err != nil {
		x.refuseAny(err)
		return nil
	}
	return task
}

// tellProgress tells a client that waits what the task says of itself (CAN-04). Stop
// returns when nothing more is told.
func (x *exchange) tellProgress(ctx context.Context, id string, token jsontext.Value) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	news, err := x.h.opts.Calls.Watch(ctx, &x.caller, id)
	if err != nil {
		return cancel
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n := 0
		for task := range news {
			if task.Terminal() || task.StatusMessage == "" {
				continue
			}
			n++
			body := append([]byte(`{"jsonrpc":"2.0","method":"`+mcp.NotifyProgress+`","params":{"progressToken":`), token...)
			body = strconv.AppendInt(append(body, `,"progress":`...), int64(n), 10)
			body = mustQuote(append(body, `,"message":`...), task.StatusMessage)
			if x.out.event(append(body, "}}"...)) != nil {
				break
			}
		}
		cancel()
		for range news { //nolint:revive // until it is closed
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// tellTask answers with a task, or with its result when it is over already.
func (x *exchange) tellTask(task *mcp.Task) {
	switch {
	case task.Terminal():
		x.tellEnd(task)
	default:
		x.outcome = "task"
		x.answer(task.AppendJSON(nil, mcp.ResultTask))
	}
}

// tellEnd answers a call with what it has come to.
func (x *exchange) tellEnd(task *mcp.Task) {
	switch task.Status {
	case mcp.TaskCompleted:
		body := mcp.AppendResult(nil, x.messageID(), task.Result)
		if m, err := mcp.Scan(body, mcp.Limits{Depth: 1 << 20}); err == nil {
			x.outcome = outcomeOf(m)
			body = x.downTo(m)
		}
		x.reply(body)
	case mcp.TaskFailed:
		x.refuse(mcp.ParseError(task.Error))
	default:
		x.refuse(&mcp.Error{Code: mcp.CodeDenied, Message: "The call was canceled"})
	}
}

// keptPrefix begins a requestState that names a kept call.
const keptPrefix = "handoff-call:"

// keptState returns the task that a retry is about. Whose it is is checked where it
// is looked up (MRT-03, SEC-04).
func keptState(m *mcp.Message) (id string, ours bool) {
	return strings.CutPrefix(m.ParamString("requestState"), keptPrefix)
}

// resumeKept takes the answers to what a kept call has asked.
func (x *exchange) resumeKept(c *call, terms *Terms, state string) {
	id, name, _ := strings.Cut(state, ":")
	if x.h.opts.Calls == nil || name != c.target.Exposed { // MRT-07
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "The requestState belongs to another call"))
		return
	}
	responses := x.message.Param("inputResponses")
	if responses != nil && responses.Kind() != '{' {
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "inputResponses is no object")) // MRT-06
		return
	}
	if responses != nil {
		if err := x.h.opts.Calls.Update(x.ctx(), &x.caller, id, responses); err != nil {
			x.refuseAny(err)
			return
		}
	}
	task, err := x.h.opts.Calls.Get(x.ctx(), &x.caller, id)
	if err != nil {
		x.refuseAny(err)
		return
	}
	out := x.open()
	defer out.close()
	x.awaitKept(c, terms, task)
}

// awaitKept waits for a kept call in place of a client that knows no tasks, as long
// as such a client may be let wait.
func (x *exchange) awaitKept(c *call, terms *Terms, task *mcp.Task) {
	wait := x.h.opts.Wait
	if terms.HandleAfter > 0 {
		wait = min(wait, terms.HandleAfter)
	}
	asked := map[string]bool{}
	for {
		if task = x.await(task, wait, true); task == nil {
			return
		}
		if !x.old || task.Status != mcp.TaskInputRequired || !x.answersInputs(task) {
			break
		}
		var err error
		if task, err = x.askKept(task, asked); err != nil {
			x.refuseAny(err)
			return
		}
	}
	switch {
	case task.Terminal():
		x.tellEnd(task)
	case task.Status == mcp.TaskInputRequired && x.answersInputs(task):
		x.outcome = "input required"
		result := append([]byte(`{"resultType":"input_required","inputRequests":`), task.InputRequests...)
		result = mustQuote(append(result, `,"requestState":`...), keptPrefix+task.ID+":"+c.target.Exposed)
		x.answer(append(result, '}'))
	case terms.HandleAfter > 0, terms.Approve != "" && terms.Key == "" && !c.target.hasOutput():
		x.outcome = "handle"
		x.answer(handleResult(task))
	case terms.Approve != "":
		x.refuse(mcp.Errorf(mcp.CodeApprovalPending, "A person has to approve the call, and has not decided yet; call again with the same arguments and idempotency key to hear of it"))
	default:
		x.refuse(mcp.Errorf(mcp.CodeTimeout, "The call is still going on; call again with the same arguments and idempotency key to hear of it"))
	}
}

// answersInputs reports whether the client can answer what a task asks.
func (x *exchange) answersInputs(task *mcp.Task) bool {
	caps := x.message.Capabilities()
	return task.InputRequests != nil && (caps.ElicitForm || caps.ElicitURL || caps.Sampling || caps.Roots)
}

// handleResult is what a client gets that knows no tasks: a handle for check_task,
// answer_task and cancel_task.
func handleResult(task *mcp.Task) jsontext.Value {
	structured := mustQuote([]byte(`{"taskId":`), task.ID)
	structured = mustQuote(append(structured, `,"status":`...), task.Status)
	if task.StatusMessage != "" {
		structured = mustQuote(append(structured, `,"statusMessage":`...), task.StatusMessage)
	}
	structured = append(structured, '}')
	text := "The call goes on as the task " + task.ID + " (" + task.Status + "). Ask for it with check_task; answer what it asks with answer_task; give it up with cancel_task."
	if task.StatusMessage != "" {
		text += " It says: " + task.StatusMessage
	}
	out := mustQuote([]byte(`{"resultType":"complete","content":[{"type":"text","text":`), text)
	out = append(append(out, `}],"structuredContent":`...), structured...)
	return append(out, '}')
}

// task answers the methods of the tasks extension (section 10 of the requirements).
func (x *exchange) task(m *mcp.Message) {
	if x.h.opts.Calls == nil {
		x.refuse(mcp.Errorf(mcp.CodeMethodNotFound, "There are no tasks here"))
		return
	}
	if !m.Capabilities().Tasks { // TSK-12
		x.refuse(mcp.MissingTasks())
		return
	}
	id := m.NameValue()
	if id == "" {
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "The taskId is missing, or no string"))
		return
	}
	const done = `{"resultType":"complete"}`
	switch m.Method {
	case mcp.MethodGetTask: // TSK-07
		task, err := x.h.opts.Calls.Get(x.ctx(), &x.caller, id)
		if err != nil {
			x.refuseAny(err)
			return
		}
		x.answer(task.AppendJSON(nil, mcp.ResultComplete))
	case mcp.MethodUpdateTask: // TSK-09
		responses := m.Param("inputResponses")
		if responses.Kind() != '{' {
			x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "inputResponses is missing, or no object"))
			return
		}
		x.answerOf(jsontext.Value(done), x.h.opts.Calls.Update(x.ctx(), &x.caller, id, responses))
	case mcp.MethodCancelTask: // TSK-11
		x.answerOf(jsontext.Value(done), x.h.opts.Calls.Cancel(x.ctx(), &x.caller, id))
	}
}

// hasOutput reports whether the results of a tool have a schema, which a handle does
// not fit (TOL-07).
func (t *Target) hasOutput() bool {
	var tool struct {
		Output jsontext.Value `json:"outputSchema"`
	}
	return json.Unmarshal(t.Definition, &tool) != nil || len(tool.Output) > 0
}
