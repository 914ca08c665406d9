package interop

import (
	"context"
	"net/http"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

func TestUnknownTask(t *testing.T) {
	eachBinding(t, func(t *testing.T, p *peer) {
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
	eachBinding(t, func(t *testing.T, p *peer) {
		task := p.send(text("echo x"))
		_, err := p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
		wantError(t, err, a2a.ErrTaskNotCancelable)
		_, err = p.SendMessage(t.Context(), &a2a.SendMessageRequest{
			Message: a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart("more")),
		})
		wantError(t, err, a2a.ErrUnsupportedOperation)
	})
}

// A stream that is refused before its first event is answered with a plain JSON
// error. Over JSON-RPC this client does not look at the content type, finds no
// event in it, and shows an empty stream.
func TestRefusedStream(t *testing.T) {
	eachBinding(t, func(t *testing.T, p *peer) {
		want := func(err, want error) {
			t.Helper()
			if p.binding == a2a.TransportProtocolJSONRPC {
				want = errEmpty
			}
			wantError(t, err, want)
		}
		task := p.send(text("echo x"))
		_, err := firstOf(p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}))
		want(err, a2a.ErrUnsupportedOperation)
		_, err = firstOf(p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "nope"}))
		want(err, a2a.ErrTaskNotFound)
		_, err = firstOf(p.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{
			Message: a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart("more")),
		}))
		want(err, a2a.ErrUnsupportedOperation)
	})
}

func TestContextOfAnotherTask(t *testing.T) {
	eachBinding(t, func(t *testing.T, p *peer) {
		task := p.send(text("ask"))
		m := a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart("x"))
		m.ContextID = "another"
		_, err := p.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: m})
		wantInvalid(t, p, err)
		wantState(t, p.get(task.ID, nil), a2a.TaskStateInputRequired)
	})
}

func TestInvalidMessage(t *testing.T) {
	eachBinding(t, func(t *testing.T, p *peer) {
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
	t.Parallel()
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			p := dial(t, fixture, binding, a2aclient.WithCallInterceptors(otherVersion{}))
			_, err := p.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: text("echo x")})
			wantError(t, err, a2a.ErrVersionNotSupported)
			_, err = p.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "nope"})
			wantError(t, err, a2a.ErrVersionNotSupported)
		})
	}
}

func TestPushNotificationsAreNotSupported(t *testing.T) {
	eachBinding(t, func(t *testing.T, p *peer) {
		task := p.send(text("ask"))
		hook := &a2a.PushConfig{TaskID: task.ID, ID: "1", URL: "https://hooks.example.com/"}
		_, err := p.CreateTaskPushConfig(t.Context(), hook)
		wantError(t, err, a2a.ErrPushNotificationNotSupported)
		_, err = p.GetTaskPushConfig(t.Context(), &a2a.GetTaskPushConfigRequest{TaskID: task.ID, ID: "1"})
		wantError(t, err, a2a.ErrPushNotificationNotSupported)
		_, err = p.ListTaskPushConfigs(t.Context(), &a2a.ListTaskPushConfigRequest{TaskID: task.ID})
		wantError(t, err, a2a.ErrPushNotificationNotSupported)
		err = p.DeleteTaskPushConfig(t.Context(), &a2a.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: "1"})
		wantError(t, err, a2a.ErrPushNotificationNotSupported)
		_, err = p.SendMessage(t.Context(), &a2a.SendMessageRequest{
			Message: text("echo x"), Config: &a2a.SendMessageConfig{PushConfig: hook},
		})
		wantError(t, err, a2a.ErrPushNotificationNotSupported)
	})
}

// A client that has the card refuses by itself, with an error of its own
// choice. One without a card asks the server.
func TestExtendedCardIsNotSupported(t *testing.T) {
	eachBinding(t, func(t *testing.T, p *peer) {
		_, err := p.GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
		wantError(t, err, a2a.ErrExtendedCardNotConfigured)
		_, err = p.bare().GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
		wantError(t, err, a2a.ErrUnsupportedOperation)
	})
}

func TestAgentWithoutStreaming(t *testing.T) {
	t.Parallel()
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			p := dial(t, noStreaming, binding)
			// The client knows it from the card and sends a blocking message.
			events := p.stream(text("echo x"))
			if len(events) != 1 || lastState(t, events) != a2a.TaskStateCompleted {
				t.Errorf("the stream is %v, want one finished task", events)
			}
			running := p.send(text("slow 30"), immediately)
			for _, events := range []func() (a2a.Event, error){
				func() (a2a.Event, error) {
					return firstOf(p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: running.ID}))
				},
				func() (a2a.Event, error) {
					return firstOf(p.bare().SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: text("echo x")}))
				},
			} {
				_, err := events()
				if binding == a2a.TransportProtocolJSONRPC {
					wantError(t, err, errEmpty) // see TestRefusedStream
				} else {
					wantError(t, err, a2a.ErrUnsupportedOperation)
				}
			}
			if _, err := p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: running.ID}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRequiredExtension(t *testing.T) {
	t.Parallel()
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			p := dial(t, requiredExtension, binding)
			if e := p.card.Capabilities.Extensions; len(e) != 1 || e[0].URI != extensionURI || !e[0].Required {
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
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
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
	eachBinding(t, func(t *testing.T, p *peer) {
		task := p.send(text("echo x"), func(c *a2a.SendMessageConfig) { c.AcceptedOutputModes = []string{"text/plain"} })
		wantState(t, task, a2a.TaskStateCompleted)
	})
}
