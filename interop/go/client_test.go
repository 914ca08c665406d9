// Package interop holds the official Go client, a2a-go, against a running
// server. It knows nothing of the server but its address and its fixture agent,
// whose triggers stand at the top of examples/fixture/handoff.yaml.
package interop

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// The addresses of the fixture in its three configurations, as the runner
// passes them on.
const (
	fixture           = "FIXTURE_URL"
	noStreaming       = "FIXTURE_NO_STREAMING_URL"
	requiredExtension = "FIXTURE_REQUIRED_EXTENSION_URL"
	noWebhooks        = noStreaming
	signed            = "FIXTURE_SIGNED_URL"
)

const extensionURI = "https://fixture.handoff.example/extensions/required/v1"

var bindings = []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON, a2a.TransportProtocolGRPC}

// eachBinding runs a test with a client of each binding and records what it
// shows of the operations.
func eachBinding(t *testing.T, o operations, test func(t *testing.T, p *peer)) {
	eachBindingOf(t, fixture, o, test)
}

// eachBindingOf is eachBinding with another configuration of the fixture.
func eachBindingOf(t *testing.T, variable string, o operations, test func(t *testing.T, p *peer), options ...a2aclient.FactoryOption) {
	t.Parallel()
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			r := record(t, binding, o)
			p := dial(t, variable, binding, options...)
			p.result = r
			test(t, p)
		})
	}
}

// peer is the official client on one binding.
type peer struct {
	*a2aclient.Client
	t       *testing.T
	binding a2a.TransportProtocol
	card    *a2a.AgentCard
	result  *result
}

// cannot records what this client cannot do, which the test has shown.
func (p *peer) cannot(what string) { p.result.Limit = what }

// grpcTransport is that of this client, with messages of more than 4 MiB.
var grpcTransport = a2agrpc.WithGRPCTransport(
	grpc.WithTransportCredentials(insecure.NewCredentials()),
	grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
)

func resolve(t *testing.T, variable string) *a2a.AgentCard {
	t.Helper()
	address := os.Getenv(variable)
	if address == "" {
		t.Fatalf("%s is not set; run make interop", variable)
	}
	card, err := agentcard.DefaultResolver.Resolve(t.Context(), address)
	if err != nil {
		t.Fatalf("resolve card of %s: %v", address, err)
	}
	return card
}

// dial resolves the card at an address and connects over a binding.
func dial(t *testing.T, variable string, binding a2a.TransportProtocol, options ...a2aclient.FactoryOption) *peer {
	t.Helper()
	card := resolve(t, variable)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	web := &http.Client{Transport: transport}
	options = append([]a2aclient.FactoryOption{
		a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []a2a.TransportProtocol{binding}}),
		a2aclient.WithJSONRPCTransport(web),
		a2aclient.WithRESTTransport(web),
		grpcTransport,
	}, options...)
	client, err := a2aclient.NewFromCard(t.Context(), card, options...)
	if err != nil {
		t.Fatalf("connect over %s: %v", binding, err)
	}
	t.Cleanup(func() {
		if err := client.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return &peer{Client: client, t: t, binding: binding, card: card}
}

// bare returns a client of the same binding that was made from an address and
// not from a card, so that it asks the server where one with a card refuses by
// itself.
func (p *peer) bare() *peer {
	p.t.Helper()
	for _, i := range p.card.SupportedInterfaces {
		if i.ProtocolBinding == p.binding {
			client, err := a2aclient.NewFromEndpoints(p.t.Context(), []*a2a.AgentInterface{i}, grpcTransport)
			if err != nil {
				p.t.Fatal(err)
			}
			return &peer{Client: client, t: p.t, binding: p.binding, card: p.card, result: p.result}
		}
	}
	p.t.Fatalf("the card has no interface for %s", p.binding)
	return nil
}

func text(s string) *a2a.Message { return a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(s)) }

// send sends a message and returns the task.
func (p *peer) send(m *a2a.Message, configure ...func(*a2a.SendMessageConfig)) *a2a.Task {
	p.t.Helper()
	q := &a2a.SendMessageRequest{Message: m}
	for _, f := range configure {
		if q.Config == nil {
			q.Config = &a2a.SendMessageConfig{}
		}
		f(q.Config)
	}
	result, err := p.SendMessage(p.t.Context(), q)
	if err != nil {
		p.t.Fatalf("send: %v", err)
	}
	task, ok := result.(*a2a.Task)
	if !ok {
		p.t.Fatalf("the answer is a %T, want a task", result)
	}
	return task
}

func immediately(c *a2a.SendMessageConfig) { c.ReturnImmediately = true }

func (p *peer) get(id a2a.TaskID, history *int) *a2a.Task {
	p.t.Helper()
	task, err := p.GetTask(p.t.Context(), &a2a.GetTaskRequest{ID: id, HistoryLength: history})
	if err != nil {
		p.t.Fatalf("get task %s: %v", id, err)
	}
	return task
}

// stream sends a message and follows the events.
func (p *peer) stream(m *a2a.Message) []a2a.Event {
	p.t.Helper()
	return collect(p.t, p.SendStreamingMessage(p.t.Context(), &a2a.SendMessageRequest{Message: m}))
}

func collect(t *testing.T, events iter.Seq2[a2a.Event, error]) []a2a.Event {
	t.Helper()
	var all []a2a.Event
	for event, err := range events {
		if err != nil {
			t.Fatalf("after %d events: %v", len(all), err)
		}
		all = append(all, event)
	}
	return all
}

// firstOf returns what a stream begins with: an event or an error.
func firstOf(events iter.Seq2[a2a.Event, error]) (a2a.Event, error) {
	for event, err := range events {
		return event, err
	}
	return nil, errEmpty
}

var errEmpty = errors.New("the stream is empty")

func wantState(t *testing.T, task *a2a.Task, want a2a.TaskState) {
	t.Helper()
	if task.Status.State != want {
		t.Fatalf("task %s is %s, want %s", task.ID, task.Status.State, want)
	}
}

// wantError checks that an error is the one that the client has for it.
func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, want %v", err, want)
	}
}

// wantInvalid checks that an error says that the request was invalid. Over
// HTTP+JSON this client knows errors by the reason in their ErrorInfo alone, which
// the protocol wants for its own errors only (A2A §11.6); we send one here too.
func wantInvalid(t *testing.T, _ *peer, err error) {
	t.Helper()
	wantError(t, err, a2a.ErrInvalidParams)
}

// lastState returns the state with which a stream ended.
func lastState(t *testing.T, events []a2a.Event) a2a.TaskState {
	t.Helper()
	if len(events) == 0 {
		t.Fatal("the stream has no events")
	}
	switch e := events[len(events)-1].(type) {
	case *a2a.TaskStatusUpdateEvent:
		return e.Status.State
	case *a2a.Task:
		return e.Status.State
	default:
		t.Fatalf("the last event is a %T, want a status", e)
		return ""
	}
}

// textOf returns the text of all artifact chunks of a stream.
func textOf(events []a2a.Event) string {
	var b strings.Builder
	for _, event := range events {
		if e, ok := event.(*a2a.TaskArtifactUpdateEvent); ok {
			for _, part := range e.Artifact.Parts {
				b.WriteString(part.Text())
			}
		}
	}
	return b.String()
}

func artifactText(task *a2a.Task) string {
	var b strings.Builder
	for _, artifact := range task.Artifacts {
		for _, part := range artifact.Parts {
			b.WriteString(part.Text())
		}
	}
	return b.String()
}

// await polls a task until it is in a state.
func (p *peer) await(id a2a.TaskID, want a2a.TaskState) *a2a.Task {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		task := p.get(id, nil)
		if task.Status.State == want {
			return task
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			p.t.Fatalf("task %s is %s still, want %s", id, task.Status.State, want)
		}
	}
}
