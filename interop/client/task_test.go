package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// taskCases are those without streams, webhooks and errors.
var taskCases = []testCase{
	{"find the agent", "card", findAgent},
	{"get the extended card", "extended", getExtendedCard},
	{"send and get", "get", sendAndGet},
	{"send and wait for the answer", "send", sendBlocking},
	{"send and fail", "get", sendAndFail},
	{"send many parts", "parts", sendParts},
	{"get a message", "message", getMessage},
	{"send at once and poll", "immediate get", sendAndPoll},
	{"answer a question", "answer", answerQuestion},
	{"answer a request for authorization", "auth", answerAuthorization},
	{"cancel a running task", "cancel", cancelRunning},
	{"cancel a waiting task", "cancel", cancelWaiting},
	{"list the tasks of a context", "list", listContext},
	{"list page by page", "list", listPages},
}

func findAgent(ctx context.Context, s *session) error {
	card, err := client.Discover(ctx, s.agent.card(), client.Options{})
	if err != nil {
		return err
	}
	if err := card.Validate(); err != nil {
		return err
	}
	if !strings.HasPrefix(card.Name, "Fixture in ") || len(card.Skills) != 1 || card.Skills[0].ID != "fixture" {
		return fmt.Errorf("the card is another one: %s", card.AppendJSON(nil))
	}
	if got := s.Interface().ProtocolVersion; !strings.HasPrefix(got, s.agent.peer.version) {
		return fmt.Errorf("the interface has version %q, want %q", got, s.agent.peer.version)
	}
	return nil
}

func getExtendedCard(ctx context.Context, s *session) error {
	known, err := s.With(func(o *client.Options) {
		o.Credentials, o.Origins = client.Bearer("partner"), []string{"*"}
	})
	if err != nil {
		return err
	}
	card, err := known.GetExtendedAgentCard(ctx)
	if err != nil {
		return err
	}
	if len(card.Skills) != 2 || card.Skills[1].ID != "partners" {
		return fmt.Errorf("the card is not the extended one: %s", card.AppendJSON(nil))
	}
	return nil
}

func sendAndGet(ctx context.Context, s *session) error {
	task, err := s.send(ctx, client.NewMessage(a2a.Text("echo hello")))
	if err != nil {
		return err
	}
	if err := check(task, a2a.StateCompleted, "hello"); err != nil {
		return err
	}
	got, err := s.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID})
	if err != nil {
		return err
	}
	if err := check(got, a2a.StateCompleted, "hello"); err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if got.ContextID == "" || got.ContextID != task.ContextID {
		return fmt.Errorf("the context is %q, and was %q", got.ContextID, task.ContextID)
	}
	return s.sent(1)
}

func sendBlocking(ctx context.Context, s *session) error {
	task, err := s.request(ctx, &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("slow 1"))})
	if err != nil {
		return err
	}
	if err := check(task, a2a.StateCompleted, chunks(10)); err != nil {
		return err
	}
	return s.sent(1)
}

func sendAndFail(ctx context.Context, s *session) error {
	task, err := s.send(ctx, client.NewMessage(a2a.Text("fail")))
	if err != nil {
		return err
	}
	if err := check(task, a2a.StateFailed, ""); err != nil {
		return err
	}
	if m := task.Status.Message; m == nil || m.Text() != "failed on request" {
		return fmt.Errorf("the task does not say why it failed: %s", task.AppendJSON(nil))
	}
	return nil
}

func sendParts(ctx context.Context, s *session) error {
	sent := []a2a.Part{
		a2a.Text("hello"),
		a2a.Data(a2a.JSON(`{"list":[1.5,"two",null,true]}`)),
		a2a.Raw([]byte{0, 1, 254, 255}, "application/octet-stream", "bytes.bin"),
		a2a.URL("https://example.com/a%20b?c=d", "image/png", "picture.png"),
	}
	parts := append([]a2a.Part{a2a.Text("echo hello")}, sent[1:]...)
	task, err := s.send(ctx, client.NewMessage(parts...))
	if err != nil {
		return err
	}
	if len(task.Artifacts) != 1 {
		return fmt.Errorf("the task has %d artifacts: %s", len(task.Artifacts), task.AppendJSON(nil))
	}
	got := task.Artifacts[0].Parts
	for i := range got {
		got[i].Metadata = nil // some kits add an empty one
	}
	if diff := cmp.Diff(sent, got, cmp.Transformer("canonical", canonical)); diff != "" {
		return fmt.Errorf("the parts have changed (-sent +got):\n%s", diff)
	}
	return nil
}

func canonical(v a2a.JSON) string {
	v = bytes.Clone(v)
	if err := v.Canonicalize(); err != nil {
		return string(v)
	}
	return string(v)
}

func getMessage(ctx context.Context, s *session) error {
	answer, err := s.SendMessage(ctx, &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("message hello"))})
	if err != nil {
		return err
	}
	if m := answer.Message; m == nil || m.Role != a2a.RoleAgent || m.Text() != "hello" || m.ContextID == "" {
		return fmt.Errorf("the answer is not the message: %s", answer.AppendJSON(nil))
	}
	return nil
}

func sendAndPoll(ctx context.Context, s *session) error {
	task, err := s.begin(ctx, "slow 1")
	if err != nil {
		return err
	}
	if task.Status.State.Terminal() {
		return fmt.Errorf("the send did not return at once: %s", task.AppendJSON(nil))
	}
	if task, err = s.Wait(ctx, task.ID, client.WaitOptions{Poll: true}); err != nil {
		return err
	}
	if err := check(task, a2a.StateCompleted, chunks(10)); err != nil {
		return err
	}
	return s.sent(1)
}

func answerQuestion(ctx context.Context, s *session) error {
	return s.answer(ctx, "ask", a2a.StateInputRequired, "What is it?")
}

func answerAuthorization(ctx context.Context, s *session) error {
	return s.answer(ctx, "auth", a2a.StateAuthRequired, "Who are you?")
}

// answer lets the agent ask, and answers in the same task.
func (s *session) answer(ctx context.Context, command string, state a2a.TaskState, question string) error {
	task, err := s.send(ctx, client.NewMessage(a2a.Text(command)))
	if err != nil {
		return err
	}
	if err := check(task, state, ""); err != nil {
		return err
	}
	if m := task.Status.Message; m == nil || m.Text() != question {
		return fmt.Errorf("the agent does not ask %q: %s", question, task.AppendJSON(nil))
	}
	next, err := s.send(ctx, client.FollowUp(task, a2a.Text("an answer")))
	for s.agent.peer.version == "0.3" && errors.Is(err, &a2a.Error{Code: a2a.CodeInternal}) {
		// It has asked a moment before the turn is over, and may have taken the
		// answer all the same.
		if err = wait(ctx); err != nil {
			break
		}
		if next, err = s.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID}); err == nil && !next.Status.State.Terminal() {
			next, err = s.send(ctx, client.FollowUp(task, a2a.Text("an answer")))
		}
	}
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if next.ID != task.ID || next.ContextID != task.ContextID {
		return fmt.Errorf("the answer belongs to task %s of context %s, want %s of %s", next.ID, next.ContextID, task.ID, task.ContextID)
	}
	return check(next, a2a.StateCompleted, "an answer")
}

func cancelRunning(ctx context.Context, s *session) error {
	task, err := s.begin(ctx, "never")
	if err != nil {
		return err
	}
	return s.cancel(ctx, task.ID)
}

func cancelWaiting(ctx context.Context, s *session) error {
	task, err := s.send(ctx, client.NewMessage(a2a.Text("ask")))
	if err != nil {
		return err
	}
	for {
		err := s.cancel(ctx, task.ID)
		if !errors.Is(err, &a2a.Error{Code: a2a.CodeInternal}) && !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotCancelable}) {
			return err
		}
		// a2a-go has answered a moment before the turn is over.
		if wait(ctx) != nil {
			return err
		}
	}
}

// wait waits before a peer is asked again.
func wait(ctx context.Context) error {
	again := time.NewTimer(100 * time.Millisecond)
	defer again.Stop()
	select {
	case <-again.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) cancel(ctx context.Context, id string) error {
	task, err := s.CancelTask(ctx, &a2a.CancelTaskRequest{ID: id})
	if err != nil {
		return err
	}
	if err := check(task, a2a.StateCanceled, ""); err != nil {
		return err
	}
	if task, err = s.GetTask(ctx, &a2a.GetTaskRequest{ID: id}); err != nil {
		return err
	}
	return check(task, a2a.StateCanceled, "")
}

// listContext shows row 72: the operation works, or the error says that there is
// none.
func listContext(ctx context.Context, s *session) error {
	task, err := s.send(ctx, client.NewMessage(a2a.Text("echo hello")))
	if err != nil {
		return err
	}
	next := client.NewMessage(a2a.Text("echo again"))
	next.ContextID = task.ContextID
	if _, err := s.send(ctx, next); err != nil {
		return err
	}
	page, err := s.ListTasks(ctx, &a2a.ListTasksRequest{ContextID: task.ContextID, IncludeArtifacts: true})
	if err != nil {
		return err
	}
	if len(page.Tasks) != 2 {
		return fmt.Errorf("the context has %d tasks, want 2", len(page.Tasks))
	}
	if err := check(&page.Tasks[1], a2a.StateCompleted, "hello"); err != nil {
		return fmt.Errorf("the older task comes last: %w", err)
	}
	return nil
}

func listPages(ctx context.Context, s *session) error {
	want := map[string]bool{}
	first := client.NewMessage(a2a.Text("echo 1"))
	task, err := s.send(ctx, first)
	if err != nil {
		return err
	}
	want[task.ID] = true
	for _, command := range []string{"echo 2", "ask"} {
		m := client.NewMessage(a2a.Text(command))
		m.ContextID = task.ContextID
		next, err := s.send(ctx, m)
		if err != nil {
			return err
		}
		want[next.ID] = true
	}
	one := 1
	got := map[string]bool{}
	for task, err := range s.AllTasks(ctx, &a2a.ListTasksRequest{ContextID: task.ContextID, PageSize: &one}) {
		if err != nil {
			return err
		}
		got[task.ID] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("the pages have other tasks (-want +got):\n%s", diff)
	}
	return nil
}

var errNoTask = errors.New("the answer is no task")

// send sends a message and returns the task when the turn is over.
func (s *session) send(ctx context.Context, m *a2a.Message) (*a2a.Task, error) {
	task, err := s.request(ctx, &a2a.SendMessageRequest{Message: m})
	if err != nil || !s.agent.peer.draft {
		return task, err
	}
	for {
		switch state := task.Status.State; {
		case state.Terminal(), state.Interrupted() && m.TaskID == "":
			return task, nil
		}
		if err := wait(ctx); err != nil {
			return nil, err
		}
		if task, err = s.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID}); err != nil {
			return nil, err
		}
	}
}

// begin sends a message and does not wait for what comes of it.
func (s *session) begin(ctx context.Context, command string) (*a2a.Task, error) {
	r := &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text(command))}
	if !s.agent.peer.draft {
		r.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	}
	return s.request(ctx, r)
}

func (s *session) request(ctx context.Context, r *a2a.SendMessageRequest) (*a2a.Task, error) {
	answer, err := s.SendMessage(ctx, r)
	if err != nil {
		return nil, err
	}
	if answer.Task == nil {
		return nil, errNoTask
	}
	return answer.Task, nil
}

// check returns an error unless the task is in that state, and its artifact has
// that text, if any.
func check(t *a2a.Task, state a2a.TaskState, text string) error {
	if t.Status.State != state {
		return fmt.Errorf("the task is %s, want %s", t.Status.State, state)
	}
	if text == "" {
		return nil
	}
	var got strings.Builder
	for _, a := range t.Artifacts {
		for _, p := range a.Parts {
			got.WriteString(p.Text)
		}
	}
	if diff := cmp.Diff(text, got.String()); diff != "" {
		return fmt.Errorf("the artifacts have another text (-want +got):\n%s", diff)
	}
	return nil
}

// chunks returns the text of the artifact that has n chunks.
func chunks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "chunk %d\n", i+1)
	}
	return b.String()
}
