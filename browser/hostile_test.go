//go:build browser

package browser_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/go-json-experiment/json"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	. "handoff.example/handoff/internal/browsertest"
)

// house starts a node with an admin's key and a link to its console. The agents are Go
// functions; more is the rest of the configuration.
func house(t *testing.T, more string, cards map[string]handoff.Card, agents map[string]func(context.Context, *handoff.Turn) error) (s *site, link string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	text := "store: sqlite:tasks.db\nsecret_key: \"0123456789abcdef0123456789abcdef\"\ncallers: {keys: true}\n" + more
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := handoff.LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	for id, run := range agents {
		if err := node.Handle(id, cards[id], run); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(node)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	once := func() string {
		link, _, err := node.ConsoleLink(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	return &site{t: t, base: server.URL, key: newKey(t, server.URL, once())}, once()
}

// newKey makes the API key of an admin, as somebody whom a link signs in.
func newKey(t *testing.T, base, link string) string {
	t.Helper()
	jar, _ := cookiejar.New(nil)
	c := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := c.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	response, err = c.Post(base+"/api/v1/keys", "application/json", strings.NewReader(`{"role":"admin","subject":"tester"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var made struct {
		Key string `json:"key"`
	}
	if err := json.UnmarshalRead(response.Body, &made); err != nil || made.Key == "" {
		t.Fatalf("no key is made: %s %v", response.Status, err)
	}
	return made.Key
}

// Texts of somebody who would like to run a script, to leave the page, or to be taken
// for somebody else.
const (
	markup    = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script><svg onload="window.hacked=1"></svg>"'><b>bold</b>{{.}}`
	invisible = "pay\u202eecivres\u202c\u200b\u2066\u0007\U000e0041\ufeff"
	drawing   = `<svg xmlns="http://www.w3.org/2000/svg" onload="window.hacked=1"><script>window.hacked=1</script><image href="https://elsewhere.example/x.png"/></svg>`
	marked    = "# " + markup + "\n\n[click](javascript:window.hacked=1) [data](data:text/html,<script>window.hacked=1</script>) ![image](https://elsewhere.example/pixel.png)\n\n<iframe src=\"https://elsewhere.example/\"></iframe>\n\n<style>body{display:none}</style>\n\n[fine](https://fine.example/)\n"
)

var long = strings.Repeat("Donaudampfschifffahrtsgesellschaft", 60)

// trap is an agent whose card and whose artifacts are hostile.
func trap() (handoff.Card, func(context.Context, *handoff.Turn) error) {
	card := handoff.NewCard(markup+invisible+long, marked+long, "1.0.0", handoff.Skill{
		ID: "trap", Name: markup + invisible, Description: marked + long, Tags: []string{markup, long}, Examples: []string{markup, long},
	})
	return card, func(_ context.Context, t *handoff.Turn) error {
		says := agent.Content{Parts: []a2a.Part{a2a.Text(markup + invisible + long)}}
		if strings.HasPrefix(t.Text(), "ask") {
			return t.Emit(agent.Step{Ask: &agent.Ask{
				Content: says,
				Schema:  a2a.JSON(`{"type":"object","title":"<img src=x onerror=window.hacked=1>","properties":{"x":{"type":"string","title":"` + long + `","description":"<script>window.hacked=1</script>","enum":["<b>a</b>","` + long + `"]}}}`),
			}})
		}
		err := t.Emit(agent.Step{
			Artifact: &agent.Artifact{ID: "trap", Name: markup + invisible, Description: marked, Last: true, Parts: []a2a.Part{
				a2a.Text(markup + invisible + long),
				{Kind: a2a.PartText, Text: marked + long, MediaType: "text/markdown"},
				{Kind: a2a.PartText, Text: markup, MediaType: "text/html"},
				a2a.Raw([]byte("<html><body>"+markup+"</body></html>"), "text/html", "../../"+markup+invisible+".html"),
				a2a.Raw([]byte(drawing), "image/svg+xml", "drawing.svg"),
				a2a.Raw([]byte(markup), "image/png", "no-image.png"),
				a2a.URL("javascript:window.hacked=1", "text/html", "click"),
				a2a.URL("https://elsewhere.example/pixel.png", "image/png", "pixel.png"),
				a2a.Data(a2a.JSON(`{"</script><script>window.hacked=1</script>":"<img src=x onerror=window.hacked=1>","long":"` + long + `"}`)),
				a2a.Raw([]byte("a,b\n=1+1,"+markup+"\n"), "text/csv", "table.csv"),
			}},
		})
		if err != nil {
			return err
		}
		return t.Emit(agent.Step{Authorize: &agent.Authorize{Content: says, Operation: markup + invisible, URL: "https://elsewhere.example/approve?" + url.QueryEscape(markup)}})
	}
}

// hostileCard is the card of a partner.
const hostileCard = `{"name":"<img src=x onerror=window.hacked=1>","description":"<script>window.hacked=1</script> [click](javascript:window.hacked=1)","version":"<b>1</b>",
"provider":{"organization":"<svg onload=window.hacked=1>","url":"javascript:window.hacked=1"},"iconUrl":"https://elsewhere.example/icon.png","documentationUrl":"javascript:window.hacked=1",
"supportedInterfaces":[{"url":"BASE/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{},"defaultInputModes":["<b>"],"defaultOutputModes":["text/plain"],
"skills":[{"id":"<b>","name":"<img src=x onerror=window.hacked=1>","description":"LONG","tags":["<script>window.hacked=1</script>"],"examples":["LONG"]}]}`

// What agents and partners say is text on every page: no script of theirs runs, no
// dialog opens, nothing is fetched from elsewhere, and no link leads to a script.
func TestHostile(t *testing.T) {
	t.Parallel()
	var partner *httptest.Server
	partner = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(strings.NewReplacer("BASE", partner.URL, "LONG", long).Replace(hostileCard)))
	}))
	t.Cleanup(partner.Close)
	card, run := trap()
	s, link := house(t, "peers: {evil: {card: "+partner.URL+"/}}\n", map[string]handoff.Card{"trap": card}, map[string]func(context.Context, *handoff.Turn) error{"trap": run})
	task := s.send("trap", "", a2a.Text(markup+invisible+long), a2a.Text(marked))
	asked := s.send("trap", "", a2a.Text("ask"))
	s.settle(task.ID, "TASK_STATE_AUTH_REQUIRED")
	s.settle(asked.ID, "TASK_STATE_INPUT_REQUIRED")
	ctx := Browse(t)
	requests := chromedp.Events(ctx, network.RequestWillBeSent)
	watched := make(chan []string)
	go func() {
		var elsewhere []string
		defer func() { watched <- elsewhere }()
		for r, err := range requests {
			if err != nil {
				return
			}
			if u, err := url.Parse(r.Request.URL); err == nil && u.Scheme != "data" && u.Scheme != "blob" && u.Scheme != "about" && u.Scheme+"://"+u.Host != s.base && !slices.Contains(elsewhere, r.Request.URL) {
				elsewhere = append(elsewhere, r.Request.URL)
			}
		}
	}()
	Do(t, ctx, chromedp.Navigate(link), At("/console/"), s.open("inbox"), Until(`document.querySelector("#items a[data-open]") !== null`))
	item := Value[string](t, ctx, `document.querySelector("#items a[data-open]").pathname`)
	Do(t, ctx, s.open("tasks/"+task.ID), Says("#artifacts", "drawing.svg"), Says("#artifacts", "no-image.png"), Says("#artifacts", "=1+1"))
	for name, path := range map[string]string{
		"now": "", "inbox": "inbox", "item": strings.TrimPrefix(item, "/console/"), "tasks": "tasks", "task": "tasks/" + task.ID, "question": "tasks/" + asked.ID, "events": "tasks/" + task.ID + "/events",
		"delegations": "delegations", "delegation": "delegations/" + task.ID, "agents": "agents", "agent": "agents/trap", "peer": "peers/evil", "webhooks": "webhooks",
		"audit": "audit", "search": "tasks?q=" + url.QueryEscape(markup),
	} {
		Do(t, ctx, Desk(), s.open(path), Until(`[...document.querySelectorAll("details")].every((d) => (d.open = true))`))
		harmless(t, ctx, name)
		accessible(t, ctx, name)
		Shoot(t, ctx, "hostile-"+name)
		Do(t, ctx, Phone())
		narrow(t, ctx)
		Shoot(t, ctx, "hostile-"+name+"-phone")
	}
	// Nothing moves where somebody clicks either.
	Do(t, ctx, Desk(), s.open("tasks/"+task.ID), Until(`(() => {
		for (const a of document.querySelectorAll("#artifacts a[href], #conversation a[href]")) if (!a.protocol.startsWith("http")) a.click();
		for (const b of document.querySelectorAll("main button[type=button]")) b.click();
		return true;
	})()`))
	harmless(t, ctx, "clicked")
	_ = chromedp.Cancel(ctx)
	for _, u := range <-watched {
		t.Errorf("the page fetches %s", u)
	}
}

// harmless fails the test when something of a hostile text is more than a text.
func harmless(t *testing.T, ctx context.Context, where string) {
	t.Helper()
	for _, fault := range Value[[]string](t, ctx, `(() => {
		const list = [];
		if (window.hacked !== undefined) list.push("a script has run");
		for (const e of document.querySelectorAll("*")) {
			for (const a of e.attributes) {
				if (a.name.startsWith("on")) list.push("a handler: " + e.outerHTML.slice(0, 100));
				if (["href", "src", "action", "formaction", "xlink:href"].includes(a.name) && !["http:", "https:", "mailto:", "blob:"].includes(new URL(a.value, location.href).protocol)) list.push("an address: " + e.outerHTML.slice(0, 100));
			}
		}
		for (const e of document.querySelectorAll("main script, main style, main iframe, main object, main embed, main base, main meta, main link, main foreignObject")) list.push("an element: " + e.outerHTML.slice(0, 100));
		for (const e of document.querySelectorAll("main img")) if (new URL(e.src).origin !== location.origin && !e.src.startsWith("blob:")) list.push("an image: " + e.outerHTML.slice(0, 100));
		for (const e of document.querySelectorAll("main a[href]")) if (new URL(e.getAttribute("href"), location.href).origin !== location.origin && !["noopener", "noreferrer"].every((r) => e.relList.contains(r))) list.push("a link that tells where from: " + e.outerHTML.slice(0, 100));
		for (const c of ["\u202e", "\u2066", "\u200b", "\u0007", "\ufeff", "\u{e0041}"]) {
			const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
			for (let n; (n = walker.nextNode());) if (n.data.includes(c)) list.push("an invisible character: " + c.codePointAt(0).toString(16) + " in " + n.parentElement.outerHTML.slice(0, 100));
		}
		return list;
	})()`) {
		t.Errorf("%s: %s", where, fault)
	}
}
