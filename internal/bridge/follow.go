package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// goOn goes on following the task of a server, with the answers that have come in.
func (w *work) goOn() error {
	w.read()
	if err := w.update(); err != nil {
		return err
	}
	return w.follow(0)
}

// update hands answers on to the server. One that is there twice is ignored by it
// (TSK-09).
func (w *work) update() error {
	responses := w.state.responses()
	if string(responses) == "{}" {
		return nil
	}
	for failures := 1; ; failures++ {
		answer, err := w.aboutTask(mcp.MethodUpdateTask, member{"inputResponses", responses})
		if err == nil && answer.Text(answer.Err) != nil {
			return w.gone(answer)
		}
		if err == nil {
			break
		}
		if w.over() || !pause(w.ctx, backoff(failures)) {
			return w.lost(err)
		}
	}
	for i := range w.state.Inputs {
		in := &w.state.Inputs[i]
		in.Sent = in.Sent || in.Answer != nil
	}
	return w.save()
}

// aboutTask sends a request about the task of the server.
func (w *work) aboutTask(method string, with ...member) (*mcp.Message, error) {
	m, err := w.call.aboutTask(method, w.state.Task, with...)
	if err != nil {
		return nil, err
	}
	return w.once(w.ctx, m)
}

// aboutTask is a request about a task of the server, as the client of the call.
func (k *keptCall) aboutTask(method, task string, with ...member) (*mcp.Message, error) {
	m, err := mcp.Scan(k.Body, mcp.Limits{})
	if err != nil {
		return nil, err
	}
	c := m.Capabilities()
	c.Tasks = true
	meta := mcp.Meta{Version: mcp.Modern, Client: m.MetaValue(mcp.MetaClient), Capabilities: jsontext.Value(c.AppendJSON(nil))}
	return mcp.NewRequest(jsontext.Value("1"), method, object(append([]member{{"taskId", quoted(task)}}, with...)), meta), nil
}

// follow looks at the task of the server until it is over or asks (TSK-15). Long
// ones are looked at in turns of their own.
func (w *work) follow(poll time.Duration) error {
	begun, failures := time.Now(), 0
	for first := true; ; first = false {
		if poll == 0 {
			poll = w.calls.poll()
		}
		if !first {
			wait := poll
			if failures > 0 {
				wait = max(poll, backoff(failures))
			}
			if long := time.Since(begun) > followTurn; long || wait >= parkPoll {
				if long {
					wait = max(wait, parkPoll)
				}
				return w.turn.Wait(wait)
			}
			if !pause(w.ctx, wait) {
				return context.Cause(w.ctx)
			}
		}
		answer, err := w.aboutTask(mcp.MethodGetTask)
		switch {
		case w.ctx.Err() != nil:
			return context.Cause(w.ctx)
		case err != nil && (w.over() || !transient(err)):
			return w.lost(err)
		case err != nil:
			failures++
			w.say("The server is not available; it is asked again")
			continue
		}
		failures = 0
		if p := pollOf(answer); p > 0 {
			poll = p
		}
		if done, err := w.look(answer); done || err != nil {
			return err
		}
	}
}

// look does what a server says of its task, and reports whether the turn is over.
func (w *work) look(m *mcp.Message) (done bool, err error) {
	if m.Text(m.Err) != nil {
		return true, w.gone(m)
	}
	switch status := m.ParamString("status"); status {
	case mcp.TaskCompleted:
		result := m.Param("result")
		if result.Kind() != '{' {
			return true, w.fail(mcp.Errorf(mcp.CodeBadAnswer, "The server's task is completed, and has no result"))
		}
		return true, w.complete(result)
	case mcp.TaskFailed:
		if e := m.Param("error"); e.Kind() == '{' {
			return true, w.failWith(e)
		}
		return true, w.fail(mcp.Errorf(mcp.CodeInternal, "The server's task has failed"))
	case mcp.TaskCancelled:
		text := m.ParamString("statusMessage")
		if text == "" {
			text = "The server has canceled its task"
		}
		return true, w.rim.canceled(w, short(text, maxShown))
	case mcp.TaskInputRequired:
		requests, _ := membersOf(m.Param("inputRequests"))
		if w.state.asking(requests) || len(w.state.open()) > 0 {
			return true, w.ask()
		}
		return false, nil // the server does not have the answers yet
	case mcp.TaskWorking:
		if text := m.ParamString("statusMessage"); text != "" && text != w.heard {
			w.heard = text
			w.say(text)
		}
		return false, nil
	default:
		return true, w.fail(mcp.Errorf(mcp.CodeBadAnswer, "The server's task is in a state that is not understood"))
	}
}

// gone ends the task of a call whose task at the server cannot be asked for any
// more. What has become of it nobody knows.
func (w *work) gone(m *mcp.Message) error {
	e := m.Error()
	return w.fail(mcp.Errorf(mcp.CodeOutcomeUnknown, "The server does not know its task any more: %s", short(e.Message, maxShown)))
}

// lost ends the task of a call whose server is away for too long.
func (w *work) lost(err error) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return w.fail(mcp.Errorf(mcp.CodeOutcomeUnknown, "The server has a task for the call and does not answer: %s", short(mcp.AsError(err).Message, maxShown)))
}

// over reports whether a task of a server has been followed for long enough.
func (w *work) over() bool {
	ttl := w.call.ttl()
	if ttl == 0 {
		ttl = w.calls.ttl()
	}
	return !w.state.Since.IsZero() && time.Since(w.state.Since) > ttl
}

// transient reports whether asking again may help: about a task that is the same
// as asking once.
func transient(err error) bool {
	return errors.Is(err, upstream.ErrUnavailable) || errors.Is(err, upstream.ErrOutcomeUnknown)
}
