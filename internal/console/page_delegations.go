package console

import (
	"net/url"
	"strings"
	"time"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/content"
)

var delegationsPages = []page{
	{path: "/delegations", nav: "delegations", title: "Delegations", role: auth.RoleViewer, get: showDelegations},
	{path: "/delegations/{root}", nav: "delegations", title: "Delegation", role: auth.RoleViewer, get: showDelegation, post: changeDelegation},
}

// shownDelegation is a delegation as the API has it, as far as it is shown.
type shownDelegation struct {
	ID       string    `json:"id"`
	To       string    `json:"to"`
	Peer     bool      `json:"peer"`
	Ref      string    `json:"ref"`
	State    string    `json:"state"`
	Asked    string    `json:"asked"`
	Owner    string    `json:"owner"`
	Root     string    `json:"root"`
	Parent   string    `json:"parent"`
	Created  time.Time `json:"created"`
	Deadline time.Time `json:"deadline"`
	Waits    *waitsFor `json:"waits_for"`
	Remote   *struct {
		Send     string    `json:"send"`
		Task     string    `json:"task"`
		State    string    `json:"state"`
		Seen     time.Time `json:"seen"`
		Channel  string    `json:"channel"`
		Attempts int       `json:"attempts"`
		Error    string    `json:"error"`
	} `json:"remote"`
}

// Over reports whether nothing happens to it any more.
func (d *shownDelegation) Over() bool { return terminal(d.State) }

// By is who asked for it: an agent of this node by its id.
func (d *shownDelegation) By() string { return strings.TrimPrefix(d.Asked, "agent ") }

// delegationFilter says which delegations a list shows.
type delegationFilter struct {
	Ref, Peer, Root, State string
	Open                   bool
}

func (f *delegationFilter) values() url.Values {
	q := valuesOf("ref", f.Ref, "peer", f.Peer, "root", f.Root, "state", f.State)
	if f.Open {
		q.Set("open", "true")
	}
	return q
}

// Set reports whether the filter leaves anything out.
func (f *delegationFilter) Set() bool { return len(f.values()) > 0 }

// delegationPage is what the list shows.
type delegationPage struct {
	Delegations []shownDelegation `json:"delegations"`
	Next        string            `json:"next_page_token"`

	Filter  delegationFilter `json:"-"`
	States  []option         `json:"-"`
	Pager   pager            `json:"-"`
	Problem string           `json:"-"`
	Other   int              `json:"-"` // tasks with the reference that are no delegations
}

func showDelegations(v *view) error {
	q := v.query()
	word := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	p := &delegationPage{Filter: delegationFilter{
		Ref: word("ref"), Peer: word("peer"), Root: word("root"), State: word("state"), Open: q.Get("open") == "true",
	}}
	p.States = []option{{"", "any", p.Filter.State == ""}}
	for _, s := range taskStates {
		value := strings.ToLower(strings.TrimPrefix(s, "TASK_STATE_"))
		p.States = append(p.States, option{value, stateOf(s).Word, value == p.Filter.State})
	}
	ask := p.Filter.values()
	if token := q.Get("page_token"); token != "" {
		ask.Set("page_token", token)
	}
	if err := v.get(address("/delegations", ask), p); err != nil {
		if !hasStatus(err, 400) {
			return err
		}
		p.Problem = err.Error()
	}
	p.Pager = v.pager("/console/delegations", p.Filter.values(), "page_token", p.Next)
	if len(p.Delegations) == 0 && p.Filter.Ref != "" && p.Problem == "" {
		var tasks taskPage
		if err := v.get("/tasks?page_size=10&ref="+url.QueryEscape(p.Filter.Ref), &tasks); err != nil {
			return err
		}
		p.Other = len(tasks.Tasks)
	}
	return v.render("delegations", p)
}

// delegationDetail is what the page of a tree shows.
type delegationDetail struct {
	*drawnTree
	Order  string // the first reference in the tree
	Waited []treeWait
	Whole  bool // nothing was left out of Waited
	Open   []*treeNode
	Root   *treeNode
	Now    time.Time
}

// showDelegation shows the tree that a task is in. Its address may also name a
// reference, such as an order number.
func showDelegation(v *view) error {
	id := v.param("root")
	now := time.Now()
	t, err := v.tree(id, now)
	if isNotFound(err) {
		var d shownDelegation
		if err := v.get("/delegations/"+url.PathEscape(id), &d); err != nil {
			return err
		}
		return v.redirect(delegationPath(d.Root), "")
	}
	if err != nil {
		return err
	}
	if len(t.Nodes) == 0 {
		return &apiError{Status: 404, Code: "NOT_FOUND", Message: "There is no such task."}
	}
	d := &delegationDetail{drawnTree: t.draw(), Now: now, Root: &t.Nodes[0]}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if d.Order == "" {
			d.Order = n.Ref
		}
		if n.Delegated() && !n.Over() {
			d.Open = append(d.Open, n)
		}
	}
	if d.Waited, d.Whole, err = v.waits(t); err != nil {
		return err
	}
	v.title = "Delegations of " + content.Visible(d.Root.Who())
	if d.Order != "" {
		v.title = content.Visible(d.Order)
	}
	return v.render("delegation", d)
}

func delegationPath(root string) string { return "/console/delegations/" + url.PathEscape(root) }

// changeDelegation cancels a delegation, lets it look at its agent, or sends it a
// message.
func changeDelegation(v *view) error {
	here := delegationPath(v.param("root"))
	id := v.form.Get("task")
	path := "/delegations/" + url.PathEscape(id)
	var err error
	done := ""
	switch do := v.form.Get("do"); {
	case id == "":
		return v.problem(here, "No delegation was chosen.")
	case do == "resume":
		err, done = v.post(path+":resume", nil, nil), "Its agent was looked at."
	case do == "message":
		text := strings.TrimSpace(v.form.Get("text"))
		if text == "" {
			return v.problem(here, "The message is empty.")
		}
		err, done = v.post(path+":message", map[string]string{"message": text}, nil), "The message was sent."
	case do == "cancel" && v.form.Get("confirmed") == "":
		return confirmChange(v, changeOf("cancel"), []string{id}, here)
	case do == "cancel":
		err, done = v.post(path+":cancel", nil, nil), "The delegation was canceled."
	default:
		return v.problem(here, "Nothing was chosen that could be done.")
	}
	if err != nil {
		return v.refuse(here, err)
	}
	return v.redirect(here, done)
}
