// Package clients_test has the official clients call through the gateway: the SDKs
// for Go and TypeScript, and the command line of MCP Inspector.
package clients_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"handoff.example/interop/mcp/process"
)

// endpoint is where clients connect to, tasks that of the server whose calls
// become tasks. Behind a gateway they are the same.
var endpoint, legacyEndpoint, tasksEndpoint string

// direct says that there is no gateway: the clients are tried with the servers.
var direct = os.Getenv("HANDOFF") == ""

func TestMain(m *testing.M) { os.Exit(start(m)) }

// start starts the servers, and the gateway that HANDOFF names before them.
func start(m *testing.M) int {
	ctx := context.Background()
	fixture, err := filepath.Abs("../build/fixture")
	if err != nil {
		return fail(err)
	}
	suite, err := process.Fixture(ctx, fixture)
	if err != nil {
		return fail(err)
	}
	defer suite.Stop()
	tasks, err := process.Fixture(ctx, fixture, "-tasks")
	if err != nil {
		return fail(err)
	}
	defer tasks.Stop()
	if direct {
		legacy, err := process.Fixture(ctx, fixture, "-revision", "2025-11-25")
		if err != nil {
			return fail(err)
		}
		defer legacy.Stop()
		endpoint, legacyEndpoint, tasksEndpoint = suite.URL, legacy.URL, tasks.URL
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "handoff-mcp-clients-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	example, err := filepath.Abs("../../../examples/mcp-conformance/handoff.yaml")
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll("../build", 0o755); err != nil {
		return fail(err)
	}
	log, err := filepath.Abs("../build/clients.log")
	if err != nil {
		return fail(err)
	}
	g, err := process.Gateway(ctx, os.Getenv("HANDOFF"), log, dir, "-c", example, "--set", "mcp.servers.suite.url="+suite.URL, "--set", "mcp.servers.tasks.url="+tasks.URL)
	if err != nil {
		return fail(err)
	}
	defer g.Stop()
	endpoint, legacyEndpoint, tasksEndpoint = g.URL, g.URL, g.URL
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
