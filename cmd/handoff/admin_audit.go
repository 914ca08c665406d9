package main

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"handoff.example/handoff/config"
)

// auditEntry is what the text form shows of an entry of the audit log.
type auditEntry struct {
	ID                                              int64
	Time                                            time.Time
	Tenant, Subject, Role, Address                  string
	Operation, Agent, Task, Target, Result, Request string
}

// auditPoll is how often the log is asked for what is new.
const auditPoll = 500 * time.Millisecond

func newAdminAuditCommand(a *app) *cobra.Command {
	var since, until, subject, task string
	var follow bool
	cmd := adminCommand(a, "audit", "Show the audit log of a node", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		q := url.Values{"limit": {"1000"}}
		for name, text := range map[string]string{"since": since, "until": until} {
			if text == "" {
				continue
			}
			at, err := a.past(name, text)
			if err != nil {
				return err
			}
			q.Set(name, at.Format(time.RFC3339Nano))
		}
		if subject != "" {
			q.Set("subject", strings.TrimPrefix(subject, "anonymous"))
		}
		if task != "" {
			q.Set("task", task)
		}
		return a.tellAudit(ctx, node, q, follow)
	})
	cmd.Long = `Show who did what on a node, the oldest first. With -o json every entry is one line
of JSON. What is recorded is configured with audit; see docs/audit.md.`
	cmd.Example = `  handoff admin audit --since 24h
  handoff admin audit --task 0192f3a1-… -o json
  handoff admin audit --since 2027-01-01T00:00:00Z --until 2027-02-01T00:00:00Z -o json > january.jsonl`
	cmd.Flags().StringVar(&since, "since", "", "from when on: how long ago, such as 24h, or a time such as 2027-01-31T12:00:00Z")
	cmd.Flags().StringVar(&until, "until", "", "until when, in the same form")
	cmd.Flags().StringVar(&subject, "subject", "", "only what this caller did; anonymous is the one without credentials")
	cmd.Flags().StringVar(&task, "task", "", "only what was done to this task")
	cmd.Flags().BoolVar(&follow, "follow", false, "wait for further entries")
	return cmd
}

// past reads a time that is over: a time, or how long ago it was.
func (a *app) past(flag, text string) (time.Time, error) {
	var d config.Duration
	if err := d.UnmarshalText([]byte(text)); err == nil && d >= 0 {
		return a.now().Add(-d.Std()).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("--%s %q is neither a duration such as 24h nor a time such as 2027-01-31T12:00:00Z", flag, text)
	}
	return at.UTC(), nil
}

// tellAudit writes the entries that a query selects, page by page.
func (a *app) tellAudit(ctx context.Context, node *nodeAPI, q url.Values, follow bool) error {
	for {
		var page struct {
			Entries []jsontext.Value
			Next    int64 `json:"next_after"`
		}
		if _, err := node.get(ctx, "GET", "/audit?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		for _, value := range page.Entries {
			var e auditEntry
			if err := decodeAnswer(value, &e); err != nil {
				return err
			}
			q.Set("after", strconv.FormatInt(e.ID, 10))
			if err := a.tellAuditEntry(value, &e); err != nil {
				return err
			}
		}
		switch {
		case page.Next != 0:
			continue
		case !follow:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(auditPoll):
		}
	}
}

func (a *app) tellAuditEntry(value jsontext.Value, e *auditEntry) error {
	if a.output != formatText {
		return a.writeDocument(a.output, value, true)
	}
	who := e.Subject
	if who == "" {
		who = "anonymous"
	}
	if e.Tenant != "" {
		who += " of " + e.Tenant
	}
	p := printer{w: a.stdout}
	p.field("Time", a.timeText(e.Time))
	p.field("Who", who+" ("+e.Role+")")
	for _, f := range [][2]string{
		{"From", e.Address}, {"What", e.Operation}, {"Agent", e.Agent}, {"Task", e.Task}, {"Target", e.Target}, {"Result", e.Result}, {"Request", e.Request},
	} {
		if f[1] != "" {
			p.field(f[0], f[1])
		}
	}
	p.blank()
	return p.err
}
