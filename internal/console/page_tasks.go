package console

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
)

var tasksPages = []page{{path: "/tasks", nav: "tasks", title: "Tasks", role: auth.RoleViewer, get: showTasks, post: changeTasks}}

// shownTask is a task as the API has it, as far as it is shown.
type shownTask struct {
	Agent   string    `json:"agent"`
	Tenant  string    `json:"tenant"`
	Owner   string    `json:"owner"`
	Turn    int       `json:"turn"`
	Attempt int       `json:"attempt"`
	Unread  int64     `json:"unread"`
	Events  int64     `json:"events"`
	Running bool      `json:"running"`
	Stale   bool      `json:"stale"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Ref     string    `json:"ref"`
	Peer    string    `json:"peer"`
	Root    string    `json:"root"`
	Parent  string    `json:"parent"`
	Waits   *waitsFor `json:"waits_for"`
	Task    a2a.Task  `json:"task"`
}

// State is the state as the API calls it.
func (t *shownTask) State() string { return t.Task.Status.State.String() }

// Over reports whether nothing happens to the task any more.
func (t *shownTask) Over() bool { return t.Task.Status.State.Terminal() }

// Says is what the status says.
func (t *shownTask) Says() string {
	if t.Task.Status.Message == nil {
		return ""
	}
	return t.Task.Status.Message.Text()
}

// Who is the agent that does the work: a peer by its name.
func (t *shownTask) Who() string {
	if t.Peer != "" {
		return t.Peer
	}
	return strings.TrimPrefix(t.Agent, "peer:")
}

// taskPage is what the list shows.
type taskPage struct {
	Tasks  []shownTask `json:"tasks"`
	Next   string      `json:"next_page_token"`
	Total  *int        `json:"total_size"`
	Search *struct {
		Scanned  int       `json:"scanned"`
		Complete bool      `json:"complete"`
		BackTo   time.Time `json:"back_to"`
	} `json:"search"`

	Filter   taskFilter `json:"-"`
	Pager    pager      `json:"-"`
	Agents   []string   `json:"-"`
	Problem  string     `json:"-"` // with the filter
	MinAges  []option   `json:"-"`
	MaxAges  []option   `json:"-"`
	Stalls   []option   `json:"-"`
	States   []string   `json:"-"`
	Detailed bool       `json:"-"` // filters beyond text and state are in use
	Now      time.Time  `json:"-"`
}

func showTasks(v *view) error {
	p := &taskPage{Filter: taskFilterOf(v.query()), States: taskStates, Now: time.Now()}
	f := &p.Filter
	p.MinAges, p.MaxAges, p.Stalls = ages(f.MinAge), ages(f.MaxAge), ages(f.Stalled)
	p.Detailed = f.Ref+f.Agent+f.Peer+f.Owner+f.Context+f.Root+f.MinAge+f.MaxAge+f.Stalled != ""
	q := f.api()
	q.Set("part_bytes", "400")
	if err := v.get("/tasks?"+q.Encode(), p); err != nil {
		if !hasStatus(err, 400) {
			return err
		}
		p.Problem = err.Error()
	}
	p.Pager = v.pager("/console/tasks", f.values(), "page_token", p.Next)
	var err error
	if p.Agents, err = v.agentIDs(); err != nil {
		return err
	}
	return v.render("tasks", p)
}

// agentIDs returns the agents that there are, for a select.
func (v *view) agentIDs() ([]string, error) {
	var list struct {
		Agents []struct {
			ID string `json:"id"`
		} `json:"agents"`
	}
	if err := v.get("/agents", &list); err != nil {
		return nil, err
	}
	ids := make([]string, len(list.Agents))
	for i, a := range list.Agents {
		ids[i] = a.ID
	}
	return ids, nil
}

// change is something that can be done to tasks.
type change struct {
	Verb    string // of the API
	Word    string // on a button
	Done    string // of a sentence
	Warning string
	Role    auth.Role
}

var changes = []change{
	{"cancel", "Cancel", "canceled", "Their agents are told to stop. What they have delegated is canceled too. This cannot be undone.", auth.RoleCaller},
	{"retry", "Retry", "sent again", "The first message of each is sent again, in a new task. Work that was done before may be done a second time.", auth.RoleCaller},
	{"delete", "Delete", "deleted", "They are removed with their messages, artifacts and events. This cannot be undone.", auth.RoleOperator},
}

func changeOf(verb string) *change {
	for i := range changes {
		if changes[i].Verb == verb {
			return &changes[i]
		}
	}
	return nil
}

// maxSelected bounds the tasks of one change, as the API does.
const maxSelected = 200

// confirmation asks whether tasks are to be changed.
type confirmation struct {
	*change
	Tasks []shownTask
	Back  string // the page to return to
}

// changeTasks cancels, retries or deletes the tasks that were chosen: first it
// shows them and asks, then it does it.
func changeTasks(v *view) error {
	f := taskFilterOf(v.query())
	c := changeOf(v.form.Get("do"))
	ids := v.form["task"]
	switch {
	case c == nil:
		return v.problem(f.Path(), "Nothing was chosen that could be done.")
	case len(ids) == 0:
		return v.problem(f.Path(), "No task was chosen. Mark the tasks in the list first.")
	case len(ids) > maxSelected:
		return v.problem(f.Path(), fmt.Sprintf("At most %d tasks can be changed at once.", maxSelected))
	}
	if v.form.Get("confirmed") == "" {
		return confirmChange(v, c, ids, f.Path())
	}
	text, whole, err := v.changeAll(c, ids)
	if err != nil {
		return v.refuse(f.Path(), err)
	}
	if !whole {
		return v.problem(f.Path(), text)
	}
	return v.redirect(f.Path(), text)
}

// problem answers a form that has not worked, with a page that says why.
func (v *view) problem(path, text string) error {
	return v.refuse(path, &apiError{Message: text})
}

func confirmChange(v *view, c *change, ids []string, back string) error {
	d := &confirmation{change: c, Back: back}
	for _, id := range ids {
		var t shownTask
		switch err := v.get("/tasks/"+url.PathEscape(id)+"?history=0&part_bytes=400", &t); {
		case isNotFound(err):
		case err != nil:
			return v.refuse(back, err)
		default:
			d.Tasks = append(d.Tasks, t)
		}
	}
	if len(d.Tasks) == 0 {
		return v.problem(back, "None of the tasks that were chosen is there any more.")
	}
	v.title = c.Word + " " + plural(len(d.Tasks), "task", "tasks")
	return v.render("confirm", d)
}

// changeAll changes tasks, and says what has come of it, and whether all of it
// worked.
func (v *view) changeAll(c *change, ids []string) (text string, whole bool, err error) {
	var answer struct {
		Done    int `json:"done"`
		Failed  int `json:"failed"`
		Results []struct {
			ID    string `json:"id"`
			OK    bool   `json:"ok"`
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		} `json:"results"`
	}
	if err := v.post("/tasks:"+c.Verb, map[string]any{"ids": ids}, &answer); err != nil {
		return "", false, err
	}
	if answer.Failed == 0 {
		return plural(answer.Done, "task was ", "tasks were ") + c.Done + ".", true, nil
	}
	text = fmt.Sprintf("%d of %s %s.", answer.Done, plural(answer.Done+answer.Failed, "task was", "tasks were"), c.Done)
	said := map[string]bool{}
	for _, r := range answer.Results {
		if m := r.Error.Message; !r.OK && !said[m] && len(said) < 3 {
			said[m] = true
			text += " " + strings.TrimSuffix(m, ".") + "."
		}
	}
	return text, false, nil
}
