package upstream

import (
	"bytes"
	"context"
	"crypto/rand"
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
	asked  *mcp.Message // the request of the server
	key    string       // of the question
	caller string
	method string
	about  []byte // the request without what differs between rounds
	state  string
	timer  *time.Timer
}

// holds are the held calls of a server.
type holds struct {
	t *target

	mu     sync.Mutex
	calls  map[string]*held
	closed bool
}

func newHolds(t *target) *holds { return &holds{t: t, calls: map[string]*held{}} }

// add keeps a call, under a state that nobody can guess (SEC-04).
func (h *holds) add(one *held) (*held, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.calls) >= maxHeld {
		return nil, h.t.refused("too many calls wait for their clients", nil)
	}
	one.state = heldPrefix + rand.Text()
	one.timer = time.AfterFunc(heldFor, func() { h.expire(one) })
	h.calls[one.state] = one
	return one, nil
}

// expire gives up a call that its client has left.
func (h *holds) expire(one *held) {
	h.mu.Lock()
	mine := h.calls[one.state] == one
	delete(h.calls, one.state)
	h.mu.Unlock()
	if mine {
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
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "The requestState is not known, or its time is over; make the call again without it")
	}
	if one.method != r.Message.Method || !bytes.Equal(one.about, about(r.Message)) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "The requestState is that of another call")
	}
	return one, nil
}

// remove takes a call out, and reports whether it was there.
func (h *holds) remove(one *held) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls[one.state] != one || !one.timer.Stop() {
		return false
	}
	delete(h.calls, one.state)
	return true
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

// resume goes on with a held call.
func (l *legacyServer) resume(ctx context.Context, r *Request) (Answer, error) {
	one, refusal := l.held.take(r)
	if refusal != nil {
		return single(failure(r.Message.ID, refusal))
	}
	answer, refusal := answerOf(r.Message, one)
	switch {
	case refusal != nil:
		return single(failure(r.Message.ID, refusal))
	case answer == nil: // it is asked again (MRT-06)
		return single(l.inputRequired(r.Message.ID, one))
	case !l.held.remove(one):
		return single(failure(r.Message.ID, mcp.Errorf(mcp.CodeInvalidParams, "The requestState was used already")))
	}
	c := one.call
	a := l.round(ctx, c, r)
	c.setToken(r.Message.MetaValue(mcp.MetaProgress))
	if err := c.s.link.tell(c.life, mcp.AppendResult(nil, one.asked.ID, answer)); err != nil {
		err = l.why(ctx, c.life, err)
		a.Close()
		return nil, err
	}
	return a, nil
}

// answerOf returns what the client says to the question; nil: nothing.
func answerOf(m *mcp.Message, one *held) (jsontext.Value, *mcp.Error) {
	all := m.Param("inputResponses")
	if all == nil {
		return nil, nil
	}
	var answers map[string]jsontext.Value
	if err := json.Unmarshal(all, &answers); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "The inputResponses are not an object")
	}
	answer := answers[one.key]
	if answer != nil && answer.Kind() != '{' {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "The answer %q in inputResponses is not an object", one.key)
	}
	return answer, nil
}

var errNoSession = errors.New("the session of the server is over")
