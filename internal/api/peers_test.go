package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/peer"
	"handoff.example/handoff/internal/store"
)

// cardOfSupplier is a card whose texts are hostile; %s is the address.
const cardOfSupplier = `{"name":"<b>Supplier</b>\u001b[31m","description":"Sells.\u202e","version":"1","supportedInterfaces":[{"url":"%s/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
"capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"sell","name":"Sell","description":"Sells.","tags":["x"]}]}`

// newPeers returns a directory with the peers supplier and people, and with added
// and removed, which were added.
func newPeers(t *testing.T, kept store.Peers) *peer.Directory {
	t.Helper()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, cardOfSupplier, "http://"+r.Host)
			return
		}
		var q struct{ ID any }
		_ = json.UnmarshalRead(r.Body, &q, json.MatchCaseInsensitiveNames(true))
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"error":{"code":-32001,"message":"no such task"}}`, q.ID)
	}))
	t.Cleanup(agent.Close)
	c, err := config.Parse(fmt.Appendf(nil, `peers:
  supplier: {card: "%[1]s"}
  people: {card: "%[1]s", auth: {oauth2: {flow: authorization_code, per_user: true, client_id: node, token_url: "https://sso.example/token", authorization_url: "https://sso.example/authorize"}}}
  shared: {card: "%[1]s", auth: {oauth2: {flow: authorization_code, client_id: node, token_url: "https://sso.example/token", authorization_url: "https://sso.example/authorize"}}}
`, agent.URL), "")
	if err != nil {
		t.Fatal(err)
	}
	d := peer.New(peer.Options{
		Store: kept, Guard: netguard.New(netguard.Policy{}), Sealer: sealer{}, Logger: slog.New(slog.DiscardHandler),
		BaseURL: func() string { return "https://agents.example.com" },
	})
	set, err := d.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	d.Use(set)
	for _, name := range []string{"added", "removed"} {
		if _, err := d.Add(t.Context(), name, fmt.Appendf(nil, `{"card":"%s"}`, agent.URL)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	return d
}

func TestPeersOfTheAPI(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	const added = `{"name":"bank","config":{"card":"https://bank.example/?token=in-the-query","auth":{"bearer":"a-secret"}}}`
	n.call("POST", "/peers", "operator//op", added).want(http.StatusForbidden)
	n.call("POST", "/peers", "admin/acme/root", added).want(http.StatusForbidden)
	got := string(n.call("POST", "/peers", "admin//root", added).want(http.StatusOK).body)
	if strings.Contains(got, "a-secret") || strings.Contains(got, "in-the-query") || !strings.Contains(got, `"credentials":["bearer"]`) {
		t.Error(got)
	}
	n.call("GET", "/peers", "caller//alice", "").want(http.StatusForbidden)
	var list struct{ Peers []struct{ Name string } }
	n.call("GET", "/peers", "operator//op", "").want(http.StatusOK).decode(&list)
	if fmt.Sprint(list.Peers) != "[{added} {bank} {people} {removed} {shared} {supplier}]" {
		t.Error(list.Peers)
	}
	var check struct {
		OK    bool
		Steps []struct{ Name, Result, Detail string }
	}
	n.call("POST", "/peers/supplier:check", "operator//op", "").want(http.StatusOK).decode(&check)
	if !check.OK || len(check.Steps) != 6 {
		t.Error(check)
	}
	got = string(n.call("GET", "/peers/supplier", "operator//op", "").want(http.StatusOK).body)
	// Row S20: no control characters; HTML stays text, and this is JSON.
	if !strings.Contains(got, `"name":"<b>Supplier</b>[31m"`) || strings.Contains(got, `\u001b`) || strings.Contains(got, "\u202e") {
		t.Error(got)
	}
	for body, status := range map[string]int{
		`{"name":"supplier","config":{"card":"https://x.example/"}}`: http.StatusBadRequest, // of the file
		`{"name":"x","config":{"card":"file:/etc/passwd"}}`:          http.StatusBadRequest,
		`{"name":"x","config":{}}`:                                   http.StatusBadRequest,
		`{"name":"x"}`:                                               http.StatusBadRequest,
		`{"config":{"card":"https://x.example/"}}`:                   http.StatusBadRequest,
	} {
		n.call("POST", "/peers", "admin//root", body).want(status)
	}
	// What a peer answers is no answer of ours.
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer closed.Close()
	n.call("POST", "/peers", "admin//root", `{"name":"closed","config":{"card":"`+closed.URL+`"}}`).want(http.StatusOK)
	n.call("POST", "/peers/closed:pin", "admin//root", "").want(http.StatusBadRequest)
	n.call("POST", "/peers/supplier:pin", "admin//root", `{"digest":"another"}`).want(http.StatusBadRequest)
	n.call("DELETE", "/peers/supplier", "admin//root", "").want(http.StatusBadRequest)
	n.call("DELETE", "/peers/bank", "admin//root", "").want(http.StatusNoContent)
	n.call("GET", "/peers/bank", "operator//op", "").want(http.StatusNotFound)
}

func TestWhoMayLogInToAPeer(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.call("POST", "/peers/people:login", "caller/acme/alice", "").want(http.StatusOK)
	n.call("POST", "/peers/people:login", "caller//", "").want(http.StatusForbidden)
	n.call("POST", "/peers/shared:login", "caller/acme/alice", "").want(http.StatusForbidden)
	n.call("POST", "/peers/shared:login", "operator/acme/op", "").want(http.StatusForbidden)
	n.call("POST", "/peers/shared:login", "operator//op", "").want(http.StatusOK)
	n.call("POST", "/peers/supplier:login", "operator//op", "").want(http.StatusBadRequest)
}
