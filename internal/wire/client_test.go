package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"handoff.example/handoff/a2a"
)

// binding is one of the bindings.
type binding string

const (
	rpc  binding = "rpc"
	rest binding = "rest"
)

// onBoth runs a test over the two bindings of JSON.
func onBoth(t *testing.T, test func(t *testing.T, b binding)) {
	t.Helper()
	t.Parallel()
	for _, b := range []binding{rpc, rest} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

// object is JSON.
type object = map[string]any

var messageCount atomic.Int64

// message returns a message of the user with a fresh id.
func message(text string, more ...object) object {
	m := object{"messageId": fmt.Sprintf("m-%d", messageCount.Add(1)), "role": "ROLE_USER", "parts": []any{object{"text": text}}}
	for _, o := range more {
		for k, v := range o {
			m[k] = v
		}
	}
	return m
}

// send returns the parameters of a message.
func send(text string, more ...object) object { return object{"message": message(text, more...)} }

// answer is a whole answer.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
	Result json.RawMessage
	Error  *a2a.Error
	Number int // of a JSON-RPC error, or the HTTP status
	grpc   *status.Status
}

// request builds the request for an operation.
func (n *node) request(b binding, op string, params any, edit ...func(*http.Request)) *http.Request {
	n.t.Helper()
	body, ok := params.(json.RawMessage)
	if !ok {
		var err error
		if body, err = json.Marshal(params); err != nil {
			n.t.Fatal(err)
		}
	}
	var r *http.Request
	var err error
	if b == rpc {
		body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"x-1","method":%q,"params":%s}`, op, body)
		r, err = http.NewRequest(http.MethodPost, n.url+"rpc", bytes.NewReader(body))
	} else {
		method, path, hasBody := restOf(op, params)
		var reader io.Reader
		if hasBody {
			reader = bytes.NewReader(body)
		}
		r, err = http.NewRequest(method, n.url+"v1"+path, reader)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	for _, e := range edit {
		e(r)
	}
	return r
}

// restOf returns how an operation is called on HTTP+JSON.
func restOf(op string, params any) (method, path string, body bool) {
	p, _ := params.(object)
	text := func(key string) string {
		s, _ := p[key].(string)
		return url.PathEscape(s)
	}
	query := func(skip ...string) string {
		values := url.Values{}
	next:
		for k, v := range p {
			for _, s := range skip {
				if s == k {
					continue next
				}
			}
			values.Set(k, fmt.Sprint(v))
		}
		if len(values) == 0 {
			return ""
		}
		return "?" + values.Encode()
	}
	switch op {
	case "SendMessage":
		return "POST", "/message:send", true
	case "SendStreamingMessage":
		return "POST", "/message:stream", true
	case "GetTask":
		return "GET", "/tasks/" + text("id") + query("id"), false
	case "ListTasks":
		return "GET", "/tasks" + query(), false
	case "CancelTask":
		return "POST", "/tasks/" + text("id") + ":cancel", true
	case "SubscribeToTask":
		return "POST", "/tasks/" + text("id") + ":subscribe", true
	case "CreateTaskPushNotificationConfig":
		return "POST", "/tasks/" + text("taskId") + "/pushNotificationConfigs", true
	case "GetTaskPushNotificationConfig":
		return "GET", "/tasks/" + text("taskId") + "/pushNotificationConfigs/" + text("id"), false
	case "ListTaskPushNotificationConfigs":
		return "GET", "/tasks/" + text("taskId") + "/pushNotificationConfigs", false
	case "DeleteTaskPushNotificationConfig":
		return "DELETE", "/tasks/" + text("taskId") + "/pushNotificationConfigs/" + text("id"), false
	case "GetExtendedAgentCard":
		return "GET", "/extendedAgentCard", false
	}
	panic("unknown operation " + op)
}

// do sends a request and reads the whole answer.
func (n *node) do(b binding, r *http.Request) *answer {
	n.t.Helper()
	response, err := n.client.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	return n.read(b, response)
}

func (n *node) read(b binding, response *http.Response) *answer {
	n.t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	a := &answer{Status: response.StatusCode, Header: response.Header, Body: body}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return a
	}
	if b == rpc {
		a.rpc(n.t)
	} else {
		a.rest()
	}
	return a
}

func (a *answer) rpc(t testing.TB) {
	var e struct {
		JSONRPC string
		ID      json.RawMessage
		Result  json.RawMessage
		Error   json.RawMessage
	}
	if len(a.Body) == 0 {
		return
	}
	if err := json.Unmarshal(a.Body, &e); err != nil {
		t.Fatalf("%v in %s", err, a.Body)
	}
	a.Result = e.Result
	if e.Error != nil {
		a.Error = a2a.ParseJSONRPCError(e.Error)
		var number struct{ Code int }
		_ = json.Unmarshal(e.Error, &number)
		a.Number = number.Code
	}
}

func (a *answer) rest() {
	a.Result = a.Body
	if a.Status != http.StatusOK {
		a.Error = a2a.ParseStatusError(a.Body, a.Status)
		a.Number = a.Status
	}
}

// call carries out an operation.
func (n *node) call(b binding, op string, params any, edit ...func(*http.Request)) *answer {
	n.t.Helper()
	if b == overGRPC {
		return n.callGRPC(op, params, edit)
	}
	return n.do(b, n.request(b, op, params, edit...))
}

// ok is call for an operation that has to succeed.
func (n *node) ok(b binding, op string, params any, edit ...func(*http.Request)) json.RawMessage {
	n.t.Helper()
	a := n.call(b, op, params, edit...)
	if a.Error != nil || a.Status != http.StatusOK {
		n.t.Fatalf("%s: %d %s", op, a.Status, a.Body)
	}
	return a.Result
}

// sent sends a message that has to be answered by a task.
func (n *node) sent(b binding, params any, edit ...func(*http.Request)) *a2a.Task {
	n.t.Helper()
	var r a2a.SendMessageResponse
	result := n.ok(b, "SendMessage", params, edit...)
	if err := a2a.Unmarshal(result, &r); err != nil || r.Task == nil {
		n.t.Fatalf("%v: %s", err, result)
	}
	return r.Task
}

// task gets a task.
func (n *node) task(b binding, id string, edit ...func(*http.Request)) *a2a.Task {
	n.t.Helper()
	var task a2a.Task
	if err := a2a.Unmarshal(n.ok(b, "GetTask", object{"id": id}, edit...), &task); err != nil {
		n.t.Fatal(err)
	}
	return &task
}

// until waits for a task to get into a state.
func (n *node) until(id string, state a2a.TaskState) *a2a.Task {
	n.t.Helper()
	var task *a2a.Task
	eventually(n.t, id+" is "+state.String(), func() bool {
		task = n.task(rpc, id)
		return task.Status.State == state
	})
	return task
}

// isError checks an error by its JSON-RPC number, over either binding.
func (a *answer) isError(t testing.TB, code a2a.Code) {
	t.Helper()
	if a.grpc != nil {
		a.isStatus(t, code)
		return
	}
	want := code.JSONRPC()
	if strings.HasPrefix(string(a.Body), `{"error":{`) {
		want = code.HTTPStatus()
		if a.Status != want {
			t.Errorf("status %d, want %d", a.Status, want)
		}
	}
	if a.Error == nil || a.Number != want {
		t.Fatalf("got %d %s, want %v", a.Status, a.Body, code)
	}
	if got := a.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
}

// field reports whether an error names a field.
func (a *answer) field(name string) bool {
	for _, v := range a.Error.Violations {
		if v.Field == name {
			return true
		}
	}
	return false
}

// event is one event of a stream.
type event struct {
	ID   string
	Data []byte // without the envelope of JSON-RPC
	Raw  []byte
	a2a.StreamResponse
	Error *a2a.Error
}

// sse is an open stream.
type sse struct {
	t        testing.TB
	b        binding
	response *http.Response
	lines    *bufio.Reader
	cancel   context.CancelFunc
	comments []string

	messages grpc.ClientStream // over gRPC, instead of lines
	first    *pb.StreamResponse
	over     error
}

// open opens a stream; refused is not nil when the answer is none.
func (n *node) open(b binding, op string, params any, edit ...func(*http.Request)) (s *sse, refused *answer) {
	n.t.Helper()
	if b == overGRPC {
		return n.openGRPC(op, params, edit)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := n.request(b, op, params, edit...).WithContext(ctx)
	response, err := n.client.Do(r)
	if err != nil {
		cancel()
		n.t.Fatal(err)
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		defer cancel()
		defer response.Body.Close()
		return nil, n.read(b, response)
	}
	s = &sse{t: n.t, b: b, response: response, lines: bufio.NewReaderSize(response.Body, 64<<10), cancel: cancel}
	n.t.Cleanup(s.close)
	return s, nil
}

// stream is open for a stream that has to be one.
func (n *node) stream(b binding, op string, params any, edit ...func(*http.Request)) *sse {
	n.t.Helper()
	s, refused := n.open(b, op, params, edit...)
	if refused != nil {
		n.t.Fatalf("%s: %d %s", op, refused.Status, refused.Body)
	}
	return s
}

func (s *sse) close() {
	s.cancel()
	if s.response != nil {
		_ = s.response.Body.Close()
	}
}

// next returns the next event, and io.EOF after the last one.
func (s *sse) next() (*event, error) {
	if s.messages != nil {
		return s.nextMessage()
	}
	e := &event{}
	for {
		line, err := s.lines.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		switch {
		case len(line) == 0 && e.Raw != nil:
			return e, s.decode(e)
		case len(line) == 0:
		case line[0] == ':':
			s.comments = append(s.comments, string(line))
		case bytes.HasPrefix(line, []byte("id: ")):
			e.ID = string(line[4:])
		case bytes.HasPrefix(line, []byte("data: ")):
			if e.Raw != nil {
				return nil, errors.New("an event of two lines")
			}
			e.Raw = line[6:]
		case bytes.HasPrefix(line, []byte("retry: ")):
			s.comments = append(s.comments, string(line))
		default:
			return nil, fmt.Errorf("unexpected line %q", line)
		}
	}
}

func (s *sse) decode(e *event) error {
	e.Data = e.Raw
	var envelope struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(e.Raw, &envelope); err != nil {
		return err
	}
	if s.b == rest && envelope.Error != nil {
		e.Error = a2a.ParseStatusError(e.Raw, http.StatusOK)
		return nil
	}
	if s.b == rpc {
		if envelope.JSONRPC != "2.0" || string(envelope.ID) != `"x-1"` || (envelope.Result == nil) == (envelope.Error == nil) {
			return fmt.Errorf("bad envelope %s", e.Raw)
		}
		if envelope.Error != nil {
			e.Error = a2a.ParseJSONRPCError(envelope.Error)
			return nil
		}
		e.Data = envelope.Result
	}
	return a2a.Unmarshal(e.Data, &e.StreamResponse)
}

// must returns the next event, which has to be there.
func (s *sse) must() *event {
	s.t.Helper()
	e, err := s.next()
	if err != nil {
		s.t.Fatalf("the stream ended: %v", err)
	}
	return e
}

// rest returns the events up to the end of the stream.
func (s *sse) rest() []*event {
	s.t.Helper()
	var events []*event
	for {
		e, err := s.next()
		if err == io.EOF {
			return events
		}
		if err != nil {
			s.t.Fatal(err)
		}
		events = append(events, e)
	}
}

// state returns the state that an event tells, "" for none.
func (e *event) state() string {
	switch {
	case e.Task != nil:
		return e.Task.Status.State.String()
	case e.StatusUpdate != nil:
		return e.StatusUpdate.Status.State.String()
	}
	return ""
}

// shape names the payload of an event.
func (e *event) shape() string {
	switch {
	case e.Error != nil:
		return "error"
	case e.Task != nil:
		return "task " + e.state()
	case e.Message != nil:
		return "message"
	case e.StatusUpdate != nil:
		return "status " + e.state()
	case e.ArtifactUpdate != nil:
		return "artifact"
	}
	return "nothing"
}

func shapes(events []*event) []string {
	list := make([]string, len(events))
	for i, e := range events {
		list[i] = strings.ReplaceAll(e.shape(), "TASK_STATE_", "")
	}
	return list
}

// as sends a request as somebody.
func as(who string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+who) }
}

// header sets a header; "" removes it.
func header(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, value)
		}
	}
}

// within fails the test when f takes longer.
func within(t testing.TB, d time.Duration, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > d {
		t.Errorf("took %v, want at most %v", took, d)
	}
}

// cancelable returns the request with a context that can be canceled.
func cancelable(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	return r.WithContext(ctx), cancel
}

// tenantPath puts a tenant into the path of a request.
func tenantPath(n *node, tenant string) func(*http.Request) {
	return func(r *http.Request) {
		at := strings.TrimPrefix(n.url, n.base)
		if path, ok := strings.CutPrefix(r.URL.Path, at+"v1/"); ok {
			r.URL.Path = at + "v1/" + tenant + "/" + path
			return
		}
		r.URL.Path = at + "rpc/" + tenant
	}
}

// list lists tasks.
func (n *node) list(b binding, params object, edit ...func(*http.Request)) *a2a.ListTasksResponse {
	n.t.Helper()
	var r a2a.ListTasksResponse
	if err := a2a.Unmarshal(n.ok(b, "ListTasks", params, edit...), &r); err != nil {
		n.t.Fatal(err)
	}
	return &r
}
