package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"handoff.example/handoff/a2a"
)

// programs is where the programs are, which are built once for all tests.
var programs = sync.OnceValues(func() (string, error) { return built, build(context.Background(), built, io.Discard) })

var built string // set by TestMain

func TestMain(m *testing.M) { os.Exit(inDirectory(m)) }

func inDirectory(m *testing.M) int {
	var err error
	if built, err = os.MkdirTemp("", "procurement-test"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(built)
	return m.Run()
}

// founded is a company in a directory of the test.
func founded(t *testing.T) *company {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	c, err := found(t.TempDir(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func TestStory(t *testing.T) {
	t.Parallel()
	c := founded(t)
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	var text strings.Builder
	if err := tell(ctx, &text, c); err != nil {
		t.Fatalf("%v\n%s", err, &text)
	}
	for _, want := range []string{"Incoterm? FOB or delivered?", "May it be bought on credit?", "kill -9", number + " is a draft", "There are 20 of BRG-0042 in Surabaya", number + " is posted by Dewi", "supplier: one task, COMPLETED", "finance: one task, COMPLETED"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the story does not say %q:\n%s", want, &text)
		}
	}
}

// Each process is killed with SIGKILL at every turn of the story, and at once
// after each answer. In the end there is one order, one quote and one credit.
func TestKills(t *testing.T) {
	t.Parallel()
	for _, victim := range processes {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			c := founded(t)
			ctx, cancel := context.WithTimeout(t.Context(), longest)
			defer cancel()
			var text strings.Builder
			s := newStory(&text, c)
			step := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v\n%s", what, err, &text)
				}
			}
			again := func(name string) {
				t.Helper()
				s.say("", "kill -9 %d: %s", c.kill(name), name)
				step("start "+name, c.start(ctx, name))
			}
			step("open", c.open(ctx))

			// Before the first send: the supplier cannot be reached.
			c.kill(supplier)
			step("order", s.order(ctx))
			step("find the delegation", s.kept(ctx))
			if victim != supplier {
				again(victim)
			}
			step("start the supplier", c.start(ctx, supplier))
			step("the question", s.expect(ctx, a2a.StateInputRequired))

			again(victim) // while it waits for the Incoterm
			step("answer", s.settle(ctx, buyer, "answer", "--data", `{"incoterm":"delivered"}`))
			again(victim) // right after the answer
			step("the request", s.expect(ctx, a2a.StateAuthRequired))

			again(victim) // while the approval is pending
			step("approve", s.settle(ctx, buyer, "approve", "--note", "within the budget"))
			again(victim) // right after it
			step("the call", s.waits(ctx, gateway))

			again(victim) // while the call waits at the gateway
			step("approve the call", s.settle(ctx, gateway, "approve", "--note", "we need them"))
			again(victim) // right after it
			step("the end", s.expect(ctx, a2a.StateCompleted))
			step("check", s.check(ctx))
			t.Log(text.String())
		})
	}
}

// kept returns when the node of the buyer has the delegation on record.
func (s *story) kept(ctx context.Context) error {
	for ctx.Err() == nil {
		var kept struct {
			Delegations []struct{} `json:"delegations"`
		}
		if err := s.ask(ctx, buyer, &kept, "delegation", "list", "--ref", number); err != nil {
			return err
		}
		if len(kept.Delegations) == 1 {
			return nil
		}
	}
	return fmt.Errorf("wait for the delegation: %w", ctx.Err())
}

// settled approves the draft at the gateway where finance has granted the credit.
func (s *story) settled(ctx context.Context, how string) error {
	if how == "deny" {
		return nil
	}
	if err := s.waits(ctx, gateway); err != nil {
		return err
	}
	return s.settle(ctx, gateway, "approve")
}

// The approval may also come from finance itself, and a denial ends the purchase.
func TestDecisionAtFinance(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]a2a.TaskState{"approve": a2a.StateCompleted, "deny": a2a.StateFailed} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), longest)
			defer cancel()
			var text strings.Builder
			s := newStory(&text, founded(t))
			for i, err := range []error{
				s.open(ctx), s.order(ctx), s.expect(ctx, a2a.StateInputRequired), s.settle(ctx, buyer, "answer", "--text", "Delivered"),
				s.expect(ctx, a2a.StateAuthRequired), s.settle(ctx, finance, how, "--note", "so be it"), s.settled(ctx, how), s.expect(ctx, want),
			} {
				if err != nil {
					t.Fatalf("step %d: %v\n%s", i, err, &text)
				}
			}
			if how == "deny" && !strings.Contains(text.String(), "finance says: The credit was not approved. so be it") {
				t.Errorf("the end does not say why:\n%s", &text)
			}
		})
	}
}

// What is denied at the gateway is not drafted.
func TestDenialAtTheGateway(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	var text strings.Builder
	s := newStory(&text, founded(t))
	for i, do := range []func() error{
		func() error { return s.open(ctx) },
		func() error { return s.order(ctx) },
		func() error { return s.expect(ctx, a2a.StateInputRequired) },
		func() error { return s.settle(ctx, buyer, "answer", "--text", "Delivered") },
		func() error { return s.expect(ctx, a2a.StateAuthRequired) },
		func() error { return s.settle(ctx, buyer, "approve") },
		func() error { return s.waits(ctx, gateway) },
		func() error { return s.settle(ctx, gateway, "deny", "--note", "not this month") },
		func() error { return s.expect(ctx, a2a.StateFailed) },
	} {
		if err := do(); err != nil {
			t.Fatalf("step %d: %v\n%s", i, err, &text)
		}
	}
	if !strings.Contains(text.String(), "The order cannot be drafted") || !strings.Contains(text.String(), "not this month") {
		t.Errorf("the end does not say why:\n%s", &text)
	}
	var orders int
	if err := s.look(ctx, "erp.db", "SELECT count(*) FROM purchase_order", &orders); err != nil || orders != 0 {
		t.Errorf("there are %d orders: %v", orders, err)
	}
}
