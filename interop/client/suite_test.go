package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// testCase is something that is tried with every agent on every binding.
type testCase struct {
	name  string
	shows string // operations, which are rows of the table in docs/interop.md
	run   func(ctx context.Context, s *session) error
}

// session is a client of an agent, for one case.
type session struct {
	t       *testing.T
	agent   *agent
	binding string
	proxy   *proxy
	node    *node          // that hands work to it
	card    *a2a.AgentCard // its interfaces are behind the proxy
	*client.Client
}

// limit is what a peer cannot do. The case fails when it can.
type limit struct {
	peer, binding string // no binding: all
	testCase      string
	says          string // an expression that the error matches which the case ends with
	what          string // for the table
}

func TestClient(t *testing.T) {
	t.Parallel()
	for _, p := range peers() {
		t.Run(p.id, func(t *testing.T) {
			t.Parallel()
			// In the memory of 0.3, every stream of a task adds its artifacts again.
			a := newAgent(t, p, false)
			n := newNode(t)
			for _, binding := range p.bindings {
				t.Run(short[binding], func(t *testing.T) {
					t.Parallel()
					for _, c := range slices.Concat(taskCases, streamCases, pushCases, errorCases, ledgerCases) {
						t.Run(c.name, func(t *testing.T) {
							t.Parallel()
							try(t, a, n, binding, c)
						})
					}
					for _, c := range slices.Concat(restartCases, ledgerRestartCases) {
						t.Run(c.name, func(t *testing.T) {
							t.Parallel()
							try(t, newAgent(t, p, true), n, binding, c)
						})
					}
				})
			}
		})
	}
}

var short = map[string]string{a2a.BindingJSONRPC: "JSON-RPC", a2a.BindingREST: "HTTP+JSON", a2a.BindingGRPC: "gRPC"}

// try runs a case and records what it has shown.
func try(t *testing.T, a *agent, n *node, binding string, c testCase) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := dial(ctx, t, a, binding)
	s.node = n
	err := c.run(ctx, s)
	r := result{SDK: a.peer.sdk, Binding: binding, Operations: strings.Fields(c.shows), Case: c.name, Result: "pass"}
	known := slices.IndexFunc(limits, func(l limit) bool {
		return l.peer == a.peer.id && (l.binding == "" || l.binding == binding) && l.testCase == c.name
	})
	switch {
	case known < 0 && err != nil:
		r.Result = "fail"
		t.Error(err)
	case known >= 0 && err == nil:
		r.Result = "fail"
		t.Errorf("it works now: %s", limits[known].what)
	case known >= 0 && !regexp.MustCompile(limits[known].says).MatchString(err.Error()):
		r.Result = "fail"
		t.Errorf("it fails otherwise than known: %v", err)
	case known >= 0:
		r.Result, r.Limit = "cannot", limits[known].what
	}
	r.write(t)
}

// dial finds the agent and connects to it through a proxy.
func dial(ctx context.Context, t *testing.T, a *agent, binding string) *session {
	t.Helper()
	card, err := client.Discover(ctx, a.card(), client.Options{})
	if err != nil {
		t.Fatalf("discover: %v", err)
	}
	direct, target := a.http, a.http
	if binding == a2a.BindingGRPC {
		direct, target = a.grpc, a.grpc
	}
	s := &session{t: t, agent: a, binding: binding, proxy: newProxy(t, target)}
	behind := *card
	behind.SupportedInterfaces = nil
	for _, f := range card.SupportedInterfaces {
		if f.ProtocolBinding == binding {
			f.URL = strings.Replace(f.URL, direct, s.proxy.address(), 1)
			behind.SupportedInterfaces = append(behind.SupportedInterfaces, f)
		}
	}
	s.card = &behind
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	s.Client, err = client.New(s.card, client.Options{HTTPClient: &http.Client{Transport: transport}, IdleTimeout: 20 * time.Second})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return s
}

// sent returns an error unless the client has sent so many messages. It ends the
// connection.
func (s *session) sent(want int) error {
	if got := s.proxy.sent(); got != want {
		return fmt.Errorf("%d messages were sent, want %d", got, want)
	}
	return nil
}

// result is what a case has shown, one line of the file that RESULTS names.
type result struct {
	SDK        string   `json:"sdk"`
	Binding    string   `json:"binding"`
	Operations []string `json:"operations"`
	Case       string   `json:"case"`
	Result     string   `json:"result"`
	Limit      string   `json:"limit,omitzero"`
}

func (r *result) write(t *testing.T) {
	t.Helper()
	path := os.Getenv("RESULTS")
	if path == "" {
		return // one works on the suite by hand
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
}
