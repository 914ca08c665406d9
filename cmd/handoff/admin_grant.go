package main

import (
	"context"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// maxGrantData bounds the data of a grant, in bytes.
const maxGrantData = 128 << 10

func newAdminGrantCommand(a *app) *cobra.Command {
	var note, data string
	cmd := adminCommand(a, "grant [ID approve|deny]", "See and settle grant requests", func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return nil
		case len(args) != 2 || !decides(args[0]) && !decides(args[1]):
			return usagef("say what to decide: handoff admin grant ID approve, or deny").hint("List the requests with: handoff admin grant list")
		}
		return nil
	}, func(ctx context.Context, node *nodeAPI, args []string) error {
		if len(args) == 0 {
			return a.listGrants(ctx, node)
		}
		id, decision := args[0], args[1]
		if !decides(decision) { // the order of handoff inbox
			id, decision = decision, id
		}
		return a.decideGrant(ctx, node, id, decision, note, data)
	})
	cmd.Long = `Settle a request for an authorization, and so let its task go on. A request is
settled once, and the decision is for its operation and nothing else. The decision
may stand before the ID too. Without arguments the requests that wait are listed.`
	cmd.Example = `  handoff admin grant
  handoff admin grant 01a2…-2 approve --note "within budget"
  handoff admin grant 01a2…-2 approve --data - < token.json`
	cmd.Flags().StringVar(&note, "note", "", "why, for the agent and the record")
	cmd.Flags().StringVar(&data, "data", "", "with approve: a file of JSON that the agent gets, - for standard input, or the JSON itself, which other processes of the machine can see; it is kept sealed")
	cmd.AddCommand(adminCommand(a, "list", "List the requests that wait for a decision", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		return a.listGrants(ctx, node)
	}))
	return cmd
}

func decides(word string) bool { return word == "approve" || word == "deny" }

func (a *app) listGrants(ctx context.Context, node *nodeAPI) error {
	var answer struct {
		Grants []struct {
			ID, Task, Operation, Text, URL string
			Created, Expires               time.Time
		}
	}
	value, err := node.get(ctx, "GET", "/grants", nil, &answer)
	if err != nil {
		return err
	}
	if a.output != formatText {
		return a.writeDocument(a.output, value, false)
	}
	p := printer{w: a.stdout}
	for _, g := range answer.Grants {
		p.field("Grant ID", g.ID)
		p.field("Task ID", g.Task)
		p.field("Operation", g.Operation)
		p.field("Text", g.Text)
		p.field("URL", g.URL)
		p.field("Asked", a.timeText(g.Created))
		if !g.Expires.IsZero() {
			p.field("Expires", a.timeText(g.Expires))
		}
		p.blank()
	}
	if len(answer.Grants) == 0 {
		p.write("Nothing waits for a decision.\n")
	}
	return p.err
}

func (a *app) decideGrant(ctx context.Context, node *nodeAPI, id, decision, note, file string) error {
	body := map[string]any{"decision": decision}
	if note != "" {
		body["note"] = note
	}
	if file != "" {
		data, err := a.readGrantData(file)
		if err != nil {
			return err
		}
		body["data"] = data
	}
	var t operatedTask
	value, err := node.get(ctx, "POST", "/grants/"+url.PathEscape(id), body, &t)
	if err != nil {
		return err
	}
	if a.output != formatText {
		return a.writeDocument(a.output, value, false)
	}
	p := printer{w: a.stdout}
	done := "Approved"
	if decision == "deny" {
		done = "Denied"
	}
	p.field(done, id)
	p.field("Task ID", t.Task.ID)
	p.field("State", stateText(t.Task.Status.State))
	return p.err
}

// readGrantData reads the JSON that goes with a decision.
func (a *app) readGrantData(file string) (jsontext.Value, error) {
	return a.readData(file, maxGrantData)
}
