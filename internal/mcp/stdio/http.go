package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/sse"
)

const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "MCP-Protocol-Version"
	maxTools      = 1000 // that are remembered
)

// send posts a message, and writes what comes back.
func (s *session) send(ctx context.Context, m *message, body []byte) {
	response, err := s.post(ctx, m, body)
	if err != nil {
		if ctx.Err() == nil && len(m.ID) > 0 {
			s.refuse(m.ID, mcp.CodeInternal, "The node does not answer: "+err.Error())
		}
		if ctx.Err() == nil && s.endpoint.Gone != nil && s.endpoint.Gone(err) {
			select {
			case s.gone <- err:
			default:
			}
		}
		return
	}
	defer response.Body.Close()
	if m.Method == "initialize" {
		s.begin(response)
	}
	if response.StatusCode == http.StatusBadRequest && m.Method == mcp.MethodCallTool && m.Params.Meta.Version != "" {
		s.mismatched(ctx, m, body, response)
		return
	}
	s.answered(ctx, m, response)
}

// answered writes what a response has.
func (s *session) answered(ctx context.Context, m *message, response *http.Response) {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case response.StatusCode == http.StatusAccepted || response.StatusCode == http.StatusNoContent:
	case kind == "text/event-stream" && response.StatusCode == http.StatusOK:
		s.events(ctx, m, response.Body)
	default:
		s.document(ctx, m, response)
	}
}

// mismatched takes the refusal of a call. A host on standard input sends no headers,
// so that those of the arguments are made here: once the endpoint has asked for them,
// and from then on (XMH-05, XMH-07).
func (s *session) mismatched(ctx context.Context, m *message, body []byte, refusal *http.Response) {
	var e struct {
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	answer, err := io.ReadAll(io.LimitReader(refusal.Body, maxRefusal))
	refusal.Body = io.NopCloser(bytes.NewReader(answer))
	if err != nil || json.Unmarshal(answer, &e, jsontext.AllowDuplicateNames(true)) != nil || e.Error.Code != mcp.CodeHeaderMismatch || !s.learn(ctx, m) {
		s.document(ctx, m, refusal)
		return
	}
	response, err := s.post(ctx, m, body)
	if err != nil {
		s.document(ctx, m, refusal)
		return
	}
	defer response.Body.Close()
	s.answered(ctx, m, response)
}

// learn asks which arguments of the tool go into headers. It reports whether there
// is anything that the call has not had.
func (s *session) learn(ctx context.Context, m *message) bool {
	if s.endpoint.Params == nil {
		return false
	}
	params, err := s.endpoint.Params(ctx, m.Params.Name)
	if err != nil || len(params) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.params == nil || len(s.params) >= maxTools {
		s.params = map[string][]mcp.Param{}
	}
	s.params[m.Params.Name] = params
	return true
}

func (s *session) post(ctx context.Context, m *message, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	s.head(r)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if version := m.Params.Meta.Version; version != "" { // TRN-14, TRN-19, TRN-20
		r.Header.Set(headerVersion, version)
		r.Header.Del(headerSession)
		if m.Method != "" {
			r.Header.Set("Mcp-Method", m.Method)
		}
		if name := m.named(); name != "" {
			r.Header.Set("Mcp-Name", mcp.EscapeHeader(name))
		}
		if m.Method == mcp.MethodCallTool {
			s.mu.Lock()
			params := s.params[m.Params.Name]
			s.mu.Unlock()
			mcp.SetParamHeaders(params, m.Params.Arguments, r.Header)
		}
	}
	return s.endpoint.Client.Do(r)
}

// head gives a request what all of this session have.
func (s *session) head(r *http.Request) {
	for name, values := range s.endpoint.Header {
		r.Header[name] = values
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != "" {
		r.Header.Set(headerSession, s.id)
	}
	if s.version != "" {
		r.Header.Set(headerVersion, s.version)
	}
}

// begin remembers the session that a legacy client has opened.
func (s *session) begin(response *http.Response) {
	if response.StatusCode != http.StatusOK {
		return
	}
	s.mu.Lock()
	s.id, s.version = response.Header.Get(headerSession), ""
	s.mu.Unlock()
}

// initialized takes the revision that was agreed on, and begins to listen to what
// belongs to no request (LEG-03).
func (s *session) initialized(answer []byte) {
	var a struct {
		Result struct {
			Version string `json:"protocolVersion"`
		} `json:"result"`
	}
	if json.Unmarshal(answer, &a, jsontext.AllowDuplicateNames(true)) != nil || a.Result.Version == "" {
		return
	}
	s.mu.Lock()
	s.version = a.Result.Version
	id := s.id
	s.mu.Unlock()
	if id != "" {
		s.listeners.Go(s.listen)
	}
}

// listen writes what the endpoint says on its own accord, until the session ends.
func (s *session) listen() {
	for s.ctx.Err() == nil {
		r, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.endpoint.URL, nil)
		if err != nil {
			return
		}
		s.head(r)
		r.Header.Set("Accept", "text/event-stream")
		response, err := s.endpoint.Client.Do(r)
		if err == nil {
			if response.StatusCode != http.StatusOK {
				response.Body.Close()
				return
			}
			s.events(s.ctx, &message{}, response.Body)
			response.Body.Close()
		}
		select {
		case <-time.After(time.Second):
		case <-s.ctx.Done():
		}
	}
}

// leave ends the session of a legacy client.
func (s *session) leave() {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.endpoint.URL, nil)
	if err != nil {
		return
	}
	s.head(r)
	if response, err := s.endpoint.Client.Do(r); err == nil {
		response.Body.Close()
	}
}

// document writes an answer that is one message, or tells why there is none.
func (s *session) document(ctx context.Context, m *message, response *http.Response) {
	limit := int64(maxRefusal)
	if response.StatusCode == http.StatusOK {
		limit = 1 << 40
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit))
	body = bytes.TrimSpace(body)
	switch {
	case ctx.Err() != nil:
	case len(m.ID) == 0 && response.StatusCode != http.StatusOK:
		s.endpoint.Logger.Warn("The endpoint has refused a message", "method", m.Method, "status", response.StatusCode)
	case err == nil && len(body) > 0 && (body[0] == '{' || body[0] == '[') && isMessage(body):
		s.deliver(m, body)
	case len(m.ID) == 0:
	case response.StatusCode == http.StatusOK:
		s.refuse(m.ID, mcp.CodeInternal, "The answer of the node broke off or is no message")
	default:
		s.refuse(m.ID, mcp.CodeInternal, "The node refuses the request: HTTP status "+response.Status)
	}
}

// isMessage reports whether a body is of JSON-RPC.
func isMessage(body []byte) bool {
	var m struct {
		Version string `json:"jsonrpc"`
	}
	return len(body) > 0 && (body[0] == '[' && jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true)) || json.Unmarshal(body, &m, jsontext.AllowDuplicateNames(true)) == nil && m.Version == "2.0")
}

// deliver writes a message of the endpoint.
func (s *session) deliver(m *message, body []byte) {
	response := m.Method != "" && isResponse(body)
	if response && m.Method == "subscriptions/listen" { // SUB-07
		s.write([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(m.ID) + `}}`))
	}
	s.write(body)
	if response && m.Method == "initialize" {
		s.initialized(body)
	}
}

func isResponse(body []byte) bool {
	var m struct {
		Method string `json:"method"`
	}
	return json.Unmarshal(body, &m, jsontext.AllowDuplicateNames(true)) == nil && m.Method == ""
}

// events writes the messages of a stream. One that ends before the answer is an
// error to the client, which would wait for ever.
func (s *session) events(ctx context.Context, m *message, body io.Reader) {
	answered := len(m.ID) == 0
	events := sse.New(body, maxLine*4)
	for {
		event, err := events.Next()
		switch {
		case err == nil && !isMessage(bytes.TrimSpace(event.Data)): // such as one that was cut short
			continue
		case err == nil:
			answered = answered || isResponse(event.Data)
			s.deliver(m, event.Data)
			continue
		case answered || ctx.Err() != nil:
		case errors.Is(err, sse.ErrTooLarge):
			s.refuse(m.ID, mcp.CodeInternal, "The answer of the node is too large")
		default:
			s.refuse(m.ID, mcp.CodeInternal, "The answer of the node broke off")
		}
		return
	}
}
