package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/mcp"
)

// Keys of what is kept beside a task whose agent calls tools from Go.
const (
	keptTurnKey = "handoff.example/tool:turn"    // where the turn is
	keptInfoKey = "handoff.example/tool:info"    // what began it
	keptCallKey = "handoff.example/tool:call-%s" // what came of a call
)

// keptTurn is where the turn of an agent is that calls tools. To the engine it is many
// turns when calls have to wait; to the agent it is one that is run again.
type keptTurn struct {
	Turn    int              `json:"turn"`                // of the engine, whose messages are taken
	Began   int              `json:"began"`               // the turn of the engine that began it
	Number  int              `json:"number"`              // as the agent counts
	Runs    int              `json:"runs,omitzero"`       // that have ended with a wait
	Skipped int              `json:"skipped,omitzero"`    // turns of the engine that the agent does not count
	Queue   []jsontext.Value `json:"queue,omitempty"`     // messages for the next turn
	Info    bool             `json:"info,omitzero"`       // what began it is kept
	Later   bool             `json:"later,omitzero"`      // it follows another within one turn of the engine
	Emitted []string         `json:"artifacts,omitempty"` // ids of what earlier runs have emitted
	Call    *pendingCall     `json:"call,omitempty"`      // the one that is not over
	Input   bool             `json:"input,omitzero"`      // what began the turn of the engine is for the call
}

// pendingCall is a call of a tool that is not over.
type pendingCall struct {
	Name      string         `json:"name"` // that tells it from the others of the task
	Tool      string         `json:"tool"` // as the agent has called it
	Arguments jsontext.Value `json:"arguments"`
	State     jsontext.Value `json:"state,omitzero"`
}

func decodeToolTurn(text a2a.JSON) (*keptTurn, error) {
	k := &keptTurn{}
	if err := json.Unmarshal(text, k); err != nil {
		return nil, fmt.Errorf("decode turn: %w", err)
	}
	return k, nil
}

// messages are those of the queue.
func (k *keptTurn) messages() ([]a2a.Message, error) {
	list := make([]a2a.Message, len(k.Queue))
	for i, text := range k.Queue {
		if err := a2a.Unmarshal(text, &list[i]); err != nil {
			return nil, fmt.Errorf("decode message: %w", err)
		}
	}
	return list, nil
}

func (k *keptTurn) put(messages []a2a.Message) {
	for i := range messages {
		k.Queue = append(k.Queue, messages[i].AppendJSON(nil))
	}
}

// began is what a turn began with. The data of a grant is a secret that its request
// keeps.
func beganWith(ctx context.Context, i *agent.Info) a2a.JSON {
	kept := agent.Info{
		Agent: i.Agent, TaskID: i.TaskID, ContextID: i.ContextID, Number: i.Number, Attempt: 1, Cause: i.Cause,
		Messages: i.Messages, Outcome: i.Outcome, Skill: i.Skill, References: i.References,
	}
	if i.Grant != nil {
		grant := *i.Grant
		grant.Data = nil
		kept.Grant = &grant
	}
	return agent.AppendTurnJSON(nil, agent.NewTurn(ctx, kept, nil), nil, nil)
}

// keptResult is what has come of a call.
type keptResult struct {
	Result   jsontext.Value `json:"result,omitzero"`
	Kind     string         `json:"kind,omitempty"` // of the error; "": there is none
	Field    string         `json:"field,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Code     int            `json:"code,omitzero"`
	Data     jsontext.Value `json:"data,omitzero"`
	Retry    int            `json:"retry,omitzero"` // seconds
	Server   string         `json:"server,omitempty"`
	Tool     string         `json:"tool,omitempty"`
	Approved bool           `json:"approved,omitempty"`
}

// kinds are those of errors of calls, as they are kept.
var kinds = map[string]error{
	"unknown-tool": agent.ErrToolNotFound, "refused": agent.ErrToolRefused, "arguments": agent.ErrToolArguments,
	"unavailable": agent.ErrToolUnavailable, "outcome": agent.ErrToolOutcome, "failed": agent.ErrToolFailed,
}

// ErrNoTool is within the error of a Gate for a tool that the caller does not have.
var ErrNoTool = errors.New("there is no such tool")

// ArgumentsError is within the error of a Gate for arguments that do not fit.
type ArgumentsError struct {
	Field  string // "": not a single one, or not known
	Reason string
}

// Error says what does not fit.
func (e *ArgumentsError) Error() string { return e.Reason }

// keptOfResult is what is kept of what came of a call.
func keptOfResult(r *Result) *keptResult {
	k := &keptResult{Server: r.Server, Tool: r.Tool, Approved: r.Approved}
	if r.Error == nil {
		if r.Result.Kind() != '{' {
			k.Kind, k.Reason = "outcome", "The tool has answered with something that is not understood"
			return k
		}
		k.Result = r.Result
		return k
	}
	e := mcp.ParseError(r.Error)
	k.Reason, k.Code, k.Data = e.Message, e.Code, e.Data
	if r.Refused != nil {
		k.Retry = mcp.AsError(r.Refused).RetryAfter
	}
	wrong, misfit := errors.AsType[*ArgumentsError](r.Refused)
	switch {
	case errors.Is(r.Refused, ErrNoTool):
		k.Kind = "unknown-tool"
	case misfit:
		k.Kind, k.Field = "arguments", wrong.Field
	default:
		k.Kind = kindOf(e.Code, r.Refused != nil)
	}
	return k
}

func kindOf(code int, refused bool) string {
	switch code {
	case mcp.CodeDenied, mcp.CodeRateLimited, mcp.CodeBudget, mcp.CodeKeyRequired, mcp.CodeIdempotencyConflict:
		return "refused"
	case mcp.CodeUnavailable:
		return "unavailable"
	case mcp.CodeOutcomeUnknown, mcp.CodeTimeout, mcp.CodeBadAnswer:
		if !refused {
			return "outcome"
		}
	case mcp.CodeInvalidParams:
		return "arguments"
	}
	if refused {
		return "unavailable" // it was not made, and nobody said that it may not be
	}
	return "failed"
}

// result is what the agent is given.
func (k *keptResult) result(name string) (*agent.ToolResult, error) {
	if k.Kind != "" {
		kind := kinds[k.Kind]
		if kind == nil {
			kind = agent.ErrToolFailed
		}
		return nil, &agent.ToolError{
			Tool: name, Kind: kind, Field: k.Field, Reason: k.Reason, Code: k.Code, Data: a2a.JSON(k.Data), RetryAfter: time.Duration(k.Retry) * time.Second,
		}
	}
	r := &agent.ToolResult{
		Structured: a2a.JSON(valueOf(k.Result, "structuredContent")), IsError: string(valueOf(k.Result, "isError")) == "true",
		Server: k.Server, Tool: cmp.Or(k.Tool, name), Approved: k.Approved,
	}
	var blocks []jsontext.Value
	if v := valueOf(k.Result, "content"); v.Kind() == '[' {
		if err := json.Unmarshal(v, &blocks); err != nil {
			return nil, fmt.Errorf("decode result: %w", err)
		}
	}
	for _, block := range blocks {
		if p, ok := contentPart(block); ok {
			r.Content = append(r.Content, p)
		}
	}
	return r, nil
}

// fresh is a turn of the agent that begins with one of the engine.
func fresh(t *agent.Turn, skipped int) *keptTurn {
	return &keptTurn{Turn: t.Number, Began: t.Number, Number: t.Number - skipped, Skipped: skipped}
}
