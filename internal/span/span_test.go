package span_test

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/internal/span"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestAnIDFollowsFromWhatASpanIsOf(t *testing.T) {
	t.Parallel()
	a := span.ID("task", "turn", 1, 1)
	if a != span.ID("task", "turn", 1, 1) || !a.IsValid() {
		t.Errorf("got %v", a)
	}
	for _, other := range []trace.SpanID{span.ID("task", "turn", 1, 2), span.ID("task", "turn", 11), span.ID("task", "wait", 1, 1), span.ID("other", "turn", 1, 1)} {
		if other == a {
			t.Errorf("two spans are %v", a)
		}
	}
}

func TestASpanGetsTheIDThatIsWanted(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithIDGenerator(span.IDs{})).Tracer("test")
	id := span.ID("task", "turn", 1, 1)
	for _, ctx := range []context.Context{context.Background(), span.Within(context.Background(), parent)} {
		ctx, turn := tracer.Start(span.WithID(ctx, id), "turn")
		_, below := tracer.Start(ctx, "below")
		below.End()
		turn.End()
		if turn.SpanContext().SpanID() != id || below.SpanContext().SpanID() == id || !below.SpanContext().IsValid() {
			t.Errorf("got %v and %v", turn.SpanContext().SpanID(), below.SpanContext().SpanID())
		}
	}
	list := spans.GetSpans()
	if list[3].SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || list[3].Parent.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("got %v", list[3])
	}
	if list[1].SpanContext.TraceID() == list[3].SpanContext.TraceID() || !list[1].SpanContext.TraceID().IsValid() {
		t.Errorf("got %v", list[1])
	}
}

func TestTraceContextAsText(t *testing.T) {
	t.Parallel()
	ctx := span.Within(context.Background(), parent)
	if got := span.Traceparent(ctx); got != parent {
		t.Errorf("got %q", got)
	}
	for _, none := range []string{"", "no", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"} {
		if got := span.Traceparent(span.Within(context.Background(), none)); got != "" {
			t.Errorf("%q is %q", none, got)
		}
		if of := span.Of(none, span.ID("task", "turn", 1)); of.IsValid() {
			t.Errorf("%q is %v", none, of)
		}
	}
	if of := span.Of(parent, span.ID("task", "turn", 1)); !of.IsSampled() || of.SpanID() != span.ID("task", "turn", 1) || of.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("got %v", of)
	}
}
