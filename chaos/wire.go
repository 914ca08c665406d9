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
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// caller speaks JSON-RPC with the agents of the server, and no more than that:
// it knows nothing of what the client library does for its users.
type caller struct {
	http    *http.Client
	address string
}

func newCaller(address string) *caller {
	return &caller{address: address, http: &http.Client{Transport: &http.Transport{
		DialContext:     (&net.Dialer{Timeout: 20 * time.Second}).DialContext,
		MaxIdleConns:    4,
		IdleConnTimeout: 5 * time.Second,
	}}}
}

var (
	// errGone says that the connection failed before there was an answer.
	errGone = errors.New("the connection is gone")
	// errDrained says that the server has asked to reconnect.
	errDrained = errors.New("the server is stopping")
)

// request posts a call. The caller closes the body of the answer.
func (c *caller) request(ctx context.Context, agent, method string, params jsontext.Value, lastEventID int64) (*http.Response, error) {
	body := append([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`), params...)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/agents/"+agent+"/rpc", bytes.NewReader(append(body, '}')))
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
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	return answer, nil
}

// call returns the result of a call. Its error is errGone or an *a2a.Error.
func (c *caller) call(ctx context.Context, agent, method string, params jsontext.Value) (jsontext.Value, error) {
	answer, err := c.request(ctx, agent, method, params, 0)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	return resultOf(body)
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
	answer, err := c.request(ctx, agent, method, params, lastEventID)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.Header.Get("Content-Type") != "text/event-stream" {
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return fmt.Errorf("%w: %w", errGone, err)
		}
		if _, err = resultOf(body); err == nil {
			err = a2a.Errorf(a2a.CodeInternal, "a stream was answered with %s", body)
		}
		return err
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
			return fmt.Errorf("%w: %w", errGone, err)
		}
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
