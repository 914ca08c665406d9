package client

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/span"
)

// traced begins the span of an operation, by the semantic conventions of OpenTelemetry
// for RPC. There is none where nobody follows: a look at a task every few minutes
// is no trace of its own.
func (c *Client) traced(ctx context.Context, r *request) (context.Context, func(error)) {
	if c.opts.Tracer == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, func(error) {}
	}
	at := c.route()
	attributes := []attribute.KeyValue{
		span.RPCMethod.String(r.op), span.AgentName.String(c.card.Name),
	}
	switch {
	case strings.EqualFold(at.iface.ProtocolBinding, a2a.BindingJSONRPC):
		attributes = append(attributes, span.RPCSystem.String("jsonrpc"))
	case strings.EqualFold(at.iface.ProtocolBinding, a2a.BindingGRPC):
		attributes = append(attributes, span.RPCSystem.String("grpc"))
	default:
		attributes = append(attributes, attribute.String("http.request.method", r.method))
	}
	if u, err := parseAddress(&at.iface, c.opts.CardURL); err == nil {
		attributes = append(attributes, span.Server.String(u.Hostname()))
	}
	ctx, begun := c.opts.Tracer.Start(ctx, "A2A "+r.op, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	return ctx, func(err error) {
		if err != nil {
			kind := kindOf(err)
			begun.SetAttributes(span.ErrorType.String(kind))
			begun.SetStatus(codes.Error, kind)
		}
		begun.End()
	}
}

// kindOf names an error, without what it says.
func kindOf(err error) string {
	if t, ok := errors.AsType[*TransportError](err); ok {
		return string(t.Kind)
	}
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return e.Code.String()
	}
	return "_OTHER"
}
