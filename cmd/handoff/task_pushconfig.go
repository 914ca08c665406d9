package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
)

func newTaskPushConfigCommand(a *app) *cobra.Command {
	cmd := newGroup("push-config", "Manage the webhooks of a task")
	cmd.AddCommand(newPushCreateCommand(a), newPushGetCommand(a), newPushListCommand(a), newPushDeleteCommand(a))
	return cmd
}

func newPushCreateCommand(a *app) *cobra.Command {
	var flags clientFlags
	var req a2a.TaskPushNotificationConfig
	var auth a2a.AuthenticationInfo
	cmd := &cobra.Command{
		Use:     "create [AGENT] TASK --url URL",
		Short:   "Add a webhook to a task",
		Example: "  handoff task push-config create quote 0199… --url https://hooks.example.com/a2a --token \"$TOKEN\"",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if u, err := url.Parse(req.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return usagef("--url needs an absolute http or https URL")
			}
			if auth.Credentials != "" && auth.Scheme == "" {
				return usagef("--auth-credentials needs --auth-scheme, such as Bearer")
			}
			if auth.Scheme != "" {
				req.Authentication = &auth
			}
			s, id, end, err := a.openTask(cmd.Context(), &flags, args)
			if err != nil {
				return err
			}
			defer end()
			req.TaskID = id
			made, err := s.client.CreateTaskPushNotificationConfig(s.ctx, &req)
			if err != nil {
				return s.pushFailure(err)
			}
			return s.showPushConfig(made)
		},
	}
	flags.register(a, cmd)
	fs := cmd.Flags()
	fs.StringVar(&req.URL, "url", "", "where events are posted")
	fs.StringVar(&req.ID, "id", "", "id of the webhook (default: the agent makes one)")
	fs.StringVar(&req.Token, "token", "", "token that every post carries, so that the receiver knows it")
	fs.StringVar(&auth.Scheme, "auth-scheme", "", "how posts authenticate, such as Bearer")
	fs.StringVar(&auth.Credentials, "auth-credentials", "", "the credentials of that scheme")
	return cmd
}

func newPushGetCommand(a *app) *cobra.Command {
	var flags clientFlags
	cmd := &cobra.Command{
		Use:   "get [AGENT] TASK ID",
		Short: "Show a webhook of a task",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, taskID, id, end, err := a.openPush(cmd.Context(), &flags, args)
			if err != nil {
				return err
			}
			defer end()
			found, err := s.client.GetTaskPushNotificationConfig(s.ctx, &a2a.GetTaskPushNotificationConfigRequest{TaskID: taskID, ID: id})
			if err != nil {
				return s.pushFailure(err)
			}
			return s.showPushConfig(found)
		},
	}
	flags.register(a, cmd)
	return cmd
}

func newPushListCommand(a *app) *cobra.Command {
	var flags clientFlags
	var pageSize int
	var pageToken string
	cmd := &cobra.Command{
		Use:   "list [AGENT] TASK",
		Short: "List the webhooks of a task",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if pageSize < 0 {
				return usagef("--page-size %d is negative", pageSize)
			}
			s, id, end, err := a.openTask(cmd.Context(), &flags, args)
			if err != nil {
				return err
			}
			defer end()
			page, err := s.client.ListTaskPushNotificationConfigs(s.ctx, &a2a.ListTaskPushNotificationConfigsRequest{
				TaskID: id, PageSize: pageSize, PageToken: pageToken,
			})
			if err != nil {
				return s.pushFailure(err)
			}
			if s.output != formatText {
				return s.writeObject(page, false)
			}
			v := s.newView()
			for i := range page.Configs {
				v.pushConfig(&page.Configs[i])
				v.blank()
			}
			v.field("Next Page", page.NextPageToken)
			return v.err
		},
	}
	flags.register(a, cmd)
	cmd.Flags().IntVar(&pageSize, "page-size", 0, "webhooks on a page")
	cmd.Flags().StringVar(&pageToken, "page-token", "", "the page to show, as the one before names it")
	return cmd
}

func newPushDeleteCommand(a *app) *cobra.Command {
	var flags clientFlags
	cmd := &cobra.Command{
		Use:   "delete [AGENT] TASK ID",
		Short: "Remove a webhook of a task",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, taskID, id, end, err := a.openPush(cmd.Context(), &flags, args)
			if err != nil {
				return err
			}
			defer end()
			err = s.client.DeleteTaskPushNotificationConfig(s.ctx, &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: taskID, ID: id})
			if err != nil {
				return s.pushFailure(err)
			}
			if s.output != formatText {
				return s.writeDocument(s.output, []byte("{}"), false)
			}
			v := s.newView()
			v.field("Task ID", taskID)
			v.field("Deleted", id)
			return v.err
		},
	}
	flags.register(a, cmd)
	return cmd
}

// openPush opens a session for a command about one webhook.
func (a *app) openPush(ctx context.Context, f *clientFlags, args []string) (s *session, taskID, id string, end func(), err error) {
	named, values, err := taskArguments(args, f, "TASK", "ID")
	if err != nil {
		return nil, "", "", nil, err
	}
	s, end, err = a.open(ctx, f, named)
	return s, values[0], values[1], end, err
}

// pushFailure says what else there is when the agent posts no events.
func (s *session) pushFailure(err error) error {
	err = s.failure(err)
	if f, ok := errors.AsType[*failure](err); ok && f.Code == a2a.CodePushNotificationNotSupported.String() {
		f.Hint = "Follow the task instead: handoff task subscribe, or handoff task get --wait"
	}
	return err
}

func (s *session) showPushConfig(c *a2a.TaskPushNotificationConfig) error {
	if s.output != formatText {
		return s.writeObject(c, false)
	}
	v := s.newView()
	v.pushConfig(c)
	return v.err
}

// pushConfig writes a webhook without its secrets.
func (v *view) pushConfig(c *a2a.TaskPushNotificationConfig) {
	v.field("Task ID", c.TaskID)
	v.field("Webhook ID", c.ID)
	v.field("URL", c.URL)
	if c.Token != "" {
		v.field("Token", redacted)
	}
	if c.Authentication != nil {
		v.field("Authentication", c.Authentication.Scheme)
	}
}
