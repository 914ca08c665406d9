package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/span"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "00-" + traceID + "-b7ad6b7169203331-01"
)

// traced gives a bench a tracer, and its open engine too.
func (b *bench) traced() *tracetest.InMemoryExporter {
	b.t.Helper()
	spans := tracetest.NewInMemoryExporter()
	b.tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithIDGenerator(span.IDs{})).Tracer("test")
	b.close()
	b.open()
	return spans
}

// named returns the spans by their name, and of the same name in the order of turns.
func named(spans tracetest.SpanStubs) map[string]tracetest.SpanStub {
	of := map[string]tracetest.SpanStub{}
	for _, s := range spans {
		turn := 0
		for _, a := range s.Attributes {
			if a.Key == span.Turn {
				turn = int(a.Value.AsInt64())
			}
		}
		of[fmt.Sprintf("%s %d", s.Name, turn)] = s
	}
	return of
}

// leads returns what a span links to: what for, and the name of the span.
func leads(s tracetest.SpanStub, all map[string]tracetest.SpanStub) string {
	var list []string
	for _, l := range s.Links {
		to := "nowhere"
		for name, other := range all {
			if other.SpanContext.SpanID() == l.SpanContext.SpanID() && other.SpanContext.TraceID() == l.SpanContext.TraceID() {
				to = name
			}
		}
		list = append(list, l.Attributes[0].Value.AsString()+"="+to)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// A task and what it has delegated are one trace, from the message that began it on;
// a turn after a wait leads to it and to the turn that waited, also when the node was
// another process then.
func TestATraceOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t, chain()...)
	spans := b.traced()
	response, err := b.engine.Send(span.Within(context.Background(), parent), request(b.specs["a"], "b ask", atOnce))
	if err != nil {
		t.Fatal(err)
	}
	id := response.Task.ID
	b.until(id, a2a.StateInputRequired)
	b.close()
	b.open()
	ctx, answer := b.tracer.Start(context.Background(), "request")
	if _, err := b.engine.Send(ctx, request(b.specs["a"], "FCA", atOnce, onTask(id))); err != nil {
		t.Fatal(err)
	}
	answer.End()
	b.until(id, a2a.StateCompleted)
	b.close() // the spans of the last turns have ended
	all := named(spans.GetSpans())
	b.open()

	for name, want := range map[string]struct{ parent, links string }{
		"invoke_agent a 1":  {"", ""},
		"invoke_agent b 1":  {"invoke_agent a 1", ""},
		"wait delegation 1": {"", "turn=invoke_agent a 1"},
		"wait input 1":      {"invoke_agent a 1", "turn=invoke_agent b 1"},
		"invoke_agent b 2":  {"invoke_agent a 1", "turn=invoke_agent b 1, wait=wait input 1"},
		"invoke_agent a 2":  {"", "turn=invoke_agent a 1, wait=wait delegation 1"},
	} {
		s, ok := all[name]
		if !ok {
			t.Errorf("there is no span %s", name)
			continue
		}
		parent := all[want.parent].SpanContext.SpanID().String()
		if want.parent == "" {
			parent = "b7ad6b7169203331"
		}
		if s.SpanContext.TraceID().String() != traceID || s.Parent.SpanID().String() != parent {
			t.Errorf("%s is below %s in trace %s", name, s.Parent.SpanID(), s.SpanContext.TraceID())
		}
		if got := leads(s, all); got != want.links {
			t.Errorf("%s leads to %s, not %s", name, got, want.links)
		}
		if s.EndTime.Before(s.StartTime) {
			t.Errorf("%s ends before it begins", name)
		}
	}
	for _, s := range all {
		if text := fmt.Sprint(s.Attributes, s.Status, s.Events); strings.Contains(text, "Incoterm") || strings.Contains(text, "FCA") {
			t.Errorf("a span says what a message says: %s", text)
		}
	}
}

// A request that ends a wait and the turn that follows lead to each other, and a
// canceled wait is a span too. A message without a trace begins one.
func TestARequestLeadsToTheTurnItAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t, fixture())
	spans := b.traced()
	q := request(b.specs["fixture"], "ask")
	task, canceled := b.send(q), b.send(request(b.specs["fixture"], "ask"))
	ctx, answer := b.tracer.Start(context.Background(), "request")
	if _, err := b.engine.Send(ctx, request(b.specs["fixture"], "echo x", onTask(task.ID))); err != nil {
		t.Fatal(err)
	}
	answer.End()
	if _, err := b.engine.Cancel(context.Background(), q.Scope, nil, canceled.ID, engine.ByCaller); err != nil {
		t.Fatal(err)
	}
	b.close()
	list := spans.GetSpans()
	b.open()
	var waits int
	for _, s := range list {
		if s.Name == "wait input" {
			waits++
		}
	}
	mine := slices.DeleteFunc(slices.Clone(list), func(s tracetest.SpanStub) bool {
		return !strings.Contains(fmt.Sprint(s.Attributes), task.ID) && s.Name != "request"
	})
	all := named(mine)
	if got := leads(all["request 0"], all); got != "turn=invoke_agent fixture 1" {
		t.Errorf("the request leads to %s", got)
	}
	if got := leads(all["invoke_agent fixture 2"], all); got != "answer=request 0, turn=invoke_agent fixture 1, wait=wait input 1" {
		t.Errorf("the turn leads to %s", got)
	}
	begin := all["create_task fixture 0"].SpanContext
	if waits != 2 || !begin.IsValid() || all["invoke_agent fixture 2"].Parent.SpanID() != begin.SpanID() {
		t.Errorf("%d waits; %v", waits, begin)
	}
}

// A turn that was interrupted goes on as another span of the same trace.
func TestAnInterruptedTurnStaysInItsTrace(t *testing.T) {
	t.Parallel()
	runs := make(chan struct{}, 2)
	spec := &engine.Spec{ID: "a", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, t *agent.Turn) error {
		if err := t.Working("on it"); err != nil {
			return err
		}
		runs <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	})}
	b := newBench(t, spec)
	spans := b.traced()
	if _, err := b.engine.Send(span.Within(context.Background(), parent), request(spec, "sleep", atOnce)); err != nil {
		t.Fatal(err)
	}
	<-runs
	b.close()
	b.open()
	<-runs
	b.close()
	list := spans.GetSpans()
	b.open()
	if len(list) != 2 || list[0].SpanContext.SpanID() == list[1].SpanContext.SpanID() {
		t.Fatalf("got %v", list)
	}
	for _, s := range list {
		if s.SpanContext.TraceID().String() != traceID || s.Parent.SpanID().String() != "b7ad6b7169203331" {
			t.Errorf("got %v", s)
		}
	}
}
