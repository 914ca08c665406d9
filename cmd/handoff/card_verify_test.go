package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/internal/card"
)

// A served card is verified over the bytes that came, with the keys that its
// signature names.
func TestVerifyServedCard(t *testing.T) {
	t.Parallel()
	key, err := card.GenerateSigningKey("ES256")
	if err != nil {
		t.Fatal(err)
	}
	jwks, err := card.JWKS(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	var served []byte
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(served)
	})
	mux.Handle("/keys.json", card.JWKSHandler(jwks, time.Minute))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	signer, err := card.NewSigner([]*card.SigningKey{key}, server.URL+"/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	// A field that no structure has is a part of what is signed.
	signed, err := signer.Sign([]byte(`{"name":"A","description":"D","version":"1","x-note":"n",
"supportedInterfaces":[{"url":"https://a.example","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":true},
"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"s","name":"S","description":"D","tags":["t"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	verify := func(args ...string) (int, string) {
		a, stdout, stderr := newTestApp(map[string]string{"HOME": t.TempDir()})
		code := a.run(t.Context(), append([]string{"card", "verify", server.URL}, args...))
		return code, stdout.String() + stderr.String()
	}
	served = signed
	if code, out := verify("--allow-jku", server.URL); code != exitOK || !strings.Contains(out, ": verified") || !strings.Contains(out, "from "+server.URL) {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := verify("--allow-jku", "https://keys.example.com"); code != exitFailure || !strings.Contains(out, "are not allowed") {
		t.Errorf("exit %d: %s", code, out)
	}
	served = []byte(strings.Replace(string(signed), `"x-note":"n"`, `"x-note":"m"`, 1))
	file := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(file, jwks, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := verify("--jwks", file); code != exitFailure || !strings.Contains(out, "x-note") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := verify("--jwks", file, "--partial", "-o", "json"); code != exitOK || !strings.Contains(out, `"outcome": "partial"`) || !strings.Contains(out, `"x-note"`) {
		t.Errorf("exit %d: %s", code, out)
	}
	served = []byte(strings.Replace(string(signed), `"name":"A"`, `"name":"B"`, 1))
	if code, out := verify("--jwks", file, "--partial"); code != exitFailure || !strings.Contains(out, "not over this card") {
		t.Errorf("exit %d: %s", code, out)
	}
}
