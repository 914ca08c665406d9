package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/conformance"
)

// conformanceFlags are the options of conformance.
type conformanceFlags struct {
	client  clientFlags
	verify  verification
	text    string
	webhook string
	task    time.Duration
	list    bool
}

func newConformanceCommand(a *app) *cobra.Command {
	o := &conformanceFlags{}
	cmd := &cobra.Command{
		Use: "conformance [AGENT]", Short: "Exercise an agent and tell what it does right and wrong",
		Long: `Exercise an agent over every binding that its card offers, and tell what it does
right and wrong by the specification of A2A 1.0, with the paragraph. Nothing is
changed at the agent unless there is --send: then about eight messages with that
text go to every interface, what still runs is canceled, and a webhook is made and
deleted where the card has them. Exits with 1 when the agent breaks a MUST.`,
		Example: `  handoff conformance https://agents.example.com/agents/quote/
  handoff conformance quote --send "Quote 40 pallets" --transport JSONRPC
  handoff conformance https://agents.example.com -o json | jq '.results[] | select(.outcome == "fail")'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirstAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.list {
				return a.listChecks()
			}
			named := ""
			if len(args) == 1 {
				named = args[0]
			}
			return a.conformance(cmd.Context(), cmd, o, named)
		},
	}
	o.verify.register(cmd, card.PolicyPrefer)
	fs := cmd.Flags()
	fs.StringVar(&o.text, "send", "", "text to send to the agent, so that tasks, streams and webhooks are exercised")
	fs.DurationVar(&o.task, "task-timeout", conformance.DefaultTaskTimeout, "how long a task may take")
	fs.StringVar(&o.webhook, "webhook", conformance.DefaultWebhook, "URL that the webhook names; it is made for a task that is over")
	fs.BoolVar(&o.list, "list", false, "list the checks and do nothing")
	o.client.register(a, cmd)
	return cmd
}

func (a *app) conformance(ctx context.Context, cmd *cobra.Command, o *conformanceFlags, named string) error {
	switch {
	case cmd.Flags().Changed("send") && strings.TrimSpace(o.text) == "":
		return usagef("--send needs a text")
	case o.task <= 0:
		return usagef("--task-timeout %s is not more than 0", o.task)
	}
	s, end, err := a.prepareSession(ctx, &o.client, named)
	if err != nil {
		return err
	}
	defer end()
	opts, err := o.options(s)
	if err != nil {
		return err
	}
	report, err := conformance.Run(ctx, opts)
	if err != nil {
		return s.discoveryFailure(err)
	}
	s.warnOfExtensions()
	if ctx.Err() != nil {
		return failf(codeInterrupted, "interrupted")
	}
	if a.output != formatText {
		err = a.writeValue(report)
	} else {
		err = a.tellReport(report, o.client.verbose)
	}
	if code := exitOfReport(report); code != exitOK {
		return errors.Join(err, exitStatus(code))
	}
	return err
}

// warnOfExtensions tells the extensions without which the agent does little.
func (s *session) warnOfExtensions() {
	if s.card == nil {
		return
	}
	for _, e := range s.card.Capabilities.Extensions {
		if e.Required && !slices.Contains(s.opts.Extensions, e.URI) {
			s.warn("the card requires the extension %s; to see more, add: --svc-param A2A-Extensions:%s", e.URI, quoteShell(e.URI))
		}
	}
}

// options returns what the run is given. --timeout is the time of the whole run.
func (o *conformanceFlags) options(s *session) (conformance.Options, error) {
	opts := conformance.Options{
		Reference: s.target.ref, Client: s.opts, Text: o.text, Webhook: o.webhook,
		TaskTimeout: o.task, Total: o.client.timeout, Hide: s.secrets.hide,
		Found: func(c *a2a.AgentCard) { s.card = c }, Card: s.target.card,
	}
	if peers := s.target.peers; peers != nil {
		opts.Adjust = func(c *a2a.AgentCard) *a2a.AgentCard { return peers.Adjust(s.target.said, c) }
	}
	if v, err := a2a.ParseVersion(o.client.version); err == nil && o.client.version != "" && v == a2a.Version03 {
		return opts, usagef("conformance is about version 1.0; leave --a2a-version out")
	}
	opts.Client.Transports = nil
	for _, name := range o.client.transports {
		binding, err := bindingOf(name)
		if err != nil {
			return opts, err
		}
		opts.Client.Transports = append(opts.Client.Transports, binding)
	}
	if o.client.insecure {
		opts.TLS = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it is what was asked for
	}
	if len(o.verify.jwks) > 0 || len(o.verify.trust) > 0 || len(o.verify.origins) > 0 || o.verify.policy != string(card.PolicyPrefer) {
		verifier, err := o.verify.verifier(s.app)
		if err != nil {
			return opts, err
		}
		verifier.HTTPClient = s.http
		opts.Verifier = verifier
	}
	return opts, nil
}

// exitOfReport returns the exit code of a run that was told.
func exitOfReport(r *conformance.Report) int {
	switch {
	case !r.OK:
		return exitFailure
	case !r.Complete:
		return exitTimeout
	case r.Busy:
		return exitFailure
	case r.Refused:
		return exitAuth
	}
	return exitOK
}

// tellReport tells a report to people: what was skipped only where all is asked
// for.
func (a *app) tellReport(r *conformance.Report, all bool) error {
	p := printer{w: a.stdout}
	p.field("Agent", r.Name)
	p.field("Card", r.Card)
	for _, i := range r.Interfaces {
		text := i.Binding + " " + i.Version + " at " + i.URL
		if i.Tenant != "" {
			text += ", tenant " + i.Tenant
		}
		if i.Reason != "" {
			text += " (not exercised: " + i.Reason + ")"
		}
		p.field("Interface", text)
	}
	group := ""
	for _, result := range r.Results {
		if result.Outcome == conformance.Skip && !all {
			continue
		}
		heading := result.Group
		if result.Interface != "" {
			heading += " over " + result.Interface
		}
		if heading != group {
			p.blank()
			p.field("Checks", heading)
			group = heading
		}
		a.tellResult(&p, result, all)
	}
	p.blank()
	p.field("Result", summaryOf(r))
	return p.err
}

func (a *app) tellResult(p *printer, result conformance.Result, all bool) {
	label := map[conformance.Outcome]string{
		conformance.Pass: "Pass", conformance.Fail: "Fail", conformance.Warn: "Warn", conformance.Skip: "Skip",
	}[result.Outcome]
	p.field(label, fmt.Sprintf("%s: %s (%s, %s)", result.ID, result.Title, result.Severity, result.Paragraph))
	bad := result.Outcome == conformance.Fail || result.Outcome == conformance.Warn
	if bad || all {
		p.field("  Sent", result.Sent)
	}
	if bad || all || result.Severity == conformance.May {
		p.field("  Seen", result.Seen)
	}
}

// summaryOf tells a report in one line.
func summaryOf(r *conformance.Report) string {
	text := fmt.Sprintf("%d passed, %d failed, %d warned, %d skipped", r.Passed, r.Failed, r.Warned, r.Skipped)
	switch {
	case !r.OK:
		text += "; the agent breaks the specification"
	case !r.Complete:
		text += "; the time was over before the checks were"
	case r.Busy:
		text += "; the agent had no time, so that not everything was seen"
	case r.Refused:
		text += "; the agent refused the caller, so that not everything was seen"
	default:
		text += "; the agent keeps every MUST that was looked at"
	}
	if !r.Sends {
		text += " (nothing was sent; see --send)"
	}
	return text
}

// listChecks tells what the checks are.
func (a *app) listChecks() error {
	checks := conformance.Checks()
	if a.output != formatText {
		return a.writeValue(struct {
			Checks []conformance.Info `json:"checks"`
		}{checks})
	}
	p := printer{w: a.stdout}
	for _, c := range checks {
		text := fmt.Sprintf("%s (%s, %s)", c.Title, c.Severity, c.Paragraph)
		if c.Binding != "" {
			text += ", over " + c.Binding
		}
		if c.Sends {
			text += ", with --send"
		}
		p.field(c.ID, text)
	}
	p.field("Checks", strconv.Itoa(len(checks)))
	return p.err
}
