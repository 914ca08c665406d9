package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
)

// Names of the operations (A2A §5.3).
const (
	opSendMessage          = "SendMessage"
	opSendStreamingMessage = "SendStreamingMessage"
	opGetTask              = "GetTask"
	opListTasks            = "ListTasks"
	opCancelTask           = "CancelTask"
	opSubscribeToTask      = "SubscribeToTask"
	opCreatePushConfig     = "CreateTaskPushNotificationConfig"
	opGetPushConfig        = "GetTaskPushNotificationConfig"
	opListPushConfigs      = "ListTaskPushNotificationConfigs"
	opDeletePushConfig     = "DeleteTaskPushNotificationConfig"
	opGetExtendedAgentCard = "GetExtendedAgentCard"
)

// SendMessage sends a message and returns the task or the message that the
// agent answers with (A2A §3.1.1). Unless Configuration.ReturnImmediately is
// set, it takes as long as the task, and Options.ResponseTimeout at most. When
// it fails with a *TransportError that was Sent, the agent may be at work.
func (c *Client) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (*a2a.SendMessageResponse, error) {
	out := new(a2a.SendMessageResponse)
	if err := c.unary(ctx, c.opts.ResponseTimeout, c.sendRequest(opSendMessage, "/message:send", req), out); err != nil {
		return nil, err
	}
	if out.Task == nil && out.Message == nil {
		return nil, c.fail(opSendMessage, errors.New("the answer has neither a task nor a message"))
	}
	return out, nil
}

// SendStreamingMessage sends a message and returns the events of what becomes
// of it (A2A §3.1.2). An agent whose card declares no streaming gets a
// SendMessage, and the stream is its answer alone.
func (c *Client) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) (*Stream, error) {
	if !c.Streams() && !c.opts.IgnoreCapabilities {
		answer, err := c.SendMessage(ctx, req)
		if err != nil {
			return nil, err
		}
		return &Stream{client: c, single: &a2a.StreamResponse{Task: answer.Task, Message: answer.Message}}, nil
	}
	return c.stream(ctx, c.sendRequest(opSendStreamingMessage, "/message:stream", req))
}

func (c *Client) sendRequest(op, path string, req *a2a.SendMessageRequest) *request {
	r := *req
	if r.Configuration != nil && r.Configuration.TaskPushNotificationConfig != nil {
		configuration, push := *r.Configuration, *r.Configuration.TaskPushNotificationConfig
		configuration.TaskPushNotificationConfig = &push
		r.Configuration = &configuration
	}
	return &request{op: op, params: &r, method: http.MethodPost, path: path, hasBody: true}
}

// GetTask returns a task as it is now (A2A §3.1.3).
func (c *Client) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	r := *req
	path, err := taskPath(r.ID, "")
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	setNumber(query, "historyLength", r.HistoryLength)
	out := new(a2a.Task)
	return c.asked(opGetTask, r.ID, out, c.call(ctx, &request{op: opGetTask, params: &r, method: http.MethodGet, path: path, query: query}, out))
}

// ListTasks returns one page of the caller's tasks (A2A §3.1.4).
func (c *Client) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	r := *req
	out := new(a2a.ListTasksResponse)
	return checked(out, c.call(ctx, &request{op: opListTasks, params: &r, method: http.MethodGet, path: "/tasks", query: listQuery(&r)}, out))
}

func listQuery(r *a2a.ListTasksRequest) url.Values {
	query := url.Values{}
	setText(query, "contextId", r.ContextID)
	if r.Status != a2a.StateUnspecified {
		query.Set("status", r.Status.String())
	}
	setNumber(query, "pageSize", r.PageSize)
	setText(query, "pageToken", r.PageToken)
	setNumber(query, "historyLength", r.HistoryLength)
	if !r.StatusTimestampAfter.IsZero() {
		query.Set("statusTimestampAfter", r.StatusTimestampAfter.UTC().Format(time.RFC3339Nano))
	}
	if r.IncludeArtifacts {
		query.Set("includeArtifacts", "true")
	}
	return query
}

// AllTasks returns the tasks of every page, from PageToken on. An error is the
// last pair.
func (c *Client) AllTasks(ctx context.Context, req *a2a.ListTasksRequest) iter.Seq2[*a2a.Task, error] {
	return func(yield func(*a2a.Task, error) bool) {
		r := *req
		for {
			page, err := c.ListTasks(ctx, &r)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Tasks {
				if !yield(&page.Tasks[i], nil) {
					return
				}
			}
			if page.NextPageToken == "" {
				return
			}
			if page.NextPageToken == r.PageToken {
				yield(nil, c.fail(opListTasks, errors.New("a page names itself as the next one")))
				return
			}
			r.PageToken = page.NextPageToken
		}
	}
}

// CancelTask asks for a task to be canceled and returns it as it is then, which
// need not be canceled (A2A §3.1.5).
func (c *Client) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	r := *req
	path, err := taskPath(r.ID, ":cancel")
	if err != nil {
		return nil, err
	}
	out := new(a2a.Task)
	return c.asked(opCancelTask, r.ID, out, c.call(ctx, &request{op: opCancelTask, params: &r, method: http.MethodPost, path: path, hasBody: true}, out))
}

// SubscribeToTask returns the events of a task that is not over, beginning with
// the task as it is now (A2A §3.1.6).
func (c *Client) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) (*Stream, error) {
	return c.SubscribeAfter(ctx, req, "")
}

// SubscribeAfter is SubscribeToTask for a client that has seen the events up to
// that id already. A peer that does not know Last-Event-ID, or no longer has
// the event, begins with the task.
func (c *Client) SubscribeAfter(ctx context.Context, req *a2a.SubscribeToTaskRequest, lastEventID string) (*Stream, error) {
	if !c.Streams() && !c.opts.IgnoreCapabilities {
		return nil, notDeclared(a2a.CodeUnsupportedOperation, "streaming")
	}
	r := *req
	path, err := taskPath(r.ID, ":subscribe")
	if err != nil {
		return nil, err
	}
	subscribe := &request{
		op: opSubscribeToTask, params: &r, header: lastEventHeader(lastEventID),
		method: http.MethodPost, path: path, hasBody: true,
	}
	stream, err := c.stream(ctx, subscribe)
	if err != nil && subscribe.header != nil && errors.Is(err, &a2a.Error{Code: a2a.CodeInvalidParams}) {
		subscribe.header = nil
		stream, err = c.stream(ctx, subscribe)
	}
	if err != nil {
		return nil, err
	}
	stream.taskID = r.ID
	if subscribe.header != nil {
		stream.lastID = lastEventID
	}
	return stream, nil
}

// CreateTaskPushNotificationConfig adds a webhook to a task (A2A §3.1.7).
func (c *Client) CreateTaskPushNotificationConfig(ctx context.Context, req *a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	r := *req
	path, err := c.pushPath(r.TaskID, nil)
	if err != nil {
		return nil, err
	}
	out := new(a2a.TaskPushNotificationConfig)
	return checked(out, c.call(ctx, &request{op: opCreatePushConfig, params: &r, method: http.MethodPost, path: path, hasBody: true}, out))
}

// GetTaskPushNotificationConfig returns a webhook of a task (A2A §3.1.8).
func (c *Client) GetTaskPushNotificationConfig(ctx context.Context, req *a2a.GetTaskPushNotificationConfigRequest) (*a2a.TaskPushNotificationConfig, error) {
	r := *req
	path, err := c.pushPath(r.TaskID, &r.ID)
	if err != nil {
		return nil, err
	}
	out := new(a2a.TaskPushNotificationConfig)
	return checked(out, c.call(ctx, &request{op: opGetPushConfig, params: &r, method: http.MethodGet, path: path}, out))
}

// ListTaskPushNotificationConfigs returns one page of the webhooks of a task
// (A2A §3.1.9).
func (c *Client) ListTaskPushNotificationConfigs(ctx context.Context, req *a2a.ListTaskPushNotificationConfigsRequest) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	r := *req
	path, err := c.pushPath(r.TaskID, nil)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if r.PageSize != 0 {
		setNumber(query, "pageSize", &r.PageSize)
	}
	setText(query, "pageToken", r.PageToken)
	out := new(a2a.ListTaskPushNotificationConfigsResponse)
	return checked(out, c.call(ctx, &request{op: opListPushConfigs, params: &r, method: http.MethodGet, path: path, query: query}, out))
}

// DeleteTaskPushNotificationConfig removes a webhook of a task; removing it
// again is no error (A2A §3.1.10).
func (c *Client) DeleteTaskPushNotificationConfig(ctx context.Context, req *a2a.DeleteTaskPushNotificationConfigRequest) error {
	r := *req
	path, err := c.pushPath(r.TaskID, &r.ID)
	if err != nil {
		return err
	}
	return c.call(ctx, &request{op: opDeletePushConfig, params: &r, method: http.MethodDelete, path: path}, nil)
}

// GetExtendedAgentCard returns the card that the agent shows to an
// authenticated client (A2A §3.1.11). New with it makes a client that uses it.
func (c *Client) GetExtendedAgentCard(ctx context.Context) (*a2a.AgentCard, error) {
	if !declared(c.card.Capabilities.ExtendedAgentCard) && !c.opts.IgnoreCapabilities {
		return nil, notDeclared(a2a.CodeUnsupportedOperation, "extendedAgentCard")
	}
	r := &a2a.GetExtendedAgentCardRequest{}
	var raw []byte
	q := &request{op: opGetExtendedAgentCard, params: r, method: http.MethodGet, path: "/extendedAgentCard", result: &raw}
	if err := c.call(ctx, q, new(a2a.AgentCard)); err != nil {
		return nil, err
	}
	return verifyCard(c.opts.VerifyCard).parse(ctx, raw, c.route().address)
}

// call is a unary operation under the ordinary time limit.
func (c *Client) call(ctx context.Context, r *request, out a2a.Decodable) error {
	return c.unary(ctx, c.opts.CallTimeout, r, out)
}

func (c *Client) unary(ctx context.Context, limit time.Duration, r *request, out a2a.Decodable) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errDeadline)
		defer cancel()
	}
	ctx, end := c.traced(ctx, r)
	err := c.attempt(ctx, func(route *route) error { return route.unary(ctx, r, out) })
	end(err)
	return err
}

func (c *Client) stream(ctx context.Context, r *request) (*Stream, error) {
	var s *Stream
	ctx, end := c.traced(ctx, r)
	err := c.attempt(ctx, func(route *route) (err error) {
		s, err = route.stream(ctx, r)
		return err
	})
	switch {
	case err != nil || s.source == nil:
		end(err)
	case trace.SpanFromContext(ctx).IsRecording():
		context.AfterFunc(s.source.ctx, func() { end(nil) })
	}
	if err != nil {
		return nil, err
	}
	s.client = c
	return s, nil
}

// asked is checked for a task: a peer that answers with another one than was
// asked for is not believed.
func (c *Client) asked(op, id string, t *a2a.Task, err error) (*a2a.Task, error) {
	if err == nil && t.ID != id {
		err = c.fail(op, fmt.Errorf("%w: %q instead of %q", errOtherTask, t.ID, id))
	}
	return checked(t, err)
}

// checked returns out, or nil with the error.
func checked[T any](out *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}

// fail returns the error of an answer that is A2A but not usable.
func (c *Client) fail(op string, err error) error {
	return &TransportError{Kind: KindProtocol, Op: op, URL: c.route().address, Sent: true, Status: http.StatusOK, Err: err}
}

// notDeclared refuses an operation that the card does not declare (A2A §3.3.4).
func notDeclared(code a2a.Code, capability string) error {
	return a2a.Errorf(code, "The agent's card does not declare %s", capability)
}

// taskPath returns the path of a task, with a verb such as :cancel.
func taskPath(id, verb string) (string, error) {
	if err := checkSegment("id", id); err != nil {
		return "", err
	}
	return "/tasks/" + url.PathEscape(id) + verb, nil
}

// pushPath returns the path of the webhooks of a task, or of one of them.
func (c *Client) pushPath(taskID string, id *string) (string, error) {
	if !declared(c.card.Capabilities.PushNotifications) && !c.opts.IgnoreCapabilities {
		return "", notDeclared(a2a.CodePushNotificationNotSupported, "pushNotifications")
	}
	if err := checkSegment("taskId", taskID); err != nil {
		return "", err
	}
	path := "/tasks/" + url.PathEscape(taskID) + "/pushNotificationConfigs"
	if id == nil {
		return path, nil
	}
	if err := checkSegment("id", *id); err != nil {
		return "", err
	}
	return path + "/" + url.PathEscape(*id), nil
}

// checkSegment refuses an id that would name another path.
func checkSegment(field, id string) error {
	switch id {
	case "":
		return a2a.Invalid(field, "must not be empty")
	case ".", "..":
		return a2a.Invalid(field, "%s cannot be an id", strconv.Quote(id))
	}
	return nil
}

func setText(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

func setNumber(query url.Values, name string, n *int) {
	if n != nil {
		query.Set(name, strconv.Itoa(*n))
	}
}
