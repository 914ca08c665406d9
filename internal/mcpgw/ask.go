package mcpgw

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// Bounds of what a server asks a client for.
const (
	maxRounds = 100
	maxAsked  = 50 // at once
)

// question is something that a client is asked for.
type question struct {
	key    string         // among the inputRequests
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	id     jsontext.Value // of the request to the client
	answer chan []byte
}

// nextRound asks a legacy client, on the stream of its call, what a server wants to
// know before it goes on, and returns the call with the answers (MRT-02, MRT-09).
func (x *exchange) nextRound(m *mcp.Message, request *upstream.Request, round int) (*upstream.Request, error) {
	if round >= maxRounds {
		return nil, &mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server asks again and again"}
	}
	state := m.Param("requestState")
	if state != nil && state.Kind() != '"' {
		return nil, &mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server has answered with a requestState that is no string"}
	}
	next := *request
	next.Message = request.Message.WithParam("requestState", slices.Clone(state))
	var responses jsontext.Value
	if asked := m.Param("inputRequests"); asked != nil {
		var err error
		if responses, err = x.ask(asked, nil); err != nil {
			return nil, err
		}
	} else if state == nil {
		return nil, &mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server asks for something, and does not say for what"}
	}
	next.Message = next.Message.WithParam("inputResponses", responses)
	return &next, nil
}

// ask asks a legacy client for what a server wants to know, and returns its answers
// by the keys of the questions. Those that are known are not asked again.
func (x *exchange) ask(inputRequests jsontext.Value, known map[string]bool) (jsontext.Value, error) {
	questions, err := questionsOf(inputRequests)
	if err != nil {
		return nil, err
	}
	questions = slices.DeleteFunc(questions, func(q *question) bool { return known[q.key] })
	if x.out == nil || !x.out.streams {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "The server asks for something, and the client takes no streams on which it could be asked")
	}
	for _, q := range questions {
		if err := mayAsk(x.session.capabilities(), q); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(x.ctx(), inputTime, mcp.Errorf(mcp.CodeTimeout, "The client was asked for something and has not answered"))
	defer cancel()
	gone := context.AfterFunc(x.r.Context(), cancel) // nobody is there who could take the result
	defer gone()
	for _, q := range questions {
		if err := x.put(ctx, q); err != nil {
			return nil, err
		}
		defer x.h.sessions.forget(ctx, &x.caller, callKey(x.session.ID, q.id))
	}
	return x.collect(ctx, questions, known)
}

// questionsOf reads inputRequests, in the order in which they stand there.
func questionsOf(inputRequests jsontext.Value) ([]*question, error) {
	var byKey map[string]*question
	if err := json.Unmarshal(inputRequests, &byKey); err != nil || len(byKey) > maxAsked {
		return nil, &mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server asks for too much, or in a way that cannot be read", Err: err}
	}
	list := make([]*question, 0, len(byKey))
	for key, q := range byKey {
		if q == nil || q.Params != nil && q.Params.Kind() != '{' {
			return nil, &mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server asks in a way that cannot be read"}
		}
		q.key = key
		list = append(list, q)
	}
	slices.SortFunc(list, func(a, b *question) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	return list, nil
}

// mayAsk checks that a client can be asked for something (MRT-01).
func mayAsk(c mcp.Capabilities, q *question) error {
	var params struct {
		Mode  string         `json:"mode"`
		Tools jsontext.Value `json:"tools"`
	}
	if q.Params != nil && json.Unmarshal(q.Params, &params) != nil {
		return &mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server asks in a way that cannot be read"}
	}
	switch {
	case q.Method == mcp.MethodElicit && params.Mode == "url" && !c.ElicitURL:
		return mcp.MissingCapability(`{"elicitation":{"url":{}}}`)
	case q.Method == mcp.MethodElicit && params.Mode != "url" && !c.ElicitForm:
		return mcp.MissingCapability(`{"elicitation":{"form":{}}}`)
	case q.Method == mcp.MethodSample && params.Tools != nil && !c.SampleTools:
		return mcp.MissingCapability(`{"sampling":{"tools":{}}}`)
	case q.Method == mcp.MethodSample && !c.Sampling:
		return mcp.MissingCapability(`{"sampling":{}}`)
	case q.Method == mcp.MethodListRoots && !c.Roots:
		return mcp.MissingCapability(`{"roots":{}}`)
	case q.Method != mcp.MethodElicit && q.Method != mcp.MethodSample && q.Method != mcp.MethodListRoots:
		return &mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server asks for something that is not known"}
	}
	return nil
}

// put sends a question as a request to the client.
func (x *exchange) put(ctx context.Context, q *question) error {
	id := randomID()
	q.id = mustQuote(nil, id)
	var err error
	if q.answer, err = x.h.sessions.expect(ctx, &x.caller, callKey(x.session.ID, q.id)); err != nil {
		return err
	}
	body := append([]byte(`{"jsonrpc":"2.0","id":`), q.id...)
	body = mustQuote(append(body, `,"method":`...), q.Method)
	if q.Params != nil {
		body = append(append(body, `,"params":`...), q.Params...)
	}
	m, err := mcp.Scan(append(body, '}'), mcp.Limits{Depth: 1 << 20})
	if err != nil {
		return &mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server asks in a way that cannot be read", Err: err}
	}
	if q.Method == mcp.MethodElicit {
		switch {
		case x.version < mcp.Legacy:
			m = m.WithParam("mode", nil)
		case m.ParamString("mode") == "url": // which revision 2026-07-28 does not have any more
			m = m.WithParam("elicitationId", q.id)
		}
	}
	return x.out.event(m.Body)
}

// collect waits for the answers.
func (x *exchange) collect(ctx context.Context, questions []*question, known map[string]bool) (jsontext.Value, error) {
	out := jsontext.Value{'{'}
	for _, q := range questions {
		m, err := x.h.sessions.await(ctx, &x.caller, callKey(x.session.ID, q.id), q.answer)
		if err != nil {
			return nil, err
		}
		result := m.Text(m.Result)
		if e := m.Error(); e != nil {
			if q.Method != mcp.MethodElicit {
				return nil, &mcp.Error{Code: e.Code, Message: e.Message, Data: e.Data}
			}
			result = jsontext.Value(`{"action":"cancel"}`)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(mustQuote(out, q.key), ':'), result...)
		if known != nil {
			known[q.key] = true
		}
	}
	return append(out, '}'), nil
}

// askKept asks a legacy client what a kept call asks, hands it on, and returns the
// task as it is then. Asked are the questions that were answered already.
func (x *exchange) askKept(task *mcp.Task, asked map[string]bool) (*mcp.Task, error) {
	if len(asked) > maxRounds {
		return nil, &mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server asks again and again"}
	}
	responses, err := x.ask(task.InputRequests, asked)
	if err != nil {
		return nil, err
	}
	if len(responses) > len("{}") {
		if err := x.h.opts.Calls.Update(x.ctx(), &x.caller, task.ID, responses); err != nil {
			return nil, err
		}
	} else { // the answers were taken, and their effect is not seen yet (TSK-09)
		select {
		case <-x.ctx().Done():
			return nil, context.Cause(x.ctx())
		case <-time.After(lookForReplies):
		}
	}
	return x.h.opts.Calls.Get(x.ctx(), &x.caller, task.ID)
}
