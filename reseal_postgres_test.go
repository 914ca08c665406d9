//go:build postgres

package handoff_test

import (
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

func TestRotateTheSecretKeyInPostgres(t *testing.T) {
	t.Parallel()
	rotates(t, aSchema(t))
}

// Nodes of one database get the new key one after another, and are never unable
// to open what others seal.
func TestRotateTheSecretKeyOfTwoNodes(t *testing.T) {
	t.Parallel()
	address := aSchema(t)
	url, got := takeTokens(t)
	both := keyed(address, firstKey, secondKey)
	one, two := sealIn(t, t.TempDir(), both), sealIn(t, t.TempDir(), both)
	before := one.ask(t, url, "before", got)
	one.stop()

	// The first node has the new key, and waits for the second.
	next := keyed(address, secondKey, firstKey)
	one = sealIn(t, t.TempDir(), next)
	one.log.await(t, "is sealed again when all nodes have the same secret_key")
	there, here := one.ask(t, url, "there", got), two.ask(t, url, "here", got)
	two.stop()
	two = sealIn(t, t.TempDir(), next)
	one.log.await(t, spare)
	two.log.await(t, spare)
	one.stop()
	two.stop()

	one = sealIn(t, t.TempDir(), keyed(address, secondKey))
	c := dial(t, one.server.URL+"/agents/echo/", client.Options{})
	for token, of := range map[string]*a2a.Task{"before": before, "there": there, "here": here} {
		send(t, c, client.FollowUp(of, a2a.Text("go on")))
		wantTokens(t, got, token, 3)
	}
}
