// Package backend runs the agents that a configuration describes: a script of
// rules, a program per turn, a web service that turns are posted to, a peer to which
// everything is handed on, tools, or a model. Each is an agent.Agent.
package backend

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
)

// Options is what backends need besides their configuration.
type Options struct {
	// Dir is the directory that relative paths begin at, that of the
	// configuration file; "" is the working directory of the process.
	Dir string
	// Logger gets what programs write to standard error, at debug level. Nil
	// discards it.
	Logger *slog.Logger
	// HTTP is the client that web services are called with. They are the
	// operator's own, so that it may reach private addresses. An http backend
	// needs one.
	HTTP *http.Client
	// Relay returns the agent that hands everything to a peer. Nil: there are none.
	Relay func(peer string) (agent.Agent, error)
	// Tools returns the agent whose skills are tools of a server. Nil: there are none.
	Tools func(of *config.ToolAgent) (agent.Agent, error)
	// Model returns the agent that is a model. Nil: there is none.
	Model func(of *config.LLM) (agent.Agent, error)
	// Callbacks receives the steps of web services that answer 202. Nil offers
	// no callback to them.
	Callbacks *Callbacks
}

// New returns the agent that run describes. Everything that can be is compiled
// here and not per turn. The error joins the *config.FieldErrors of Check.
func New(run config.Run, opt Options) (agent.Agent, error) {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	a, problems := build(&run, opt)
	if len(problems) > 0 {
		errs := make([]error, len(problems))
		for i, p := range problems {
			errs[i] = p
		}
		return nil, errors.Join(errs...)
	}
	return a, nil
}

// Check returns everything that is wrong with a run, each with the path of its
// key, such as run.script[2].when.text.
func Check(run config.Run) []*config.FieldError {
	anyPeer := func(string) (agent.Agent, error) { return nil, nil } // whether there is such a peer is known where peers are
	anyTools := func(*config.ToolAgent) (agent.Agent, error) { return nil, nil }
	anyModel := func(*config.LLM) (agent.Agent, error) { return nil, nil }
	_, problems := build(&run, Options{Logger: slog.New(slog.DiscardHandler), HTTP: http.DefaultClient, Relay: anyPeer, Tools: anyTools, Model: anyModel})
	return problems
}

func build(run *config.Run, opt Options) (agent.Agent, []*config.FieldError) {
	var c checker
	names := run.Backends()
	switch {
	case len(names) == 0:
		c.fail("run", "has no backend; give it script, exec, http, mcp, relay or llm")
		return nil, c.problems
	case len(names) > 1:
		c.fail("run", "has several backends, %s; an agent runs on one", strings.Join(names, " and "))
		return nil, c.problems
	}
	var a agent.Agent
	switch path := "run." + names[0]; names[0] {
	case "script":
		a = compileScript(&c, path, run.Script)
	case "exec":
		a = newProgram(&c, path, run.Exec, opt)
	case "http":
		a = newService(&c, path, run.HTTP, opt)
	case "relay":
		a = newRelay(&c, path, run.Relay, opt)
	case "mcp":
		a = newTools(&c, path, run.MCP, opt)
	case "llm":
		a = newModel(&c, path, run.LLM, opt)
	}
	return a, c.problems
}

// newRelay returns the agent that hands everything to a peer.
func newRelay(c *checker, path, peer string, opt Options) agent.Agent {
	if opt.Relay == nil {
		c.fail(path, "is not available: there are no peers here")
		return nil
	}
	a, err := opt.Relay(peer)
	c.failed(path, err)
	return a
}

// newTools returns the agent whose skills are tools.
func newTools(c *checker, path string, of *config.ToolAgent, opt Options) agent.Agent {
	if opt.Tools == nil {
		c.fail(path, "is not available: there are no tool servers here")
		return nil
	}
	a, err := opt.Tools(of)
	c.failed(path, err)
	return a
}

// newModel returns the agent that is a model.
func newModel(c *checker, path string, of *config.LLM, opt Options) agent.Agent {
	if opt.Model == nil {
		c.fail(path, "is not available: models are not run here")
		return nil
	}
	a, err := opt.Model(of)
	c.failed(path, err)
	return a
}

// checker gathers what is wrong with a configuration.
type checker struct{ problems []*config.FieldError }

func (c *checker) fail(path, format string, args ...any) {
	c.problems = append(c.problems, &config.FieldError{Path: path, Err: fmt.Errorf(format, args...)})
}

func (c *checker) failed(path string, err error) bool {
	if err != nil {
		c.fail(path, "%w", err)
	}
	return err != nil
}

// turnJSON returns the turn as programs and web services get it. The first
// attempt of a first turn has nothing behind it, and mostly no task yet.
func turnJSON(t *agent.Turn) ([]byte, error) {
	if t.Number == 1 && t.Attempt == 1 {
		return agent.AppendTurnJSON(nil, t, nil, nil), nil
	}
	history, err := t.History()
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	artifacts, err := t.Artifacts()
	if err != nil {
		return nil, fmt.Errorf("read artifacts: %w", err)
	}
	return agent.AppendTurnJSON(nil, t, history, artifacts), nil
}
