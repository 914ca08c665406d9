package api

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
)

// maxWebhooks is how many webhooks one page looks at.
const maxWebhooks = 2_000

// webhook is a webhook without what is secret.
type webhook struct {
	ID      string    `json:"id"` // of the task and of the webhook
	Task    string    `json:"task"`
	Webhook string    `json:"webhook"`
	Agent   string    `json:"agent"`
	Tenant  string    `json:"tenant"`
	Owner   string    `json:"owner"`
	Target  string    `json:"target"`
	URL     string    `json:"url"`
	Scheme  string    `json:"scheme,omitempty"`
	Version string    `json:"version"`
	State   string    `json:"state"` // idle, behind, retrying or dead
	Created time.Time `json:"created"`
	Sent    int64     `json:"sent"`
	Events  int64     `json:"events"`
	Waiting int64     `json:"waiting"`

	Failures int       `json:"failures,omitzero"`
	Failing  time.Time `json:"failing_since,omitzero"`
	Stuck    int64     `json:"stuck,omitzero"`
	Error    string    `json:"error,omitempty"`
	Next     time.Time `json:"next,omitzero"`
	Dead     time.Time `json:"dead,omitzero"`
}

func webhookOf(h *store.Webhook) *webhook {
	w := &webhook{
		ID: h.Task + "/" + h.ID, Task: h.Task, Webhook: h.ID, Agent: h.Agent, Tenant: h.Tenant, Owner: h.Owner, URL: bareURL(h.URL), Target: push.Origin(h.URL),
		Scheme: h.Scheme, Version: h.Version, State: "idle", Created: h.Created.UTC(), Sent: h.Seq, Events: h.Events, Waiting: max(h.Events-h.Seq, 0),
		Failures: h.Failures, Stuck: h.Stuck, Error: auth.Redact(clip(h.Error, maxShownText)),
	}
	if w.Version == "" {
		w.Version = "1.0"
	}
	if !h.Failing.IsZero() {
		w.Failing = h.Failing.UTC()
	}
	switch {
	case !h.Dead.IsZero():
		w.State, w.Dead = "dead", h.Dead.UTC()
	case h.Failures > 0:
		w.State = "retrying"
	case w.Waiting > 0:
		w.State = "behind"
	}
	if !h.Next.IsZero() && w.State != "dead" {
		w.Next = h.Next.UTC()
	}
	return w
}

// listWebhooks returns webhooks: of the newest task first; those that fail, the
// longest first; those that were given up, the longest ago first.
func (c *call) listWebhooks() (any, error) {
	q := c.query("state", "task", "page_size", "page_token")
	state, task := q.values.Get("state"), q.values.Get("task")
	size := int(q.number("page_size", defaultPage, 1, a2a.MaxPageSize))
	switch state {
	case "", "idle", "behind", "retrying", "dead":
	default:
		q.bad("state", "is none of idle, behind, retrying, dead")
	}
	after, err := openWebhookToken(q.values.Get("page_token"))
	if err != nil {
		q.bad("page_token", "is not one that this query returned")
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	if c.h.opts.Webhooks == nil {
		return nil, errNoWebhooks
	}
	answer := &struct {
		Webhooks      []*webhook `json:"webhooks"`
		NextPageToken string     `json:"next_page_token,omitempty"`
	}{Webhooks: []*webhook{}}
	if task != "" {
		hooks, err := c.h.opts.Store.Webhooks(c.context(), c.reach(), task)
		if errors.Is(err, store.ErrNotFound) {
			return answer, nil
		}
		for i := range hooks {
			if w := webhookOf(&hooks[i]); state == "" || w.State == state {
				answer.Webhooks = append(answer.Webhooks, w)
			}
		}
		return answer, err
	}
	for looked := 0; ; {
		var hooks []store.Webhook
		if state == "dead" {
			hooks, err = c.h.opts.Store.DeadWebhooks(c.context(), c.reach(), after, size+1)
		} else {
			hooks, err = c.h.opts.Store.AllWebhooks(c.context(), c.reach(), store.WebhookQuery{Failing: state == "retrying", After: after, Limit: size + 1})
		}
		if err != nil {
			return nil, err
		}
		for i := range hooks {
			if len(answer.Webhooks) == size || looked >= maxWebhooks {
				answer.NextPageToken = webhookToken(after)
				return answer, nil
			}
			looked++
			after = &hooks[i]
			if w := webhookOf(after); state == "" || w.State == state {
				answer.Webhooks = append(answer.Webhooks, w)
			}
		}
		if len(hooks) <= size {
			return answer, nil
		}
	}
}

// webhookToken names the place of a webhook in each of the orders.
func webhookToken(h *store.Webhook) string {
	parts := []string{strconv.FormatInt(milliseconds(h.Failing), 10), strconv.FormatInt(milliseconds(h.Dead), 10), strconv.FormatInt(h.TaskKey, 10), h.ID}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, ".")))
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

var errToken = errors.New("the token is not one of ours")

func openWebhookToken(token string) (*store.Webhook, error) {
	if token == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	parts := strings.SplitN(string(text), ".", 4)
	if err != nil || len(parts) != 4 {
		return nil, errToken
	}
	var n [3]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil || n[i] < 0 {
			return nil, errToken
		}
	}
	h := &store.Webhook{TaskKey: n[2], ID: parts[3]}
	if n[0] > 0 {
		h.Failing = time.UnixMilli(n[0])
	}
	if n[1] > 0 {
		h.Dead = time.UnixMilli(n[1])
	}
	return h, nil
}

// bareURL is a URL without its user, query and fragment.
func bareURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return u.String()
}
