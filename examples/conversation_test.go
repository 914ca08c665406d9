package examples_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// send sends a message and waits for the end of the turn.
func send(t *testing.T, c *client.Client, m *a2a.Message) *a2a.Task {
	t.Helper()
	answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: m})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Task == nil {
		t.Fatalf("answer: %+v, want a task", answer)
	}
	return answer.Task
}

func wantState(t *testing.T, task *a2a.Task, want a2a.TaskState) {
	t.Helper()
	if got := task.Status.State; got != want {
		t.Fatalf("state: %s, want %s; %s", got, want, said(task))
	}
}

// said is the text of a task's status.
func said(task *a2a.Task) string {
	if task.Status.Message == nil {
		return ""
	}
	return task.Status.Message.Text()
}

func texts(a a2a.Artifact) []string {
	var list []string
	for _, p := range a.Parts {
		list = append(list, p.Text)
	}
	return list
}

func TestHello(t *testing.T) {
	t.Parallel()
	start(t, "hello", "handoff.yaml").bothBindings(t, func(t *testing.T, c *client.Client) {
		task := send(t, c, client.NewMessage(a2a.Text("good morning")))
		wantState(t, task, a2a.StateCompleted)
		if diff := cmp.Diff([]string{"Hello! You said: good morning"}, texts(task.Artifacts[0])); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFixture(t *testing.T) {
	t.Parallel()
	start(t, "fixture", "handoff.yaml").bothBindings(t, func(t *testing.T, c *client.Client) {
		for text, want := range map[string]a2a.TaskState{
			"echo hello": a2a.StateCompleted, "ask": a2a.StateInputRequired, "auth": a2a.StateAuthRequired,
			"slow 1": a2a.StateCompleted, "fail": a2a.StateFailed, "latefail": a2a.StateFailed, "reject": a2a.StateRejected,
		} {
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				task := send(t, c, client.NewMessage(a2a.Text(text)))
				wantState(t, task, want)
				if want.Interrupted() {
					wantState(t, send(t, c, client.FollowUp(task, a2a.Text("go on"))), a2a.StateCompleted)
				}
			})
		}
		t.Run("message", func(t *testing.T) {
			t.Parallel()
			answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("message hello"))})
			if err != nil || answer.Message == nil || answer.Message.Text() != "hello" {
				t.Errorf("answer: %+v, %v", answer, err)
			}
		})
		t.Run("never", func(t *testing.T) {
			t.Parallel()
			answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{
				Message:       client.NewMessage(a2a.Text("never")),
				Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true},
			})
			if err != nil {
				t.Fatal(err)
			}
			wantState(t, answer.Task, a2a.StateWorking)
			task, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: answer.Task.ID})
			if err != nil {
				t.Fatal(err)
			}
			wantState(t, task, a2a.StateCanceled)
		})
		t.Run("burst", func(t *testing.T) {
			t.Parallel()
			burst(t, c, 5000)
		})
	})
}

// burst checks that every chunk arrives once and in order.
func burst(t *testing.T, c *client.Client, n int) {
	t.Helper()
	stream, err := c.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text(fmt.Sprintf("burst %d", n)))})
	if err != nil {
		t.Fatal(err)
	}
	chunks := 0
	for event, err := range stream.All() {
		if err != nil {
			t.Fatal(err)
		}
		if u := event.ArtifactUpdate; u != nil {
			chunks++
			if got := strings.TrimSpace(u.Artifact.Parts[0].Text); got != strconv.Itoa(chunks) {
				t.Fatalf("chunk %d says %s", chunks, got)
			}
		}
	}
	if chunks != n || stream.State() != a2a.StateCompleted {
		t.Errorf("%d chunks, then %s", chunks, stream.State())
	}
}

func TestFixtureWithoutStreaming(t *testing.T) {
	t.Parallel()
	e := start(t, "fixture", "no-streaming.yaml")
	c := e.client(t, a2a.BindingJSONRPC)
	if c.Streams() {
		t.Error("the card declares streaming")
	}
	wantState(t, send(t, c, client.NewMessage(a2a.Text("echo hello"))), a2a.StateCompleted)
	insistent, err := c.With(func(o *client.Options) { o.IgnoreCapabilities = true })
	if err != nil {
		t.Fatal(err)
	}
	_, err = insistent.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("echo hello"))})
	if code := a2a.CodeOf(err); code != a2a.CodeUnsupportedOperation {
		t.Errorf("error: %v", err)
	}
}

func TestFixtureWithRequiredExtension(t *testing.T) {
	t.Parallel()
	e := start(t, "fixture", "required-extension.yaml")
	c := e.client(t, a2a.BindingJSONRPC)
	_, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("echo hello"))})
	if code := a2a.CodeOf(err); code != a2a.CodeExtensionSupportRequired {
		t.Errorf("error without the extension: %v", err)
	}
	willing, err := c.With(func(o *client.Options) { o.Extensions = []string{c.Card().Capabilities.Extensions[0].URI} })
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, send(t, willing, client.NewMessage(a2a.Text("echo hello"))), a2a.StateCompleted)
}

// The experiment: WORKING at once, COMPLETED on a later poll, and a second
// message of the same context is another task.
func TestReleaseNotes(t *testing.T) {
	t.Parallel()
	start(t, "release-notes", "handoff.yaml").bothBindings(t, func(t *testing.T, c *client.Client) {
		t.Parallel()
		if c.Card().Name != "Release Notes Agent" || c.Streams() {
			t.Errorf("card: %+v", c.Card())
		}
		contextID := "ctx-release-1-" + c.Interface().ProtocolBinding
		ask := func(text string) *a2a.Task {
			m := client.NewMessage(a2a.Text(text))
			m.ContextID = contextID
			answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{
				Message: m, Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true},
			})
			if err != nil {
				t.Fatal(err)
			}
			wantState(t, answer.Task, a2a.StateWorking)
			polls := 0
			task, err := c.Wait(t.Context(), answer.Task.ID, client.WaitOptions{
				Interval: 100 * time.Millisecond,
				OnEvent:  func(*a2a.StreamResponse) { polls++ },
			})
			if err != nil {
				t.Fatal(err)
			}
			wantState(t, task, a2a.StateCompleted)
			if polls < 2 || task.ContextID != contextID {
				t.Errorf("%d polls, context %s", polls, task.ContextID)
			}
			return task
		}
		first := ask("Create release notes for version 1.4.0")
		second := ask("Add a migration note for version 1.4.1")
		if first.ID == second.ID {
			t.Error("the second message went into the finished task")
		}
		if got := texts(second.Artifacts[0])[0]; !strings.Contains(got, "1.4.1") || second.Artifacts[0].Name != "migration-note" {
			t.Errorf("artifact: %+v", second.Artifacts[0])
		}
		list, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: contextID})
		if err != nil || list.TotalSize != 2 {
			t.Errorf("tasks of the context: %+v, %v", list, err)
		}
	})
}

// The lesson's message, in the form of A2A 1.0, and the answer in three chunks.
func TestWriter(t *testing.T) {
	t.Parallel()
	paper, err := os.ReadFile(filepath.Join("writer", "paper.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	start(t, "writer", "handoff.yaml").bothBindings(t, func(t *testing.T, c *client.Client) {
		t.Parallel()
		var message a2a.Message
		if err := a2a.Unmarshal([]byte(`{
			"messageId": "m-1",
			"role": "ROLE_USER",
			"parts": [
				{"text": "Summarize this paper."},
				{"raw": "`+base64.StdEncoding.EncodeToString(paper)+`", "filename": "paper.pdf", "mediaType": "application/pdf"},
				{"data": {"targetLength": "3 paragraphs"}}
			]
		}`), &message); err != nil {
			t.Fatal(err)
		}
		task := send(t, c, &message)
		wantState(t, task, a2a.StateInputRequired)
		if said(task) != "For which readers is the summary?" {
			t.Errorf("question: %s", said(task))
		}
		stream, err := c.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: client.FollowUp(task, a2a.Text("customers"))})
		if err != nil {
			t.Fatal(err)
		}
		var seen client.Accumulator
		var states []string
		chunks := 0
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
			if event.StatusUpdate != nil {
				states = append(states, event.StatusUpdate.Status.State.String())
			}
		}
		if states[len(states)-1] != "TASK_STATE_COMPLETED" || chunks != 3 {
			t.Errorf("states %v, %d chunks", states, chunks)
		}
		want := []string{
			"Agents hand work to each other across a boundary. Most protocols have no word for waiting.\n\n",
			"A task that waits for a person is not an error. It has a state, a question and an id to go on with.\n\n",
			"The id outlives the process that made it. So it belongs into a database and not into memory.\n\n",
		}
		if diff := cmp.Diff(want, texts(seen.Task.Artifacts[0])); diff != "" {
			t.Errorf("summary (-want +got):\n%s", diff)
		}
	})
}

// The skeleton with its own paths becomes SendMessage with returnImmediately,
// GetTask with backoff, and the artifacts.
func TestCSVSummary(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(filepath.Join("csv-summary", "stock.csv"))
	if err != nil {
		t.Fatal(err)
	}
	start(t, "csv-summary", "handoff.yaml").bothBindings(t, func(t *testing.T, c *client.Client) {
		t.Parallel()
		answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{
			Message:       client.NewMessage(a2a.Text("分析附件里的 CSV 并产出统计摘要"), a2a.Raw(file, "text/csv", "stock.csv")),
			Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		task, err := c.Wait(t.Context(), answer.Task.ID, client.WaitOptions{Poll: true, Interval: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, task, a2a.StateCompleted)
		parts := task.Artifacts[0].Parts
		if len(parts) != 2 || !strings.Contains(parts[0].Text, "| on_hand | 3 | 1 | 200 | 80 | 400 | 174.356 |") {
			t.Errorf("text: %s", parts[0].Text)
		}
		var summary struct {
			Rows    int              `json:"rows"`
			Columns []map[string]any `json:"columns"`
		}
		if err := json.Unmarshal(parts[1].Data, &summary); err != nil {
			t.Fatal(err)
		}
		price := map[string]any{
			"name": "price", "count": 3.0, "missing": 1.0, "numbers": 3.0,
			"mean": 62400.5 / 3, "min": 8900.5, "max": 41000.0, "stddev": 17585.904869620255,
		}
		if diff := cmp.Diff(price, summary.Columns[3], approximately); summary.Rows != 4 || diff != "" {
			t.Errorf("%d rows, price (-want +got):\n%s", summary.Rows, diff)
		}
	})
}

// A file that is no table is refused, and a message without one is asked for it.
func TestCSVSummaryOfSomethingElse(t *testing.T) {
	t.Parallel()
	c := start(t, "csv-summary", "handoff.yaml").client(t, a2a.BindingREST)
	task := send(t, c, client.NewMessage(a2a.Text("analyse")))
	wantState(t, task, a2a.StateInputRequired)
	task = send(t, c, client.FollowUp(task, a2a.Raw([]byte("a,b\n1,2,3\n"), "text/csv", "odd.csv")))
	wantState(t, task, a2a.StateRejected)
	if !strings.Contains(said(task), "odd.csv is not a CSV file that can be read") {
		t.Error(said(task))
	}
}

var approximately = cmp.Comparer(func(a, b float64) bool { return a == b || max(a, b)-min(a, b) < 1e-9*max(a, b) })
