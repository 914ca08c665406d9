package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"handoff.example/handoff/a2a"
)

// ToolResult is what a tool has answered (MCP server/tools §Tool Result).
type ToolResult struct {
	// Content are the blocks of content as parts: text, files, links.
	Content []a2a.Part
	// Structured is the structured content, byte by byte; nil when there is none.
	Structured a2a.JSON
	// IsError says that the tool has run and reports a failure, which Content tells.
	// It is not an error of Turn.Tool: the tool was called, once.
	IsError bool
	// Server and Tool are those that were called, as the server is configured and as
	// it calls the tool itself.
	Server, Tool string
	// Approved says that a person has approved the call.
	Approved bool
}

// Text returns the texts of the content, one a line.
func (r *ToolResult) Text() string {
	var texts []string
	for i := range r.Content {
		if r.Content[i].Kind == a2a.PartText {
			texts = append(texts, r.Content[i].Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Decode reads the structured content into v, or the text as JSON where the tool
// has no structured content. Names are matched as encoding/json matches them.
func (r *ToolResult) Decode(v any) error {
	text := []byte(r.Structured)
	if text == nil {
		text = []byte(r.Text())
	}
	if err := json.Unmarshal(text, v, json.MatchCaseInsensitiveNames(true)); err != nil {
		return fmt.Errorf("decode result of tool %s: %w", r.Tool, err)
	}
	return nil
}

// What has come of a call without a result, for errors.Is. But for ErrToolWaits and
// ErrNoGateway they come within a *ToolError.
var (
	// ErrNoGateway says that whoever runs the agent has no gateway for tools.
	ErrNoGateway = errors.New("there is no gateway for tools")
	// ErrToolWaits says that the call has ended the turn, and that the agent has to
	// return. What it returns does not matter: it is run again when there is a result.
	ErrToolWaits = errors.New("the call waits, and has ended the turn")
	// ErrToolNotFound says that the caller has no such tool: it is unknown, or hidden
	// from him, which is the same.
	ErrToolNotFound = errors.New("there is no such tool")
	// ErrToolRefused says that policy, or the person who was asked, does not allow the
	// call. It was not made.
	ErrToolRefused = errors.New("the call was refused")
	// ErrToolArguments says that the arguments do not fit. It was not made, unless the
	// server itself says so.
	ErrToolArguments = errors.New("the arguments do not fit")
	// ErrToolUnavailable says that the server cannot be reached. The call was not made,
	// and may be tried later.
	ErrToolUnavailable = errors.New("the server of the tool is away")
	// ErrToolOutcome says that nobody knows whether the call was made, or what came of
	// it. It is not made again.
	ErrToolOutcome = errors.New("the outcome of the call is not known")
	// ErrToolFailed says that the server has answered with an error instead of a result.
	ErrToolFailed = errors.New("the call has failed")
)

// ToolError says why a call of a tool has no result.
type ToolError struct {
	// Tool is the name that was called.
	Tool string
	// Kind is one of ErrToolNotFound, ErrToolRefused, ErrToolArguments,
	// ErrToolUnavailable, ErrToolOutcome and ErrToolFailed.
	Kind error
	// Field is the argument that does not fit, such as lines[].sku; "" when it is not
	// known, or not a single one.
	Field string
	// Reason says it in words.
	Reason string
	// Code and Data are those of the error of JSON-RPC; 0 and nil without one.
	Code int
	Data a2a.JSON
	// RetryAfter is how long to wait before the call may be tried again; 0: not said.
	RetryAfter time.Duration
}

// Error names the tool and says why.
func (e *ToolError) Error() string {
	text := "call tool " + e.Tool + ": " + e.Kind.Error()
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Unwrap returns the Kind.
func (e *ToolError) Unwrap() error { return e.Kind }

// ToolRuntime is a Runtime that can call tools. The arguments are an object.
type ToolRuntime interface {
	Runtime
	Tool(ctx context.Context, name string, arguments a2a.JSON) (*ToolResult, error)
}

// Tool calls a tool through the gateway of the node, as whoever has sent the message:
// what policy hides from that caller, refuses him or lets a person approve is so here
// too, and the call is recorded as his. The name is that at /mcp, such as draft_order,
// or SERVER/TOOL as the server has it. The arguments are nil, an object of JSON
// (a2a.JSON), or anything that encodes to one, such as a struct or a map; omitempty
// leaves out what encoding/json would.
//
// The call may wait for a person who has to approve it, for an answer that the tool
// asks for, or for a task that the server makes of it. Tool then returns
// ErrToolWaits, and the agent returns. The task waits as a row, for days and
// across restarts; the question or the request for approval is its status, and is in
// the inbox. When there is a result, the agent is run again from the beginning of the
// same turn: with the same Messages, Number, Cause, Grant and Outcome, and one more
// Attempt. There Tool returns the result. Messages that came in meanwhile, and were
// not for the tool, are given to the next turn.
//
// A call that was made is not made again: not when the agent is run again, and not
// when the process dies. What came of it, an error too, is kept with the task and
// returned again to the same call, which is the one with the same name and arguments,
// counted within the turn. So arguments must not change from run to run: take the time
// or a random number from the task or from Once. A call that was at its server when
// the process died is made again only where policy says that this does no harm
// (idempotent: true); otherwise Tool returns ErrToolOutcome. An agent whose
// OnInterrupt is not resume fails then, as after any crash.
//
// The calls of a turn are made one at a time, and have to come in the same order. When
// ctx ends before a result is there, that is what came of the call: ErrToolOutcome, or
// ErrToolUnavailable where it was not made yet. A call makes the task visible, so that
// the agent cannot answer with Message any more. Errors that are of the call are a
// *ToolError; others say that the turn has to end.
func (t *Turn) Tool(ctx context.Context, name string, args any) (*ToolResult, error) {
	rt, ok := t.rt.(ToolRuntime)
	if !ok {
		return nil, fmt.Errorf("call tool %s: %w", name, ErrNoGateway)
	}
	arguments, err := toolArguments(args)
	if err != nil {
		return nil, &ToolError{Tool: name, Kind: ErrToolArguments, Reason: err.Error()}
	}
	return rt.Tool(ctx, name, arguments)
}

// toolArguments are arguments as an object.
func toolArguments(args any) (a2a.JSON, error) {
	var text []byte
	switch v := args.(type) {
	case nil:
		return a2a.JSON(`{}`), nil
	case a2a.JSON:
		text = v
	default:
		encoded, err := json.Marshal(args, json.Deterministic(true), jsonv1.OmitEmptyWithLegacySemantics(true))
		if err != nil {
			return nil, err
		}
		text = encoded
	}
	if text = bytes.TrimSpace(text); !jsontext.Value(text).IsValid() || jsontext.Value(text).Kind() != '{' {
		return nil, errors.New("they are not an object of JSON")
	}
	return a2a.JSON(bytes.Clone(text)), nil
}

// Within returns a turn on what wrap makes of the runtime of this one. Those who stand
// between an engine and an agent call it.
func (t *Turn) Within(info Info, wrap func(Runtime) Runtime) *Turn {
	return &Turn{Info: info, ctx: t.ctx, rt: wrap(t.rt)}
}
