package console

import (
	"net/url"
	"time"

	"handoff.example/handoff/internal/auth"
)

var webhooksPages = []page{
	{path: "webhooks", nav: "webhooks", title: "Webhooks", role: auth.RoleOperator, get: showWebhooks, post: changeWebhook},
}

// webhook is where events of a task are delivered, as the API has it.
type webhook struct {
	ID       string    `json:"id"`
	Task     string    `json:"task"`
	Agent    string    `json:"agent"`
	Tenant   string    `json:"tenant"`
	Owner    string    `json:"owner"`
	URL      string    `json:"url"`
	Target   string    `json:"target"` // the URL as far as its host
	Scheme   string    `json:"scheme"`
	State    string    `json:"state"`
	Created  time.Time `json:"created"`
	Sent     int64     `json:"sent"`
	Events   int64     `json:"events"`
	Waiting  int64     `json:"waiting"`
	Failures int       `json:"failures"`
	Failing  time.Time `json:"failing_since"`
	Stuck    int64     `json:"stuck"`
	Error    string    `json:"error"`
	Next     time.Time `json:"next"`
	Dead     time.Time `json:"dead"`
}

func showWebhooks(v *view) error {
	given := v.query()
	var d struct {
		Webhooks []webhook `json:"webhooks"`
		Next     string    `json:"next_page_token"`
		States   []string
		State    string
		Task     string
		Pager    pager
	}
	d.States, d.State, d.Task = []string{"dead", "retrying", "behind", "idle"}, given.Get("state"), given.Get("task")
	ask := valuesOf("state", d.State, "task", d.Task, "page_token", given.Get("page_token"))
	if err := v.get(address("/webhooks", ask), &d); err != nil {
		return err
	}
	d.Pager = v.pager(Prefix+"webhooks", valuesOf("state", d.State, "task", d.Task), "page_token", d.Next)
	return v.render("webhooks", &d)
}

// changeWebhook lets a webhook that was given up go on, or deletes it.
func changeWebhook(v *view) error {
	api := "/pushes/" + url.PathEscape(v.form.Get("webhook"))
	here := address(Prefix+"webhooks", valuesOf("state", v.query().Get("state")))
	switch v.form.Get("do") {
	case "redeliver":
		if err := v.post(api+":redeliver", nil, nil); err != nil {
			return v.refuse(here, err)
		}
		return v.redirect(here, "It is delivered again, in order.")
	case "delete":
		if err := v.delete(api); err != nil {
			return v.refuse(here, err)
		}
		return v.redirect(here, "The webhook is deleted, with what waited for it.")
	}
	return errNoAction()
}
