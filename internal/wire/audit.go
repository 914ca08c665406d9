package wire

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
)

// audit records the request of a known caller, once. Those of nobody are counted
// in the metrics and not kept, so that strangers cannot fill the log.
func (x *exchange) audit(result string) {
	if x.audited || x.op == opNone || x.caller.Role == auth.RoleNone || !x.h.opts.Audit.Wants(x.op.changes()) {
		return
	}
	x.audited = true
	p := &x.caller
	e := &audit.Entry{
		At: time.Now(), Tenant: p.Tenant, Subject: p.Subject, Issuer: p.Issuer, Key: p.Key, Role: p.Role.String(), Address: p.Address,
		Operation: x.op.String(), Binding: x.binding(), Version: "1.0", Task: x.task, Context: x.context,
		Result: result, Request: x.id, Content: x.content,
	}
	if x.old {
		e.Version = "0.3"
	}
	if x.agent != nil {
		e.Agent = x.agent.Spec.ID
	}
	if span := trace.SpanContextFromContext(x.ctx); x.span == nil && span.HasTraceID() {
		e.Trace = span.TraceID().String()
	} else if x.span != nil {
		e.Trace = x.span.SpanContext().TraceID().String()
	}
	x.h.opts.Audit.Record(e)
}

// binding returns the name of the binding that the request came over.
func (x *exchange) binding() string {
	if x.via != nil {
		return "grpc"
	}
	switch f := x.form.(type) {
	case rpcForm:
		return "jsonrpc"
	case *oldForm:
		if f.rpc {
			return "jsonrpc"
		}
	}
	return "http+json"
}
