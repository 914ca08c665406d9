package push

import (
	"context"
	"encoding/base64"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/store"
)

// secrets are what authenticates the node to a receiver, and what follows the host
// in its URL, which often does that too. They are sealed.
type secrets struct {
	Token       string `json:"token,omitempty"`
	Credentials string `json:"credentials,omitempty"`
	Place       string `json:"place,omitempty"` // the path and the query
}

var (
	// An id is a part of a path of HTTP+JSON.
	idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~:@=+-]{0,127}$`)
	// A scheme is a token of HTTP (RFC 9110 §11.1), and a secret a header's value.
	schemeForm = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$")
	valueForm  = regexp.MustCompile(`^[\x20-\x7e]*$`)
)

// Prepare checks a configuration, whose fields have paths with that prefix in
// the request, and returns the webhook that it describes, for a receiver of that
// version of the protocol; "" for 1.0. It has passed its own Validate.
func (s *Service) Prepare(c *a2a.TaskPushNotificationConfig, version, prefix string) (*store.Webhook, error) {
	hook := &store.Webhook{ID: c.ID, URL: c.URL, Version: version}
	secret := secrets{Token: c.Token}
	if hook.ID == "" {
		hook.ID = uuid.NewString()
	}
	if !idForm.MatchString(hook.ID) {
		return nil, a2a.Invalid(prefix+"id", "must be up to 128 letters, digits and any of . _ ~ : @ = + -")
	}
	if err := s.checkURL(c.URL, prefix+"url"); err != nil {
		return nil, err
	}
	if a := c.Authentication; a != nil {
		hook.Scheme, secret.Credentials = a.Scheme, a.Credentials
		if !schemeForm.MatchString(a.Scheme) {
			return nil, a2a.Invalid(prefix+"authentication.scheme", "is not the name of an HTTP authentication scheme")
		}
		// In 0.3 a scheme without credentials says what the receiver could be shown.
		if a.Credentials == "" && version == "" {
			return nil, a2a.Invalid(prefix+"authentication.credentials", "is empty, so that the receiver would get a scheme and nothing else; leave authentication out, or send what follows the scheme")
		}
	}
	for field, value := range map[string]string{"token": secret.Token, "authentication.credentials": secret.Credentials} {
		if !valueForm.MatchString(value) {
			return nil, a2a.Invalid(prefix+field, "has characters that a header cannot have")
		}
	}
	needs := secret != (secrets{})
	switch {
	case s.opts.Sealer != nil:
		hook.URL, secret.Place = splitURL(c.URL)
		if secret == (secrets{}) {
			return hook, nil
		}
	case !needs:
		return hook, nil
	default:
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation,
			"This node has no key to keep the token or the credentials of a webhook with; its operator sets secret_key (`handoff init` makes one). A webhook without them is taken")
	}
	plain, err := json.Marshal(secret)
	if err == nil {
		hook.Secrets, err = s.opts.Sealer.Seal(plain)
	}
	if err != nil {
		return nil, &a2a.Error{Code: a2a.CodeInternal, Message: "The secrets of the webhook could not be sealed", Err: err}
	}
	return hook, nil
}

// checkURL refuses a URL that nothing may be sent to. Names are looked at when
// they are dialled.
func (s *Service) checkURL(raw, field string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return a2a.Invalid(field, "is not a URL")
	}
	if err := s.opts.Guard.CheckURL(raw); err != nil {
		if blocked, ok := errors.AsType[*netguard.BlockedError](err); ok {
			return a2a.Invalid(field, "is not a place that this node sends events to: %s", blocked.Reason)
		}
		return a2a.Invalid(field, "is not a place that this node sends events to")
	}
	if u.Scheme != "https" && !s.opts.AllowHTTP && !s.opts.Guard.Lists(u) {
		return a2a.Invalid(field, "must be https")
	}
	if u.Fragment != "" {
		return a2a.Invalid(field, "has a fragment, which is never sent")
	}
	return nil
}

// Limit returns how many webhooks a task may have.
func (s *Service) Limit() int { return s.limits.PerTask }

// Create hangs a webhook on a task of that agent in the scope, or replaces the
// one that has its id (A2A §3.1.7). It is sent the events that come after, one
// that replaces another what that had not been sent yet.
func (s *Service) Create(ctx context.Context, scope store.Scope, agent string, c *a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	return s.CreateFor(ctx, scope, agent, "", c)
}

// CreateFor is Create for a receiver of that version of the protocol, "" for 1.0.
func (s *Service) CreateFor(ctx context.Context, scope store.Scope, agent, version string, c *a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	row, err := s.find(ctx, scope, agent, c.TaskID)
	if err != nil {
		return nil, err
	}
	hook, err := s.Prepare(c, version, "")
	if err != nil {
		return nil, err
	}
	change := &store.Change{Task: row.Key, Webhook: hook, MaxWebhooks: s.limits.PerTask}
	switch err := s.opts.Store.Commit(ctx, change); {
	case errors.Is(err, store.ErrNotFound):
		return nil, a2a.TaskNotFound(c.TaskID)
	case errors.Is(err, store.ErrLimit):
		return nil, tooMany(c.TaskID)
	case err != nil:
		return nil, unavailable(err)
	}
	if change.Woken > 0 {
		s.opts.Due(time.Now())
	}
	hook.Task = row.ID
	shown := configOf(hook)
	shown.URL, shown.Tenant = c.URL, c.Tenant
	return shown, nil
}

// tooMany is the error for a task that has as many webhooks as it may have.
func tooMany(task string) *a2a.Error {
	return &a2a.Error{
		Code: a2a.CodeResourceExhausted, Message: "The task has as many webhooks as it may have; delete one first",
		Metadata: map[string]string{"taskId": task, a2a.MetadataLimit: store.LimitWebhooks},
	}
}

// Get returns a webhook of a task (A2A §3.1.8), without its secrets.
func (s *Service) Get(ctx context.Context, scope store.Scope, agent string, q *a2a.GetTaskPushNotificationConfigRequest) (*a2a.TaskPushNotificationConfig, error) {
	if _, err := s.find(ctx, scope, agent, q.TaskID); err != nil {
		return nil, err
	}
	hook, err := s.opts.Store.Webhook(ctx, scope, q.TaskID, q.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &a2a.Error{
			Code: a2a.CodeTaskNotFound, Message: "The task has no such webhook",
			Metadata: map[string]string{"taskId": q.TaskID, "configId": q.ID},
		}
	}
	if err != nil {
		return nil, unavailable(err)
	}
	c := s.shown(hook)
	c.Tenant = q.Tenant
	return c, nil
}

// List returns the webhooks of a task (A2A §3.1.9), in the order of their ids.
func (s *Service) List(ctx context.Context, scope store.Scope, agent string, q *a2a.ListTaskPushNotificationConfigsRequest) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	after, err := decodeToken(q.PageToken)
	if err != nil {
		return nil, err
	}
	if _, err := s.find(ctx, scope, agent, q.TaskID); err != nil {
		return nil, err
	}
	hooks, err := s.opts.Store.Webhooks(ctx, scope, q.TaskID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, a2a.TaskNotFound(q.TaskID)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	size := q.PageSize
	if size == 0 {
		size = a2a.MaxPageSize
	}
	page := &a2a.ListTaskPushNotificationConfigsResponse{Configs: []a2a.TaskPushNotificationConfig{}}
	for i := range hooks {
		if after != "" && hooks[i].ID <= after {
			continue
		}
		if len(page.Configs) == size {
			page.NextPageToken = encodeToken(page.Configs[size-1].ID)
			break
		}
		c := s.shown(&hooks[i])
		c.Tenant = q.Tenant
		page.Configs = append(page.Configs, *c)
	}
	return page, nil
}

// Delete removes a webhook of a task (A2A §3.1.10). Nothing is sent to it any
// more, but for what is on its way. One that is not there is no error.
func (s *Service) Delete(ctx context.Context, scope store.Scope, agent string, q *a2a.DeleteTaskPushNotificationConfigRequest) error {
	if _, err := s.find(ctx, scope, agent, q.TaskID); err != nil {
		return err
	}
	err := s.opts.Store.DeleteWebhook(ctx, scope, q.TaskID, q.ID)
	if errors.Is(err, store.ErrNotFound) {
		return a2a.TaskNotFound(q.TaskID)
	}
	return unavailable(err)
}

// find returns a task of that agent in the scope.
func (s *Service) find(ctx context.Context, scope store.Scope, agent, id string) (*store.Task, error) {
	row, err := s.opts.Store.Task(ctx, scope, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (row.Agent != agent || !row.Expires.IsZero() && time.Now().After(row.Expires)) {
		return nil, a2a.TaskNotFound(id)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return row, nil
}

// splitURL returns the scheme, the host and the port of a URL, and what follows
// them unless it says nothing.
func splitURL(raw string) (origin, place string) {
	begin := strings.Index(raw, "://") + len("://")
	end := strings.IndexAny(raw[begin:], "/?#")
	if end < 0 || raw[begin+end:] == "/" {
		return raw, ""
	}
	return raw[:begin+end], raw[begin+end:]
}

// open returns what is sealed of a webhook.
func (s *Service) open(hook *store.Webhook) (secret secrets, err error) {
	if hook.Secrets == nil {
		return secret, nil
	}
	if s.opts.Sealer == nil {
		return secret, errors.New("there is no key")
	}
	plain, err := s.opts.Sealer.Open(hook.Secrets)
	if err != nil {
		return secret, err
	}
	return secret, json.Unmarshal(plain, &secret)
}

// shown returns a webhook as its owner sees it, without the path of its URL where
// that cannot be opened.
func (s *Service) shown(hook *store.Webhook) *a2a.TaskPushNotificationConfig {
	c := configOf(hook)
	if secret, err := s.open(hook); err == nil {
		c.URL += secret.Place
	}
	return c
}

// configOf returns a webhook as it is kept: what authenticates us to the receiver
// does not come back.
func configOf(hook *store.Webhook) *a2a.TaskPushNotificationConfig {
	c := &a2a.TaskPushNotificationConfig{ID: hook.ID, TaskID: hook.Task, URL: hook.URL}
	if hook.Scheme != "" {
		c.Authentication = &a2a.AuthenticationInfo{Scheme: hook.Scheme}
	}
	return c
}

const tokenPrefix = "w1."

func encodeToken(id string) string {
	return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(id))
}

func decodeToken(token string) (id string, err error) {
	if token == "" {
		return "", nil
	}
	text, ok := strings.CutPrefix(token, tokenPrefix)
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil || len(decoded) == 0 {
		return "", a2a.Invalid("pageToken", "is not one that this query returned")
	}
	return string(decoded), nil
}

// unavailable turns an error of the store into one of the protocol.
func unavailable(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &a2a.Error{
		Code: a2a.CodeUnavailable, Message: "The task store is not available; send the request again", RetryAfter: time.Second, Err: err,
	}
}
