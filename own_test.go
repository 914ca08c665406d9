package handoff_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// circle is a node whose agents are peers of it too, and pass on no lineage.
func circle(t *testing.T, peers map[string]string) (s *site, work map[string]*atomic.Int32) {
	t.Helper()
	s = newSite(t)
	cfg := handoff.DefaultConfig()
	cfg.Store, cfg.PublicURL = "sqlite:"+filepath.Join(t.TempDir(), "tasks.db"), s.url
	cfg.Peers = map[string]*handoff.Peer{}
	for name, address := range peers {
		cfg.Peers[name] = impatient(strings.ReplaceAll(address, "NODE", s.url))
	}
	var err error
	if s.node, err = handoff.New(cfg, handoff.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	work = map[string]*atomic.Int32{}
	for _, id := range []string{"a", "b"} {
		card := handoff.NewCard("Work", "Hands on.", "1.0.0", handoff.Skill{ID: "x", Name: "X", Description: "Does x.", Tags: []string{"x"}})
		card.Lineage = false
		n := &atomic.Int32{}
		work[id] = n
		err := s.node.Handle(id, card, func(_ context.Context, turn *handoff.Turn) error {
			switch {
			case turn.Outcome != nil && turn.Outcome.Completed():
				return turn.Artifact(a2a.Text(id + " had it done: " + turn.Outcome.Text()))
			case turn.Outcome != nil:
				return turn.Fail(turn.Outcome.Text())
			case n.Add(1) > 5:
				return turn.Fail("in a circle")
			}
			to, rest, _ := strings.Cut(turn.Text(), " ")
			if to == "done" {
				return turn.Artifact(a2a.Text("done"))
			}
			return turn.Delegate(to, a2a.Text(rest))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s, work
}

// Rows 141 and S24: a peer that is an agent of this node is not handed the work that
// this agent is at, although no lineage is passed on. Another agent of the node is.
func TestAPeerThatIsTheAgentItself(t *testing.T) {
	t.Parallel()
	s, work := circle(t, map[string]string{
		"self": "NODE/agents/a/", "card": "NODE/agents/a/.well-known/agent-card.json", "other": "NODE/agents/b/",
	})
	for text, want := range map[string]string{
		"self self self x": "The peer self is the agent a of this node, which is already at work on this above, so that this would be a loop",
		"card x":           "The peer card is the agent a of this node",
		"b self x":         "The peer self is the agent a of this node", // an ancestor
		"other done":       "a had it done: done",
	} {
		for _, n := range work {
			n.Store(0)
		}
		order, err := s.node.Delegate(t.Context(), handoff.Delegation{To: "a", Message: client.NewMessage(a2a.Text(text))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		task, err := order.Wait(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if got := string(task.AppendJSON(nil)); !strings.Contains(got, want) || work["a"].Load() != 1 {
			t.Errorf("%q: %d turns of a, %s", text, work["a"].Load(), got)
		}
	}
}

// An agent that hands everything to itself is refused by the configuration, and
// where only the node can see it, at its first message.
func TestARelayToItself(t *testing.T) {
	t.Parallel()
	var front string // the card of the agent
	const relayed = `
agents:
  front: {name: Front, description: Stands before., version: 1.0.0, lineage: false, skills: [{id: q, name: Q, description: Quotes., tags: [x]}], run: {relay: self}}
  other: {name: Other, description: Does., version: 1.0.0, skills: [{id: q, name: Q, description: Quotes., tags: [x]}], run: {script: [{do: [{complete: done}]}]}}
`
	inline := `{name: X, description: x, version: "1", capabilities: {}, defaultInputModes: [text/plain], defaultOutputModes: [text/plain], skills: [], supportedInterfaces: [{url: "%s", protocolBinding: %s, protocolVersion: "1.0"%s}]}`
	for name, c := range map[string]struct {
		head, card string
		self       bool
	}{
		"by public_url":          {"public_url: https://agents.example.com", `"https://AGENTS.example.com:443/agents/front"`, true},
		"below a path":           {"public_url: https://example.com/a2a", `"https://example.com/a2a/agents/front/"`, true},
		"by the listener":        {"listen: 127.0.0.1:8081", `"http://localhost:8081/agents/front/"`, true},
		"another agent":          {"listen: 127.0.0.1:8081", `"http://localhost:8081/agents/other/"`, false},
		"another port":           {"listen: 127.0.0.1:8081", `"http://localhost:8082/agents/front/"`, false},
		"another host":           {"public_url: https://agents.example.com", `"https://agents.example.org/agents/front/"`, false},
		"a card written out":     {"listen: 127.0.0.1:8081", fmt.Sprintf(inline, "http://127.0.0.1:8081/agents/front/jsonrpc", "JSONRPC", ""), true},
		"one over gRPC":          {"listen: 127.0.0.1:8081", fmt.Sprintf(inline, "127.0.0.1:8081", "GRPC", ", tenant: front/acme"), true},
		"another one over gRPC":  {"listen: 127.0.0.1:8081", fmt.Sprintf(inline, "127.0.0.1:8081", "GRPC", ", tenant: other"), false},
		"the agent of the house": {"listen: 127.0.0.1:8081\ndefault_agent: front", `"http://localhost:8081"`, true},
	} {
		file := filepath.Join(t.TempDir(), "handoff.yaml")
		text := c.head + "\nstore: sqlite:h.db\npeers: {self: {card: " + c.card + "}}" + relayed
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := handoff.LoadConfig(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, err = handoff.Check(cfg)
		if got := err != nil && strings.Contains(err.Error(), "which is this agent itself"); got != c.self || !c.self && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	// A card elsewhere leads to the agent: the node sees that when it has the card.
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, front)
	}))
	defer elsewhere.Close()
	peers := map[string]*handoff.Peer{"self": impatient(elsewhere.URL)}
	agents := relay("self")
	agents["front"].Lineage = false
	s := newSite(t)
	cfg := handoff.DefaultConfig()
	cfg.Store, cfg.PublicURL, cfg.Peers, cfg.Agents = "sqlite:"+filepath.Join(t.TempDir(), "tasks.db"), s.url, peers, agents
	peers["self"].Origins = []string{s.url}
	var err error
	if s.node, err = handoff.New(cfg, handoff.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	front = getText(t, s.url+"/agents/front/.well-known/agent-card.json")
	order, err := s.node.Delegate(t.Context(), handoff.Delegation{To: "front", Message: client.NewMessage(a2a.Text("x"))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	task, err := order.Wait(ctx)
	if err != nil || task.Status.State != a2a.StateFailed || !strings.Contains(task.Status.Message.Text(), "is this agent itself") {
		t.Errorf("it is %s, %v", task.AppendJSON(nil), err)
	}
}
