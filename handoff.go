// Package handoff runs agents that other agents can call over A2A 1.0, and
// never loses a task of theirs. A Node holds agents, from a configuration or
// written as Go functions, keeps their tasks in a store, and is an
// http.Handler:
//
//	node, err := handoff.New(handoff.DefaultConfig(), handoff.Options{})
//	…
//	err = node.Handle("quote", handoff.Card{…}, func(ctx context.Context, t *handoff.Turn) error {
//		if t.Number == 1 {
//			return t.Ask("Incoterm?", nil)
//		}
//		return t.Artifact(a2a.Text("4,200 EUR, delivered"))
//	})
//	…
//	err = node.ListenAndServe(ctx)
package handoff

import (
	"log/slog"
	"net/http"

	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
)

// What the author of an agent writes against; see package agent.
type (
	// Agent does the work of a task, one turn at a time.
	Agent = agent.Agent
	// Turn is one run of an agent on a task.
	Turn = agent.Turn
	// Step is one thing that a turn does.
	Step = agent.Step
	// ToolResult is what a tool has answered that a turn has called.
	ToolResult = agent.ToolResult
	// ToolError says why a call of a tool has no result.
	ToolError = agent.ToolError
)

// Config is the configuration of a node, as the YAML file has it.
type Config = config.Config

// Card describes a Go agent: what its agent card says and how it behaves. Its
// Run is not used. Start from NewCard, which has the defaults.
type Card = config.Agent

// Skill is something that an agent can do (A2A §4.4.5).
type Skill = config.Skill

// Peer is another agent that work is handed to, as the configuration has it under
// peers.
type Peer = config.Peer

// NewPeer returns a peer with every default. Its card is at a URL, which may be
// that of the agent, or in a file: file: and a path.
func NewPeer(card string) *Peer { return config.NewPeer(card) }

// MCPServer is a server of tools, as the configuration has it under mcp.servers. Agents
// call its tools with Turn.Tool, and clients of MCP at /mcp.
type MCPServer = config.MCPServer

// MCPPolicy says what becomes of calls of a tool.
type MCPPolicy = config.MCPPolicy

// NewMCPServer returns a server at a URL with every default: all of its tools are shown,
// and may be called without approval. Its Tools and Default say otherwise.
func NewMCPServer(url string) *MCPServer { return config.NewMCPServer(url) }

// DefaultConfig returns a configuration with every default and no agents. The
// store is the SQLite file handoff.db of the working directory.
func DefaultConfig() *Config { return config.Default() }

// LoadConfig reads a configuration file. The error of a file that is wrong
// names every line that is.
func LoadConfig(file string) (*Config, error) { return config.Load(file) }

// NewCard returns a card with every default.
func NewCard(name, description, version string, skills ...Skill) Card {
	c := config.NewAgent()
	c.Name, c.Description, c.Version, c.Skills = name, description, version, skills
	return *c
}

// Principal is who is calling.
type Principal = auth.Principal

// Role says what a principal may do; each may do what the ones before it may.
type Role = auth.Role

// The roles of a principal.
const (
	RoleViewer   = auth.RoleViewer   // reads its own tasks
	RoleCaller   = auth.RoleCaller   // sends messages and cancels its own tasks
	RoleOperator = auth.RoleOperator // sees and settles everything of its tenant, or of all
	RoleAdmin    = auth.RoleAdmin    // changes the node
)

// Authenticator finds out who sent a request.
type Authenticator interface {
	Authenticate(r *http.Request) (Principal, error)
}

// Decision settles a grant request (A2A §7.6).
type Decision = engine.Decision

// Options are what a program decides about a node beside its configuration. The
// zero Options are fine.
type Options struct {
	// Logger gets one line for each request and for whatever an operator should
	// know. Nil: slog.Default().
	Logger *slog.Logger
	// Authenticator knows the callers. Nil: the configuration says who may call,
	// under callers.
	Authenticator Authenticator
	// Version is that of the program, for traces and the API.
	Version string
}
