package interop

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

// The extended card is for callers with a credential, so that both cards have
// security requirements. Where there is JSON, this client takes the objects of
// scopes in them for lists, and refuses the card (the protocol's
// SecurityRequirement has objects).
func TestExtendedCard(t *testing.T) {
	t.Parallel()
	address := os.Getenv(signed)
	const refusal = "cannot unmarshal object into Go struct field"
	if _, err := agentcard.DefaultResolver.Resolve(t.Context(), address); err == nil || !strings.Contains(err.Error(), refusal) {
		t.Fatalf("the error is %v; the client can read security requirements now", err)
	}
	response, err := http.Get(address + ".well-known/agent-card.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var card struct {
		SupportedInterfaces []*a2a.AgentInterface `json:"supportedInterfaces"`
	}
	if err := json.NewDecoder(response.Body).Decode(&card); err != nil {
		t.Fatal(err)
	}
	ctx := a2aclient.AttachServiceParams(t.Context(), a2aclient.ServiceParams{"Authorization": {os.Getenv("AUTHORIZATION")}})
	for _, i := range card.SupportedInterfaces {
		t.Run(string(i.ProtocolBinding), func(t *testing.T) {
			r := record(t, i.ProtocolBinding, operations{opExtended})
			client, err := a2aclient.NewFromEndpoints(t.Context(), []*a2a.AgentInterface{i}, grpcTransport)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
			if i.ProtocolBinding == a2a.TransportProtocolJSONRPC {
				if err == nil || !strings.Contains(err.Error(), "401 Unauthorized") {
					t.Errorf("without a credential the error is %v", err)
				}
			} else {
				wantError(t, err, a2a.ErrUnauthenticated)
			}
			extended, err := client.GetExtendedAgentCard(ctx, &a2a.GetExtendedAgentCardRequest{})
			if i.ProtocolBinding != a2a.TransportProtocolGRPC {
				r.Limit = "read a card that has security requirements as JSON: it takes their objects of scopes for lists"
				if err == nil || !strings.Contains(err.Error(), refusal) {
					t.Errorf("the error is %v; the client can read security requirements now", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if extended.Name != "Fixture" || len(extended.Skills) != 2 || len(extended.Signatures) == 0 {
				t.Errorf("the extended card is %+v", extended)
			}
		})
	}
}

// A client that has the card refuses by itself, with an error of its own
// choice. One without a card asks the server.
func TestExtendedCardIsNotSupported(t *testing.T) {
	eachBinding(t, operations{opErrors}, func(t *testing.T, p *peer) {
		_, err := p.GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
		wantError(t, err, a2a.ErrExtendedCardNotConfigured)
		_, err = p.bare().GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
		wantError(t, err, a2a.ErrUnsupportedOperation)
	})
}
