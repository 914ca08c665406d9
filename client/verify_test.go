package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

const strangeCard = `{"x-unknown":[1.50],"name":"Signed","description":"D.","version":"1","defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],` +
	`"supportedInterfaces":[{"url":"https://agent.test","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"extendedAgentCard":true},` +
	`"skills":[{"id":"s","name":"S","description":"S.","tags":["x"]}]}`

var errForged = errors.New("forged")

// Cards are verified as they came, wherever from, and what is relied on is what
// the verifier returns.
func TestVerifyCard(t *testing.T) {
	t.Parallel()
	server := newCardServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = io.WriteString(w, strangeCard)
	})
	file := filepath.Join(t.TempDir(), "card.json")
	if err := os.WriteFile(file, []byte(strangeCard), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen []string
	opts := client.Options{Cards: &client.CardCache{}, VerifyCard: func(_ context.Context, card []byte) ([]byte, error) {
		seen = append(seen, string(card))
		return []byte(strings.Replace(string(card), "Signed", "Covered", 1)), nil
	}}
	for i, ref := range []string{server.URL, server.URL, file} { // the second is in the cache
		card, err := client.Discover(t.Context(), ref, opts)
		if err != nil || card.Name != "Covered" {
			t.Errorf("%s: %+v %v", ref, card, err)
		}
		if len(seen) != i+1 || seen[i] != strangeCard {
			t.Errorf("%s: verified %q", ref, seen)
		}
	}
	if len(server.paths) != 1 {
		t.Errorf("asked for %v", server.paths)
	}
	opts.VerifyCard = func(context.Context, []byte) ([]byte, error) { return nil, errForged }
	for _, ref := range []string{server.URL, file} {
		_, err := client.Discover(t.Context(), ref, opts)
		if _, ok := errors.AsType[*client.CardError](err); !ok || !errors.Is(err, errForged) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

func TestVerifyExtendedCard(t *testing.T) {
	t.Parallel()
	server := newCardServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, strangeCard)
			return
		}
		var q struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, strangeCard)
	})
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST} {
		var seen string
		opts := client.Options{VerifyCard: func(_ context.Context, card []byte) ([]byte, error) {
			seen = string(card)
			return card, nil
		}}
		for _, refuse := range []bool{false, true} {
			if refuse {
				opts.VerifyCard = func(context.Context, []byte) ([]byte, error) { return nil, errForged }
			}
			c, err := client.New(newCard(binding, server.URL), opts)
			if err != nil {
				t.Fatal(err)
			}
			card, err := c.GetExtendedAgentCard(t.Context())
			if refuse {
				if card != nil || !errors.Is(err, errForged) {
					t.Errorf("%s: %+v %v", binding, card, err)
				}
			} else if err != nil || card.Name != "Signed" || seen != strangeCard {
				t.Errorf("%s: %+v %v: verified %s", binding, card, err, seen)
			}
		}
	}
}
