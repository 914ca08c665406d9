package handoff_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/card"
)

const pushing = `
public_url: http://127.0.0.1:1
store: sqlite:tasks.db
outbound: {allow: [127.0.0.1]}
agents:
  echo:
    name: Echo
    description: Echoes.
    version: 1.0.0
    skills: [{id: a, name: A, description: Echoes., tags: [x]}]
    run: {script: [{do: [{complete: "{{.Text}}"}]}]}
`

// TestANodePushes sends a message that brings a webhook to a node that signs, and
// verifies what comes with the keys that the node serves.
func TestANodePushes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	key, err := card.GenerateSigningKey("ES256")
	if err != nil {
		t.Fatal(err)
	}
	pem, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "key.pem"), pem, 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, filepath.Join(folder, "handoff.yaml"), pushing+"signing: {keys: [{file: key.pem}]}\nwebhooks: {sign: true}\n")
	node, err := handoff.New(c, handoff.Options{Version: "v9", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(node)
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := node.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	type pushed struct {
		header http.Header
		body   []byte
	}
	got := make(chan pushed, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- pushed{r.Header, body}
	}))
	t.Cleanup(receiver.Close)
	published, err := client.Discover(t.Context(), server.URL+"/agents/echo/", client.Options{})
	if err == nil && (published.Capabilities.PushNotifications == nil || !*published.Capabilities.PushNotifications) {
		t.Error("the card does not say that the agent pushes")
	}
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/agents/echo/v1/message:send", strings.NewReader(
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"taskPushNotificationConfig":{"url":"`+receiver.URL+`"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("A2A-Version", "1.0")
	request.Header.Set("Content-Type", "application/json")
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", response.StatusCode, answer)
	}
	var last pushed
	for _, state := range []string{"TASK_STATE_WORKING", "TASK_STATE_COMPLETED"} {
		select {
		case last = <-got:
			var event a2a.StreamResponse
			if err := a2a.Unmarshal(last.body, &event); err != nil || event.StatusUpdate == nil || event.StatusUpdate.Status.State.String() != state {
				t.Errorf("not %s but %s", state, last.body)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s was not pushed", state)
		}
	}
	response, err = server.Client().Get(server.URL + "/.well-known/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	document, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal(document, &keys); err != nil {
		t.Fatalf("%v: %s", err, document)
	}
	jws, err := jose.ParseSignedCompact(last.header.Get("X-A2A-Notification-JWT"), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	known := keys.Key(jws.Signatures[0].Header.KeyID)
	if len(known) != 1 {
		t.Fatalf("the key %q is not served: %s", jws.Signatures[0].Header.KeyID, document)
	}
	payload, err := jws.Verify(known[0])
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(last.body)
	if !strings.Contains(string(payload), hex.EncodeToString(digest[:])) || !strings.Contains(string(payload), `"iss":"http://127.0.0.1:1"`) {
		t.Errorf("the claims are %s", payload)
	}
}

func TestRow86_ANodeThatDoesNotPushSaysSo(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"node":  pushing + "webhooks: {enabled: false}\n",
		"agent": strings.Replace(pushing, "    version: 1.0.0\n", "    version: 1.0.0\n    push_notifications: false\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := load(t, filepath.Join(t.TempDir(), "handoff.yaml"), text)
			node, err := handoff.New(c, handoff.Options{Version: "v9", Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(node)
			t.Cleanup(func() {
				server.Close()
				if err := node.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
			for path, want := range map[string]string{
				"/agents/echo/.well-known/agent-card.json":        `"pushNotifications":false`,
				"/agents/echo/v1/tasks/x/pushNotificationConfigs": "PUSH_NOTIFICATION_NOT_SUPPORTED",
			} {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("A2A-Version", "1.0")
				response, err := server.Client().Do(request)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if !strings.Contains(string(body), want) {
					t.Errorf("%s: %s", path, body)
				}
			}
		})
	}
}
