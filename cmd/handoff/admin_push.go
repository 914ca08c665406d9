package main

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newAdminPushCommand(a *app) *cobra.Command {
	cmd := newGroup("push", "See and settle events that could not be delivered to webhooks")
	cmd.Long = `See and settle events that could not be delivered to webhooks. A webhook is
given up with the event that its receiver would not take; what came after it in
the task waits behind it. Redelivery goes on in order.`
	list := adminCommand(a, "list", "List the events that could not be delivered", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		return a.listPushes(ctx, node)
	})
	var skip bool
	redeliver := adminCommand(a, "redeliver TASK/WEBHOOK", "Let a webhook that was given up go on", oneLetter, func(ctx context.Context, node *nodeAPI, args []string) error {
		return a.settlePush(ctx, node, "POST", args[0], ":redeliver", map[string]any{"skip": skip}, "Redelivering")
	})
	redeliver.Flags().BoolVar(&skip, "skip", false, "leave out the event that could not be delivered")
	redeliver.Example = `  handoff admin push list
  handoff admin push redeliver 01a2…/hook-1`
	drop := adminCommand(a, "delete TASK/WEBHOOK", "Delete a webhook that was given up, with what waits for it", oneLetter, func(ctx context.Context, node *nodeAPI, args []string) error {
		return a.settlePush(ctx, node, "DELETE", args[0], "", nil, "Deleted")
	})
	cmd.AddCommand(list, redeliver, drop)
	return cmd
}

func oneLetter(_ *cobra.Command, args []string) error {
	if len(args) != 1 || !strings.Contains(args[0], "/") {
		return usagef("name one as TASK/WEBHOOK").hint("List them with: handoff admin push list")
	}
	return nil
}

// pushList is the answer of the API.
type pushList struct {
	Pushes []struct {
		ID, Event, Agent, Target, Error string
		Attempts, Waiting               int
		Since, Dead                     time.Time
	}
	NextPageToken string `json:"next_page_token"`
}

func (a *app) listPushes(ctx context.Context, node *nodeAPI) error {
	p := printer{w: a.stdout}
	path, shown := "/pushes?limit=1000", 0
	for {
		var answer pushList
		value, err := node.get(ctx, "GET", path, nil, &answer)
		if err != nil {
			return err
		}
		if a.output != formatText {
			if err := a.writeDocument(a.output, value, false); err != nil {
				return err
			}
		} else {
			for _, l := range answer.Pushes {
				p.field("ID", l.ID)
				p.field("Event", l.Event)
				p.field("Agent", l.Agent)
				p.field("Target", l.Target)
				p.field("Error", l.Error)
				p.field("Attempts", strconv.Itoa(l.Attempts)+", from "+a.timeText(l.Since)+" to "+a.timeText(l.Dead))
				p.field("Waiting", plural(l.Waiting, "event")+" of the task")
				p.blank()
			}
		}
		shown += len(answer.Pushes)
		if answer.NextPageToken == "" {
			break
		}
		path = "/pushes?limit=1000&page_token=" + url.QueryEscape(answer.NextPageToken)
	}
	if shown == 0 && a.output == formatText {
		p.write("Every event was delivered, or is being tried.\n")
	}
	return p.err
}

func (a *app) settlePush(ctx context.Context, node *nodeAPI, method, id, action string, body any, done string) error {
	if _, err := node.call(ctx, method, "/pushes/"+url.PathEscape(id)+action, body); err != nil {
		return err
	}
	p := printer{w: a.stdout}
	if a.output == formatText {
		p.field(done, id)
	}
	return p.err
}
