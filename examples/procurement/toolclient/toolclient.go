// Package toolclient calls tools of MCP servers, with the official SDK: those behind
// the gateway for the buyer, and finance's own for finance.
package toolclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// IdempotencyKey is the member of _meta under which a call has its idempotency key.
const IdempotencyKey = "handoff.example/idempotencyKey"

// Codes of the gateway for a call that can be made again: it waits for a person, or
// the server behind the gateway cannot be reached or takes too long.
const (
	approvalPending = 4091
	unavailable     = 5030
	timeout         = 5040
)

// patience is how long a server may be gone.
const patience = time.Minute

// ErrKey says that a server does not know the key.
var ErrKey = errors.New("the key is refused")

// Server is an MCP server, or the gateway in front of some.
type Server struct {
	URL string // of its endpoint
	Key string // API key that it has given to the caller
}

// RefusedError is what a tool says when it does not do what was asked.
type RefusedError struct{ Tool, Text string }

func (e *RefusedError) Error() string { return e.Tool + ": " + e.Text }

// Call calls a tool that can be called again, since it only reads, is idempotent or
// the call has an idempotency key, and reads its structured result into out. The same
// call is made again while the server is gone, for a minute, and while it waits for a
// person, until that one has decided or ctx ends.
func (s Server) Call(ctx context.Context, tool, idempotencyKey string, arguments, out any) error {
	gone := time.Now().Add(patience)
	for {
		err := s.once(ctx, tool, idempotencyKey, arguments, out)
		again, waits := repeatable(err)
		if waits {
			gone = time.Now().Add(patience)
		}
		if !again || time.Now().After(gone) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// repeatable says whether a call that has failed is made again, and whether a person
// is why.
func repeatable(err error) (again, waits bool) {
	var refused *RefusedError
	var answer *jsonrpc.Error
	switch {
	case err == nil, errors.As(err, &refused), errors.Is(err, ErrKey):
		return false, false
	case errors.As(err, &answer):
		return answer.Code == approvalPending || answer.Code == unavailable || answer.Code == timeout, answer.Code == approvalPending
	}
	return true, false // nobody has answered
}

func (s Server) once(ctx context.Context, tool, idempotencyKey string, arguments, out any) (err error) {
	session, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	if idempotencyKey != "" {
		params.Meta = mcp.Meta{IdempotencyKey: idempotencyKey}
	}
	result, err := session.CallTool(ctx, params)
	if err != nil {
		return fmt.Errorf("call %s: %w", tool, err)
	}
	if result.IsError {
		return &RefusedError{tool, text(result)}
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err == nil {
		err = json.Unmarshal(structured, out)
	}
	if err != nil {
		return fmt.Errorf("read result of %s: %w", tool, err)
	}
	return nil
}

// Connect connects to the server. The session has to be closed.
func (s Server) Connect(ctx context.Context) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "procurement", Version: "3.1.0"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: &http.Client{Transport: withKey(s.Key)}, DisableStandaloneSSE: true, MaxRetries: -1,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.URL, err)
	}
	return session, nil
}

// withKey adds a key to each request, and says when it is refused.
type withKey string

func (key withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(key))
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden) {
		_ = response.Body.Close()
		return nil, ErrKey
	}
	return response, err
}

func text(result *mcp.CallToolResult) string {
	var all []string
	for _, c := range result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			all = append(all, t.Text)
		}
	}
	return strings.Join(all, "\n")
}
