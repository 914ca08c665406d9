package main

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
)

func newInboxCommand(a *app) *cobra.Command {
	cmd := newGroup("inbox", "See and settle what waits for a person")
	cmd.Long = `See and settle what waits for a person on a node: questions, requests for an
authorization, and what is stuck. The node is named as for admin: over its admin
socket, or with --node or HANDOFF_NODE and the rights of HANDOFF_TOKEN. Callers
see what waits in their own tasks.`
	cmd.AddCommand(
		newInboxListCommand(a), newInboxShowCommand(a), newInboxAnswerCommand(a), newInboxDecideCommand(a, "approve"), newInboxDecideCommand(a, "deny"),
		newInboxAssignCommand(a), newInboxDueCommand(a), newInboxLinkCommand(a),
	)
	return cmd
}

// inboxItem is an item of the API.
type inboxItem struct {
	ID, Kind, Task, Tenant, Owner, Agent string
	Peer, Overdue                        bool
	Ref, Text, URL, Operation, Assignee  string
	Schema                               jsontext.Value
	Created, Due, Settled                time.Time
	By, Decision, Words                  string
}

// inboxDetail is an item with what belongs to it.
type inboxDetail struct {
	Item         inboxItem
	Conversation []a2a.Message
	History      []struct {
		At              time.Time
		By, What, Words string
	}
}

var inboxKinds = []string{"question", "grant", "stuck", "call", "card", "login"}

func newInboxListCommand(a *app) *cobra.Command {
	var kind, task, assignee, dueBy, token string
	var settled bool
	var size int
	cmd := adminCommand(a, "list", "List what waits, the earliest due first", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		q := url.Values{"page_size": {strconv.Itoa(size)}}
		for name, value := range map[string]string{"kind": kind, "task": task, "assignee": assignee, "page_token": token} {
			if value != "" {
				q.Set(name, value)
			}
		}
		if settled {
			q.Set("settled", "true")
		}
		if dueBy != "" {
			at, err := a.future("due-by", dueBy)
			if err != nil {
				return err
			}
			q.Set("due_by", at.Format(time.RFC3339Nano))
		}
		var page struct {
			Items         []inboxItem
			NextPageToken string `json:"next_page_token"`
			TotalSize     int    `json:"total_size"`
		}
		value, err := node.get(ctx, "GET", "/inbox?"+q.Encode(), nil, &page)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		for i := range page.Items {
			a.writeItem(&p, &page.Items[i])
			p.blank()
		}
		if len(page.Items) == 0 && token == "" {
			p.write("Nothing waits.\n")
		}
		if token == "" && !settled {
			p.field("Total", strconv.Itoa(page.TotalSize))
		}
		p.field("Next Page Token", page.NextPageToken)
		return p.err
	})
	cmd.Example = `  handoff inbox list
  handoff inbox list --assignee ann@example.com --due-by 24h
  handoff inbox list --settled --kind grant`
	cmd.Flags().StringVar(&kind, "kind", "", "only items of this kind: "+strings.Join(inboxKinds, ", "))
	cmd.Flags().StringVar(&task, "task", "", "only items of this task")
	cmd.Flags().StringVar(&assignee, "assignee", "", "only items that this person is to answer")
	cmd.Flags().StringVar(&dueBy, "due-by", "", "only items that are due by then: in how long, such as 24h, or a time such as 2027-01-31T12:00:00Z")
	cmd.Flags().BoolVar(&settled, "settled", false, "the settled items instead, the last one first")
	cmd.Flags().IntVar(&size, "page-size", 50, "items of a page, 1 to 100")
	cmd.Flags().StringVar(&token, "page-token", "", "the next page token of the page before")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(inboxKinds, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// future reads how long from now something is, or when.
func (a *app) future(name, text string) (time.Time, error) {
	var d config.Duration
	if err := d.UnmarshalText([]byte(text)); err == nil && d >= 0 {
		return a.now().Add(d.Std()).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("--%s %q is neither a duration such as 24h nor a time such as 2027-01-31T12:00:00Z", name, text)
	}
	return at.UTC(), nil
}

// writeItem writes what a list shows of an item.
func (a *app) writeItem(p *printer, i *inboxItem) {
	p.field("Item ID", i.ID)
	p.field("Kind", i.Kind)
	who := "Agent"
	if i.Peer {
		who = "Peer"
	}
	p.field(who, i.Agent)
	p.field("Task ID", i.Task)
	p.field("Tenant", i.Tenant)
	p.field("Owner", i.Owner)
	p.field("Reference", i.Ref)
	p.field("Operation", i.Operation)
	p.field("Text", i.Text)
	p.field("URL", i.URL)
	p.field("Asked", a.timeText(i.Created))
	if !i.Due.IsZero() {
		due := a.timeText(i.Due)
		if i.Overdue {
			due += " (overdue)"
		}
		p.field("Due", due)
	}
	p.field("Assignee", i.Assignee)
	if !i.Settled.IsZero() {
		p.field("Settled", a.timeText(i.Settled)+", "+i.Decision+" by "+i.By)
		p.field("Words", i.Words)
	}
}

func newInboxShowCommand(a *app) *cobra.Command {
	return adminCommand(a, "show ID", "Show an item with the conversation so far and its history", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		return a.onItem(ctx, node, "GET", args[0], "", nil)
	})
}

// onItem does something to an item and shows what became of it.
func (a *app) onItem(ctx context.Context, node *nodeAPI, method, id, action string, body any) error {
	var d inboxDetail
	value, err := node.get(ctx, method, "/inbox/"+url.PathEscape(id)+action, body, &d)
	if err != nil {
		return err
	}
	if a.output != formatText {
		return a.writeDocument(a.output, value, false)
	}
	v := a.newView(false)
	a.writeItem(v.printer, &d.Item)
	if d.Item.Schema != nil {
		v.field("Schema", string(d.Item.Schema))
	}
	if method == "GET" {
		for i := range d.Conversation {
			v.message("Conversation "+roleText(d.Conversation[i].Role), &d.Conversation[i])
		}
	}
	for _, e := range d.History {
		line := a.timeText(e.At) + " " + e.What
		if e.By != "" {
			line += " by " + e.By
		}
		if e.Words != "" {
			line += ": " + e.Words
		}
		v.field("History", line)
	}
	return v.err
}

func newInboxDecideCommand(a *app, decision string) *cobra.Command {
	var note, data string
	short := map[string]string{"approve": "Approve what an item asks for", "deny": "Deny what an item asks for"}[decision]
	cmd := adminCommand(a, decision+" ID", short, cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		body := map[string]any{"decision": decision}
		if note != "" {
			body["note"] = note
		}
		if data != "" {
			value, err := a.readGrantData(data)
			if err != nil {
				return err
			}
			body["data"] = value
		}
		return a.onItem(ctx, node, "POST", args[0], "/decision", body)
	})
	cmd.Long = short + `. An item is settled once, and the decision is for its
operation and nothing else.`
	cmd.Flags().StringVar(&note, "note", "", "why, for the agent and the record")
	if decision == "approve" {
		cmd.Flags().StringVar(&data, "data", "", "a file of JSON that the agent gets, such as a credential, - for standard input, or the JSON itself, which other processes of the machine can see; it is kept sealed")
	}
	return cmd
}

func newInboxAssignCommand(a *app) *cobra.Command {
	cmd := adminCommand(a, "assign ID [SUBJECT]", "Say who is to answer an item", cobra.RangeArgs(1, 2), func(ctx context.Context, node *nodeAPI, args []string) error {
		return a.onItem(ctx, node, "POST", args[0], "/assign", map[string]string{"assignee": strings.Join(args[1:], "")})
	})
	cmd.Long = "Say who is to answer an item. Without a name it is nobody. Others can still answer."
	return cmd
}

func newInboxDueCommand(a *app) *cobra.Command {
	cmd := adminCommand(a, "due ID WHEN", "Say when an item is due", cobra.ExactArgs(2), func(ctx context.Context, node *nodeAPI, args []string) error {
		body := map[string]any{}
		if args[1] != "never" {
			at, err := a.future("due", args[1])
			if err != nil {
				return usagef("%q is neither a duration such as 24h, nor a time such as 2027-01-31T12:00:00Z, nor never", args[1])
			}
			body["due"] = at.Format(time.RFC3339Nano)
		}
		return a.onItem(ctx, node, "POST", args[0], "/due", body)
	})
	cmd.Long = "Say when an item is due: in how long, when, or never. Reminders begin anew."
	cmd.Example = "  handoff inbox due ID 48h\n  handoff inbox due ID 2027-01-31T12:00:00Z"
	return cmd
}

func newInboxLinkCommand(a *app) *cobra.Command {
	var person, expires string
	cmd := adminCommand(a, "link ID", "Make a link with which somebody can answer an item once", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		body := map[string]string{}
		if person != "" {
			body["for"] = person
		}
		if expires != "" {
			at, err := a.future("expires", expires)
			if err != nil {
				return err
			}
			body["expires"] = at.Format(time.RFC3339Nano)
		}
		var link struct {
			URL     string
			Expires time.Time
		}
		value, err := node.get(ctx, "POST", "/inbox/"+url.PathEscape(args[0])+"/link", body, &link)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		p.field("Link", link.URL)
		p.field("Expires", a.timeText(link.Expires))
		return p.err
	})
	cmd.Long = `Make a link to a page on which somebody can answer or decide one item, without any
other credentials. It works until the item is settled or the link expires. Give it
only to whom it is for. It needs secret_key.`
	cmd.Example = "  handoff inbox link ID --for ann@example.com --expires 24h"
	cmd.Flags().StringVar(&person, "for", "", "who gets the link, for the record of who answers")
	cmd.Flags().StringVar(&expires, "expires", "", "in how long, such as 24h, or when; by default inbox.link_ttl of the node")
	return cmd
}
