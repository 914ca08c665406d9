package api

import (
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/push"
)

// deadLetter is an event that could not be delivered to a webhook. Events of
// the task that came after it wait behind it.
type deadLetter struct {
	ID       string    `json:"id"` // of the task and of the webhook
	Event    string    `json:"event"`
	Task     string    `json:"task"`
	Webhook  string    `json:"webhook"`
	Agent    string    `json:"agent"`
	Tenant   string    `json:"tenant"`
	Owner    string    `json:"owner"`
	Target   string    `json:"target"`
	Error    string    `json:"error"`
	Attempts int       `json:"attempts"`
	Waiting  int64     `json:"waiting"`
	Since    time.Time `json:"since"`
	Dead     time.Time `json:"dead"`
}

func deadLetterOf(l *push.Letter) *deadLetter {
	return &deadLetter{
		ID: l.Task + "/" + l.Webhook, Event: l.Event, Task: l.Task, Webhook: l.Webhook, Agent: l.Agent, Tenant: l.Tenant, Owner: l.Owner,
		Target: l.Target, Error: l.Error, Attempts: l.Tries, Waiting: l.Waiting, Since: l.Since.UTC(), Dead: l.Dead.UTC(),
	}
}

var errNoWebhooks = a2a.Errorf(a2a.CodeUnsupportedOperation, "This node sends nothing to webhooks")

// listPushes returns the events that could not be delivered, the oldest first.
func (c *call) listPushes() (any, error) {
	q := c.query("limit", "page_token")
	limit := int(q.number("limit", 100, 1, maxGrants))
	var after *push.Letter
	if token := q.values.Get("page_token"); token != "" {
		var err error
		if after, err = push.ParseCursor(token); err != nil {
			q.bad("page_token", "is not one that this query returned")
		}
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	if c.h.opts.Webhooks == nil {
		return nil, errNoWebhooks
	}
	letters, err := c.h.opts.Webhooks.Dead(c.context(), c.reach(), after, limit+1)
	if err != nil {
		return nil, err
	}
	answer := struct {
		Pushes        []*deadLetter `json:"pushes"`
		NextPageToken string        `json:"next_page_token,omitempty"`
	}{Pushes: []*deadLetter{}}
	for i := range letters {
		if i == limit {
			answer.NextPageToken = letters[i-1].Cursor()
			break
		}
		answer.Pushes = append(answer.Pushes, deadLetterOf(&letters[i]))
	}
	return answer, nil
}

// letterOf splits the id of a dead letter.
func (c *call) letterOf() (task, webhook string, err error) {
	if c.h.opts.Webhooks == nil {
		return "", "", errNoWebhooks
	}
	task, webhook, ok := strings.Cut(c.r.PathValue("id"), "/")
	if !ok || task == "" || webhook == "" {
		return "", "", a2a.Invalid("id", "is not TASK/WEBHOOK; the slash is written %%2F in a path")
	}
	return task, webhook, nil
}

// redeliverPush lets a webhook that was given up go on.
func (c *call) redeliverPush() (any, error) {
	var q struct {
		Skip bool `json:"skip"`
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	task, webhook, err := c.letterOf()
	if err != nil {
		return nil, err
	}
	if err := c.h.opts.Webhooks.Redeliver(c.context(), c.reach(), task, webhook, q.Skip); err != nil {
		return nil, err
	}
	c.h.log.InfoContext(c.context(), "A webhook goes on", "task", task, "webhook", webhook, "skip", q.Skip, "by", c.caller.Subject)
	return nil, nil
}

// deletePush removes a webhook that was given up, with what waits for it.
func (c *call) deletePush() (any, error) {
	if err := c.read(&nothing{}); err != nil {
		return nil, err
	}
	task, webhook, err := c.letterOf()
	if err != nil {
		return nil, err
	}
	if err := c.h.opts.Webhooks.Drop(c.context(), c.reach(), task, webhook); err != nil {
		return nil, err
	}
	c.h.log.InfoContext(c.context(), "A webhook that was given up was deleted", "task", task, "webhook", webhook, "by", c.caller.Subject)
	return nil, nil
}
