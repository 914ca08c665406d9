package client_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// nobody returns the address of a port where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// joined returns a card with the interfaces of all those, each with a tenant.
func joined(cards ...*a2a.AgentCard) *a2a.AgentCard {
	card := newCard("", "")
	card.SupportedInterfaces = nil
	for i, c := range cards {
		f := c.SupportedInterfaces[0]
		f.Tenant = string(rune('a' + i))
		card.SupportedInterfaces = append(card.SupportedInterfaces, f)
	}
	return card
}

func newClient(t *testing.T, card *a2a.AgentCard, opts client.Options) *client.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	opts.HTTPClient = &http.Client{Transport: transport}
	c, err := client.New(card, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Another interface of the card is taken only by choice, and only when no
// connection could be made.
func TestFallback(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		var tenants []any
		p := newPeer(t, binding, func(x *exchange) {
			tenants = append(tenants, x.params["tenant"])
			x.result(taskEvent("t-1", "TASK_STATE_COMPLETED"))
		})
		dead := newCard(a2a.BindingJSONRPC, nobody(t))
		card := joined(dead, p.card)

		_, err := newClient(t, card, client.Options{}).SendMessage(t.Context(), hello())
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindConnect || e.Sent || p.seen() != "" {
			t.Errorf("without the option: %v after %s", err, p.seen())
		}
		c := newClient(t, card, client.Options{Fallback: true})
		for range 2 {
			if _, err := c.SendMessage(t.Context(), hello()); err != nil {
				t.Error(err)
			}
		}
		if got := c.Interface(); got.Tenant != "b" || got.ProtocolBinding != binding {
			t.Errorf("interface %+v", got)
		}
		if len(tenants) != 2 || binding != a2a.BindingREST && tenants[0] != "b" {
			t.Errorf("tenants %v", tenants)
		}
		if _, err := newClient(t, card, client.Options{Fallback: true}).SendStreamingMessage(t.Context(), hello()); err != nil {
			t.Errorf("stream: %v", err)
		}
		_, err = newClient(t, joined(dead, newCard(binding, nobody(t))), client.Options{Fallback: true}).SendMessage(t.Context(), hello())
		if e, ok := errors.AsType[*client.TransportError](err); !ok || !strings.HasPrefix(e.URL, dead.SupportedInterfaces[0].URL) {
			t.Errorf("nobody anywhere: %v", err)
		}
	})
}

// What may have been sent is not sent again.
func TestNoFallbackAfterTheRequest(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		first := newPeer(t, binding, func(x *exchange) { x.cut() })
		second := newPeer(t, binding, func(x *exchange) { x.result(agentMessage) })
		c := newClient(t, joined(first.card, second.card), client.Options{Fallback: true})
		_, err := c.SendMessage(t.Context(), hello())
		if e, ok := errors.AsType[*client.TransportError](err); !ok || !e.Sent || second.seen() != "" || first.seen() != "SendMessage" {
			t.Errorf("%v after %s and %s", err, first.seen(), second.seen())
		}
	})
}

// Credentials do not go to an interface elsewhere because the first is away.
func TestNoFallbackToAnotherOrigin(t *testing.T) {
	t.Parallel()
	p := newPeer(t, a2a.BindingJSONRPC, func(x *exchange) { x.result(agentMessage) })
	dead := newCard(a2a.BindingJSONRPC, nobody(t))
	opts := client.Options{Fallback: true, Credentials: client.Bearer("t"), CardURL: dead.SupportedInterfaces[0].URL}
	_, err := newClient(t, joined(dead, p.card), opts).SendMessage(t.Context(), hello())
	if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindConnect || p.seen() != "" {
		t.Errorf("%v after %s", err, p.seen())
	}
}

// Row 111: the card claims 1.0, and the agent speaks 0.3. With the option it is
// asked once more in 0.3, and from then on; without, its own error is the end.
func TestRow111_CardClaims10(t *testing.T) {
	t.Parallel()
	const done = `{"kind":"task","id":"T","contextId":"C","status":{"state":"completed"}}`
	s, asked := oldPeer(t, map[string]string{"message/send": `"result":` + done})
	card := newCard(a2a.BindingJSONRPC, s.URL)

	_, err := newClient(t, card, client.Options{}).SendMessage(t.Context(), hello())
	if !errors.Is(err, &a2a.Error{Code: a2a.CodeMethodNotFound}) || len(*asked) != 1 {
		t.Errorf("without the option: %v after %q", err, *asked)
	}
	*asked = nil
	c := newClient(t, card, client.Options{TryVersion03: true})
	for range 2 {
		answer, err := c.SendMessage(t.Context(), hello())
		if err != nil || answer.Task == nil || answer.Task.Status.State != a2a.StateCompleted {
			t.Errorf("%+v, %v", answer, err)
		}
	}
	var methods []string
	for _, request := range *asked {
		method, _, _ := strings.Cut(request, " ")
		methods = append(methods, method)
	}
	if got := strings.Join(methods, " "); got != "SendMessage message/send message/send" {
		t.Errorf("the agent got %s", got)
	}
}

// A task that is not there is no reason to think that the agent speaks 0.3.
func TestRow111_UnknownTask(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.fail(a2a.Errorf(a2a.CodeTaskNotFound, "no such task")) })
		err := getTask(t.Context(), newClient(t, p.card, client.Options{TryVersion03: true}))
		if !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) || p.seen() != "GetTask" {
			t.Errorf("got %v after %s", err, p.seen())
		}
	})
}

// With Version 0.3 it is 0.3 from the first request on, whatever the card claims, and
// at the interface of 0.3 where it has one.
func TestRow111_AskedFor03(t *testing.T) {
	t.Parallel()
	s, asked := oldPeer(t, map[string]string{"message/send": `"result":{"kind":"task","id":"T","contextId":"C","status":{"state":"completed"}}`})
	wrong := newCard(a2a.BindingJSONRPC, s.URL)
	both := newCard(a2a.BindingJSONRPC, nobody(t))
	both.SupportedInterfaces = append(both.SupportedInterfaces, a2a.AgentInterface{URL: s.URL, ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "0.3"})
	for name, card := range map[string]*a2a.AgentCard{"wrong": wrong, "both": both} {
		*asked = nil
		c := newClient(t, card, client.Options{Version: "0.3"})
		answer, err := c.SendMessage(t.Context(), hello())
		if err != nil || answer.Task == nil || answer.Task.Status.State != a2a.StateCompleted {
			t.Errorf("%s: %+v, %v", name, answer, err)
		}
		if len(*asked) != 1 || !strings.HasPrefix((*asked)[0], "message/send ") || !strings.Contains((*asked)[0], " 0.3 ") {
			t.Errorf("%s: the agent got %q", name, *asked)
		}
		if c.Interface().ProtocolVersion != "0.3" || card.SupportedInterfaces[0].ProtocolVersion != "1.0" {
			t.Errorf("%s: the interface is %+v", name, c.Interface())
		}
	}
}

// An agent that knows neither version says so once.
func TestRow111_NeitherVersion(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.Protocols = withH2C()
		s.Start()
		t.Cleanup(s.Close)
		_, err := newClient(t, newCard(binding, s.URL), client.Options{TryVersion03: true}).SendMessage(t.Context(), hello())
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Status != http.StatusNotFound {
			t.Errorf("got %v", err)
		}
		p := newPeer(t, binding, func(x *exchange) { x.fail(a2a.Errorf(a2a.CodeMethodNotFound, "No such method")) })
		_, err = newClient(t, p.card, client.Options{TryVersion03: true}).SendMessage(t.Context(), hello())
		if e, ok := errors.AsType[*a2a.Error](err); !ok || e.Message != "No such method" {
			t.Errorf("got %v", err)
		}
	})
}
