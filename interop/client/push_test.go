package client

import (
	"context"
	"errors"
	"fmt"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// pushCases are those with webhooks.
var pushCases = []testCase{
	{"create a webhook and get it", "push-create push-get", createWebhook},
	{"list the webhooks of a task", "push-list", listWebhooks},
	{"delete a webhook", "push-delete", deleteWebhook},
	{"receive the end of a task", "webhook", receiveEnd},
	{"receive with a token", "webhook", receiveToken},
}

// hooked is a task that waits, with a webhook that nothing is sent to meanwhile.
func (s *session) hooked(ctx context.Context, id string) (*a2a.TaskPushNotificationConfig, error) {
	task, err := s.begin(ctx, "ask")
	if err != nil {
		return nil, err
	}
	got, err := s.CreateTaskPushNotificationConfig(ctx, &a2a.TaskPushNotificationConfig{
		ID: id, TaskID: task.ID, URL: "https://hooks.example.com/" + id, Token: "token",
		Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "secret"},
	})
	if err != nil {
		return nil, err
	}
	if got.TaskID != task.ID || got.ID != id || got.URL != "https://hooks.example.com/"+id {
		return nil, fmt.Errorf("the webhook is another one: %s", got.AppendJSON(nil))
	}
	return got, nil
}

func createWebhook(ctx context.Context, s *session) error {
	hook, err := s.hooked(ctx, "one")
	if err != nil {
		return err
	}
	got, err := s.GetTaskPushNotificationConfig(ctx, &a2a.GetTaskPushNotificationConfigRequest{TaskID: hook.TaskID, ID: "one"})
	if err != nil {
		return err
	}
	if got.TaskID != hook.TaskID || got.ID != "one" || got.URL != hook.URL {
		return fmt.Errorf("the webhook is another one: %s", got.AppendJSON(nil))
	}
	return nil
}

func listWebhooks(ctx context.Context, s *session) error {
	hook, err := s.hooked(ctx, "one")
	if err != nil {
		return err
	}
	page, err := s.ListTaskPushNotificationConfigs(ctx, &a2a.ListTaskPushNotificationConfigsRequest{TaskID: hook.TaskID})
	if err != nil {
		return err
	}
	if len(page.Configs) != 1 || page.Configs[0].ID != "one" || page.Configs[0].TaskID != hook.TaskID {
		return fmt.Errorf("the webhooks are others: %s", page.AppendJSON(nil))
	}
	return nil
}

func deleteWebhook(ctx context.Context, s *session) error {
	hook, err := s.hooked(ctx, "one")
	if err != nil {
		return err
	}
	if err := s.DeleteTaskPushNotificationConfig(ctx, &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: hook.TaskID, ID: "one"}); err != nil {
		return err
	}
	if _, err := s.GetTaskPushNotificationConfig(ctx, &a2a.GetTaskPushNotificationConfigRequest{TaskID: hook.TaskID, ID: "one"}); err == nil {
		return errors.New("the webhook is still there")
	}
	return nil
}

func receiveEnd(ctx context.Context, s *session) error {
	p, err := s.receive(ctx, a2a.TaskPushNotificationConfig{Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "secret"}})
	if err == nil && p.authorization != "Bearer secret" {
		err = fmt.Errorf("the push came with Authorization %q", p.authorization)
	}
	return err
}

func receiveToken(ctx context.Context, s *session) error {
	p, err := s.receive(ctx, a2a.TaskPushNotificationConfig{Token: "token"})
	if err == nil && p.token != "token" {
		err = fmt.Errorf("the push came with token %q", p.token)
	}
	return err
}

// receive starts a task with a webhook and returns the push that tells of its end.
func (s *session) receive(ctx context.Context, hook a2a.TaskPushNotificationConfig) (push, error) {
	r := newReceiver(s.t, s.agent.peer.version)
	hook.URL = r.server.URL
	task, err := s.request(ctx, &a2a.SendMessageRequest{
		Message:       client.NewMessage(a2a.Text("slow 1")),
		Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true, TaskPushNotificationConfig: &hook},
	})
	if err != nil {
		return push{}, err
	}
	for {
		select {
		case p := <-r.pushes:
			switch {
			case p.err != nil:
				return p, p.err
			case p.task != task.ID:
				return p, fmt.Errorf("the push tells of task %q, want %q", p.task, task.ID)
			case p.state == a2a.StateCompleted:
				return p, nil
			}
		case <-ctx.Done():
			return push{}, errors.New("no push tells of the end")
		}
	}
}
