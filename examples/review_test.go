package examples_test

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
)

// The reviewer asks for an attachment; while it works, it dies, and so do our
// node and whoever watches. The review comes all the same, and nothing is sent
// twice.
func TestReview(t *testing.T) {
	t.Parallel()
	handoff, err := built("../cmd/handoff")
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t, "review")
	theirs, ours := filepath.Join(dir, "reviewer.yaml"), filepath.Join(dir, "handoff.yaml")
	reviewer := serveAt(t, handoff, theirs, "127.0.0.1:0")
	edit(t, ours, "http://127.0.0.1:8084", reviewer.base)
	node := serveAt(t, handoff, ours, "127.0.0.1:0")

	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), handoff, args...)
		cmd.Dir = dir
		return cmd
	}
	output := func(args ...string) string {
		t.Helper()
		out, err := command(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	request := []string{"send", "reviewer", "Review the release notes of 1.4.0", "--file", "notes.md", "--ref", "notes-1.4.0"}
	if out := output(request...); !strings.Contains(out, "State: INPUT_REQUIRED") || !strings.Contains(out, "Please attach the list of changes.") {
		t.Fatalf("the reviewer asks for nothing:\n%s", out)
	}
	if out, err := command(request...).CombinedOutput(); err == nil || !strings.Contains(string(out), "notes-1.4.0") {
		t.Errorf("a second review of the same notes: %v\n%s", err, out)
	}
	output("delegation", "send", "notes-1.4.0", "--file", "changes.txt")

	watch := command("delegation", "watch", "notes-1.4.0")
	stdout, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "Comparing the notes with the changes" {
	}
	reviewer.kill()
	node.kill()
	_ = watch.Process.Kill()
	_, _ = io.Copy(io.Discard, stdout)
	_ = watch.Wait()

	reviewer = serveAt(t, handoff, theirs, strings.TrimPrefix(reviewer.base, "http://"))
	serveAt(t, handoff, ours, "127.0.0.1:0")
	if out := output("delegation", "watch", "notes-1.4.0"); strings.Count(out, "State: COMPLETED") != 1 || strings.Count(out, "Artifact Name: review") != 1 {
		t.Errorf("watch, anew:\n%s", out)
	}
	var stored struct {
		State  string
		Remote struct{ Task string }
		Task   jsonTask
	}
	if err := json.Unmarshal([]byte(output("delegation", "show", "notes-1.4.0", "-o", "json")), &stored, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if len(stored.Task.Artifacts) != 1 || !strings.Contains(string(stored.Task.Artifacts[0].Parts[1].Data), `"approved": true`) {
		t.Errorf("stored: %+v", stored)
	}

	at := &example{name: "reviewer", base: reviewer.base}
	list, err := at.client(t, a2a.BindingREST).ListTasks(t.Context(), &a2a.ListTasksRequest{HistoryLength: new(10)})
	if err != nil || len(list.Tasks) != 1 || list.Tasks[0].ID != stored.Remote.Task {
		t.Fatalf("tasks of the reviewer: %+v, %v", list, err)
	}
	var files []string
	for _, m := range list.Tasks[0].History {
		for _, p := range m.Parts {
			if p.Filename != "" {
				files = append(files, p.Filename)
			}
		}
	}
	if diff := cmp.Diff([]string{"notes.md", "changes.txt"}, files); diff != "" {
		t.Errorf("what the reviewer got (-want +got):\n%s", diff)
	}
	if said := reviewer.said(); !strings.Contains(said, "operation=SubscribeToTask") || strings.Contains(said, "operation=SendStreamingMessage") {
		t.Errorf("the new reviewer was not subscribed to, or was sent something:\n%s", said)
	}
}

// jsonTask reads a task as the protocol writes it.
type jsonTask struct{ a2a.Task }

// UnmarshalJSON reads a task.
func (t *jsonTask) UnmarshalJSON(data []byte) error { return a2a.Unmarshal(data, &t.Task) }
