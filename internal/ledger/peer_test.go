package ledger_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// fault is what a peer does instead of answering.
type fault string

// The faults of a peer. Those of "after" come when the request has been acted
// upon.
const (
	hangBefore    fault = "says nothing, and does nothing"
	hangAfter     fault = "says nothing after the task exists"
	answersLate   fault = "answers when it is done, which takes longer than one waits"
	dropBefore    fault = "drops the connection before anything is done"
	dropAfter     fault = "drops the connection after the task exists"
	unavailable   fault = "503 with Retry-After"
	badGateway    fault = "502"
	tooMany       fault = "429 with Retry-After"
	refuses       fault = "refuses the request"
	noPush        fault = "refuses to push"
	lieTask       fault = "answers with another task"
	lieContext    fault = "answers with another context"
	redirects     fault = "redirects elsewhere"
	cutStream     fault = "cuts the stream after its first event"
	plainJSON     fault = "answers a stream call with JSON"
	notSupported  fault = "does not know the operation"
	echoes        fault = "refuses the request, and says what it was shown"
	internalError fault = "fails without doing anything"
	floods        fault = "answers with 80 MB"
)

// faultyPeer is an A2A agent over JSON-RPC that does what a test tells it.
type faultyPeer struct {
	t      *testing.T
	jwks   jose.JSONWebKeySet
	server *httptest.Server
	card   *a2a.AgentCard

	mu       sync.Mutex
	tasks    []*peerTask
	requests []string       // operations in order
	messages map[string]int // sends by message id
	sent     []a2a.Message  // in order
	headers  []http.Header  // of sends
	faults   map[string][]fault
	always   map[string]fault
	// on is called with every message that is acted upon, under the lock.
	on        func(task *peerTask, m *a2a.Message, fresh bool)
	dedupes   bool
	forgetful bool          // hides the history
	renews    bool          // makes a new task of a message to one that it does not have
	newIDs    bool          // gives the message of a status a new id whenever it is asked
	behind    bool          // begins the stream of an answer with the task as it was
	twice     bool          // tells in a subscription the last chunk again
	doubled   bool          // tells every event of a stream twice
	lag       time.Duration // between what GetTask sees and its answer
	answers   string        // the text of a message, in place of a task
	hooks     []a2a.TaskPushNotificationConfig
	changed   chan struct{} // closed at every change
	released  chan struct{} // closed at the end
	elsewhere int           // requests that followed a redirect
}

type peerTask struct {
	a2a.Task
	events []a2a.StreamResponse
	first  string    // id of the message that made it
	before *a2a.Task // as it was when the last message came, with so many events
	mark   int
}

func newPeer(t *testing.T, change ...func(*a2a.AgentCard)) *faultyPeer {
	t.Helper()
	p := &faultyPeer{
		t: t, messages: map[string]int{}, faults: map[string][]fault{}, always: map[string]fault{},
		changed: make(chan struct{}), released: make(chan struct{}),
	}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		close(p.released)
		p.server.CloseClientConnections()
		p.server.Close()
	})
	yes := true
	p.card = &a2a.AgentCard{
		Name: "Supplier", Description: "Quotes.", Version: "1",
		SupportedInterfaces: []a2a.AgentInterface{{URL: p.server.URL + "/rpc", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"}},
		Capabilities:        a2a.AgentCapabilities{Streaming: &yes},
		DefaultInputModes:   []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{{ID: "quote", Name: "Quote", Description: "Quotes.", Tags: []string{"x"}}},
	}
	for _, f := range change {
		f(p.card)
	}
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { p.finish(task, "done: "+m.Text()) }
	return p
}

func unary(c *a2a.AgentCard) { no := false; c.Capabilities.Streaming = &no }

func pushing(c *a2a.AgentCard) { yes := true; c.Capabilities.PushNotifications = &yes }

func (p *faultyPeer) client() *client.Client {
	p.t.Helper()
	c, err := client.New(p.card, client.Options{HTTPClient: p.server.Client()})
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// fail lets the next calls of an operation fail, in order; "" lets one pass.
func (p *faultyPeer) fail(op string, faults ...fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[op] = append(p.faults[op], faults...)
}

func (p *faultyPeer) failAlways(op string, f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.always[op] = f; f == "" {
		delete(p.always, op)
	}
}

func (p *faultyPeer) next(op string) fault {
	if list := p.faults[op]; len(list) > 0 {
		p.faults[op] = list[1:]
		return list[0]
	}
	return p.always[op]
}

// notify tells streams, under the lock, that something has changed.
func (p *faultyPeer) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// do changes the newest task and tells everybody.
func (p *faultyPeer) do(f func(t *peerTask)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tasks) == 0 {
		p.t.Error("the peer has no task")
		return
	}
	f(p.tasks[len(p.tasks)-1])
	p.notify()
}

func (p *faultyPeer) count() (tasks, sends int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tasks), len(p.sent)
}

// calls returns how often an operation was called.
func (p *faultyPeer) calls(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, r := range p.requests {
		if r == op {
			n++
		}
	}
	return n
}

func (t *peerTask) apply(e a2a.StreamResponse) {
	t.events = append(t.events, e)
	t.Task.Apply(&e)
}

func (t *peerTask) status(state a2a.TaskState, text string) {
	s := a2a.TaskStatus{State: state, Timestamp: time.Now()}
	if text != "" {
		s.Message = &a2a.Message{
			MessageID: fmt.Sprintf("%s-s%d", t.ID, len(t.events)), Role: a2a.RoleAgent, TaskID: t.ID, ContextID: t.ContextID,
			Parts: []a2a.Part{a2a.Text(text)},
		}
	}
	t.apply(a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Status: s}})
}

func (t *peerTask) artifact(id string, more, last bool, parts ...a2a.Part) {
	t.apply(a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
		TaskID: t.ID, ContextID: t.ContextID, Append: more, LastChunk: last,
		Artifact: a2a.Artifact{ArtifactID: id, Name: id, Parts: parts},
	}})
}

// finish lets a task work, make an artifact and complete.
func (p *faultyPeer) finish(t *peerTask, text string) {
	t.status(a2a.StateWorking, "on it")
	t.artifact("quote", false, true, a2a.Text(text))
	t.status(a2a.StateCompleted, "")
}

type rpc struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
}

func (p *faultyPeer) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/.well-known/jwks.json" {
		b, err := json.Marshal(p.jwks)
		if err != nil {
			p.t.Error(err)
		}
		_, _ = w.Write(b)
		return
	}
	if r.URL.Path == "/elsewhere" {
		p.mu.Lock()
		p.elsewhere++
		p.mu.Unlock()
		return
	}
	body, err := io.ReadAll(r.Body)
	var q rpc
	if err != nil || json.Unmarshal(body, &q) != nil {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.requests = append(p.requests, q.Method)
	f := p.next(q.Method)
	p.mu.Unlock()
	switch f {
	case hangBefore:
		p.hang(r)
		return
	case dropBefore:
		panic(http.ErrAbortHandler)
	case unavailable:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "later", http.StatusServiceUnavailable)
		return
	case tooMany:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "later", http.StatusTooManyRequests)
		return
	case badGateway:
		http.Error(w, "bad gateway", http.StatusBadGateway)
		return
	case redirects:
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		return
	case refuses:
		reply(w, q.ID, nil, a2a.Invalid("message", "is not what I can do"))
		return
	case echoes:
		reply(w, q.ID, nil, a2a.Errorf(a2a.CodeInvalidParams, "You sent Bearer t0ken-of-the-node"))
		return
	case noPush:
		reply(w, q.ID, nil, a2a.Errorf(a2a.CodePushNotificationNotSupported, "No pushes"))
		return
	case notSupported:
		reply(w, q.ID, nil, a2a.Errorf(a2a.CodeMethodNotFound, "Method not found"))
		return
	case floods:
		p.flood(w, &q)
		return
	case internalError:
		reply(w, q.ID, nil, a2a.Errorf(a2a.CodeInternal, "It broke"))
		return
	}
	p.operate(w, r, &q, f)
}

// flood acts on a request and answers with more than is taken.
func (p *faultyPeer) flood(w http.ResponseWriter, q *rpc) {
	if q.Method == "SendMessage" {
		discarded := httptest.NewRecorder()
		p.send(discarded, &http.Request{}, q, "")
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"task":{"id":"`, q.ID)
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for range 80 {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func (p *faultyPeer) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-p.released:
	}
}

func (p *faultyPeer) operate(w http.ResponseWriter, r *http.Request, q *rpc, f fault) {
	switch q.Method {
	case "SendMessage", "SendStreamingMessage":
		p.send(w, r, q, f)
	case "SubscribeToTask":
		var req a2a.SubscribeToTaskRequest
		_ = a2a.Unmarshal(q.Params, &req)
		p.mu.Lock()
		t := p.find(req.ID)
		p.mu.Unlock()
		if t == nil {
			reply(w, q.ID, nil, a2a.TaskNotFound(req.ID))
			return
		}
		p.stream(w, r, q, t, f, true)
	case "GetTask":
		var req a2a.GetTaskRequest
		_ = a2a.Unmarshal(q.Params, &req)
		p.mu.Lock()
		t := p.find(req.ID)
		if t == nil {
			p.mu.Unlock()
			reply(w, q.ID, nil, a2a.TaskNotFound(req.ID))
			return
		}
		shown, lag := p.shown(t, f, req.HistoryLength == nil || *req.HistoryLength > 0), time.NewTimer(p.lag)
		p.mu.Unlock()
		defer lag.Stop()
		select {
		case <-lag.C:
		case <-p.released:
		}
		reply(w, q.ID, shown, nil)
	case "ListTasks":
		p.mu.Lock()
		defer p.mu.Unlock()
		out := &a2a.ListTasksResponse{Tasks: []a2a.Task{}, PageSize: 50, TotalSize: len(p.tasks)}
		for _, t := range p.tasks {
			out.Tasks = append(out.Tasks, *p.shown(t, f, true))
		}
		reply(w, q.ID, out, nil)
	case "CancelTask":
		var req a2a.CancelTaskRequest
		_ = a2a.Unmarshal(q.Params, &req)
		p.mu.Lock()
		defer p.mu.Unlock()
		t := p.find(req.ID)
		switch {
		case t == nil:
			reply(w, q.ID, nil, a2a.TaskNotFound(req.ID))
		case t.Status.State.Terminal():
			reply(w, q.ID, nil, a2a.Errorf(a2a.CodeTaskNotCancelable, "It is over"))
		default:
			t.status(a2a.StateCanceled, "")
			p.notify()
			reply(w, q.ID, p.shown(t, f, false), nil)
		}
	case "CreateTaskPushNotificationConfig":
		var c a2a.TaskPushNotificationConfig
		_ = a2a.Unmarshal(q.Params, &c)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hooks = append(p.hooks, c)
		reply(w, q.ID, &c, nil)
	default:
		reply(w, q.ID, nil, a2a.Errorf(a2a.CodeMethodNotFound, "Method not found"))
	}
}

func (p *faultyPeer) find(id string) *peerTask {
	for _, t := range p.tasks {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// shown returns a copy of a task as it goes out.
func (p *faultyPeer) shown(t *peerTask, f fault, history bool) *a2a.Task {
	out := t.Task
	out.Artifacts = append([]a2a.Artifact{}, out.Artifacts...)
	out.History = append([]a2a.Message{}, out.History...)
	if !history || p.forgetful {
		out.History = nil
	}
	if p.newIDs && out.Status.Message != nil {
		m := *out.Status.Message
		m.MessageID = uuid.NewString()
		out.Status.Message = &m
	}
	switch f {
	case lieTask:
		out.ID = "somebody-elses"
	case lieContext:
		out.ContextID = "somebody-elses"
	}
	return &out
}

func (p *faultyPeer) send(w http.ResponseWriter, r *http.Request, q *rpc, f fault) {
	var req a2a.SendMessageRequest
	if err := a2a.Unmarshal(q.Params, &req); err != nil {
		p.t.Errorf("the message cannot be read: %v", err)
	}
	p.mu.Lock()
	m := *req.Message
	again := p.messages[m.MessageID] > 0
	p.messages[m.MessageID]++
	p.sent, p.headers = append(p.sent, m), append(p.headers, r.Header.Clone())
	if c := req.Configuration; c != nil && c.TaskPushNotificationConfig != nil {
		p.hooks = append(p.hooks, *c.TaskPushNotificationConfig)
	}
	if p.answers != "" {
		defer p.mu.Unlock()
		reply(w, q.ID, &a2a.SendMessageResponse{Message: &a2a.Message{MessageID: "r", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.Text(p.answers)}}}, nil)
		return
	}
	t := p.find(m.TaskID)
	switch {
	case again && p.dedupes:
		for _, other := range p.tasks {
			if other.first == m.MessageID {
				t = other
			}
		}
	case m.TaskID != "" && (t == nil && !p.renews || t != nil && t.Status.State.Terminal()):
		p.mu.Unlock()
		reply(w, q.ID, nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The task is over"))
		return
	case t == nil:
		t = &peerTask{first: m.MessageID}
		t.ID, t.ContextID = fmt.Sprintf("remote-%d", len(p.tasks)+1), m.ContextID
		if t.ContextID == "" {
			t.ContextID = fmt.Sprintf("context-%d", len(p.tasks)+1)
		}
		t.Status = a2a.TaskStatus{State: a2a.StateSubmitted}
		t.History = []a2a.Message{m}
		p.tasks = append(p.tasks, t)
		p.on(t, &m, true)
	default:
		t.before, t.mark = p.shown(t, "", false), len(t.events)
		t.History = append(t.History, m)
		p.on(t, &m, false)
	}
	p.notify()
	p.mu.Unlock()
	switch f {
	case hangAfter:
		p.hang(r)
		return
	case dropAfter:
		panic(http.ErrAbortHandler)
	case answersLate:
		select {
		case <-time.After(1200 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	if q.Method == "SendStreamingMessage" && f != plainJSON {
		p.stream(w, r, q, t, f, false)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	reply(w, q.ID, &a2a.SendMessageResponse{Task: p.shown(t, f, false)}, nil)
}

// stream sends the events of a task: from the beginning, or after the task as it
// is now.
func (p *faultyPeer) stream(w http.ResponseWriter, r *http.Request, q *rpc, t *peerTask, f fault, now bool) {
	p.mu.Lock()
	sent := 0
	first := a2a.StreamResponse{Task: p.shown(t, f, false)}
	switch {
	case !now && p.behind && t.before != nil:
		first.Task, sent = t.before, t.mark
	case now:
		sent = len(t.events)
		if p.twice && sent > 0 {
			sent--
		}
		if t.Status.State.Terminal() {
			p.mu.Unlock()
			reply(w, q.ID, nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The task is over"))
			return
		}
	default:
		first.Task.Status, first.Task.Artifacts = a2a.TaskStatus{State: a2a.StateSubmitted}, []a2a.Artifact{}
	}
	p.mu.Unlock()
	if f == plainJSON {
		reply(w, q.ID, &first, nil)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	emit := func(e *a2a.StreamResponse) {
		// As servers do: an event has no line breaks.
		result := strings.ReplaceAll(string(e.AppendJSON(nil)), "\n", " ")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", q.ID, result)
		_ = out.Flush()
	}
	emit(&first)
	if f == cutStream {
		panic(http.ErrAbortHandler)
	}
	for {
		p.mu.Lock()
		for sent < len(t.events) {
			emit(&t.events[sent])
			if p.doubled {
				emit(&t.events[sent])
			}
			sent++
		}
		over, changed := t.Status.State.Terminal() || t.Status.State.Interrupted(), p.changed
		p.mu.Unlock()
		if over {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-p.released:
			return
		}
	}
}

func reply(w http.ResponseWriter, id jsontext.Value, result interface{ AppendJSON([]byte) []byte }, e *a2a.Error) {
	w.Header().Set("Content-Type", "application/json")
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%s,`, id)
	if e != nil {
		b.WriteString(`"error":`)
		b.Write(e.AppendJSONRPC(nil))
	} else {
		b.WriteString(`"result":`)
		b.Write(result.AppendJSON(nil))
	}
	b.WriteByte('}')
	_, _ = w.Write(b.Bytes())
}

// checkSends fails the test when a message was sent twice to a peer that does
// not deduplicate, or when the peer has more tasks than messages.
func (p *faultyPeer) checkSends() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, n := range p.messages {
		if n > 1 && !p.dedupes {
			p.t.Errorf("the message %s was sent %d times", id, n)
		}
	}
	if len(p.tasks) > len(p.messages) {
		p.t.Errorf("%d tasks at the peer for %d messages", len(p.tasks), len(p.messages))
	}
}
