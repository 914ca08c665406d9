//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// caller speaks JSON-RPC with the agents, and no more than that: it knows
// nothing of what the client library does for its users. It goes round all
// nodes, one request after the other, as a balancer without stickiness does.
type caller struct {
	http      *http.Client
	addresses []string
	next      atomic.Uint32
	// patience is how long it waits for an answer or the next event; 0: for ever.
	patience time.Duration
}

func newCaller(s *site) *caller {
	connect := 20 * time.Second
	if s.patience > 0 {
		connect = s.patience / 2
	}
	return &caller{addresses: s.addresses(), patience: s.patience, http: &http.Client{Transport: &http.Transport{
		DialContext:     (&net.Dialer{Timeout: connect}).DialContext,
		MaxIdleConns:    4,
		IdleConnTimeout: 5 * time.Second,
	}}}
}

// after returns a caller that shares the connections of this one, and whose next
// request goes to the node after that of this one's next request.
func (c *caller) after() *caller {
	other := &caller{http: c.http, addresses: c.addresses, patience: c.patience}
	other.next.Store(c.next.Load() + 1)
	return other
}

// only returns a caller that speaks with one node alone.
func (c *caller) only(address string) *caller {
	return &caller{http: c.http, addresses: []string{address}, patience: c.patience}
}

// patient returns a context that ends when nothing has been heard for too long.
// heard tells it that something was.
func (c *caller) patient(ctx context.Context) (patient context.Context, heard func(), done func()) {
	patient, cancel := context.WithCancelCause(ctx)
	if c.patience == 0 {
		return patient, func() {}, func() { cancel(nil) }
	}
	timer := time.AfterFunc(c.patience, func() { cancel(errSilent) })
	return patient, func() { timer.Reset(c.patience) }, func() { timer.Stop(); cancel(nil) }
}

// gone makes the error of a connection that failed.
func gone(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return fmt.Errorf("%w: %w", errGone, errSilent)
	}
	return fmt.Errorf("%w: %w", errGone, err)
}

var (
	// errGone says that the connection failed before there was an answer.
	errGone = errors.New("the connection is gone")
	// errDrained says that the server has asked to reconnect.
	errDrained = errors.New("the server is stopping")
	// errSilent says that the client did not wait any longer; it is an errGone.
	errSilent = errors.New("nothing was heard for too long")
)

// request posts a call. The caller closes the body of the answer.
func (c *caller) request(ctx context.Context, agent, method string, params jsontext.Value, lastEventID int64) (*http.Response, error) {
	body := append([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`), params...)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.addresses[int(c.next.Add(1)-1)%len(c.addresses)]+"/agents/"+agent+"/rpc", bytes.NewReader(append(body, '}')))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set(a2a.HeaderVersion, "1.0")
	if lastEventID > 0 {
		q.Header.Set("Last-Event-ID", strconv.FormatInt(lastEventID, 10))
	}
	answer, err := c.http.Do(q)
	if err != nil {
		return nil, gone(ctx, err)
	}
	return answer, nil
}

// call returns the result of a call. Its error is errGone or an *a2a.Error.
func (c *caller) call(ctx context.Context, agent, method string, params jsontext.Value) (jsontext.Value, error) {
	ctx, _, done := c.patient(ctx)
	defer done()
	answer, err := c.request(ctx, agent, method, params, 0)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, gone(ctx, err)
	}
	result, err := resultOf(body)
	return result, refusal(answer, err)
}

// refusal is the error of an answer. One that says to try again has to say when.
func refusal(answer *http.Response, err error) error {
	if err != nil && a2a.CodeOf(err) == a2a.CodeUnavailable && answer.Header.Get("Retry-After") == "" {
		return a2a.Errorf(a2a.CodeInternal, "a refusal that does not say when to try again: %v", err)
	}
	return err
}

// resultOf opens the envelope of an answer.
func resultOf(body []byte) (jsontext.Value, error) {
	var envelope struct {
		Result jsontext.Value `json:"result"`
		Error  jsontext.Value `json:"error"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return nil, a2a.Errorf(a2a.CodeInternal, "an answer that is no JSON: %q", body)
	}
	if envelope.Error != nil {
		return nil, a2a.ParseJSONRPCError(envelope.Error)
	}
	return envelope.Result, nil
}

// stream follows the events of a call until it ends. It returns nil when the
// stream ended, errDrained when the server wants the client to reconnect,
// errGone when the connection broke, or an *a2a.Error.
// handle gets the id and the body of each event.
func (c *caller) stream(ctx context.Context, agent, method string, params jsontext.Value, lastEventID int64, handle func(seq int64, body jsontext.Value)) error {
	ctx, heard, done := c.patient(ctx)
	defer done()
	answer, err := c.request(ctx, agent, method, params, lastEventID)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.Header.Get("Content-Type") != "text/event-stream" {
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return gone(ctx, err)
		}
		if _, err = resultOf(body); err == nil {
			err = a2a.Errorf(a2a.CodeInternal, "a stream was answered with %s", body)
		}
		return refusal(answer, err)
	}
	lines := bufio.NewReaderSize(answer.Body, 32<<10)
	var seq int64
	var ended error
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return ended
		}
		if err != nil {
			return gone(ctx, err)
		}
		heard()
		line = bytes.TrimSuffix(line, []byte("\n"))
		if bytes.HasPrefix(line, []byte("retry:")) {
			ended = errDrained
		}
		if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			if seq, err = strconv.ParseInt(string(id), 10, 64); err != nil {
				return a2a.Errorf(a2a.CodeInternal, "an event has the id %q", id)
			}
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			result, err := resultOf(data)
			if err != nil {
				return err
			}
			handle(seq, result)
			seq = 0
		}
	}
}

// message makes the params of a send.
func message(id, text, task string, immediately bool) jsontext.Value {
	q := a2a.SendMessageRequest{
		Message:       &a2a.Message{MessageID: id, Role: a2a.RoleUser, TaskID: task, Parts: []a2a.Part{a2a.Text(text)}},
		Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: immediately},
	}
	return q.AppendJSON(nil)
}

func taskID(id string) jsontext.Value { return jsontext.Value(`{"id":"` + id + `"}`) }
