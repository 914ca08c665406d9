package engine

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/span"
	"handoff.example/handoff/internal/store"
)

// A task is a part of the trace of the message that started it, however long ago
// and on whichever node: its row has the trace context of that message. Every turn
// is a span of it, and every wait; a turn that follows a wait links to it and to
// the turn before, whose ids follow from the task and the turn.

// Values of span.Relation.
const (
	linkTurn   = "turn"   // the one before, which asked or waited
	linkWait   = "wait"   // between the two
	linkAnswer = "answer" // the request that ended the wait
)

// turnSpan is the id of the span of an attempt of a turn.
func turnSpan(task string, turn, attempt int) trace.SpanID {
	return span.ID(task, "turn", turn, max(attempt, 1))
}

// waitSpan is the id of the span of the wait after a turn.
func waitSpan(task string, turn int) trace.SpanID { return span.ID(task, "wait", turn) }

// started returns the trace context that a new task keeps: that of ctx, or of a span
// of its own where ctx has none.
func (e *Engine) started(ctx context.Context, id, agent string) string {
	if e.cfg.Tracer != nil && !trace.SpanContextFromContext(ctx).IsValid() {
		var s trace.Span
		ctx, s = e.cfg.Tracer.Start(ctx, "create_task "+agent, trace.WithAttributes(span.Task.String(id), span.AgentID.String(agent)))
		s.End()
	}
	return span.Traceparent(ctx)
}

// traced returns the context of the next turn of a run, with its span.
func (e *Engine) traced(r *run) context.Context {
	ctx := span.Within(context.Background(), r.meta.Traceparent)
	if e.cfg.Tracer == nil {
		return ctx
	}
	attempt := max(r.row.Attempt, 1)
	ctx, _ = e.cfg.Tracer.Start(span.WithID(ctx, turnSpan(r.id, r.row.Turn, attempt)), span.InvokeAgent+" "+r.spec.ID,
		trace.WithLinks(r.links...), trace.WithAttributes(
			span.Operation.String(span.InvokeAgent), span.AgentID.String(r.spec.ID), span.AgentName.String(r.spec.ID), span.Conversation.String(r.row.Context),
			span.Task.String(r.id), span.Turn.Int(r.row.Turn), span.Attempt.Int(attempt), span.Cause.String(string(r.cause)),
		))
	r.links = nil
	return ctx
}

// endTurn ends the span of a turn.
func (r *run) endTurn(ctx context.Context) {
	s := trace.SpanFromContext(ctx)
	if !s.IsRecording() {
		return
	}
	s.SetAttributes(span.State.String(r.row.State.String()))
	if r.row.State == a2a.StateFailed {
		s.SetStatus(codes.Error, "the task failed")
		s.SetAttributes(span.ErrorType.String(r.row.State.String()))
	}
	s.End()
}

// before leads to the span of the current turn of a task, for what follows it.
func before(m *meta, row *store.Task) trace.Link {
	return trace.Link{
		SpanContext: span.Of(m.Traceparent, turnSpan(row.ID, row.Turn, row.Attempt)),
		Attributes:  relation(linkTurn),
	}
}

func relation(to string) []attribute.KeyValue { return []attribute.KeyValue{span.Relation.String(to)} }

// waited makes the span of a wait that ends now with the task as it was in it, and
// returns the links of the turn that follows. The span of ctx is that of the request
// that ends the wait, and links to the turn that asked.
func (e *Engine) waited(ctx context.Context, row *store.Task) []trace.Link {
	if e.cfg.Tracer == nil {
		return nil
	}
	m := decodeMeta(row.Meta)
	asked := before(m, row)
	if !asked.SpanContext.IsValid() {
		return nil
	}
	links := []trace.Link{asked}
	if answer := trace.SpanFromContext(ctx); answer.SpanContext().IsValid() {
		answer.AddLink(asked)
		links = append(links, trace.Link{SpanContext: answer.SpanContext(), Attributes: relation(linkAnswer)})
	}
	began, kind := e.parks.take(row.ID), waitsFor(row)
	if began.IsZero() {
		began = row.StatusAt
	}
	id := waitSpan(row.ID, row.Turn)
	_, s := e.cfg.Tracer.Start(span.WithID(span.Within(context.Background(), m.Traceparent), id), "wait "+kind,
		trace.WithTimestamp(began), trace.WithLinks(links...), trace.WithAttributes(
			span.Wait.String(kind), span.AgentID.String(row.Agent), span.Conversation.String(row.Context),
			span.Task.String(row.ID), span.Turn.Int(row.Turn), span.State.String(row.State.String()),
		))
	s.End()
	return append(links, trace.Link{SpanContext: span.Of(m.Traceparent, id), Attributes: relation(linkWait)})
}

// resumed are the links of a turn that goes on after another process has left it.
func resumed(row *store.Task) []trace.Link {
	wait := span.Of(decodeMeta(row.Meta).Traceparent, waitSpan(row.ID, row.Turn-1))
	if row.Turn == 1 || !wait.IsValid() {
		return nil
	}
	return []trace.Link{{SpanContext: wait, Attributes: relation(linkWait)}}
}

// waitsFor says for whom or what a task waits.
func waitsFor(row *store.Task) string {
	switch {
	case row.Wait == store.WaitChild:
		return "delegation"
	case row.State == a2a.StateInputRequired:
		return "input"
	case row.State == a2a.StateAuthRequired:
		return "authorization"
	case row.Wait == store.WaitCallback:
		return "callback"
	}
	return string(agent.CauseTime)
}

// below returns ctx as a part of the turn of a task that has delegated.
func (e *Engine) below(ctx context.Context, m *meta, row *store.Task) context.Context {
	if of := before(m, row).SpanContext; e.cfg.Tracer != nil && of.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, of)
	}
	return span.Within(ctx, m.Traceparent)
}

// Traced returns ctx as a part of the trace of a task, for what is done for it
// outside of its turns. Without one, or when the task cannot be read, it is ctx.
func (e *Engine) Traced(ctx context.Context, task string) context.Context {
	if e.cfg.Tracer == nil {
		return ctx
	}
	row, err := e.store.Task(ctx, nodeScope, task)
	if err != nil {
		return ctx
	}
	return span.Within(ctx, decodeMeta(row.Meta).Traceparent)
}

// parkings remember since when tasks wait, for their spans alone: what they have
// forgotten, such as in a restart, is about as long ago as the status of the task.
type parkings struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// mostParkings is how many are remembered.
const mostParkings = 1 << 14

// parked remembers that the task waits from a commit on.
func (r *run) parked(c *store.Change, o outcome) {
	if o.parked && !o.state.Terminal() && r.e.cfg.Tracer != nil {
		r.e.parks.put(r.id, c.At)
	}
}

func (p *parkings) put(task string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since == nil || len(p.since) >= mostParkings {
		p.since = map[string]time.Time{}
	}
	p.since[task] = at
}

func (p *parkings) take(task string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.since[task]
	delete(p.since, task)
	return at
}
