package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/process"
)

// program is an agent that starts a process for each turn.
type program struct {
	path      string
	args      []string
	dir       string
	env       []string
	text      bool // the output is text and not steps
	timeout   time.Duration
	killAfter time.Duration
	log       *slog.Logger
}

const defaultKillAfter = 5 * time.Second

// inherited are the environment variables that a program gets from the node.
var inherited = []string{"PATH", "HOME", "LANG", "TZ"}

func newProgram(c *checker, path string, e *config.Exec, opt Options) *program {
	p := &program{
		text:      e.Output == config.ExecText,
		timeout:   e.Timeout.Std(),
		killAfter: e.KillAfter.Std(),
		log:       opt.Logger,
	}
	if p.killAfter == 0 {
		p.killAfter = defaultKillAfter
	}
	if e.Output != "" && e.Output != config.ExecSteps && e.Output != config.ExecText {
		c.fail(path+".output", "is neither steps nor text")
	}
	base, err := filepath.Abs(opt.Dir)
	c.failed(path, err)
	p.dir = base
	if e.Dir != "" {
		p.dir = absolute(base, e.Dir)
	}
	if len(e.Command) == 0 || e.Command[0] == "" {
		c.fail(path+".command", "names no program")
		return p
	}
	for i, argument := range e.Command {
		if strings.ContainsRune(argument, 0) {
			c.fail(fmt.Sprintf("%s.command[%d]", path, i), "has a NUL character")
		}
	}
	p.path, p.args = e.Command[0], e.Command[1:]
	if filepath.Base(p.path) != p.path {
		p.path = absolute(base, p.path)
	}
	p.env = process.Environment(inherited...)
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		value := e.Env[name].Reveal()
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			c.fail(path+".env", "%q cannot be an environment variable", name)
			continue
		}
		p.env = append(p.env, name+"="+value)
	}
	return p
}

func absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// Reasons to end a process.
var (
	errTimeout   = errors.New("the program took too long")
	errLingering = errors.New("the program did not end after the step that ended its turn")
)

// Run starts the program, writes the turn to it and emits what it prints. When
// Run returns, the process and its process group are gone.
func (p *program) Run(ctx context.Context, t *agent.Turn) error {
	input, err := turnJSON(t)
	if err != nil {
		return err
	}
	// A program whose turn has ended may finish by itself, although the engine
	// ends the context then.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	out := newOutput(t, p.text, func(err error) { end(err) })
	defer context.AfterFunc(ctx, func() {
		if !out.steps.done.Load() {
			end(context.Cause(ctx))
		}
	})()
	defer out.lingering(p.killAfter, func() { end(errLingering) })()
	if p.timeout > 0 {
		defer time.AfterFunc(p.timeout, func() { end(errTimeout) }).Stop()
	}

	log := p.log.With("task", t.TaskID)
	stderr := &diagnostics{log: func(line string) { log.Debug("agent wrote to standard error", "line", line) }}
	cmd := p.command(life, t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), out, stderr
	defer process.EndWithNode(cmd)()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start program: %w", err)
	}
	err = cmd.Wait()
	process.KillGroup(cmd.Process) // what the program left behind
	stderr.finish()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it ended well, but something it left behind held its output
	}
	return p.outcome(ctx, life, out, stderr, err)
}

// command prepares the process of a turn.
func (p *program) command(life context.Context, t *agent.Turn) *exec.Cmd {
	cmd := exec.CommandContext(life, p.path, p.args...)
	cmd.Dir = p.dir
	cmd.Env = append(slices.Clip(p.env),
		"HANDOFF_TASK_ID="+t.TaskID,
		"HANDOFF_CONTEXT_ID="+strings.ReplaceAll(t.ContextID, "\x00", ""),
		"HANDOFF_TURN="+strconv.Itoa(t.Number),
		"HANDOFF_ATTEMPT="+strconv.Itoa(t.Attempt),
	)
	cmd.Cancel = func() error { return process.Terminate(cmd.Process) }
	cmd.WaitDelay = p.killAfter
	process.SetGroup(cmd)
	return cmd
}

// outcome is what a turn came to whose process has ended with err.
func (p *program) outcome(ctx, life context.Context, out *output, stderr *diagnostics, err error) error {
	if err == nil && life.Err() == nil {
		out.finish()
	}
	switch cause := context.Cause(life); {
	case out.steps.done.Load():
		if err != nil {
			p.log.Debug("agent's program did not end well after its turn", "error", err)
		}
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case out.err != nil:
		return public(out.err)
	case errors.Is(cause, errTimeout):
		return agent.Errorf("The agent's program took longer than %s.", p.timeout)
	case err == nil:
		return nil
	case stderr.last != "":
		return agent.Errorf("%s", stderr.last)
	}
	return agent.Errorf("The agent's program ended with %w.", err)
}
