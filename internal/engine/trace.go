package engine

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const traceparentKey = "traceparent"

// traceparent returns the W3C trace context of ctx, or "".
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceparentKey]
}

// traced returns the context of a turn, with a span that belongs to the trace
// that started the task, however long ago.
func (e *Engine) traced(m *meta, task string, turn int) context.Context {
	ctx := context.Background()
	if e.cfg.Tracer == nil {
		return ctx
	}
	if m.Traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparentKey: m.Traceparent})
	}
	ctx, _ = e.cfg.Tracer.Start(ctx, "turn", trace.WithAttributes(
		attribute.String("a2a.task.id", task), attribute.Int("handoff.turn", turn)))
	return ctx
}

func endSpan(ctx context.Context) { trace.SpanFromContext(ctx).End() }

// withTraceparent lets what ctx is given to belong to a trace; "" to none.
func withTraceparent(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparentKey: traceparent})
}
