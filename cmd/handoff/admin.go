package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
)

func newAdminCommand(a *app) *cobra.Command {
	cmd := newGroup("admin", "Operate a node")
	cmd.Long = `Operate a node over its admin socket: that of the configuration, or the one that
--store or --socket names. With --node or HANDOFF_NODE, a node is
operated over the network with the rights of HANDOFF_TOKEN: an API key (handoff
keys create --role operator) or a token of somebody with that role.`
	cmd.AddCommand(newAdminTaskCommand(a), newAdminGrantCommand(a), newAdminPushCommand(a), newAdminAuditCommand(a), newAdminStatusCommand(a), newAdminAgentsCommand(a), newAdminNodeCommand(a), newAdminConfigCommand(a))
	return cmd
}

// adminCommand returns a command that speaks to the API of a node.
func adminCommand(a *app, use, short string, args cobra.PositionalArgs, run func(ctx context.Context, node *nodeAPI, args []string) error) *cobra.Command {
	var f apiFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := a.openNode(&f)
			if err == nil {
				defer node.close()
				err = run(cmd.Context(), node, args)
			}
			return a.tellProblems(err)
		},
	}
	f.register(cmd)
	return cmd
}

func newAdminStatusCommand(a *app) *cobra.Command {
	return adminCommand(a, "status", "Show how a node is", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		var s nodeStatus
		value, err := node.get(ctx, "GET", "/status", nil, &s)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		return a.writeStatus(&s)
	})
}

// nodeStatus is the answer of the API.
type nodeStatus struct {
	Version    string
	Epoch      int64
	Started    time.Time
	Uptime     int64 `json:"uptime_seconds"`
	Draining   bool
	Agents     int
	Store      string
	Bus        *busStatus
	Seals      *sealStatus
	StoreBytes int64  `json:"store_bytes"`
	StoreError string `json:"store_error"`
	Tasks      []struct {
		Agent, State string
		Count        int
		Oldest       time.Time
	}
}

// sealStatus says what is sealed with other keys than secret_key.
type sealStatus struct {
	Old, Unknown int
	Waiting      []string
	Spare        bool
}

func (a *app) writeStatus(s *nodeStatus) error {
	p := printer{w: a.stdout}
	p.field("Version", s.Version)
	p.field("Up", (time.Duration(s.Uptime)*time.Second).String()+", since "+a.timeText(s.Started))
	if s.Draining {
		p.field("Draining", "yes")
	}
	size := ""
	if s.StoreBytes > 0 {
		size = ", " + bytesText(s.StoreBytes)
	}
	p.field("Store", s.Store+size+", epoch "+strconv.FormatInt(s.Epoch, 10))
	if s.StoreError != "" {
		p.field("Trouble", s.StoreError)
	}
	if s.Bus != nil {
		p.field("Bus", a.busText(s.Bus))
	}
	p.field("Agents", strconv.Itoa(s.Agents))
	for _, t := range s.Tasks {
		state, _ := a2a.ParseTaskState(t.State)
		text := fmt.Sprintf("%s %d", stateText(state), t.Count)
		if !t.Oldest.IsZero() {
			text += ", oldest " + a.timeText(t.Oldest)
		}
		p.field("Tasks of "+t.Agent, text)
	}
	return p.err
}

// timeText tells a time to people.
func (a *app) timeText(t time.Time) string { return t.In(a.location).Format(time.RFC3339) }

func newAdminAgentsCommand(a *app) *cobra.Command {
	return adminCommand(a, "agents", "List the agents of a node", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		var answer struct {
			Agents []struct {
				ID, Name, Version, Address, Card string
				Retired                          bool
			}
		}
		value, err := node.get(ctx, "GET", "/agents", nil, &answer)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		for _, agent := range answer.Agents {
			p.field("Agent", agent.ID)
			if agent.Retired {
				p.field("Retired", "yes")
			}
			p.field("Name", agent.Name)
			p.field("Version", agent.Version)
			p.field("Address", agent.Address)
			p.field("Card", agent.Card)
			p.blank()
		}
		return p.err
	})
}

func newAdminConfigCommand(a *app) *cobra.Command {
	var all bool
	cmd := adminCommand(a, "config", "Show the configuration in force, and where each value comes from", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		var answer struct {
			Values []struct{ Path, Value, Origin string }
		}
		value, err := node.get(ctx, "GET", "/config", nil, &answer)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		for _, v := range answer.Values {
			if all || v.Origin != "default" {
				p.field(v.Path, v.Value+"  ("+v.Origin+")")
			}
		}
		return p.err
	})
	cmd.Flags().BoolVar(&all, "all", false, "show values that are the default too")
	return cmd
}
