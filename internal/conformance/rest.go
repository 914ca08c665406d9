package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"handoff.example/handoff/a2a"
)

// rest is the HTTP+JSON binding (A2A §11).
type rest struct {
	*link
	base   *url.URL
	tenant string
	// postSubscribe subscribes with POST, for an agent that knows no GET:
	// a2a.proto has the one and A2A §11.3.2 the other.
	postSubscribe bool
}

// target returns the method, the path and the parameters that stand in it
// (A2A §11.3).
func target(op string, params object) (method, path string, inPath []string) {
	id, task := url.PathEscape(text(params["id"])), url.PathEscape(text(params["taskId"]))
	switch op {
	case opSend:
		return http.MethodPost, "/message:send", nil
	case opStream:
		return http.MethodPost, "/message:stream", nil
	case opGet:
		return http.MethodGet, "/tasks/" + id, []string{"id"}
	case opList:
		return http.MethodGet, "/tasks", nil
	case opCancel:
		return http.MethodPost, "/tasks/" + id + ":cancel", []string{"id"}
	case opSubscribe:
		return http.MethodGet, "/tasks/" + id + ":subscribe", []string{"id"}
	case opCreatePush:
		return http.MethodPost, "/tasks/" + task + "/pushNotificationConfigs", []string{"taskId"}
	case opListPush:
		return http.MethodGet, "/tasks/" + task + "/pushNotificationConfigs", []string{"taskId"}
	case opGetPush:
		return http.MethodGet, "/tasks/" + task + "/pushNotificationConfigs/" + id, []string{"taskId", "id"}
	case opDeletePush:
		return http.MethodDelete, "/tasks/" + task + "/pushNotificationConfigs/" + id, []string{"taskId", "id"}
	case opExtended:
		return http.MethodGet, "/extendedAgentCard", nil
	}
	return http.MethodGet, "/" + op, nil
}

func (b *rest) do(ctx context.Context, c *call) *answer {
	method, path, inPath := target(c.op, c.params)
	rest := object{}
	for name, v := range c.params {
		rest[name] = v
	}
	for _, name := range inPath {
		delete(rest, name)
	}
	if c.op == opSubscribe && b.postSubscribe {
		method = http.MethodPost
	}
	var body []byte
	query := url.Values{}
	if method == http.MethodPost {
		body = encode(rest)
	} else {
		for name, v := range rest {
			query.Set(name, queryText(v))
		}
	}
	a := b.send(ctx, c, method, path, query, body)
	if c.op == opSubscribe && !b.postSubscribe && (a.status == http.StatusMethodNotAllowed || a.status == http.StatusNotFound && a.malformed != "" || a.status == http.StatusNotFound && a.fault != nil && a.fault.reason == "") {
		b.postSubscribe = true
		if again := b.send(ctx, c, http.MethodPost, path, nil, []byte("{}")); again.status != http.StatusMethodNotAllowed {
			return again
		}
		b.postSubscribe = false
	}
	return a
}

func queryText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	}
	return string(encode(v))
}

// send sends a request below the interface's URL.
func (b *rest) send(ctx context.Context, c *call, method, path string, query url.Values, body []byte) *answer {
	full := strings.TrimRight(b.base.EscapedPath(), "/")
	if b.tenant != "" {
		full += "/" + url.PathEscape(b.tenant)
	}
	full += path
	at := *b.base
	at.RawPath = full
	at.Path, _ = url.PathUnescape(full) // every part is escaped
	at.RawQuery = query.Encode()
	a := &answer{op: c.op, sent: method + " " + path}
	if at.RawQuery != "" {
		a.sent += "?" + at.RawQuery
	}
	e := &exchange{method: method, url: &at, header: http.Header{"Accept": {a2a.MediaType + ", " + mediaJSON}}}
	if body != nil {
		a.sent += " " + shorten(string(body), maxQuote)
		e.body = body
		e.header.Set("Content-Type", a2a.MediaType)
	}
	if isStreaming(c.op) {
		e.header.Set("Accept", mediaEvents+", "+a2a.MediaType+", "+mediaJSON)
	}
	resp, end := b.begin(ctx, c, e, a)
	defer end()
	if resp == nil {
		return a
	}
	if mediaType(resp.Header) == mediaEvents && resp.StatusCode/100 == 2 {
		b.readStream(a, resp.Body, c)
		return a
	}
	a.read(resp.Body)
	if a.err == nil {
		b.readAnswer(a)
	}
	return a
}

func (b *rest) readAnswer(a *answer) {
	success := a.status/100 == 2
	if success && len(bytes.TrimSpace(a.body)) == 0 {
		a.result = object{} // deletion may answer nothing (A2A §3.1.10)
		return
	}
	v, err := parse(a.body)
	if err != nil {
		a.malformed = err.Error()
		return
	}
	o, ok := v.(object)
	if !ok {
		a.malformed = "it is not an object"
		return
	}
	if t := mediaType(a.header); !isJSON(t) {
		b.observed.add(contentType, "%s: %q and not %s", a.op, a.header.Get("Content-Type"), a2a.MediaType)
	} else if t != a2a.MediaType {
		b.observed.add(mediaA2A, "%s: %s", a.op, t)
	}
	b.observed.saw(mediaA2A)
	if success {
		a.result = o
		return
	}
	e, ok := o["error"].(object)
	if !ok {
		a.malformed = `it has no object "error", as google.rpc.Status has`
		return
	}
	a.fault = readStatus(e)
}

// readStatus reads a google.rpc.Status (A2A §11.6).
func readStatus(e object) *fault {
	number, _ := e["code"].(float64)
	f := &fault{code: int(number), status: text(e["status"]), message: text(e["message"])}
	if details, ok := e["details"]; ok && details != nil {
		f.readDetails(details)
	}
	return f
}

// readStream reads events, each a StreamResponse (A2A §11.7).
func (b *rest) readStream(a *answer, body io.Reader, c *call) {
	a.streamed = true
	closed, err := readEvents(body, func(data []byte) bool {
		v, err := parse(bytes.Clone(data))
		if err != nil {
			a.malformed = fmt.Sprintf("event %d: %v", len(a.events)+1, err)
			return false
		}
		if e, ok := member(v, "error").(object); ok {
			a.fault = readStatus(e)
			return false
		}
		a.events = append(a.events, v)
		return c.each == nil || c.each(v)
	})
	a.closed = closed
	if err != nil {
		a.err = fmt.Errorf("read stream: %w", err)
	}
}

// wrong compares with A2A §5.4 and §11.6.
func (b *rest) wrong(a *answer, want a2a.Code) (must, should []string) {
	f := a.fault
	if a.status != want.HTTPStatus() {
		must = append(must, fmt.Sprintf("HTTP %d and not %d", a.status, want.HTTPStatus()))
	}
	if f.code != a.status {
		must = append(must, fmt.Sprintf("error.code is %d and not the HTTP status", f.code))
	}
	if f.message == "" {
		must = append(must, "no message")
	}
	if f.status == "" {
		should = append(should, "error.status is missing")
	}
	if reason := infoOf(want); reason != "" {
		must = append(must, wrongInfo(f, reason)...)
	} else {
		must = append(must, otherError(f, want)...)
	}
	return must, should
}
