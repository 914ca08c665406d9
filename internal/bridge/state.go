package bridge

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/mcp"
)

// stage is how far a kept call has got.
type stage string

const (
	stageNew       stage = ""
	stageCalling   stage = "calling"   // the request may be at the server
	stageAsked     stage = "asked"     // the server has asked, and the request is to be made again
	stageFollowing stage = "following" // the server has a task
)

// callState is the private state of the task of a kept call.
type callState struct {
	Stage    stage `json:"stage,omitempty"`
	Approved bool  `json:"approved,omitempty"`
	Round    int   `json:"round,omitempty"` // of answers that the server was given
	// RequestState goes back to the server as it came (MRT-02).
	RequestState jsontext.Value `json:"requestState,omitzero"`
	Inputs       []input        `json:"inputs,omitempty"` // of the last question
	Used         []string       `json:"used,omitempty"`   // keys of earlier ones (TSK-10)
	Task         string         `json:"task,omitempty"`   // of the server
	Since        time.Time      `json:"since,omitzero"`   // the task is there

	// Of an agent whose skills are tools, which has to find out what to call.
	Tool      string         `json:"tool,omitempty"`
	Arguments jsontext.Value `json:"arguments,omitzero"` // so far
	Call      *keptCall      `json:"call,omitempty"`     // once it is known
}

// input is one thing that a server asks for.
type input struct {
	Key     string         `json:"key"`    // as our client knows it
	Theirs  string         `json:"theirs"` // as the server does
	Request jsontext.Value `json:"request"`
	Answer  jsontext.Value `json:"answer,omitzero"`
	Sent    bool           `json:"sent,omitempty"` // the answer is with the server
}

func decodeState(text a2a.JSON) (*callState, error) {
	s := &callState{}
	if text == nil {
		return s, nil
	}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	return s, nil
}

func (s *callState) encode() (a2a.JSON, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return text, nil
}

// asked takes what a server asks for in answer to a call: every request is a new
// one, also under a key that was there before (TSK-10).
func (s *callState) asked(requests []member) {
	s.Inputs = nil
	for _, r := range requests {
		s.Inputs = append(s.Inputs, input{Key: s.fresh(r.name), Theirs: r.name, Request: r.value})
	}
}

// asking takes what the task of a server asks for, and reports whether there is
// something new: the same key is the same request (TSK-16).
func (s *callState) asking(requests []member) (news bool) {
	for _, r := range requests {
		if !slices.ContainsFunc(s.Inputs, func(i input) bool { return i.Theirs == r.name }) {
			s.Inputs = append(s.Inputs, input{Key: s.fresh(r.name), Theirs: r.name, Request: r.value})
			news = true
		}
	}
	return news
}

// fresh returns a key that was not used before.
func (s *callState) fresh(name string) string {
	key := name
	for n := 2; slices.Contains(s.Used, key); n++ {
		key = name + "-" + strconv.Itoa(n)
	}
	s.Used = append(s.Used, key)
	return key
}

// open returns what is not answered yet.
func (s *callState) open() (open []input) {
	for _, i := range s.Inputs {
		if i.Answer == nil {
			open = append(open, i)
		}
	}
	return open
}

// answer takes answers. What nobody has asked for, or is answered already, is
// ignored (TSK-09).
func (s *callState) answer(responses []member) {
	for _, r := range responses {
		for i := range s.Inputs {
			if in := &s.Inputs[i]; in.Key == r.name && in.Answer == nil {
				in.Answer = r.value
			}
		}
	}
}

// responses returns the answers that the server does not have yet, under its keys.
func (s *callState) responses() jsontext.Value {
	var list []member
	for _, i := range s.Inputs {
		if i.Answer != nil && !i.Sent {
			list = append(list, member{i.Theirs, i.Answer})
		}
	}
	return object(list)
}

// retry returns the request with the answers (MRT-02).
func (s *callState) retry(m *mcp.Message) *mcp.Message {
	m = m.WithParam("inputResponses", nil).WithParam("requestState", nil)
	if len(s.Inputs) > 0 {
		m = m.WithParam("inputResponses", s.responses())
	}
	if s.RequestState != nil {
		m = m.WithParam("requestState", s.RequestState)
	}
	return m
}

// member is a member of a JSON object.
type member struct {
	name  string
	value jsontext.Value
}

// membersOf returns the members of an object in their order, and false for what is
// none.
func membersOf(value jsontext.Value) ([]member, bool) {
	d := jsontext.NewDecoder(bytes.NewReader(value))
	if d.PeekKind() != '{' {
		return nil, false
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	var list []member
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		key := name.String()
		v, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		list = append(list, member{key, v.Clone()})
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	return list, true
}

// valueOf returns a member of an object, nil when there is none.
func valueOf(value jsontext.Value, name string) jsontext.Value {
	list, _ := membersOf(value)
	for _, m := range list {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// textOf returns a member of an object that is a string, "" for anything else.
func textOf(value jsontext.Value, name string) string {
	var text string
	if v := valueOf(value, name); v.Kind() == '"' {
		_ = json.Unmarshal(v, &text)
	}
	return text
}

// object returns the object with those members, without those that are nil.
func object(list []member) jsontext.Value {
	out := []byte{'{'}
	for _, m := range list {
		if m.value == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, quoted(m.name)...), ':'), m.value...)
	}
	return append(out, '}')
}
