package handoff_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
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
	node, err = handoff.New(c, handoff.Options{Authenticator: everybody{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	at = httptest.NewServer(node)
	t.Cleanup(func() {
		at.Close()
		if err := node.Shutdown(context.Background()); err != nil {
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

// A second node as a peer: its card and its interface, a reload, and a changed card
// (row S20), which is decided on in the inbox.
func TestANodeIsAPeerOfAnother(t *testing.T) {
	t.Parallel()
	const secret = "store: sqlite:h.db\nsecret_key: 0123456789abcdef0123456789abcdef\n"
	far, farFile, at := nodeOf(t, quoting+"store: sqlite:h.db\n")
	near, file, here := nodeOf(t, secret)
	if status, text := postJSON(t, here.URL+"/api/v1/peers/supplier:check", "{}"); status != http.StatusNotFound {
		t.Fatal(status, text)
	}
	peers := fmt.Sprintf(secret+"peers: {supplier: {card: %q, pin: true}}\n", at.URL+"/agents/quote/")
	rewriteFile(t, file, peers)
	changes, err := near.Reload()
	if err != nil || fmt.Sprint(changes) != "[peers.supplier: added]" {
		t.Fatal(changes, err)
	}
	if status, text := postJSON(t, here.URL+"/api/v1/peers/supplier:check", "{}"); status != http.StatusOK || !strings.Contains(text, `"ok":true`) {
		t.Fatal(status, text)
	}
	// A configuration that cannot work changes nothing.
	rewriteFile(t, file, strings.Replace(peers, "pin: true", "ca: not-there.pem", 1))
	if _, err := near.Reload(); err == nil || !strings.Contains(err.Error(), "not-there.pem") {
		t.Fatal(err)
	}
	if text := getText(t, here.URL+"/api/v1/peers/supplier"); !strings.Contains(text, `"name":"Quotes"`) || !strings.Contains(text, `"pinned":`) {
		t.Fatal(text)
	}
	rewriteFile(t, farFile, strings.Replace(quoting, "Makes quotes.", "Pays quotes.", 1)+"store: sqlite:h.db\n")
	if _, err := far.Reload(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if status, text := postJSON(t, here.URL+"/api/v1/peers/supplier:check", "{}"); status != http.StatusOK || !strings.Contains(text, `"name":"pin","result":"failed"`) {
			t.Fatal(status, text)
		}
	}
	var list struct {
		Items []struct{ ID, Kind, Agent, Text string }
	}
	if err := json.Unmarshal([]byte(getText(t, here.URL+"/api/v1/inbox")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Kind != "card" || list.Items[0].Agent != "supplier" || !strings.Contains(list.Items[0].Text, "description: Makes quotes. -> Pays quotes.") {
		t.Fatalf("the inbox: %+v", list)
	}
	if status, text := postJSON(t, here.URL+"/api/v1/inbox/"+list.Items[0].ID+"/decision", `{"decision":"approve"}`); status >= 300 {
		t.Fatal(status, text)
	}
	if status, text := postJSON(t, here.URL+"/api/v1/peers/supplier:check", "{}"); status != http.StatusOK || !strings.Contains(text, `"ok":true`) {
		t.Fatal(status, text)
	}
	if text := getText(t, here.URL+"/api/v1/inbox"); strings.Contains(text, list.Items[0].ID) {
		t.Error(text)
	}
}

func rewriteFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func getText(t *testing.T, address string) string {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
