package backend_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/backend"
)

func TestMain(m *testing.M) {
	if os.Getenv(playEnv) != "" {
		play()
		return
	}
	goleak.VerifyTestMain(m)
}

// recorder is a runtime that keeps what an agent does, by the rules of turns.
type recorder struct {
	mu      sync.Mutex
	steps   []agent.Step
	skipped []agent.Step
	flushed int // steps that Flush has covered
	ended   bool
	emitted chan agent.Step // gets every step when not nil
	fail    error           // of Flush

	history   []a2a.Message
	artifacts []a2a.Artifact
}

func (r *recorder) Emit(ctx context.Context, s agent.Step) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.Validate(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		return agent.ErrEnded
	case s.Message != nil && len(r.steps) > 0:
		return agent.ErrMessageFirst
	}
	r.steps = append(r.steps, s)
	r.ended = s.Ends()
	if r.emitted != nil {
		r.emitted <- s
	}
	return nil
}

func (r *recorder) Skip(s agent.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped = append(r.skipped, s)
}

func (r *recorder) Flush(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	r.flushed = len(r.steps)
	return nil
}

func (r *recorder) Pending(context.Context) ([]a2a.Message, error)     { return nil, nil }
func (r *recorder) History(context.Context) ([]a2a.Message, error)     { return r.history, nil }
func (r *recorder) Artifacts(context.Context) ([]a2a.Artifact, error)  { return r.artifacts, nil }
func (r *recorder) Result(context.Context, string) (a2a.JSON, error)   { return nil, nil }
func (r *recorder) SaveResult(context.Context, string, a2a.JSON) error { return nil }

// lines returns the steps as JSON, one a line.
func (r *recorder) lines() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return render(r.steps)
}

func render(steps []agent.Step) string {
	var b strings.Builder
	for _, s := range steps {
		b.Write(s.AppendJSON(nil))
		b.WriteByte('\n')
	}
	return b.String()
}

// said is a first turn with a message of that text and those further parts.
func said(text string, more ...a2a.Part) agent.Info {
	return agent.Info{
		Agent: "a", TaskID: "task-1", ContextID: "context-1", Number: 1, Attempt: 1, Cause: agent.CauseMessage,
		Messages: []a2a.Message{{
			MessageID: "message-1", Role: a2a.RoleUser,
			Parts: append([]a2a.Part{a2a.Text(text)}, more...),
		}},
	}
}

// run carries out one turn.
func run(ctx context.Context, a agent.Agent, info agent.Info) (*recorder, error) {
	r := &recorder{}
	return r, a.Run(ctx, agent.NewTurn(ctx, info, r))
}

// configured returns the run of a configuration, from the YAML below run:.
func configured(t testing.TB, yaml string) config.Run {
	t.Helper()
	const head = "mcp: {servers: {erp: {url: \"http://127.0.0.1:9/mcp\"}}}\nagents:\n  a:\n    name: A\n    description: A.\n    version: \"1\"\n" +
		"    skills: [{id: s, name: S, description: S., tags: [t]}]\n    run:\n      "
	c, err := config.Parse([]byte(head+strings.ReplaceAll(strings.TrimSpace(yaml), "\n", "\n      ")+"\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	return c.Agents["a"].Run
}

func build(t testing.TB, yaml string, opt backend.Options) agent.Agent {
	t.Helper()
	a, err := backend.New(configured(t, yaml), opt)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// public returns what the client reads of an error, and fails without that.
func public(t *testing.T, err error) string {
	t.Helper()
	text, ok := agent.Public(err)
	if !ok {
		t.Fatalf("the error %v is not for the client", err)
	}
	return text
}
