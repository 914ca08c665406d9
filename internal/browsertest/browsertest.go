//go:build browser

// Package browsertest opens Chromium for tests of pages. A page that reports an error,
// an exception or a violation of its Content Security Policy fails the test that has
// opened it, and so does a dialog.
package browsertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Step is something that is done in a browser.
type Step = chromedp.Action[chromedp.Void]

// Bounds of a test, and of one thing in it that is waited for.
const (
	whole = 4 * time.Minute
	least = time.Minute
)

// Browse opens a browser for a test. What the page reports as an error fails it, but
// for what is listed.
func Browse(t *testing.T, allowed ...string) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(least))
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, whole)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	messages := chromedp.Console(ctx)
	dialogs := chromedp.Events(ctx, page.JavascriptDialogOpening)
	done := make(chan struct{}, 2)
	t.Cleanup(func() { cancel(); <-done; <-done })
	go func() {
		defer func() { done <- struct{}{} }()
		for m, err := range messages {
			if err != nil {
				return
			}
			expected := m.Type != chromedp.ConsoleError && m.Type != chromedp.ConsoleException
			for _, a := range allowed {
				expected = expected || strings.Contains(m.Text+" "+m.URL, a)
			}
			if !expected {
				t.Errorf("the page reports: %s %s", m.Text, m.URL)
			}
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for d, err := range dialogs {
			if err != nil {
				return
			}
			t.Errorf("a dialog opens: %s", d.Message)
			_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}
	}()
	return ctx
}

// Do does something in the browser. When it fails, the test ends with what the page
// says, and a picture of it.
func Do(t *testing.T, ctx context.Context, steps ...Step) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		at, _ := chromedp.Run(ctx, chromedp.Location())
		body, _ := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("body")))
		Shoot(t, ctx, "failed-"+strings.ReplaceAll(t.Name(), "/", "-"))
		t.Fatalf("%v; %s says:\n%s", err, at, body)
	}
}

// Value evaluates an expression on the page. A promise is waited for.
func Value[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%v: %s", err, expression)
	}
	return v
}

// Until waits until an expression is true on the page, or on the one to which it leads.
func Until(expression string) Step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for ctx, cancel := context.WithTimeout(ctx, least); ; {
			_, err := chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(least))(ctx, target)
			if err != nil && left(err) && ctx.Err() == nil {
				continue
			}
			cancel()
			if err != nil {
				return fmt.Errorf("wait until %s: %w", expression, err)
			}
			return nil
		}
	})
}

// left reports whether an expression had no value because its page was left.
func left(err error) bool {
	for _, text := range []string{"Cannot find context", "context was destroyed", "navigated or closed", "Cannot find execution context"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// At waits until the page is the one of a path, with or without a query, and is loaded.
func At(path string) Step {
	return Until(`document.readyState === "complete" && (location.pathname === ` + strconv.Quote(path) + ` || location.pathname + location.search === ` + strconv.Quote(path) + `)`)
}

// Says waits until what a selector names has a text.
func Says(selector, text string) Step {
	return Until(`document.querySelector(` + strconv.Quote(selector) + `)?.innerText.includes(` + strconv.Quote(text) + `)`)
}

// Press clicks on the button that says something.
func Press(text string) Step {
	return Click(chromedp.Search(`//button[normalize-space(.)="` + text + `"]`))
}

// Click clicks on something, which a live page may replace meanwhile.
func Click[S chromedp.Selectable](what S) Step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		ctx, cancel := context.WithTimeout(ctx, least)
		defer cancel()
		for {
			_, err := chromedp.Click(what)(ctx, target)
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "Could not find node") {
				return err
			}
		}
	})
}

// Key presses a key that has a name, such as Enter, and writes nothing.
func Key(name string, code int64, modifiers ...chromedp.Modifier) Step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
			p := input.DispatchKeyEventParams{Type: kind, Key: name, Code: name, WindowsVirtualKeyCode: code}
			chromedp.KeyModifiers(modifiers...)(&p)
			if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// Type presses keys as somebody does who wants the page to do something.
func Type(keys string) Step {
	steps := make([]Step, 0, len(keys))
	for _, r := range keys {
		steps = append(steps, Key(string(r), int64(strings.ToUpper(string(r))[0])))
	}
	return chromedp.Steps(steps...)
}

// Enter presses Enter in a field where it is no new line.
func Enter() Step { return Key("Enter", 13) }

// Theme lets the system ask for a theme: light or dark.
func Theme(name string) Step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	})
}

// Phone shows the page as a phone of 390 px does.
func Phone() Step {
	return chromedp.EmulateViewport(390, 780, chromedp.EmulateScale(2), chromedp.EmulateMobile)
}

// Desk shows the page as a window of 1280 px does.
func Desk() Step { return chromedp.EmulateViewport(1280, 900) }

// Scripts says whether the scripts of pages run.
func Scripts(run bool) Step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !run})
		return err
	})
}

// Shoot keeps a picture of the whole page in the directory HANDOFF_SHOTS, or with what
// the test leaves behind.
func Shoot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("HANDOFF_SHOTS")
	if dir == "" {
		dir = t.ArtifactDir()
	}
	ctx, cancel := context.WithTimeout(ctx, least/4)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Logf("take a picture: %v", err)
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600); err != nil {
		t.Fatal(err)
	}
}
