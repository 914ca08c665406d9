package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/mcp"
)

// GoToolsOptions is what an agent that is written in Go calls tools with.
type GoToolsOptions struct {
	Calls func() *Calls
	// Gate is the way to the tools of a server; "" is that to all.
	Gate func(server string) Gate
	// Servers are the names of the servers that there are.
	Servers func() []string
	// Granted returns the decision on the request that a turn of a task has made, with
	// its data; nil when there is none.
	Granted func(ctx context.Context, task string, turn int) (*agent.Grant, error)
	// MessagesOnly says that the agent has no tasks that calls could belong to.
	MessagesOnly bool
	// Version is that of the program.
	Version string
}

// goTools is an agent that can call tools in its turns (agent.Turn.Tool).
type goTools struct {
	agent agent.Agent
	opts  GoToolsOptions
}

// NewGoTools lets an agent call tools. While a call waits, the turns of the task go on
// with the call alone; when it is over, the agent is run again from the beginning of its
// turn, and finds the result.
func NewGoTools(a agent.Agent, opts GoToolsOptions) agent.Agent { return &goTools{a, opts} }

// goTurn is a turn of the engine of such an agent.
type goTurn struct {
	of   *goTools
	ctx  context.Context
	turn *agent.Turn   // of the engine
	rt   agent.Runtime // of the engine
	info agent.Info    // as the agent sees it
	kept *keptTurn
	// again says that calls of this turn may have been made before.
	again bool
	// resumed is the call that was waited for and that the agent has to come to next;
	// "": there is none.
	resumed string
	parked  bool

	calling chan struct{} // holds one value while a call is made
	count   map[string]int

	mu        sync.Mutex // of what follows
	ended     bool       // the agent has ended its turn
	state     a2a.JSON   // that it has emitted last
	artifacts int        // without an id
	last      string     // artifact
	seen      map[string]bool
}

// Run goes on with the call that is not over, and then with the agent.
func (a *goTools) Run(ctx context.Context, t *agent.Turn) error {
	s := &goTurn{of: a, ctx: ctx, turn: t, calling: make(chan struct{}, 1)}
	t.Within(t.Info, func(rt agent.Runtime) agent.Runtime { s.rt = rt; return rt })
	if err := s.load(); err != nil {
		return err
	}
	if s.kept.Call != nil {
		if err := s.resume(); err != nil || s.parked {
			return err
		}
	}
	for {
		err := s.run()
		if s.parked {
			return nil
		}
		if err != nil || s.over() || len(s.kept.Queue) == 0 {
			return err
		}
		if err := s.next(); err != nil {
			return err
		}
	}
}

// load finds out where the turn is.
func (s *goTurn) load() error {
	t := s.turn
	s.kept, s.info = fresh(t, 0), t.Info
	if t.Number == 1 && t.Attempt == 1 {
		return nil
	}
	text, err := s.rt.Result(s.ctx, keptTurnKey)
	if err != nil {
		return fmt.Errorf("read turn: %w", err)
	}
	if text == nil {
		return nil
	}
	if s.kept, err = decodeToolTurn(text); err != nil {
		return err
	}
	s.again = true
	if c := s.kept.Call; c != nil {
		done, err := s.rt.Result(s.ctx, callKey(c.Name))
		if err != nil {
			return fmt.Errorf("read result: %w", err)
		}
		if done != nil {
			s.kept.Call, s.resumed = nil, c.Name
		}
	}
	if s.kept.Call == nil && t.Number > s.kept.Turn {
		return s.begin()
	}
	if s.kept.Call != nil && t.Number > s.kept.Turn {
		if err := s.take(); err != nil {
			return err
		}
	}
	return s.restore()
}

// begin begins a turn of the agent with one of the engine.
func (s *goTurn) begin() error {
	s.again, s.resumed = false, ""
	queue, err := s.kept.messages()
	if err != nil {
		return err
	}
	s.kept = fresh(s.turn, s.kept.Skipped)
	s.info.Number = s.kept.Number
	if len(queue) == 0 {
		return nil
	}
	s.info.Messages = append(queue, s.info.Messages...)
	return s.keepInfo()
}

// take takes a turn of the engine for the call that waits.
func (s *goTurn) take() error {
	k, t := s.kept, s.turn
	k.Skipped += t.Number - k.Turn
	k.Turn = t.Number
	k.Runs++
	k.Input = t.Grant != nil || len(t.Messages) > 0 && Asks(k.Call.State)
	if t.Grant != nil || !k.Input {
		k.put(t.Messages)
	}
	return s.save()
}

// restore gives the agent what its turn began with.
func (s *goTurn) restore() error {
	s.info.Number = s.kept.Number
	s.info.Attempt += s.kept.Runs
	if !s.kept.Info {
		return nil
	}
	text, err := s.rt.Result(s.ctx, keptInfoKey)
	if err != nil {
		return fmt.Errorf("read what began the turn: %w", err)
	}
	began, err := agent.ParseTurn(text)
	if err != nil {
		return err
	}
	i := &s.info
	i.Cause, i.Messages, i.Grant, i.Outcome, i.Skill, i.References = began.Cause, began.Messages, began.Grant, began.Outcome, began.Skill, began.References
	if i.Grant == nil {
		return nil
	}
	given, err := s.of.opts.Granted(s.ctx, s.turn.TaskID, s.kept.Began-1)
	if err != nil {
		return fmt.Errorf("read grant: %w", err)
	}
	if given != nil {
		i.Grant = given
	}
	return nil
}

// next begins another turn of the agent within the same one of the engine, with the
// messages that came in while the one before has waited.
func (s *goTurn) next() error {
	messages, err := s.kept.messages()
	if err != nil {
		return err
	}
	old := s.kept
	s.kept = &keptTurn{Turn: old.Turn, Began: old.Began, Number: old.Number + 1, Skipped: old.Skipped - 1, Later: true}
	s.again, s.resumed = false, ""
	newest := &messages[len(messages)-1]
	i := &s.info
	*i = s.turn.Info
	i.Number, i.Cause, i.Messages, i.Grant, i.Outcome = s.kept.Number, agent.CauseMessage, messages, nil, nil
	i.Skill, i.References = textOf(jsontext.Value(newest.Metadata), "skillId"), newest.ReferenceTaskIDs
	if s.state != nil {
		i.State = s.state
	}
	return s.keepInfo()
}

// run runs the agent.
func (s *goTurn) run() error {
	s.count, s.seen, s.artifacts, s.last = map[string]int{}, map[string]bool{}, 0, ""
	return s.of.agent.Run(s.ctx, s.turn.Within(s.info, func(rt agent.Runtime) agent.Runtime { return &goRuntime{rt, s} }))
}

// over reports whether the agent has ended its turn.
func (s *goTurn) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// resume goes on with the call that is not over.
func (s *goTurn) resume() error {
	name := s.kept.Call.Name
	_, err := s.do(s.ctx)
	switch of := (*agent.ToolError)(nil); {
	case s.parked:
		return nil
	case err != nil && !errors.As(err, &of):
		return err
	}
	s.resumed = name
	return nil
}

// save keeps where the turn is.
func (s *goTurn) save() error {
	text, err := json.Marshal(s.kept)
	if err != nil {
		return fmt.Errorf("encode turn: %w", err)
	}
	if err := s.rt.SaveResult(s.ctx, keptTurnKey, text); err != nil {
		return fmt.Errorf("save turn: %w", err)
	}
	return nil
}

// keepInfo keeps what the turn of the agent began with, and where it is.
func (s *goTurn) keepInfo() error {
	if !s.kept.Info {
		if err := s.rt.SaveResult(s.ctx, keptInfoKey, beganWith(s.ctx, &s.info)); err != nil {
			return fmt.Errorf("save what began the turn: %w", err)
		}
		s.kept.Info = true
	}
	return s.save()
}

// remember keeps which artifacts this run has emitted.
func (s *goTurn) remember() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.seen {
		if !slices.Contains(s.kept.Emitted, id) {
			s.kept.Emitted = append(s.kept.Emitted, id)
		}
	}
	slices.Sort(s.kept.Emitted)
}

func callKey(name string) string { return fmt.Sprintf(keptCallKey, name) }

// nameOf tells a call from the others of its task: it is the same whenever the agent is
// run again.
func (s *goTurn) nameOf(tool string, arguments a2a.JSON) string {
	of := tool + "\x00" + digest(jsontext.Value(arguments))
	s.count[of]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", of, s.count[of]))
	return fmt.Sprintf("%d-%s", s.kept.Number, hex.EncodeToString(sum[:12]))
}

// Tool calls a tool.
func (s *goTurn) Tool(ctx context.Context, tool string, arguments a2a.JSON) (*agent.ToolResult, error) {
	select {
	case s.calling <- struct{}{}:
		defer func() { <-s.calling }()
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
	if s.parked {
		return nil, agent.ErrToolWaits
	}
	if s.of.opts.MessagesOnly {
		return nil, fmt.Errorf("call tool %s: the agent answers with messages alone, and a call belongs to a task", tool)
	}
	name := s.nameOf(tool, arguments)
	if s.again {
		text, err := s.rt.Result(ctx, callKey(name))
		if err != nil {
			return nil, fmt.Errorf("read result of tool %s: %w", tool, err)
		}
		if text != nil {
			k := &keptResult{}
			if err := json.Unmarshal(text, k); err != nil {
				return nil, fmt.Errorf("decode result of tool %s: %w", tool, err)
			}
			if s.resumed == name {
				s.resumed = ""
			}
			return k.result(tool)
		}
	}
	if s.resumed != "" {
		return nil, fmt.Errorf("call tool %s: the agent was run again because a call is over that it has waited for, and makes another one: calls and their arguments have to stay the same", tool)
	}
	if len(s.of.opts.Servers()) == 0 {
		return nil, fmt.Errorf("call tool %s: %w: no server is configured (mcp.servers)", tool, agent.ErrNoGateway)
	}
	s.kept.Call = &pendingCall{Name: name, Tool: tool, Arguments: jsontext.Value(arguments)}
	if ctx.Err() != nil && s.ctx.Err() == nil {
		return s.keep(s.kept.Call, givenUp(ctx, mcp.CodeUnavailable))
	}
	return s.do(ctx)
}

// givenUp is what has come of a call whose answer the agent has not waited for.
func givenUp(ctx context.Context, code int) *Result {
	return &Result{Error: object([]member{
		{"code", jsontext.Value(strconv.Itoa(code))},
		{"message", quoted("The agent has not waited for the answer: " + context.Cause(ctx).Error())},
	})}
}

// gate is the way to a tool, and what it is called there.
func (s *goTurn) gate(tool string) (Gate, string) {
	if server, name, ok := strings.Cut(tool, "/"); ok && slices.Contains(s.of.opts.Servers(), server) {
		return s.of.opts.Gate(server), name
	}
	return s.of.opts.Gate(""), tool
}

// do goes on with a call. It keeps what came of it, unless it waits.
func (s *goTurn) do(ctx context.Context) (*agent.ToolResult, error) {
	c := s.kept.Call
	gate, tool := s.gate(c.Tool)
	in := &InTurn{
		Calls: s.of.opts.Calls(), Gate: gate, Version: s.of.opts.Version,
		Tool: tool, Arguments: c.Arguments, Name: "call-" + c.Name, State: c.State, Input: s.kept.Input,
		Save: func(state jsontext.Value) error {
			c.State, s.kept.Input = state.Clone(), false
			return s.save()
		},
	}
	result, err := in.Do(ctx, s.turn)
	switch {
	case s.ctx.Err() != nil && (err != nil || result == nil):
		return nil, context.Cause(s.ctx)
	case err != nil && ctx.Err() != nil && !Made(c.State): // the time that the agent gives the call is over
		result = givenUp(ctx, mcp.CodeUnavailable)
	case err != nil && ctx.Err() != nil:
		result = givenUp(ctx, mcp.CodeOutcomeUnknown)
	case err != nil:
		return nil, fmt.Errorf("call tool %s: %w", c.Tool, err)
	case result == nil:
		s.parked = true
		s.remember()
		if err := s.keepInfo(); err != nil {
			return nil, err
		}
		return nil, agent.ErrToolWaits
	}
	return s.keep(c, result)
}

// keep keeps what came of a call, which is over then.
func (s *goTurn) keep(c *pendingCall, result *Result) (*agent.ToolResult, error) {
	k := keptOfResult(result)
	text, err := json.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("encode result of tool %s: %w", c.Tool, err)
	}
	if err := s.rt.SaveResult(context.WithoutCancel(s.ctx), callKey(c.Name), text); err != nil {
		return nil, fmt.Errorf("save result of tool %s: %w", c.Tool, err)
	}
	s.kept.Call = nil
	return k.result(c.Tool)
}

// goRuntime is the runtime of a turn as the agent sees it.
type goRuntime struct {
	agent.Runtime
	*goTurn
}

var _ agent.ToolRuntime = (*goRuntime)(nil)

// Emit emits a step, so that one which an earlier run of the turn has emitted too
// replaces that.
func (r *goRuntime) Emit(ctx context.Context, step agent.Step) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if step.Artifact != nil {
		step.Artifact = r.named(step.Artifact)
	}
	if step.Wait != nil && len(r.kept.Queue) > 0 {
		step.Wait = &agent.Wait{For: time.Millisecond} // a message is there already
	}
	if err := r.Runtime.Emit(ctx, step); err != nil {
		return err
	}
	if step.State != nil {
		r.state = step.State
	}
	r.ended = r.ended || step.Ends()
	return nil
}

// Skip passes over a step.
func (r *goRuntime) Skip(step agent.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if step.Artifact != nil {
		step.Artifact = r.named(step.Artifact)
	}
	r.Runtime.Skip(step)
}

// named is an artifact with an id that is the same whenever the turn is run.
func (s *goTurn) named(of *agent.Artifact) *agent.Artifact {
	a := *of
	switch {
	case a.ID != "":
	case a.Append && s.last != "":
		a.ID = s.last
	case s.kept.Later:
		s.artifacts++
		a.ID = fmt.Sprintf("artifact-%d.%d.%d", s.kept.Began, s.kept.Number, s.artifacts)
	default:
		s.artifacts++
		a.ID = fmt.Sprintf("artifact-%d.%d", s.kept.Began, s.artifacts) // as the engine names it
	}
	if s.kept.Runs > 0 && !s.seen[a.ID] && slices.Contains(s.kept.Emitted, a.ID) {
		a.Append = false
	}
	s.seen[a.ID], s.last = true, a.ID
	return &a
}

// Pending returns the messages that came in while calls have waited too.
func (r *goRuntime) Pending(ctx context.Context) ([]a2a.Message, error) {
	queue, err := r.kept.messages()
	if err != nil {
		return nil, err
	}
	more, err := r.Runtime.Pending(ctx)
	return append(queue, more...), err
}
