package main

import (
	"bufio"
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
)

func newDelegationCommand(a *app) *cobra.Command {
	cmd := newGroup("delegation", "See and settle the work that a node has handed to other agents")
	cmd.Long = `See and settle the work that a node has handed to other agents. A delegation is
named by its id, or by its reference, such as the number of an order: then it is
the open one that has it, or else the newest. Work is handed on with: handoff
send PEER --ref REFERENCE TEXT, by agents that delegate, and by programs.`
	cmd.AddCommand(
		newDelegationListCommand(a), newDelegationShowCommand(a), newDelegationWatchCommand(a), newDelegationSendCommand(a),
		newDelegationChangeCommand(a, "cancel", "End delegations, and tell their agents to stop", "Canceled"),
		newDelegationChangeCommand(a, "resume", "Let delegations look at their agents now", "Looking"),
	)
	return cmd
}

// delegationInfo is a delegation as the API has it.
type delegationInfo struct {
	ID, To, Ref, State, Context string
	Peer                        bool
	Tenant, Owner, Asked        string
	Root, Parent                string
	Depth                       int
	Created, Deadline           time.Time
	Children                    []string
	WaitsFor                    *waitInfo `json:"waits_for"`
	Remote                      *delegationRemote
	Task                        *a2a.Task
}

// delegationRemote is what is known of the peer's side.
type delegationRemote struct {
	Send, Task, Context, State string
	Channel, Message, Error    string
	Interface                  string
	Seen                       time.Time
	Attempts                   int
	Recalled                   bool
}

// delegationPath returns the path of a delegation in the API.
func delegationPath(name, action string) string {
	return "/delegations/" + url.PathEscape(name) + action
}

func newDelegationListCommand(a *app) *cobra.Command {
	var ref, peer, root, state, token string
	var open bool
	var size int
	cmd := adminCommand(a, "list", "List delegations, newest first", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		if _, ok := parseState(state); state != "" && !ok {
			return usagef("--state %q is not one of %s", state, strings.Join(stateNames(), ", "))
		}
		q := url.Values{"page_size": {strconv.Itoa(size)}}
		for name, value := range map[string]string{"ref": ref, "peer": peer, "root": root, "state": state, "page_token": token} {
			if value != "" {
				q.Set(name, value)
			}
		}
		if open {
			q.Set("open", "true")
		}
		var page struct {
			Delegations   []delegationInfo
			NextPageToken string `json:"next_page_token"`
		}
		value, err := node.get(ctx, "GET", "/delegations?"+q.Encode(), nil, &page)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		for i := range page.Delegations {
			a.tellDelegation(&p, &page.Delegations[i])
			p.blank()
		}
		if len(page.Delegations) == 0 {
			p.write("There are no delegations that fit.\n")
		}
		p.field("Next Page Token", page.NextPageToken)
		return p.err
	})
	fs := cmd.Flags()
	fs.StringVar(&ref, "ref", "", "only delegations with this reference")
	fs.StringVar(&peer, "peer", "", "only delegations to this peer")
	fs.StringVar(&root, "root", "", "only delegations below this task")
	fs.StringVar(&state, "state", "", "only delegations in this state, such as working or input-required")
	fs.BoolVar(&open, "open", false, "only those that are not over")
	fs.IntVar(&size, "page-size", 50, "delegations of a page, 1 to 100")
	fs.StringVar(&token, "page-token", "", "the next page token of the page before")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// tellDelegation writes what a list says of a delegation.
func (a *app) tellDelegation(p *printer, d *delegationInfo) {
	p.field("Delegation", d.ID)
	p.field("Ref", d.Ref)
	to := d.To
	if d.Peer {
		to += " (peer)"
	}
	p.field("To", to)
	state, _ := a2a.ParseTaskState(d.State)
	p.field("State", stateText(state))
	p.field("Asked By", d.Asked)
	p.field("Created", a.timeText(d.Created))
	if !d.Deadline.IsZero() {
		p.field("Deadline", a.timeText(d.Deadline))
	}
	p.field("Waits For", a.waitText(d.WaitsFor))
	if r := d.Remote; r != nil {
		p.field("Message", sendText(r))
		if state, ok := a2a.ParseTaskState(r.State); ok && r.State != "" {
			p.field("At The Peer", stateText(state))
		}
		if r.Channel != "none" {
			p.field("News By", r.Channel)
		}
		if !r.Seen.IsZero() {
			p.field("Last Seen", a.timeText(r.Seen))
		}
		if r.Error != "" {
			p.field("Trouble", r.Error)
		}
	}
}

// sendText says how far a message has got.
func sendText(r *delegationRemote) string {
	return map[string]string{
		"unsent":   "not sent yet",
		"sending":  "being sent",
		"unknown":  "sent, and not answered: it is looked for, and not sent again",
		"accepted": "taken",
		"lost":     "sent, and never answered",
	}[r.Send]
}

func newDelegationShowCommand(a *app) *cobra.Command {
	return adminCommand(a, "show ID|REF", "Show a delegation, its task, and what is known of the peer's side", needs("a delegation"), func(ctx context.Context, node *nodeAPI, args []string) error {
		return a.showDelegation(ctx, node, "GET", delegationPath(args[0], ""), nil)
	})
}

// showDelegation writes the delegation that the API answers with.
func (a *app) showDelegation(ctx context.Context, node *nodeAPI, method, path string, body any) error {
	var d delegationInfo
	value, err := node.get(ctx, method, path, body, &d)
	if err != nil {
		return err
	}
	if a.output != formatText {
		return a.writeDocument(a.output, value, false)
	}
	p := printer{w: a.stdout}
	a.tellDelegation(&p, &d)
	p.field("Context ID", d.Context)
	if d.Root != d.ID {
		p.field("Root", d.Root)
	}
	p.field("Parent", d.Parent)
	for _, child := range d.Children {
		p.field("Open Below", child)
	}
	if r := d.Remote; r != nil {
		p.field("Interface", r.Interface)
		p.field("Peer's Task", r.Task)
		p.field("Peer's Context", r.Context)
		if r.Recalled {
			p.field("Recalled", "yes")
		}
	}
	if d.Task != nil {
		p.blank()
		v := &view{printer: &p, location: a.location}
		v.history(d.Task.History)
		if m := d.Task.Status.Message; m != nil {
			v.message("Message", m)
		}
		for i := range d.Task.Artifacts {
			v.artifact(&d.Task.Artifacts[i])
		}
	}
	return p.err
}

func newDelegationWatchCommand(a *app) *cobra.Command {
	return adminCommand(a, "watch ID|REF", "Follow a delegation until it is over", needs("a delegation"), func(ctx context.Context, node *nodeAPI, args []string) error {
		var d delegationInfo
		if _, err := node.get(ctx, "GET", delegationPath(args[0], ""), nil, &d); err != nil {
			return err
		}
		v := a.newView(false)
		return a.watchTask(ctx, node, d.ID, func(e *a2a.StreamResponse) (bool, error) {
			if a.output != formatText {
				return false, a.writeObject(e, true)
			}
			v.event(e)
			return false, v.err
		})
	})
}

// watchTask gives the events of a task to each, until the task is over or each
// says that it is enough. When the node is away for a while, it goes on where it
// was.
func (a *app) watchTask(ctx context.Context, node *nodeAPI, id string, each func(*a2a.StreamResponse) (enough bool, err error)) error {
	var after int64
	for {
		var done bool
		err := a.throughAbsence(ctx, node, func() (err error) {
			done, err = a.watchOnce(ctx, node, id, &after, each)
			return err
		})
		if done || err != nil {
			return err
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// How long a node may be away while something of it is waited for, and how long
// it is left alone at most before it is tried again.
const (
	absence    = time.Minute
	absenceTry = 5 * time.Second
)

// throughAbsence calls f until it fails with something else than that the node
// does not answer, or the node has been away for too long. People are told once.
func (a *app) throughAbsence(ctx context.Context, node *nodeAPI, f func() error) error {
	began, told := time.Now(), false
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, absenceTry) {
		err := f()
		if !away(err) || ctx.Err() != nil || time.Since(began)+wait > absence {
			return err
		}
		if !told {
			told = true
			a.note("The node at %s does not answer; it is tried again for %s…", node.name, absence)
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// away reports whether an error says that a node does not answer now.
func away(err error) bool {
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return e.Code == a2a.CodeUnavailable
	}
	f, ok := errors.AsType[*failure](err)
	return ok && f.Code == codeUnreachable
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *app) watchOnce(ctx context.Context, node *nodeAPI, id string, after *int64, each func(*a2a.StreamResponse) (bool, error)) (done bool, err error) {
	path := "/api/v1/tasks/" + url.PathEscape(id) + "/events?follow&after=" + strconv.FormatInt(*after, 10)
	response, err := node.request(ctx, "GET", path, nil)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct {
			Seq   int64
			Event jsontext.Value
		}
		e := &a2a.StreamResponse{}
		if err := json.Unmarshal([]byte(data), &event, json.MatchCaseInsensitiveNames(true)); err != nil {
			return false, failf(codeInternal, "the answer of the node is not understood: %w", err)
		}
		if err := a2a.Unmarshal(event.Event, e); err != nil {
			return false, failf(codeInternal, "the answer of the node is not understood: %w", err)
		}
		*after = event.Seq
		enough, err := each(e)
		if enough || err != nil {
			return true, err
		}
		if e.StatusUpdate != nil && e.StatusUpdate.Status.State.Terminal() {
			return true, nil
		}
	}
	return false, ctx.Err()
}

func newDelegationSendCommand(a *app) *cobra.Command {
	var parts partFlags
	cmd := adminCommand(a, "send ID|REF [TEXT…]", "Send the agent of a delegation another message, such as the answer to what it asks", cobra.MinimumNArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		if text := strings.Join(args[1:], " "); text != "" {
			parts.list = append([]partFlag{{kind: "text", value: text}}, parts.list...)
		}
		if len(parts.list) == 0 {
			return usagef("there is nothing to send").hint("Add the text as an argument, or --text, --file or --data")
		}
		built, err := parts.build(a.stdin)
		if err != nil {
			return err
		}
		return a.showDelegation(ctx, node, "POST", delegationPath(args[0], ":message"), map[string]any{"message": messageBody(&a2a.Message{Parts: built})})
	})
	parts.register(cmd.Flags())
	return cmd
}

// messageBody is a message in a request of the API.
func messageBody(m *a2a.Message) jsontext.Value { return m.AppendJSON(nil) }

func newDelegationChangeCommand(a *app, verb, short, done string) *cobra.Command {
	return adminCommand(a, verb+" ID|REF…", short, cobra.MinimumNArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		p := printer{w: a.stdout}
		for _, name := range args {
			var d delegationInfo
			value, err := node.get(ctx, "POST", delegationPath(name, ":"+verb), struct{}{}, &d)
			if err != nil {
				return err
			}
			if a.output != formatText {
				if err := a.writeDocument(a.output, value, len(args) > 1); err != nil {
					return err
				}
				continue
			}
			p.field(done, d.ID)
		}
		return p.err
	})
}
