//go:build postgres

package postgres_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/postgres/postgrestest"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/store/transfer"
)

const parallel = 32

// durable is the server of the benchmarks, which unlike that of the tests
// writes to the disk before it answers.
var durable = sync.OnceValues(func() (*postgrestest.Server, error) { return postgrestest.New(true) })

// benchDSN returns the address of an empty schema.
func benchDSN(b *testing.B) string {
	b.Helper()
	if shared == nil {
		return withSchema(sharedDSN, newSchema(b))
	}
	s, err := durable()
	if err != nil {
		b.Fatal(err)
	}
	return withSchema(s.DSN(), newSchema(b))
}

// BenchmarkCommitTask commits whole tasks from 32 goroutines, over one node and
// over several with one database.
func BenchmarkCommitTask(b *testing.B) {
	for _, nodes := range []int{1, 2, 3} {
		for _, committers := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("nodes=%d/committers=%d", nodes, committers), func(b *testing.B) {
				var batches, changes atomic.Int64
				dsn := benchDSN(b)
				stores := make([]*postgres.Store, nodes)
				for i := range stores {
					stores[i] = openAt(b, dsn, postgres.Options{Committers: committers, Observe: func(n int, _ time.Duration) {
						batches.Add(1)
						changes.Add(int64(n))
					}})
				}
				b.ReportAllocs()
				b.ResetTimer()
				each(b.N, parallel, func(i int) {
					if err := stores[i%nodes].Commit(b.Context(), fourEvents(i)); err != nil {
						b.Error(err)
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
				b.ReportMetric(float64(changes.Load())/float64(batches.Load()), "tasks/commit")
			})
		}
	}
}

// BenchmarkCommitClaimed commits tasks with their claims, as those of
// authenticated callers are: the claim first, and then the task that settles it.
func BenchmarkCommitClaimed(b *testing.B) {
	s := openAt(b, benchDSN(b), postgres.Options{})
	epoch, err := s.Join(b.Context(), store.Node{Name: "n"}, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	each(b.N, parallel, func(i int) {
		c := fourEvents(i)
		claim := &store.Claim{Owner: "ann", Agent: "echo", Key: c.Insert.Context, Hash: make([]byte, 32), Lease: epoch, Expires: time.Now().Add(time.Hour)}
		if err := s.Commit(b.Context(), &store.Change{Claim: claim}); err != nil {
			b.Error(err)
		}
		settled := *claim
		settled.Task = c.Insert.ID
		c.Settle = &settled
		if err := s.Commit(b.Context(), c); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkCommitChunk commits chunks of 40 bytes to 32 tasks at once.
func BenchmarkCommitChunk(b *testing.B) {
	s := openAt(b, benchDSN(b), postgres.Options{})
	var keys [parallel]int64
	for i := range keys {
		c := fourEvents(i)
		c.Insert.State, c.Insert.Lease = a2a.StateWorking, 1
		if err := s.Commit(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		keys[i] = c.Insert.Key
	}
	b.ReportAllocs()
	b.ResetTimer()
	each(b.N, parallel, func(i int) {
		c := &store.Change{
			Task: keys[i%parallel], Guard: store.Guard{Lease: ptr(int64(1)), Turn: 1, Attempt: 1}, Set: store.Set{Done: ptr(1)},
			Events: []store.Event{artifactBody("0123456789012345678901234567890123456789")},
		}
		if err := s.Commit(b.Context(), c); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
}

// fill commits n tasks of one owner, in large groups.
func fill(tb testing.TB, s store.Store, n int) {
	tb.Helper()
	each(n, 512, func(i int) {
		c := fourEvents(i)
		switch i % 16 {
		case 0:
			c.Insert.State = a2a.StateWorking
		case 1:
			c.Insert.State = a2a.StateInputRequired
		}
		if i%8 == 0 {
			c.Insert.Context = "shared"
		}
		if err := s.Commit(tb.Context(), c); err != nil {
			tb.Error(err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	s := openAt(b, benchDSN(b), postgres.Options{})
	const tasks = 10_000
	fill(b, s, tasks)
	scope := store.ForOwner("", "ann")
	for name, want := range map[string]store.Want{"row": {}, "all": {Messages: 10, Artifacts: true}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			each(b.N, 2, func(i int) {
				if _, err := s.Read(b.Context(), scope, fourEvents(i*7919%tasks).Insert.ID, want); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// BenchmarkReadLong reads the newest message of tasks with few and with many.
func BenchmarkReadLong(b *testing.B) {
	for _, turns := range []int{2, 2000} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			s := openAt(b, benchDSN(b), postgres.Options{})
			c := fourEvents(0)
			if err := s.Commit(b.Context(), c); err != nil {
				b.Fatal(err)
			}
			each(turns, 64, func(int) {
				if err := s.Commit(b.Context(), &store.Change{Task: c.Insert.Key, Events: []store.Event{
					{Kind: store.KindMessage, Body: bytes.Repeat([]byte("m"), 500)}, statusBody(a2a.StateWorking),
				}}); err != nil {
					b.Error(err)
				}
			})
			b.ReportAllocs()
			for b.Loop() {
				item, err := s.Read(b.Context(), store.ForAll(), c.Insert.ID, store.Want{Messages: 1})
				if err != nil || len(item.Messages) != 1 {
					b.Fatal(item, err)
				}
			}
		})
	}
}

// BenchmarkReadChunks reads an artifact of 10,000 chunks.
func BenchmarkReadChunks(b *testing.B) {
	const chunks = 10_000
	s := openAt(b, benchDSN(b), postgres.Options{})
	c := fourEvents(0)
	c.Events = c.Events[:3]
	if err := s.Commit(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	each(chunks, 256, func(int) {
		if err := s.Commit(b.Context(), &store.Change{Task: c.Insert.Key, Events: []store.Event{artifactBody("0123456789012345678901234567890123456789")}}); err != nil {
			b.Error(err)
		}
	})
	b.ReportAllocs()
	for b.Loop() {
		item, err := s.Read(b.Context(), store.ForAll(), c.Insert.ID, store.Want{Artifacts: true})
		if err != nil || len(item.Artifacts) != chunks {
			b.Fatal(len(item.Artifacts), err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	for _, tasks := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(tasks), func(b *testing.B) {
			s := openAt(b, benchDSN(b), postgres.Options{})
			fill(b, s, tasks)
			middle, err := s.Task(b.Context(), store.ForAll(), fourEvents(tasks/2).Insert.ID)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.Expire(b.Context(), 1); err != nil { // folds the totals
				b.Fatal(err)
			}
			for _, list := range []struct {
				name  string
				scope store.Scope
				query store.ListQuery
			}{
				{"all", store.ForOwner("", "ann"), store.ListQuery{Agent: "echo"}},
				{"state", store.ForOwner("", "ann"), store.ListQuery{Agent: "echo", State: a2a.StateInputRequired}},
				{"context", store.ForOwner("", "ann"), store.ListQuery{Agent: "echo", Context: "shared"}},
				{"after", store.ForOwner("", "ann"), store.ListQuery{Agent: "echo", After: middle.StatusAt}},
				{"operator", store.ForAll(), store.ListQuery{}},
			} {
				b.Run(list.name, func(b *testing.B) {
					list.query.PageSize = 50
					b.ReportAllocs()
					for b.Loop() {
						page, err := s.List(b.Context(), list.scope, list.query)
						if err != nil || len(page.Items) != 50 || page.Next == "" {
							b.Fatal(page, err)
						}
					}
				})
			}
		})
	}
}

// BenchmarkTransfer moves 100,000 tasks of four events, with their claims, from
// a file to a database.
func BenchmarkTransfer(b *testing.B) {
	const tasks = 100_000
	file := filepath.Join(b.TempDir(), "from.db")
	s, err := sqlite.Open(b.Context(), file, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	each(tasks, 256, func(i int) {
		c := fourEvents(i)
		c.Claim = &store.Claim{Owner: "ann", Agent: "echo", Key: fmt.Sprint(i), Hash: make([]byte, 32), Task: c.Insert.ID, Expires: time.Now().Add(time.Hour)}
		if err := s.Commit(b.Context(), c); err != nil {
			b.Error(err)
		}
	})
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	server, err := durable()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := transfer.Move(b.Context(), "sqlite:"+file, withSchema(server.URL(), newSchema(b)), transfer.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(tasks*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
