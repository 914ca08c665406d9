package a2ago_test

import (
	"context"
	"errors"
	"iter"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2ago"
	"handoff.example/handoff/client"
)

type (
	yield   = func(sdk.Event, error) bool
	execute = func(ctx context.Context, exec *a2asrv.ExecutorContext, yield yield)
)

// executor is an AgentExecutor made of functions.
type executor struct {
	execute  execute
	canceled chan *a2asrv.ExecutorContext // what Cancel was called with
	cleaned  chan sdk.SendMessageResult
}

func (e *executor) Execute(ctx context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) { e.execute(ctx, exec, yield) }
}

func (e *executor) Cancel(_ context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		e.canceled <- exec
		yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateCanceled, nil), nil)
	}
}

func (e *executor) Cleanup(_ context.Context, _ *a2asrv.ExecutorContext, result sdk.SendMessageResult, _ error) {
	e.cleaned <- result
}

// start serves an executor on a node and returns a client of it.
func start(t *testing.T, f execute) (*executor, *handoff.Node, *client.Client) {
	t.Helper()
	e := &executor{execute: f, canceled: make(chan *a2asrv.ExecutorContext, 10), cleaned: make(chan sdk.SendMessageResult, 10)}
	config := handoff.DefaultConfig()
	config.Store = "sqlite::memory:"
	node, err := handoff.New(config, handoff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	card := handoff.NewCard("Test", "Runs an executor.", "1.0.0", handoff.Skill{ID: "test", Name: "Test", Description: "Tests.", Tags: []string{"test"}})
	card.DefaultInputModes = []string{"*/*"}
	if err := node.HandleAgent("test", card, a2ago.New(e)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(node)
	t.Cleanup(func() {
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	c, err := client.Dial(t.Context(), server.URL+"/agents/test/", client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e, node, c
}

func send(t *testing.T, c *client.Client, m *a2a.Message) *a2a.SendMessageResponse {
	t.Helper()
	answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: m})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func sendTask(t *testing.T, c *client.Client, m *a2a.Message, want a2a.TaskState) *a2a.Task {
	t.Helper()
	answer := send(t, c, m)
	if answer.Task == nil || answer.Task.Status.State != want {
		t.Fatalf("answer: %+v, want a task that is %s", answer, want)
	}
	return answer.Task
}

// streaming is the shape that the SDK's documentation gives for an executor.
func streaming(_ context.Context, exec *a2asrv.ExecutorContext, yield yield) {
	if exec.StoredTask == nil && !yield(sdk.NewSubmittedTask(exec, exec.Message), nil) {
		return
	}
	if !yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateWorking, nil), nil) {
		return
	}
	first := sdk.NewArtifactEvent(exec, sdk.NewTextPart("one"))
	if !yield(first, nil) || !yield(sdk.NewArtifactUpdateEvent(exec, first.Artifact.ID, sdk.NewTextPart("two")), nil) {
		return
	}
	yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateCompleted, sdk.NewMessageForTask(sdk.MessageRoleAgent, exec, sdk.NewTextPart("done"))), nil)
}

func TestStreaming(t *testing.T) {
	t.Parallel()
	e, _, c := start(t, streaming)
	stream, err := c.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("go"))})
	if err != nil {
		t.Fatal(err)
	}
	var seen client.Accumulator
	for event, err := range stream.All() {
		if err != nil {
			t.Fatal(err)
		}
		if err := seen.Add(event); err != nil {
			t.Fatal(err)
		}
	}
	task := seen.Task
	if task.Status.State != a2a.StateCompleted || task.Status.Message.Text() != "done" {
		t.Errorf("status: %+v", task.Status)
	}
	if len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != 2 || task.Artifacts[0].Parts[1].Text != "two" {
		t.Errorf("artifacts: %+v", task.Artifacts)
	}
	if cleaned, ok := (<-e.cleaned).(*sdk.Task); !ok || string(cleaned.ID) != task.ID || cleaned.Status.State != sdk.TaskStateCompleted {
		t.Errorf("cleanup: %+v", cleaned)
	}
}

// A question and its answer: the second call finds the task and its history.
func TestQuestion(t *testing.T) {
	t.Parallel()
	_, _, c := start(t, func(_ context.Context, exec *a2asrv.ExecutorContext, yield yield) {
		if exec.StoredTask == nil {
			question := sdk.NewMessageForTask(sdk.MessageRoleAgent, exec, sdk.NewTextPart("Incoterm?"))
			yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateInputRequired, question), nil)
			return
		}
		var said []string
		for _, m := range exec.StoredTask.History {
			said = append(said, m.Parts[0].Text())
		}
		text := string(exec.StoredTask.Status.State) + ": " + strings.Join(said, ", ") + "; " + exec.Message.Parts[0].Text()
		if yield(sdk.NewArtifactEvent(exec, sdk.NewTextPart(text)), nil) {
			yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateCompleted, nil), nil)
		}
	})
	task := sendTask(t, c, client.NewMessage(a2a.Text("Quote 400 units")), a2a.StateInputRequired)
	task = sendTask(t, c, client.FollowUp(task, a2a.Text("Delivered")), a2a.StateCompleted)
	want := "TASK_STATE_INPUT_REQUIRED: Quote 400 units, Incoterm?, Delivered; Delivered"
	if got := task.Artifacts[0].Parts[0].Text; got != want {
		t.Errorf("second call: %s, want %s", got, want)
	}
}

// Every kind of part goes through both ways.
func TestParts(t *testing.T) {
	t.Parallel()
	_, _, c := start(t, func(_ context.Context, exec *a2asrv.ExecutorContext, yield yield) {
		artifact := sdk.NewArtifactEvent(exec, exec.Message.Parts...)
		artifact.Artifact.Name, artifact.Artifact.Metadata = "copy", exec.Message.Metadata
		if yield(artifact, nil) {
			yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateCompleted, nil), nil)
		}
	})
	parts := []a2a.Part{
		a2a.Text(""), a2a.Text("grüße"), a2a.Raw([]byte{0, 1, 255}, "application/octet-stream", "x.bin"),
		a2a.URL("https://example.com/x", "text/html", ""), a2a.Data(a2a.JSON(`null`)), a2a.Data(a2a.JSON(`false`)),
		a2a.Data(a2a.JSON(`{"a":[1,2.5,"<b>"],"c":null}`)),
	}
	parts[1].Metadata = a2a.JSON(`{"lang":"de"}`)
	m := client.NewMessage(parts...)
	m.Metadata = a2a.JSON(`{"k":{"v":1}}`)
	artifact := sendTask(t, c, m, a2a.StateCompleted).Artifacts[0]
	if diff := cmp.Diff(parts, artifact.Parts); diff != "" {
		t.Errorf("parts (-sent +copy):\n%s", diff)
	}
	if string(artifact.Metadata) != string(m.Metadata) || artifact.Name != "copy" {
		t.Errorf("artifact: %+v", artifact)
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	_, _, c := start(t, func(_ context.Context, exec *a2asrv.ExecutorContext, yield yield) {
		yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("Hello, world!")), nil)
	})
	if answer := send(t, c, client.NewMessage(a2a.Text("hi"))); answer.Message == nil || answer.Message.Text() != "Hello, world!" {
		t.Errorf("answer: %+v", answer)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		want a2a.Code
	}{
		{"params", errors.Join(errors.New("no units"), sdk.ErrInvalidParams), a2a.CodeInvalidParams},
		{"content type", sdk.ErrUnsupportedContentType, a2a.CodeContentTypeNotSupported},
		{"permission", &sdk.Error{Err: sdk.ErrUnauthorized, Message: "Not you"}, a2a.CodePermissionDenied},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, _, c := start(t, func(_ context.Context, _ *a2asrv.ExecutorContext, yield yield) { yield(nil, test.err) })
			_, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("hi"))})
			if code := a2a.CodeOf(err); code != test.want {
				t.Errorf("error: %v", err)
			}
		})
	}
	for name, f := range map[string]execute{
		"other error": func(_ context.Context, _ *a2asrv.ExecutorContext, yield yield) {
			yield(nil, errors.New("database is away"))
		},
		"late error": func(_ context.Context, exec *a2asrv.ExecutorContext, yield yield) {
			_ = yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateWorking, nil), nil) && yield(nil, sdk.ErrInvalidParams)
		},
		"canceled by itself": func(_ context.Context, exec *a2asrv.ExecutorContext, yield yield) {
			yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateCanceled, nil), nil)
		},
		"message of a task": func(_ context.Context, exec *a2asrv.ExecutorContext, yield yield) {
			_ = yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateWorking, nil), nil) && yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("x")), nil)
		},
		"no content": func(_ context.Context, exec *a2asrv.ExecutorContext, yield yield) {
			yield(sdk.NewArtifactEvent(exec, &sdk.Part{}), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, c := start(t, f)
			sendTask(t, c, client.NewMessage(a2a.Text("hi")), a2a.StateFailed)
		})
	}
}

// A snapshot of the task counts with its artifacts and its status, and nothing
// is asked of the executor after a final event.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	more := make(chan bool, 1)
	_, _, c := start(t, func(_ context.Context, exec *a2asrv.ExecutorContext, yield yield) {
		task := sdk.NewSubmittedTask(exec, exec.Message)
		task.Status.State = sdk.TaskStateRejected
		task.Artifacts = []*sdk.Artifact{{ID: "a-1", Name: "reason", Parts: sdk.ContentParts{sdk.NewDataPart(map[string]any{"n": 1})}}}
		more <- yield(task, nil)
	})
	task := sendTask(t, c, client.NewMessage(a2a.Text("hi")), a2a.StateRejected)
	if <-more {
		t.Error("the executor was asked for more")
	}
	if len(task.Artifacts) != 1 || task.Artifacts[0].ArtifactID != "a-1" || string(task.Artifacts[0].Parts[0].Data) != `{"n":1}` {
		t.Errorf("artifacts: %+v", task.Artifacts)
	}
}

// A cancel ends the context of Execute, and then Cancel is called.
func TestCancel(t *testing.T) {
	t.Parallel()
	e, _, c := start(t, func(ctx context.Context, exec *a2asrv.ExecutorContext, yield yield) {
		if yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateWorking, nil), nil) {
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	})
	answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{
		Message: client.NewMessage(a2a.Text("hi")), Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	task, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: answer.Task.ID})
	if err != nil || task.Status.State != a2a.StateCanceled {
		t.Fatalf("cancel: %+v, %v", task, err)
	}
	told := <-e.canceled
	if string(told.TaskID) != task.ID || told.Message != nil || told.StoredTask == nil || string(told.StoredTask.ID) != task.ID {
		t.Errorf("Cancel was called with %+v", told)
	}
	<-e.cleaned
	if task, err = c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID}); err != nil || task.Status.State != a2a.StateCanceled {
		t.Errorf("afterwards: %+v, %v", task, err)
	}
}

// A cancel may be noticed by a commit that comes too late for it.
func TestCancelWhileCommitting(t *testing.T) {
	t.Parallel()
	e, _, c := start(t, func(ctx context.Context, exec *a2asrv.ExecutorContext, yield yield) {
		for ctx.Err() == nil && yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateWorking, nil), nil) {
		}
	})
	for range 20 {
		answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{
			Message: client.NewMessage(a2a.Text("hi")), Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: answer.Task.ID}); err != nil {
			t.Fatal(err)
		}
		if told := <-e.canceled; string(told.TaskID) != answer.Task.ID {
			t.Errorf("Cancel was called for %s", told.TaskID)
		}
		<-e.cleaned
	}
}

// An approval is a turn of its own; a denial never reaches the executor.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 10)
	_, node, c := start(t, func(ctx context.Context, exec *a2asrv.ExecutorContext, yield yield) {
		if exec.StoredTask == nil {
			yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateAuthRequired, sdk.NewMessageForTask(sdk.MessageRoleAgent, exec, sdk.NewTextPart("May I?"))), nil)
			return
		}
		turn, _ := a2ago.TurnFrom(ctx)
		calls <- string(exec.StoredTask.Status.State) + " " + exec.Message.Parts[0].Text() + " " + turn.Grant.Note
		yield(sdk.NewStatusUpdateEvent(exec, sdk.TaskStateCompleted, nil), nil)
	})
	for _, approved := range []bool{true, false} {
		task := sendTask(t, c, client.NewMessage(a2a.Text("post it")), a2a.StateAuthRequired)
		if err := node.Grant(t.Context(), &handoff.Decision{Grant: grantOf(t, task), Approved: approved, Note: "by phone", By: "op"}); err != nil {
			t.Fatal(err)
		}
		task, err := c.Wait(t.Context(), task.ID, client.WaitOptions{})
		for err == nil && task.Status.State == a2a.StateAuthRequired {
			task, err = c.Wait(t.Context(), task.ID, client.WaitOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]a2a.TaskState{true: a2a.StateCompleted, false: a2a.StateFailed}[approved]; task.Status.State != want {
			t.Errorf("approved %t: %s", approved, task.Status.State)
		}
	}
	close(calls)
	if got := slices.Collect(all(calls)); !slices.Equal(got, []string{"TASK_STATE_AUTH_REQUIRED post it by phone"}) {
		t.Errorf("calls: %v", got)
	}
}

func all[T any](c <-chan T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range c {
			if !yield(v) {
				return
			}
		}
	}
}

// grantOf returns the id of the request that a task waits for.
func grantOf(t *testing.T, task *a2a.Task) string {
	t.Helper()
	var metadata struct {
		Grant string `json:"grant"`
	}
	if err := json.Unmarshal(task.Status.Message.Metadata, &metadata); err != nil || metadata.Grant == "" {
		t.Fatalf("metadata: %s, %v", task.Status.Message.Metadata, err)
	}
	return metadata.Grant
}
