package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcp/client"
	"handoff.example/handoff/internal/store"
)

const (
	maxToolBody   = 4 << 20 // of a request to call a tool
	maxToolAnswer = 16 << 20
	toolAgents    = "mcp:" // begins the ids of the agents that call tools
)

// toolCapabilities are those of a client that shows what it gets to people: a call
// that takes long becomes a task.
const toolCapabilities = `{"extensions":{"` + mcp.ExtensionTasks + `":{}}}`

// callResult is what became of a call of a tool.
type callResult struct {
	Took   float64        `json:"took_ms"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  *callError     `json:"error,omitzero"`
	Task   *callTask      `json:"task,omitzero"`
}

type callError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
}

type callTask struct {
	Handle string `json:"handle"`
	Status string `json:"status"`
}

// callTool calls a tool through the gateway, as any client would: with the policy
// for its caller.
func (c *call) callTool() (any, error) {
	var q struct {
		Server    string         `json:"server"`
		Tool      string         `json:"tool"`
		Arguments jsontext.Value `json:"arguments"`
		As        *struct {
			Subject string   `json:"subject"`
			Tenant  string   `json:"tenant"`
			Role    string   `json:"role"`
			Scopes  []string `json:"scopes"`
		} `json:"as"`
	}
	if err := c.readUpTo(&q, maxToolBody); err != nil {
		return nil, err
	}
	if c.h.opts.Gateway == nil || c.h.opts.Tools == nil {
		return nil, errNoTools
	}
	switch {
	case q.Tool == "":
		return nil, a2a.Invalid("tool", "is required")
	case q.Arguments != nil && q.Arguments.Kind() != '{':
		return nil, a2a.Invalid("arguments", "has to be an object")
	}
	caller := c.caller
	if q.As != nil {
		role := caller.Role
		if q.As.Role != "" {
			var ok bool
			if role, ok = auth.ParseRole(q.As.Role); !ok || role == auth.RoleNone {
				return nil, a2a.Invalid("as.role", "is none of viewer, caller, operator, admin")
			}
		}
		// Who is not an admin becomes less than he is, and nobody else.
		other := q.As.Subject != "" && q.As.Subject != caller.Subject || q.As.Tenant != "" && q.As.Tenant != caller.Tenant
		for _, scope := range q.As.Scopes {
			if caller.Role < auth.RoleAdmin && !slices.Contains(caller.Scopes, scope) {
				return nil, a2a.Invalid("as.scopes", "has a scope that you do not have; GET /mcp/explain says without a call what would become of it")
			}
		}
		switch {
		case role > caller.Role:
			return nil, a2a.Invalid("as.role", "is more than your own, which is %s", caller.Role)
		case other && caller.Role < auth.RoleAdmin:
			// What servers keep for each caller would be used.
			return nil, a2a.Errorf(a2a.CodePermissionDenied, "A call in the name of somebody else takes the role admin; GET /mcp/explain says without a call what would become of it")
		}
		caller = auth.Principal{Subject: q.As.Subject, Tenant: q.As.Tenant, Role: role, Scopes: q.As.Scopes, Issuer: caller.Issuer, Local: caller.Local, Address: caller.Address}
		if caller.Subject == "" {
			caller.Subject = c.caller.Subject
		}
	}
	c.target = clip(strings.TrimPrefix(q.Server+"/"+q.Tool, "/"), maxNote)
	params := client.Params{"name": q.Tool, "arguments": jsontext.Value(`{}`)}
	if q.Arguments != nil {
		params["arguments"] = q.Arguments
	}
	endpoint := "http://localhost/mcp"
	if q.Server != "" {
		endpoint += "/" + url.PathEscape(q.Server)
	}
	gateway := &client.Client{
		URL: endpoint, HTTP: &http.Client{Transport: inside{c.h.opts.Gateway()}}, Header: http.Header{"X-Request-Id": {c.id}},
		Name: "handoff-api", Version: c.h.opts.Version, Capabilities: jsontext.Value(toolCapabilities),
	}
	began := time.Now()
	result, err := gateway.Call(auth.WithCaller(c.context(), caller), mcp.MethodCallTool, params, nil)
	answer := &callResult{Took: float64(time.Since(began).Microseconds()) / 1000}
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		answer.Error = &callError{Code: e.Code, Message: e.Message, Data: jsontext.Value(e.Data)}
		return answer, nil
	}
	if e, ok := errors.AsType[*client.StatusError](err); ok {
		if e.Status == http.StatusNotFound {
			return nil, a2a.Errorf(a2a.CodeTaskNotFound, "There is no such endpoint for this caller; GET /mcp/servers lists the servers")
		}
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The gateway has refused the call with the HTTP status %d: %s", e.Status, clip(e.Body, maxShownText))
	}
	if err != nil {
		return nil, err
	}
	var task struct {
		Type   string `json:"resultType"`
		ID     string `json:"taskId"`
		Status string `json:"status"`
	}
	if json.Unmarshal(result, &task, jsontext.AllowDuplicateNames(true)) == nil && task.Type == "task" && task.ID != "" {
		answer.Task = &callTask{task.ID, task.Status}
		return answer, nil
	}
	answer.Result = result
	return answer, nil
}

// inside brings requests to a handler of the same process.
type inside struct{ handler http.Handler }

// RoundTrip serves a request and returns the whole answer.
func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := &buffered{header: http.Header{}}
	served := r.Clone(r.Context())
	served.RequestURI, served.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:0"
	served.Host = r.URL.Host
	i.handler.ServeHTTP(w, served)
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.over {
		return nil, fmt.Errorf("the answer is larger than the limit of %d bytes", maxToolAnswer)
	}
	return &http.Response{
		StatusCode: w.status, Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(bytes.NewReader(w.body.Bytes())), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// buffered keeps an answer.
type buffered struct {
	header http.Header
	status int
	body   bytes.Buffer
	over   bool
}

func (b *buffered) Header() http.Header { return b.header }

func (b *buffered) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

func (b *buffered) Write(data []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	if b.body.Len()+len(data) > maxToolAnswer {
		b.over = true
		return 0, io.ErrShortWrite
	}
	return b.body.Write(data)
}

// Flush has nothing to do.
func (b *buffered) Flush() {}

// SetReadDeadline and SetWriteDeadline have nothing to do: nobody is slow here.
func (b *buffered) SetReadDeadline(time.Time) error  { return nil }
func (b *buffered) SetWriteDeadline(time.Time) error { return nil }

// toolTask is a call of a tool that has become a task.
type toolTask struct {
	ID      string    `json:"id"`
	Server  string    `json:"server"`
	Tool    string    `json:"tool,omitempty"`
	Status  string    `json:"status"`
	State   string    `json:"state"`
	Owner   string    `json:"owner"`
	Tenant  string    `json:"tenant"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	Text    string    `json:"text,omitempty"`
}

// toolStatuses are the states as MCP has them.
var toolStatuses = map[a2a.TaskState]string{
	a2a.StateSubmitted: "working", a2a.StateWorking: "working", a2a.StateInputRequired: "input_required", a2a.StateAuthRequired: "input_required",
	a2a.StateCompleted: "completed", a2a.StateFailed: "failed", a2a.StateRejected: "failed", a2a.StateCanceled: "cancelled",
}

// listToolTasks returns the calls of tools that have become tasks, newest status
// first.
func (c *call) listToolTasks() (any, error) {
	q := c.query("state", "page_size", "page_token")
	states := q.states("state")
	size := int(q.number("page_size", defaultPage, 1, a2a.MaxPageSize))
	scan := store.ScanQuery{States: store.States(states...), After: q.number("page_token", 0, 1, 1<<62)}
	if err := q.err(); err != nil {
		return nil, err
	}
	answer := struct {
		Tasks         []*toolTask `json:"tasks"`
		NextPageToken string      `json:"next_page_token,omitempty"`
	}{Tasks: []*toolTask{}}
	for looked := 0; looked < searchRows; {
		scan.Limit = searchBatch
		page, err := c.h.opts.Store.Scan(c.context(), c.reach(), scan)
		if err != nil {
			return nil, err
		}
		looked += page.Looked
		for i := range page.Tasks {
			row := &page.Tasks[i]
			if !strings.HasPrefix(row.Agent, toolAgents) {
				continue
			}
			t, err := c.toolTask(c.context(), row)
			if err != nil {
				return nil, err
			}
			if answer.Tasks = append(answer.Tasks, t); len(answer.Tasks) == size {
				answer.NextPageToken = strconv.FormatInt(page.Positions[i], 10)
				return answer, nil
			}
		}
		if scan.After = page.Next; page.Next == 0 {
			return answer, nil
		}
	}
	answer.NextPageToken = strconv.FormatInt(scan.After, 10)
	return answer, nil
}

func (c *call) toolTask(ctx context.Context, row *store.Task) (*toolTask, error) {
	t := &toolTask{
		ID: row.ID, Server: strings.TrimPrefix(row.Agent, toolAgents), Status: toolStatuses[row.State], State: row.State.String(),
		Owner: row.Owner, Tenant: row.Tenant, Created: row.Created.UTC(), Updated: row.StatusAt.UTC(),
	}
	var kept struct {
		Tool string `json:"tool"`
	}
	if json.Unmarshal(engine.MetadataOf(row), &kept) == nil {
		t.Tool = clip(kept.Tool, 200)
	}
	record, err := c.h.opts.Engine.Record(ctx, c.reach(), row.ID, store.Want{})
	switch {
	case err == nil:
		t.Text = textOf(record.Task.Status.Message)
	case a2a.CodeOf(err) != a2a.CodeTaskNotFound:
		return nil, err
	}
	return t, nil
}
