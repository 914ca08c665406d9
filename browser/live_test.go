//go:build browser

package browser_test

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	. "handoff.example/handoff/internal/browsertest"
)

// A page shows by itself how a task goes on, without being loaded again and without
// taking away what somebody has opened; paused, it stays as it is.
func TestLive(t *testing.T) {
	t.Parallel()
	steps := make(chan string)
	t.Cleanup(func() { close(steps) })
	card := handoff.NewCard("Slow agent", "Says what it is told to.", "1.0.0", handoff.Skill{ID: "slow", Name: "Slow", Description: "Slow", Tags: []string{"slow"}})
	s, link := house(t, "", map[string]handoff.Card{"slow": card, "asking": card}, map[string]func(context.Context, *handoff.Turn) error{
		"asking": func(_ context.Context, turn *handoff.Turn) error { return turn.Ask("Which Incoterm?", nil) },
		"slow": func(ctx context.Context, turn *handoff.Turn) error {
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case text := <-steps:
					if text == "" || text == "end" {
						return turn.Complete("That was all.")
					}
					if err := turn.Working(text); err != nil {
						return err
					}
					if err := turn.Artifact(a2a.Text("artifact of " + text)); err != nil {
						return err
					}
					if err := turn.Flush(); err != nil {
						return err
					}
				}
			}
		},
	})
	ctx := Browse(t)
	// The list of tasks shows one that begins.
	Do(t, ctx, chromedp.Navigate(link), At("/console/"), s.open("tasks"), Says("#tasks", "There are no tasks yet"), Says("#live", "Live"))
	task := s.send("slow", "", a2a.Text("Go on, please"))
	Do(t, ctx, Says("#tasks", "slow"), s.open("tasks/"+task.ID), Says("#head", "Working"), Says("#live", "Live"))
	// The number beside the inbox is live, also where the page itself is of another task.
	asked := s.send("asking", "", a2a.Text("Ask"))
	Do(t, ctx, Says("#inbox-count", "1"))
	s.api("POST", "/tasks/"+asked.ID+":cancel", nil, nil)
	Do(t, ctx, Until(`document.getElementById("inbox-count").hidden`))
	Value[bool](t, ctx, `(() => { window.loaded = "once"; document.querySelector("#timeline details").open = true; return true; })()`)
	steps <- "step one"
	Do(t, ctx, Says("#artifacts", "artifact of step one"), Says("#head", "step one"))
	Shoot(t, ctx, "live-1")
	steps <- "step two"
	Do(t, ctx, Says("#artifacts", "artifact of step two"))
	Shoot(t, ctx, "live-2")
	if !Value[bool](t, ctx, `window.loaded === "once" && document.querySelector("#timeline details").open`) {
		t.Error("the page was loaded again, or what was opened is closed")
	}
	// Paused by the keyboard, it stays as it is, though the task ends.
	Do(t, ctx, Type("p"), Says("#live", "Paused"))
	steps <- "step three"
	steps <- "end"
	s.settle(task.ID, "TASK_STATE_COMPLETED")
	if !Value[bool](t, ctx, `fetch(location.href).then((r) => r.text()).then((text) => text.includes("artifact of step three") && !document.body.innerText.includes("artifact of step three"))`) {
		t.Error("the page goes on although it is paused, or the node has nothing new")
	}
	Shoot(t, ctx, "live-paused")
	Do(t, ctx, Press("Paused"), Says("#live", "Live"), Says("#head", "Completed"), Says("#artifacts", "artifact of step three"))
	if !Value[bool](t, ctx, `window.loaded === "once"`) {
		t.Error("the page was loaded again")
	}
}
