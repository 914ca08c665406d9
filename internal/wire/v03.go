package wire

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// Version 0.3 (and the dialect before it, see v03_alias.go) is a form of its own
// for the operations of 1.0: other names and another JSON, and from there on the
// same checks and the same calls. docs/v03.md tells the differences.

// oldOperations are the operations of 0.3's methods.
var oldOperations = map[string]struct {
	op      operation
	dialect v03.Dialect
}{
	v03.MethodSend:               {opSendMessage, v03.RPC},
	v03.MethodStream:             {opSendStreamingMessage, v03.RPC},
	v03.MethodGet:                {opGetTask, v03.RPC},
	v03.MethodCancel:             {opCancelTask, v03.RPC},
	v03.MethodResubscribe:        {opSubscribeToTask, v03.RPC},
	v03.MethodSetPushConfig:      {opCreatePushConfig, v03.RPC},
	v03.MethodGetPushConfig:      {opGetPushConfig, v03.RPC},
	v03.MethodListPushConfigs:    {opListPushConfigs, v03.RPC},
	v03.MethodDeletePushConfig:   {opDeletePushConfig, v03.RPC},
	v03.MethodExtendedCard:       {opGetExtendedCard, v03.RPC},
	v03.MethodTasksSend:          {opSendMessage, v03.TasksSend},
	v03.MethodTasksSendSubscribe: {opSendStreamingMessage, v03.TasksSend},
}

// speaksOld reports whether a request that names that version is one of 0.3, which
// the agent speaks.
func (a *Agent) speaksOld(text string) bool {
	if !slices.Contains(a.Versions, a2a.Version03) {
		return false
	}
	version := a.Assume
	if text != "" || version == 0 {
		var err error
		if version, err = a2a.ParseVersion(text); err != nil {
			return false
		}
	}
	return version == a2a.Version03
}

// callsOld is speaksOld for a JSON-RPC method. Clients of 0.3 name no version, and
// where none is assumed to be 1.0 their methods tell them apart.
func (a *Agent) callsOld(text string, method []byte) bool {
	if a.speaksOld(text) {
		return true
	}
	_, old := oldOperations[string(method)]
	return old && text == "" && slices.Contains(a.Versions, a2a.Version03)
}

// errOldTransport refuses what a binding of 1.0 got from a client of 0.3.
var errOldTransport = a2a.Errorf(a2a.CodeVersionNotSupported, "Protocol version 0.3 is not supported here; send A2A-Version: 1.0")

// serveOldRPC answers a JSON-RPC request of 0.3.
func (x *exchange) serveOldRPC(e *envelope, body []byte, params *rpcParameters) {
	method := oldOperations[string(e.method)]
	x.old, x.op = true, method.op
	form := &oldForm{rpc: true, dialect: method.dialect}
	x.form = form
	if _, err := syntax(body); err != nil {
		x.refuse(err)
		return
	}
	if x.op == opNone {
		hint := ""
		if operationOf(e.method) != opNone {
			hint = ", which is a method of version 1.0; send A2A-Version: 1.0"
		}
		x.refuse(a2a.Errorf(a2a.CodeMethodNotFound, "Method not found: %s%s", clip(string(e.method), 64), hint))
		return
	}
	params.params, params.now = e.params, x.silent
	if x.silent && x.op == opSubscribeToTask {
		x.code = codeOK
		x.send(http.StatusNoContent, nil)
		return
	}
	if x.silent && x.op == opSendStreamingMessage {
		x.op = opSendMessage
	}
	ctx := x.traced("A2A " + x.op.String())
	x.run(ctx, &oldRPCParameters{rpcParameters: params, x: x, form: form, ctx: ctx})
}

// oldRPCParameters are the params of a JSON-RPC request of 0.3.
type oldRPCParameters struct {
	*rpcParameters
	x    *exchange
	form *oldForm
	ctx  context.Context
}

func (p *oldRPCParameters) read(v a2a.Decodable) error {
	defer p.release()
	params := p.params
	if params == nil {
		params = []byte("{}")
	}
	if q, ok := v.(*sendRequest); ok {
		if err := p.send(params, q); err != nil {
			return err
		}
		if p.now {
			q.Configuration.ReturnImmediately = true
		}
		return nil
	}
	if err := p.form.dialect.Unmarshal(params, v); err != nil {
		return err
	}
	return p.form.resolve(p.ctx, p.x, v)
}

func (p *oldRPCParameters) send(params []byte, q *sendRequest) error {
	if p.form.dialect != v03.TasksSend {
		return p.form.dialect.Unmarshal(params, q)
	}
	var r v03.TasksSendRequest
	if err := p.form.dialect.Unmarshal(params, &r); err != nil {
		return err
	}
	if err := p.form.name(p.ctx, p.x, &r); err != nil {
		return err
	}
	*q = r.Send
	return nil
}

// serveOldHome answers a request for the address of HTTP+JSON itself.
func (x *exchange) serveOldHome() {
	if x.r.Method != http.MethodPost {
		x.refuseRoute()
		return
	}
	x.refuse(a2a.Errorf(a2a.CodeInvalidRequest, "This is the base address of HTTP+JSON in version 0.3; the path of an operation follows it, such as v1/message:send"))
}

// serveOldREST answers an HTTP+JSON request at a place that only 0.3 has.
func (x *exchange) serveOldREST(path string) {
	if x.serviceParameters(); !x.agent.speaksOld(x.version) {
		x.refuseRoute()
		return
	}
	x.serveREST(path)
}

// oldResource returns what a path names in 0.3, of which r is the meaning in 1.0.
// It has no list of tasks, and another name for the extended card.
func oldResource(path string, r resource) resource {
	tenant, name, ok := strings.Cut(path, "/")
	if !ok {
		tenant, name = "", path
	}
	switch {
	case name == "card" && r.kind == resourceNone:
		return resource{kind: resourceCard, tenant: tenant}
	case r.kind == resourceCard, r.kind == resourceTasks:
		return resource{}
	}
	return r
}

// oldRESTParameters are the parameters of an HTTP+JSON request of 0.3.
type oldRESTParameters struct{ restParameters }

func (p *oldRESTParameters) read(v a2a.Decodable) error {
	switch q := v.(type) {
	case *sendRequest:
		return p.old(q)
	case *getRequest:
		return p.restParameters.read(q)
	case *cancelRequest:
		if err := p.old(q); err != nil {
			return err
		}
		return p.same(&q.ID)
	case *subscribeRequest:
		if p.x.r.Method == http.MethodPost {
			if err := p.old(q); err != nil {
				return err
			}
		}
		return p.same(&q.ID)
	case *a2a.TaskPushNotificationConfig:
		if err := p.old(q); err != nil {
			return err
		}
		nameConfig(q, p.target.task)
		return p.same(&q.TaskID)
	}
	return p.restParameters.read(v)
}

// same checks that a body names the task of the path, if any.
func (p *oldRESTParameters) same(id *string) error {
	if *id != "" && *id != p.target.task {
		return a2a.Invalid("id", "is not the task of the address")
	}
	*id = p.target.task
	return nil
}

// old decodes the body. Where the path says it all, there need not be one.
func (p *oldRESTParameters) old(v a2a.Decodable) error {
	buf := getBuffer()
	defer putBuffer(buf)
	body, err := p.x.body(*buf)
	*buf = body
	if err != nil {
		return err
	}
	if len(body) == 0 && p.target.task != "" {
		return nil
	}
	if err := checkShape(body, p.x.h.opts.Depth, protocolLevels); err != nil {
		return err
	}
	return v03.REST.Unmarshal(body, v)
}

// nameConfig names the webhook that a client has given no name: 0.3 sets the one
// of a task, and sets it again.
func nameConfig(c *a2a.TaskPushNotificationConfig, task string) {
	if c.ID == "" {
		if c.ID = c.TaskID; c.ID == "" {
			c.ID = task
		}
	}
}

// oldForm writes the answers of 0.3.
type oldForm struct {
	rpc     bool
	dialect v03.Dialect
	task    string // its name for a client of the dialect before
	session string
	history int // how many messages that client wants
}

var (
	_ form       = (*oldForm)(nil)
	_ translator = (*oldForm)(nil)
)

// translator is a form whose streams have another JSON than the engine's events.
type translator interface {
	// translate returns the body of a frame, the last of its stream or not.
	translate(x *exchange, body []byte, last bool) ([]byte, error)
}

func (f *oldForm) result(dst []byte, x *exchange, v result) []byte {
	dst = f.opening(dst, x)
	return f.closing(f.appendResult(dst, x, v))
}

func (f *oldForm) appendResult(dst []byte, x *exchange, v result) []byte {
	if f.dialect == v03.TasksSend {
		if b, ok := f.appendAliased(dst, v); ok {
			return b
		}
	}
	switch v := v.(type) {
	case *extendedCard:
		return v.AppendJSON(dst)
	default:
		if b, ok := f.dialect.Append(dst, v); ok {
			return b
		}
	}
	// What is left is the end of a webhook.
	if f.rpc {
		return append(dst, "null"...)
	}
	return append(dst, "{}"...)
}

func (f *oldForm) opening(dst []byte, x *exchange) []byte {
	if f.rpc {
		return rpcForm{}.opening(dst, x)
	}
	return dst
}

func (f *oldForm) closing(dst []byte) []byte {
	if f.rpc {
		return rpcForm{}.closing(dst)
	}
	return dst
}

// translate writes an event. Final is the last one, and every one that ends a
// task (A2A 0.3 §7.2.2).
func (f *oldForm) translate(x *exchange, body []byte, last bool) ([]byte, error) {
	var event a2a.StreamResponse
	if err := a2a.Unmarshal(body, &event); err != nil {
		return nil, errors.New("decode event: " + err.Error()) // it is not the client's fault
	}
	if f.dialect == v03.TasksSend {
		return f.translateAliased(&event, last), nil
	}
	return f.dialect.AppendEvent(nil, &event, last), nil
}

func (f *oldForm) failure(dst []byte, x *exchange, e *a2a.Error) ([]byte, int) {
	e = oldError(x.op, e)
	if f.rpc {
		return rpcForm{}.failure(dst, x, e)
	}
	return restForm{}.failure(dst, x, e)
}

func (f *oldForm) frameError(dst []byte, x *exchange, e *a2a.Error) []byte {
	if f.rpc {
		return rpcForm{}.frameError(dst, x, e)
	}
	return restForm{}.frameError(dst, x, e)
}

// oldError returns the error that 0.3 has for one of 1.0. It has one error for a
// card that is not there.
func oldError(op operation, e *a2a.Error) *a2a.Error {
	if op != opGetExtendedCard || e.Code != a2a.CodeUnsupportedOperation {
		return e
	}
	old := *e
	old.Code = a2a.CodeExtendedAgentCardNotConfigured
	return &old
}
