// Package upstream speaks to MCP servers on behalf of callers.
//
// Inside the node every request is one of MCP 2026-07-28. This package carries it
// to a server over HTTP or over the standard streams of a process, whatever
// revision that server speaks, and brings back what the server says in the words
// of 2026-07-28.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
)

// Request is one request of MCP 2026-07-28 on its way to a server. Names and URIs
// are those that the server knows.
type Request struct {
	// Message is the request.
	Message *mcp.Message
	// Header holds what may be handed on of the header of the client's request:
	// Mcp-Param-*, traceparent and tracestate. Everything else is left out
	// (AUT-07). nil is none.
	Header http.Header
	// Caller is for whom the request is made: it decides on credentials, on
	// sessions and on processes. nil is the node itself.
	Caller *auth.Principal
	// Timeout is how long the answer may take; progress begins it anew. 0 is what
	// the configuration of the server says.
	Timeout time.Duration
}

// Answer is what a server says to a request: the notifications that belong to it
// and then one response.
type Answer interface {
	// Next returns the next message, which is valid until the next call, and
	// io.EOF after the response. Its other errors are those of Server.Do.
	Next() (*mcp.Message, error)
	// Close gives the request up if it is not over (CAN-01), and is called in any
	// case.
	Close() error
}

// Raw is an Answer that is one JSON document over HTTP which can be handed on as
// it comes.
type Raw interface {
	Answer
	// Raw returns the document, and how many bytes it has, or -1 where that is not
	// known. Next is not called after it. A Read fails where the document turns
	// out not to be the answer to the request.
	Raw() (body io.Reader, length int64)
}

// Server is an MCP server. It is safe for concurrent use.
type Server interface {
	// Name returns the name of the server in the configuration.
	Name() string
	// Do sends a request. Its error has an *mcp.Error, and wraps ErrUnavailable
	// where the server has certainly not begun with the request, or
	// ErrOutcomeUnknown where it may have.
	Do(ctx context.Context, r *Request) (Answer, error)
}

var (
	// ErrUnavailable says that a server has never taken a request.
	ErrUnavailable = errors.New("the server is not available")
	// ErrOutcomeUnknown says that a server may have done what was asked, and that
	// nobody knows whether it has (TRN-12).
	ErrOutcomeUnknown = errors.New("the outcome is unknown")
)

// Error is what became of a request that the server did not answer as it should.
// It is an *mcp.Error for who answers the client, and ErrUnavailable or
// ErrOutcomeUnknown for who thinks about trying again.
type Error struct {
	Server string
	Reply  *mcp.Error // what the client is told; nothing in it is from the server
	Kind   error      // ErrUnavailable, ErrOutcomeUnknown, or nil: the server has refused
	Err    error      // why, for the log; nil: there is no more to say
}

// Error says what happened at which server.
func (e *Error) Error() string {
	text := fmt.Sprintf("call MCP server %q: %s", e.Server, e.Reply.Message)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the reply, the kind and the cause.
func (e *Error) Unwrap() []error {
	all := []error{e.Reply}
	if e.Kind != nil {
		all = append(all, e.Kind)
	}
	if e.Err != nil {
		all = append(all, e.Err)
	}
	return all
}
