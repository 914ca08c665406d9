package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// jsonRPC is the JSON-RPC binding (A2A §9).
type jsonRPC struct {
	*link
	url    *url.URL
	tenant string
	calls  int
}

func (b *jsonRPC) do(ctx context.Context, c *call) *answer {
	b.calls++
	id := fmt.Sprintf("conformance-%d", b.calls)
	params := withTenant(c.params, b.tenant)
	body := encode(object{"jsonrpc": "2.0", "id": id, "method": c.op, "params": params})
	return b.post(ctx, c, body, id)
}

// withTenant adds the tenant of the interface to parameters (A2A §8.3.2).
func withTenant(params object, tenant string) object {
	out := object{}
	for name, v := range params {
		out[name] = v
	}
	if tenant != "" {
		out["tenant"] = tenant
	}
	return out
}

// post sends a body that may be no request, and reads the answer to the request
// with that id.
func (b *jsonRPC) post(ctx context.Context, c *call, body []byte, id any) *answer {
	a := &answer{op: c.op, sent: "POST " + shorten(string(body), maxQuote)}
	e := &exchange{method: http.MethodPost, url: b.url, body: body, header: http.Header{
		"Content-Type": {mediaJSON}, "Accept": {mediaJSON},
	}}
	if isStreaming(c.op) {
		e.header.Set("Accept", mediaEvents+", "+mediaJSON)
	}
	resp, end := b.begin(ctx, c, e, a)
	defer end()
	if resp == nil {
		return a
	}
	if mediaType(resp.Header) == mediaEvents {
		b.readStream(a, resp.Body, c, id)
		return a
	}
	a.read(resp.Body)
	if a.err == nil {
		b.readAnswer(a, a.body, id)
		if !a.refused() && !a.limited() && a.malformed == "" && mediaType(a.header) != mediaJSON {
			b.observed.add(contentType, "%s: %q and not %s", c.op, a.header.Get("Content-Type"), mediaJSON)
		}
	}
	return a
}

func isStreaming(op string) bool {
	return op == opStream || op == opSubscribe || op == v03.MethodStream || op == v03.MethodResubscribe
}

// readAnswer reads a response of JSON-RPC.
func (b *jsonRPC) readAnswer(a *answer, data []byte, id any) {
	v, err := parse(data)
	if err != nil {
		a.malformed = err.Error()
		return
	}
	o, ok := v.(object)
	if !ok {
		a.malformed = "it is not an object"
		return
	}
	result, hasResult := o["result"]
	fail, hasError := o["error"]
	if fail == nil {
		hasError = false // as some write it beside a result
	}
	switch {
	case !hasResult && !hasError:
		a.malformed = "it has neither result nor error"
		return
	case hasResult && hasError && result != nil:
		b.observed.add(envelope, "%s: both result and error", a.op)
	}
	// What stands before an agent may refuse a caller in words of its own, and
	// before the request is read.
	if a.status < http.StatusBadRequest || o["jsonrpc"] != nil && o["id"] != nil {
		b.checkEnvelope(a.op, o, id)
	}
	if !hasError {
		a.result = result
		if result == nil {
			a.result = object{}
		}
		return
	}
	e, ok := fail.(object)
	if !ok {
		a.malformed = "its error is not an object"
		return
	}
	number, ok := e["code"].(float64)
	a.fault = &fault{code: int(number), message: text(e["message"])}
	if !ok {
		a.malformed = "the error has no code that is a number"
	}
	if data, ok := e["data"]; ok && data != nil {
		a.fault.readDetails(data)
	}
}

// checkEnvelope compares with JSON-RPC 2.0 §5.
func (b *jsonRPC) checkEnvelope(op string, o object, id any) {
	b.observed.saw(envelope)
	if text(o["jsonrpc"]) != "2.0" {
		b.observed.add(envelope, "%s: jsonrpc is not \"2.0\"", op)
	}
	if o["id"] != id {
		b.observed.add(envelope, "%s: the id is %s and not %s", op, quoteID(o["id"]), quoteID(id))
	}
}

func quoteID(id any) string { return shorten(string(encode(id)), 60) }

// readStream reads events, each a response of JSON-RPC (A2A §9.4.2).
func (b *jsonRPC) readStream(a *answer, body io.Reader, c *call, id any) {
	a.streamed = true
	closed, err := readEvents(body, func(data []byte) bool {
		frame := &answer{op: a.op}
		b.readAnswer(frame, bytes.Clone(data), id)
		switch {
		case frame.malformed != "":
			a.malformed = "event " + fmt.Sprint(len(a.events)+1) + ": " + frame.malformed
			return false
		case frame.fault != nil:
			a.fault = frame.fault
			return false
		}
		a.events = append(a.events, frame.result)
		return c.each == nil || c.each(frame.result)
	})
	a.closed = closed
	if err != nil {
		a.err = fmt.Errorf("read stream: %w", err)
	}
}

// wrong compares with A2A §5.4 and §9.5.
func (b *jsonRPC) wrong(a *answer, want a2a.Code) (must, should []string) {
	f := a.fault
	if f.code != want.JSONRPC() {
		must = append(must, fmt.Sprintf("code %d and not %d", f.code, want.JSONRPC()))
	}
	if f.message == "" {
		must = append(must, "no message")
	}
	if reason := infoOf(want); reason != "" {
		should = append(should, wrongInfo(f, reason)...)
	}
	return must, should
}

// infoOf returns the reason of the ErrorInfo that an error has, or "" for one
// that is not of A2A.
func infoOf(code a2a.Code) string {
	if n := code.JSONRPC(); n > -32001 || n < -32099 {
		return ""
	}
	return code.Reason()
}

// otherError says that an error which A2A has no ErrorInfo for has that of
// another one.
func otherError(f *fault, want a2a.Code) []string {
	if code, ok := a2a.CodeOfReason(f.reason); ok && code != want && infoOf(code) != "" {
		return []string{fmt.Sprintf("the reason %q", f.reason)}
	}
	return nil
}

// wrongInfo says in what the ErrorInfo of an error is not that of a reason.
func wrongInfo(f *fault, reason string) []string {
	switch {
	case f.reason == "":
		return []string{"no google.rpc.ErrorInfo"}
	case f.reason != reason:
		return []string{fmt.Sprintf("the reason %q and not %q", f.reason, reason)}
	case f.domain != a2a.ErrorDomain:
		return []string{fmt.Sprintf("the domain %q and not %q", f.domain, a2a.ErrorDomain)}
	}
	return nil
}
