package wire

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// refuseRoute answers a request for a place where there is nothing.
func (x *exchange) refuseRoute() {
	x.refuseAs(a2a.Errorf(a2a.CodeMethodNotFound, "There is nothing at %s", clip(x.r.URL.Path, 200)), http.StatusNotFound)
}

// refuseMethod answers a request with an HTTP method that its place does not
// take.
func (x *exchange) refuseMethod(allow string) {
	x.w.Header()["Allow"] = []string{allow}
	x.code = "MethodNotAllowed"
	body := appendHTTPStatus(nil, http.StatusMethodNotAllowed, "UNIMPLEMENTED",
		"The HTTP method "+clip(x.r.Method, 32)+" is not allowed here; use "+allow, nil)
	x.send(http.StatusMethodNotAllowed, body)
}

// options answers an OPTIONS request. What a browser asks for is in the headers
// already.
func (x *exchange) options(allow string) {
	x.w.Header()["Allow"] = []string{allow}
	x.code = codeOK
	x.send(http.StatusNoContent, nil)
}

// gets answers everything but GET and HEAD, and reports whether it is one of
// them.
func (x *exchange) gets() bool {
	const allow = "GET, HEAD, OPTIONS"
	switch x.r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodOptions:
		x.options(allow)
	default:
		x.refuseMethod(allow)
	}
	return false
}

// serveHome says what is at an agent's address.
func (x *exchange) serveHome() {
	if x.r.Method == http.MethodPost && slices.Contains(x.agent.Versions, a2a.Version03) {
		x.serveOldHome()
		return
	}
	if !x.gets() {
		return
	}
	if !strings.HasSuffix(x.r.URL.Path, "/") {
		x.addSlash()
		return
	}
	paths := x.agent.Paths.withDefaults()
	b := []byte(`{"agent":`)
	for i, member := range [...]struct{ name, value string }{
		{"", x.agent.Spec.ID}, {"card", paths.Card}, {"jsonrpc", paths.JSONRPC}, {"rest", paths.REST},
	} {
		if i > 0 {
			b = append(append(append(b, `,"`...), member.name...), `":`...)
		}
		b, _ = jsontext.AppendQuote(b, member.value) // configured, and valid
	}
	x.code = codeOK
	x.send(http.StatusOK, append(b, '}'))
}

// addSlash redirects to the same address with a slash at its end, below which
// the paths of the answer lie. The location is relative, as a proxy may have
// taken the beginning of the path away.
func (x *exchange) addSlash() {
	path := x.r.URL.EscapedPath()
	location := path[strings.LastIndexByte(path, '/')+1:] + "/"
	if x.r.URL.RawQuery != "" {
		location += "?" + x.r.URL.RawQuery
	}
	x.w.Header()["Location"] = []string{location}
	x.code = codeOK
	x.send(http.StatusPermanentRedirect, nil)
}

// serveCard serves the agent card, which is public (A2A §8.2).
func (x *exchange) serveCard() {
	if x.agent.Card == nil {
		x.refuseRoute()
		return
	}
	if !x.gets() {
		return
	}
	recorder := &recorder{ResponseWriter: x.w, x: x}
	x.code = codeOK
	x.agent.Card(recorder, x.r, x.tenant)
	if x.status == 0 {
		x.status = http.StatusOK
	}
}

// recorder notes the status of an answer that somebody else writes.
type recorder struct {
	http.ResponseWriter
	x *exchange
}

// WriteHeader notes the status.
func (r *recorder) WriteHeader(status int) {
	if r.x.status == 0 {
		r.x.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write notes that there is an answer.
func (r *recorder) Write(b []byte) (int, error) {
	if r.x.status == 0 {
		r.x.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
