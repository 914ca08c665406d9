package console

import (
	"strconv"
	"time"

	"handoff.example/handoff/internal/auth"
)

var auditPages = []page{
	{path: "audit", nav: "audit", title: "Audit", role: auth.RoleAdmin, node: true, get: showAudit},
}

// auditEntry is what one request did, as the API has it.
type auditEntry struct {
	ID        int64     `json:"id"`
	Time      time.Time `json:"time"`
	Subject   string    `json:"subject"`
	Issuer    string    `json:"issuer"`
	Tenant    string    `json:"tenant"`
	Role      string    `json:"role"`
	Key       string    `json:"key"`
	Address   string    `json:"address"`
	Operation string    `json:"operation"`
	Binding   string    `json:"binding"`
	Agent     string    `json:"agent"`
	Task      string    `json:"task"`
	Target    string    `json:"target"`
	Result    string    `json:"result"`
	Request   string    `json:"request"`
	Trace     string    `json:"trace"`
}

// OK reports whether the request was carried out.
func (e *auditEntry) OK() bool { return e.Result == "OK" }

func showAudit(v *view) error {
	given := v.query()
	var d struct {
		Entries  []auditEntry `json:"entries"`
		Before   int64        `json:"next_before"`
		Subject  string
		Task     string
		Action   string
		Since    string
		Until    string
		Filtered bool
		Pager    pager
		Problem  string
	}
	d.Subject, d.Task, d.Action, d.Since, d.Until = given.Get("subject"), given.Get("task"), given.Get("action"), given.Get("since"), given.Get("until")
	q := valuesOf("order", "desc", "subject", d.Subject, "task", d.Task, "action", d.Action, "before", given.Get("before"))
	for _, name := range []string{"since", "until"} {
		// A browser sends days; they are those of UTC.
		if day, err := time.Parse(time.DateOnly, given.Get(name)); err == nil {
			if name == "until" {
				day = day.AddDate(0, 0, 1)
			}
			q.Set(name, day.Format(time.RFC3339))
		}
	}
	filter := valuesOf("subject", d.Subject, "task", d.Task, "action", d.Action, "since", d.Since, "until", d.Until)
	d.Filtered = len(filter) > 0
	if err := v.get(address("/audit", q), &d); err != nil {
		return err
	}
	next := ""
	if d.Before > 0 {
		next = strconv.FormatInt(d.Before, 10)
	}
	d.Pager = v.pager(Prefix+"audit", filter, "before", next)
	return v.render("audit", &d)
}
