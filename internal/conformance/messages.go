package conformance

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"handoff.example/handoff/a2a"
)

// message returns a message with the text that is sent.
func (p *probe) message(change object) object {
	m := object{"messageId": uuid.NewString(), "role": "ROLE_USER", "parts": []any{object{"text": p.run.opts.Text}}}
	for name, v := range change {
		if v == nil {
			delete(m, name)
		} else {
			m[name] = v
		}
	}
	return m
}

// send sends a message and looks at what comes. Tasks that still run are kept, to
// be canceled at the end.
func (p *probe) send(ctx context.Context, message object, immediately bool) *answer {
	c := &call{op: opSend, params: object{"message": message}, limit: p.run.opts.TaskTimeout}
	if immediately {
		c.params["configuration"] = object{"returnImmediately": true}
	}
	a := p.do(ctx, c)
	if a.result != nil && a.fault == nil {
		p.look("response", a.result, sendShape)
		p.keepRunning(taskOf(a.result))
	}
	return a
}

func (p *probe) keepRunning(task object) {
	if id := text(task["id"]); id != "" && !isOver(stateOf(task)) && !slices.Contains(p.running, id) {
		p.running = append(p.running, id)
	}
}

// taskOf returns the task of an answer, which is a task itself or has one.
func taskOf(result any) object {
	if task, ok := member(result, "task").(object); ok {
		return task
	}
	if o, ok := result.(object); ok && o["status"] != nil {
		return o
	}
	return nil
}

func stateOf(task object) string { return text(member(task["status"], "state")) }

// isOver reports whether a state is a terminal one (A2A §4.1.3).
func isOver(state string) bool {
	switch state {
	case "TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED":
		return true
	}
	return false
}

// waits reports whether a state is one in which the agent waits for the client.
func waits(state string) bool {
	return state == "TASK_STATE_INPUT_REQUIRED" || state == "TASK_STATE_AUTH_REQUIRED"
}

func checkSendInvalid(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.send(ctx, p.message(object{"parts": []any{}}), true), a2a.CodeInvalidParams)
}

func checkSendUnknownTask(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.send(ctx, p.message(object{"taskId": unknownID()}), true), a2a.CodeTaskNotFound)
}

func checkSendExtension(ctx context.Context, p *probe, f *finding) {
	requires := slices.ContainsFunc(p.run.card.Capabilities.Extensions, func(e a2a.AgentExtension) bool { return e.Required })
	if !requires {
		f.skip("the card requires no extension")
		return
	}
	a := p.do(ctx, &call{op: opSend, params: object{"message": p.message(nil)}, noExtensions: true, limit: p.run.opts.TaskTimeout})
	a.sent += " without A2A-Extensions"
	p.keepRunning(taskOf(a.result))
	p.expect(f, a, a2a.CodeExtensionSupportRequired)
}

func checkSendBlocking(ctx context.Context, p *probe, f *finding) {
	a := p.send(ctx, p.message(nil), false)
	if a.timeout && !a.cut {
		p.silent = 0 // a task may take its time
		f.exchange(a)
		f.skip("the task was not over within %s; give it more time", p.run.opts.TaskTimeout)
		return
	}
	if !p.accepted(f, a) {
		return
	}
	task := taskOf(a.result)
	if task == nil {
		if _, p.plain = member(a.result, "message").(object); !p.plain {
			f.broken("there is neither a task nor a message")
		}
		return
	}
	switch state := stateOf(task); {
	case isOver(state):
		p.done = task
		p.context = text(task["contextId"])
	case waits(state):
		p.waiting = task
	default:
		f.broken("the task is %s and neither over nor waiting", state)
	}
}

// withTask reports whether there is a task that is over, and settles the finding
// when there is none.
func (p *probe) withTask(f *finding) bool {
	switch {
	case p.done != nil:
		return true
	case p.plain:
		f.skip("the agent answers with messages, without tasks")
	default:
		f.skip("there is no task that is over")
	}
	return false
}

func checkSendIDs(_ context.Context, p *probe, f *finding) {
	task := p.done
	if task == nil {
		task = p.waiting
	}
	if task == nil {
		p.withTask(f)
		return
	}
	f.Seen = "task " + shorten(text(task["id"]), 80) + ", context " + shorten(text(task["contextId"]), 80)
	switch {
	case text(task["id"]) == "":
		f.broken("the task has no id")
	case text(task["contextId"]) == "":
		f.broken("the task has no contextId")
	}
}

// checkSendImmediate compares with how long the agent may take. Its task, when it
// still runs, is what later checks subscribe to and cancel.
func checkSendImmediate(ctx context.Context, p *probe, f *finding) {
	if p.plain {
		f.skip("the agent answers with messages, without tasks")
		return
	}
	a := p.send(ctx, p.message(nil), true)
	if a.timeout && !a.cut {
		f.exchange(a)
		f.broken("no answer within %s", p.run.opts.TaskTimeout)
		return
	}
	if !p.accepted(f, a) {
		return
	}
	task := taskOf(a.result)
	switch {
	case task == nil:
		if _, ok := member(a.result, "message").(object); !ok {
			f.broken("there is neither a task nor a message")
		}
	case a.took > p.run.opts.CallTimeout:
		f.broken("the answer took %s", a.took.Round(time.Millisecond))
	}
}

// runningTask returns a task that still runs, beginning one where there is none.
func (p *probe) runningTask(ctx context.Context) string {
	if p.plain {
		return ""
	}
	if len(p.running) == 0 {
		p.send(ctx, p.message(nil), true)
	}
	if len(p.running) == 0 {
		return ""
	}
	return p.running[len(p.running)-1]
}

const noneRuns = "the agent's tasks are over at once; send a text that keeps it busy"

func checkSubscribeFirst(ctx context.Context, p *probe, f *finding) {
	id := p.runningTask(ctx)
	if id == "" {
		f.skip(noneRuns)
		return
	}
	a := p.do(ctx, &call{op: opSubscribe, params: object{"id": id}, each: func(any) bool { return false }})
	if !p.answered(f, a) {
		return
	}
	switch {
	case a.fault != nil && p.isOver(ctx, id):
		f.skip(noneRuns)
	case a.fault != nil:
		f.broken("a task that runs cannot be subscribed to")
	case a.malformed != "":
		f.broken("%s", a.malformed)
	case !a.streamed:
		f.broken("it is no stream")
	case len(a.events) == 0:
		f.broken("there is no event")
	default:
		p.look("event", a.events[0], streamShape)
		if task, ok := member(a.events[0], "task").(object); !ok || text(task["id"]) != id {
			f.broken("the first event is %s and not the task", summarize(a.events[0]))
		}
	}
}

// isOver asks whether a task is over by now.
func (p *probe) isOver(ctx context.Context, id string) bool {
	a := p.do(ctx, &call{op: opGet, params: object{"id": id}})
	over := isOver(stateOf(taskOf(a.result)))
	if over {
		p.stopped(id)
	}
	return over
}

func (p *probe) stopped(id string) {
	p.running = slices.DeleteFunc(p.running, func(other string) bool { return other == id })
}

func checkCancelRunning(ctx context.Context, p *probe, f *finding) {
	id := p.runningTask(ctx)
	if id == "" {
		f.skip(noneRuns)
		return
	}
	a := p.do(ctx, &call{op: opCancel, params: object{"id": id}})
	if !p.answered(f, a) {
		return
	}
	if a.fault != nil {
		if p.expect(f, a, a2a.CodeTaskNotCancelable, a2a.CodeUnsupportedOperation) {
			p.isOver(ctx, id)
		}
		return
	}
	if !p.accepted(f, a) {
		return
	}
	task := taskOf(a.result)
	if text(task["id"]) != id {
		f.broken("the answer is not the task")
		return
	}
	p.look("task", task, taskShape)
	if isOver(stateOf(task)) {
		p.stopped(id)
		if p.done == nil {
			p.done, p.context = task, text(task["contextId"])
		}
		p.canceled = id
	}
}

// checkCancelAgain takes both readings: canceling is idempotent (A2A §3.3.1), and
// a task that is over is not cancelable (§3.1.5).
func checkCancelAgain(ctx context.Context, p *probe, f *finding) {
	if p.canceled == "" {
		f.skip("no task was canceled")
		return
	}
	a := p.do(ctx, &call{op: opCancel, params: object{"id": p.canceled}})
	if !p.answered(f, a) {
		return
	}
	if a.fault != nil {
		p.expect(f, a, a2a.CodeTaskNotCancelable, a2a.CodeTaskNotFound)
		return
	}
	if state := stateOf(taskOf(a.result)); state != "TASK_STATE_CANCELED" {
		f.broken("the task is %s", state)
	}
}

func checkRepeated(ctx context.Context, p *probe, f *finding) {
	if p.plain {
		f.skip("the agent answers with messages, without tasks")
		return
	}
	message := p.message(nil)
	first := p.send(ctx, message, true)
	if !p.accepted(f, first) {
		return
	}
	second := p.send(ctx, message, true)
	if !p.answered(f, second) {
		return
	}
	one, two := text(taskOf(first.result)["id"]), text(taskOf(second.result)["id"])
	switch {
	case second.fault != nil:
		f.pass("it refuses the second one: " + second.describe())
	case one != "" && one == two:
		f.pass("it does: both are the same task")
	default:
		f.pass("it does not: there are two tasks, so that clients must not repeat a message whose answer they have lost")
	}
}

func checkContextKept(ctx context.Context, p *probe, f *finding) {
	if p.context == "" {
		f.skip("there is no context")
		return
	}
	a := p.send(ctx, p.message(object{"contextId": p.context}), true)
	if !p.answered(f, a) {
		return
	}
	if a.fault != nil {
		return // it may refuse
	}
	got := text(taskOf(a.result)["contextId"])
	if message, ok := member(a.result, "message").(object); ok {
		got = text(message["contextId"])
	}
	if got != p.context {
		f.broken("the answer is in the context %q", shorten(got, 80))
	}
}

func checkContextMismatch(ctx context.Context, p *probe, f *finding) {
	if p.waiting == nil {
		f.skip("no task waits for input; send a text that the agent asks about")
		return
	}
	a := p.send(ctx, p.message(object{"taskId": p.waiting["id"], "contextId": unknownID()}), true)
	if p.answered(f, a) && a.fault == nil {
		f.broken("it was taken")
	}
}

// get returns a task.
func (p *probe) get(ctx context.Context, params object) *answer {
	a := p.do(ctx, &call{op: opGet, params: params})
	if a.fault == nil && a.malformed == "" && a.result != nil {
		p.look("task", a.result, taskShape)
	}
	return a
}

func checkGetSame(ctx context.Context, p *probe, f *finding) {
	if !p.withTask(f) {
		return
	}
	a := p.get(ctx, object{"id": p.done["id"]})
	if !p.accepted(f, a) {
		return
	}
	p.same(f, a, p.done)
}

// same compares what a task came to.
func (p *probe) same(f *finding, a *answer, before object) {
	now := taskOf(a.result)
	switch {
	case now == nil:
		f.broken("the answer is no task")
	case text(now["id"]) != text(before["id"]):
		f.broken("it is another task")
	case text(now["contextId"]) != text(before["contextId"]):
		f.broken("the contextId is %q and was %q", shorten(text(now["contextId"]), 60), shorten(text(before["contextId"]), 60))
	case stateOf(now) != stateOf(before):
		f.broken("the state is %s and was %s", stateOf(now), stateOf(before))
	case !reflect.DeepEqual(artifactIDs(now), artifactIDs(before)):
		f.broken("the artifacts are %v and were %v", artifactIDs(now), artifactIDs(before))
	}
}

// artifactIDs returns the ids of a task's artifacts.
func artifactIDs(task object) []string {
	list, _ := task["artifacts"].([]any)
	ids := []string{}
	for _, v := range list {
		ids = append(ids, shorten(text(member(v, "artifactId")), 60))
	}
	return ids
}

func checkSameOverBindings(ctx context.Context, p *probe, f *finding) {
	first := p.run.first
	switch {
	case first == nil:
		f.skip("no interface before this one has a task")
		return
	case first.iface.Tenant != p.iface.Tenant && !isOneOf(a2a.BindingGRPC, first.iface.ProtocolBinding, p.iface.ProtocolBinding):
		f.skip("the interface is that of another tenant")
		return
	}
	a := p.get(ctx, object{"id": first.done["id"]})
	if !p.accepted(f, a) {
		return
	}
	p.same(f, a, first.done)
}

func checkHistory(limit int) func(context.Context, *probe, *finding) {
	return func(ctx context.Context, p *probe, f *finding) {
		if !p.withTask(f) {
			return
		}
		a := p.get(ctx, object{"id": p.done["id"], "historyLength": limit})
		if !p.accepted(f, a) {
			return
		}
		if history, _ := member(a.result, "history").([]any); len(history) > limit {
			f.broken("%d messages", len(history))
		}
	}
}

func checkListContext(ctx context.Context, p *probe, f *finding) {
	if !p.withTask(f) {
		return
	}
	if p.unlisted && !p.byContext || p.context == "" {
		f.skip("tasks cannot be listed")
		return
	}
	a := p.list(ctx, object{"contextId": p.context, "pageSize": 50})
	if !p.accepted(f, a) {
		return
	}
	found := false
	for _, task := range tasksOf(a) {
		found = found || task["id"] == p.done["id"]
		if text(task["contextId"]) != p.context {
			f.broken("a task of another context is there")
			return
		}
	}
	if !found {
		f.broken("the task is not there")
	}
}

func checkListArtifacts(ctx context.Context, p *probe, f *finding) {
	switch {
	case !p.withTask(f):
		return
	case p.unlisted && !p.byContext || p.context == "":
		f.skip("tasks cannot be listed")
		return
	case len(artifactIDs(p.done)) == 0:
		f.skip("the task has no artifact")
		return
	}
	a := p.list(ctx, object{"contextId": p.context, "pageSize": 50, "includeArtifacts": true})
	if !p.accepted(f, a) {
		return
	}
	for _, task := range tasksOf(a) {
		if task["id"] == p.done["id"] && len(artifactIDs(task)) == 0 {
			f.broken("the task is there without its artifacts")
		}
	}
}

func checkSendClosed(ctx context.Context, p *probe, f *finding) {
	if p.withTask(f) {
		p.expect(f, p.send(ctx, p.message(object{"taskId": p.done["id"]}), true), a2a.CodeUnsupportedOperation)
	}
}

func checkCancelClosed(ctx context.Context, p *probe, f *finding) {
	switch {
	case !p.withTask(f):
	case stateOf(p.done) == "TASK_STATE_CANCELED":
		f.skip("the only task that is over was canceled, and canceling once more may be answered with it")
	default:
		p.expect(f, p.do(ctx, &call{op: opCancel, params: object{"id": p.done["id"]}}), a2a.CodeTaskNotCancelable)
	}
}

func checkSubscribeClosed(ctx context.Context, p *probe, f *finding) {
	if p.withTask(f) {
		p.expect(f, p.do(ctx, &call{op: opSubscribe, params: object{"id": p.done["id"]}}), a2a.CodeUnsupportedOperation)
	}
}
