package wire

import (
	"net/http"

	"handoff.example/handoff/a2a"
)

// rpcForm is the form of JSON-RPC (A2A §9).
type rpcForm struct{}

var _ form = rpcForm{}

// serveRPC answers a JSON-RPC request.
func (x *exchange) serveRPC() {
	x.form = rpcForm{}
	switch x.r.Method {
	case http.MethodPost:
	case http.MethodOptions:
		x.options("POST, OPTIONS")
		return
	default:
		x.refuseMethod("POST, OPTIONS")
		return
	}
	if !x.admitCaller() {
		return
	}
	if contentType := x.r.Header["Content-Type"]; !isJSON(contentType) {
		x.refuse(a2a.Errorf(a2a.CodeContentTypeNotSupported, "The Content-Type %q is not supported; send application/json", clip(contentType[0], 128)))
		return
	}
	if x.encoded() {
		return
	}
	p := &rpcParameters{buf: getBuffer()}
	defer p.release()
	body, err := x.body(*p.buf)
	*p.buf = body
	if err != nil {
		x.refuse(err)
		return
	}
	shape := checkShape(body, x.h.opts.Depth, protocolLevels+1)
	if shape != nil && a2a.CodeOf(shape) == a2a.CodeParse {
		x.refuse(shape)
		return
	}
	e, err := parseEnvelope(body)
	if e.id != nil {
		// The body is gone by the time that a stream ends.
		x.rpcID = append(make([]byte, 0, len(e.id)), e.id...)
	}
	if err != nil {
		x.refuse(err)
		return
	}
	if x.silent = e.id == nil; shape != nil {
		x.refuse(shape)
		return
	}
	x.serviceParameters()
	if x.agent.callsOld(x.version, e.method) {
		x.serveOldRPC(&e, body, p)
		return
	}
	if x.op = operationOf(e.method); x.op == opNone {
		x.refuseUnknown(&e, body)
		return
	}
	p.params, p.now = e.params, x.silent
	if x.op.pushes() && !x.h.service.pushes(&x.call) || x.op == opGetExtendedCard && !x.agent.ExtendedCard {
		// These are refused whatever their parameters are, as long as they are
		// JSON.
		if _, err := syntax(body); err != nil {
			x.refuse(err)
			return
		}
	}
	if x.silent && x.op == opSubscribeToTask {
		x.code = codeOK
		x.send(http.StatusNoContent, nil)
		return
	}
	if x.silent && x.op == opSendStreamingMessage {
		x.op = opSendMessage
	}
	x.run(x.traced("A2A "+x.op.String()), p)
}

// refuseUnknown refuses a method that does not exist. Its version is checked
// first, since another version has other methods (A2A §3.6.2), and its syntax
// before that.
func (x *exchange) refuseUnknown(e *envelope, body []byte) {
	if _, err := syntax(body); err != nil {
		x.refuse(err)
		return
	}
	if err := x.agent.speaks(x.version); err != nil {
		x.refuse(err)
		return
	}
	x.refuse(a2a.Errorf(a2a.CodeMethodNotFound, "Method not found: %s", clip(string(e.method), 64)))
}

// rpcParameters are the params of a JSON-RPC request.
type rpcParameters struct {
	params []byte  // a part of the body; nil: none
	buf    *[]byte // holds the body; nil once the parameters have been read
	// now makes a message be answered at once, since nobody waits for the
	// answer.
	now bool
}

// release lets go of the body, which a stream does not hold for as long as it
// lasts.
func (p *rpcParameters) release() {
	if p.buf != nil {
		putBuffer(p.buf)
		p.buf, p.params = nil, nil
	}
}

func (p *rpcParameters) read(v a2a.Decodable) error {
	defer p.release()
	params := p.params
	if params == nil {
		params = []byte("{}")
	}
	err := a2a.Unmarshal(params, v)
	if err != nil && a2a.CodeOf(err) == a2a.CodeParse {
		if _, whole := syntax(*p.buf); whole != nil {
			return whole // it counts bytes from the beginning of the body
		}
	}
	if q, ok := v.(*sendRequest); ok && p.now && err == nil {
		if q.Configuration == nil {
			q.Configuration = &a2a.SendMessageConfiguration{}
		}
		q.Configuration.ReturnImmediately = true
	}
	return err
}

func (rpcForm) result(dst []byte, x *exchange, v result) []byte {
	dst = rpcForm{}.opening(dst, x)
	dst = v.AppendJSON(dst)
	return append(dst, '}')
}

func (rpcForm) opening(dst []byte, x *exchange) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendID(dst, x.rpcID)
	return append(dst, `,"result":`...)
}

func (rpcForm) closing(dst []byte) []byte { return append(dst, '}') }

func (rpcForm) failure(dst []byte, x *exchange, e *a2a.Error) ([]byte, int) {
	status := rpcStatus(e.Code)
	if e == errLate {
		status = http.StatusRequestTimeout
	}
	return rpcForm{}.frameError(dst, x, e), status
}

func (rpcForm) frameError(dst []byte, x *exchange, e *a2a.Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if e.Code == a2a.CodeParse {
		dst = append(dst, "null"...) // what is not JSON has no id
	} else {
		dst = appendID(dst, x.rpcID)
	}
	dst = append(dst, `,"error":`...)
	dst = e.AppendJSONRPC(dst)
	return append(dst, '}')
}

func appendID(dst, id []byte) []byte {
	if id == nil {
		return append(dst, "null"...)
	}
	return append(dst, id...)
}

// rpcStatus returns the HTTP status of an error. Official clients take an error
// only with 200; the others say what proxies and HTTP clients act on.
func rpcStatus(code a2a.Code) int {
	switch code {
	case a2a.CodeUnauthenticated, a2a.CodePermissionDenied, a2a.CodeTooLarge, a2a.CodeResourceExhausted, a2a.CodeUnavailable:
		return code.HTTPStatus()
	}
	return http.StatusOK
}
