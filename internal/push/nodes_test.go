//go:build postgres

package push_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

func init() { atEnd = append(atEnd, postgrestest.Close) }

// join opens a database for one more node.
func join(t *testing.T, dsn string) *node {
	t.Helper()
	s, err := postgres.Open(context.Background(), dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return deliverFrom(t, s, nil)
}

// each checks the events of every task by themselves.
type each struct {
	t     *testing.T
	mu    sync.Mutex
	tasks map[string]*ordered
}

func (e *each) take(g got) {
	task, _, _ := strings.Cut(g.id, "/")
	e.mu.Lock()
	o := e.tasks[task]
	if o == nil {
		o = &ordered{t: e.t}
		e.tasks[task] = o
	}
	e.mu.Unlock()
	o.take(g)
}

func TestNodesDeliverEachEventOnce(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	nodes := []*node{join(t, dsn), join(t, dsn)}
	e := &each{t: t, tasks: map[string]*ordered{}}
	r := receive(t, func(_ http.ResponseWriter, g got) { e.take(g) })
	const tasks, events = 16, 12
	var group sync.WaitGroup
	for i := range tasks {
		row := nodes[0].task(fmt.Sprint("t", i))
		nodes[i%2].hook(row.ID, "h", r.URL)
		group.Go(func() {
			for n := range events {
				nodes[n%2].happen(row, n)
			}
		})
	}
	group.Wait()
	idle(t, nodes[0].store)
	for i := range tasks {
		o := e.tasks[fmt.Sprint("t", i)]
		if o == nil || o.last != events+1 || o.dups != 0 {
			t.Errorf("task %d: %+v", i, o)
		}
	}
}

func TestANodeGoesOnForADeadOne(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	dying, living := join(t, dsn), join(t, dsn)
	o := &ordered{t: t}
	begun, stuck := make(chan struct{}), make(chan struct{})
	var first sync.Once
	r := receive(t, func(_ http.ResponseWriter, g got) {
		o.take(g)
		if g.id == "t/3" {
			first.Do(func() {
				close(begun)
				<-stuck
			})
		}
	})
	row := dying.task("t")
	dying.hook("t", "h", r.URL)
	living.jobs.Stop() // so that the other one gets it
	dying.happen(row, 1, 2, 3)
	<-begun
	dying.store.kill()
	close(stuck)
	dying.stop()
	living = deliverFrom(t, living.store.Store, nil)
	living.happen(row, 4)
	idle(t, living.store)
	if o.last != 5 || o.dups != 1 {
		t.Errorf("the last event was %d, %d came twice", o.last, o.dups)
	}
	if h, err := living.store.Webhook(t.Context(), store.ForAll(), "t", "h"); err != nil || h.Seq != 5 {
		t.Errorf("the webhook is %+v, %v", h, err)
	}
}
