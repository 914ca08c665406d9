package api

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/store"
)

// Pages of the audit log.
const (
	auditPage    = 100
	maxAuditPage = 1000
)

// maxAuditLooked is how many entries one page looks at for those of an action.
const maxAuditLooked = 10_000

// listAudit returns entries of the audit log, the oldest or the newest first.
func (c *call) listAudit() (any, error) {
	q := c.query("after", "before", "order", "action", "since", "until", "subject", "task", "limit")
	switch order := q.values.Get("order"); order {
	case "", "asc", "desc":
	default:
		q.bad("order", "is neither asc nor desc")
	}
	query := store.AuditQuery{
		After: q.number("after", 0, 0, math.MaxInt64), Since: q.time("since"), Until: q.time("until"),
		Before: q.number("before", 0, 0, math.MaxInt64), Newest: q.values.Get("order") == "desc",
		Task: q.values.Get("task"), Limit: int(q.number("limit", auditPage, 1, maxAuditPage)),
	}
	if q.values.Has("subject") {
		query.Subject = new(q.values.Get("subject"))
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	if c.h.opts.Audit == nil {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "This node has no audit log")
	}
	answer := auditPageOf{Entries: []jsontext.Value{}}
	action, limit := q.values.Get("action"), query.Limit
	if action != "" {
		query.Limit = maxAuditPage // to find those of the action among them
	}
	for looked := 0; ; {
		entries, err := c.h.opts.Audit.Read(c.context(), query)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			looked++
			if isAction(e.Body, action) {
				body := append(strconv.AppendInt([]byte(`{"id":`), e.ID, 10), ',')
				answer.Entries = append(answer.Entries, append(body, e.Body[1:]...))
			}
			if len(answer.Entries) == limit || looked == maxAuditLooked {
				return answer.at(e.ID, query.Newest), nil
			}
			if query.Newest {
				query.Before = e.ID
			} else {
				query.After = e.ID
			}
		}
		if len(entries) < query.Limit {
			return answer, nil
		}
	}
}

type auditPageOf struct {
	Entries []jsontext.Value `json:"entries"`
	After   int64            `json:"next_after,omitzero"`
	Before  int64            `json:"next_before,omitzero"`
}

// at says where the next page begins.
func (p auditPageOf) at(id int64, newest bool) auditPageOf {
	if p.After = id; newest {
		p.After, p.Before = 0, id
	}
	return p
}

// isAction reports whether an entry is of an operation: of that name, or with a
// star at its end, of one that begins so. "" is any.
func isAction(body []byte, action string) bool {
	if action == "" {
		return true
	}
	var e struct {
		Operation string `json:"operation"`
	}
	if json.Unmarshal(body, &e, jsontext.AllowDuplicateNames(true)) != nil {
		return false
	}
	if prefix, ok := strings.CutSuffix(action, "*"); ok {
		return strings.HasPrefix(e.Operation, prefix)
	}
	return e.Operation == action
}

// auditTimeout bounds how long an operator waits for the audit log.
const auditTimeout = 10 * time.Second

// audit records what a known caller did. What operators change is stored before
// it is answered, and an error says that it could not be.
func (c *call) audit(err error) error {
	o, p := c.operation, &c.caller
	changes := o.method != http.MethodGet
	if o.role == auth.RoleNone || p.Role == auth.RoleNone || !c.h.opts.Audit.Wants(changes) {
		return nil
	}
	e := c.entry(err)
	if !changes || p.Role < auth.RoleOperator || err != nil {
		c.h.opts.Audit.Record(e)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.context()), auditTimeout)
	defer cancel()
	if err := c.h.opts.Audit.Commit(ctx, e); err != nil {
		return &a2a.Error{Code: a2a.CodeUnavailable, Message: "It was done, but could not be recorded in the audit log", Err: err}
	}
	return nil
}

// auditTask records what the request did to one of several tasks, as if it was
// the only one. It is stored with the entry of the request at the latest.
func (c *call) auditTask(id string, err error) {
	if !c.h.opts.Audit.Wants(true) {
		return
	}
	e := c.entry(err)
	e.Operation = c.operation.method + " " + strings.Replace(c.operation.path, "/tasks:", "/tasks/{id}:", 1)
	e.Task, e.Target = clip(auth.Redact(id), a2a.MaxIDLength), ""
	c.h.opts.Audit.Record(e)
}

// entry returns what the audit log has of the request.
func (c *call) entry(err error) *audit.Entry {
	o, p := c.operation, &c.caller
	e := &audit.Entry{
		At: time.Now(), Tenant: p.Tenant, Subject: p.Subject, Issuer: p.Issuer, Key: p.Key, Role: p.Role.String(), Address: p.Address,
		Operation: o.method + " " + o.path, Binding: "api", Target: c.target, Result: audit.OK, Request: c.id,
	}
	if err != nil {
		e.Result = a2a.CodeOf(err).String()
	}
	switch id := c.r.PathValue("id"); {
	case strings.HasPrefix(o.path, "/tasks/"):
		e.Task = clip(auth.Redact(id), a2a.MaxIDLength)
	case id != "":
		e.Target = clip(auth.Redact(id), a2a.MaxIDLength)
	}
	carried := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(c.r.Header))
	if span := trace.SpanContextFromContext(carried); span.HasTraceID() {
		e.Trace = span.TraceID().String()
	}
	return e
}
