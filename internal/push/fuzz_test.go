package push_test

import (
	"testing"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
)

// fuzzed returns a service that only looks at configurations.
func fuzzed(t *testing.T) *push.Service {
	t.Helper()
	sealer, err := auth.NewSealer(key)
	if err != nil {
		t.Fatal(err)
	}
	return push.New(push.Options{Scope: store.ForAll(), Guard: netguard.New(netguard.Policy{}), Sealer: sealer})
}
