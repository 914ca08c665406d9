//go:build browser

package chat_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"handoff.example/handoff"
)

type step = chromedp.Action[chromedp.Void]

// browse opens a browser for a test. What the page reports as an error fails it,
// but for what is listed.
func browse(t *testing.T, allowed ...string) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(900, 800))
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 90*time.Second)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	messages := chromedp.Console(ctx)
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for m, err := range messages {
			if err != nil {
				return
			}
			expected := m.Type != chromedp.ConsoleError && m.Type != chromedp.ConsoleException
			for _, a := range allowed {
				expected = expected || strings.Contains(m.Text, a)
			}
			if !expected {
				t.Errorf("the page reports: %s %s", m.Text, m.URL)
			}
		}
	}()
	return ctx
}

// run does something in the browser.
func run(t *testing.T, ctx context.Context, steps ...step) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		body, _ := chromedp.Run(ctx, chromedp.Text("body"))
		shoot(t, ctx, "failed-"+strings.ReplaceAll(t.Name(), "/", "-"))
		t.Fatalf("%v; the page says:\n%s", err, body)
	}
}

// value evaluates an expression on the page.
func value[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// until waits until an expression is true on the page.
func until(expression string) step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(20*time.Second))(ctx, target); err != nil {
			return fmt.Errorf("wait until %s: %w", expression, err)
		}
		return nil
	})
}

// says waits until the conversation has a text.
func says(text string) step {
	return until(`document.getElementById("log").innerText.includes(` + strconv.Quote(text) + `)`)
}

// write writes a message and sends it with the keyboard alone.
func write(text string) step {
	return chromedp.Steps(chromedp.WaitVisible(chromedp.CSS("#composer")), chromedp.Focus(chromedp.CSS("#text")), chromedp.KeyEvent(text), enter())
}

// enter presses Enter in the field of the message.
func enter() step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
			_, err := cdp.Call(ctx, target, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// press clicks on the button that says something.
func press(text string) step { return chromedp.Click(chromedp.Search(`//button[.="` + text + `"]`)) }

// shoot keeps a picture of the page where CHAT_SHOTS says.
func shoot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("CHAT_SHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Log(err)
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600); err != nil {
		t.Fatal(err)
	}
}

func theme(name string) step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	})
}

func phone() step {
	return chromedp.EmulateViewport(390, 780, chromedp.EmulateScale(2), chromedp.EmulateMobile)
}

// A conversation by the keyboard alone: a question as a form, of which an answer
// does not fit; a text that comes in pieces; and all of it there after a reload.
func TestConversation(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", "chat: {enabled: true, anonymous: callers, greeting: Hello! Ask about a delivery.}"))
	ctx := browse(t)
	run(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), write("Book a slot for PO-2026-0184"), says("Waiting for your answer"), chromedp.WaitVisible(chromedp.CSS("form.question")))
	shoot(t, ctx, "question-light")
	run(t, ctx, theme("dark"))
	shoot(t, ctx, "question-dark")
	run(t, ctx,
		// Only the first field is filled in.
		chromedp.Focus(chromedp.CSS(`form.question input[type=radio]`)), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter),
		until(`document.querySelector("form.question [aria-invalid]") !== null`))
	shoot(t, ctx, "question-wrong-dark")
	run(t, ctx,
		chromedp.KeyEvent(" "), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("12"), chromedp.KeyEvent(kb.Enter),
		says("Booked."), says("Dock B, 11 Sep"), says("Pallets: 12"),
		write("Tell me a story"), says("Sentence 3"), says("Sentence 29"), says("That was all."),
		write("hello"), says("Good morning!"))
	shoot(t, ctx, "conversation-dark")
	run(t, ctx, phone(), theme("light"))
	shoot(t, ctx, "conversation-phone-light")
	const all = `[...document.querySelectorAll("#log .text")].map((e) => e.textContent).sort().join("|")`
	before := value[string](t, ctx, all)
	run(t, ctx, chromedp.Reload(), says("Good morning!"), says("Sentence 29"), says("Booked."))
	if after := value[string](t, ctx, all); before != after {
		t.Errorf("before the reload:\n%s\nafter:\n%s", before, after)
	}
	shoot(t, ctx, "reloaded-phone-light")
	run(t, ctx, chromedp.Click(chromedp.CSS("#fresh")), until(`document.querySelectorAll("#log .task").length === 0`), chromedp.WaitVisible(chromedp.CSS("#examples")))
	shoot(t, ctx, "fresh-phone-light")
	run(t, ctx, theme("dark"))
	shoot(t, ctx, "fresh-phone-dark")
}

// Where the caller may decide there are buttons; elsewhere the page says who does.
func TestApproval(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("mine", "chat: {enabled: true, anonymous: callers}\n    grants: caller"), agent("theirs", "chat: {enabled: true, anonymous: callers}"))
	ctx := browse(t)
	run(t, ctx, phone(), chromedp.Navigate(s.base+"/chat/mine"), write("Order 400 pallets"), says("Waiting for an approval"), says("Order 400 pallets for 12,400 EUR"))
	shoot(t, ctx, "approval-phone-light")
	run(t, ctx, theme("dark"))
	shoot(t, ctx, "approval-phone-dark")
	run(t, ctx, press("Approve"), says("The order is placed."), says("Approved"),
		until(`[...document.querySelectorAll("#log a")].some((a) => a.href === "https://example.com/orders/PO-2026-0185")`))
	run(t, ctx, theme("light"), chromedp.Navigate(s.base+"/chat/theirs"), write("Order 400 pallets"), says("Who runs this service decides"),
		until(`document.querySelector('a[href="https://erp.example.com/approve"]')?.rel.includes("noopener")`),
		until(`![...document.querySelectorAll("button")].some((b) => b.textContent === "Approve")`))
	shoot(t, ctx, "decided-elsewhere-phone-light")
	// Somebody decides while the page only looks on.
	items, err := s.node.Inbox().List(t.Context(), inboxOfGrants)
	if err != nil || len(items) != 1 {
		t.Fatalf("items: %v, %v", items, err)
	}
	if err := s.node.Inbox().Approve(t.Context(), items[0].ID, "operator", ""); err != nil {
		t.Fatal(err)
	}
	run(t, ctx, says("The order is placed."))
}

// What an agent says is text, an image made of checked bytes, or a download.
func TestHostileAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", "chat: {enabled: true, anonymous: callers}"))
	ctx := browse(t)
	run(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), write("hostile"), says("<b>done</b>"), says("<img src=x onerror=alert(1)>"))
	found := value[string](t, ctx, `[...document.querySelectorAll("#log script, #log img, #log svg, #log iframe, #log b")].map((e) => e.outerHTML).join()`)
	marked := value[string](t, ctx, `String(window.hacked) + [...document.querySelectorAll("#log a")].map((a) => " " + a.href).join("")`)
	if found != "" {
		t.Errorf("markup of the agent is in the page: %s", found)
	}
	if want := "undefined https://ok.example/a?b="; marked != want {
		t.Errorf("links: %s, want %s", marked, want)
	}
	shoot(t, ctx, "hostile-light")
}

// A server that is gone for a while takes nothing of the conversation with it.
func TestServerIsRestarted(t *testing.T) {
	t.Parallel()
	s := start(t, "shutdown_grace: 1s", agent("desk", "chat: {enabled: true, anonymous: callers}"))
	ctx := browse(t, "ERR_", "Failed to load resource")
	run(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), write("Tell me a story"), says("Sentence 5"))
	address := strings.TrimPrefix(s.base, "http://")
	s.stop()
	run(t, ctx, until(`document.getElementById("net").textContent !== ""`))
	shoot(t, ctx, "cut-light")
	// A message of now waits for the server.
	run(t, ctx, chromedp.Focus(chromedp.CSS("#text")), chromedp.KeyEvent("Is it still there?"), enter())
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(listener)
	run(t, ctx, says("Sentence 29"), says("That was all."),
		until(`document.querySelectorAll(".pending").length === 0 && document.querySelectorAll(".undelivered").length === 0`))
	if sentences := value[int](t, ctx, `document.getElementById("log").innerText.match(/Sentence \d+ of/g).length`); sentences != 30 {
		t.Errorf("%d sentences, want 30", sentences)
	}
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
	ctx := browse(t)
	run(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), chromedp.WaitVisible(chromedp.CSS("#composer")),
		chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{large}), until(`document.getElementById("net").textContent.includes("too large")`),
		chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{image, note}), until(`document.querySelectorAll("#chosen li").length === 2`))
	shoot(t, ctx, "files-chosen-light")
	run(t, ctx, write("The note of today"), says("I keep it with the order."),
		until(`document.querySelectorAll("#log .artifact img").length === 1 && document.querySelector("#log .artifact img").naturalWidth > 0`),
		says("note.pdf"))
	shoot(t, ctx, "files-light")
}

// Who is signed in to the console is at the page too; who is not is told where to
// sign in, and comes back from there.
func TestSignedIn(t *testing.T) {
	t.Parallel()
	s := start(t, "callers: {keys: true}", agent("desk", "chat: {enabled: true}"))
	ctx := browse(t, "401")
	run(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), until(`document.querySelector("#gate a")?.textContent === "Sign in"`), until(`document.getElementById("composer").hidden`))
	shoot(t, ctx, "gate-light")
	if href := value[string](t, ctx, `document.querySelector("#gate a").href`); href != s.base+"/console/login?next=%2Fchat%2Fdesk" {
		t.Errorf("the link leads to %s", href)
	}
	link, _, err := s.node.ConsoleLink(t.Context(), s.base)
	if err != nil {
		t.Fatal(err)
	}
	run(t, ctx, chromedp.Navigate(link), chromedp.Navigate(s.base+"/chat/desk"), write("Book a slot"), says("Waiting for your answer"))
	if who := value[string](t, ctx, `document.getElementById("who").textContent`); who == "" {
		t.Error("nothing says who is signed in")
	}
	shoot(t, ctx, "signed-in-light")
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
	ctx := browse(t, "401", "frame-ancestors", "Framing", "favicon")
	run(t, ctx, chromedp.Navigate(around), until(`events.join() === "unauthenticated,ready"`))
	shoot(t, ctx, "framed-light")
	run(t, ctx, chromedp.Navigate("http://127.0.0.1:"+port), until(`document.readyState === "complete"`))
	if events := value[string](t, ctx, `events.join()`); events != "" {
		t.Errorf("a page that is not named has it in a frame: %s", events)
	}
	run(t, ctx, chromedp.Navigate(s.base+"/chat/desk#token="+token), chromedp.WaitVisible(chromedp.CSS("#gate")))
	if at := value[string](t, ctx, `location.href`); at != s.base+"/chat/desk" {
		t.Errorf("the token stands in the address: %s", at)
	}
}

// A task is stopped, and the page says so.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", "chat: {enabled: true, anonymous: callers}"))
	ctx := browse(t)
	run(t, ctx, chromedp.Navigate(s.base+"/chat/desk"), write("wait"), says("This takes a while"), press("Cancel"), says("Canceled"))
	shoot(t, ctx, "canceled-light")
}

// inboxOfGrants are the grant requests that are open.
var inboxOfGrants = handoff.InboxQuery{Kind: "grant"}

// pngPixel is an image.
const pngPixel = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"
