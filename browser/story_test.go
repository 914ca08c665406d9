//go:build browser

package browser_test

import (
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"

	"handoff.example/handoff/a2a"
	. "handoff.example/handoff/internal/browsertest"
)

// Somebody runs the demo, opens its link, answers the next question in the console,
// finds the order by its number, and reads who waited for whom and for how long.
func TestStory(t *testing.T) {
	t.Parallel()
	_, link := play(t)
	ctx := Browse(t)
	Do(t, ctx, chromedp.Navigate(link), At("/console/"), Says("main h1", "Now"), Says("#now-inbox", "1 question"))
	Shoot(t, ctx, "story-1-now")

	// The next question.
	Do(t, ctx, Click(chromedp.CSS(`.side a[data-nav="inbox"]`)), Says("#items", "Incoterm? FOB or delivered?"), Says("#items", "PO-2026-0185"),
		Click(chromedp.CSS("#items a[data-open]")), Says("main", "Incoterm? FOB or delivered?"))
	Shoot(t, ctx, "story-2-question")
	Do(t, ctx, choose("Incoterm", "delivered"), Press("Answer"), Says("#flash", "The answer is sent"), Says("#head", "Completed"))
	Shoot(t, ctx, "story-3-answered")

	// The order, by its number.
	Do(t, ctx, Click(chromedp.CSS(`.side a[data-nav="tasks"]`)), At("/console/tasks"), Type("/"),
		Until(`document.activeElement.id === "q"`), chromedp.KeyEvent("PO-2026-0184\r"), Until(`location.search.includes("PO-2026-0184")`), Says("#tasks", "Completed"))
	Shoot(t, ctx, "story-4-found")
	Do(t, ctx, Click(chromedp.Search(`//tr[contains(., "procurement")]//a[@data-open]`)), Says("main h1", "PO-2026-0184"), Says("main h1", "procurement"), Says("#artifacts", "draft"))
	Shoot(t, ctx, "story-5-order")

	// Who waited for whom, and for how long.
	sums := Value[string](t, ctx, `document.querySelector(".sums").innerText.replace(/\s+/g, " ")`)
	for _, want := range []string{`supplier (by Rina )?([0-9.]+ (ms|s|min) ?)+`, `finance (by Budi )?([0-9.]+ (ms|s|min) ?)+`} {
		if !regexp.MustCompile(want).MatchString(sums) {
			t.Errorf("the page of the order does not say %s, but: %s", want, sums)
		}
	}
	Do(t, ctx, Click(chromedp.Search(`//main//a[normalize-space(.)="Tree"]`)), Says("main h1", "PO-2026-0184"))
	waited := Value[string](t, ctx, `document.querySelector("#waited").innerText.replace(/\s+/g, " ")`)
	for _, want := range []string{`procurement\S* supplier`, `procurement\S* finance`, `supplier Rina`, `finance (Rina by )?Budi`} {
		if !regexp.MustCompile(want).MatchString(waited) {
			t.Errorf("the delegations of the order do not say %s, but: %s", want, waited)
		}
	}
	Shoot(t, ctx, "story-6-waited")
}

// A person answers a question with a form, and decides on what it comes to.
func TestInbox(t *testing.T) {
	t.Parallel()
	p, link := play(t)
	ctx := Browse(t, "status of 422")
	order := p.send("procurement", "", a2a.Text("Order 500 units of BRG-0042 for SBY, PO-2026-0300")).ID
	item := `//tr[contains(., "PO-2026-0300")]//a[@data-open]`
	Do(t, ctx, chromedp.Navigate(link), At("/console/"), p.open("inbox"), Says("#items", "PO-2026-0300"), Click(chromedp.Search(item)), Says("main", "The question"))
	// An answer that does not fit is refused, and what was written stays.
	Do(t, ctx, Press("Answer"), Says("main", "Incoterm"), Until(`document.querySelector('main [role="alert"], main [aria-invalid], main .problem') !== null`))
	Shoot(t, ctx, "answer-refused")
	Do(t, ctx, choose("Incoterm", "delivered"), Press("Answer"), Says("#flash", "The answer is sent"))
	// The list shows by itself what comes next.
	Do(t, ctx, p.open("inbox"), Until(`[...document.querySelectorAll("#items tr")].some((r) => r.innerText.includes("PO-2026-0300") && r.innerText.includes("Approval"))`),
		Click(chromedp.Search(item)), Says("main", "May this be done?"))
	Shoot(t, ctx, "approval")
	Do(t, ctx, chromedp.SendKeys(chromedp.CSS("#note"), "not this year"), Press("Deny"), Says("#flash", "."),
		p.open("tasks/"+order), Says("#head", "Failed"), Says("#head", "not this year"))
	Shoot(t, ctx, "denied")
	again := p.send("procurement", "", a2a.Text("Order 600 units of BRG-0042 for SBY, PO-2026-0301")).ID
	item = `//tr[contains(., "PO-2026-0301")]//a[@data-open]`
	Do(t, ctx, p.open("inbox"), Says("#items", "PO-2026-0301"), Click(chromedp.Search(item)), Says("main", "The question"),
		choose("Incoterm", "FOB"), Press("Answer"), Says("#flash", "The answer is sent"),
		p.open("inbox"), Until(`[...document.querySelectorAll("#items tr")].some((r) => r.innerText.includes("PO-2026-0301") && r.innerText.includes("Approval"))`),
		Click(chromedp.Search(item)), Says("main", "May this be done?"), Press("Approve"), Says("#flash", "."),
		p.open("tasks/"+again), Says("#head", "Completed"))
}

// choose chooses a value of the field that has a label.
func choose(label, value string) Step {
	return Until(`(() => {
		const field = [...document.querySelectorAll("main form label")].find((l) => l.innerText.startsWith("` + label + `"))?.control;
		const option = [...field?.options ?? []].find((o) => o.text === "` + value + `");
		if (!option) return false;
		field.value = option.value;
		field.dispatchEvent(new Event("change", { bubbles: true }));
		return true;
	})()`)
}
