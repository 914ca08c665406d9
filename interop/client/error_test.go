package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// errorCases are those in which the agent refuses.
var errorCases = []testCase{
	{"get an unknown task", "errors", getUnknown},
	{"cancel an unknown task", "errors", cancelUnknown},
	{"cancel a task that is over", "errors", cancelOver},
	{"subscribe to a task that is over", "errors", subscribeOver},
	{"subscribe to an unknown task", "errors", subscribeUnknown},
	{"send to an unknown task", "errors", sendUnknown},
	{"send to a task that is over", "errors", sendOver},
	{"send a message without parts", "errors", sendNothing},
	{"get an unknown webhook", "errors", getUnknownWebhook},
}

// refused returns an error unless err is the agent's error of that kind.
func refused(err error, code a2a.Code) error {
	if err == nil {
		return errors.New("it was not refused")
	}
	e, ok := errors.AsType[*a2a.Error](err)
	if !ok || e.Code != code {
		return fmt.Errorf("the error is %s of %T, want %s: %w", a2a.CodeOf(err), err, code, err)
	}
	return nil
}

// unknown returns the id of a task that no agent has.
func unknown() string { return "unknown-" + rand.Text() }

// over returns a task that is over.
func (s *session) over(ctx context.Context) (*a2a.Task, error) {
	return s.send(ctx, client.NewMessage(a2a.Text("echo hello")))
}

func getUnknown(ctx context.Context, s *session) error {
	_, err := s.GetTask(ctx, &a2a.GetTaskRequest{ID: unknown()})
	return refused(err, a2a.CodeTaskNotFound)
}

func cancelUnknown(ctx context.Context, s *session) error {
	_, err := s.CancelTask(ctx, &a2a.CancelTaskRequest{ID: unknown()})
	return refused(err, a2a.CodeTaskNotFound)
}

func cancelOver(ctx context.Context, s *session) error {
	task, err := s.over(ctx)
	if err != nil {
		return err
	}
	_, err = s.CancelTask(ctx, &a2a.CancelTaskRequest{ID: task.ID})
	return refused(err, a2a.CodeTaskNotCancelable)
}

// subscribed is the error of a subscription: of the call, or of the first event.
func (s *session) subscribed(ctx context.Context, id string) error {
	stream, err := s.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: id})
	if err != nil {
		return err
	}
	defer stream.Close()
	e, err := stream.Next()
	if err == nil {
		return fmt.Errorf("the subscription begins with %s", e.AppendJSON(nil))
	}
	if err == io.EOF {
		return nil
	}
	return err
}

func subscribeOver(ctx context.Context, s *session) error {
	task, err := s.over(ctx)
	if err != nil {
		return err
	}
	return refused(s.subscribed(ctx, task.ID), a2a.CodeUnsupportedOperation)
}

func subscribeUnknown(ctx context.Context, s *session) error {
	return refused(s.subscribed(ctx, unknown()), a2a.CodeTaskNotFound)
}

func sendUnknown(ctx context.Context, s *session) error {
	m := client.NewMessage(a2a.Text("echo hello"))
	m.TaskID = unknown()
	_, err := s.SendMessage(ctx, &a2a.SendMessageRequest{Message: m})
	return refused(err, a2a.CodeTaskNotFound)
}

func sendOver(ctx context.Context, s *session) error {
	task, err := s.over(ctx)
	if err != nil {
		return err
	}
	m := client.NewMessage(a2a.Text("echo again"))
	m.TaskID, m.ContextID = task.ID, task.ContextID
	_, err = s.SendMessage(ctx, &a2a.SendMessageRequest{Message: m})
	return refused(err, a2a.CodeUnsupportedOperation)
}

func sendNothing(ctx context.Context, s *session) error {
	_, err := s.SendMessage(ctx, &a2a.SendMessageRequest{Message: client.NewMessage()})
	return refused(err, a2a.CodeInvalidParams)
}

func getUnknownWebhook(ctx context.Context, s *session) error {
	task, err := s.begin(ctx, "ask")
	if err != nil {
		return err
	}
	_, err = s.GetTaskPushNotificationConfig(ctx, &a2a.GetTaskPushNotificationConfigRequest{TaskID: task.ID, ID: "unknown"})
	return refused(err, a2a.CodeTaskNotFound)
}
