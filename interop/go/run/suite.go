package main

import (
	"bufio"
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
	"time"
)

// suite is the cases of one official client.
type suite struct {
	id, title string
	version   string
	dir       string // from interop/go
	command   []string
	sdk       string // as the results have it
	bindings  []string
	show      bool // print what it prints
	// agents says that it is our own client that talks, to agents of all the SDKs.
	agents bool
	// lacks has the operations that the client does not have, and what is so.
	lacks map[string]string
}

var bindings = []string{"JSONRPC", "HTTP+JSON", "GRPC"}

// suites returns all of them. Their versions are those of the files that pin
// them.
func suites(filter string) ([]suite, error) {
	draft := "its requests are those of a draft of 1.0"
	all := []suite{
		{
			id: "go", sdk: "a2a-go", title: "a2a-go", dir: ".", bindings: bindings,
			command: []string{"go", "test", "-count=1", "-timeout=5m", "-run=" + filter, "."},
			version: `a2a-go/v2 v(\S+)`,
			lacks:   map[string]string{"signed": "it has no verifier of cards"},
		},
		{
			id: "js", sdk: "@a2a-js/sdk", title: "@a2a-js/sdk", dir: "../js", bindings: bindings,
			command: []string{"node", "--test", "--test-reporter=tap"},
			version: `"@a2a-js/sdk": "([^"]+)"`,
		},
		{
			id: "py", sdk: "a2a-sdk", title: "a2a-sdk (Python)", dir: "../py", bindings: bindings,
			command: []string{"build/venv/bin/python", "-m", "unittest", "-b"},
			version: `(?m)^a2a-sdk==(\S+)`,
		},
		{
			id: "py03", sdk: "a2a-sdk of 0.3", title: "a2a-sdk (Python), version 0.3", dir: "../py03", bindings: bindings,
			command: []string{"venv/bin/python", "-m", "unittest", "-b", "test_client"},
			version: `(?m)^a2a-sdk==(\S+)`,
			lacks: map[string]string{
				"signed": "it has no verifier of cards",
				"list":   "0.3 has no such operation for it", "push-list": "it has no such method", "push-delete": "it has no such method",
			},
		},
		{
			id: "java", sdk: "a2a-java", title: "a2a-java", dir: "../java", bindings: bindings[:2], show: true,
			command: []string{"java", "-Dfile.encoding=UTF-8", "@build/arguments", "Cases"},
			version: `<sdk.version>([^<]+)`,
			lacks: map[string]string{
				"signed": "it has no verifier of cards", "extended": "it does not know its own method when it reads the answer",
				"push-create": draft, "push-get": draft, "push-list": draft, "push-delete": draft, "webhook": draft,
			},
		},
	}
	ours := suite{
		id: "client", title: "our client and their agents", dir: "../client", agents: true,
		command: []string{"go", "test", "-count=1", "-timeout=5m", "-parallel=16", "."},
	}
	pins := map[string]string{"go": "go.mod", "js": "package.json", "py": "requirements.txt", "py03": "requirements.txt", "java": "pom.xml"}
	for i := range all {
		s := &all[i]
		file, err := os.ReadFile(filepath.Join(s.dir, pins[s.id]))
		if err != nil {
			return nil, err
		}
		m := regexp.MustCompile(s.version).FindSubmatch(file)
		if m == nil {
			return nil, fmt.Errorf("%s does not name the version of %s", pins[s.id], s.title)
		}
		s.version = string(m[1])
	}
	return append(all, ours), nil
}

// outcome is what came of a suite.
type outcome struct {
	results []result
	took    time.Duration
	details string // what it printed
	err     error
}

// execute runs a suite.
func (s suite) execute(ctx context.Context, env []string) outcome {
	began := time.Now()
	cmd := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	cmd.Dir, cmd.Env = s.dir, env
	out, err := cmd.CombinedOutput()
	return outcome{took: time.Since(began), details: string(out), err: err}
}

// result is what a case has shown. The suites write one a line.
type result struct {
	SDK        string   `json:"sdk"`
	Binding    string   `json:"binding"`
	Operations []string `json:"operations"`
	Case       string   `json:"case"`
	Result     string   `json:"result"`
	Limit      string   `json:"limit"`
}

// read reads the results of a suite and checks that they are in its terms.
func read(path string, s suite) ([]result, error) {
	file, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all []result
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("read results of %s: %w", s.title, err)
		}
		if r.SDK != s.sdk && !s.agents {
			return nil, fmt.Errorf("a case of %s calls itself one of %q", s.title, r.SDK)
		}
		for _, o := range r.Operations {
			if name(o) == "" {
				return nil, fmt.Errorf("case %q of %s shows the unknown operation %q", r.Case, s.title, o)
			}
		}
		all = append(all, r)
	}
	return all, lines.Err()
}
