package handoff

import (
	"context"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/wire"
)

// newWebhooks returns what sends the events of tasks to webhooks.
func (n *Node) newWebhooks(c *config.Config, guard *netguard.Guard, sealer *auth.Sealer) (*push.Service, error) {
	if sealer == nil && c.StorePath() == ":memory:" {
		// What is kept ends with the process, and so may its key.
		var err error
		if sealer, err = auth.NewSealer(auth.GenerateKey()); err != nil {
			return nil, err
		}
	}
	w := c.Webhooks
	opts := push.Options{
		Store: n.store, Scope: auth.Reach(&Principal{Role: RoleAdmin}), Guard: guard, AllowHTTP: w.AllowHTTP,
		Due: n.jobs.Due, Version: n.opts.Version, Logger: n.log, Observer: n.metrics, Tracer: n.tracing.Tracer, Traced: n.engine.Traced,
		Limits: push.Limits{Retry: w.Retry.Std(), Timeout: w.Timeout.Std(), PerTask: w.PerTask, PerTarget: w.PerTarget},
		Encode: n.encodePush,
		Issuer: n.URL, Signer: n.pushSigner, JWKS: func() string { return n.Config().SigningJKU() },
	}
	if sealer != nil {
		opts.Sealer = sealer
	}
	return push.New(opts), nil
}

// encodePush returns what the receiver of a webhook of version 0.3 is sent.
func (n *Node) encodePush(ctx context.Context, hook *store.Webhook) ([]byte, error) {
	task, err := n.engine.Get(ctx, auth.Reach(&Principal{Role: RoleAdmin}), nil, hook.Task, nil)
	if err != nil {
		return nil, err
	}
	return wire.OldPush(task), nil
}

// pushSigner returns what signs the events of an agent, nil when they are not
// signed.
func (n *Node) pushSigner(agent string) push.Signer {
	signer := n.signer()
	if signer == nil || !n.Config().SignsPushes(agent) {
		return nil
	}
	return signer.Key()
}

// quiet returns the agents of a configuration whose webhooks are turned off as
// their cards have to say it.
func quiet(agents map[string]*config.Agent) {
	for id, a := range agents {
		silent := *a
		silent.PushNotifications = false
		agents[id] = &silent
	}
}
