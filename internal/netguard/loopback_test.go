package netguard_test

import (
	"testing"

	"handoff.example/handoff/internal/netguard"
)

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost.": true, "a.localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "[::1]": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example": false, "127.0.0.1.example": false, "10.0.0.1": false, "0.0.0.0": false, "::": false, "evil-localhost": false,
	} {
		if got := netguard.IsLoopback(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}
