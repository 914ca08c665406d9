package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// peer is a scripted agent over one binding: a real HTTP server that hands
// every operation to its script.
type peer struct {
	binding string
	server  *httptest.Server
	card    *a2a.AgentCard

	mu    sync.Mutex
	ops   []string // in the order of arrival
	times []time.Time
}

// exchange is one operation that arrived.
type exchange struct {
	peer    *peer
	op      string
	params  map[string]any // of the body or the query
	r       *http.Request
	w       http.ResponseWriter
	id      json.RawMessage
	n       int // how many came before, of any operation
	started bool

	statusSent bool // over gRPC
}

type script func(x *exchange)

var bothBindings = []string{a2a.BindingJSONRPC, a2a.BindingREST}

// onBoth runs a test once for each binding.
func onBoth(t *testing.T, test func(t *testing.T, binding string)) {
	t.Parallel()
	for _, binding := range bothBindings {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			test(t, binding)
		})
	}
}

func newPeer(t testing.TB, binding string, s script) *peer {
	t.Helper()
	p := &peer{binding: binding}
	p.server = httptest.NewUnstartedServer(p.handler(s))
	p.server.Config.Protocols = withH2C()
	p.server.Start()
	t.Cleanup(p.server.Close)
	p.card = newCard(binding, p.server.URL)
	if binding == a2a.BindingGRPC {
		p.card.SupportedInterfaces[0].URL = p.server.Listener.Addr().String() // as cards have it
	}
	return p
}

func newCard(binding, origin string) *a2a.AgentCard {
	yes := true
	return &a2a.AgentCard{
		Name:                "Scripted",
		Description:         "Does what the test says.",
		Version:             "1.0.0",
		DefaultInputModes:   []string{"text/plain"},
		DefaultOutputModes:  []string{"text/plain"},
		SupportedInterfaces: []a2a.AgentInterface{{URL: origin + "/agent", ProtocolBinding: binding, ProtocolVersion: "1.0"}},
		Capabilities:        a2a.AgentCapabilities{Streaming: &yes, PushNotifications: &yes, ExtendedAgentCard: &yes},
	}
}

// client returns a client of the peer.
func (p *peer) client(t testing.TB, opts client.Options) *client.Client {
	t.Helper()
	if opts.CardURL == "" && opts.Credentials != nil {
		opts.CardURL = p.server.URL
	}
	if opts.HTTPClient == nil {
		opts.HTTPClient = p.server.Client()
	}
	c, err := client.New(p.card, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// seen returns the operations that arrived so far.
func (p *peer) seen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.ops, " ")
}

func (p *peer) handler(s script) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{peer: p, r: r, w: w}
		body, _ := io.ReadAll(r.Body)
		switch p.binding {
		case a2a.BindingGRPC:
			if err := x.readGRPC(body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			defer x.status(0, "")
		case a2a.BindingJSONRPC:
			var call struct {
				ID     json.RawMessage
				Method string
				Params map[string]any
			}
			if err := json.Unmarshal(body, &call); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			x.op, x.id, x.params = call.Method, call.ID, call.Params
		default:
			x.op = restOp(r)
			x.params = map[string]any{}
			if len(body) > 0 {
				if err := json.Unmarshal(body, &x.params); err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
			}
			for name, values := range r.URL.Query() {
				x.params[name] = values[0]
			}
		}
		p.mu.Lock()
		x.n = len(p.ops)
		p.ops = append(p.ops, x.op)
		p.times = append(p.times, time.Now())
		p.mu.Unlock()
		s(x)
	})
}

func restOp(r *http.Request) string {
	path := r.URL.EscapedPath()
	switch {
	case strings.HasSuffix(path, "/message:send"):
		return "SendMessage"
	case strings.HasSuffix(path, "/message:stream"):
		return "SendStreamingMessage"
	case strings.HasSuffix(path, ":cancel"):
		return "CancelTask"
	case strings.HasSuffix(path, ":subscribe"):
		return "SubscribeToTask"
	case strings.HasSuffix(path, "/tasks"):
		return "ListTasks"
	case strings.HasSuffix(path, "/extendedAgentCard"):
		return "GetExtendedAgentCard"
	case strings.HasSuffix(path, "/pushNotificationConfigs") && r.Method == http.MethodPost:
		return "CreateTaskPushNotificationConfig"
	case strings.HasSuffix(path, "/pushNotificationConfigs"):
		return "ListTaskPushNotificationConfigs"
	case strings.Contains(path, "/pushNotificationConfigs/") && r.Method == http.MethodDelete:
		return "DeleteTaskPushNotificationConfig"
	case strings.Contains(path, "/pushNotificationConfigs/"):
		return "GetTaskPushNotificationConfig"
	case strings.Contains(path, "/tasks/"):
		return "GetTask"
	}
	return "?" + r.Method + path
}

// wrap puts a result in the form of the binding.
func (x *exchange) wrap(result string) string {
	if x.peer.binding == a2a.BindingJSONRPC {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, x.id, result)
	}
	return result
}

// wrapError puts an error in the form of the binding.
func (x *exchange) wrapError(e *a2a.Error) string {
	if x.peer.binding == a2a.BindingJSONRPC {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, x.id, e.AppendJSONRPC(nil))
	}
	return string(e.AppendStatus(nil))
}

// result answers with a result.
func (x *exchange) result(result string) {
	if x.peer.binding == a2a.BindingGRPC {
		x.message(result)
		return
	}
	x.body(http.StatusOK, "application/json", x.wrap(result))
}

// fail answers with an error.
func (x *exchange) fail(e *a2a.Error) {
	if x.peer.binding == a2a.BindingGRPC {
		x.failGRPC(e)
		return
	}
	status := http.StatusOK
	if x.peer.binding == a2a.BindingREST {
		status = e.Code.HTTPStatus()
	}
	x.body(status, "application/json", x.wrapError(e))
}

// body answers with these bytes.
func (x *exchange) body(status int, mediaType, body string) {
	x.w.Header().Set("Content-Type", mediaType)
	x.w.WriteHeader(status)
	io.WriteString(x.w, body)
}

// event sends an event of a stream and flushes it.
func (x *exchange) event(event string) {
	if x.peer.binding == a2a.BindingGRPC {
		x.message(event)
		return
	}
	x.frame("data: " + x.wrap(event) + "\n\n")
}

// frame sends bytes of a stream and flushes them. Over gRPC there are no such
// bytes.
func (x *exchange) frame(frame string) {
	if x.peer.binding != a2a.BindingGRPC {
		x.write(frame)
	}
}

// failEvent ends a stream with an error.
func (x *exchange) failEvent(e *a2a.Error) {
	if x.peer.binding == a2a.BindingGRPC {
		x.failGRPC(e)
		return
	}
	x.frame("data: " + x.wrapError(e) + "\n\n")
}

func (x *exchange) write(frame string) {
	if !x.started {
		x.w.Header().Set("Content-Type", map[bool]string{true: "application/grpc", false: "text/event-stream"}[x.peer.binding == a2a.BindingGRPC])
		x.started = true
	}
	io.WriteString(x.w, frame)
	http.NewResponseController(x.w).Flush()
}

// hang waits for the client to go away.
func (x *exchange) hang() { <-x.r.Context().Done() }

// pause waits, and reports whether the client is still there.
func (x *exchange) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-x.r.Context().Done():
		return false
	}
}

// cut breaks the connection.
func (x *exchange) cut() { panic(http.ErrAbortHandler) }

// Objects of the wire.

func task(id, state string, more ...string) string {
	return fmt.Sprintf(`{"id":%q,"contextId":"c-1","status":{"state":%q}%s}`, id, state, strings.Join(more, ""))
}

func taskEvent(id, state string, more ...string) string {
	return `{"task":` + task(id, state, more...) + `}`
}

func statusEvent(id, state string) string {
	return fmt.Sprintf(`{"statusUpdate":{"taskId":%q,"contextId":"c-1","status":{"state":%q}}}`, id, state)
}

func artifactEvent(id, artifact, text string, more ...string) string {
	return fmt.Sprintf(`{"artifactUpdate":{"taskId":%q,"contextId":"c-1","artifact":{"artifactId":%q,"parts":[{"text":%q}]}%s}}`,
		id, artifact, text, strings.Join(more, ""))
}

const agentMessage = `{"message":{"messageId":"m-1","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}`

func hello() *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("hello"))}
}
