// Package storetest is the one suite that every driver of the store passes. It
// tests what callers see, and nothing of how a driver does it.
package storetest

import (
	"testing"

	"handoff.example/handoff/internal/store"
)

// Exercise runs the suite. Open returns an empty store, and sees to it that it
// is closed when the test is over. The subtests run in parallel.
func Exercise(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, store.Store){
		"Insert": testInsert,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}
