package bridge

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// docSpace is where answers are kept until all that a call asks for are there.
const docSpace = "mcp.answers"

// updateCall gives a kept call answers. Until all are there, the task goes on
// asking for the others (TSK-09).
func (c *Calls) updateCall(ctx context.Context, p *auth.Principal, r *engine.Record, answers []member) error {
	answers = slices.DeleteFunc(answers, func(m member) bool { return m.value.Kind() != '{' })
	switch state := r.Task.Status.State; {
	case state == a2a.StateInputRequired:
	case state.Terminal():
		return nil
	default:
		return c.updateRunning(ctx, p, r, answers)
	}
	asked, _ := membersOf(inputsOf(r))
	for {
		kept, given, err := c.partial(ctx, r)
		if err != nil {
			return errorOf(engine.Unavailable(err))
		}
		before := len(given)
		for _, a := range answers {
			if isIn(asked, a.name) && !isIn(given, a.name) {
				given = append(given, a)
			}
		}
		switch {
		case len(given) == before:
			return nil
		case len(given) == len(asked):
			return c.reply(ctx, p, r, answersMessage(r, given))
		}
		kept.Body = object(given)
		kept.Expires = time.Now().Add(c.ttl())
		if err := c.opts.Store.PutDoc(ctx, kept); !errors.Is(err, store.ErrConflict) {
			return errorOf(engine.Unavailable(err))
		}
	}
}

// updateRunning gives answers to a call that is at work, and may ask for the rest
// of what it has asked.
func (c *Calls) updateRunning(ctx context.Context, p *auth.Principal, r *engine.Record, answers []member) error {
	state, err := c.opts.Store.Private(ctx, r.Row.Key)
	if err != nil {
		return errorOf(engine.Unavailable(err))
	}
	s, err := decodeState(state)
	if err != nil {
		return err
	}
	open := s.open()
	answers = slices.DeleteFunc(answers, func(m member) bool {
		return !slices.ContainsFunc(open, func(i input) bool { return i.Key == m.name })
	})
	if len(answers) == 0 {
		return nil
	}
	return c.reply(ctx, p, r, answersMessage(r, answers))
}

// inputsOf are the requests that the task of a kept call asks to be answered.
func inputsOf(r *engine.Record) jsontext.Value {
	if r.Task.Status.Message == nil {
		return nil
	}
	return valueOf(jsontext.Value(r.Task.Status.Message.Metadata), metaInputs)
}

// partial returns the answers that are there of what a call asks now, and the
// document that keeps them.
func (c *Calls) partial(ctx context.Context, r *engine.Record) (*store.Doc, []member, error) {
	d := &store.Doc{Space: docSpace, Key: r.Row.ID + "/" + keyOf(r.Task), Tenant: r.Row.Tenant, Owner: r.Row.Owner}
	kept, err := c.opts.Store.Doc(ctx, c.opts.Scope, d.Space, d.Key) // of a task that its caller has reached
	if errors.Is(err, store.ErrNotFound) {
		return d, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	given, _ := membersOf(jsontext.Value(kept.Body))
	return kept, given, nil
}

// unanswered returns the requests that are not answered yet.
func (c *Calls) unanswered(ctx context.Context, r *engine.Record, requests jsontext.Value) jsontext.Value {
	_, given, err := c.partial(ctx, r)
	if err != nil || len(given) == 0 {
		return requests // one that is answered again is ignored
	}
	asked, _ := membersOf(requests)
	return object(slices.DeleteFunc(asked, func(m member) bool { return isIn(given, m.name) }))
}

func isIn(list []member, name string) bool {
	return slices.ContainsFunc(list, func(m member) bool { return m.name == name })
}

// answerMessage is the message that an answer to a task is.
func answerMessage(r *engine.Record) *a2a.Message {
	return &a2a.Message{MessageID: newMessageID(), TaskID: r.Row.ID, Role: a2a.RoleUser}
}

// answersMessage is the message with answers by their keys.
func answersMessage(r *engine.Record, answers []member) *a2a.Message {
	message := answerMessage(r)
	part := a2a.Data(a2a.JSON(object(answers)))
	part.MediaType = "application/json"
	message.Parts = []a2a.Part{part}
	message.Metadata = a2a.JSON(object([]member{{metaResponses, jsontext.Value("true")}}))
	return message
}
