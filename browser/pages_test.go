//go:build browser

package browser_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"handoff.example/handoff/a2a"
	. "handoff.example/handoff/internal/browsertest"
)

// place is a page of the console, and what it has to say of the demo.
type place struct {
	name, path string
	says       []string
}

// Every page has its data, in both themes and on a phone, and is as whoever needs more
// than eyes and a mouse needs it.
func TestPages(t *testing.T) {
	t.Parallel()
	p, _ := play(t)
	ctx := Browse(t, "tasks/no-such-task")
	Do(t, ctx, Desk(), p.signIn())
	for _, at := range places(t, p) {
		t.Run(at.name, func(t *testing.T) {
			for _, theme := range []string{"light", "dark"} {
				Do(t, ctx, Theme(theme), Desk(), p.open(at.path))
				for _, text := range at.says {
					Do(t, ctx, Says("body", text))
				}
				accessible(t, ctx, at.name+", "+theme)
				Shoot(t, ctx, at.name+"-"+theme)
				Do(t, ctx, Phone())
				narrow(t, ctx)
				Shoot(t, ctx, at.name+"-phone-"+theme)
			}
		})
	}
	t.Run("login", func(t *testing.T) {
		Do(t, ctx, Desk(), Theme("light"), p.open(""), Press("Sign out"), At("/console/login"))
		for _, theme := range []string{"light", "dark"} {
			Do(t, ctx, Theme(theme), Desk(), p.open("login"))
			accessible(t, ctx, "login, "+theme)
			Shoot(t, ctx, "login-"+theme)
			Do(t, ctx, Phone())
			narrow(t, ctx)
			Shoot(t, ctx, "login-phone-"+theme)
		}
	})
}

// places adds to the demo what it has not, and returns all pages.
func places(t *testing.T, p *played) []place {
	t.Helper()
	failed := p.send("procurement", "https://hooks.example.invalid/orders", a2a.Text("Good morning!"))
	p.settle(failed.ID, "TASK_STATE_FAILED", "TASK_STATE_REJECTED")
	canceled := p.send("procurement", "", a2a.Text("Order 200 units of BRG-0042 for SBY, PO-2026-0199"))
	p.api("POST", "/tasks/"+canceled.ID+":cancel", nil, nil)
	p.settle(canceled.ID, "TASK_STATE_CANCELED")
	var tasks struct {
		Tasks []struct {
			Task a2a.Task `json:"task"`
		} `json:"tasks"`
	}
	of := func(query string) string {
		t.Helper()
		tasks.Tasks = nil
		p.api("GET", "/tasks?"+query, nil, &tasks)
		if len(tasks.Tasks) == 0 {
			t.Fatalf("no task has %s", query)
		}
		return tasks.Tasks[0].Task.ID
	}
	order, waiting := of("q=PO-2026-0184&agent=procurement&state=TASK_STATE_COMPLETED"), of("q=PO-2026-0185&agent=procurement")
	asked := of("ref=PO-2026-0184&peer=supplier")
	var inbox struct {
		Items []struct {
			ID  string `json:"id"`
			Ref string `json:"ref"`
		} `json:"items"`
	}
	p.api("GET", "/inbox?settled=true", nil, &inbox)
	settled := inbox.Items[0].ID
	inbox.Items = nil
	p.api("GET", "/inbox", nil, &inbox)
	open := inbox.Items[0].ID
	return []place{
		{"now", "", []string{"Now", "Waiting longest", "PO-2026-0185", "1 question"}},
		{"inbox", "inbox", []string{"Incoterm? FOB or delivered?", "PO-2026-0185"}},
		{"inbox-settled", "inbox?settled=true", []string{"PO-2026-0184", "Budi", "Rina"}},
		{"question", "inbox/" + open, []string{"Incoterm (required)", "The conversation so far"}},
		{"settled", "inbox/" + settled, []string{"This was"}},
		{"tasks", "tasks", []string{"procurement", "supplier", "finance", "Completed", "Canceled"}},
		{"tasks-found", "tasks?q=PO-2026-0184", []string{"procurement", "Completed"}},
		{"tasks-none", "tasks?q=nothing-has-this", []string{"No task matches"}},
		{"task-order", "tasks/" + order, []string{"PO-2026-0184", "Who was waited for", "supplier", "Budi", "Timeline", "draft"}},
		{"task-waiting", "tasks/" + waiting, []string{"Waits for"}},
		{"task-failed", "tasks/" + failed.ID, []string{"Webhooks"}},
		{"task-delegated", "tasks/" + asked, []string{"Quote"}},
		{"events", "tasks/" + order + "/events", []string{"procurement"}},
		{"delegations", "delegations", []string{"supplier", "finance", "PO-2026-0184"}},
		{"delegation", "delegations/" + order, []string{"Who waited for whom, and how long", "Rina", "Budi"}},
		{"delegation-open", "delegations/" + waiting, []string{"Open delegations"}},
		{"agents", "agents", []string{"procurement", "supplier", "finance"}},
		{"agent", "agents/procurement", []string{"Try it", "Lint"}},
		{"peer", "peers/supplier", []string{"Supplier Quote Agent", "Pinned"}},
		{"tools", "tools", []string{"erp-read", "erp-draft", "get_stock_level"}},
		{"tool", "tools/erp-read/get_stock_level", []string{"Policy", "Call it"}},
		{"tool-draft", "tools/erp-draft/draft_order", []string{"Policy"}},
		{"webhooks", "webhooks", []string{"hooks.example.invalid"}},
		{"audit", "audit", []string{"Rina"}},
		{"settings", "settings", []string{"Settings"}},
		{"keys", "settings/keys", []string{"Budi", "procurement"}},
		{"configuration", "settings/configuration", []string{"peers"}},
		{"error", "tasks/" + url.PathEscape("no-such-task"), []string{"does not exist"}},
	}
}

// narrow fails the test when a phone would have to scroll the page sideways.
func narrow(t *testing.T, ctx context.Context) {
	t.Helper()
	for _, wide := range Value[[]string](t, ctx, `(() => {
		const page = document.scrollingElement;
		if (page.scrollWidth <= innerWidth && innerWidth <= 390) return [];
		const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > 391 && !e.closest(".scroll, .side ul, pre, .sprite"));
		return [page.scrollWidth + " px in " + innerWidth, ...wide.slice(0, 8).map((e) => e.tagName + "." + e.className + "#" + e.id + " " + e.textContent.trim().slice(0, 40))];
	})()`) {
		t.Errorf("wider than a phone: %s", wide)
	}
}

// accessible fails the test when something on the page cannot be named, read or found.
func accessible(t *testing.T, ctx context.Context, where string) {
	t.Helper()
	for _, fault := range Value[[]string](t, ctx, strings.TrimSpace(faults)) {
		t.Errorf("%s: %s", where, fault)
	}
}

// faults lists what is wrong with a page, as far as a script can tell.
const faults = `(() => {
	const list = [];
	const all = (selector) => [...document.querySelectorAll(selector)];
	const show = (e) => "<" + e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.getAttribute("class") ? "." + e.getAttribute("class") : "") + "> " + (e.textContent || "").trim().slice(0, 50);
	const name = (e) => (e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent || "").join(" ") || "").trim();
	for (const e of all("input:not([type=hidden]), select, textarea, meter")) {
		if (!name(e) && ![...e.labels || []].some((l) => l.textContent.trim())) list.push("no label: " + show(e) + e.name);
	}
	for (const e of all("button, a[href], summary")) if (!name(e) && !e.textContent.trim()) list.push("no name: " + show(e) + e.outerHTML.slice(0, 80));
	for (const e of all("img")) if (!e.hasAttribute("alt")) list.push("no alternative: " + show(e));
	for (const e of all("svg")) if (!e.closest('[aria-hidden="true"]') && !(e.getAttribute("role") === "img" && name(e))) list.push("no alternative: " + show(e));
	if (all("h1").length !== 1) list.push(all("h1").length + " h1");
	let level = 1;
	for (const e of all("main h1, main h2, main h3, main h4, main h5, main h6")) {
		if (e.closest(".part-markdown, .artifact, .talk") && !e.matches("h3")) continue; // those of a text
		const next = Number(e.tagName[1]);
		if (next > level + 1) list.push("a heading is left out before " + show(e));
		level = next;
	}
	if (all("main").length !== 1 || !document.documentElement.lang || !document.title.trim()) list.push("no main, language or title");
	const ids = new Set();
	for (const e of all("[id]")) { if (ids.has(e.id)) list.push("twice: #" + e.id); ids.add(e.id); }
	for (const attribute of ["aria-labelledby", "aria-describedby", "for"]) for (const e of all("[" + attribute + "]")) {
		for (const id of e.getAttribute(attribute).split(" ")) if (id && !ids.has(id)) list.push(attribute + " names nothing: " + id);
	}
	for (const e of all("th")) if (!e.closest("dialog") && e.closest("thead") && !e.textContent.trim() && !e.querySelector("input, .visually-hidden")) list.push("an empty heading of a column: " + show(e.parentElement));
	const colour = (text) => { const n = text.match(/[\d.]+/g).map(Number); return { r: n[0], g: n[1], b: n[2], a: n.length > 3 ? n[3] : 1 }; };
	const light = (c) => { const [r, g, b] = [c.r, c.g, c.b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const over = (c, d) => ({ r: c.r * c.a + d.r * (1 - c.a), g: c.g * c.a + d.g * (1 - c.a), b: c.b * c.a + d.b * (1 - c.a), a: 1 });
	const ground = (e) => {
		const stack = [];
		for (; e; e = e.parentElement) {
			const c = colour(getComputedStyle(e).backgroundColor);
			if (c.a > 0) stack.push(c);
			if (c.a === 1) break;
		}
		return stack.reverse().reduce((below, c) => over(c, below), { r: 255, g: 255, b: 255, a: 1 });
	};
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	const seen = new Set();
	for (let n; (n = walker.nextNode());) {
		const e = n.parentElement;
		if (!n.textContent.trim() || e.closest("svg, script, .skip, .visually-hidden, option, legend.visually-hidden, button:disabled") || e.offsetParent === null) continue;
		const style = getComputedStyle(e);
		const back = ground(e);
		const [x, y] = [light(over(colour(style.color), back)), light(back)].sort((a, b) => b - a);
		const ratio = (x + 0.05) / (y + 0.05);
		const size = parseFloat(style.fontSize);
		const large = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700;
		const key = style.color + JSON.stringify(back);
		if (ratio < (large ? 3 : 4.5) && !seen.has(key)) { seen.add(key); list.push("contrast " + ratio.toFixed(2) + ": " + show(e)); }
	}
	return list;
})()`

// The theme that somebody has chosen stays, whatever the system asks for.
func TestTheme(t *testing.T) {
	t.Parallel()
	p, link := play(t)
	ctx := Browse(t)
	ground := func() string { return Value[string](t, ctx, `getComputedStyle(document.body).backgroundColor`) }
	Do(t, ctx, Theme("light"), chromedp.Navigate(link), At("/console/"))
	light := ground()
	Do(t, ctx, Theme("dark"))
	dark := ground()
	if light == dark {
		t.Errorf("both themes have %s", light)
	}
	Do(t, ctx, Press("Theme: system"), Says("#theme", "Theme: light"))
	if got := ground(); got != light {
		t.Errorf("%s is not the light theme, which is chosen", got)
	}
	Do(t, ctx, p.open("tasks"), Says("#theme", "Theme: light"))
	if got := ground(); got != light {
		t.Errorf("%s is not the light theme, which was chosen on another page", got)
	}
	Do(t, ctx, Theme("light"), Press("Theme: light"), Says("#theme", "Theme: dark"))
	if got := ground(); got != dark {
		t.Errorf("%s is not the dark theme, which is chosen", got)
	}
}
