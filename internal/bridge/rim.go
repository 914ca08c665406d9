package bridge

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/mcp"
)

// callRim shows a call as what it is, to a client of MCP: the result and the error
// byte by byte, and what is asked with the keys to answer it by.
type callRim struct{}

// complete keeps the result as the server has sent it.
func (callRim) complete(w *work, result jsontext.Value) error {
	part := a2a.Data(a2a.JSON(result))
	part.MediaType = "application/json"
	if err := w.turn.Emit(agent.Step{Artifact: &agent.Artifact{ID: resultID, Name: w.call.Tool, Parts: []a2a.Part{part}, Last: true}}); err != nil {
		if w.ctx.Err() == nil && !errors.Is(err, agent.ErrEnded) {
			return w.fail(mcp.Errorf(mcp.CodeBadAnswer, "The result of the server cannot be kept: %v", err))
		}
		return err
	}
	return w.turn.Complete()
}

func (callRim) fail(w *work, e jsontext.Value, text string) error {
	return w.turn.Emit(agent.Step{Fail: &agent.Content{
		Parts: []a2a.Part{a2a.Text(text)}, Metadata: a2a.JSON(object([]member{{metaError, e}})),
	}})
}

func (callRim) canceled(w *work, text string) error { return canceledTask(w, text) }

// canceledTask ends a task whose call the server has canceled.
func canceledTask(w *work, text string) error {
	return w.turn.Emit(agent.Step{Fail: &agent.Content{
		Parts: []a2a.Part{a2a.Text(text)}, Metadata: a2a.JSON(object([]member{{metaCancelled, jsontext.Value("true")}})),
	}})
}

// ask asks for all that is open. People see the same in the inbox.
func (callRim) ask(w *work, open []input) error {
	requests := make([]member, len(open))
	for i, in := range open {
		requests[i] = member{in.Key, in.Request}
	}
	return w.turn.Emit(agent.Step{Ask: &agent.Ask{
		Content: agent.Content{
			Parts:    []a2a.Part{a2a.Text(questionOf(open))},
			Metadata: a2a.JSON(object([]member{{metaInputs, object(requests)}})),
		},
		Schema: schemaOf(open),
	}})
}
