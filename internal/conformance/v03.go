package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// oldRPC is the JSON-RPC binding of version 0.3. Its requests name no version, as
// those of clients of 0.3 do.
type oldRPC struct{ *jsonRPC }

func (b *oldRPC) do(ctx context.Context, c *call) *answer {
	old := *c
	old.noVersion = true
	return b.jsonRPC.do(ctx, &old)
}

// wrong compares with A2A 0.3 §8: an error has a code and a message, and no
// ErrorInfo.
func (b *oldRPC) wrong(a *answer, want a2a.Code) (must, should []string) {
	must, _ = b.jsonRPC.wrong(a, want)
	return must, nil
}

// oldTask is GetTask of 0.3 of a task that does not exist.
func oldTask() *call { return &call{op: v03.MethodGet, params: object{"id": unknownID()}} }

func checkOldReachable(ctx context.Context, p *probe, f *finding) { p.reach(f, p.do(ctx, oldTask())) }

func checkOldAuth(ctx context.Context, p *probe, f *finding) {
	if !p.needsAuth() {
		f.skip("the card requires no credentials")
		return
	}
	c := oldTask()
	c.anonymous = true
	a := p.do(ctx, c)
	a.sent += " without credentials"
	p.expectRefusal(f, a)
}

func checkOldMethod(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.do(ctx, &call{op: "conformance/none", params: object{}}), a2a.CodeMethodNotFound)
}

func checkOldParams(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.do(ctx, &call{op: v03.MethodGet, params: object{}}), a2a.CodeInvalidParams)
}

// checkOldUnknown checks that a task which does not exist is not found.
func checkOldUnknown(method string) func(context.Context, *probe, *finding) {
	return func(ctx context.Context, p *probe, f *finding) {
		p.expect(f, p.do(ctx, &call{op: method, params: object{"id": unknownID()}}), a2a.CodeTaskNotFound)
	}
}

func checkOldResubscribe(ctx context.Context, p *probe, f *finding) {
	want := a2a.CodeTaskNotFound
	if !p.streams() {
		want = a2a.CodeUnsupportedOperation
	}
	p.expect(f, p.do(ctx, &call{op: v03.MethodResubscribe, params: object{"id": unknownID()}}), want)
}

func checkOldPushUnknown(ctx context.Context, p *probe, f *finding) {
	want := a2a.CodeTaskNotFound
	if !p.pushes() {
		want = a2a.CodePushNotificationNotSupported
	}
	p.expect(f, p.do(ctx, &call{op: v03.MethodListPushConfigs, params: object{"id": unknownID()}}), want)
}

// oldMessage is the params of message/send and message/stream. They wait for the
// task.
func (p *probe) oldMessage() object {
	return object{
		"message":       object{"kind": "message", "messageId": uuid.NewString(), "role": "user", "parts": []any{object{"kind": "text", "text": p.run.opts.Text}}},
		"configuration": object{"blocking": true, "acceptedOutputModes": []any{}},
	}
}

// oldDo carries out an operation that answers with a task, a message or events,
// and looks at their form.
func (p *probe) oldDo(ctx context.Context, c *call) *answer {
	a := p.do(ctx, c)
	if a.fault == nil && a.malformed == "" && a.result != nil {
		p.oldLook(a.op, a.result)
		p.oldKeep(a.result)
	}
	for i, event := range a.events {
		p.oldLook(fmt.Sprintf("%s: event %d", a.op, i+1), event)
		p.oldKeep(event)
	}
	return a
}

// oldKeep keeps a task that is not over, to be canceled at the end.
func (p *probe) oldKeep(v any) {
	o, _ := v.(object)
	id := text(o["id"])
	if text(o["kind"]) != "task" {
		id = text(o["taskId"])
	}
	switch state := stateOf(o); {
	case id == "" || state == "":
	case oldOver(state):
		p.stopped(id)
	case !slices.Contains(p.running, id):
		p.running = append(p.running, id)
	}
}

// oldOver reports whether a state is one in which a task stays (A2A 0.3 §6.3).
func oldOver(state string) bool {
	return slices.Contains([]string{"completed", "failed", "canceled", "rejected"}, state)
}

func oldWaits(state string) bool { return state == "input-required" || state == "auth-required" }

func checkOldSend(ctx context.Context, p *probe, f *finding) {
	a := p.oldDo(ctx, &call{op: v03.MethodSend, params: p.oldMessage(), limit: p.run.opts.TaskTimeout})
	if a.timeout && !a.cut {
		p.silent = 0 // a task may take its time
		f.exchange(a)
		f.skip("the task was not over within %s; give it more time", p.run.opts.TaskTimeout)
		return
	}
	if !p.accepted(f, a) {
		return
	}
	task, _ := a.result.(object)
	switch kind, state := text(task["kind"]), stateOf(task); {
	case kind == "message":
		p.plain = true
	case kind != "task":
		f.broken("the kind of the result is %q, and neither task nor message", shorten(kind, 40))
	case text(task["id"]) == "" || text(task["contextId"]) == "":
		f.broken("the task has no id, or no contextId")
	case oldOver(state):
		p.done = task
	case !oldWaits(state):
		f.broken("the task is %q and neither over nor waiting", shorten(state, 40))
	}
}

func checkOldGet(ctx context.Context, p *probe, f *finding) {
	if !p.withTask(f) {
		return
	}
	a := p.oldDo(ctx, &call{op: v03.MethodGet, params: object{"id": p.done["id"]}})
	if !p.accepted(f, a) {
		return
	}
	task, _ := a.result.(object)
	for _, name := range []string{"id", "contextId"} {
		if text(task[name]) != text(p.done[name]) {
			f.broken("its %s is another", name)
		}
	}
	if got, want := stateOf(task), stateOf(p.done); got != want {
		f.broken("the task is %q and was %q", shorten(got, 40), want)
	}
}

func checkOldCancelClosed(ctx context.Context, p *probe, f *finding) {
	if !p.withTask(f) {
		return
	}
	p.expect(f, p.oldDo(ctx, &call{op: v03.MethodCancel, params: object{"id": p.done["id"]}}), a2a.CodeTaskNotCancelable)
}

func checkOldStreamRefused(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.oldDo(ctx, &call{op: v03.MethodStream, params: p.oldMessage(), limit: p.run.opts.TaskTimeout}), a2a.CodeUnsupportedOperation)
}

func checkOldStream(ctx context.Context, p *probe, f *finding) {
	a := p.oldDo(ctx, &call{op: v03.MethodStream, params: p.oldMessage(), limit: p.run.opts.TaskTimeout})
	if len(a.events) > 0 {
		p.stream = a
	}
	if a.failed() && len(a.events) > 0 && ctx.Err() == nil {
		p.silent = 0 // it did answer
		f.exchange(a)
	} else if !p.accepted(f, a) {
		return
	}
	switch {
	case !a.streamed:
		f.broken("it is no stream, but %q", a.header.Get("Content-Type"))
	case len(a.events) == 0:
		f.broken("there is no event")
	}
	for i, event := range a.events {
		if kind := text(member(event, "kind")); !slices.Contains([]string{"task", "message", "status-update", "artifact-update"}, kind) {
			f.broken("the kind of event %d is %q", i+1, shorten(kind, 40))
			return
		}
	}
}

// checkOldFinal looks at the end of a stream (A2A 0.3 §7.2.2).
func checkOldFinal(_ context.Context, p *probe, f *finding) {
	if !p.withStream(f) {
		return
	}
	s := p.stream
	if text(member(s.events[0], "kind")) == "message" {
		if len(s.events) > 1 {
			f.broken("%d events follow the message", len(s.events)-1)
		}
		return
	}
	final := slices.IndexFunc(s.events, func(e any) bool { return member(e, "final") == true })
	over := slices.IndexFunc(s.events, func(e any) bool { return text(member(e, "kind")) == "status-update" && oldOver(stateOf(e.(object))) })
	switch {
	case s.fault != nil:
		f.broken("the stream ended with an error")
	case final >= 0 && final < len(s.events)-1:
		f.broken("%d events follow the final one", len(s.events)-1-final)
	case over >= 0 && over != final:
		f.broken("the status with which the task was over is not final")
	case final < 0 && s.closed:
		f.broken("the stream ended without a final event")
	case final >= 0 && !s.closed:
		f.broken("the stream stays open")
	case s.err != nil:
		f.skip("the task was not over within %s (%v)", p.run.opts.TaskTimeout, s.err)
	}
}

// checkOldPush makes a webhook for a task that is over, finds it and deletes it.
func checkOldPush(ctx context.Context, p *probe, f *finding) {
	if !p.withTask(f) {
		return
	}
	hook := p.run.opts.Webhook
	set := p.do(ctx, &call{op: v03.MethodSetPushConfig, params: object{
		"taskId": p.done["id"], "pushNotificationConfig": object{"id": "conformance", "url": hook},
	}})
	if !p.accepted(f, set) {
		return
	}
	at := object{"id": p.done["id"], "pushNotificationConfigId": "conformance"}
	got := p.do(ctx, &call{op: v03.MethodGetPushConfig, params: at})
	gone := p.do(ctx, &call{op: v03.MethodDeletePushConfig, params: at})
	for _, a := range []*answer{set, got} {
		if !p.accepted(f, a) {
			return
		}
		if address := text(member(member(a.result, "pushNotificationConfig"), "url")); address != hook {
			f.broken("the webhook of %s has the URL %q", a.op, shorten(address, 100))
			return
		}
	}
	if !p.answered(f, gone) {
		return
	}
	if gone.fault != nil {
		f.broken("it was not deleted")
	}
}

// oldObjects is what the objects of 0.3 show.
const oldObjects topic = "v03.objects"

// oldLook compares an object with the form that A2A 0.3 §6 gives it. What it does
// not know it leaves alone.
func (p *probe) oldLook(at string, v any) {
	o, ok := v.(object)
	if !ok {
		p.observed.add(oldObjects, "%s is no object", at)
		return
	}
	p.observed.saw(oldObjects)
	switch kind := text(o["kind"]); kind {
	case "task":
		p.oldTexts(at, o, "id", "contextId")
		p.oldStatus(at, o)
		p.oldEach(at+": history", o["history"], p.oldMessageLook)
		p.oldEach(at+": artifacts", o["artifacts"], p.oldArtifact)
	case "message":
		p.oldMessageLook(at, o)
	case "status-update":
		p.oldTexts(at, o, "taskId", "contextId")
		p.oldStatus(at, o)
		if _, ok := o["final"].(bool); !ok {
			p.observed.add(oldObjects, "%s has no final", at)
		}
	case "artifact-update":
		p.oldTexts(at, o, "taskId", "contextId")
		artifact, _ := o["artifact"].(object)
		p.oldArtifact(at+": artifact", artifact)
	default:
		p.observed.add(oldObjects, "%s has the kind %q", at, shorten(kind, 40))
	}
}

// oldTexts checks that fields are there.
func (p *probe) oldTexts(at string, o object, names ...string) {
	for _, name := range names {
		if text(o[name]) == "" {
			p.observed.add(oldObjects, "%s has no %s", at, name)
		}
	}
}

func (p *probe) oldEach(at string, list any, look func(string, object)) {
	if list == nil {
		return
	}
	all, ok := list.([]any)
	if !ok {
		p.observed.add(oldObjects, "%s is no array", at)
		return
	}
	for i, v := range all {
		o, _ := v.(object)
		look(fmt.Sprintf("%s[%d]", at, i), o)
	}
}

var oldStates = []string{"submitted", "working", "input-required", "completed", "canceled", "failed", "rejected", "auth-required", "unknown"}

func (p *probe) oldStatus(at string, o object) {
	if state := stateOf(o); !slices.Contains(oldStates, state) {
		p.observed.add(oldObjects, "%s has the state %q", at, shorten(state, 40))
	}
	if m, ok := member(o["status"], "message").(object); ok {
		p.oldMessageLook(at+": status.message", m)
	}
}

func (p *probe) oldMessageLook(at string, m object) {
	p.oldTexts(at, m, "messageId")
	if kind := text(m["kind"]); kind != "message" {
		p.observed.add(oldObjects, "%s has the kind %q", at, shorten(kind, 40))
	}
	if role := text(m["role"]); role != "user" && role != "agent" {
		p.observed.add(oldObjects, "%s has the role %q", at, shorten(role, 40))
	}
	p.oldEach(at+": parts", m["parts"], p.oldPart)
}

func (p *probe) oldArtifact(at string, a object) {
	p.oldTexts(at, a, "artifactId")
	if _, ok := a["parts"].([]any); !ok {
		p.observed.add(oldObjects, "%s has no parts", at)
	}
	p.oldEach(at+": parts", a["parts"], p.oldPart)
}

func (p *probe) oldPart(at string, part object) {
	kind := text(part["kind"])
	if !slices.Contains([]string{"text", "file", "data"}, kind) {
		p.observed.add(oldObjects, "%s has the kind %q", at, shorten(kind, 40))
		return
	}
	if _, ok := part[kind]; !ok {
		p.observed.add(oldObjects, "%s has no %s", at, kind)
	}
}

// isVersion03 reports whether an interface is one of version 0.3.
func isVersion03(i *a2a.AgentInterface) bool {
	v, err := a2a.ParseVersion(i.ProtocolVersion)
	return err == nil && v == a2a.Version03 && strings.EqualFold(i.ProtocolBinding, a2a.BindingJSONRPC)
}
