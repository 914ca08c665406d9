package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	root, err := checkout(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := programs{
		handoff: filepath.Join(dir, "handoff"+exe), agent: filepath.Join(dir, "delivery-agent"+exe),
		config: filepath.Join(root, "examples", "delivery", "handoff.yaml"),
	}
	var text strings.Builder
	out := newScreen(&text)
	if err := build(t.Context(), out, root, p); err != nil {
		t.Fatal(err)
	}
	if err := tell(ctx, out, p, false); err != nil {
		t.Fatalf("%v\n%s", err, &text)
	}
	t.Log(text.String())
	for _, want := range []string{question, fatal, "kill -9", "The dock is reserved already; confirming it", "COMPLETED", "one booking"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the story does not say %q", want)
		}
	}
}
