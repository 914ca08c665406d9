package bridge_test

import "testing"

// stores are those that a test runs on, by name.
var stores = map[string]func(*testing.T) opener{"sqlite": sqliteStore}

func eachStore(t *testing.T, f func(t *testing.T, open func(*testing.T) opener)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, open)
		})
	}
}
