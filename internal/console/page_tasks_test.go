package console_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestTasksAreListedAndFound(t *testing.T) {
	t.Parallel()
	f := newProcurement(t)
	f.admin.get("/console/tasks").ok().says("There are no tasks yet.")
	operator := f.as("operator", "olga", "")
	bought, failed, held, done := operator.send("buyer", "buy PO-2026-0184"), operator.send("buyer", "fail now"), f.admin.send("buyer", "hold"), operator.send("buyer", "Gearbox is here")
	page := f.admin.get("/console/tasks").ok().harmlessPage()
	page.says("Needs input", "Failed", "Working", "Completed", "PO-2026-0184", "The supplier did not answer", "Gearbox is here", "olga").
		has(`value="`+bought.ID+`"`, `href="/console/tasks/`+failed.ID+`"`)
	for query, want := range map[string][]string{
		"state=failed":                        {failed.ID},
		"state=failed&state=completed":        {failed.ID, done.ID},
		"agent=buyer&state=input_required":    {bought.ID},
		"q=gearbox":                           {done.ID},
		"q=" + held.ID:                        {held.ID},
		"owner=olga&state=completed":          {done.ID},
		"root=" + bought.ID + "&agent=buyer":  {bought.ID},
		"context=" + done.ContextID:           {done.ID},
		"max_age=1h&state=failed&agent=buyer": {failed.ID},
		"min_age=1h":                          {},
		"stalled=1h":                          {},
	} {
		page := f.admin.get("/console/tasks?" + query).ok()
		if len(want) == 0 {
			page.says("No task matches.")
		}
		for _, id := range []string{bought.ID, failed.ID, held.ID, done.ID} {
			if there := strings.Contains(page.body, `value="`+id+`"`); there != slices.Contains(want, id) {
				t.Errorf("%s: the task %s is there: %v", query, id, there)
			}
		}
	}
	// The task of finance has the reference, since it is what was handed on.
	f.admin.get("/console/tasks?ref=PO-2026-0184").ok().says("finance").lacks(`value="` + failed.ID + `"`)
	// What was asked for stands in the form.
	f.admin.get("/console/tasks?q=gearbox&state=failed&min_age=1h&owner=olga").ok().
		has(`value="gearbox"`, `value="TASK_STATE_FAILED" checked`, `<option value="1h" selected>`, `value="olga"`, `<details class="more" open>`)
	f.admin.get("/console/tasks?min_age=yesterday").ok().has(`role="alert"`).harmlessPage()
}

func TestAListOfTasksHasPages(t *testing.T) {
	t.Parallel()
	f := newProcurement(t)
	for range 60 {
		f.admin.send("buyer", "done")
	}
	first := f.admin.get("/console/tasks?state=completed").ok().says("60 tasks")
	if n := strings.Count(first.body, `name="task"`); n != 50 {
		t.Fatalf("the first page has %d tasks, want 50", n)
	}
	next := first.link("Next page")
	second := f.admin.get(next).ok()
	if n := strings.Count(second.body, `name="task"`); n != 10 {
		t.Errorf("the second page has %d tasks, want 10: %s", n, next)
	}
	if got := second.link("First page"); got != "/console/tasks?state=completed" {
		t.Errorf("the way back is %s", got)
	}
}

func TestTasksAreChangedTogether(t *testing.T) {
	t.Parallel()
	f := newProcurement(t)
	operator := f.as("operator", "olga", "")
	one, two, done := operator.send("buyer", "hold"), operator.send("buyer", "hold"), operator.send("buyer", "done")
	const here = "/console/tasks?agent=buyer"
	// Nothing happens before it is confirmed.
	asked := operator.post(here, url.Values{"do": {"cancel"}, "task": {one.ID, two.ID}}).ok().harmlessPage()
	asked.says("Cancel 2 tasks?", "This cannot be undone.").has(`name="confirmed" value="yes"`, `action="/console/tasks?agent=buyer"`, `name="task" value="`+one.ID+`"`)
	operator.get("/console/tasks/" + one.ID).ok().says("Working")
	answer := operator.post(here, url.Values{"do": {"cancel"}, "task": {one.ID, two.ID}, "confirmed": {"yes"}})
	if answer.status != http.StatusSeeOther || answer.header.Get("Location") != here {
		t.Fatalf("%d to %s", answer.status, answer.header.Get("Location"))
	}
	operator.get(here).ok().says("2 tasks were canceled.")
	operator.get("/console/tasks/"+one.ID).ok().says("Canceled", "Retry…")
	// What does not work is said, and the rest is done.
	operator.follow(here, url.Values{"do": {"cancel"}, "task": {two.ID, done.ID}, "confirmed": {"yes"}}).ok().says("1 of 2 tasks were canceled.").has("flash-problem")
	operator.follow(here, url.Values{"do": {"retry"}, "task": {done.ID}, "confirmed": {"yes"}}).ok().says("1 task was sent again.")
	operator.follow(here, url.Values{"do": {"delete"}, "task": {one.ID, two.ID, done.ID}, "confirmed": {"yes"}}).ok().says("3 tasks were deleted.").lacks(done.ID)
	operator.follow(here, url.Values{"do": {"cancel"}}).ok().says("No task was chosen.")
	operator.follow(here, url.Values{"do": {"explode"}, "task": {one.ID}}).ok().says("Nothing was chosen")
	operator.follow(here, url.Values{"do": {"delete"}, "task": {one.ID}}).ok().says("None of the tasks")
	operator.follow(here, url.Values{"do": {"delete"}, "task": make([]string, 201)}).ok().says("At most 200")
}

// What somebody may not do is not offered, and not done.
func TestTasksAreChangedByWhoMay(t *testing.T) {
	t.Parallel()
	f := newProcurement(t)
	caller := f.as("caller", "carl", "")
	viewer := f.as("viewer", "carl", "") // the same subject, so that he sees the same tasks
	task := caller.send("buyer", "hold")
	viewer.get("/console/tasks").ok().has(task.ID).lacks(`name="task"`, `name="owner"`, "With the chosen tasks")
	viewer.get("/console/tasks/"+task.ID).ok().says("Working").lacks(`name="do"`, "Webhooks</h2>")
	viewer.follow("/console/tasks", url.Values{"do": {"cancel"}, "task": {task.ID}, "confirmed": {"yes"}}).ok().has("flash-problem")
	viewer.follow("/console/tasks/"+task.ID, url.Values{"do": {"cancel"}, "confirmed": {"yes"}}).ok().has("flash-problem").says("Working")
	caller.get("/console/tasks").ok().has(`value="cancel"`, `value="retry"`).lacks(`value="delete"`)
	caller.follow("/console/tasks/"+task.ID, url.Values{"do": {"cancel"}, "confirmed": {"yes"}}).ok().says("The task was canceled.", "Canceled")
	caller.follow("/console/tasks", url.Values{"do": {"delete"}, "task": {task.ID}, "confirmed": {"yes"}}).ok().has("flash-problem")
	// A stranger does not learn that there is such a task.
	stranger := f.as("operator", "otto", "acme")
	stranger.get("/console/tasks").ok().lacks(task.ID)
	for _, path := range []string{"/console/tasks/" + task.ID, "/console/tasks/" + task.ID + "/events", "/console/delegations/" + task.ID} {
		if got := stranger.get(path); got.status != http.StatusNotFound {
			t.Errorf("%s answers %d", path, got.status)
		}
	}
	if got := f.nobody().get("/console/tasks"); got.status != http.StatusSeeOther {
		t.Errorf("nobody gets %d", got.status)
	}
}
