package console_test

import (
	"net/http"
	"net/url"
	"testing"
)

func TestAnOrderIsFoundByItsNumber(t *testing.T) {
	t.Parallel()
	f := newProcurement(t)
	operator := f.as("operator", "olga", "")
	operator.get("/console/delegations").ok().says("No work was handed on yet.")
	order, other := operator.send("buyer", "buy PO-2026-0184"), operator.send("buyer", "buy PO-2026-0185")
	operator.get("/console/delegations").ok().harmlessPage().says("PO-2026-0184", "PO-2026-0185", "finance", "buyer", "Needs input", "Waits for", "Which cost centre?")
	found := operator.get("/console/delegations?ref=PO-2026-0184").ok().has(`value="PO-2026-0184"`, `href="/console/delegations/`+order.ID+`"`).lacks(other.ID)
	found.says("PO-2026-0184")
	for _, query := range []string{"open=true", "state=input_required", "root=" + order.ID} {
		operator.get("/console/delegations?" + query).ok().says("PO-2026-0184")
	}
	operator.get("/console/delegations?state=completed").ok().says("No delegation matches.")
	operator.get("/console/delegations?ref=PO-1").ok().says("No delegation matches.").has(`/console/tasks?q=PO-1`)
	operator.get("/console/delegations?state=nonsense").ok().has(`role="alert"`)
	// A number leads to its tree too.
	if got := operator.get("/console/delegations/PO-2026-0184"); got.status != http.StatusSeeOther || got.header.Get("Location") != "/console/delegations/"+order.ID {
		t.Errorf("the number leads to %d %s", got.status, got.header.Get("Location"))
	}

	// Who asked whom, and who waits for whom.
	page := operator.get("/console/delegations/" + order.ID).ok().harmlessPage()
	page.says("PO-2026-0184", "Who asked whom", "Who waited for whom, and how long", "buyer", "finance", "still", "Which cost centre?").
		has(`<svg class="graph"`, `line-waiting`, `class="node state-input`, `<ul class="branches">`, `data-live`, `value="resume"`, `value="message"`)
}

func TestADelegationIsAnsweredLookedAtAndCanceled(t *testing.T) {
	t.Parallel()
	f := newProcurement(t)
	operator := f.as("operator", "olga", "")
	order := operator.send("buyer", "buy PO-2026-0184")
	path := "/console/delegations/" + order.ID
	child := operator.child(order.ID)
	operator.follow(path, url.Values{"do": {"message"}, "task": {child}, "text": {" "}}).ok().says("The message is empty.")
	operator.follow(path, url.Values{"do": {"resume"}}).ok().says("No delegation was chosen.")
	operator.follow(path, url.Values{"do": {"nonsense"}, "task": {child}}).ok().says("Nothing was chosen")
	operator.follow(path, url.Values{"do": {"message"}, "task": {child}, "text": {"4711"}}).ok().says("The message was sent.")
	operator.over(order.ID)
	operator.get(path).ok().says("Completed", "took").lacks("Open delegations")

	second := operator.send("buyer", "buy PO-2026-0185")
	path, child = "/console/delegations/"+second.ID, operator.child(second.ID)
	operator.post(path, url.Values{"do": {"cancel"}, "task": {child}}).ok().says("Cancel 1 task?", "PO-2026-0185").has(`action="` + path + `"`)
	operator.follow(path, url.Values{"do": {"cancel"}, "task": {child}, "confirmed": {"yes"}}).ok().says("The delegation was canceled.")
	operator.over(second.ID)
	operator.get(path).ok().says("Failed", "Canceled")
	// A viewer sees it and changes nothing.
	viewer := f.as("viewer", "olga", "")
	viewer.get(path).ok().lacks(`name="do"`)
	viewer.follow(path, url.Values{"do": {"resume"}, "task": {child}}).ok().has("flash-problem")
}

// What somebody has answered for a task far below is told of that task, with who it
// was.
func TestWhoHasAnsweredIsToldFarBelow(t *testing.T) {
	t.Parallel()
	f := newProcurement(t)
	olga, rita := f.as("operator", "olga", ""), f.as("operator", "rita", "")
	order := olga.send("buyer", "buy PO-2026-0184")
	child := olga.child(order.ID)
	rita.answer(order.ID, "4711")
	var line struct {
		Waits []struct{ Kind, Who string }
	}
	olga.api("GET", "/tasks/"+child+"/timeline", nil, &line)
	found := false
	for _, w := range line.Waits {
		found = found || w.Kind == "answer" && w.Who == "rita"
	}
	if !found {
		t.Errorf("the task below waited for %+v", line.Waits)
	}
	olga.get("/console/delegations/" + order.ID).ok().says("rita")
}
