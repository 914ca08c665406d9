// Package toolclient calls tools of MCP servers, with the official SDK: those behind
// the gateway for the buyer, and finance's own for finance.
package toolclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/propagation"
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

// The codes of the SDK for a connection that has ended are between these.
const (
	rejected = -32005
	closing  = -32003
)

var (
	// ErrLater says that the same call can be made again: a person has not decided
	// yet, or nobody has answered.
	ErrLater = errors.New("the call can be made again")
	// ErrApproval is that ErrLater for which a person is why.
	ErrApproval = errors.New("somebody has to approve the call")
	// ErrKey says that a server does not know the key.
	ErrKey = errors.New("the key is refused")
)

// Server is an MCP server, or the gateway in front of some.
type Server struct {
	URL string // of its endpoint
	Key string // API key that it has given to the caller
}

// RefusedError is what a tool says when it does not do what was asked.
type RefusedError struct{ Tool, Text string }

func (e *RefusedError) Error() string { return e.Tool + ": " + e.Text }

// Call calls a tool and reads its structured result into out. It is for tools that
// can be called again, since they only read, are idempotent, or the call has an
// idempotency key. Such a call fails with ErrLater, or for good.
func (s Server) Call(ctx context.Context, tool, idempotencyKey string, arguments, out any) error {
	err := s.once(ctx, tool, idempotencyKey, arguments, out)
	if err == nil || ctx.Err() != nil || !repeatable(err) {
		return err
	}
	if answer := new(jsonrpc.Error); errors.As(err, &answer) && answer.Code == approvalPending {
		return fmt.Errorf("%w: %w: %w", ErrLater, ErrApproval, err)
	}
	return fmt.Errorf("%w: %w", ErrLater, err)
}

// Reason returns why a call has failed, as a sentence for people.
func Reason(err error) string {
	var refused *RefusedError
	var answer *jsonrpc.Error
	switch {
	case errors.As(err, &refused):
		return refused.Text
	case errors.As(err, &answer):
		return answer.Message
	}
	return err.Error()
}

func repeatable(err error) bool {
	var refused *RefusedError
	var answer *jsonrpc.Error
	switch {
	case errors.As(err, &refused), errors.Is(err, ErrKey), errors.Is(err, errResult):
		return false
	case errors.Is(err, errConnect):
		return true
	case errors.As(err, &answer):
		return answer.Code == approvalPending || answer.Code == unavailable || answer.Code == timeout ||
			rejected <= answer.Code && answer.Code <= closing
	}
	return true // nobody has answered
}

var (
	errConnect = errors.New("the server cannot be reached")
	errResult  = errors.New("the result is not as it should be")
)

func (s Server) once(ctx context.Context, tool, idempotencyKey string, arguments, out any) (err error) {
	session, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	params.Meta = mcp.Meta{}
	if idempotencyKey != "" {
		params.Meta[IdempotencyKey] = idempotencyKey
	}
	// The call is a part of the trace of the turn that makes it.
	parent := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, parent)
	for name, value := range parent {
		params.Meta[name] = value
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
		return fmt.Errorf("%w: %s: %w", errResult, tool, err)
	}
	return nil
}

// Connect connects to the server. The session has to be closed.
func (s Server) Connect(ctx context.Context) (*mcp.ClientSession, error) {
	return s.ConnectWith(ctx, "")
}

// ConnectWith connects with a revision of the protocol, the newest being "".
func (s Server) ConnectWith(ctx context.Context, revision string) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "procurement", Version: "3.1.0"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: &http.Client{Transport: withKey(s.Key)}, DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errConnect, s.URL, err)
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
