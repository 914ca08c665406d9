package conformance

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"handoff.example/handoff/a2a"
)

// unknownTask is GetTask of a task that does not exist: an operation that every
// agent has and that changes nothing.
func unknownTask() *call { return &call{op: opGet, params: object{"id": unknownID()}} }

func checkReachable(ctx context.Context, p *probe, f *finding) { p.reach(f, p.do(ctx, unknownTask())) }

// checkVersionUnsupported asks for a version that will not be soon.
func checkVersionUnsupported(ctx context.Context, p *probe, f *finding) {
	c := unknownTask()
	c.version = "99.0"
	a := p.do(ctx, c)
	a.sent += " with A2A-Version: 99.0"
	p.expect(f, a, a2a.CodeVersionNotSupported)
}

// speaksOld reports whether the card offers version 0.3 over a binding.
func (r *run) speaksOld(binding string) bool {
	return slices.ContainsFunc(r.card.SupportedInterfaces, func(i a2a.AgentInterface) bool {
		v, err := a2a.ParseVersion(i.ProtocolVersion)
		return err == nil && v == a2a.Version03 && strings.EqualFold(i.ProtocolBinding, binding)
	})
}

// checkVersionEmpty sends a request of 1.0 without a version, which means 0.3:
// there it is no request, or the version is not supported.
func checkVersionEmpty(ctx context.Context, p *probe, f *finding) {
	if _, ok := p.binding.(*rest); ok && p.run.speaksOld(p.iface.ProtocolBinding) {
		f.skip("the agent speaks 0.3 over HTTP+JSON too, where the request is the same")
		return
	}
	c := unknownTask()
	c.noVersion = true
	a := p.do(ctx, c)
	a.sent += " without A2A-Version"
	if !p.answered(f, a) {
		return
	}
	if a.fault == nil {
		return // whatever it is, it is no answer of 1.0
	}
	if must, _ := p.binding.wrong(a, a2a.CodeTaskNotFound); len(must) == 0 || a.fault.reason == a2a.CodeTaskNotFound.Reason() {
		f.broken("it was answered as version 1.0 would be")
	}
}

func checkVersionPatch(ctx context.Context, p *probe, f *finding) {
	c := unknownTask()
	c.version = "1.0.3"
	a := p.do(ctx, c)
	a.sent += " with A2A-Version: 1.0.3"
	p.expect(f, a, a2a.CodeTaskNotFound)
}

func checkVersionParameter(ctx context.Context, p *probe, f *finding) {
	if _, ok := p.binding.(*grpcBinding); ok {
		f.skip("gRPC has no parameters of the URL")
		return
	}
	c := unknownTask()
	c.versionQuery = true
	a := p.do(ctx, c)
	a.sent += " with ?A2A-Version=1.0 and no header"
	p.expect(f, a, a2a.CodeTaskNotFound)
}

// needsAuth reports whether the card requires credentials for everything.
func (p *probe) needsAuth() bool {
	for _, r := range p.run.card.SecurityRequirements {
		if len(r.Schemes) == 0 {
			return false // one of the alternatives is none
		}
	}
	return len(p.run.card.SecurityRequirements) > 0
}

func checkAuthRequired(ctx context.Context, p *probe, f *finding) {
	if !p.needsAuth() {
		f.skip("the card requires no credentials")
		return
	}
	c := unknownTask()
	c.anonymous = true
	a := p.do(ctx, c)
	a.sent += " without credentials"
	p.expectRefusal(f, a)
}

// expectRefusal checks that an answer refuses the caller.
func (p *probe) expectRefusal(f *finding, a *answer) {
	f.exchange(a)
	switch {
	case a.cut:
		f.skip(noTime)
	case a.failed():
		f.broken("%v", a.err)
	case a.limited():
		p.busy(f, a)
	case a.refused():
		f.pass()
	case a.fault != nil && isOwnError(a.fault):
		// JSON-RPC has no code for it: a custom error will do (A2A §3.3.2).
		f.pass()
	default:
		f.broken("the caller was not refused")
	}
}

// isOwnError reports whether an error is neither JSON-RPC's own nor A2A's.
func isOwnError(f *fault) bool {
	return f.reason == "" && f.status == "" && (f.code > -32000 || f.code < -32768) && f.code < 0
}

func checkAuthWrong(ctx context.Context, p *probe, f *finding) {
	if !p.needsAuth() {
		f.skip("the card requires no credentials")
		return
	}
	if !p.hasBearer() {
		f.skip("the card has no scheme that sends a bearer token")
		return
	}
	c := unknownTask()
	c.wrongSecret = true
	a := p.do(ctx, c)
	a.sent += " with Authorization: Bearer …, a token that does not exist"
	p.expectRefusal(f, a)
}

// hasBearer reports whether the card has a scheme that sends a bearer token.
func (p *probe) hasBearer() bool {
	for _, s := range p.run.card.SecuritySchemes {
		if s.OAuth2 != nil || s.OpenIDConnect != nil || s.HTTPAuth != nil && strings.EqualFold(s.HTTPAuth.Scheme, "bearer") {
			return true
		}
	}
	return false
}

func checkAuthChallenge(ctx context.Context, p *probe, f *finding) {
	if !p.needsAuth() {
		f.skip("the card requires no credentials")
		return
	}
	c := unknownTask()
	c.anonymous = true
	a := p.do(ctx, c)
	f.exchange(a)
	if !a.refused() {
		f.skip("the caller was not refused")
		return
	}
	if challenge := a.header.Get("WWW-Authenticate"); challenge != "" {
		f.pass("WWW-Authenticate: " + challenge)
		return
	}
	f.broken("there is no WWW-Authenticate")
}

// raw posts a body that may be no request of JSON-RPC.
func (p *probe) raw(ctx context.Context, body string, id any) *answer {
	b, _ := p.binding.(*jsonRPC)
	return p.patiently(ctx, func() *answer { return b.post(ctx, &call{op: "request"}, []byte(body), id) })
}

func checkParseError(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.raw(ctx, `{"jsonrpc": "2.0", "id": 1, "method": `, nil), a2a.CodeParse)
}

func checkInvalidRequest(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.raw(ctx, `{"jsonrpc":"2.0","id":"conformance-no-method","params":{}}`, "conformance-no-method"), a2a.CodeInvalidRequest)
}

func checkUnknownMethod(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.do(ctx, &call{op: "ConformanceNoSuchMethod", params: object{}}), a2a.CodeMethodNotFound)
}

func checkIDs(ctx context.Context, p *probe, f *finding) {
	params := string(encode(withTenant(object{"id": unknownID()}, p.iface.Tenant)))
	for _, id := range []any{"a text", float64(7)} {
		a := p.raw(ctx, `{"jsonrpc":"2.0","id":`+string(encode(id))+`,"method":"GetTask","params":`+params+`}`, id)
		if !p.answered(f, a) {
			return
		}
		v, _ := parse(a.body)
		if got := member(v, "id"); got != id {
			f.broken("the id %s came back as %s", quoteID(id), quoteID(got))
			return
		}
	}
}

func checkRESTParse(ctx context.Context, p *probe, f *finding) {
	p.refused(ctx, f, http.StatusBadRequest, opSend, http.MethodPost, "/message:send", []byte(`{"message": `))
}

func checkRESTPath(ctx context.Context, p *probe, f *finding) {
	p.refused(ctx, f, http.StatusNotFound, "request", http.MethodGet, "/conformance-no-such-path", nil)
}

// refused holds that a request of HTTP+JSON is refused with a status and a
// well-formed error.
func (p *probe) refused(ctx context.Context, f *finding, status int, op, method, path string, body []byte) {
	b, _ := p.binding.(*rest)
	a := p.patiently(ctx, func() *answer {
		return b.send(ctx, &call{op: op}, method, path, nil, body)
	})
	if !p.answered(f, a) {
		return
	}
	switch {
	case a.status != status:
		f.broken("HTTP %d and not %d", a.status, status)
	case a.malformed != "":
		f.broken("%s", a.malformed)
	}
}

func checkGRPCMethod(ctx context.Context, p *probe, f *finding) {
	p.expect(f, p.do(ctx, &call{op: "ConformanceNoSuchMethod", params: object{}}), a2a.CodeMethodNotFound)
}

// invalid is a call with parameters that are wrong in every binding, and the
// field that is.
func (p *probe) invalid(ctx context.Context) (*answer, string) {
	if _, ok := p.binding.(*rest); ok {
		// The id is in the path, where it cannot be missing.
		return p.do(ctx, &call{op: opList, params: object{"status": "TASK_STATE_CONFORMANCE"}}), "status"
	}
	return p.do(ctx, &call{op: opGet, params: object{}}), "id"
}

func checkInvalidParams(ctx context.Context, p *probe, f *finding) {
	a, _ := p.invalid(ctx)
	if a.op == opList && a.fault != nil {
		if must, _ := p.binding.wrong(a, a2a.CodeUnsupportedOperation); len(must) == 0 {
			f.skip("the agent has no lists")
			return
		}
	}
	p.expect(f, a, a2a.CodeInvalidParams)
}

func checkInvalidFields(ctx context.Context, p *probe, f *finding) {
	a, field := p.invalid(ctx)
	f.exchange(a)
	if a.fault == nil || a.wantsExtension() || a.refused() {
		f.skip("it was not refused as invalid")
		return
	}
	if must, _ := p.binding.wrong(a, a2a.CodeInvalidParams); len(must) > 0 {
		f.skip("it was not refused as invalid")
		return
	}
	if !slices.ContainsFunc(a.fault.fields, func(name string) bool { return strings.Contains(name, field) || name == snake(field) }) {
		f.broken("no google.rpc.BadRequest names %s", field)
	}
}

// snake is the name of a field in protobuf.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func checkUnknownFields(ctx context.Context, p *probe, f *finding) {
	if _, ok := p.binding.(*grpcBinding); ok {
		f.skip("protobuf ignores them by itself")
		return
	}
	c := unknownTask()
	c.params["conformanceUnknownField"] = "x"
	p.expect(f, p.do(ctx, c), a2a.CodeTaskNotFound)
}

func checkContentType(_ context.Context, p *probe, f *finding) {
	if _, ok := p.binding.(*grpcBinding); ok {
		f.skip("gRPC answers that are not are seen as such at once")
		return
	}
	f.problems(p.observed, contentType, envelope, mediaA2A)
	if f.Outcome == "" || len(p.observed.problems[contentType]) > 0 {
		return
	}
	if f.Outcome != Skip {
		f.Outcome, f.Seen = Pass, "" // the other topics have checks of their own
	}
}
