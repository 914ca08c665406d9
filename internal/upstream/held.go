package upstream

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

const (
	// heldFor is how long a call waits for the answer of its client.
	heldFor = 15 * time.Minute
	// maxHeld bounds the calls of one server that wait.
	maxHeld = 1000
	// heldPrefix marks the states that name held calls.
	heldPrefix = "held."
)

// held is a call in the middle of which its client is asked something.
type held struct {
	call   *legacyCall
	asked  []question // not answered yet; under the lock of holds
	caller string
	method string
	about  []byte // the request without what differs between rounds
	state  string
	timer  *time.Timer
}

// question is a request of the server that its client has to answer.
type question struct {
	key     string
	request *mcp.Message
}

// holds are the held calls of a server.
type holds struct {
	t     *target
	relay *relay

	mu     sync.Mutex
	calls  map[string]*held
	closed bool
}

func newHolds(t *target, r *relay) *holds {
	return &holds{t: t, relay: r, calls: map[string]*held{}}
}

// add keeps a call, under a state that nobody can guess (SEC-04).
func (h *holds) add(one *held) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.calls) >= maxHeld {
		return h.t.refused("too many calls wait for their clients", nil)
	}
	one.timer = time.AfterFunc(heldFor, func() { h.expire(one) })
	h.calls[one.state] = one
	return nil
}

// expire gives up a call that its client has left.
func (h *holds) expire(one *held) {
	h.mu.Lock()
	mine := h.calls[one.state] == one
	delete(h.calls, one.state)
	h.mu.Unlock()
	if mine {
		h.relay.drop(one.state)
		one.call.leave(false)
	}
}

// close gives up all.
func (h *holds) close() {
	h.mu.Lock()
	h.closed = true
	all := h.calls
	h.calls = map[string]*held{}
	h.mu.Unlock()
	for _, one := range all {
		one.timer.Stop()
		h.relay.drop(one.state)
		one.call.leave(false)
	}
}

// take returns the call that a state names, if it is that of the request; otherwise
// the error for the client.
func (h *holds) take(r *Request) (*held, *mcp.Error) {
	state := r.Message.ParamString("requestState")
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.calls[state]
	// Whose it is not sees no difference to one that is not there.
	if one == nil || one.caller != callerKey(r.Caller) {
		return nil, notHeld()
	}
	if one.method != r.Message.Method || !bytes.Equal(one.about, about(r.Message)) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "The requestState is that of another call")
	}
	return one, nil
}

func notHeld() *mcp.Error {
	return mcp.Errorf(mcp.CodeInvalidParams, "The requestState is not known, or its time is over; make the call again without it")
}

// about returns what makes a request this one: what it calls, and with which
// arguments.
func about(m *mcp.Message) []byte {
	args := clone(m.Text(m.Args))
	if err := args.Canonicalize(jsontext.AllowDuplicateNames(true)); err != nil {
		args = clone(m.Text(m.Args))
	}
	return append([]byte(m.NameValue()+"\x00"), args...)
}

// resume goes on with a held call. What is not answered is asked again (MRT-06).
func (l *legacyServer) resume(ctx context.Context, r *Request) (Answer, error) {
	if holder, ok := l.held.relay.elsewhere(r.Message.ParamString("requestState")); ok {
		return l.held.relay.send(ctx, l.target, holder, r)
	}
	one, refusal := l.held.take(r)
	if refusal != nil {
		return single(failure(r.Message.ID, refusal))
	}
	answers, refusal := answersOf(r.Message)
	if refusal != nil {
		return single(failure(r.Message.ID, refusal))
	}
	told, left, refusal := l.held.answer(one, answers)
	if refusal != nil {
		return single(failure(r.Message.ID, refusal))
	}
	c := one.call
	var a *legacyAnswer
	if len(left) == 0 {
		a = l.round(ctx, c, r)
		c.setToken(r.Message.MetaValue(mcp.MetaProgress))
	}
	for _, body := range told {
		if err := c.s.link.tell(c.life, body); err != nil {
			err = l.why(ctx, c.life, err)
			if a != nil {
				a.Close()
			}
			return nil, err
		}
	}
	if a == nil {
		return single(l.inputRequired(r.Message.ID, one.state, left))
	}
	return a, nil
}

// answer takes the answers to the questions of a held call. It returns what the
// server has to be told, and what has not been answered; where that is nothing, the
// call is held no more.
func (h *holds) answer(one *held, answers map[string]jsontext.Value) (told [][]byte, left []question, refusal *mcp.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls[one.state] != one {
		return nil, nil, mcp.Errorf(mcp.CodeInvalidParams, "The requestState was used already")
	}
	for _, q := range one.asked {
		if answer := answers[q.key]; answer != nil && answer.Kind() != '{' {
			return nil, nil, mcp.Errorf(mcp.CodeInvalidParams, "The answer %q in inputResponses is not an object", q.key)
		}
	}
	for _, q := range one.asked {
		if answer := answers[q.key]; answer != nil {
			told = append(told, mcp.AppendResult(nil, q.request.ID, answer))
		} else {
			left = append(left, q)
		}
	}
	one.asked = left
	if len(left) == 0 {
		one.timer.Stop()
		delete(h.calls, one.state)
		h.relay.drop(one.state)
	}
	return told, left, nil
}

// answersOf returns what the client says to questions.
func answersOf(m *mcp.Message) (map[string]jsontext.Value, *mcp.Error) {
	var answers map[string]jsontext.Value
	if all := m.Param("inputResponses"); all != nil {
		if err := json.Unmarshal(all, &answers); err != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "The inputResponses are not an object")
		}
	}
	return answers, nil
}

var errNoSession = errors.New("the session of the server is over")
