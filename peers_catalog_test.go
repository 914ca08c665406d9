package handoff_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	handoff "handoff.example/handoff"
)

// nodeOf starts a node of a configuration in a directory of its own.
func nodeOf(t *testing.T, text string) (node *handoff.Node, file string, at *httptest.Server) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "handoff.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := handoff.LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	node, err = handoff.New(c, handoff.Options{Authenticator: everybody{}})
	if err != nil {
		t.Fatal(err)
	}
	at = httptest.NewServer(node)
	t.Cleanup(func() {
		at.Close()
		if err := node.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return node, file, at
}

// everybody lets everybody in as an admin.
type everybody struct{}

func (everybody) Authenticate(*http.Request) (handoff.Principal, error) {
	return handoff.Principal{Subject: "root", Role: handoff.RoleAdmin}, nil
}

func postJSON(t *testing.T, address, body string) (status int, answer string) {
	t.Helper()
	response, err := http.Post(address, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

const quoting = `agents:
  quote: {name: Quotes, description: Makes quotes., version: 1.0.0, skills: [{id: q, name: Q, description: Quotes., tags: [x]}], run: {script: [{do: [{complete: done}]}]}}
`

// A second node as a peer: its card, its interfaces, a reload, and a changed card,
// which comes into the inbox.
func TestANodeIsAPeerOfAnother(t *testing.T) {
	t.Parallel()
	_, _, at := nodeOf(t, quoting+"store: sqlite:h.db\n")
	near, file, here := nodeOf(t, "store: sqlite:h.db\nsecret_key: 0123456789abcdef0123456789abcdef\n")
	if status, text := postJSON(t, here.URL+"/api/v1/peers/supplier:check", "{}"); status != http.StatusNotFound {
		t.Fatal(status, text)
	}
	peers := fmt.Sprintf("store: sqlite:h.db\nsecret_key: 0123456789abcdef0123456789abcdef\npeers: {supplier: {card: %q, pin: true}}\n", at.URL+"/agents/quote/")
	if err := os.WriteFile(file, []byte(peers), 0o600); err != nil {
		t.Fatal(err)
	}
	changes, err := near.Reload()
	if err != nil || fmt.Sprint(changes) != "[peers.supplier: added]" {
		t.Fatal(changes, err)
	}
	status, text := postJSON(t, here.URL+"/api/v1/peers/supplier:check", "{}")
	if status != http.StatusOK || !strings.Contains(text, `"ok":true`) {
		t.Fatal(status, text)
	}
	// A configuration that cannot work changes nothing.
	if err := os.WriteFile(file, []byte(strings.Replace(peers, "pin: true", "ca: not-there.pem", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Reload(); err == nil || !strings.Contains(err.Error(), "not-there.pem") {
		t.Fatal(err)
	}
	response, err := http.Get(here.URL + "/api/v1/peers/supplier")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if !bytes.Contains(body, []byte(`"name":"Quotes"`)) || !bytes.Contains(body, []byte(`"pinned":`)) {
		t.Error(string(body))
	}
}
