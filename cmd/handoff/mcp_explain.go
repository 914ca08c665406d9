package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"handoff.example/handoff/internal/mcpgw/policy"
)

// mcpQuestion says for whom is asked.
type mcpQuestion struct {
	mcpFlags
	as, role, tenant string
	scopes           []string
}

func (q *mcpQuestion) register(cmd *cobra.Command) {
	q.mcpFlags.register(cmd)
	fs := cmd.Flags()
	fs.StringVar(&q.as, "as", "", "the subject of the caller; without it, an anonymous one")
	fs.StringVar(&q.role, "role", "caller", "the role of the caller: none, viewer, caller, operator or admin")
	fs.StringVar(&q.tenant, "tenant", "", "the tenant of the caller")
	fs.StringSliceVar(&q.scopes, "scope", nil, "a scope that the caller's credential has; repeatable")
}

func (q *mcpQuestion) query() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"as": q.as, "role": q.role, "tenant": q.tenant, "scopes": strings.Join(q.scopes, " "), "server": q.server, "set": q.set,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

func newMCPExplainCommand(a *app) *cobra.Command {
	var q mcpQuestion
	cmd := adminCommand(a, "explain TOOL", "Say what becomes of calls of a tool, and why", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		values := q.query()
		values.Set("tool", args[0])
		var answer struct{ Explanations []policy.Explanation }
		value, err := node.get(ctx, "GET", "/mcp/explain?"+values.Encode(), nil, &answer)
		if err != nil {
			return err
		}
		if len(answer.Explanations) == 0 {
			return failf(codeNotFound, "no server has a tool %q, and no configuration names one", args[0]).hint("See: handoff mcp servers")
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		for i := range answer.Explanations {
			if i > 0 {
				p.blank()
			}
			tellExplanation(&p, &answer.Explanations[i])
		}
		return p.err
	})
	cmd.Long = `Say what becomes of calls of a tool by a caller, with each key of the configuration
that counts, in the order in which it does. TOOL is its name at the endpoint, or
SERVER.TOOL with the name that its server has for it.`
	cmd.Example = `  handoff mcp explain draft_order --as buyer
  handoff mcp explain erp.post_order --as buyer --role operator --scope erp:write
  handoff mcp explain get_stock --set buying -o json`
	q.register(cmd)
	return cmd
}

func tellExplanation(p *printer, x *policy.Explanation) {
	name := x.Tool
	if x.Server != "" {
		name = x.Server + "." + x.Tool
	}
	p.field("Tool", name)
	p.field("Called", x.Name)
	outcome := x.Outcome
	if x.Reason != "" {
		outcome += ": " + x.Reason
	}
	p.field("Outcome", outcome)
	if x.Missing {
		p.field("Scopes", "lacks some of "+strings.Join(x.Scopes, " ")+"; the caller is told to get them")
	} else {
		p.field("Scopes", strings.Join(x.Scopes, " "))
	}
	for _, s := range x.Steps {
		says := ""
		if s.Says != "" {
			says = " (" + s.Says + ")"
		}
		p.write(fmt.Sprintf("  %s%s: %s\n", s.Key, says, s.Effect))
	}
}

func newMCPServersCommand(a *app) *cobra.Command {
	return adminCommand(a, "servers", "Show the tool servers of a node and how they are", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		var answer struct{ Servers []policy.ServerReport }
		value, err := node.get(ctx, "GET", "/mcp/servers", nil, &answer)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		for i := range answer.Servers {
			if i > 0 {
				p.blank()
			}
			a.tellToolServer(&p, &answer.Servers[i])
		}
		if len(answer.Servers) == 0 {
			p.write("There are no tool servers. Put them in the configuration, under mcp.servers, or take them over with: handoff mcp import\n")
		}
		return p.err
	})
}

func (a *app) tellToolServer(p *printer, r *policy.ServerReport) {
	p.field("Server", r.Name)
	if s := r.State; s != nil {
		how := s.Transport
		if s.Revision != "" {
			how += ", revision " + s.Revision
		}
		p.field("Speaks", how)
		switch {
		case !s.Up:
			p.field("State", "failing since "+a.timeText(s.Since)+": "+s.LastError)
		case s.Circuit != "closed":
			p.field("State", "left alone for a while: "+s.LastError)
		default:
			p.field("State", "works")
		}
		for _, process := range s.Processes {
			whose := ""
			if process.Caller != "" {
				whose = " of " + strings.TrimSpace(strings.TrimPrefix(process.Caller, "of "))
			}
			p.field("Process", fmt.Sprintf("%d%s, since %s, %d calls", process.PID, whose, a.timeText(process.Started), process.Calls))
		}
	}
	if r.Fetched.IsZero() {
		p.field("Lists", "not asked for yet")
	} else {
		p.field("Lists", fmt.Sprintf("%d tools, %d prompts, %d resources, %d templates, as of %s", r.Tools, r.Prompts, r.Resources, r.Templates, a.timeText(r.Fetched)))
	}
	for _, one := range r.LeftOut {
		p.field("Left out", one.Name+": "+one.Reason)
	}
}

func newMCPHeldCommand(a *app) *cobra.Command {
	cmd := adminCommand(a, "held", "List the tools whose definition has changed and waits for approval", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		var answer struct{ Held []policy.Held }
		value, err := node.get(ctx, "GET", "/mcp/held", nil, &answer)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		for i, h := range answer.Held {
			if i > 0 {
				p.blank()
			}
			p.field("Tool", h.Server+" "+h.Tool)
			p.field("Since", a.timeText(h.Since))
			p.field("Digest", h.Digest)
			p.field("Approved", h.Pinned)
			p.block("Was", string(h.Old))
			p.block("Is", string(h.New))
		}
		if len(answer.Held) == 0 {
			p.write("No definition waits for approval.\n")
		}
		return p.err
	})
	cmd.Long = `List the tools whose definition has changed since it was first seen or approved. They
are hidden until somebody approves them. Only servers with changed: hold have any.`
	return cmd
}

func newMCPApproveCommand(a *app) *cobra.Command {
	var digest string
	cmd := adminCommand(a, "approve SERVER TOOL", "Approve the changed definition of a tool", cobra.ExactArgs(2), func(ctx context.Context, node *nodeAPI, args []string) error {
		body := map[string]string{"server": args[0], "tool": args[1]}
		if digest != "" {
			body["digest"] = digest
		}
		if _, err := node.call(ctx, "POST", "/mcp/held:approve", body); err != nil {
			return err
		}
		p := printer{w: a.stdout}
		p.write("The definition of " + args[1] + " is approved.\n")
		return p.err
	})
	cmd.Long = `Approve the definition of a tool that waits. TOOL is the name that its server has for
it. With --digest it has to be the one that handoff mcp held showed.`
	cmd.Flags().StringVar(&digest, "digest", "", "the digest of the definition that is meant")
	return cmd
}
