package handoff_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
)

// site is where a node of a chain is. Its address is known before the node is
// there.
type site struct {
	t    *testing.T
	url  string
	node *handoff.Node
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.node.ServeHTTP(w, r) }))
	s.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.node.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// begin makes the node, with the agents of a configuration and those that add
// gives it.
func (s *site) begin(peers map[string]*handoff.Peer, agents map[string]*config.Agent, add func(*handoff.Node) error) *site {
	s.t.Helper()
	cfg := handoff.DefaultConfig()
	cfg.Store = "sqlite:" + filepath.Join(s.t.TempDir(), "tasks.db")
	if cfg.Peers = peers; agents != nil {
		cfg.Agents = agents
	}
	var err error
	if s.node, err = handoff.New(cfg, handoff.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		s.t.Fatal(err)
	}
	if add != nil {
		if err := add(s.node); err != nil {
			s.t.Fatal(err)
		}
	}
	return s
}

// as is one peer: an agent of the site.
func (s *site) as(name, agent string) map[string]*handoff.Peer {
	return map[string]*handoff.Peer{name: impatient(s.url + "/agents/" + agent + "/")}
}

// relay is an agent that hands on everything.
func relay(to string) map[string]*config.Agent {
	front := handoff.NewCard("Front", "Hands on.", "1.0.0", handoff.Skill{ID: "x", Name: "X", Description: "Does x.", Tags: []string{"x"}})
	front.Run.Relay, front.Grants = to, config.GrantsCaller
	return map[string]*config.Agent{"front": &front}
}

func impatient(card string) *handoff.Peer {
	p := handoff.NewPeer(card)
	p.Poll.Min, p.Poll.Max, p.Quiet = config.Duration(100*time.Millisecond), config.Duration(time.Second), config.Duration(time.Second)
	return p
}

// A question and a request for an authorization come up three hops, and the
// answers go down again.
func TestThreeHops(t *testing.T) {
	t.Parallel()
	var granted *string
	last := newSite(t).begin(nil, nil, func(n *handoff.Node) error {
		card := handoff.NewCard("Quotes", "Quotes orders.", "1.0.0", handoff.Skill{ID: "x", Name: "X", Description: "Does x.", Tags: []string{"x"}})
		card.Grants = config.GrantsCaller
		return n.Handle("quote", card, func(_ context.Context, turn *handoff.Turn) error {
			switch {
			case turn.Grant != nil && turn.Grant.Approved:
				granted = &turn.Grant.Note
				return turn.Artifact(a2a.Text("posted"))
			case turn.Grant != nil:
				return turn.Reject("not authorized")
			case turn.Number == 1:
				return turn.Ask("Incoterm?", a2a.JSON(`{"type":"string"}`))
			}
			return turn.Authorize("Post the invoice of "+turn.Text()+"?", "post-invoice")
		})
	})
	middle := newSite(t).begin(last.as("quotes", "quote"), relay("quotes"), nil)
	upper := newSite(t).begin(middle.as("middle", "front"), relay("middle"), nil)
	top := newSite(t).begin(upper.as("upper", "front"), nil, nil)

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	order, err := top.node.Delegate(ctx, handoff.Delegation{To: "upper", Ref: "PO-1", Message: client.NewMessage(a2a.Text("bolts"))})
	if err != nil {
		t.Fatal(err)
	}
	task, err := order.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if m := task.Status.Message; task.Status.State != a2a.StateInputRequired || m.Parts[0].Text != "Incoterm?" || len(m.Parts) != 2 {
		t.Fatalf("it asks %s", task.AppendJSON(nil))
	}
	if err := order.Send(ctx, a2a.Text("DAP")); err != nil {
		t.Fatal(err)
	}
	if task, err = order.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if m := task.Status.Message; task.Status.State != a2a.StateAuthRequired || m.Parts[0].Text != "Post the invoice of DAP?" {
		t.Fatalf("it asks %s", task.AppendJSON(nil))
	}
	request, err := a2a.GrantRequestOf(task.Status.Message.Metadata)
	if err != nil || request == nil || request.Operation != "post-invoice" {
		t.Fatalf("the request is %+v, %v: %s", request, err, task.Status.Message.Metadata)
	}
	if err := top.node.Grant(ctx, &handoff.Decision{Grant: request.ID, Approved: true, Note: "by the book", By: "bob"}); err != nil {
		t.Fatal(err)
	}
	if task, err = order.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if task.Status.State != a2a.StateCompleted || len(task.Artifacts) != 1 || task.Artifacts[0].Parts[0].Text != "posted" {
		t.Fatalf("it ends as %s", task.AppendJSON(nil))
	}
	if granted == nil || *granted != "by the book" {
		t.Errorf("the last hop was granted %v", granted)
	}
}

// A chain that comes back to itself is refused, and the agents above hear why.
func TestALoopIsRefused_Row141(t *testing.T) {
	t.Parallel()
	var tasks atomic.Int32
	handOn := func(to string) func(*handoff.Node) error {
		card := handoff.NewCard("Work", "Hands on.", "1.0.0", handoff.Skill{ID: "x", Name: "X", Description: "Does x.", Tags: []string{"x"}})
		return func(n *handoff.Node) error {
			return n.Handle("clerk", card, func(_ context.Context, turn *handoff.Turn) error {
				if turn.Outcome != nil {
					return turn.Fail("handed on in vain: " + turn.Outcome.Task.Status.Message.Text())
				}
				tasks.Add(1)
				return turn.Delegate(to, a2a.Text("x"))
			})
		}
	}
	a, b := newSite(t), newSite(t)
	a.begin(b.as("b", "clerk"), nil, handOn("b"))
	b.begin(a.as("a", "clerk"), nil, handOn("a"))
	c, err := client.Dial(t.Context(), a.url+"/agents/clerk/", client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("x"))})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Task.Status.State != a2a.StateFailed || !strings.Contains(answer.Task.Status.Message.Text(), "loop") {
		t.Errorf("it is %s", answer.Task.AppendJSON(nil))
	}
	if n := tasks.Load(); n != 2 {
		t.Errorf("%d agents were at work", n)
	}
}

// Row 137 (c): who cancels at the top reaches the last hop.
func TestACancelGoesDown_Row137(t *testing.T) {
	t.Parallel()
	began, canceled := make(chan struct{}), make(chan struct{})
	last := newSite(t).begin(nil, nil, func(n *handoff.Node) error {
		card := handoff.NewCard("Slow", "Takes long.", "1.0.0", handoff.Skill{ID: "x", Name: "X", Description: "Does x.", Tags: []string{"x"}})
		return n.Handle("slow", card, func(ctx context.Context, turn *handoff.Turn) error {
			if err := turn.Working("begun"); err != nil {
				return err
			}
			close(began)
			<-ctx.Done()
			close(canceled)
			return ctx.Err()
		})
	})
	middle := newSite(t).begin(last.as("slow", "slow"), relay("slow"), nil)
	top := newSite(t).begin(middle.as("middle", "front"), nil, nil)
	order, err := top.node.Delegate(t.Context(), handoff.Delegation{To: "middle", Message: client.NewMessage(a2a.Text("x"))})
	if err != nil {
		t.Fatal(err)
	}
	await := func(what string, c <-chan struct{}, limit time.Duration) {
		select {
		case <-c:
		case <-time.After(limit):
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
	await("the last hop begins", began, 20*time.Second)
	if err := order.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	await("the last hop is canceled", canceled, 10*time.Second)
}
