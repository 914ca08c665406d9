package handoff_test

import (
	"fmt"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// Row 123: an agent that stands before another one has a card of its own. It names
// no address of the other, keeps the order of the interfaces, and carries no
// signature of somebody else's card.
func TestTheCardOfARelayNamesNothingOfThePeer(t *testing.T) {
	t.Parallel()
	_, _, far := nodeOf(t, quoting+"store: sqlite:h.db\n")
	_, _, near := nodeOf(t, fmt.Sprintf(`store: sqlite:h.db
secret_key: 0123456789abcdef0123456789abcdef
peers: {supplier: {card: %q}}
agents:
  front: {name: Front, description: Stands before., version: 1.0.0, tenants: [acme], skills: [{id: q, name: Q, description: Quotes., tags: [x]}], run: {relay: supplier}}
`, far.URL+"/agents/quote/"))
	for _, tenant := range []string{"", "t/acme/"} {
		text := getText(t, near.URL+"/agents/front/"+tenant+".well-known/agent-card.json")
		if strings.Contains(text, far.URL) || strings.Contains(text, `"signatures"`) {
			t.Errorf("the card %s", text)
		}
		card, err := client.ParseCard([]byte(text), "front")
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range card.SupportedInterfaces {
			if f.ProtocolBinding == a2a.BindingGRPC {
				continue // a host and a port, and another kind of tenant
			}
			if !strings.HasPrefix(f.URL, near.URL+"/agents/front/") || (f.Tenant == "acme") != (tenant != "") {
				t.Errorf("interface %d: %+v", i, f)
			}
		}
		if len(card.SupportedInterfaces) < 2 || card.SupportedInterfaces[0].ProtocolBinding != a2a.BindingJSONRPC {
			t.Errorf("interfaces %+v", card.SupportedInterfaces)
		}
	}
	// And the other agent does the work.
	c, err := client.Dial(t.Context(), near.URL+"/agents/front/", client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{MessageID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("hello")}}})
	if err != nil || got.Task == nil || got.Task.Status.State != a2a.StateCompleted {
		t.Errorf("%+v, %v", got, err)
	}
}
