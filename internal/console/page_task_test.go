package console_test

import (
	"net/url"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
)

func TestATaskTellsItsStory(t *testing.T) {
	t.Parallel()
	f := newProcurement(t)
	operator := f.as("operator", "olga", "")
	task := operator.send("buyer", "buy PO-2026-0184")
	path := "/console/tasks/" + task.ID
	page := operator.get(path).ok().harmlessPage()
	page.says("Needs input", "Which cost centre?", "Waits for", "Who was waited for", "olga", "stock.json", "buy PO-2026-0184", task.ContextID, "Turn 1").
		has(`json-key">sku</bdi>`, `json-text" dir="auto">BRG-0042<`, `<svg class="timeline"`, `class="item item-turn`, `class="item item-wait item-open"`, `href="/console/inbox/`, `<pre class="copy">`+task.ID+`</pre>`,
			`href="/api/v1/tasks/`+task.ID+`/artifacts/`, `id="head" data-live data-live-task="`+task.ID+`"`, `id="timeline" class="card block" data-live`, "Delegated work", `value="cancel"`).
		lacks(`value="delete"`, `value="retry"`)
	// The bytes of an artifact are where its link leads.
	if got := operator.get(page.link("Download")); got.status != 200 || !strings.Contains(got.body, "BRG-0042") || !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the download answers %d %v: %s", got.status, got.header, got.body)
	}
	// A live page gets the same sections.
	operator.get(path, "X-Live", "1").ok().has(`<svg class="timeline"`)

	// The events, raw.
	events := operator.get(path + "/events").ok().harmlessPage()
	events.says("Submitted", "stock.json", "Needs input", "3 members").has(`<details class="event">`)
	operator.get(path+"/events?after=2").ok().lacks(`<span class="event-seq">1</span>`).has(`<span class="event-seq">3</span>`, ">Earlier<")
	if got := operator.get(path + "/events?after=100000"); got.status != 400 {
		t.Errorf("events after the last answer %d", got.status)
	}

	// It goes on when it is answered, and is then over.
	operator.answer(task.ID, "4711")
	page = operator.get(path).ok()
	page.says("Completed", "Approved for 4711", "took", "answered").has(`value="retry"`, `value="delete"`).lacks(`value="cancel"`)
	retried := operator.follow(path, url.Values{"do": {"retry"}, "confirmed": {"yes"}}).ok().says("This is the new task.").lacks(`<pre class="copy">` + task.ID)
	retried.harmlessPage()
	operator.follow(path, url.Values{"do": {"delete"}, "confirmed": {"yes"}}).ok().says("The task was deleted.")
	if got := operator.get(path); got.status != 404 {
		t.Errorf("a task that is gone answers %d", got.status)
	}
}

// Whatever a message, a file or a name holds, it is shown and does nothing.
func TestHostileContentIsShownHarmless(t *testing.T) {
	t.Parallel()
	f := newProcurement(t)
	const script = `<script>alert(1)</script><img src=x onerror=alert(1)>`
	named := func(p a2a.Part, mediaType, name string) a2a.Part {
		p.MediaType, p.Filename = mediaType, name
		return p
	}
	task := f.admin.sendParts("buyer", a2a.Text("echo "+script),
		named(a2a.Text("# Hi\n\n"+script+"\n\n[click](javascript:alert(1)) ![x](https://evil.example/pixel.png)"), "text/markdown", ""),
		named(a2a.Text(script), "text/html", `"><script>alert(2)</script>.html`),
		named(a2a.Raw([]byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`), "", ""), "image/svg+xml", "gnp.\u202eexe"),
		named(a2a.Raw([]byte("\x89PNG\r\n\x1a\n\x00"), "", ""), "text/html", `x" onerror="alert(3)`),
		a2a.Raw([]byte("%PDF-1.7"), `application/pdf" onload="alert(4)`, "order.pdf"),
		a2a.URL("javascript:alert(5)", "", "here"), a2a.URL("https://files.example/a.pdf", "application/pdf", script),
		a2a.Data(a2a.JSON(`{"</details><script>alert(6)</script>":"`+"\\u003cscript\\u003e"+`","a":["`+`<b>`+`"]}`)),
	)
	path := "/console/tasks/" + task.ID
	for _, at := range []string{path, path + "/events", "/console/tasks", "/console/tasks?q=alert", "/console/tasks?q=" + url.QueryEscape(script) + "&state=" + url.QueryEscape(script), "/console/delegations/" + task.ID} {
		page := f.admin.get(at).ok().harmlessPage().lacks("<script>alert", "<img src=x", "<b>Echo")
		if strings.HasPrefix(at, path) && !strings.Contains(page.text(), "alert(1)") {
			t.Errorf("%s does not show what was sent", at)
		}
	}
	f.admin.get(path).ok().says(`gnp.\u202eexe`, "<script>alert(1)</script>", "is not run here", "javascript:alert(5)").
		has(`rel="noopener noreferrer nofollow"`).lacks(`src="https://evil`, `href="javascript`)
	for _, at := range []string{"/console/tasks/" + url.PathEscape(script), "/console/tasks/..%2f..%2fkeys", "/console/delegations/" + url.PathEscape(script)} {
		if got := f.admin.get(at).harmlessPage(); got.status != 404 {
			t.Errorf("%s answers %d", at, got.status)
		}
	}
}
