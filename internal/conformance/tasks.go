package conformance

import (
	"context"
	"slices"
	"time"

	"handoff.example/handoff/a2a"
)

func checkUnknownTask(op string) func(context.Context, *probe, *finding) {
	return func(ctx context.Context, p *probe, f *finding) {
		p.expect(f, p.do(ctx, &call{op: op, params: object{"id": unknownID()}}), a2a.CodeTaskNotFound)
	}
}

// streams reports whether the card declares streaming.
func (p *probe) streams() bool { return isTrue(p.run.card.Capabilities.Streaming) }

// pushes reports whether the card declares webhooks.
func (p *probe) pushes() bool { return isTrue(p.run.card.Capabilities.PushNotifications) }

// extends reports whether the card declares an extended one.
func (p *probe) extends() bool { return isTrue(p.run.card.Capabilities.ExtendedAgentCard) }

func isTrue(b *bool) bool { return b != nil && *b }

// capability is one that a card declares or does not.
type capability struct {
	name string
	has  func(*probe) bool
}

var (
	streaming = capability{"streaming", (*probe).streams}
	webhooks  = capability{"webhooks", (*probe).pushes}
	extended  = capability{"an extended one", (*probe).extends}
)

type interfaceCheck func(context.Context, *probe, *finding)

// with has a check run where the card declares the capability.
func (c capability) with(run interfaceCheck) interfaceCheck {
	return func(ctx context.Context, p *probe, f *finding) {
		if !c.has(p) {
			f.skip("the card does not declare %s", c.name)
			return
		}
		run(ctx, p, f)
	}
}

// without has a check run where the card does not declare the capability.
func (c capability) without(run interfaceCheck) interfaceCheck {
	return func(ctx context.Context, p *probe, f *finding) {
		if c.has(p) {
			f.skip("the card declares it")
			return
		}
		run(ctx, p, f)
	}
}

// listing has a check run where tasks can be listed.
func listing(run interfaceCheck) interfaceCheck {
	return func(ctx context.Context, p *probe, f *finding) {
		if p.unlisted {
			f.skip("tasks cannot be listed")
			return
		}
		run(ctx, p, f)
	}
}

// page lists tasks, and reports false when the finding is settled since there is no
// list.
func (p *probe) page(ctx context.Context, f *finding, params object) ([]object, bool) {
	a := p.list(ctx, params)
	if !p.accepted(f, a) {
		return nil, false
	}
	return tasksOf(a), true
}

func checkSubscribeUnknown(ctx context.Context, p *probe, f *finding) {
	a := p.do(ctx, &call{op: opSubscribe, params: object{"id": unknownID()}})
	if p.expect(f, a, a2a.CodeTaskNotFound) && a.streamed && mediaType(a.header) == mediaEvents {
		p.observed.add(errorInfo, "%s: the refusal is an event of a stream", a.op)
	}
}

// list calls ListTasks.
func (p *probe) list(ctx context.Context, params object) *answer {
	a := p.do(ctx, &call{op: opList, params: params})
	if a.fault == nil && a.malformed == "" && a.result != nil {
		p.look("list", a.result, listShape)
	}
	return a
}

// tasksOf returns the tasks of a list.
func tasksOf(a *answer) []object {
	list, _ := member(a.result, "tasks").([]any)
	var tasks []object
	for _, v := range list {
		if o, ok := v.(object); ok {
			tasks = append(tasks, o)
		}
	}
	return tasks
}

func checkList(ctx context.Context, p *probe, f *finding) {
	a := p.list(ctx, object{"pageSize": 50})
	if !p.answered(f, a) {
		p.unlisted = true
		return
	}
	if a.fault != nil {
		p.unlisted = true
		p.checkUnlisted(f, a)
		return
	}
	if !p.accepted(f, a) || p.shape.binary {
		return // protobuf leaves out zeros
	}
	for _, name := range []string{"tasks", "nextPageToken", "pageSize", "totalSize"} {
		if _, ok := member(a.result, name).([]any); name == "tasks" && !ok {
			f.broken("there is no array %s", name)
		}
		if v, ok := a.result.(object)[name]; !ok || v == nil {
			f.broken("there is no %s", name)
		}
	}
}

// checkUnlisted judges the refusal of a list: an agent may not have the operation,
// and may show callers whom it does not know a context only that they can name.
func (p *probe) checkUnlisted(f *finding, a *answer) {
	must, _ := p.binding.wrong(a, a2a.CodeUnsupportedOperation)
	switch {
	case len(must) == 0:
		f.pass("the agent has no lists: " + a.describe())
	case p.run.opts.Client.Credentials == nil && slices.Contains(a.fault.fields, "contextId"):
		p.byContext = true
		f.skip("the agent lists contexts only to callers without credentials")
	default:
		f.broken("tasks cannot be listed")
	}
}

func checkPaging(ctx context.Context, p *probe, f *finding) {
	a := p.list(ctx, object{"pageSize": 1})
	if !p.accepted(f, a) {
		return
	}
	tasks := tasksOf(a)
	token := text(member(a.result, "nextPageToken"))
	switch {
	case len(tasks) > 1:
		f.broken("%d tasks in a page of one", len(tasks))
		return
	case token == "":
		f.pass("there is one page")
		return
	case len(tasks) == 0:
		f.broken("a page without a task has a next page")
		return
	}
	if more, _ := p.page(ctx, f, object{"pageSize": 1, "pageToken": token}); len(more) > 0 && more[0]["id"] == tasks[0]["id"] {
		f.broken("the next page has the same task")
	}
}

func checkOrder(ctx context.Context, p *probe, f *finding) {
	tasks, ok := p.page(ctx, f, object{"pageSize": 50})
	if !ok {
		return
	}
	var last time.Time
	count := 0
	for _, task := range tasks {
		at, err := time.Parse(time.RFC3339Nano, text(member(task["status"], "timestamp")))
		if err != nil {
			continue
		}
		if count++; count > 1 && at.After(last) {
			f.broken("a task of %s stands behind one of %s", at.Format(time.RFC3339Nano), last.Format(time.RFC3339Nano))
			return
		}
		last = at
	}
	if count < 2 {
		f.skip("there are not two tasks with a time")
	}
}

func checkNoArtifacts(ctx context.Context, p *probe, f *finding) {
	tasks, ok := p.page(ctx, f, object{"pageSize": 50})
	if !ok {
		return
	}
	if slices.ContainsFunc(tasks, func(t object) bool { _, ok := t["artifacts"]; return ok }) {
		f.broken("a task has artifacts")
		return
	}
	if len(tasks) == 0 {
		f.skip("there are no tasks")
	}
}

func checkListInvalid(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.do(ctx, &call{op: opList, params: object{"pageSize": -1}}), a2a.CodeInvalidParams)
}

func checkListToken(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.do(ctx, &call{op: opList, params: object{"pageToken": "conformance-no-such-token"}}), a2a.CodeInvalidParams)
}

func checkNoSubscribe(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.do(ctx, &call{op: opSubscribe, params: object{"id": unknownID()}}), a2a.CodeUnsupportedOperation)
}

func checkNoPush(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.do(ctx, &call{op: opListPush, params: object{"taskId": unknownID()}}), a2a.CodePushNotificationNotSupported)
}

func checkPushUnknown(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.do(ctx, &call{op: opListPush, params: object{"taskId": unknownID()}}), a2a.CodeTaskNotFound)
}

func checkNoExtended(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.do(ctx, &call{op: opExtended, params: object{}}), a2a.CodeUnsupportedOperation)
}

func checkExtendedAuth(ctx context.Context, p *probe, f *finding) {
	a := p.do(ctx, &call{op: opExtended, params: object{}, anonymous: true})
	a.sent += " without credentials"
	p.expectRefusal(f, a)
}

func checkExtendedCard(ctx context.Context, p *probe, f *finding) {
	a := p.do(ctx, &call{op: opExtended, params: object{}})
	if a.fault != nil || a.failed() || a.refused() {
		p.expect(f, a, a2a.CodeExtendedAgentCardNotConfigured)
		return
	}
	if !p.accepted(f, a) {
		return
	}
	seen := newObserved()
	(&shape{observed: seen, binary: p.shape.binary}).look("card", a.result, cardShape)
	f.problems(seen, required, types, names, enums, oneOf)
}
