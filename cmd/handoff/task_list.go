package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
)

// taskListCommand is `task list`.
type taskListCommand struct {
	*app
	flags clientFlags

	contextID string
	state     string
	since     string
	pageSize  int
	pageToken string
	history   int
	artifacts bool
	all       bool
	stream    bool
}

func newTaskListCommand(a *app) *cobra.Command {
	c := &taskListCommand{app: a}
	cmd := &cobra.Command{
		Use:               "list [AGENT]",
		Short:             "List your tasks, newest first",
		Example:           "  handoff task list quote --state input-required",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirstAgent,
		RunE:              c.run,
	}
	c.flags.register(a, cmd)
	fs := cmd.Flags()
	fs.StringVar(&c.contextID, "context-id", "", "only tasks of this context")
	fs.StringVar(&c.state, "state", "", "only tasks in this state, such as working or input-required")
	fs.StringVar(&c.since, "since", "", "only tasks whose status changed since: a time (2026-11-29T08:00:00Z) or a duration (24h)")
	fs.IntVar(&c.pageSize, "page-size", 0, "tasks on a page, 1 to 100")
	fs.StringVar(&c.pageToken, "page-token", "", "the page to show, as the one before names it")
	fs.IntVar(&c.history, "history", 0, "messages of each task's history to return at most")
	fs.BoolVar(&c.artifacts, "include-artifacts", false, "return the artifacts too")
	fs.BoolVar(&c.all, "all", false, "return the tasks of all pages")
	addStreamFlag(cmd, &c.stream)
	settable(fs, "context-id", "history")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// stateNames are the states as people write them.
func stateNames() []string {
	var names []string
	for s := a2a.StateSubmitted; s <= a2a.StateAuthRequired; s++ {
		names = append(names, strings.ToLower(strings.ReplaceAll(stateText(s), "_", "-")))
	}
	return names
}

func (c *taskListCommand) run(cmd *cobra.Command, args []string) error {
	named := ""
	if len(args) == 1 {
		named = args[0]
		if byFlag(cmd.Flags().Lookup("agent-card")) {
			return usagef("the agent is named twice, as %q and by -a", named)
		}
	}
	req, err := c.request(cmd)
	if err != nil {
		return err
	}
	s, end, err := c.open(cmd.Context(), &c.flags, named)
	if err != nil {
		return err
	}
	defer end()
	page, err := s.client.ListTasks(s.ctx, req)
	if err != nil {
		return s.failure(err)
	}
	if c.all {
		err = c.rest(s, req, page)
	}
	if err != nil {
		return s.failure(err)
	}
	return c.show(s, page)
}

func (c *taskListCommand) request(cmd *cobra.Command) (*a2a.ListTasksRequest, error) {
	req := &a2a.ListTasksRequest{ContextID: c.contextID, PageToken: c.pageToken, IncludeArtifacts: c.artifacts}
	if c.state != "" {
		state, ok := parseState(c.state)
		if !ok {
			return nil, usagef("--state %q is not one of %s", c.state, strings.Join(stateNames(), ", "))
		}
		req.Status = state
	}
	if cmd.Flags().Changed("page-size") {
		if c.pageSize < 1 || c.pageSize > 100 {
			return nil, usagef("--page-size %d is not from 1 to 100", c.pageSize)
		}
		req.PageSize = &c.pageSize
	}
	var err error
	if req.HistoryLength, err = historyLength(cmd, c.history); err != nil {
		return nil, err
	}
	if req.HistoryLength == nil && c.output == formatText && !c.flags.verbose {
		req.HistoryLength = new(0) // it would not be shown
	}
	if c.since != "" {
		if req.StatusTimestampAfter, err = c.sinceTime(); err != nil {
			return nil, err
		}
	}
	return req, nil
}

func (c *taskListCommand) sinceTime() (time.Time, error) {
	if d, err := time.ParseDuration(c.since); err == nil && d >= 0 {
		return c.now().Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, c.since); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, c.since, c.location); err == nil {
		return t, nil
	}
	return time.Time{}, usagef("--since %q is not a time such as 2026-11-29T08:00:00Z or 2026-11-29, nor a duration such as 24h", c.since)
}

// maxListed bounds what --all keeps in memory, in tasks.
const maxListed = 100_000

// rest adds the tasks of the pages that follow.
func (c *taskListCommand) rest(s *session, req *a2a.ListTasksRequest, page *a2a.ListTasksResponse) error {
	if page.NextPageToken == "" {
		return nil
	}
	next := *req
	next.PageToken = page.NextPageToken
	for task, err := range s.client.AllTasks(s.ctx, &next) {
		if err != nil {
			return err
		}
		if len(page.Tasks) >= maxListed {
			return failf(codeInternal, "there are more than %d tasks", maxListed).hint("Narrow the list with --state, --context-id or --since")
		}
		page.Tasks = append(page.Tasks, *task)
	}
	page.NextPageToken, page.PageSize = "", len(page.Tasks)
	return nil
}

func (c *taskListCommand) show(s *session, page *a2a.ListTasksResponse) error {
	switch {
	case c.output != formatText && c.stream:
		for i := range page.Tasks {
			if err := s.writeObject(&page.Tasks[i], true); err != nil {
				return err
			}
		}
		if page.NextPageToken != "" {
			s.note("Next page: --page-token %s", page.NextPageToken)
		}
		return nil
	case c.output != formatText:
		return s.writeObject(page, false)
	}
	v := s.newView()
	for i := range page.Tasks {
		v.task(&page.Tasks[i])
		v.blank()
	}
	v.field("Tasks", strconv.Itoa(len(page.Tasks))+" of "+strconv.Itoa(page.TotalSize))
	v.field("Next Page", page.NextPageToken)
	return v.err
}
