package interop

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

func TestUnknownTask(t *testing.T) {
	eachBinding(t, operations{opErrors}, func(t *testing.T, p *peer) {
		_, err := p.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "nope"})
		wantError(t, err, a2a.ErrTaskNotFound)
		_, err = p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: "nope"})
		wantError(t, err, a2a.ErrTaskNotFound)
		m := text("echo x")
		m.TaskID = "nope"
		_, err = p.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: m})
		wantError(t, err, a2a.ErrTaskNotFound)
	})
}

func TestTerminalTask(t *testing.T) {
	eachBinding(t, operations{opErrors}, func(t *testing.T, p *peer) {
		task := p.send(text("echo x"))
		_, err := p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
		wantError(t, err, a2a.ErrTaskNotCancelable)
		_, err = p.SendMessage(t.Context(), &a2a.SendMessageRequest{
			Message: a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart("more")),
		})
		wantError(t, err, a2a.ErrUnsupportedOperation)
	})
}

// wantRefusal checks what a stream is refused with. Before its first event it is
// answered with a plain JSON error. Over JSON-RPC this client does not look at
// the content type, finds no event in it, and shows an empty stream.
func wantRefusal(t *testing.T, p *peer, err, want error) {
	t.Helper()
	if p.binding == a2a.TransportProtocolJSONRPC {
		p.cannot("see why a stream was refused before its first event: it shows an empty one")
		want = errEmpty
	}
	wantError(t, err, want)
}

func TestRefusedStream(t *testing.T) {
	eachBinding(t, operations{opErrors}, func(t *testing.T, p *peer) {
		task := p.send(text("echo x"))
		_, err := firstOf(p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}))
		wantRefusal(t, p, err, a2a.ErrUnsupportedOperation)
		_, err = firstOf(p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "nope"}))
		wantRefusal(t, p, err, a2a.ErrTaskNotFound)
		_, err = firstOf(p.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{
			Message: a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart("more")),
		}))
		wantRefusal(t, p, err, a2a.ErrUnsupportedOperation)
	})
}

func TestContextOfAnotherTask(t *testing.T) {
	eachBinding(t, operations{opErrors}, func(t *testing.T, p *peer) {
		task := p.send(text("ask"))
		m := a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart("x"))
		m.ContextID = "another"
		_, err := p.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: m})
		wantInvalid(t, p, err)
		wantState(t, p.get(task.ID, nil), a2a.TaskStateInputRequired)
	})
}

func TestInvalidMessage(t *testing.T) {
	eachBinding(t, operations{opErrors}, func(t *testing.T, p *peer) {
		m := text("echo x")
		m.ID = ""
		_, err := p.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: m})
		wantInvalid(t, p, err)
		_, err = p.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser)})
		wantInvalid(t, p, err)
	})
}

// otherVersion lets a client name another version of the protocol than the one
// that it speaks.
type otherVersion struct {
	a2aclient.PassthroughInterceptor
}

func (otherVersion) Before(ctx context.Context, r *a2aclient.Request) (context.Context, any, error) {
	r.ServiceParams[a2a.SvcParamVersion] = []string{"99.0"}
	return ctx, nil, nil
}

func TestUnknownVersion(t *testing.T) {
	eachBindingOf(t, fixture, operations{opErrors}, func(t *testing.T, p *peer) {
		_, err := p.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: text("echo x")})
		wantError(t, err, a2a.ErrVersionNotSupported)
		_, err = p.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "nope"})
		wantError(t, err, a2a.ErrVersionNotSupported)
	}, a2aclient.WithCallInterceptors(otherVersion{}))
}

func TestAgentWithoutStreaming(t *testing.T) {
	eachBindingOf(t, noStreaming, operations{opErrors}, func(t *testing.T, p *peer) {
		// The client knows it from the card and sends a blocking message.
		events := p.stream(text("echo x"))
		if len(events) != 1 || lastState(t, events) != a2a.TaskStateCompleted {
			t.Errorf("the stream is %v, want one finished task", events)
		}
		running := p.send(text("slow 30"), immediately)
		_, err := firstOf(p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: running.ID}))
		wantRefusal(t, p, err, a2a.ErrUnsupportedOperation)
		_, err = firstOf(p.bare().SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: text("echo x")}))
		wantRefusal(t, p, err, a2a.ErrUnsupportedOperation)
		if _, err := p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: running.ID}); err != nil {
			t.Error(err)
		}
	})
}

func TestRequiredExtension(t *testing.T) {
	eachBindingOf(t, requiredExtension, operations{opErrors}, func(t *testing.T, p *peer) {
		optional := func(e a2a.AgentExtension) bool { return !e.Required }
		if e := slices.DeleteFunc(slices.Clone(p.card.Capabilities.Extensions), optional); len(e) != 1 || e[0].URI != extensionURI {
			t.Fatalf("the card has the extensions %+v", e)
		}
		q := &a2a.SendMessageRequest{Message: text("echo x")}
		_, err := p.SendMessage(t.Context(), q)
		wantError(t, err, a2a.ErrExtensionSupportRequired)

		ctx := a2aclient.AttachServiceParams(t.Context(), a2aclient.ServiceParams{
			a2a.SvcParamExtensions: {extensionURI},
		})
		result, err := p.SendMessage(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, result.(*a2a.Task), a2a.TaskStateCompleted)
	})
}

// otherType sends every body as something that is not JSON.
type otherType struct{}

func (otherType) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Content-Type", "text/plain")
	return http.DefaultTransport.RoundTrip(r)
}

func TestBodyThatIsNotJSON(t *testing.T) {
	t.Parallel()
	for _, binding := range bindings[:2] { // those that have JSON
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			record(t, binding, operations{opErrors})
			web := &http.Client{Transport: otherType{}}
			p := dial(t, fixture, binding, a2aclient.WithJSONRPCTransport(web), a2aclient.WithRESTTransport(web))
			_, err := p.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: text("echo x")})
			wantError(t, err, a2a.ErrUnsupportedContentType)
		})
	}
}

// The fixture takes and makes every media type. What a client accepts, the
// agent is told.
func TestAcceptedOutputModesArePassedOn(t *testing.T) {
	eachBinding(t, operations{opSend}, func(t *testing.T, p *peer) {
		task := p.send(text("echo x"), func(c *a2a.SendMessageConfig) { c.AcceptedOutputModes = []string{"text/plain"} })
		wantState(t, task, a2a.TaskStateCompleted)
	})
}
