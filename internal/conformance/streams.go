package conformance

import (
	"context"
	"slices"

	"handoff.example/handoff/a2a"
)

func checkNoStream(ctx context.Context, p *probe, f *finding) {
	a := p.do(ctx, &call{op: opStream, params: object{"message": p.message(nil)}})
	p.keepRunning(taskOf(firstEvent(a)))
	p.expect(f, a, a2a.CodeUnsupportedOperation)
}

func firstEvent(a *answer) any {
	if len(a.events) == 0 {
		return nil
	}
	return a.events[0]
}

// eventKinds are what an event is one of (A2A §3.2.3).
var eventKinds = []string{"task", "message", "statusUpdate", "artifactUpdate"}

// kindOf returns what an event is, or "" when it is not exactly one of the
// kinds.
func kindOf(event any) string {
	kind := ""
	for _, name := range eventKinds {
		if _, ok := member(event, name).(object); ok {
			if kind != "" {
				return ""
			}
			kind = name
		}
	}
	return kind
}

func checkStream(ctx context.Context, p *probe, f *finding) {
	a := p.do(ctx, &call{op: opStream, params: object{"message": p.message(nil)}, limit: p.run.opts.TaskTimeout})
	for _, event := range a.events {
		p.look("event", event, streamShape)
	}
	p.keepRunning(taskOf(firstEvent(a)))
	if len(a.events) > 0 {
		p.stream = a
	}
	if a.failed() && len(a.events) > 0 && ctx.Err() == nil {
		p.silent = 0 // it did answer
		f.exchange(a)
		return
	}
	if !p.accepted(f, a) {
		return
	}
	switch {
	case !a.streamed:
		f.broken("it is no stream, but %q", a.header.Get("Content-Type"))
	case len(a.events) == 0:
		f.broken("there is no event")
	}
}

// withStream reports whether there was a stream.
func (p *probe) withStream(f *finding) bool {
	if p.stream == nil {
		f.skip("there was no stream")
		return false
	}
	f.Sent, f.Seen = p.stream.sent, p.stream.describe()
	return true
}

func checkStreamFirst(_ context.Context, p *probe, f *finding) {
	if !p.withStream(f) {
		return
	}
	if kind := kindOf(p.stream.events[0]); kind != "task" && kind != "message" {
		f.broken("it is %s", summarize(p.stream.events[0]))
	}
}

func checkStreamKinds(_ context.Context, p *probe, f *finding) {
	if !p.withStream(f) {
		return
	}
	for i, event := range p.stream.events {
		if kindOf(event) == "" {
			f.broken("event %d is %s", i+1, summarize(event))
			return
		}
	}
}

// idsOf returns the task and the context that an event names.
func idsOf(event any) (task, contextID string) {
	kind := kindOf(event)
	o, _ := member(event, kind).(object)
	if kind == "task" {
		return text(o["id"]), text(o["contextId"])
	}
	return text(o["taskId"]), text(o["contextId"])
}

func checkStreamIDs(_ context.Context, p *probe, f *finding) {
	if !p.withStream(f) {
		return
	}
	if kindOf(p.stream.events[0]) == "message" {
		f.skip("the answer is a message")
		return
	}
	task, contextID := idsOf(p.stream.events[0])
	for i, event := range p.stream.events {
		if t, c := idsOf(event); t != task || c != contextID {
			f.broken("event %d names task %q and context %q, and the first one %q and %q", i+1, shorten(t, 60), shorten(c, 60), shorten(task, 60), shorten(contextID, 60))
			return
		}
	}
}

// lastState returns the state that the last event with one has.
func lastState(events []any) string {
	for _, event := range slices.Backward(events) {
		if o, ok := member(event, kindOf(event)).(object); ok && stateOf(o) != "" {
			return stateOf(o)
		}
	}
	return ""
}

func checkStreamEnd(_ context.Context, p *probe, f *finding) {
	if !p.withStream(f) {
		return
	}
	s := p.stream
	state := lastState(s.events)
	message := kindOf(s.events[0]) == "message"
	over := slices.IndexFunc(s.events, func(event any) bool {
		o, _ := member(event, kindOf(event)).(object)
		return isOver(stateOf(o))
	})
	switch {
	case message && len(s.events) > 1:
		f.broken("%d events follow the message", len(s.events)-1)
	case s.fault != nil:
		f.broken("the stream ended with an error")
	case (message || isOver(state)) && !s.closed:
		f.broken("the stream stays open")
	case s.err != nil:
		f.skip("the task was not over within %s (%v)", p.run.opts.TaskTimeout, s.err)
	case s.closed && !message && !isOver(state) && !waits(state):
		f.broken("the stream ended while the task is %s", state)
	case over >= 0 && slices.ContainsFunc(s.events[over+1:], func(event any) bool { return kindOf(event) != "task" }):
		f.broken("events follow the one with which the task was over")
	}
}

func checkStreamState(ctx context.Context, p *probe, f *finding) {
	if !p.withStream(f) {
		return
	}
	id, _ := idsOf(p.stream.events[0])
	state := lastState(p.stream.events)
	if kindOf(p.stream.events[0]) == "message" || !isOver(state) {
		f.skip("the stream did not end with a task that is over")
		return
	}
	a := p.get(ctx, object{"id": id})
	if !p.accepted(f, a) {
		return
	}
	if got := stateOf(taskOf(a.result)); got != state {
		f.broken("the task is %s and the stream ended with %s", got, state)
		return
	}
	p.stopped(id)
}
