package console_test

import "testing"

func TestNow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.admin.get("/console/").ok().says("There are no tasks yet.")
	task := f.admin.send("quote", "ask")
	f.admin.get("/console/").ok().says("Needs input", "quote").has(task.ID)
	// Everybody sees his own.
	f.as("viewer", "vera", "").get("/console/").ok().says("There are no tasks yet.").lacks(task.ID)
}
