//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// partner is a partner's server: several agents over JSON-RPC that do wrong what
// the orders say. It knows what has really happened.
type partner struct {
	server, other *http.Server
	elsewhere     string // where it redirects to
	address       string
	seed          uint64
	counted       func(name string, n int)
	closed        chan struct{}
	pushing       *http.Client
	webhooks      sync.WaitGroup

	mu       sync.Mutex
	goods    map[string]*good // by id
	ordered  map[int][]*good  // by order
	sends    map[int]map[string]int
	tries    map[string]int // arrivals of each message
	asked    map[string]int // calls about each task that were to fail
	cancels  map[int]int
	elsewhen chan struct{} // closed when the node dies the next time
	strays   int           // requests that followed a redirect
}

// good is a task of the partner.
type good struct {
	a2a.Task
	order   *purchase
	first   string // id of the message that made it
	events  []a2a.StreamResponse
	changed chan struct{} // closed at every change
	hook    *a2a.TaskPushNotificationConfig
}

// newPartner starts a partner.
func newPartner(seed uint64, counted func(string, int)) (*partner, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &partner{
		address: listener.Addr().String(), seed: seed, counted: counted, closed: make(chan struct{}),
		pushing: &http.Client{Timeout: 5 * time.Second},
		goods:   map[string]*good{}, ordered: map[int][]*good{}, sends: map[int]map[string]int{}, tries: map[string]int{},
		asked: map[string]int{}, cancels: map[int]int{}, elsewhen: make(chan struct{}),
	}
	mux := http.NewServeMux()
	for _, s := range shops() {
		mux.HandleFunc("GET /"+s.name+"/.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(p.card(s).AppendJSON(nil))
		})
		mux.HandleFunc("POST /"+s.name+"/rpc", func(w http.ResponseWriter, r *http.Request) { p.serve(s, w, r) })
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	p.elsewhere = "http://" + other.Addr().String() + "/"
	p.other = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.strays++
	})}
	go func() { _ = p.other.Serve(other) }() // until it is closed
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(listener) }() // until it is closed
	return p, nil
}

// close ends the partner.
func (p *partner) close() error {
	close(p.closed)
	err := errors.Join(p.server.Close(), p.other.Close())
	p.webhooks.Wait()
	return err
}

// died tells what waits for the death of the node.
func (p *partner) died() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.elsewhen)
	p.elsewhen = make(chan struct{})
}

// card is the card of an agent.
func (p *partner) card(s *shop) *a2a.AgentCard {
	return &a2a.AgentCard{
		Name: s.name, Description: "Sells what is ordered.", Version: "1",
		SupportedInterfaces: []a2a.AgentInterface{{URL: "http://" + p.address + "/" + s.name + "/rpc", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"}},
		Capabilities: a2a.AgentCapabilities{
			Streaming: &s.streams, PushNotifications: &s.pushes,
			Extensions: []a2a.AgentExtension{{URI: a2a.GrantExtension, Description: "Takes decisions."}},
		},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{{ID: "sell", Name: "Sell", Description: "Sells.", Tags: []string{"test"}}},
	}
}

type envelope struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
}

func (p *partner) serve(s *shop, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var q envelope
	if err != nil || json.Unmarshal(body, &q) != nil {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	switch q.Method {
	case "SendMessage", "SendStreamingMessage":
		p.take(s, w, r, &q)
	case "GetTask":
		p.tell(s, w, &q)
	case "SubscribeToTask":
		p.subscribe(s, w, r, &q)
	case "ListTasks":
		p.list(s, w, &q)
	case "CancelTask":
		p.stop(s, w, &q)
	case "CreateTaskPushNotificationConfig":
		p.hook(s, w, &q)
	default:
		reply(w, q.ID, nil, unknownMethod())
	}
}

func unknownMethod() *a2a.Error { return a2a.Errorf(a2a.CodeMethodNotFound, "Method not found") }

// take deals with a message.
func (p *partner) take(s *shop, w http.ResponseWriter, r *http.Request, q *envelope) {
	var req a2a.SendMessageRequest
	if err := a2a.Unmarshal(q.Params, &req); err != nil || req.Message == nil {
		reply(w, q.ID, nil, a2a.Invalid("message", "cannot be read"))
		return
	}
	m := req.Message
	p.mu.Lock()
	g := p.goods[m.TaskID]
	var o *purchase
	if g != nil {
		o = g.order
	} else if n := orderIn(m.Text()); n > 0 {
		o = drawOrder(p.seed, n)
	}
	if o == nil || m.TaskID != "" && g == nil {
		p.mu.Unlock()
		reply(w, q.ID, nil, a2a.TaskNotFound(m.TaskID))
		return
	}
	f := o.fault
	if g != nil {
		f = o.answerFault
	}
	p.tries[m.MessageID]++
	try := p.tries[m.MessageID]
	push := req.Configuration != nil && req.Configuration.TaskPushNotificationConfig != nil
	switch {
	case f == faultNoPush && !push, f != faultNoPush && try > 1+o.number%2:
		f = faultNone
	case f != faultBusy && f != faultDown && f != faultNoPush && try > 1:
		f = faultNone
	}
	if f != faultNone {
		p.counted(faultPrefix+string(f), 1)
	}
	if p.refuses(w, q, f) {
		p.mu.Unlock()
		return
	}
	if p.sends[o.number] == nil {
		p.sends[o.number] = map[string]int{}
	}
	p.sends[o.number][m.MessageID]++
	if f.before() {
		p.mu.Unlock()
		p.before(w, r, q, f)
		return
	}
	g, no := p.act(s, g, o, &req)
	died := p.elsewhen
	p.mu.Unlock()
	if no != nil {
		reply(w, q.ID, nil, no)
		return
	}
	p.after(s, w, r, q, g, f, died)
}

// faultPrefix begins the names of the counts of faults.
const faultPrefix = "fault: "

// refuses says for certain that a message was not taken, if it is not.
func (p *partner) refuses(w http.ResponseWriter, q *envelope, f partnerFault) bool {
	switch f {
	case faultBusy:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "later", http.StatusTooManyRequests)
	case faultDown:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "later", http.StatusServiceUnavailable)
	case faultNoPush:
		reply(w, q.ID, nil, a2a.Errorf(a2a.CodePushNotificationNotSupported, "No pushes"))
	default:
		return false
	}
	return true
}

// before does wrong what is done before the message is taken.
func (p *partner) before(w http.ResponseWriter, r *http.Request, q *envelope, f partnerFault) {
	switch f {
	case faultHangBefore:
		p.hang(r)
	case faultDropBefore:
		panic(http.ErrAbortHandler)
	case faultRedirect:
		http.Redirect(w, r, p.elsewhere, http.StatusTemporaryRedirect)
	case faultRefuse:
		reply(w, q.ID, nil, a2a.Invalid("message", "is not what I can do"))
	case faultBreak:
		reply(w, q.ID, nil, a2a.Errorf(a2a.CodeInternal, "It broke"))
	}
}

func (p *partner) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-p.closed:
	}
}

// act acts upon a message, under the lock.
func (p *partner) act(s *shop, g *good, o *purchase, req *a2a.SendMessageRequest) (*good, *a2a.Error) {
	m := req.Message
	if s.dedupes && p.sends[o.number][m.MessageID] > 1 {
		if g == nil {
			for _, other := range p.ordered[o.number] {
				if other.first == m.MessageID {
					return other, nil
				}
			}
		} else if holdsMessage(g, m.MessageID) {
			return g, nil
		}
	}
	if g != nil {
		if g.Status.State.Terminal() {
			return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The task is over")
		}
		g.History = append(g.History, *m)
		p.answered(g, m)
		return g, nil
	}
	g = &good{order: o, first: m.MessageID, changed: make(chan struct{})}
	g.ID = fmt.Sprintf("%s-%d-%d", s.name, o.number, len(p.ordered[o.number])+1)
	if g.ContextID = m.ContextID; g.ContextID == "" {
		g.ContextID = "context-" + g.ID
	}
	g.Status = a2a.TaskStatus{State: a2a.StateSubmitted}
	g.Artifacts, g.History = []a2a.Artifact{}, []a2a.Message{*m}
	p.goods[g.ID], p.ordered[o.number] = g, append(p.ordered[o.number], g)
	if c := req.Configuration; c != nil && c.TaskPushNotificationConfig != nil && s.pushes {
		g.hook = c.TaskPushNotificationConfig
	}
	p.work(g)
	return g, nil
}

func holdsMessage(g *good, id string) bool {
	for i := range g.History {
		if g.History[i].MessageID == id {
			return true
		}
	}
	return false
}

// after does wrong what is done when a message was taken, or answers it.
func (p *partner) after(s *shop, w http.ResponseWriter, r *http.Request, q *envelope, g *good, f partnerFault, died <-chan struct{}) {
	switch f {
	case faultHangAfter:
		p.hang(r)
		return
	case faultDropAfter:
		panic(http.ErrAbortHandler)
	case faultGateway:
		http.Error(w, "bad gateway", http.StatusBadGateway)
		return
	case faultLate:
		timer := time.NewTimer(4 * time.Second)
		defer timer.Stop()
		select {
		case <-died:
		case <-timer.C:
		case <-p.closed:
			return
		}
	}
	if q.Method == "SendStreamingMessage" && s.streams && f != faultPlain {
		p.stream(w, r, q, g, f == faultCut, false)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	reply(w, q.ID, &a2a.SendMessageResponse{Task: p.shown(g, false)}, nil)
}

// work begins with an order, under the lock.
func (p *partner) work(g *good) {
	o := g.order
	if o.work == workReject {
		p.status(g, a2a.StateRejected, "not for sale", nil)
		return
	}
	p.status(g, a2a.StateWorking, "on it", nil)
	switch o.work {
	case workQuick:
		p.complete(g)
	case workSlow:
		p.later(o.took/2, g, func() {
			p.artifact(g, false, false, strings.TrimSuffix(o.result(), " "+itoa(o.number)))
			p.later(o.took/2, g, func() {
				p.artifact(g, true, true, " "+itoa(o.number))
				p.status(g, a2a.StateCompleted, "", nil)
			})
		})
	case workFail:
		p.later(o.took/4, g, func() { p.status(g, a2a.StateFailed, "out of stock", nil) })
	case workAsk:
		p.later(o.took/4, g, func() {
			p.status(g, a2a.StateInputRequired, fmt.Sprintf("How many for order %d?", o.number), nil)
		})
	case workApprove:
		p.later(o.took/4, g, func() {
			ask := a2a.GrantRequest{ID: g.ID, Operation: "order"}
			metadata := a2a.JSON(`{"` + a2a.GrantExtension + `":` + string(ask.AppendJSON(nil)) + `}`)
			p.status(g, a2a.StateAuthRequired, fmt.Sprintf("May order %d be charged?", o.number), metadata)
		})
	case workForever:
		p.beat(g, 1)
	}
}

// beat tells again and again that the work goes on.
func (p *partner) beat(g *good, n int) {
	p.later(100*time.Millisecond, g, func() {
		p.status(g, a2a.StateWorking, "still on it, "+itoa(n), nil)
		p.beat(g, n+1)
	})
}

// later goes on with a task after a time, unless that is over.
func (p *partner) later(d time.Duration, g *good, f func()) {
	time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !g.Status.State.Terminal() {
			f()
		}
	})
}

func (p *partner) complete(g *good) {
	p.artifact(g, false, true, g.order.result())
	p.status(g, a2a.StateCompleted, "", nil)
}

// answered goes on after another message, under the lock.
func (p *partner) answered(g *good, m *a2a.Message) {
	switch g.Status.State {
	case a2a.StateInputRequired:
		if m.Text() != g.order.answer() {
			p.status(g, a2a.StateFailed, fmt.Sprintf("the answer was %q", m.Text()), nil)
			return
		}
		p.complete(g)
	case a2a.StateAuthRequired:
		d, err := a2a.GrantDecisionOf(m.Metadata)
		switch {
		case err != nil || d == nil:
			p.status(g, a2a.StateFailed, "no decision", nil)
		case d.Approved:
			p.complete(g)
		default:
			p.status(g, a2a.StateFailed, "denied", nil)
		}
	}
}

func (p *partner) status(g *good, state a2a.TaskState, text string, metadata a2a.JSON) {
	s := a2a.TaskStatus{State: state, Timestamp: time.Now()}
	if text != "" {
		s.Message = &a2a.Message{
			MessageID: fmt.Sprintf("%s-s%d", g.ID, len(g.events)), Role: a2a.RoleAgent, TaskID: g.ID, ContextID: g.ContextID,
			Parts: []a2a.Part{a2a.Text(text)}, Metadata: metadata,
		}
	}
	p.tellAll(g, a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{TaskID: g.ID, ContextID: g.ContextID, Status: s}})
}

func (p *partner) artifact(g *good, more, last bool, text string) {
	p.tellAll(g, a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
		TaskID: g.ID, ContextID: g.ContextID, Append: more, LastChunk: last,
		Artifact: a2a.Artifact{ArtifactID: "goods", Name: "goods", Parts: []a2a.Part{a2a.Text(text)}},
	}})
}

// tellAll applies an event to a task, and tells streams and webhooks.
func (p *partner) tellAll(g *good, e a2a.StreamResponse) {
	g.events = append(g.events, e)
	g.Apply(&e)
	close(g.changed)
	g.changed = make(chan struct{})
	if g.hook != nil && e.StatusUpdate != nil {
		p.push(g, e.AppendJSON(nil))
	}
}

// push posts an event until it is taken, for a time.
func (p *partner) push(g *good, body []byte) {
	hook, times := *g.hook, 1
	if g.order.flaw == flawTwice {
		times = 2
	}
	bodies := make([][]byte, 0, 3)
	if g.order.flaw == flawLies {
		bodies = append(bodies, bytes.ReplaceAll(body, []byte(g.ID), []byte("somebody-elses")))
	}
	for range times {
		bodies = append(bodies, body)
	}
	for _, b := range bodies {
		p.webhooks.Go(func() { p.post(&hook, b) })
	}
}

func (p *partner) post(hook *a2a.TaskPushNotificationConfig, body []byte) {
	for n := range 20 {
		q, err := http.NewRequest(http.MethodPost, hook.URL, bytes.NewReader(body))
		if err != nil {
			return
		}
		q.Header.Set("Content-Type", "application/a2a+json")
		q.Header.Set("X-A2A-Notification-Token", hook.Token)
		if answer, err := p.pushing.Do(q); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode < 500 && answer.StatusCode != http.StatusTooManyRequests {
				return
			}
		}
		timer := time.NewTimer(time.Duration(min(100<<n, 2000)) * time.Millisecond)
		select {
		case <-timer.C:
		case <-p.closed:
			timer.Stop()
			return
		}
	}
}

// shown is a task as it goes out, under the lock.
func (p *partner) shown(g *good, history bool) *a2a.Task {
	out := g.Task
	out.Artifacts = append([]a2a.Artifact{}, out.Artifacts...)
	out.History = append([]a2a.Message{}, out.History...)
	if !history || g.order.flaw == flawForgetful {
		out.History = nil
	}
	return &out
}

// mine returns a task of an agent, nil when it has none of that id. It locks.
func (p *partner) mine(s *shop, w http.ResponseWriter, q *envelope, id string) *good {
	p.mu.Lock()
	g := p.goods[id]
	p.mu.Unlock()
	if g == nil || g.order.shop.name != s.name {
		reply(w, q.ID, nil, a2a.TaskNotFound(id))
		return nil
	}
	return g
}

// fails reports whether a call about a task is one of those that fail.
func (p *partner) fails(g *good, flaw partnerFault, times int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.order.flaw != flaw || p.asked[g.ID] >= times {
		return false
	}
	p.asked[g.ID]++
	p.counted(faultPrefix+string(flaw), 1)
	return true
}

func (p *partner) tell(s *shop, w http.ResponseWriter, q *envelope) {
	var req a2a.GetTaskRequest
	_ = a2a.Unmarshal(q.Params, &req) // then there is no such task
	g := p.mine(s, w, q, req.ID)
	if g == nil {
		return
	}
	if p.fails(g, flawFlaky, 3) {
		if g.order.number%2 == 0 {
			panic(http.ErrAbortHandler)
		}
		http.Error(w, "<html>broken</html>", http.StatusInternalServerError)
		return
	}
	lies := p.fails(g, flawLies, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.shown(g, req.HistoryLength == nil || *req.HistoryLength > 0)
	if lies {
		out.ID, out.Status.State = "somebody-elses", a2a.StateFailed
	}
	reply(w, q.ID, out, nil)
}

func (p *partner) subscribe(s *shop, w http.ResponseWriter, r *http.Request, q *envelope) {
	var req a2a.SubscribeToTaskRequest
	_ = a2a.Unmarshal(q.Params, &req)
	switch g := p.mine(s, w, q, req.ID); {
	case g == nil:
	case !s.streams:
		reply(w, q.ID, nil, unknownMethod())
	default:
		p.stream(w, r, q, g, p.fails(g, flawFlaky, 3), true)
	}
}

func (p *partner) list(s *shop, w http.ResponseWriter, q *envelope) {
	if !s.lists {
		reply(w, q.ID, nil, unknownMethod())
		return
	}
	var req a2a.ListTasksRequest
	_ = a2a.Unmarshal(q.Params, &req)
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &a2a.ListTasksResponse{Tasks: []a2a.Task{}}
	for _, g := range p.goods {
		of := g.order.shop.name == s.name && (req.ContextID == "" || req.ContextID == g.ContextID)
		if of && !g.Status.Timestamp.Before(req.StatusTimestampAfter) {
			out.Tasks = append(out.Tasks, *p.shown(g, true))
		}
	}
	out.PageSize, out.TotalSize = len(out.Tasks), len(out.Tasks)
	reply(w, q.ID, out, nil)
}

func (p *partner) stop(s *shop, w http.ResponseWriter, q *envelope) {
	var req a2a.CancelTaskRequest
	_ = a2a.Unmarshal(q.Params, &req)
	g := p.mine(s, w, q, req.ID)
	if g == nil {
		return
	}
	if p.fails(g, flawFlaky, 3) {
		panic(http.ErrAbortHandler)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancels[g.order.number]++
	if g.Status.State.Terminal() {
		reply(w, q.ID, nil, a2a.Errorf(a2a.CodeTaskNotCancelable, "It is over"))
		return
	}
	p.status(g, a2a.StateCanceled, "", nil)
	reply(w, q.ID, p.shown(g, false), nil)
}

func (p *partner) hook(s *shop, w http.ResponseWriter, q *envelope) {
	var c a2a.TaskPushNotificationConfig
	_ = a2a.Unmarshal(q.Params, &c)
	g := p.mine(s, w, q, c.TaskID)
	if g == nil {
		return
	}
	if !s.pushes || g.order.fault == faultNoPush {
		reply(w, q.ID, nil, a2a.Errorf(a2a.CodePushNotificationNotSupported, "No pushes"))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g.hook = &c
	reply(w, q.ID, &c, nil)
}

// stream sends the events of a task: from the beginning, or after the task as it
// is now.
func (p *partner) stream(w http.ResponseWriter, r *http.Request, q *envelope, g *good, cut, now bool) {
	p.mu.Lock()
	sent := 0
	first := a2a.StreamResponse{Task: p.shown(g, false)}
	if now {
		sent = len(g.events)
		if g.Status.State.Terminal() {
			p.mu.Unlock()
			reply(w, q.ID, nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The task is over"))
			return
		}
	} else {
		first.Task.Status, first.Task.Artifacts = a2a.TaskStatus{State: a2a.StateSubmitted}, []a2a.Artifact{}
		if len(g.History) > 1 { // of an answer
			sent = len(g.events)
			first.Task = p.shown(g, false)
		}
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	out := &emitter{w: w, id: q.ID, flaw: g.order.flaw, counted: p.counted}
	out.emit(&first)
	if cut {
		panic(http.ErrAbortHandler)
	}
	for {
		p.mu.Lock()
		events := g.events[sent:]
		sent = len(g.events)
		over, changed := g.Status.State.Terminal() || g.Status.State.Interrupted(), g.changed
		p.mu.Unlock()
		for i := range events {
			out.event(&events[i])
		}
		if over {
			out.end()
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-p.closed:
			return
		}
	}
}

// emitter writes events to a stream, with a flaw.
type emitter struct {
	w       http.ResponseWriter
	id      jsontext.Value
	flaw    partnerFault
	counted func(string, int)
	held    *a2a.StreamResponse
}

func (e *emitter) emit(event *a2a.StreamResponse) {
	fmt.Fprintf(e.w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", e.id, event.AppendJSON(nil))
	_ = http.NewResponseController(e.w).Flush()
}

func (e *emitter) event(event *a2a.StreamResponse) {
	switch e.flaw {
	case flawTwice:
		e.counted(faultPrefix+string(flawTwice), 1)
		e.emit(event)
	case flawOrder:
		// The first chunk comes after the second one.
		if u := event.ArtifactUpdate; u != nil && !u.Append && !u.LastChunk {
			e.counted(faultPrefix+string(flawOrder), 1)
			held := *event
			e.held = &held
			return
		}
	case flawLies:
		e.counted(faultPrefix+string(flawLies), 1)
		e.emit(&a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{
			TaskID: "somebody-elses", ContextID: "somebody-elses", Status: a2a.TaskStatus{State: a2a.StateCompleted, Timestamp: time.Now()},
		}})
	case flawEndless:
		e.counted(faultPrefix+string(flawEndless), 1)
	}
	e.emit(event)
	if e.held != nil {
		e.emit(e.held)
		e.held = nil
	}
}

func (e *emitter) end() {
	if e.held != nil {
		e.emit(e.held)
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
