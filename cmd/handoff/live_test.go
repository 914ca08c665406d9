package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// newTestApp returns an app whose output goes to buffers, in a zone that is not
// UTC.
func newTestApp(env map[string]string) (a *app, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	clock := time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)
	return &app{
		stdin: strings.NewReader(""), stdout: stdout, stderr: stderr,
		lookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		now: func() time.Time {
			clock = clock.Add(700 * time.Millisecond)
			return clock
		},
		location: time.FixedZone("WIB", 7*3600),
		output:   formatText,
	}, stdout, stderr
}

func status(state a2a.TaskState, id, text string) *a2a.StreamResponse {
	u := &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: state}}
	if text != "" {
		u.Status.Message = &a2a.Message{MessageID: id, Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.Text(text)}}
	}
	return &a2a.StreamResponse{StatusUpdate: u}
}

func chunk(id, name, text string, more bool) *a2a.StreamResponse {
	return &a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
		TaskID: "t", ContextID: "c", Append: more,
		Artifact: a2a.Artifact{ArtifactID: id, Name: name, Parts: []a2a.Part{a2a.Text(text)}},
	}}
}

func TestLiveView(t *testing.T) {
	t.Parallel()
	snapshot := &a2a.StreamResponse{Task: &a2a.Task{
		ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateWorking},
		Artifacts: []a2a.Artifact{{ArtifactID: "x", Name: "count", Parts: []a2a.Part{a2a.Text("one "), a2a.Text("two "), a2a.Text("three")}}},
	}}
	tests := []struct {
		name   string
		env    map[string]string
		events []*a2a.StreamResponse
		want   string
	}{
		{
			"states, text as it arrives, and the end",
			map[string]string{"NO_COLOR": "1"},
			[]*a2a.StreamResponse{
				{Task: &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateSubmitted}}},
				status(a2a.StateWorking, "m1", "looking\nit up \x1b[2J"),
				status(a2a.StateWorking, "m1", "looking\nit up \x1b[2J"),
				chunk("x", "count", "one ", false),
				chunk("x", "count", "two\n", true),
				chunk("x", "", "three", true),
				status(a2a.StateCompleted, "", ""),
			},
			"21:00:01   700ms  SUBMITTED\n" +
				"21:00:02    1.4s  WORKING  looking\n" +
				"  it up \\x1b[2J\n" +
				"[count]\none two\nthree\n" +
				"21:00:02    2.1s  COMPLETED\n" +
				"Task ID: t\nContext ID: c\nState: COMPLETED\nElapsed: 2.8s\n",
		},
		{
			"a snapshot after a cut shows only what is new",
			map[string]string{"TERM": "dumb"},
			[]*a2a.StreamResponse{chunk("x", "count", "one ", false), chunk("x", "", "tw", true), snapshot, chunk("x", "", " four", true)},
			"[count]\none tw" + "\n21:00:01   700ms  WORKING\n" + "o three four\n" +
				"Task ID: t\nContext ID: c\nState: WORKING\nElapsed: 1.4s\n",
		},
		{
			"an artifact that is replaced is shown again",
			map[string]string{"NO_COLOR": "1"},
			[]*a2a.StreamResponse{chunk("x", "n", "old", false), chunk("x", "n", "new", false)},
			"[n]\nold\n[n]\nnew\nTask ID: t\nContext ID: c\nState: UNSPECIFIED\nElapsed: 700ms\n",
		},
		{
			"colors", nil,
			[]*a2a.StreamResponse{status(a2a.StateInputRequired, "m", "What?")},
			"21:00:01   700ms  \x1b[33mINPUT_REQUIRED\x1b[0m  What?\nTask ID: t\nContext ID: c\nState: INPUT_REQUIRED\nElapsed: 1.4s\n",
		},
		{
			"a message, files and data",
			map[string]string{"NO_COLOR": "1"},
			[]*a2a.StreamResponse{{Message: &a2a.Message{MessageID: "m", ContextID: "c", Parts: []a2a.Part{
				a2a.Text("hi"), a2a.Data(a2a.JSON(`{"a":1}`)), a2a.Raw([]byte("xyz"), "image/png", "a.png"), a2a.URL("https://x.example/f", "", ""),
			}}}},
			"hi\n{\n  \"a\": 1\n}\nFile: a.png (image/png, 3 bytes)\nFile: - (-) at https://x.example/f\nMessage ID: m\nContext ID: c\nElapsed: 700ms\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, stdout, _ := newTestApp(tt.env)
			l := newLiveSink(a)
			var seen client.Accumulator
			for _, e := range tt.events {
				if err := seen.Add(e); err != nil {
					t.Fatal(err)
				}
				if err := l.event(e); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.end(&seen); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, stdout.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The live view is for terminals, and only with --stream.
func TestLiveOnTerminalsOnly(t *testing.T) {
	t.Parallel()
	n, err := startNode(nodeOptions{dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	env := map[string]string{"HOME": t.TempDir(), "NO_COLOR": "1"}
	run := func(terminal bool, args ...string) string {
		t.Helper()
		a, stdout, stderr := newTestApp(env)
		a.isTerminal = terminal
		if code := a.run(context.Background(), append([]string{"send", n.url, "chunks"}, args...)); code != exitOK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		return stdout.String()
	}
	live := run(true, "--stream")
	if !strings.Contains(live, "\n[count]\none two three\n") || !strings.Contains(live, "Elapsed: ") {
		t.Errorf("no live view:\n%s", live)
	}
	for _, plain := range []string{run(false, "--stream"), run(true), run(true, "--stream", "--verbose")} {
		if strings.Contains(plain, "Elapsed: ") || !strings.Contains(plain, "Artifact ID: c1\n") {
			t.Errorf("not fields and blocks:\n%s", plain)
		}
	}
	if json := run(true, "--stream", "-o", "json"); !strings.HasPrefix(json, `{"task":`) {
		t.Errorf("not JSON Lines:\n%s", json)
	}
	// Times are those of the reader.
	if text := run(false); !strings.Contains(text, "+07:00\n") {
		t.Errorf("not the reader's time zone:\n%s", text)
	}
}

// A token of the node goes with requests to its agents, and to nobody else.
func TestNodeToken(t *testing.T) {
	t.Parallel()
	n, err := startNode(nodeOptions{dir: t.TempDir(), auth: bearerCallers{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	env := map[string]string{"HOME": t.TempDir(), "HANDOFF_NODE": n.base, "HANDOFF_TOKEN": "top-secret"}
	for agent, want := range map[string]int{"quote": exitOK, n.url: exitAuth} {
		a, _, stderr := newTestApp(env)
		if code := a.run(context.Background(), []string{"send", agent, "echo"}); code != want {
			t.Errorf("send %s: exit code %d, want %d: %s", agent, code, want, stderr)
		}
	}
	env["A2ACLI_BEARER"] = "another"
	a, _, _ := newTestApp(env)
	if code := a.run(context.Background(), []string{"send", "quote", "echo"}); code != exitAuth {
		t.Errorf("a bearer token of the command line does not replace the token of the node: exit code %d", code)
	}
}

// A program that leaves the pipe is no reason to go on.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	n, err := startNode(nodeOptions{dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	for _, args := range [][]string{{}, {"-o", "json"}, {"--stream"}, {"--stream", "-o", "json"}} {
		a, _, stderr := newTestApp(map[string]string{"HOME": filepath.Join(t.TempDir())})
		a.stdout = brokenPipe{}
		if code := a.run(context.Background(), append([]string{"send", n.url, "chunks"}, args...)); code != exitFailure {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errBroken }

type brokenError struct{}

func (brokenError) Error() string { return "broken pipe" }

var errBroken error = brokenError{}
