// Package stdio serves MCP on standard input and output from an endpoint that
// speaks Streamable HTTP, for desktop hosts that start their servers as programs
// (MCP basic/transports/stdio). It holds no protocol state but what the transport
// needs: which requests are under way, and the session of a legacy client.
package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

const (
	maxLine    = 16 << 20 // bytes of a message
	maxAtOnce  = 64       // requests under way
	maxRefusal = 1 << 20  // bytes of the body of an error
)

// Endpoint is what answers.
type Endpoint struct {
	URL    string
	Client *http.Client
	Header http.Header // of each request, such as Authorization
	Logger *slog.Logger
	// Params returns the arguments of a tool that go into headers; nil: none do.
	Params func(ctx context.Context, tool string) ([]mcp.Param, error)
	// Gone reports whether an error of a request says that nobody is there any more,
	// so that Serve ends with it: hosts start a server again that has ended. Nil: no
	// error does.
	Gone func(error) bool
}

// Serve reads messages from in, one on each line, and writes what the endpoint
// says to out, until in ends and what was asked is answered, or ctx ends. Streams
// of subscriptions end with in.
func (e *Endpoint) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &session{endpoint: e, ctx: ctx, out: out, running: map[string]*call{}, free: make(chan struct{}, maxAtOnce), gone: make(chan error, 1)}
	defer func() {
		cancel()
		s.calls.Wait()
		s.listeners.Wait()
		s.leave()
	}()
	lines := s.lines(in)
	for {
		select {
		case line, more := <-lines:
			if !more {
				s.endListens()
				s.calls.Wait()
				return errors.Join(s.readErr, s.writeError())
			}
			s.take(line)
		case err := <-s.gone:
			return err
		case <-ctx.Done():
			return nil
		}
		if err := s.writeError(); err != nil {
			return err
		}
	}
}

// session is one run of Serve.
type session struct {
	endpoint  *Endpoint
	ctx       context.Context
	calls     sync.WaitGroup
	listeners sync.WaitGroup
	free      chan struct{} // has a value for each request under way
	readErr   error
	gone      chan error // why nobody answers any more

	writing sync.Mutex
	out     io.Writer
	failed  error

	mu      sync.Mutex
	running map[string]*call       // by their ids, as JSON
	params  map[string][]mcp.Param // of tools with arguments that go into headers
	// Of a legacy client, once it has initialized.
	id      string
	version string
}

// call is a request under way.
type call struct {
	id     jsontext.Value
	modern bool
	listen bool
	cancel context.CancelFunc
}

// lines reads in, and closes what it returns at its end. The reader of a program's
// standard input cannot be interrupted; it ends with the process.
func (s *session) lines(in io.Reader) <-chan []byte {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(in)
		scanner.Buffer(nil, maxLine)
		for scanner.Scan() {
			line := bytes.TrimSpace(scanner.Bytes())
			if len(line) == 0 {
				continue
			}
			select {
			case lines <- bytes.Clone(line):
			case <-s.ctx.Done():
				return
			}
		}
		if err := scanner.Err(); err != nil {
			s.readErr = fmt.Errorf("read standard input: %w", err)
		}
	}()
	return lines
}

// message is what the transport has to know of a message.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
		URI       string         `json:"uri"`
		TaskID    string         `json:"taskId"`
		RequestID jsontext.Value `json:"requestId"`
		Meta      struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
}

// named is what Mcp-Name carries of the message (TRN-20, TRN-21).
func (m *message) named() string {
	switch m.Method {
	case "tools/call", "prompts/get":
		return m.Params.Name
	case "resources/read":
		return m.Params.URI
	case "tasks/get", "tasks/update", "tasks/cancel":
		return m.Params.TaskID
	}
	return ""
}

// take begins what a message asks for. Requests run beside each other; what has
// no answer is sent in order, and so is the request with which a session begins.
func (s *session) take(line []byte) {
	var m message
	switch {
	case line[0] == '[' && jsontext.Value(line).IsValid(jsontext.AllowDuplicateNames(true)): // a batch; the endpoint says whether it takes them
	case line[0] != '{' || json.Unmarshal(line, &m, jsontext.AllowDuplicateNames(true)) != nil:
		s.refuse(nil, mcp.CodeParseError, "The line is not a message of JSON-RPC")
		return
	}
	if m.Method == "notifications/cancelled" && s.cancel(m.Params.RequestID) {
		return
	}
	if line[0] == '{' && (len(m.ID) == 0 || m.Method == "" || m.Method == "initialize") {
		s.send(s.ctx, &m, line)
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	c := &call{id: m.ID, modern: m.Params.Meta.Version != "", listen: m.Method == "subscriptions/listen", cancel: cancel}
	if !s.enter(c) {
		cancel()
		s.refuse(m.ID, mcp.CodeInvalidRequest, "Another request with this id is under way")
		return
	}
	select {
	case s.free <- struct{}{}:
	case <-s.ctx.Done():
	}
	s.calls.Go(func() {
		defer func() { <-s.free }()
		defer s.exit(c)
		s.send(ctx, &m, line)
	})
}

func (s *session) enter(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(c.id)
	if key == "" { // a batch
		return true
	}
	if s.running[key] != nil {
		return false
	}
	s.running[key] = c
	return true
}

func (s *session) exit(c *call) {
	c.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[string(c.id)] == c {
		delete(s.running, string(c.id))
	}
}

// cancel ends a request of a modern client, as closing its stream does over HTTP
// (CAN-01, STD-04). Legacy ones are told to the endpoint.
func (s *session) cancel(id jsontext.Value) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.running[string(id)]
	if c == nil || !c.modern {
		return false
	}
	c.cancel()
	return true
}

// endListens ends the subscriptions, which nobody can hear any more.
func (s *session) endListens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.running {
		if c.listen {
			c.cancel()
		}
	}
}

// refuse answers a message with an error of our own.
func (s *session) refuse(id jsontext.Value, code int, text string) {
	if len(id) == 0 {
		id = jsontext.Value("null")
	}
	type problem struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	body, err := json.Marshal(struct {
		Version string         `json:"jsonrpc"`
		ID      jsontext.Value `json:"id"`
		Error   problem        `json:"error"`
	}{"2.0", id, problem{code, text}})
	if err != nil { // an id that is no JSON
		return
	}
	s.write(body)
}

// write writes a message on a line of its own.
func (s *session) write(body []byte) {
	line := jsontext.Value(bytes.Clone(body))
	if bytes.ContainsAny(body, "\r\n") {
		if err := line.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true)); err != nil {
			s.endpoint.Logger.Warn("The endpoint has sent something that is no message", "error", err)
			return
		}
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, err := s.out.Write(append(line, '\n')); err != nil && s.failed == nil {
		s.failed = fmt.Errorf("write standard output: %w", err)
	}
}

func (s *session) writeError() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.failed
}
