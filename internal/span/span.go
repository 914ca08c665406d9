// Package span has what all spans of a node have in common: the names of their
// attributes, ids that follow from what a span is of, and the W3C trace context as
// text.
package span

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Names of attributes by the semantic conventions of OpenTelemetry: those of RPC,
// GenAI and MCP. They are never given what a message says.
const (
	Operation    = attribute.Key("gen_ai.operation.name")
	AgentID      = attribute.Key("gen_ai.agent.id")
	AgentName    = attribute.Key("gen_ai.agent.name")
	Conversation = attribute.Key("gen_ai.conversation.id")
	ToolName     = attribute.Key("gen_ai.tool.name")
	PromptName   = attribute.Key("gen_ai.prompt.name")

	MCPMethod  = attribute.Key("mcp.method.name")
	MCPVersion = attribute.Key("mcp.protocol.version")

	RPCSystem = attribute.Key("rpc.system.name")
	RPCMethod = attribute.Key("rpc.method")
	RPCStatus = attribute.Key("rpc.response.status_code")
	ErrorType = attribute.Key("error.type")
	Server    = attribute.Key("server.address")
)

// Names of attributes that no convention has.
const (
	Task      = attribute.Key("a2a.task.id")
	State     = attribute.Key("a2a.task.state")
	Turn      = attribute.Key("handoff.turn")
	Attempt   = attribute.Key("handoff.attempt")
	Cause     = attribute.Key("handoff.cause")
	Wait      = attribute.Key("handoff.wait")
	Relation  = attribute.Key("handoff.link") // of a link: what it leads to
	Request   = attribute.Key("handoff.request.id")
	Agent     = attribute.Key("handoff.agent")
	MCPServer = attribute.Key("handoff.mcp.server")
	Outcome   = attribute.Key("handoff.outcome")
)

// Values of Operation.
const (
	InvokeAgent = "invoke_agent"
	ExecuteTool = "execute_tool"
)

const header = "traceparent"

// Traceparent returns the W3C trace context of ctx, or "".
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[header]
}

// Within returns ctx as a part of the trace that a W3C trace context names. What
// cannot be read is as none.
func Within(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{header: traceparent})
}

// ID returns the id of the span of a part of a task. It is the same on every node
// and after every restart, so that whoever knows the part can lead to its span.
func ID(task, part string, numbers ...int) trace.SpanID {
	text := []byte("handoff span\x00" + task + "\x00" + part)
	for _, n := range numbers {
		text = strconv.AppendInt(append(text, 0), int64(n), 10)
	}
	sum := sha256.Sum256(text)
	id := trace.SpanID(sum[:8])
	if !id.IsValid() {
		id[0] = 1
	}
	return id
}

// Of returns the span with an id in the trace that a W3C trace context names. It is
// invalid where that names none.
func Of(traceparent string, id trace.SpanID) trace.SpanContext {
	of := trace.SpanContextFromContext(Within(context.Background(), traceparent))
	if !of.IsValid() {
		return trace.SpanContext{}
	}
	return of.WithSpanID(id)
}

type idKey struct{}

// WithID has the span that is begun with ctx get that id, when its tracer takes its
// ids from IDs. Spans below it get ids of their own.
func WithID(ctx context.Context, id trace.SpanID) context.Context {
	return context.WithValue(ctx, idKey{}, &wanted{id: id, under: trace.SpanContextFromContext(ctx).SpanID()})
}

// wanted is an id, and the span below which it was wanted: not for those further
// down.
type wanted struct{ id, under trace.SpanID }

// IDs makes the ids of traces and spans. It is an IDGenerator of the SDK of
// OpenTelemetry.
type IDs struct{}

// NewIDs returns the ids of a trace and its first span.
func (g IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	var id trace.TraceID
	for !id.IsValid() {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID returns the id of a span.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if w, ok := ctx.Value(idKey{}).(*wanted); ok && w.under == trace.SpanContextFromContext(ctx).SpanID() {
		return w.id
	}
	var id trace.SpanID
	for binary.BigEndian.Uint64(id[:]) == 0 {
		_, _ = rand.Read(id[:])
	}
	return id
}
