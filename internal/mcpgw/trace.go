package mcpgw

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/mcp"
)

// begin begins the span of a call, as a part of the trace that the message names,
// or else the request (OBS-02; MCP basic/index §OpenTelemetry trace context).
func (x *exchange) begin(c *call) {
	carrier := propagation.MapCarrier{"traceparent": x.r.Header.Get("Traceparent"), "tracestate": x.r.Header.Get("Tracestate")}
	if parent := x.message.MetaString(mcp.MetaTraceparent); isTraceparent(parent) {
		carrier = propagation.MapCarrier{"traceparent": parent, "tracestate": x.message.MetaString(mcp.MetaTracestate)}
	}
	ctx := propagation.TraceContext{}.Extract(x.ctx(), carrier)
	x.trace = trace.SpanContextFromContext(ctx)
	if x.h.opts.Tracer == nil {
		return
	}
	ctx, x.span = x.h.opts.Tracer.Start(ctx, c.method+" "+clip(c.target.Exposed, 128), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("mcp.method.name", c.method),
		attribute.String("mcp.protocol.version", x.version),
		attribute.String("handoff.mcp.server", x.server),
		attribute.String("handoff.request.id", x.id),
	))
	x.base, x.trace = ctx, x.span.SpanContext()
}

// endSpan ends the span of a call.
func (x *exchange) endSpan() {
	if x.span == nil {
		return
	}
	x.span.SetAttributes(attribute.String("handoff.outcome", x.outcome))
	if x.outcome != audit.OK {
		x.span.SetStatus(codes.Error, x.outcome)
	}
	x.span.End()
}

// traced has a request to a server say that it is a part of the span. The message is
// changed where it names a trace alone, so that others stay as they are.
func (x *exchange) traced(m *mcp.Message, header http.Header) (*mcp.Message, http.Header) {
	if x.span == nil {
		return m, header
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.WithoutCancel(x.ctx()), x.span), carrier)
	parent := carrier["traceparent"]
	if parent == "" {
		return m, header
	}
	if header == nil {
		header = http.Header{}
	}
	header["Traceparent"] = []string{parent}
	if m.MetaValue(mcp.MetaTraceparent) != nil {
		m = m.WithMeta(mcp.MetaTraceparent, mustQuote(nil, parent))
	}
	return m, header
}
