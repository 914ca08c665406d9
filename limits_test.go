package handoff_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/agent"
)

// newLimited returns a node whose agent asks, with limits.
func newLimited(t *testing.T, limits string) *relations {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(adminPassword), 10)
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, filepath.Join(t.TempDir(), "handoff.yaml"), `
store: sqlite:tasks.db
callers: {keys: true, basic: [{user: root, password_hash: "`+string(hash)+`", role: admin}]}
audit: {content: true}
limits: `+limits+`
`)
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	card := handoff.NewCard("Desk", "Asks.", "1.0.0", handoff.Skill{ID: "a", Name: "A", Description: "A.", Tags: []string{"x"}})
	if err := node.Handle("desk", card, func(_ context.Context, turn *agent.Turn) error { return turn.Ask("What?", nil) }); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(node)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(server.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Close()
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	m := &relations{t: t, url: server.URL, conn: conn, callers: map[string]string{}, methods: pb.File_a2av1_proto.Services().ByName("A2AService").Methods()}
	g := &guarded{url: m.url}
	for _, name := range []string{"ann", "ben"} {
		m.callers[name], _ = g.key(t, `{"subject":"`+name+`"}`)
	}
	return m
}

// refused fails the test unless the answer says that a limit is reached, and when
// to try again.
func (m *relations) refused(binding, limit string, a matrixAnswer) {
	m.t.Helper()
	want := map[string][]string{
		"JSON-RPC":  {"429", `"code":-31429`},
		"HTTP+JSON": {"429", `"RESOURCE_EXHAUSTED"`},
		"gRPC":      {"ResourceExhausted", "google.rpc.RetryInfo"},
	}[binding]
	if a.code != want[0] || !strings.Contains(a.body, want[1]) || !strings.Contains(a.body, limit) || binding != "gRPC" && !strings.Contains(a.headers, "Retry-After: ") {
		m.t.Errorf("%s is refused for %s with %s", binding, limit, a)
	}
}

// A caller that reaches its limits is told so in every binding, and others are not
// held up.
func TestRowS14_LimitsOfCallers(t *testing.T) {
	t.Parallel()
	const send = `{"message":{"messageId":"MESSAGE","role":"ROLE_USER","parts":[{"text":"hello"}]}}`
	for limit, config := range map[string]string{
		"requests":     `{roles: {caller: {requests_per_second: 1, request_burst: 2}}}`,
		"open_tasks":   `{open_tasks: 2, requests_per_second: 0}`,
		"parked_tasks": `{parked_tasks: 2, requests_per_second: 0}`,
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			m := newLimited(t, config)
			for range 2 {
				if a := m.call("HTTP+JSON", "SendMessage", "ann", m.fill(send, "")); a.code != "200" {
					t.Fatalf("within the limit: %s", a)
				}
			}
			for _, binding := range matrixBindings[:3] {
				m.refused(binding, limit, m.call(binding, "SendMessage", "ann", m.fill(send, "")))
			}
			if a := m.call("HTTP+JSON", "SendMessage", "ben", m.fill(send, "")); a.code != "200" {
				t.Errorf("somebody else: %s", a)
			}
			m.callers["root"] = ""
			a := m.http("root", http.MethodGet, "/api/v1/metrics", "", "Authorization", basicOf("root", adminPassword))
			if !strings.Contains(a.body, `handoff_limited_total{limit="`+limit+`"} 3`) {
				t.Errorf("the metrics do not count three refusals for %s", limit)
			}
			m.recorded(limit)
		})
	}
}

// recorded checks what the audit log has of two tasks of ann and one of ben.
func (m *relations) recorded(limit string) {
	m.t.Helper()
	a := m.http("root", http.MethodGet, "/api/v1/audit?subject=ann", "", "Authorization", basicOf("root", adminPassword))
	var page struct {
		Entries []struct {
			Subject, Key, Operation, Binding, Agent, Task, Context, Address, Result string
			Content                                                                 struct{ MessageID string }
		}
	}
	if err := json.Unmarshal([]byte(a.body), &page); err != nil {
		m.t.Fatal(err)
	}
	want := 5 // those that were refused too
	if limit == "requests" {
		want = 2 // whoever calls too often cannot fill the log
	}
	if len(page.Entries) != want {
		m.t.Fatalf("%d entries, want %d: %s", len(page.Entries), want, a)
	}
	for i, e := range page.Entries {
		ok := e.Result == "OK" && e.Task != "" && e.Context != "" && e.Content.MessageID != ""
		if i >= 2 {
			ok = e.Result == "ResourceExhaustedError" && e.Task == ""
		}
		if !ok || e.Subject != "ann" || e.Key == "" || e.Operation != "SendMessage" || e.Agent != "desk" || e.Address != "127.0.0.1" {
			m.t.Errorf("entry %d is %+v", i, e)
		}
	}
}
