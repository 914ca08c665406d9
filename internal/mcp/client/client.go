// Package client is a small client of MCP servers of revision 2026-07-28 over
// Streamable HTTP, for the commands that operate a node.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/sse"
)

const (
	maxAnswer = 64 << 20 // bytes of an answer
	// TasksExtension is the id of the tasks extension.
	TasksExtension = "io.modelcontextprotocol/tasks"
)

// StatusError says that the endpoint answers no MCP.
type StatusError struct {
	Status int
	Body   string // its beginning, for people
}

// Error names the status.
func (e *StatusError) Error() string {
	if e.Body == "" {
		return fmt.Sprintf("HTTP status %d", e.Status)
	}
	return fmt.Sprintf("HTTP status %d: %s", e.Status, e.Body)
}

// Client calls one endpoint. Its methods are safe for concurrent use.
type Client struct {
	URL    string
	HTTP   *http.Client
	Header http.Header // of each request, such as Authorization
	// Name and Version are what the client calls itself.
	Name, Version string
	// Capabilities are those of the client, a JSON object; nil: none.
	Capabilities jsontext.Value

	last atomic.Int64
}

// Params are those of a request. The client adds _meta.
type Params map[string]any

// Notify is told what the server says while it works on a request.
type Notify func(method string, params jsontext.Value)

// Call sends a request and returns its result. The error is an *mcp.Error, a
// *StatusError, or one of the transport. A call that lacks the headers of its
// arguments is sent again with them (XMH-07).
func (c *Client) Call(ctx context.Context, method string, params Params, notify Notify) (jsontext.Value, error) {
	result, err := c.send(ctx, method, params, nil, notify)
	if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != mcp.CodeHeaderMismatch || method != mcp.MethodCallTool {
		return result, err
	}
	name, _ := params["name"].(string)
	arguments, aerr := json.Marshal(params["arguments"], json.Deterministic(true))
	found, ferr := c.HeaderParams(ctx, name)
	if aerr != nil || ferr != nil || len(found) == 0 {
		return nil, err
	}
	header := http.Header{}
	mcp.SetParamHeaders(found, arguments, header)
	return c.send(ctx, method, params, header, notify)
}

// maxPages bounds how far a tool is looked for.
const maxPages = 1000

// HeaderParams asks which arguments of a tool go into headers.
func (c *Client) HeaderParams(ctx context.Context, tool string) ([]mcp.Param, error) {
	params := Params{}
	for range maxPages {
		result, err := c.send(ctx, mcp.MethodListTools, params, nil, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []struct {
				Name   string         `json:"name"`
				Schema jsontext.Value `json:"inputSchema"`
			} `json:"tools"`
			Next string `json:"nextCursor"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, fmt.Errorf("read list of tools: %w", err)
		}
		for i := range page.Tools {
			if page.Tools[i].Name == tool {
				return mcp.ParamsOf(page.Tools[i].Schema)
			}
		}
		if page.Next == "" {
			break
		}
		params["cursor"] = page.Next
	}
	return nil, nil
}

// send sends a request once, with further headers.
func (c *Client) send(ctx context.Context, method string, params Params, further http.Header, notify Notify) (jsontext.Value, error) {
	body, err := c.request(method, params)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	for name, values := range c.Header {
		r.Header[name] = values
	}
	for name, values := range further {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", mcp.Modern)
	r.Header.Set("Mcp-Method", method)
	if name := nameOf(method, params); name != "" {
		r.Header.Set("Mcp-Name", mcp.EscapeHeader(name))
	}
	response, err := c.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "text/event-stream" {
		return c.stream(response.Body, notify)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	result, _, err := open(data)
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		e.Status = response.StatusCode
	}
	if errors.Is(err, errNoMessage) {
		text, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
		return nil, &StatusError{Status: response.StatusCode, Body: text[:min(len(text), 300)]}
	}
	return result, err
}

// request returns the body of a request.
func (c *Client) request(method string, params Params) ([]byte, error) {
	all := make(map[string]any, len(params)+1)
	for name, value := range params {
		all[name] = value
	}
	capabilities := c.Capabilities
	if capabilities == nil {
		capabilities = jsontext.Value("{}")
	}
	id := c.last.Add(1)
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion":    mcp.Modern,
		"io.modelcontextprotocol/clientCapabilities": capabilities,
		"io.modelcontextprotocol/clientInfo":         map[string]string{"name": c.Name, "version": c.Version},
		"progressToken":                              id,
	}
	if given, ok := params["_meta"].(map[string]any); ok {
		for name, value := range given {
			meta[name] = value
		}
	}
	all["_meta"] = meta
	return json.Marshal(struct {
		Version string         `json:"jsonrpc"`
		ID      int64          `json:"id"`
		Method  string         `json:"method"`
		Params  map[string]any `json:"params"`
	}{"2.0", id, method, all}, json.Deterministic(true))
}

// nameOf is what Mcp-Name carries (TRN-20, TRN-21).
func nameOf(method string, params Params) string {
	key := map[string]string{
		"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
		"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
	}[method]
	name, _ := params[key].(string)
	return name
}

var errNoMessage = errors.New("the answer is no message of JSON-RPC")

// open returns the result of a response. Of a notification or a request it returns
// the message as other.
func open(data []byte) (result jsontext.Value, other *notification, err error) {
	var m struct {
		Version string         `json:"jsonrpc"`
		Method  string         `json:"method"`
		Params  jsontext.Value `json:"params"`
		Result  jsontext.Value `json:"result"`
		Error   *struct {
			Code    int            `json:"code"`
			Message string         `json:"message"`
			Data    jsontext.Value `json:"data"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &m) != nil || m.Version != "2.0" {
		return nil, nil, errNoMessage
	}
	switch {
	case m.Method != "":
		return nil, &notification{m.Method, m.Params}, nil
	case m.Error != nil:
		return nil, nil, &mcp.Error{Code: m.Error.Code, Message: m.Error.Message, Data: m.Error.Data}
	case m.Result != nil:
		return m.Result, nil, nil
	}
	return nil, nil, errNoMessage
}

type notification struct {
	method string
	params jsontext.Value
}

// stream reads messages until the response.
func (c *Client) stream(body io.Reader, notify Notify) (jsontext.Value, error) {
	events := sse.New(body, maxAnswer)
	for {
		event, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("the answer broke off: %w", err)
		}
		result, other, err := open(event.Data)
		switch {
		case err != nil || other == nil:
			return result, err
		case notify != nil:
			notify(other.method, other.params)
		}
	}
}
