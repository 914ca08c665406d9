package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/reflect/protoreflect"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// probe exercises one interface.
type probe struct {
	run      *run
	iface    a2a.AgentInterface
	name     string // in the report
	address  *url.URL
	binding  binding
	observed *observed
	shape    *shape

	old       bool // it speaks version 0.3
	closeIdle func()

	why    string // no credentials go there, and why
	silent int    // answers in a row that did not come
	gaveUp string // why nothing more is asked; "" while there is

	// What the checks have found so far.
	unlisted  bool // tasks cannot be listed, or with byContext those of a context only
	byContext bool
	done      object // a task that is over
	waiting   object // a task that waits for input
	context   string // of done
	plain     bool   // the agent answers with messages, without tasks
	running   []string
	canceled  string  // a task that was
	stream    *answer // of SendStreamingMessage
	push      string  // a webhook that was made
}

// interfaces returns the interfaces to exercise, and reports those that are
// not.
func (r *run) interfaces() []a2a.AgentInterface {
	var out []a2a.AgentInterface
	seen := map[a2a.AgentInterface]bool{}
	for _, i := range r.card.SupportedInterfaces {
		line := Interface{Binding: i.ProtocolBinding, Version: i.ProtocolVersion, URL: i.URL, Tenant: i.Tenant}
		switch {
		case !isOneOf(i.ProtocolBinding, a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC):
			line.Reason = "the binding is not known here"
		case !isVersion1(i.ProtocolVersion) && !isVersion03(&i):
			line.Reason = "version " + shorten(i.ProtocolVersion, 20) + " is not exercised over this binding; this is about 1.0, and 0.3 over JSONRPC"
		case len(r.opts.Client.Transports) > 0 && !isOneOf(i.ProtocolBinding, r.opts.Client.Transports...):
			line.Reason = "the binding was not asked for"
		case seen[i]:
			line.Reason = "the card says it twice"
		case len(out) == maxInterfaces:
			line.Reason = fmt.Sprintf("no more than %d are exercised", maxInterfaces)
		default:
			line.Exercised = true
			out = append(out, i)
		}
		seen[i] = true
		if len(r.report.Interfaces) < 4*maxInterfaces {
			r.report.Interfaces = append(r.report.Interfaces, line)
		}
	}
	return out
}

func isOneOf(binding string, names ...string) bool {
	for _, name := range names {
		if strings.EqualFold(binding, name) {
			return true
		}
	}
	return false
}

func isVersion1(text string) bool {
	v, err := a2a.ParseVersion(text)
	return err == nil && v.Major() == a2a.Version10.Major()
}

// nameOf names an interface in the report: by its binding, where there is one.
func (r *run) nameOf(i a2a.AgentInterface) string {
	if isVersion03(&i) {
		return strings.ToUpper(i.ProtocolBinding) + " 0.3"
	}
	count := 0
	for _, other := range r.report.Interfaces {
		if other.Exercised && isVersion1(other.Version) && strings.EqualFold(other.Binding, i.ProtocolBinding) {
			count++
		}
	}
	if count <= 1 {
		return strings.ToUpper(i.ProtocolBinding)
	}
	name := strings.ToUpper(i.ProtocolBinding) + " " + shorten(i.URL, 100)
	if i.Tenant != "" {
		name += " " + shorten(i.Tenant, 40)
	}
	return name
}

// webAddress reads an absolute http or https URL.
func webAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%q is not an absolute http or https URL", shorten(text, 100))
	case u.User != nil:
		return nil, errors.New("the URL carries credentials")
	}
	u.Fragment = ""
	return u, nil
}

func isPrivate(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && (addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast())
}

// newProbe prepares an interface. Its error says why it cannot be reached.
func (r *run) newProbe(i a2a.AgentInterface) (*probe, error) {
	p := &probe{run: r, iface: i, name: r.nameOf(i), old: isVersion03(&i), observed: newObserved()}
	isGRPC := strings.EqualFold(i.ProtocolBinding, a2a.BindingGRPC)
	p.shape = &shape{observed: p.observed, binary: isGRPC}
	var err error
	if isGRPC {
		p.address, err = grpcAddress(i.URL, r.cardURL)
	} else {
		p.address, err = webAddress(i.URL)
	}
	if err != nil {
		return p, err
	}
	way := r.route(p.address)
	p.why = way.why
	l := &link{
		http: way.http, headers: r.opts.Client.Headers, extensions: r.opts.Client.Extensions,
		credentials: way.credentials, timeout: r.opts.CallTimeout, observed: p.observed,
	}
	p.closeIdle = func() {}
	if way.guard != nil {
		p.closeIdle = l.http.CloseIdleConnections
	}
	switch {
	case p.old:
		p.binding = &oldRPC{&jsonRPC{link: l, url: p.address}}
	case isGRPC:
		l.http = r.grpcTransport(way, p.address.Scheme == "https")
		p.closeIdle = l.http.CloseIdleConnections
		p.binding = &grpcBinding{link: l, base: p.address, tenant: i.Tenant}
	case strings.EqualFold(i.ProtocolBinding, a2a.BindingREST):
		p.binding = &rest{link: l, base: p.address, tenant: i.Tenant}
	default:
		p.binding = &jsonRPC{link: l, url: p.address, tenant: i.Tenant}
	}
	return p, nil
}

// exercise runs every check on an interface.
func (r *run) exercise(ctx context.Context, i a2a.AgentInterface) {
	p, err := r.newProbe(i)
	if err != nil {
		p.gaveUp = err.Error()
	}
	for _, c := range checks() {
		if c.only != "" && !strings.EqualFold(c.only, i.ProtocolBinding) || c.run == nil || c.old != p.old {
			continue
		}
		if c.sends && r.opts.Text == "" {
			continue // it was not asked for
		}
		f := r.finding(c, p.name)
		switch {
		case err != nil && (c.id == "interface.reachable" || c.id == "v03.reachable"):
			f.broken("%v", err)
		case p.gaveUp != "":
			f.skip("%s", p.gaveUp)
		case ctx.Err() != nil:
			f.skip(noTime)
		default:
			c.run(ctx, p, f)
		}
		r.report.Results = append(r.report.Results, f.result())
	}
	if p.binding != nil {
		p.cleanUp(ctx)
		p.closeIdle()
		if p.done != nil && r.first == nil && !p.old {
			r.first = p
		}
	}
}

// cleanUp cancels what was begun and still runs.
func (p *probe) cleanUp(ctx context.Context) {
	for _, id := range p.running {
		if ctx.Err() == nil && p.gaveUp == "" {
			op := opCancel
			if p.old {
				op = v03.MethodCancel
			}
			p.do(ctx, &call{op: op, params: object{"id": id}})
		}
	}
}

func (r *run) finding(c check, on string) *finding {
	return &finding{
		Result: Result{ID: c.id, Group: c.group, Interface: on, Title: c.title, Paragraph: c.paragraph, Severity: c.severity},
		hide:   r.opts.Hide,
	}
}

// do carries out a call, looks at what every answer shows, and gives an agent
// up that does not answer any more.
func (p *probe) do(ctx context.Context, c *call) *answer {
	if p.gaveUp != "" {
		return &answer{op: c.op, err: errors.New(p.gaveUp)}
	}
	return p.patiently(ctx, func() *answer { return p.binding.do(ctx, c) })
}

// patiently asks, and again while the agent says when it has time.
func (p *probe) patiently(ctx context.Context, ask func() *answer) *answer {
	a := ask()
	for range maxRetries {
		wait, ok := a.retryAfter()
		if !ok || !pause(ctx, wait) {
			break
		}
		a = ask()
	}
	p.note(a)
	return a
}

// busy settles a finding for an agent that has no time.
func (p *probe) busy(f *finding, a *answer) {
	p.run.report.Busy = true
	f.skip("the agent has no time: %s", a.describe())
}

// pause waits, and reports false when the time of the run was over before.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *probe) note(a *answer) {
	switch {
	case a.cut:
	case a.err == nil:
		p.silent = 0
	case p.silent+1 >= maxSilent:
		p.silent++
		p.gaveUp = fmt.Sprintf("the interface did not answer %d times in a row (%s)", maxSilent, shorten(a.err.Error(), maxQuote/2))
	default:
		p.silent++
	}
	if a.fault == nil {
		return
	}
	p.observed.saw(details)
	if a.fault.badDetails != "" {
		p.observed.add(details, "%s: %s", a.op, a.fault.badDetails)
	}
}

// look compares what an answer holds with its definition.
func (p *probe) look(at string, v any, of protoreflect.MessageDescriptor) { p.shape.look(at, v, of) }

// expect checks that an answer is one of the errors, each written as the
// binding does; the first is the one that is meant.
func (p *probe) expect(f *finding, a *answer, want ...a2a.Code) bool {
	f.exchange(a)
	if !p.answered(f, a) {
		return false
	}
	if a.fault == nil {
		if a.malformed != "" {
			f.broken("%s; %s was expected", a.malformed, want[0])
		} else {
			f.broken("it was not refused with %s", want[0])
		}
		return false
	}
	var problems []string
	for i, code := range want {
		must, should := p.binding.wrong(a, code)
		if len(must) > 0 {
			if i == 0 {
				problems = must
			}
			continue
		}
		p.observed.saw(errorInfo)
		for _, text := range should {
			p.observed.add(errorInfo, "%s for %s: %s", a.op, code, text)
		}
		return true
	}
	f.broken("it is not %s: %s", want[0], strings.Join(problems, ", "))
	return false
}

// reach settles whether an interface is there and speaks its binding.
func (p *probe) reach(f *finding, a *answer) {
	f.exchange(a)
	switch {
	case a.cut:
		f.skip(noTime)
	case a.failed():
		p.gaveUp = "the interface cannot be reached"
		f.broken("%v", a.err)
	case a.limited():
		p.busy(f, a)
	case a.refused():
		f.pass()
	case a.status >= 300 && a.status < 400:
		p.gaveUp = "the interface redirects"
		f.broken("it redirects to %q", shorten(a.header.Get("Location"), 100))
	case a.malformed != "":
		if a.status == http.StatusNotFound || a.fault == nil && a.status/100 == 2 {
			p.gaveUp = "the interface does not speak its binding"
		}
		f.broken("%s", a.malformed)
	}
}

// answered checks that there is an answer, and that it is about the call and not
// about who calls or how often.
func (p *probe) answered(f *finding, a *answer) bool {
	f.exchange(a)
	switch {
	case a.failed() && p.gaveUp != "" && a.sent == "":
		f.skip("%s", p.gaveUp)
	case a.cut:
		f.skip(noTime)
	case a.failed():
		f.broken("%v", a.err)
	case a.refused():
		p.run.report.Refused = true
		why := "the agent refused the caller; give credentials"
		if p.run.opts.Client.Credentials != nil {
			why = "the agent refused the credentials"
		}
		if p.why != "" {
			why = "the agent refused the caller: " + p.why
		}
		f.skip("%s (%s)", why, a.describe())
	case a.limited():
		p.busy(f, a)
	case f.ID != "send.extension" && a.wantsExtension():
		f.skip("the agent wants an extension that was not declared; name it in A2A-Extensions")
	default:
		return true
	}
	return false
}

// accepted checks that an answer is a result.
func (p *probe) accepted(f *finding, a *answer) bool {
	if !p.answered(f, a) {
		return false
	}
	switch {
	case a.malformed != "":
		f.broken("%s", a.malformed)
	case a.fault != nil:
		f.broken("it was refused")
	case a.result == nil && !a.streamed:
		f.broken("there is no result")
	default:
		return true
	}
	return false
}

const noTime = "no time was left"

// unknownID returns an id that no agent has given.
func unknownID() string { return uuid.NewString() }
