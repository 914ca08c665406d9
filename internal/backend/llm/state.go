package llm

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
)

// Roles of messages, as the API has them.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// message is one of the conversation.
type message struct {
	Role   string     `json:"role"`
	Text   string     `json:"text,omitempty"`
	Images []image    `json:"images,omitempty"` // of the user
	Calls  []function `json:"calls,omitempty"`  // of the model
	ID     string     `json:"id,omitempty"`     // of the call that this is the result of
	Short  bool       `json:"short,omitzero"`   // the result was left out for want of room
}

// function is a call that the model has asked for.
type function struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // an object
}

// kind is what a call does.
type kind string

const (
	kindTool     kind = "tool"
	kindDelegate kind = "delegate"
	kindAsk      kind = "ask"
	kindMistake  kind = "mistake" // the model is told what is wrong
)

// pending is a call that has no result yet. Calls are made one after the other.
type pending struct {
	ID        string         `json:"id"` // of the model
	N         int            `json:"n"`  // among the calls of the task, from 1
	Kind      kind           `json:"kind"`
	Server    string         `json:"server,omitempty"` // whose gate it goes through
	Target    string         `json:"target,omitempty"` // tool, peer or agent
	Arguments jsontext.Value `json:"arguments,omitzero"`
	Wrong     string         `json:"wrong,omitempty"` // with a mistake
	Begun     bool           `json:"begun,omitzero"`  // it counts already
	// Parked is the turn that the call has ended; 0: none.
	Parked int   `json:"parked,omitzero"`
	Since  int64 `json:"since,omitzero"` // Unix time in ms when it began
}

// spent is what a task has used.
type spent struct {
	Steps       int   `json:"steps,omitzero"`
	ModelCalls  int   `json:"modelCalls,omitzero"`
	ToolCalls   int   `json:"toolCalls,omitzero"`
	Delegations int   `json:"delegations,omitzero"`
	Input       int64 `json:"input,omitzero"`
	Output      int64 `json:"output,omitzero"`
	Cost        int64 `json:"cost,omitzero"` // in billionths of the currency
	Text        int64 `json:"text,omitzero"` // bytes of answers
}

// state is the private state of a task: the conversation and where it is.
type state struct {
	Version      int       `json:"v"`
	Conversation []message `json:"conversation,omitempty"`
	// Queue are messages that came while calls had no result yet, which has to stand
	// first.
	Queue []message `json:"queue,omitempty"`
	Calls []pending `json:"calls,omitempty"`
	// ToolCall is the state of the first of the calls.
	ToolCall jsontext.Value `json:"tool_call,omitzero"` // bridge.StateMember
	Turn     int            `json:"turn"`               // whose messages are taken
	Asking   bool           `json:"asking,omitzero"`    // the model was asked, and has not answered yet
	Numbered int            `json:"numbered,omitzero"`  // calls so far
	Mistakes int            `json:"mistakes,omitzero"`  // in a row
	Failures int            `json:"failures,omitzero"`  // of the API in a row
	Spent    spent          `json:"spent"`
	// Scale is how many tokens a byte of the conversation has been; 0: not known.
	Scale float64 `json:"scale,omitzero"`
}

const stateVersion = 1

func decodeState(text a2a.JSON) (*state, error) {
	s := &state{Version: stateVersion}
	if text == nil {
		return s, nil
	}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("decode conversation: %w", err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("decode conversation: it is of version %d, and not %d", s.Version, stateVersion)
	}
	return s, nil
}

func (s *state) encode() (a2a.JSON, error) {
	text, err := json.Marshal(s, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("encode conversation: %w", err)
	}
	return text, nil
}

// answered reports whether the model has had its last word.
func (s *state) answered() bool {
	n := len(s.Conversation)
	return n > 0 && s.Conversation[n-1].Role == roleAssistant && len(s.Conversation[n-1].Calls) == 0
}

// fresh reports whether an id is not that of a call of the conversation.
func (s *state) fresh(id string) bool {
	for i := range s.Conversation {
		for _, c := range s.Conversation[i].Calls {
			if c.ID == id {
				return false
			}
		}
	}
	return true
}

// done gives the first of the calls its result.
func (w *work) done(text string) {
	s := w.state
	s.Conversation = append(s.Conversation, message{Role: roleTool, ID: s.Calls[0].ID, Text: bounded(text, int(w.conf.Limits.ToolResult))})
	s.Calls, s.ToolCall = s.Calls[1:], nil
}

// total is what a task has used, for its events.
type total struct {
	Steps       int            `json:"steps"`
	ModelCalls  int            `json:"model_calls"`
	ToolCalls   int            `json:"tool_calls"`
	Delegations int            `json:"delegations"`
	Input       int64          `json:"input_tokens,omitzero"`
	Output      int64          `json:"output_tokens,omitzero"`
	Cost        jsontext.Value `json:"cost,omitzero"`
	Currency    string         `json:"currency,omitempty"`
}

func (s *spent) total(c *config.LLM) total {
	t := total{Steps: s.Steps, ModelCalls: s.ModelCalls, ToolCalls: s.ToolCalls, Delegations: s.Delegations}
	if c.ShowUsage {
		t.Input, t.Output = s.Input, s.Output
		if priced(c) {
			t.Cost, t.Currency = money(s.Cost), c.Price.Currency
		}
	}
	return t
}

// priced reports whether anybody says what the model costs.
func priced(c *config.LLM) bool { return c.Price.Input > 0 || c.Price.Output > 0 }

// money writes billionths as a number.
func money(billionths int64) jsontext.Value {
	return jsontext.Value(strconv.FormatFloat(float64(billionths)/1e9, 'f', -1, 64))
}
