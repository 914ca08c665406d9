//go:build browser

package browser_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	. "handoff.example/handoff/internal/browsertest"
)

// tab moves on to the next thing that takes the focus.
func tab() Step { return Key("Tab", 9) }

// Without a mouse somebody gets to the content, to other pages, through a list and into
// it, answers a question, and sees all the time where he is.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	_, link := play(t)
	ctx := Browse(t)
	Do(t, ctx, chromedp.Navigate(link), At("/console/"), Says("#live", "Live"))

	// The first stop leads past the navigation.
	Do(t, ctx, tab(), Until(`document.activeElement.matches(".skip") && document.activeElement.getBoundingClientRect().left >= 0`))
	Shoot(t, ctx, "keyboard-skip")
	Do(t, ctx, chromedp.KeyEvent("\r"), Until(`document.activeElement.id === "main"`), tab(), Until(`document.querySelector("main").contains(document.activeElement)`))

	// The help opens, keeps the focus, and goes.
	Do(t, ctx, Type("?"), Until(`document.getElementById("keys").open && document.getElementById("keys").contains(document.activeElement)`))
	Shoot(t, ctx, "keyboard-help")
	Do(t, ctx, Key("Escape", 27), Until(`!document.getElementById("keys").open`))

	// Pages have letters.
	for _, to := range [][2]string{{"t", "/console/tasks"}, {"d", "/console/delegations"}, {"a", "/console/agents"}, {"n", "/console/"}, {"i", "/console/inbox"}} {
		Do(t, ctx, Type("g"+to[0]), At(to[1]), Says("#live", "Live"))
	}

	// Every stop can be seen.
	Do(t, ctx, Type("gt"), At("/console/tasks"), Says("#live", "Live"), tab())
	for stops := 0; ; stops++ {
		stop := Value[string](t, ctx, `(() => {
			const e = document.activeElement;
			if (e === document.body) return "end";
			const style = getComputedStyle(e), box = e.getBoundingClientRect();
			const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 && box.width > 0 && box.height > 0;
			return (seen ? "" : "hidden: ") + e.outerHTML.slice(0, 120);
		})()`)
		if stop == "end" || stops == 150 {
			if stops < 20 || stops == 150 {
				t.Errorf("%d stops", stops)
			}
			break
		}
		if strings.HasPrefix(stop, "hidden: ") {
			t.Errorf("the focus is not seen: %s", stop)
		}
		Do(t, ctx, tab())
	}

	// j and k move in a list, Enter opens.
	Do(t, ctx, Type("gt"), At("/console/tasks"), Says("#live", "Live"), Type("j"), Until(`document.activeElement.closest("tr")?.rowIndex === 1`),
		Type("j"), Until(`document.activeElement.closest("tr")?.rowIndex === 2`), Type("k"), Until(`document.activeElement.closest("tr")?.rowIndex === 1`))
	Shoot(t, ctx, "keyboard-list")
	Do(t, ctx, Type("gi"), At("/console/inbox"), Says("#live", "Live"), Type("j"), Until(`document.activeElement.closest("#items") !== null`), chromedp.KeyEvent("\r"),
		Until(`location.pathname.startsWith("/console/inbox/") && document.readyState === "complete"`))

	// The form: from its first field on with Tab, a choice by its first letter, Enter.
	for range 60 {
		if Value[bool](t, ctx, `document.activeElement.tagName === "SELECT" && document.activeElement.labels[0].innerText.startsWith("Incoterm")`) {
			break
		}
		Do(t, ctx, tab())
	}
	Do(t, ctx, chromedp.KeyEvent("d"), Until(`document.activeElement.value === "delivered"`))
	Shoot(t, ctx, "keyboard-form")
	Do(t, ctx, tab(), tab(), Until(`document.activeElement.innerText === "Answer"`), chromedp.KeyEvent("\r"), Says("#flash", "The answer is sent"))
}

// Without scripts everything is there: signing in, searching, answering, canceling.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	p, _ := play(t)
	ctx := Browse(t)
	text := func(want string) {
		t.Helper()
		Do(t, ctx, chromedp.WaitVisible(chromedp.Search(`//body[contains(., "`+want+`")]`)))
	}
	Do(t, ctx, Scripts(false), chromedp.Navigate(p.base+"/console/login"), chromedp.SendKeys(chromedp.CSS(`input[name="key"]`), p.key+"\r"), chromedp.WaitVisible(chromedp.CSS("#now-tiles")))
	Shoot(t, ctx, "no-scripts-now")
	Do(t, ctx, chromedp.Navigate(p.base+"/console/tasks"), chromedp.SendKeys(chromedp.CSS("#q"), "PO-2026-0184\r"), chromedp.WaitVisible(chromedp.Search(`//a[contains(@href, "/console/tasks") and contains(., "Clear")]`)))
	text("PO-2026-0184 is a draft")
	Shoot(t, ctx, "no-scripts-found")
	Do(t, ctx, chromedp.Navigate(p.base+"/console/inbox"), Click(chromedp.CSS("#items a[data-open]")), chromedp.WaitVisible(chromedp.CSS("main select")))
	Shoot(t, ctx, "no-scripts-question")
	// A control that needs a script is not there without.
	Do(t, ctx, chromedp.WaitNotVisible(chromedp.CSS("#theme")), chromedp.WaitNotVisible(chromedp.CSS("#help")))
	Do(t, ctx, chromedp.SendKeys(chromedp.CSS("main form select"), "delivered"), Press("Answer"))
	text("The answer is sent")
	Do(t, ctx, chromedp.Navigate(p.base+"/console/settings/keys"))
	text("Budi")
	Shoot(t, ctx, "no-scripts-keys")
	Do(t, ctx, Press("Sign out"), chromedp.WaitVisible(chromedp.CSS(`input[name="key"]`)))
}
