package console

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"time"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/content"
)

var taskPages = []page{
	{path: "/tasks/{id}", nav: "tasks", title: "Task", role: auth.RoleViewer, get: showTask, post: changeTask},
	{path: "/tasks/{id}/events", nav: "tasks", title: "Events", role: auth.RoleViewer, get: showEvents},
}

// taskDetail is what the page of a task shows.
type taskDetail struct {
	shownTask
	Timeline     *drawnTimeline
	Conversation []said
	Said, Shown  *shownParts
	More         bool // the conversation is longer than it is shown
	Artifacts    []shownArtifact
	Tree         *drawnTree
	Webhooks     []webhook
	Changes      []*change // that whoever has signed in may do
	Now          time.Time
}

// Order is the reference of the task, or of what it has delegated first.
func (d *taskDetail) Order() string {
	if d.Ref != "" || d.Tree == nil {
		return d.Ref
	}
	for i := range d.Tree.Nodes {
		if ref := d.Tree.Nodes[i].Ref; ref != "" {
			return ref
		}
	}
	return ""
}

// TreeRoot is the task at the root of the tree.
func (d *taskDetail) TreeRoot() string {
	if d.Root != "" {
		return d.Root
	}
	return d.Task.ID
}

// shownArtifact is one artifact.
type shownArtifact struct {
	Name, Description string
	Parts             []template.HTML
}

// maxHistory is how many messages of a task are shown.
const maxHistory = 200

func showTask(v *view) error {
	id := v.param("id")
	d := &taskDetail{Now: time.Now()}
	if err := v.get("/tasks/"+url.PathEscape(id)+"?part_bytes="+shownBytes+"&history="+strconv.Itoa(maxHistory), &d.shownTask); err != nil {
		return err
	}
	id = d.Task.ID
	if err := d.history(v, id); err != nil {
		return err
	}
	v.title = "Task of " + content.Visible(d.Who())
	if order := d.Order(); order != "" {
		v.title = content.Visible(order) + ", " + content.Visible(d.Who())
	}
	if v.may(auth.RoleOperator) {
		var list struct {
			Webhooks []webhook `json:"webhooks"`
		}
		if err := v.get("/webhooks?task="+url.QueryEscape(id), &list); err != nil && !isNotFound(err) {
			return err
		}
		d.Webhooks = list.Webhooks
	}
	d.Said, d.Shown = v.shownParts(taskPath(id), "said"), v.shownParts(taskPath(id), "part")
	d.converse()
	d.show()
	for i := range changes {
		c := &changes[i]
		if v.may(c.Role) && d.Over() != (c.Verb == "cancel") {
			d.Changes = append(d.Changes, c)
		}
	}
	return v.render("task", d)
}

// history draws what happened to the task, and what it has delegated. A task that
// was deleted while it is shown has neither.
func (d *taskDetail) history(v *view, id string) error {
	t, err := v.timeline(id)
	if isNotFound(err) {
		t, err = &taskTimeline{}, nil
	}
	if err != nil {
		return err
	}
	d.Timeline = drawTimeline(t, d.Now)
	tree, err := v.tree(id, d.Now)
	switch {
	case isNotFound(err):
	case err != nil:
		return err
	default:
		d.Tree = tree.below(id)
	}
	return nil
}

// converse gathers the conversation: the history, and what the status says now.
func (d *taskDetail) converse() {
	messages := d.Task.History
	d.More = len(messages) >= maxHistory
	if m := d.Task.Status.Message; m != nil {
		messages = append(messages, *m)
	}
	d.Conversation = talk(messages, d.Task.ID, d.Who(), d.Owner, d.Said)
}

// show makes the artifacts HTML.
func (d *taskDetail) show() {
	for i := range d.Task.Artifacts {
		a := &d.Task.Artifacts[i]
		s := shownArtifact{Name: a.Name, Description: a.Description}
		if s.Name == "" {
			s.Name = fmt.Sprintf("Artifact %d", i+1)
		}
		for n := range a.Parts {
			if !d.Shown.next() {
				continue
			}
			p := &a.Parts[n]
			path := apiPrefix + "/tasks/" + url.PathEscape(d.Task.ID) + "/artifacts/" + url.PathEscape(a.ArtifactID) + "/" + strconv.Itoa(n)
			at := content.Address{Show: path + "?inline=true", Keep: path}
			if p.MediaType != content.Sniff(p.Raw) {
				// The API says what the agent says, which is something else than it is:
				// a browser would not show it, or save it without being asked.
				at.Show = inlined(p).Show
			}
			s.Parts = append(s.Parts, content.Part(p, at))
		}
		if len(s.Parts) > 0 || len(a.Parts) == 0 {
			d.Artifacts = append(d.Artifacts, s)
		}
	}
}

// changeTask cancels, retries or deletes a task: first it asks, then it does it.
func changeTask(v *view) error {
	id := v.param("id")
	here := taskPath(id)
	c := changeOf(v.form.Get("do"))
	if c == nil {
		return v.problem(here, "Nothing was chosen that could be done.")
	}
	if v.form.Get("confirmed") == "" {
		return confirmChange(v, c, []string{id}, here)
	}
	path := "/tasks/" + url.PathEscape(id)
	switch c.Verb {
	case "delete":
		if err := v.delete(path); err != nil {
			return v.refuse(here, err)
		}
		return v.redirect("/console/tasks", "The task was deleted.")
	case "retry":
		var t shownTask
		if err := v.post(path+":retry", nil, &t); err != nil {
			return v.refuse(here, err)
		}
		return v.redirect(taskPath(t.Task.ID), "This is the new task. It refers to the old one.")
	}
	if err := v.post(path+":cancel", nil, nil); err != nil {
		return v.refuse(here, err)
	}
	return v.redirect(here, "The task was canceled.")
}

func taskPath(id string) string { return "/console/tasks/" + url.PathEscape(id) }
