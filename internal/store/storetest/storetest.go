// Package storetest is the one suite that every driver of the store passes. It
// tests what callers see, and nothing of how a driver does it. Dying is for the tests of
// whoever has to outlive the death of its process.
package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// Exercise runs the suite. Open returns an empty store, and sees to it that it
// is closed when the test is over. The subtests run in parallel.
func Exercise(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, store.Store){
		"Insert":               testInsert,
		"InsertTwice":          testInsertTwice,
		"InsertWithoutStatus":  testInsertWithoutStatus,
		"Set":                  testSet,
		"Guards":               testGuards,
		"GuardWritesNothing":   testGuardWritesNothing,
		"UnknownTask":          testUnknownTask,
		"Isolation":            testIsolation,
		"Sequence":             testSequence,
		"Stamps":               testStamps,
		"TerminalOnce":         testTerminalOnce,
		"CanceledContext":      testCanceledContext,
		"Scopes":               testScopes,
		"Tasks":                testTasks,
		"History":              testHistory,
		"ReadAsItWas":          testReadAsItWas,
		"ReadWhileWriting":     testReadWhileWriting,
		"Events":               testEvents,
		"Marks":                testMarks,
		"Messages":             testMessages,
		"LargeBodies":          testLargeBodies,
		"Unicode":              testUnicode,
		"ManyChunks":           testManyChunks,
		"ManyTurns":            testManyTurns,
		"ListOrder":            testListOrder,
		"ListFilters":          testListFilters,
		"ListAfter":            testListAfter,
		"ListScopes":           testListScopes,
		"ListManyOwners":       testListManyOwners,
		"ListWant":             testListWant,
		"ListEmpty":            testListEmpty,
		"BadCursors":           testBadCursors,
		"PagesWhileChanging":   testPagesWhileChanging,
		"PagesUnderLoad":       testPagesUnderLoad,
		"Stats":                testStats,
		"Scan":                 testScan,
		"ScanTimes":            testScanTimes,
		"ScanManyOwners":       testScanManyOwners,
		"Counts":               testCounts,
		"AllWebhooks":          testAllWebhooks,
		"Claim":                testClaim,
		"ClaimTakeover":        testClaimTakeover,
		"ClaimOnce":            testClaimOnce,
		"Settle":               testSettle,
		"Private":              testPrivate,
		"Results":              testResults,
		"Grants":               testGrants,
		"GrantDecidedOnce":     testGrantDecidedOnce,
		"Jobs":                 testJobs,
		"JobReplaced":          testJobReplaced,
		"JobsClaimedOnce":      testJobsClaimedOnce,
		"Webhooks":             testWebhooks,
		"WebhookWakes":         testWebhookWakes,
		"WebhookReplaced":      testWebhookReplaced,
		"WebhookLimit":         testWebhookLimit,
		"WebhookDead":          testWebhookDead,
		"WebhookGone":          testWebhookGone,
		"WebhookFences":        testWebhookFences,
		"WebhookLosesNothing":  testWebhookLosesNothing,
		"Seals":                testSeals,
		"Nodes":                testNodes,
		"NodesSay":             testNodesSay,
		"Cluster":              testCluster,
		"Orphans":              testOrphans,
		"Released":             testReleased,
		"Delete":               testDelete,
		"Expire":               testExpire,
		"ExpireManyInPortions": testExpireManyInPortions,
		"APIKeys":              testAPIKeys,
		"Audit":                testAudit,
		"AuditAtOnce":          testAuditAtOnce,
		"AuditInOrder":         testAuditInOrder,
		"Load":                 testLoad,
		"Delegation":           testDelegation,
		"DelegationPages":      testDelegationPages,
		"DelegationRefs":       testDelegationRefs,
		"Children":             testChildren,
		"Peers":                testPeers,
		"Docs":                 testDocs,
		"DocsPutOnce":          testDocsPutOnce,
		"Counters":             testCounters,
		"Inbox":                testInbox,
		"InboxUpdate":          testInboxUpdate,
		"InboxPages":           testInboxPages,
		"InboxSettles":         testInboxSettles,
		"InboxSettledOnce":     testInboxSettledOnce,
		"Backup":               testBackup,
		"Ping":                 testPing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// The caller and the agent of most tests.
var (
	ann  = store.ForOwner("acme", "ann")
	node = store.ForAll()
)

const echo = "echo"

// stamp is where a status body has its time.
const stampPrefix = `{"timestamp":"`

// status returns a status event whose body has the time at a known place.
func status(text string) store.Event {
	body := stampPrefix + "0000-00-00T00:00:00.000Z" + `","text":"` + text + `"}`
	return store.Event{Kind: store.KindStatus, Body: []byte(body), Stamp: len(stampPrefix)}
}

// saying returns a status event that carries a message.
func saying(text string) store.Event {
	e := status(text)
	e.Says = true
	return e
}

func artifact(text string) store.Event {
	return store.Event{Kind: store.KindArtifact, Body: []byte(`{"artifact":"` + text + `"}`)}
}

func message(text string) store.Event {
	return store.Event{Kind: store.KindMessage, Body: []byte(`{"message":"` + text + `"}`)}
}

// task returns the row of a new task of ann.
func task(id string, state a2a.TaskState) *store.Task {
	return &store.Task{
		ID: id, Tenant: "acme", Owner: "ann", Agent: echo, Context: "context-of-" + id,
		State: state, Turn: 1, Attempt: 1, Created: time.UnixMilli(1_700_000_000_000).UTC(),
	}
}

// commit commits a change that has to succeed.
func commit(t *testing.T, s store.Store, c *store.Change) *store.Change {
	t.Helper()
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatalf("commit: %v", err)
	}
	return c
}

// insert makes a task with those events, and a status when there are none.
func insert(t *testing.T, s store.Store, row *store.Task, events ...store.Event) *store.Task {
	t.Helper()
	if len(events) == 0 {
		events = []store.Event{status(row.State.String())}
	}
	commit(t, s, &store.Change{Insert: row, Events: events})
	return row
}

// move gives a task a state, with the status event that says so.
func move(t *testing.T, s store.Store, key int64, state a2a.TaskState) *store.Change {
	t.Helper()
	return commit(t, s, &store.Change{
		Task: key, Set: store.Set{State: &state}, Events: []store.Event{status(state.String())},
	})
}

// read reads a task that has to be there.
func read(t *testing.T, s store.Store, id string, want store.Want) *store.Item {
	t.Helper()
	item, err := s.Read(t.Context(), node, id, want)
	if err != nil {
		t.Fatalf("read %s: %v", id, err)
	}
	return item
}

// wantError fails the test unless the error is that one.
func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

// at once runs n functions at the same time and waits for them.
func atOnce(n int, do func(i int)) {
	var start, end sync.WaitGroup
	start.Add(1)
	for i := range n {
		end.Go(func() {
			start.Wait()
			do(i)
		})
	}
	start.Done()
	end.Wait()
}

func name(prefix string, i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }

func bodies(events []store.Event) []string {
	out := []string{}
	for _, e := range events {
		out = append(out, string(e.Body))
	}
	return out
}

func ptr[T any](v T) *T { return &v }
