//go:build browser

package chat_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"handoff.example/handoff"
	"handoff.example/handoff/internal/browsertest"
)

// says waits until the conversation has a text.
func says(text string) browsertest.Step { return browsertest.Says("#log", text) }

// write writes a message and sends it with the keyboard alone.
func write(text string) browsertest.Step {
	return chromedp.Steps(chromedp.WaitVisible(chromedp.CSS("#composer")), chromedp.Focus(chromedp.CSS("#text")), chromedp.KeyEvent(text), browsertest.Enter())
}

// A conversation by the keyboard alone: a question as a form, of which an answer
// does not fit; a text that comes in pieces; and all of it there after a reload.
func TestConversation(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", "chat: {enabled: true, anonymous: callers, greeting: Hello! Ask about a delivery.}"))
	ctx := browsertest.Browse(t)
	browsertest.Do(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), write("Book a slot for PO-2026-0184"), says("Waiting for your answer"), chromedp.WaitVisible(chromedp.CSS("form.question")))
	browsertest.Shoot(t, ctx, "chat-question-light")
	browsertest.Do(t, ctx, browsertest.Theme("dark"))
	browsertest.Shoot(t, ctx, "chat-question-dark")
	browsertest.Do(t, ctx,
		// Only the first field is filled in.
		chromedp.Focus(chromedp.CSS(`form.question input[type=radio]`)), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter),
		browsertest.Until(`document.querySelector("form.question [aria-invalid]") !== null`))
	browsertest.Shoot(t, ctx, "chat-question-wrong-dark")
	browsertest.Do(t, ctx,
		chromedp.KeyEvent(" "), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("12"), chromedp.KeyEvent(kb.Enter),
		says("Booked."), says("Dock B, 11 Sep"), says("Pallets: 12"),
		write("Tell me a story"), says("Sentence 3"), says("Sentence 29"), says("That was all."),
		write("hello"), says("Good morning!"))
	browsertest.Shoot(t, ctx, "chat-conversation-dark")
	browsertest.Do(t, ctx, browsertest.Phone(), browsertest.Theme("light"))
	browsertest.Shoot(t, ctx, "chat-conversation-phone-light")
	const all = `[...document.querySelectorAll("#log .text")].map((e) => e.textContent).sort().join("|")`
	before := browsertest.Value[string](t, ctx, all)
	browsertest.Do(t, ctx, chromedp.Reload(), says("Good morning!"), says("Sentence 29"), says("Booked."))
	if after := browsertest.Value[string](t, ctx, all); before != after {
		t.Errorf("before the reload:\n%s\nafter:\n%s", before, after)
	}
	browsertest.Shoot(t, ctx, "chat-reloaded-phone-light")
	browsertest.Do(t, ctx, chromedp.Click(chromedp.CSS("#fresh")), browsertest.Until(`document.querySelectorAll("#log .task").length === 0`), chromedp.WaitVisible(chromedp.CSS("#examples")))
	browsertest.Shoot(t, ctx, "chat-fresh-phone-light")
	browsertest.Do(t, ctx, browsertest.Theme("dark"))
	browsertest.Shoot(t, ctx, "chat-fresh-phone-dark")
}

// Where the caller may decide there are buttons; elsewhere the page says who does.
func TestApproval(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("mine", "chat: {enabled: true, anonymous: callers}\n    grants: caller"), agent("theirs", "chat: {enabled: true, anonymous: callers}"))
	ctx := browsertest.Browse(t)
	browsertest.Do(t, ctx, browsertest.Phone(), chromedp.Navigate(s.base+"/chat/mine"), write("Order 400 pallets"), says("Waiting for an approval"), says("Order 400 pallets for 12,400 EUR"))
	browsertest.Shoot(t, ctx, "chat-approval-phone-light")
	browsertest.Do(t, ctx, browsertest.Theme("dark"))
	browsertest.Shoot(t, ctx, "chat-approval-phone-dark")
	browsertest.Do(t, ctx, browsertest.Press("Approve"), says("The order is placed."), says("Approved"),
		browsertest.Until(`[...document.querySelectorAll("#log a")].some((a) => a.href === "https://example.com/orders/PO-2026-0185")`))
	browsertest.Do(t, ctx, browsertest.Theme("light"), chromedp.Navigate(s.base+"/chat/theirs"), write("Order 400 pallets"), says("Who runs this service decides"),
		browsertest.Until(`document.querySelector('a[href="https://erp.example.com/approve"]')?.rel.includes("noopener")`),
		browsertest.Until(`![...document.querySelectorAll("button")].some((b) => b.textContent === "Approve")`))
	browsertest.Shoot(t, ctx, "chat-decided-elsewhere-phone-light")
	// Somebody decides while the page only looks on.
	items, err := s.node.Inbox().List(t.Context(), inboxOfGrants)
	if err != nil || len(items) != 1 {
		t.Fatalf("items: %v, %v", items, err)
	}
	if err := s.node.Inbox().Approve(t.Context(), items[0].ID, "operator", ""); err != nil {
		t.Fatal(err)
	}
	browsertest.Do(t, ctx, says("The order is placed."))
}

// What an agent says is text, an image made of checked bytes, or a download.
func TestHostileAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", "chat: {enabled: true, anonymous: callers}"))
	ctx := browsertest.Browse(t)
	browsertest.Do(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), write("hostile"), says("<b>done</b>"), says("<img src=x onerror=alert(1)>"))
	found := browsertest.Value[string](t, ctx, `[...document.querySelectorAll("#log script, #log img, #log svg, #log iframe, #log b")].map((e) => e.outerHTML).join()`)
	marked := browsertest.Value[string](t, ctx, `String(window.hacked) + [...document.querySelectorAll("#log a")].map((a) => " " + a.href).join("")`)
	if found != "" {
		t.Errorf("markup of the agent is in the page: %s", found)
	}
	if want := "undefined https://ok.example/a?b="; marked != want {
		t.Errorf("links: %s, want %s", marked, want)
	}
	browsertest.Shoot(t, ctx, "chat-hostile-light")
}

// A server that is gone for a while takes nothing of the conversation with it.
func TestServerIsRestarted(t *testing.T) {
	t.Parallel()
	s := start(t, "shutdown_grace: 1s", agent("desk", "chat: {enabled: true, anonymous: callers}"))
	ctx := browsertest.Browse(t, "ERR_", "Failed to load resource")
	browsertest.Do(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), write("Tell me a story"), says("Sentence 5"))
	address := strings.TrimPrefix(s.base, "http://")
	s.stop()
	browsertest.Do(t, ctx, browsertest.Until(`document.getElementById("net").textContent !== ""`))
	browsertest.Shoot(t, ctx, "chat-cut-light")
	// A message of now waits for the server.
	browsertest.Do(t, ctx, chromedp.Focus(chromedp.CSS("#text")), chromedp.KeyEvent("Is it still there?"), browsertest.Enter())
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(listener)
	browsertest.Do(t, ctx, says("Sentence 29"), says("That was all."),
		browsertest.Until(`document.querySelectorAll(".pending").length === 0 && document.querySelectorAll(".undelivered").length === 0`))
	if sentences := browsertest.Value[int](t, ctx, `document.getElementById("log").innerText.match(/Sentence \d+ of/g).length`); sentences != 30 {
		t.Errorf("%d sentences, want 30", sentences)
	}
}

// A message whose task ends while it is on its way begins the next one.
func TestAMessageThatComesTooLate(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", "chat: {enabled: true, anonymous: callers}"))
	ctx := browsertest.Browse(t, "400")
	browsertest.Do(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), write("Tell me a story"), says("Sentence 2"),
		browsertest.Until(`(() => { const send = window.fetch; window.fetch = async (url, options) => {
			if (String(url).endsWith(":send")) await new Promise((done) => { window.letGo = done; });
			return send(url, options);
		}; return true; })()`),
		write("How does an order stand?"), browsertest.Until(`window.letGo !== undefined`),
		says("That was all."), browsertest.Until(`document.querySelector("#log section.task .state button").hidden`), // it is over
		browsertest.Until(`(window.letGo(), true)`))
	browsertest.Do(t, ctx, browsertest.Until(`document.querySelectorAll("#log section.task").length === 2`),
		browsertest.Until(`document.querySelectorAll(".pending, .undelivered").length === 0`))
}

// Files go out as they are, and come back as an image or a download.
func TestFiles(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", "chat: {enabled: true, anonymous: callers, file_bytes: 4KiB}"))
	dir := t.TempDir()
	image, note, large := filepath.Join(dir, "dock.png"), filepath.Join(dir, "note.pdf"), filepath.Join(dir, "large.pdf")
	for file, content := range map[string]string{image: pngPixel, note: "%PDF-1.7 a delivery note", large: strings.Repeat("x", 5<<10)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx := browsertest.Browse(t)
	browsertest.Do(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), chromedp.WaitVisible(chromedp.CSS("#composer")),
		chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{large}), browsertest.Until(`document.getElementById("net").textContent.includes("too large")`),
		chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{image, note}), browsertest.Until(`document.querySelectorAll("#chosen li").length === 2`))
	browsertest.Shoot(t, ctx, "chat-files-chosen-light")
	browsertest.Do(t, ctx, write("The note of today"), says("I keep it with the order."),
		browsertest.Until(`document.querySelectorAll("#log .artifact img").length === 1 && document.querySelector("#log .artifact img").naturalWidth > 0`),
		says("note.pdf"))
	browsertest.Shoot(t, ctx, "chat-files-light")
}

// Who is signed in to the console is at the page too; who is not is told where to
// sign in, and comes back from there.
func TestSignedIn(t *testing.T) {
	t.Parallel()
	s := start(t, "callers: {keys: true}", agent("desk", "chat: {enabled: true}"))
	ctx := browsertest.Browse(t, "401")
	browsertest.Do(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), browsertest.Until(`document.querySelector("#gate a")?.textContent === "Sign in"`), browsertest.Until(`document.getElementById("composer").hidden`))
	browsertest.Shoot(t, ctx, "chat-gate-light")
	if href := browsertest.Value[string](t, ctx, `document.querySelector("#gate a").href`); href != s.base+"/console/login?next=%2Fchat%2Fdesk" {
		t.Errorf("the link leads to %s", href)
	}
	link, _, err := s.node.ConsoleLink(t.Context(), s.base)
	if err != nil {
		t.Fatal(err)
	}
	browsertest.Do(t, ctx, chromedp.Navigate(link), chromedp.Navigate(s.base+"/chat/desk"), write("Book a slot"), says("Waiting for your answer"))
	if who := browsertest.Value[string](t, ctx, `document.getElementById("who").textContent`); who == "" {
		t.Error("nothing says who is signed in")
	}
	browsertest.Shoot(t, ctx, "chat-signed-in-light")
}

// In the frame of a site that the agent names, a token of that site says who its
// reader is; elsewhere there is no frame, and a token in an address is nobody's.
func TestInTheFrameOfAnotherSite(t *testing.T) {
	t.Parallel()
	is := newIssuer(t)
	var s *server
	token := ""
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<body><script>
			window.events = [];
			addEventListener("message", (e) => {
				if (e.source !== document.querySelector("iframe").contentWindow || e.data?.type !== "handoff-chat") return;
				events.push(e.data.event);
				if (e.data.event === "unauthenticated") document.querySelector("iframe").src = %q;
			});
		</script><iframe width="390" height="560" src="%s/chat/desk"></iframe>`, s.base+"/chat/desk#token="+token, s.base)
	}))
	site.Start()
	t.Cleanup(site.Close)
	_, port, err := net.SplitHostPort(site.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// Its name is another one than that of the node, and so it is another site.
	around := "http://localhost:" + port
	s = start(t, fmt.Sprintf("callers: {anonymous: 'off', oidc: [{issuer: %q, audience: chat, jwks_url: %q}]}", is.url, is.url+"/keys"),
		agent("desk", "chat: {enabled: true, frame_ancestors: ['"+around+"']}"))
	token = is.token(t, "ana", "chat")
	ctx := browsertest.Browse(t, "401", "frame-ancestors", "Framing", "favicon")
	browsertest.Do(t, ctx, chromedp.Navigate(around), browsertest.Until(`events.join() === "unauthenticated,ready"`))
	browsertest.Shoot(t, ctx, "chat-framed-light")
	browsertest.Do(t, ctx, chromedp.Navigate("http://127.0.0.1:"+port), browsertest.Until(`document.readyState === "complete"`))
	if events := browsertest.Value[string](t, ctx, `events.join()`); events != "" {
		t.Errorf("a page that is not named has it in a frame: %s", events)
	}
	browsertest.Do(t, ctx, chromedp.Navigate(s.base+"/chat/desk#token="+token), chromedp.WaitVisible(chromedp.CSS("#gate")))
	if at := browsertest.Value[string](t, ctx, `location.href`); at != s.base+"/chat/desk" {
		t.Errorf("the token stands in the address: %s", at)
	}
}

// A task is stopped, and the page says so.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", "chat: {enabled: true, anonymous: callers}"))
	ctx := browsertest.Browse(t)
	browsertest.Do(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), write("wait"), says("This takes a while"), browsertest.Press("Cancel"), says("Canceled"))
	browsertest.Shoot(t, ctx, "chat-canceled-light")
}

// inboxOfGrants are the grant requests that are open.
var inboxOfGrants = handoff.InboxQuery{Kind: "grant"}

// pngPixel is an image.
const pngPixel = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"

// What an agent writes as Markdown is formatted, and nothing in it is more than that.
func TestMarkdownIsFormatted(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", "chat: {enabled: true, anonymous: callers}"))
	ctx := browsertest.Browse(t)
	browsertest.Do(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), write("**400 units** [a](https://ok.example/a) [b](javascript:window.hacked=1) <img src=x onerror=window.hacked=1>"),
		browsertest.Until(`document.querySelector("#log .theirs .formatted strong")?.textContent === "400 units"`))
	found := browsertest.Value[string](t, ctx, `String(window.hacked) + [...document.querySelectorAll("#log script, #log img, #log .mine strong")].map((e) => e.outerHTML).join() + [...document.querySelectorAll("#log .theirs a")].map((a) => " " + a.href + " " + a.rel).join("")`)
	if want := "undefined https://ok.example/a noopener noreferrer nofollow"; found != want {
		t.Errorf("the page has %s, want %s", found, want)
	}
	browsertest.Shoot(t, ctx, "chat-markdown")
}
