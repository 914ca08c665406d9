// Command drive is the client that the conformance suite tests: it starts a
// gateway before the suite's server, and calls through it. The suite starts it
// with the URL of its server, and names the scenario in the environment.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const patience = 50 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// facts are what a scenario tells its client.
type facts struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	ToolCalls    []call `json:"toolCalls"`
}

type call struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

func run() (err error) {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: drive URL, with MCP_CONFORMANCE_SCENARIO and HANDOFF in the environment")
	}
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	var f facts
	if given := os.Getenv("MCP_CONFORMANCE_CONTEXT"); given != "" {
		if err := json.Unmarshal([]byte(given), &f); err != nil {
			return fmt.Errorf("decode context: %w", err)
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	dir, err := os.MkdirTemp("", "handoff-mcp-client-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g, err := startGateway(ctx, dir, configuration(os.Args[1], scenario, f))
	if err != nil {
		return err
	}
	defer func() {
		g.stop()
		if log, err := os.ReadFile(filepath.Join(dir, "log")); err == nil {
			os.Stderr.Write(log)
		}
	}()
	play, ok := plays[scenario]
	if !ok && strings.HasPrefix(scenario, "auth/") {
		play, ok = callAfterLogin, true
	}
	if !ok {
		return fmt.Errorf("there is no play for scenario %q", scenario)
	}
	return play(ctx, g, f)
}

// plays are what is called in each scenario.
var plays = map[string]func(context.Context, *gateway, facts) error{
	"initialize":                          list,
	"request-metadata":                    list,
	"json-schema-ref-no-deref":            list,
	"tools_call":                          addNumbers,
	"elicitation-sep1034-client-defaults": acceptDefaults,
	"sse-retry":                           reconnect,
	"sep-2322-client-request-state":       answerRounds,
	"http-standard-headers":               oneOfEachKind,
	"http-custom-headers":                 callAsTold,
	"http-invalid-tool-headers":           callEveryTool,
	"json-schema-2020-12-preservation":    echoSchema,
}

func list(ctx context.Context, g *gateway, _ facts) error {
	s, err := g.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.ListTools(ctx, nil)
	return err
}

func addNumbers(ctx context.Context, g *gateway, _ facts) error {
	return g.call(ctx, nil, call{"add_numbers", map[string]any{"a": 5, "b": 3}})
}

func acceptDefaults(ctx context.Context, g *gateway, _ facts) error {
	return g.call(ctx, accept(map[string]any{}), call{Name: "test_client_elicitation_defaults"})
}

func reconnect(ctx context.Context, g *gateway, _ facts) error {
	return g.call(ctx, nil, call{Name: "test_reconnection"})
}

// answerRounds goes on when a call fails, as some are made to.
func answerRounds(ctx context.Context, g *gateway, _ facts) error {
	s, err := g.connect(ctx, accept(map[string]any{"confirmed": true}))
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.ListTools(ctx, nil); err != nil {
		return err
	}
	for _, name := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"} {
		if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: map[string]any{}}); err != nil {
			fmt.Fprintf(os.Stderr, "call of %s: %v\n", name, err)
		}
	}
	return nil
}

func oneOfEachKind(ctx context.Context, g *gateway, _ facts) error {
	s, err := g.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	tools, err := s.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	if len(tools.Tools) > 0 {
		if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tools.Tools[0].Name, Arguments: map[string]any{}}); err != nil {
			return err
		}
	}
	resources, err := s.ListResources(ctx, nil)
	if err != nil {
		return err
	}
	if len(resources.Resources) > 0 {
		if _, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: resources.Resources[0].URI}); err != nil {
			return err
		}
	}
	prompts, err := s.ListPrompts(ctx, nil)
	if err != nil {
		return err
	}
	if len(prompts.Prompts) > 0 {
		_, err = s.GetPrompt(ctx, &mcp.GetPromptParams{Name: prompts.Prompts[0].Name})
	}
	return err
}

func callAsTold(ctx context.Context, g *gateway, f facts) error {
	s, err := g.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.ListTools(ctx, nil); err != nil {
		return err
	}
	for _, c := range f.ToolCalls {
		if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: c.Name, Arguments: c.Arguments}); err != nil {
			fmt.Fprintf(os.Stderr, "call of %s with %v: %v\n", c.Name, c.Arguments, err)
		}
	}
	return nil
}

// callEveryTool calls what the gateway lists. The SDK would drop the invalid tools
// of a gateway that does not, so it is done without.
func callEveryTool(ctx context.Context, g *gateway, _ facts) error {
	tools, err := g.rawTools(ctx)
	if err != nil {
		return err
	}
	for _, t := range tools {
		arguments := map[string]any{"region": "us-west1"}
		if err := g.rawCall(ctx, t.Name, arguments, t.headers(arguments)); err != nil {
			fmt.Fprintf(os.Stderr, "call of %s: %v\n", t.Name, err)
		}
	}
	return nil
}

// echoSchema sends a schema back as the gateway has listed it, byte by byte.
func echoSchema(ctx context.Context, g *gateway, _ facts) error {
	tools, err := g.rawTools(ctx)
	if err != nil {
		return err
	}
	for _, t := range tools {
		if t.Name == "json_schema_2020_12_tool" {
			return g.rawCall(ctx, "json_schema_echo", map[string]any{"schema": t.InputSchema}, nil)
		}
	}
	return fmt.Errorf("the tool with the schema is not listed")
}

// callAfterLogin calls a tool of a server that wants its caller to log in.
func callAfterLogin(ctx context.Context, g *gateway, _ facts) error {
	g.endpoint = "/mcp/suite"
	s, err := g.connect(ctx, logIn)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.ListTools(ctx, nil); err != nil {
		fmt.Fprintf(os.Stderr, "list of tools: %v\n", err)
	}
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "test-tool", Arguments: map[string]any{}})
	if err != nil {
		return fmt.Errorf("call tool: %w", err)
	}
	if res.IsError {
		return fmt.Errorf("the tool failed: %v", res.Content)
	}
	return nil
}
