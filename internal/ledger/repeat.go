package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// repeated looks at what a peer that is said to deduplicate has made of a message
// that it may have got twice, and tells the catalog of peers where that can be
// seen. Hints are the tasks that it had pushed of before the message went out
// again. Of two tasks, the one that it has not answered with is told to cancel.
func (w *work) repeated(ctx context.Context, hints []string) error {
	if w.d.RemoteTask == "" {
		return nil // it has answered with a message
	}
	ctx, cancel := context.WithTimeout(ctx, w.link.Answer)
	defer cancel()
	others, twice := w.copies(ctx, hints)
	switch {
	case len(others) > 0 || twice:
		w.deduplicates(false)
	case slices.Contains(hints, w.d.RemoteTask):
		w.deduplicates(true)
		return nil
	default:
		return nil // the first one may not have arrived
	}
	text := "The peer " + w.d.Peer + " is said to take a message that it gets twice for one, and has taken this one for two"
	for _, id := range others {
		if _, err := w.link.Client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: id}); err != nil && a2a.CodeOf(err) != a2a.CodeTaskNotCancelable {
			text += fmt.Sprintf("; its task %s, which nobody needs, could not be canceled (%s)", id, w.redactor().explain(err))
			continue
		}
		text += fmt.Sprintf("; its task %s, which nobody needs, was told to cancel", id)
	}
	if err := w.emit(agent.Step{Working: agent.Say(text + ". No message is sent twice to it any more.")}); err != nil {
		return err
	}
	return nil
}

// deduplicates tells the catalog of peers whether the peer does.
func (w *work) deduplicates(yes bool) {
	w.l.opts.Peers.Observe(context.Background(), w.d.Peer, Observation{Interface: w.d.Interface, Deduplicates: &yes})
}

// copies returns the tasks of the peer that have the message under way, besides the
// one that it has answered with, and whether one of them all has it twice.
func (w *work) copies(ctx context.Context, hints []string) (others []string, twice bool) {
	see := func(t *a2a.Task) {
		n := 0
		for i := range t.History {
			if holds(&a2a.Task{History: t.History[i : i+1]}, w.d.Message) {
				n++
			}
		}
		twice = twice || n > 1
		if n > 0 && t.ID != "" && len(t.ID) <= a2a.MaxIDLength && t.ID != w.d.RemoteTask && !slices.Contains(others, t.ID) {
			others = append(others, strings.Clone(t.ID))
		}
	}
	for _, id := range append(hints, w.d.RemoteTask) {
		if t, err := getWithHistory(ctx, w.link.Client, id); err == nil && t.ID == id {
			see(t)
		}
	}
	anywhere := *w.d
	anywhere.RemoteContext = "" // the other one may be in a context of its own
	_, _ = eachListed(ctx, w.link.Client, &anywhere, func(t *a2a.Task) bool { see(t); return false })
	return others, twice
}
