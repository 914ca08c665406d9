package conformance

import (
	"context"
	"slices"

	"handoff.example/handoff/a2a"
)

func checkPushRefused(ctx context.Context, p *probe, f *finding) {
	switch {
	case p.pushes():
		f.skip("the card declares it")
	case p.withTask(f):
		p.expect(f, p.do(ctx, p.createPush()), a2a.CodePushNotificationNotSupported)
	}
}

func (p *probe) createPush() *call {
	return &call{op: opCreatePush, params: object{"taskId": p.done["id"], "url": p.run.opts.Webhook}}
}

// withPush reports whether webhooks can be exercised.
func (p *probe) withPush(f *finding) bool {
	if !p.pushes() {
		f.skip("the card does not declare webhooks")
		return false
	}
	return p.withTask(f)
}

func checkPushCreate(ctx context.Context, p *probe, f *finding) {
	if !p.withPush(f) {
		return
	}
	a := p.do(ctx, p.createPush())
	if !p.accepted(f, a) {
		return
	}
	p.look("config", a.result, pushShape)
	switch {
	case text(member(a.result, "id")) == "":
		f.broken("it has no id")
	case text(member(a.result, "url")) != p.run.opts.Webhook:
		f.broken("its url is %q", shorten(text(member(a.result, "url")), 100))
	default:
		p.push = text(member(a.result, "id"))
	}
}

// pushParams names the webhook that was made, or settles the finding.
func (p *probe) pushParams(f *finding) object {
	if p.push == "" {
		if !p.pushes() {
			f.skip("the card does not declare webhooks")
		} else {
			f.skip("there is no webhook")
		}
		return nil
	}
	return object{"taskId": p.done["id"], "id": p.push}
}

func checkPushGet(ctx context.Context, p *probe, f *finding) {
	params := p.pushParams(f)
	if params == nil {
		return
	}
	a := p.do(ctx, &call{op: opGetPush, params: params})
	if !p.accepted(f, a) {
		return
	}
	p.look("config", a.result, pushShape)
	if text(member(a.result, "id")) != p.push || text(member(a.result, "url")) != p.run.opts.Webhook {
		f.broken("it is not the webhook that was made")
	}
}

func checkPushList(ctx context.Context, p *probe, f *finding) {
	params := p.pushParams(f)
	if params == nil {
		return
	}
	a := p.do(ctx, &call{op: opListPush, params: object{"taskId": params["taskId"]}})
	if !p.accepted(f, a) {
		return
	}
	p.look("configs", a.result, pushListShape)
	configs, _ := member(a.result, "configs").([]any)
	if !slices.ContainsFunc(configs, func(c any) bool { return text(member(c, "id")) == p.push }) {
		f.broken("it is not there")
	}
}

func checkPushDelete(ctx context.Context, p *probe, f *finding) {
	params := p.pushParams(f)
	if params == nil {
		return
	}
	if !p.accepted(f, p.do(ctx, &call{op: opDeletePush, params: params})) {
		return
	}
	p.expect(f, p.do(ctx, &call{op: opGetPush, params: params}), a2a.CodeTaskNotFound)
}

func checkPushDeleteAgain(ctx context.Context, p *probe, f *finding) {
	params := p.pushParams(f)
	if params == nil {
		return
	}
	p.accepted(f, p.do(ctx, &call{op: opDeletePush, params: params}))
}
