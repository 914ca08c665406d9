package bridge

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/mcp"
)

// StateMember is the member of the private state of a task that has the state of a
// call in the middle of a turn, where Calls.Recall finds it.
const StateMember = "tool_call"

// InTurn is a call of a tool that an agent makes in its turns, among other work. It
// goes through the same gate as that of any caller, is not made twice when a process
// dies, and may take many turns: when a person has to approve it, when the tool asks
// for something, and when its server makes a task of it.
type InTurn struct {
	Calls *Calls
	Gate  Gate
	// Version is that of the program.
	Version string

	Tool      string // by the name that Gate has for it
	Arguments jsontext.Value
	// Name tells the call from the others of its task, such as call-3. It is the key
	// under which the call can be made again, with the id of the task.
	Name string
	// State is what Save has kept last; nil for a call that is new.
	State jsontext.Value
	// Save keeps the state of the call durably, with all that the agent has beside,
	// before it returns.
	Save func(state jsontext.Value) error
	// Input says that the messages and the decision that have begun the turn are for
	// the call.
	Input bool
}

// Result is what came of a call.
type Result struct {
	// Result is that of the server, as it has sent it; nil when there is none.
	Result jsontext.Value
	// Error is the error of JSON-RPC in place of a result.
	Error jsontext.Value
	// Server and Tool are those that were called, "" when none was.
	Server, Tool string
	// Approved says that a person has approved the call.
	Approved bool
	// Refused is the error of Admit; nil when the call was let through.
	Refused error
}

// Asks reports whether the state of a call is that of one whose tool has asked for
// something that a message can answer.
func Asks(state jsontext.Value) bool {
	s, err := decodeState([]byte(state))
	return err == nil && len(s.open()) > 0
}

// Made reports whether the state of a call is that of one which may be at its server.
func Made(state jsontext.Value) bool {
	s, err := decodeState([]byte(state))
	return err == nil && s.Stage != stageNew
}

// Do goes on with the call. It returns nil without an error when it has ended the
// turn, and wants to be called again in the next one.
func (c *InTurn) Do(ctx context.Context, t *agent.Turn) (*Result, error) {
	s, err := decodeState([]byte(c.State))
	if err != nil {
		return nil, err
	}
	turn := *t
	if !c.Input {
		turn.Messages, turn.Grant = nil, nil
	}
	rim := &turnRim{}
	w := &work{ctx: ctx, turn: &turn, state: s, rim: rim, keep: c.Save, name: c.Name + ":"}
	if s.Call == nil {
		s.Call = newKept(t, c.Tool, c.Arguments, c.Version)
	}
	w.call = s.Call
	w.caller = &caller{calls: c.Calls, server: w.call.Server}
	switch {
	case s.Stage != stageNew:
		err = w.run()
	case turn.Grant == nil || w.call.Approve == "":
		err = w.beginAllowed(c.Gate, t.TaskID+":"+c.Name)
	default:
		err = w.begin()
	}
	if err != nil || rim.result == nil {
		return nil, err
	}
	rim.result.Server, rim.result.Tool, rim.result.Approved = w.call.Server, w.call.Tool, s.Approved
	rim.result.Refused = w.refused
	return rim.result, nil
}

// turnRim takes what comes of a call for the agent that makes it.
type turnRim struct{ result *Result }

func (r *turnRim) complete(_ *work, result jsontext.Value) error {
	r.result = &Result{Result: result.Clone()}
	return nil
}

func (r *turnRim) fail(_ *work, e jsontext.Value, _ string) error {
	r.result = &Result{Error: e.Clone()}
	return nil
}

func (r *turnRim) canceled(w *work, text string) error {
	return w.fail(mcp.Errorf(mcp.CodeInternal, "The server has canceled the call: %s", text))
}

func (*turnRim) ask(w *work, open []input) error { return agentRim{}.ask(w, open) }
