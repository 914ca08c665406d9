package examples_test

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

var ready = regexp.MustCompile(`The (?:node|tool server|model) is ready.*address=(\S+)`)

// run starts an example that is a program of its own, on a port that is free.
func run(t *testing.T, name, dir string) (e *example, kill func()) {
	t.Helper()
	program, err := built("./" + name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-c", filepath.Join(dir, "handoff.yaml"))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(kill)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if match := ready.FindStringSubmatch(lines.Text()); match != nil {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return &example{name: name, dir: dir, base: "http://" + match[1]}, kill
		}
	}
	t.Fatalf("%s ended before it was ready", name)
	return nil, nil
}

// moved is a copy of an example's folder whose node listens on any free port.
func moved(t *testing.T, name string) string {
	t.Helper()
	dir := folder(t, name)
	file := filepath.Join(dir, "handoff.yaml")
	edit(t, file, "listen: "+strings.TrimPrefix(listen(t, file), "http://"), "listen: 127.0.0.1:0")
	return dir
}

// The question and its answer are different calls, with a crash between them.
func TestGoAgent(t *testing.T) {
	t.Parallel()
	dir := moved(t, "go-agent")
	e, kill := run(t, "go-agent", dir)
	c := e.client(t, a2a.BindingJSONRPC)
	refused := send(t, c, client.NewMessage(a2a.Text("Quote something")))
	wantState(t, refused, a2a.StateRejected)
	task := send(t, c, client.NewMessage(a2a.Text("Quote 400 units of BRG-0042, delivery Surabaya")))
	wantState(t, task, a2a.StateInputRequired)
	if !strings.HasPrefix(said(task), "Incoterm?") {
		t.Errorf("question: %s", said(task))
	}

	kill()
	e, _ = run(t, "go-agent", dir)
	task = send(t, e.client(t, a2a.BindingREST), client.FollowUp(task, a2a.Text("Delivered")))
	wantState(t, task, a2a.StateCompleted)
	if got := texts(task.Artifacts[0])[0]; got != "400 units: 14200 EUR, lead time 3 weeks" {
		t.Errorf("quote: %s", got)
	}
}

// The executor streams, and asks in one call of it what the next one answers.
func TestSDKExecutor(t *testing.T) {
	t.Parallel()
	e, _ := run(t, "a2a-go-executor", moved(t, "a2a-go-executor"))
	e.bothBindings(t, func(t *testing.T, c *client.Client) {
		task := send(t, c, client.NewMessage(a2a.Text("123")))
		wantState(t, task, a2a.StateInputRequired)
		stream, err := c.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: client.FollowUp(task, a2a.Text("dock"))})
		if err != nil {
			t.Fatal(err)
		}
		chunks := 0
		var seen client.Accumulator
		for event, err := range stream.All() {
			if err != nil {
				t.Fatal(err)
			}
			if err := seen.Add(event); err != nil {
				t.Fatal(err)
			}
			if event.ArtifactUpdate != nil {
				chunks++
			}
		}
		wantState(t, seen.Task, a2a.StateCompleted)
		if got := strings.Join(texts(seen.Task.Artifacts[0]), ""); chunks != 4 || got != "Delta Oscar Charlie Kilo " {
			t.Errorf("%d chunks: %s", chunks, got)
		}
	})
}
