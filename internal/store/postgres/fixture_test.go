//go:build postgres

package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// each runs n pieces of work on so many goroutines.
func each(n, goroutines int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				do(i)
			}
		})
	}
	wg.Wait()
}

// statusBody is a status update of the length that A2A makes of it.
func statusBody(state a2a.TaskState) store.Event {
	const head = `{"statusUpdate":{"taskId":"0192f0c8-7e1b-7c53-8f0a-5d2c1a7b9e01","contextId":"0192f0c8-7e1b-7c53-8f0a-5d2c1a7b9e02","status":{"timestamp":"`
	return store.Event{
		Kind: store.KindStatus, Stamp: len(head),
		Body: []byte(head + `0000-00-00T00:00:00.000Z","state":"` + state.String() + `"}}}`),
	}
}

func artifactBody(text string) store.Event {
	return store.Event{Kind: store.KindArtifact, Body: []byte(`{"artifactUpdate":{"taskId":"0192f0c8-7e1b-7c53-8f0a-5d2c1a7b9e01","contextId":"0192f0c8-7e1b-7c53-8f0a-5d2c1a7b9e02","artifact":{"artifactId":"a1","parts":[{"text":"` + text + `"}]}}}`)}
}

// working is a new task in work.
func working(id string) *store.Change {
	return &store.Change{
		Insert: &store.Task{ID: id, Owner: "ann", Agent: "echo", Context: "context-of-" + id, State: a2a.StateWorking, Turn: 1, Attempt: 1},
		Events: []store.Event{statusBody(a2a.StateWorking)},
	}
}

// fourEvents is the change that a task of four events is committed in.
func fourEvents(i int) *store.Change {
	return &store.Change{
		Insert: &store.Task{
			ID: fmt.Sprintf("0192f0c8-7e1b-7c53-8f0a-%012x", i), Tenant: "", Owner: "ann", Agent: "echo",
			Context: fmt.Sprintf("0192f0c8-7e1b-7c53-8f0b-%012x", i), State: a2a.StateCompleted, Turn: 1, Attempt: 1, Read: 1,
			Created: time.Now(), Expires: time.Now().Add(24 * time.Hour), Meta: []byte(`{"caller":{"subject":"ann"}}`),
		},
		Events: []store.Event{
			{Kind: store.KindMessage, Body: []byte(`{"messageId":"0192f0c8-7e1b-7c53-8f0a-5d2c1a7b9e03","role":"ROLE_USER","parts":[{"text":"hello"}]}`)},
			statusBody(a2a.StateSubmitted), statusBody(a2a.StateWorking), artifactBody("hello"), statusBody(a2a.StateCompleted),
		},
	}
}

func ptr[T any](v T) *T { return &v }
