package main

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
)

func newAdminTaskCommand(a *app) *cobra.Command {
	cmd := newGroup("task", "See and settle the tasks of a node")
	cmd.AddCommand(
		newAdminTaskListCommand(a), newAdminTaskShowCommand(a), newAdminTaskEventsCommand(a),
		newAdminTaskChangeCommand(a, taskChange{
			verb: "cancel", short: "Cancel tasks", done: "Canceled", method: "POST", suffix: ":cancel",
			which: func(state a2a.TaskState) bool { return !state.Terminal() },
		}),
		newAdminTaskChangeCommand(a, taskChange{
			verb: "retry", short: "Do the work of terminal tasks again, in new ones", done: "Retried", method: "POST", suffix: ":retry",
			which: a2a.TaskState.Terminal,
		}),
		newAdminTaskChangeCommand(a, taskChange{
			verb: "delete", short: "Remove terminal tasks with all that belongs to them", done: "Deleted", method: "DELETE",
			which: a2a.TaskState.Terminal,
		}),
	)
	return cmd
}

// operatedTask is a task of the API.
type operatedTask struct {
	Agent, Tenant, Owner string
	Turn, Attempt        int
	Unread, Events       int64
	Running, Stale       bool
	Created, Expires     time.Time
	Task                 *a2a.Task
	Ref, Peer, Root      string
	WaitsFor             *waitInfo `json:"waits_for"`
}

// waitInfo says whom or what a task waits for.
type waitInfo struct {
	Kind, Who, Text, Task, Item string
	Since                       time.Time
}

// waitText says whom or what a task waits for; "" for nothing.
func (a *app) waitText(w *waitInfo) string {
	if w == nil {
		return ""
	}
	text := w.Kind
	if w.Who != "" {
		text += " of " + w.Who
	}
	if !w.Since.IsZero() {
		text += ", since " + a.timeText(w.Since)
	}
	return text
}

// taskFilter selects tasks.
type taskFilter struct {
	agent, context, state string
	since                 string
	text, ref, peer, root string
	owner, until          string
	stalled               string
	minAge, maxAge        string
}

func (f *taskFilter) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.agent, "agent", "", "only tasks of this agent")
	fs.StringVar(&f.context, "context", "", "only tasks of this context")
	fs.StringVar(&f.state, "state", "", "only tasks in this state, such as working or input-required, or in one of several (working,failed)")
	fs.StringVar(&f.owner, "owner", "", "only tasks of this caller")
	fs.StringVar(&f.text, "q", "", "only tasks in which this text is: ids, messages, status, artifacts")
	fs.StringVar(&f.ref, "ref", "", "only what was handed on under this reference, such as an order number")
	fs.StringVar(&f.peer, "peer", "", "only what was handed to this peer")
	fs.StringVar(&f.root, "root", "", "only this task and what was handed on below it")
	fs.StringVar(&f.stalled, "stalled", "", "only open tasks that have waited for somebody for longer than this, such as 1h")
	fs.StringVar(&f.minAge, "min-age", "", "only tasks that were made longer ago than this, such as 2d")
	fs.StringVar(&f.maxAge, "max-age", "", "only tasks that were made within this, such as 2d")
	fs.StringVar(&f.until, "until", "", "only tasks whose status is older: a time (2026-11-29T08:00:00Z) or a duration (24h)")
	fs.StringVar(&f.since, "since", "", "only tasks whose status changed since: a time (2026-11-29T08:00:00Z) or a duration (24h)")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp))
}

func (f *taskFilter) empty() bool { return *f == taskFilter{} }

// query returns the parameters of the API.
func (f *taskFilter) query(a *app) (url.Values, error) {
	q := url.Values{}
	if f.state != "" {
		for state := range strings.SplitSeq(f.state, ",") {
			if _, ok := parseState(strings.TrimSpace(state)); !ok {
				return nil, usagef("--state %q is not one of %s", state, strings.Join(stateNames(), ", "))
			}
		}
	}
	for name, value := range map[string]string{
		"agent": f.agent, "context": f.context, "state": f.state, "owner": f.owner, "q": f.text, "ref": f.ref, "peer": f.peer, "root": f.root,
		"stalled": f.stalled, "min_age": f.minAge, "max_age": f.maxAge,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, bound := range []struct{ name, flag, value string }{{"after", "--since", f.since}, {"until", "--until", f.until}} {
		if bound.value == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, bound.value)
		if d, derr := time.ParseDuration(bound.value); derr == nil && d > 0 {
			at, err = a.now().Add(-d), nil
		}
		if err != nil {
			return nil, usagef("%s %q is neither a time such as 2026-01-31T12:00:00Z nor a duration such as 2h", bound.flag, bound.value)
		}
		q.Set(bound.name, at.UTC().Format(time.RFC3339Nano))
	}
	return q, nil
}

// taskPage is a page of the API.
type taskPage struct {
	Tasks         []operatedTask
	NextPageToken string `json:"next_page_token"`
	TotalSize     *int   `json:"total_size"` // nil for a search
	Search        *struct {
		Scanned  int
		Complete bool
		BackTo   time.Time `json:"back_to"`
	}
}

func newAdminTaskListCommand(a *app) *cobra.Command {
	var filter taskFilter
	var size int
	var token string
	cmd := adminCommand(a, "list", "List tasks, newest status first", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		q, err := filter.query(a)
		if err != nil {
			return err
		}
		q.Set("page_size", strconv.Itoa(size))
		if token != "" {
			q.Set("page_token", token)
		}
		var page taskPage
		value, err := node.get(ctx, "GET", "/tasks?"+q.Encode(), nil, &page)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		for i := range page.Tasks {
			a.writeTaskRow(&p, &page.Tasks[i])
			p.blank()
		}
		if page.TotalSize != nil {
			p.field("Total", strconv.Itoa(*page.TotalSize))
		}
		if s := page.Search; s != nil {
			looked := plural(s.Scanned, "task")
			if !s.Complete && !s.BackTo.IsZero() {
				looked += ", back to " + a.timeText(s.BackTo)
			}
			p.field("Looked at", looked)
		}
		p.field("Next Page Token", page.NextPageToken)
		return p.err
	})
	filter.register(cmd)
	cmd.Flags().IntVar(&size, "page-size", 50, "tasks of a page, 1 to 100")
	cmd.Flags().StringVar(&token, "page-token", "", "the next page token of the page before")
	return cmd
}

// writeTaskRow writes what an operator sees of a task.
func (a *app) writeTaskRow(p *printer, t *operatedTask) {
	p.field("Task ID", t.Task.ID)
	p.field("Context ID", t.Task.ContextID)
	p.field("Agent", t.Agent)
	p.field("Tenant", t.Tenant)
	owner := t.Owner
	if owner == "" {
		owner = "(anonymous)"
	}
	p.field("Owner", owner)
	state := stateText(t.Task.Status.State)
	if t.Running {
		state += ", running"
	}
	if t.Stale {
		state += ", stale"
	}
	p.field("State", state)
	p.field("Reference", t.Ref)
	p.field("Peer", t.Peer)
	p.field("Waits for", a.waitText(t.WaitsFor))
	p.field("Updated", a.timeText(t.Task.Status.Timestamp))
	p.field("Created", a.timeText(t.Created))
	if !t.Expires.IsZero() {
		p.field("Expires", a.timeText(t.Expires))
	}
	turn := strconv.Itoa(t.Turn)
	if t.Attempt > 1 {
		turn += ", attempt " + strconv.Itoa(t.Attempt)
	}
	p.field("Turn", turn)
	if t.Unread > 0 {
		p.field("Unread", plural(int(t.Unread), "message"))
	}
	p.field("Events", strconv.FormatInt(t.Events, 10))
}

func newAdminTaskShowCommand(a *app) *cobra.Command {
	var history int
	cmd := adminCommand(a, "show TASK", "Show a task with its history and artifacts", needs("a task"), func(ctx context.Context, node *nodeAPI, args []string) error {
		var t operatedTask
		value, err := node.get(ctx, "GET", "/tasks/"+url.PathEscape(args[0])+"?history="+strconv.Itoa(history), nil, &t)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		a.writeTaskRow(&p, &t)
		p.blank()
		v := &view{printer: &p, location: a.location}
		v.history(t.Task.History)
		if m := t.Task.Status.Message; m != nil {
			v.message("Message", m)
		}
		for i := range t.Task.Artifacts {
			v.artifact(&t.Task.Artifacts[i])
		}
		return p.err
	})
	cmd.Flags().IntVar(&history, "history", 100, "the newest messages to show")
	return cmd
}

func newAdminTaskEventsCommand(a *app) *cobra.Command {
	var follow bool
	var after, limit int64
	cmd := adminCommand(a, "events TASK", "Print the events of a task, a line of JSON each", needs("a task"), func(ctx context.Context, node *nodeAPI, args []string) error {
		switch {
		case limit < 0, follow && limit > 0:
			return usagef("--limit is a number of events, and not for those that are followed")
		case follow:
			_, _, err := a.printEvents(ctx, node, args[0], fmt.Sprintf("after=%d&follow", after), true)
			return err
		}
		for left := limit; ; {
			page := int64(eventsOnPage)
			if limit > 0 {
				page = min(page, left)
			}
			printed, more, err := a.printEvents(ctx, node, args[0], fmt.Sprintf("after=%d&limit=%d", after, page), false)
			after += page
			if left -= printed; err != nil || !more || limit > 0 && left <= 0 {
				return err
			}
		}
	})
	cmd.Flags().Int64Var(&limit, "limit", 0, "print at most so many (default: all that there are)")
	cmd.Flags().BoolVar(&follow, "follow", false, "wait for more until the task is terminal")
	cmd.Flags().Int64Var(&after, "after", 0, "only events after the one with this number")
	return cmd
}

// eventsOnPage is how many events are asked for at once.
const eventsOnPage = 1000

// printEvents prints the events that a query selects, and reports how many there
// were and whether more follow on another page.
func (a *app) printEvents(ctx context.Context, node *nodeAPI, task, query string, follow bool) (printed int64, more bool, err error) {
	response, err := node.request(ctx, "GET", "/api/v1/tasks/"+url.PathEscape(task)+"/events?"+query, nil)
	if err != nil {
		return 0, false, err
	}
	defer response.Body.Close()
	f := a.output
	if f == formatText {
		f = formatJSON
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		line := lines.Text()
		if follow {
			var ok bool
			if line, ok = strings.CutPrefix(line, "data: "); !ok {
				continue
			}
		}
		if err := a.writeDocument(f, jsontext.Value(line), true); err != nil {
			return printed, false, err
		}
		printed++
	}
	if lines.Err() != nil {
		return printed, false, failf(codeUnreachable, "the events broke off: %w", lines.Err()).hint("Go on with --after and the last seq")
	}
	return printed, strings.Contains(response.Header.Get("Link"), `rel="next"`), nil
}

// taskChange is something that is done to tasks.
type taskChange struct {
	verb, short, done string
	method, suffix    string
	which             func(a2a.TaskState) bool // of the tasks that a filter selects
}

// taskOutcome says what became of a task, for programs.
type taskOutcome struct {
	ID    string `json:"id"`
	New   string `json:"new,omitempty"` // the task that does the work again
	Error string `json:"error,omitempty"`
}

func newAdminTaskChangeCommand(a *app, change taskChange) *cobra.Command {
	var filter taskFilter
	var yes bool
	cmd := adminCommand(a, change.verb+" [TASK…]", change.short, cobra.ArbitraryArgs, func(ctx context.Context, node *nodeAPI, args []string) error {
		switch {
		case len(args) > 0 && !filter.empty():
			return usagef("name tasks, or select them by --agent, --state, --q, --ref and other flags, but not both")
		case len(args) == 0 && filter.empty():
			return usagef("no task is named").hint("Name tasks, or select them by --agent, --state, --q, --ref and other flags (--help lists them)")
		case len(args) == 0:
			q, err := filter.query(a)
			if err != nil {
				return err
			}
			if args, err = selectTasks(ctx, node, q, change.which); err != nil {
				return err
			}
			if len(args) > 0 && !yes {
				if err := a.confirm(change.verb + " " + plural(len(args), "task")); err != nil {
					return err
				}
			}
		}
		return a.changeTasks(ctx, node, change, args)
	})
	filter.register(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask about tasks that were selected and not named")
	return cmd
}

// maxSelected bounds how many tasks one command changes.
const maxSelected = 10_000

// selectTasks returns the ids of the tasks that a filter selects.
func selectTasks(ctx context.Context, node *nodeAPI, q url.Values, which func(a2a.TaskState) bool) ([]string, error) {
	var ids []string
	q.Set("page_size", "100")
	for {
		var page taskPage
		if _, err := node.get(ctx, "GET", "/tasks?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		for i := range page.Tasks {
			if which(page.Tasks[i].Task.Status.State) {
				ids = append(ids, page.Tasks[i].Task.ID)
			}
		}
		switch {
		case len(ids) > maxSelected:
			return nil, usagef("more than %d tasks are selected; narrow the filter", maxSelected)
		case page.NextPageToken == "":
			return ids, nil
		}
		q.Set("page_token", page.NextPageToken)
	}
}

// changeTasks does the change to each task, and goes on when one fails.
func (a *app) changeTasks(ctx context.Context, node *nodeAPI, change taskChange, ids []string) error {
	list := make([]taskOutcome, 0, len(ids))
	var first error
	p := printer{w: a.stdout}
	for _, id := range ids {
		c := taskOutcome{ID: id}
		var t operatedTask
		value, err := node.call(ctx, change.method, "/tasks/"+url.PathEscape(id)+change.suffix, struct{}{})
		if err == nil && change.suffix == ":retry" {
			if err = decodeAnswer(value, &t); err == nil {
				c.New = t.Task.ID
			}
		}
		if err != nil {
			if ctx.Err() != nil || is[*failure](err) && classify(err).Exit == exitUnreachable {
				return err
			}
			if first == nil {
				first = err
			}
			c.Error = err.Error()
		}
		list = append(list, c)
		switch {
		case a.output != formatText:
		case err != nil:
			fmt.Fprintln(a.stderr, oneLine("Failed: "+id+": "+err.Error()))
		case c.New != "":
			p.field(change.done, id+" as "+c.New)
		default:
			p.field(change.done, id)
		}
	}
	switch {
	case first != nil && len(ids) == 1 && a.output != formatText:
		return first
	case a.output != formatText:
		if err := a.writeValue(struct {
			Tasks []taskOutcome `json:"tasks"`
		}{list}); err != nil {
			return err
		}
	case len(ids) == 0:
		p.write("No task is selected.\n")
	}
	if first != nil {
		return exitStatus(classify(first).Exit)
	}
	return p.err
}
