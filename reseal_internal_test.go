package handoff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

var errKilled = errors.New("killed")

// killed is a store whose process ends after the first portion was sealed again.
type killed struct{ store.Store }

func (k killed) Reseal(ctx context.Context, values []store.Sealed) error {
	return errors.Join(k.Store.Reseal(ctx, values), errKilled)
}

// A node that ends while it seals again leaves values of both keys, and the next
// one goes on.
func TestResealGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	open := func(keys string) *Node {
		file := filepath.Join(folder, "handoff.yaml")
		if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := LoadConfig(file)
		if err != nil {
			t.Fatal(err)
		}
		n, err := New(c, Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	end := func(n *Node) {
		if err := n.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
	const first, second = "the-first-key-that-is-long-enough-for-it", "the-second-key-that-is-long-enough-for-it"
	n := open("secret_key: " + first)
	plain := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, resealBytes/2+1) }
	const values = 5
	for i := range values {
		sealed, err := n.seals.sealer.Seal(plain(i))
		if err != nil {
			t.Fatal(err)
		}
		row := &store.Task{ID: fmt.Sprint(i), Agent: "a", Context: "c", State: a2a.StateAuthRequired}
		event := store.Event{Kind: store.KindStatus, Body: []byte(`{}`)}
		id := fmt.Sprint("grant", i)
		if err := errors.Join(
			n.store.Commit(t.Context(), &store.Change{Insert: row, Events: []store.Event{event}, Grant: &store.Grant{ID: id, Task: row.ID, Turn: 1}}),
			n.store.Commit(t.Context(), &store.Change{Decide: &store.Grant{ID: id, Approved: true, Data: sealed}}),
		); err != nil {
			t.Fatal(err)
		}
	}
	end(n)

	rotating := "secret_key: " + second + "\nold_secret_keys: [" + first + "]"
	n = open(rotating)
	kept := n.store
	n.store = killed{kept}
	if _, err := n.seals.pass(t.Context()); !errors.Is(err, errKilled) {
		t.Fatalf("the node was not killed: %v", err)
	}
	n.store = kept
	if s, err := n.seals.count(t.Context()); err != nil || s.Old == 0 || s.Old == values || s.Spare {
		t.Fatalf("after the kill: %+v, %v", s, err)
	}
	end(n)

	n = open(rotating)
	if s, err := n.seals.pass(t.Context()); err != nil || !s.Spare || s.Old+s.Unknown != 0 {
		t.Fatalf("after the next start: %+v, %v", s, err)
	}
	end(n)

	n = open("secret_key: " + second)
	for i := range values {
		g, err := n.store.Grant(t.Context(), store.ForAll(), fmt.Sprint("grant", i))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := n.seals.sealer.Open(g.Data); err != nil || !bytes.Equal(got, plain(i)) {
			t.Errorf("grant %d is another one: %v", i, err)
		}
	}
	end(n)
}
