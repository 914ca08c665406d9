package llm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// modelServer speaks the API of chat completions by a script.
type modelServer struct {
	*httptest.Server
	script func(*modelRequest) reply

	mu       sync.Mutex
	requests []*modelRequest
}

// modelRequest is what the model was asked.
type modelRequest struct {
	N             int // from 1
	Model         string
	Stream        bool
	Messages      []modelMessage
	Tools         []modelTool
	Authorization string
	Body          map[string]json.RawMessage
}

type modelMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

type modelTool struct {
	Function struct {
		Name        string
		Description string
		Parameters  json.RawMessage
	}
}

// text is the content of a message.
func (m *modelMessage) text() string {
	var s string
	_ = json.Unmarshal(m.Content, &s)
	return s
}

// last is the newest message.
func (r *modelRequest) last() *modelMessage { return &r.Messages[len(r.Messages)-1] }

// results are the texts of what calls have returned.
func (r *modelRequest) results() []string {
	var list []string
	for i := range r.Messages {
		if r.Messages[i].Role == "tool" {
			list = append(list, r.Messages[i].text())
		}
	}
	return list
}

// call is a call that the model asks for.
type call struct{ id, name, arguments string }

// reply is an answer of the model.
type reply struct {
	text      string
	refusal   string
	calls     []call
	finish    string // "": what fits
	noUsage   bool
	noFinish  bool // the stream ends well without a reason
	cut       int  // the connection ends after so many events; 0: it does not
	status    int
	header    map[string]string
	body      string
	held      chan struct{} // the answer waits until it is closed, after its first event
	began     chan struct{} // closed when the first event is sent
	pings     bool          // comments keep the stream open, and nothing else comes
	empties   bool          // events without anything do
	streamErr string        // an error in the stream, after the text
}

func newModel(t testing.TB, script func(*modelRequest) reply) *modelServer {
	m := &modelServer{script: script}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// asked returns the requests so far.
func (m *modelServer) asked() []*modelRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]*modelRequest(nil), m.requests...)
}

func (m *modelServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &modelRequest{Authorization: r.Header.Get("Authorization")}
	if r.URL.Path != "/v1/chat/completions" || r.Method != http.MethodPost {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&q.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for name, to := range map[string]any{"model": &q.Model, "stream": &q.Stream, "messages": &q.Messages, "tools": &q.Tools} {
		if v := q.Body[name]; v != nil {
			if err := json.Unmarshal(v, to); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
	}
	if wrong := q.check(); wrong != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error","param":null,"code":null}}`, wrong)
		return
	}
	m.mu.Lock()
	m.requests = append(m.requests, q)
	q.N = len(m.requests)
	m.mu.Unlock()
	m.write(w, r, q, m.script(q))
}

// check refuses what the API refuses: a call without a result, or a result without a
// call.
func (q *modelRequest) check() string {
	open := map[string]bool{}
	for i := range q.Messages {
		m := &q.Messages[i]
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			return "an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || open[c.ID] || !json.Valid([]byte(c.Function.Arguments)) {
				return "a tool call is invalid"
			}
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return "a tool call has no result"
	}
	names := map[string]bool{}
	for _, t := range q.Tools {
		if n := t.Function.Name; n == "" || len(n) > 64 || names[n] || strings.Trim(n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return "invalid function name " + n
		}
		names[t.Function.Name] = true
	}
	return ""
}

func (m *modelServer) write(w http.ResponseWriter, r *http.Request, q *modelRequest, a reply) {
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		if a.body == "" {
			a.body = `{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":null}}`
		}
		fmt.Fprint(w, a.body)
		return
	}
	if a.finish == "" {
		a.finish = "stop"
		if len(a.calls) > 0 {
			a.finish = "tool_calls"
		}
	}
	if !q.Stream {
		m.whole(w, q, a)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for tick := time.NewTicker(5 * time.Millisecond); a.pings || a.empties; {
		if a.empties {
			fmt.Fprintf(w, "data: %s\n\n", `{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":null},"finish_reason":null}],"usage":null}`)
		} else {
			fmt.Fprint(w, ": ping\n\n")
		}
		w.(http.Flusher).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			tick.Stop()
			return
		}
	}
	events := 0
	send := func(data string) bool {
		fmt.Fprintf(w, "data: %s\n\n", data)
		w.(http.Flusher).Flush()
		if events++; events == 1 {
			if a.began != nil {
				close(a.began)
			}
			if a.held != nil {
				select {
				case <-a.held:
				case <-r.Context().Done():
				}
			}
		}
		return a.cut == 0 || events < a.cut
	}
	chunk := func(delta, finish string) bool {
		if finish != "null" {
			finish = quote(finish)
		}
		return send(`{"id":"c-1","object":"chat.completion.chunk","created":1,"model":` + quote(q.Model) + `,"choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}],"usage":null}`)
	}
	var deltas []string
	deltas = append(deltas, `{"role":"assistant","content":"","refusal":null}`)
	for _, piece := range strings.SplitAfter(a.text, " ") {
		if piece != "" {
			deltas = append(deltas, `{"content":`+quote(piece)+`}`)
		}
	}
	if a.refusal != "" {
		deltas = append(deltas, `{"refusal":`+quote(a.refusal)+`}`)
	}
	for i, c := range a.calls {
		id := ""
		if c.id != "" {
			id = `"id":` + quote(c.id) + `,`
		}
		deltas = append(deltas, fmt.Sprintf(`{"tool_calls":[{"index":%d,%s"type":"function","function":{"name":%s,"arguments":""}}]}`, i, id, quote(c.name)))
		half := len(c.arguments) / 2
		for _, piece := range []string{c.arguments[:half], c.arguments[half:]} {
			deltas = append(deltas, fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(piece)))
		}
	}
	for _, d := range deltas {
		if !chunk(d, "null") {
			panic(http.ErrAbortHandler)
		}
	}
	if a.streamErr != "" {
		send(`{"error":{"message":` + quote(a.streamErr) + `,"type":"server_error"}}`)
		return
	}
	if a.noFinish {
		return
	}
	if !chunk(`{}`, a.finish) {
		panic(http.ErrAbortHandler)
	}
	if !a.noUsage {
		send(`{"id":"c-1","object":"chat.completion.chunk","created":1,"model":` + quote(q.Model) + `,"choices":[],"usage":` + q.usage(a) + `}`)
	}
	send("[DONE]")
}

// usage is 100 tokens for the conversation and 10 for the answer.
func (q *modelRequest) usage(reply) string {
	return `{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110,"prompt_tokens_details":{"cached_tokens":40}}`
}

func (m *modelServer) whole(w http.ResponseWriter, q *modelRequest, a reply) {
	w.Header().Set("Content-Type", "application/json")
	var calls []string
	for _, c := range a.calls {
		calls = append(calls, `{"id":`+quote(c.id)+`,"type":"function","function":{"name":`+quote(c.name)+`,"arguments":`+quote(c.arguments)+`}}`)
	}
	more := ""
	if len(calls) > 0 {
		more = `,"tool_calls":[` + strings.Join(calls, ",") + `]`
	}
	fmt.Fprintf(w, `{"id":"c-1","object":"chat.completion","created":1,"model":%s,"choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null%s},"finish_reason":%s}],"usage":%s}`,
		quote(q.Model), quote(a.text), more, quote(a.finish), q.usage(a))
}

func quote(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}
