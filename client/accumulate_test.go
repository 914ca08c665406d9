package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

func chunk(artifact, text string, isAppend, last bool) *a2a.StreamResponse {
	return &a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
		TaskID: "t", ContextID: "c", Append: isAppend, LastChunk: last,
		Artifact: a2a.Artifact{ArtifactID: artifact, Parts: []a2a.Part{a2a.Text(text)}},
	}}
}

// Chunks become artifacts: the first one may say append, one without it replaces
// what was there, also behind the last chunk, and artifacts may take turns.
func TestAccumulatorPutsArtifactsTogether(t *testing.T) {
	t.Parallel()
	var a client.Accumulator
	for _, e := range []*a2a.StreamResponse{
		chunk("x", "A", true, false), chunk("y", "1", false, false), chunk("x", "B", true, true), chunk("y", "2", true, false),
		chunk("y", "3", false, true), chunk("y", "4", true, true), chunk("z", "", false, false),
	} {
		if err := a.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	for _, artifact := range a.Task.Artifacts {
		for _, p := range artifact.Parts {
			got[artifact.ArtifactID] += p.Text
		}
	}
	if d := cmp.Diff(map[string]string{"x": "AB", "y": "34", "z": ""}, got); d != "" {
		t.Error(d)
	}
}

// Row S13: a task that grows without end is an error, and what was there stays.
func TestAccumulatorIsBounded(t *testing.T) {
	t.Parallel()
	status := &a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{Status: a2a.TaskStatus{Message: &a2a.Message{Parts: []a2a.Part{a2a.Text("thinking")}}}}}
	for name, next := range map[string]func(i int) *a2a.StreamResponse{
		"chunks":      func(int) *a2a.StreamResponse { return chunk("a", strings.Repeat("x", 100), true, false) },
		"empty parts": func(int) *a2a.StreamResponse { return chunk("a", "", true, false) },
		"artifacts":   func(i int) *a2a.StreamResponse { return chunk(fmt.Sprint(i), "x", false, false) },
		"history":     func(int) *a2a.StreamResponse { return status },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := client.Accumulator{MaxBytes: 1 << 20}
			for i := range 100_000 {
				if err := a.Add(next(i)); err != nil {
					if !errors.Is(err, client.ErrTooLarge) || i < 1000 {
						t.Errorf("after %d events: %v", i, err)
					}
					return
				}
			}
			t.Error("there is no end")
		})
	}
	a := client.Accumulator{MaxBytes: -1}
	for i := range 10_000 {
		if err := a.Add(chunk(fmt.Sprint(i), "x", false, false)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Add(chunk("one more", "x", false, false)); !errors.Is(err, client.ErrTooLarge) || len(a.Task.Artifacts) != 10_000 {
		t.Errorf("got %v", err)
	}
	if err := a.Add(chunk("17", "more", true, false)); err != nil {
		t.Error(err)
	}
	// What replaces something does not add to it.
	a = client.Accumulator{MaxBytes: 10_000}
	for range 1000 {
		if err := a.Add(chunk("a", strings.Repeat("x", 5000), false, false)); err != nil {
			t.Fatal(err)
		}
	}
}
