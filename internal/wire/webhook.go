package wire

import (
	"context"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
)

// pushes reports whether the agent of a call sends events to webhooks.
func (s *service) pushes(c *call) bool { return s.webhooks != nil && c.agent.Pushes }

// hookVersion is the version of the protocol that a webhook of the call gets; ""
// for 1.0.
func (c *call) hookVersion() string {
	if c.old {
		return a2a.Version03.String()
	}
	return ""
}

// configField is where a message has a webhook.
const configField = "configuration.taskPushNotificationConfig"

// hang checks the webhook that comes with a message (A2A §3.2.2). Its task is
// that of the message.
func (s *service) hang(c *call, r *engine.Request) error {
	config := r.Config.TaskPushNotificationConfig
	switch {
	case config == nil:
		return nil
	case !s.pushes(c):
		return errNoPush
	case config.TaskID != "" && config.TaskID != r.Message.TaskID:
		return a2a.Invalid(configField+".taskId", "is not the task of the message; leave it out")
	}
	if err := c.route(config.Tenant); err != nil {
		return err
	}
	hook, err := s.webhooks.Prepare(config, c.hookVersion(), configField+".")
	if err != nil {
		return err
	}
	if c.old && config.ID == "" {
		hook.ID = r.Message.TaskID // of a new task the engine knows it
	}
	r.Webhook, r.MaxWebhooks = hook, s.webhooks.Limit()
	return nil
}

// runWebhooks carries out the operations on webhooks.
func (x *exchange) runWebhooks(ctx context.Context, p parameters) {
	s, c := &x.h.service, &x.call
	switch c.op {
	case opCreatePushConfig:
		q := &webhookConfig{}
		if x.read(p, q) {
			response, err := s.createWebhook(ctx, c, q)
			answer(x, response, err)
		}
	case opGetPushConfig:
		q := &getWebhookRequest{}
		if x.read(p, q) {
			response, err := s.getWebhook(ctx, c, q)
			answer(x, response, err)
		}
	case opListPushConfigs:
		q := &listWebhooksRequest{}
		if x.read(p, q) {
			response, err := s.listWebhooks(ctx, c, q)
			answer(x, response, err)
		}
	case opDeletePushConfig:
		q := &deleteWebhookRequest{}
		if x.read(p, q) {
			answer(x, &empty{}, s.deleteWebhook(ctx, c, q))
		}
	}
}

// empty is the answer of an operation that returns nothing.
type empty struct{}

// AppendJSON appends an empty object.
func (*empty) AppendJSON(dst []byte) []byte { return append(dst, "{}"...) }

func (s *service) createWebhook(ctx context.Context, c *call, q *webhookConfig) (*webhookConfig, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := c.route(q.Tenant); err != nil {
		return nil, err
	}
	c.task = q.TaskID
	return s.webhooks.CreateFor(ctx, auth.Scope(&c.caller), c.agent.Spec.ID, c.hookVersion(), q)
}

func (s *service) getWebhook(ctx context.Context, c *call, q *getWebhookRequest) (*webhookConfig, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := c.route(q.Tenant); err != nil {
		return nil, err
	}
	c.task = q.TaskID
	return s.webhooks.Get(ctx, auth.Scope(&c.caller), c.agent.Spec.ID, q)
}

func (s *service) listWebhooks(ctx context.Context, c *call, q *listWebhooksRequest) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := c.route(q.Tenant); err != nil {
		return nil, err
	}
	c.task = q.TaskID
	return s.webhooks.List(ctx, auth.Scope(&c.caller), c.agent.Spec.ID, q)
}

func (s *service) deleteWebhook(ctx context.Context, c *call, q *deleteWebhookRequest) error {
	if err := q.Validate(); err != nil {
		return err
	}
	if err := c.route(q.Tenant); err != nil {
		return err
	}
	c.task = q.TaskID
	return s.webhooks.Delete(ctx, auth.Scope(&c.caller), c.agent.Spec.ID, q)
}

// readWebhook reads the parameters of the operations on webhooks from the path,
// the query and the body of an HTTP+JSON request.
func (p *restParameters) readWebhook(v a2a.Decodable) error {
	query := parseQuery(p.x.r.URL.RawQuery)
	switch q := v.(type) {
	case *webhookConfig:
		if err := p.body(q); err != nil {
			return err
		}
		if q.TaskID != "" && q.TaskID != p.target.task {
			return a2a.Invalid("taskId", "is not the task of the address")
		}
		id := ""
		if err := p.merge(&id, &q.Tenant, query); err != nil {
			return err
		}
		q.TaskID = id
		return nil
	case *getWebhookRequest:
		*q = getWebhookRequest{Tenant: query.text("tenant", ""), TaskID: p.target.task, ID: p.target.config}
	case *deleteWebhookRequest:
		*q = deleteWebhookRequest{Tenant: query.text("tenant", ""), TaskID: p.target.task, ID: p.target.config}
	case *listWebhooksRequest:
		*q = listWebhooksRequest{Tenant: query.text("tenant", ""), TaskID: p.target.task, PageToken: query.text("pageToken", "page_token")}
		if size := query.integer("pageSize", "page_size"); size != nil {
			q.PageSize = *size
			if *size < 1 {
				return a2a.Invalid("pageSize", "must be from 1 to 100")
			}
		}
	default:
		return errUnknownOperation
	}
	return query.err()
}
