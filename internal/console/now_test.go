package console_test

import "testing"

func TestNow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.admin.get("/console/").ok().says("All quiet", "Nothing waits for anybody.", "Nothing has failed.", "Nobody is asked anything.", "No agent has had a task yet.", "Nothing is with other agents.", "All are delivered.")
	asked, failed := f.admin.send("quote", "ask"), f.admin.send("quote", "fail")
	f.admin.send("quote", "auth")
	f.admin.send("quote", "hello")
	f.admin.get("/console/").ok().
		says("2 wait for people, 1 failed in the last hour.", "An answer Which Incoterm?", "An approval May I post the order?", "Failed The supplier did not answer",
			"1 question", "1 approval", "Completed 1").
		has(`href="/console/tasks/`+asked.ID+`"`, `href="/console/tasks/`+failed.ID+`"`, `href="/console/tasks?state=TASK_STATE_INPUT_REQUIRED"`,
			`href="/console/tasks?agent=quote&amp;state=TASK_STATE_COMPLETED"`, `href="/console/inbox?kind=question"`,
			`aria-label="Begun: 4 in the last hour, at most `)

	// The navigation of every page says how many are open; one that is only looked at
	// for what has changed does not count them.
	for _, page := range []string{"/console/", "/console/tasks", "/console/settings"} {
		f.admin.get(page).ok().has(`id="inbox-count"><span>2</span>`)
	}
	f.admin.get("/console/tasks", "X-Live", "1").ok().lacks("inbox-count")

	// Everybody sees his own.
	vera := f.as("viewer", "vera", "")
	vera.get("/console/").ok().has(`id="inbox-count" hidden`).says("All quiet").lacks(asked.ID, "/console/webhooks", "/console/audit", "/console/tools", "All are delivered.")
	carl := f.as("caller", "carl", "")
	carl.send("quote", "ask")
	carl.get("/console/").ok().says("1 waits for people").lacks(asked.ID)
}

func TestAQuestionThatHasComeUpIsCountedOnce(t *testing.T) {
	t.Parallel()
	f := newProcurement(t)
	operator := f.as("operator", "olga", "")
	order := operator.send("buyer", "buy PO-2026-0184")
	child := operator.child(order.ID)
	// The root counts, with the number of the order that what it has handed on has.
	operator.get("/console/").ok().says("1 waits for people.").
		has(`<a class="ref" data-open href="/console/tasks/` + order.ID + `"><bdi>PO-2026-0184</bdi></a>`).lacks(child)
}
