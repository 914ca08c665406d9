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
	"handoff.example/handoff/internal/span"
)

// begin begins the span of a call, as a part of the trace that the message names,
// or else the request (OBS-02; MCP basic/index §OpenTelemetry trace context).
func (x *exchange) begin(c *call) {
	ctx := x.ctx()
	parent, state := x.r.Header.Get("Traceparent"), x.r.Header.Get("Tracestate")
	if said := x.message.MetaString(mcp.MetaTraceparent); isTraceparent(said) {
		parent, state = said, x.message.MetaString(mcp.MetaTracestate)
	}
	if parent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent, "tracestate": state})
	}
	x.trace = trace.SpanContextFromContext(ctx)
	if x.h.opts.Tracer == nil || x.span != nil { // what another call means is a part of that
		return
	}
	name, attributes := named(c, c.target.Exposed)
	ctx, x.span = x.h.opts.Tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(append(attributes,
		span.MCPVersion.String(x.version), span.MCPServer.String(x.server), span.Request.String(x.id))...))
	x.base, x.trace = ctx, x.span.SpanContext()
}

// named returns the name and the attributes of the span of a call, by the semantic
// conventions of OpenTelemetry for MCP. The URI of a resource may have secrets, and is
// not among them.
func named(c *call, target string) (name string, attributes []attribute.KeyValue) {
	name, target = c.method, clip(target, 128)
	attributes = []attribute.KeyValue{span.RPCSystem.String("jsonrpc"), span.MCPMethod.String(c.method)}
	switch c.method {
	case mcp.MethodCallTool:
		name += " " + target
		attributes = append(attributes, span.Operation.String(span.ExecuteTool), span.ToolName.String(target))
	case mcp.MethodGetPrompt:
		name += " " + target
		attributes = append(attributes, span.PromptName.String(target))
	}
	return name, attributes
}

// asking begins the span of what a server is asked for a call. It ends with the answer
// to the client, however often the server is asked.
func (x *exchange) asking(c *call) trace.Span {
	if x.sent == nil {
		name, attributes := named(c, c.target.Name)
		_, x.sent = x.h.opts.Tracer.Start(trace.ContextWithSpan(context.WithoutCancel(x.ctx()), x.span), name,
			trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(append(attributes, span.MCPServer.String(x.server))...))
	}
	return x.sent
}

// endSpan ends the span of a call.
func (x *exchange) endSpan() {
	if x.span == nil {
		return
	}
	for _, s := range []trace.Span{x.sent, x.span} {
		if s == nil {
			continue
		}
		s.SetAttributes(span.Outcome.String(x.outcome))
		if x.outcome != audit.OK {
			s.SetAttributes(span.ErrorType.String(x.outcome))
			s.SetStatus(codes.Error, x.outcome)
		}
		s.End()
	}
}

// traced has a request to a server say that it is a part of the span. The message is
// changed where it names a trace alone, so that others stay as they are.
func (x *exchange) traced(c *call, m *mcp.Message, header http.Header) (*mcp.Message, http.Header) {
	if x.span == nil {
		return m, header
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), x.asking(c)), carrier)
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
