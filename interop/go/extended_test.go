package interop

import (
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// A client that has the card refuses by itself, with an error of its own
// choice. One without a card asks the server.
func TestExtendedCard(t *testing.T) {
	eachBinding(t, operations{opExtended}, func(t *testing.T, p *peer) {
		if !p.card.Capabilities.ExtendedAgentCard {
			p.result.Result = notOffered
			_, err := p.GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
			wantError(t, err, a2a.ErrExtendedCardNotConfigured)
			_, err = p.bare().GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
			wantError(t, err, a2a.ErrUnsupportedOperation)
			return
		}
		card, err := p.GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if card.Name != p.card.Name || len(card.Skills) <= len(p.card.Skills) {
			t.Errorf("the extended card of %q has %d skills, the public one %d", card.Name, len(card.Skills), len(p.card.Skills))
		}
	})
}
