package sqlite_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

const parallel = 32

func openBench(b *testing.B, opts sqlite.Options) *sqlite.Store {
	b.Helper()
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "handoff.db"), opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

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

// BenchmarkCommitTask commits whole tasks from 32 goroutines. Compare it with
// BenchmarkRawInserts of the same minute.
func BenchmarkCommitTask(b *testing.B) {
	var batches, changes atomic.Int64
	s := openBench(b, sqlite.Options{Observe: func(n int, _ time.Duration) {
		batches.Add(1)
		changes.Add(int64(n))
	}})
	b.ReportAllocs()
	b.ResetTimer()
	each(b.N, parallel, func(i int) {
		if err := s.Commit(b.Context(), fourEvents(i)); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(changes.Load())/float64(batches.Load()), "tasks/commit")
}

// BenchmarkRawInserts is what BenchmarkCommitTask is measured against: two bare
// inserts for each task, grouped in the same way, and nothing else.
func BenchmarkRawInserts(b *testing.B) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "raw.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=wal_autocheckpoint(4000)&_pragma=cache_size(-32768)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE tasks (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, state INTEGER, meta BLOB); CREATE TABLE events (id INTEGER PRIMARY KEY, body BLOB)"); err != nil {
		b.Fatal(err)
	}
	conn, err := db.Conn(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	prepare := func(query string) *sql.Stmt {
		stmt, err := conn.PrepareContext(b.Context(), query)
		if err != nil {
			b.Fatal(err)
		}
		return stmt
	}
	task, events := prepare("INSERT INTO tasks VALUES (?,?,?,?)"), prepare("INSERT INTO events VALUES (?,?)")
	begin, commit := prepare("BEGIN IMMEDIATE"), prepare("COMMIT")
	type job struct {
		i    int
		done chan struct{}
	}
	queue := make(chan job, 256)
	exec := func(stmt *sql.Stmt, args ...any) {
		if _, err := stmt.Exec(args...); err != nil {
			b.Error(err)
		}
	}
	go func() {
		var batch []job
		for first := range queue {
			batch = append(batch[:0], first)
			for seen, more := 0, true; more; {
				select {
				case j, ok := <-queue:
					if more = ok; ok {
						batch = append(batch, j)
					}
				default:
					more = seen != len(batch)
					seen = len(batch)
					runtime.Gosched()
				}
			}
			exec(begin)
			for _, j := range batch {
				c := fourEvents(j.i)
				var body []byte
				for _, e := range c.Events {
					body = append(body, e.Body...)
				}
				exec(task, j.i, c.Insert.ID, 3, c.Insert.Meta)
				exec(events, j.i, body)
			}
			exec(commit)
			for _, j := range batch {
				j.done <- struct{}{}
			}
		}
	}()
	b.ReportAllocs()
	b.ResetTimer()
	each(b.N, parallel, func(i int) {
		done := make(chan struct{}, 1)
		queue <- job{i, done}
		<-done
	})
	close(queue)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkCommitClaimed commits tasks with their claims, as those of
// authenticated callers are: the claim first, and then the task that settles it.
func BenchmarkCommitClaimed(b *testing.B) {
	s := openBench(b, sqlite.Options{})
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
	s := openBench(b, sqlite.Options{})
	var keys [parallel]int64
	for i := range keys {
		c := fourEvents(i)
		c.Insert.State, c.Insert.Lease = a2a.StateWorking, 1
		if err := s.Commit(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		keys[i] = c.Insert.Key
	}
	lease, done := int64(1), 1
	b.ReportAllocs()
	b.ResetTimer()
	each(b.N, parallel, func(i int) {
		c := &store.Change{
			Task: keys[i%parallel], Guard: store.Guard{Lease: &lease, Turn: 1, Attempt: 1}, Set: store.Set{Done: &done},
			Events: []store.Event{artifactBody("0123456789012345678901234567890123456789")},
		}
		if err := s.Commit(b.Context(), c); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
}

// fill commits n tasks of one owner, in large groups.
func fill(b *testing.B, s *sqlite.Store, n int) {
	b.Helper()
	each(n, 256, func(i int) {
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
		if err := s.Commit(b.Context(), c); err != nil {
			b.Error(err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	s := openBench(b, sqlite.Options{})
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
			s := openBench(b, sqlite.Options{})
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
	s := openBench(b, sqlite.Options{})
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
			s := openBench(b, sqlite.Options{})
			fill(b, s, tasks)
			middle, err := s.Task(b.Context(), store.ForAll(), fourEvents(tasks/2).Insert.ID)
			if err != nil {
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
						list.query.Cursor = page.Next // as far as it goes
						if page.Total < 200 || len(page.Next) == 0 {
							list.query.Cursor = ""
						}
						list.query.Cursor = ""
					}
				})
			}
		})
	}
}

// BenchmarkAppendAudit adds rows as they gather under load; an operation is a row.
func BenchmarkAppendAudit(b *testing.B) {
	s := openBench(b, sqlite.Options{})
	rows := make([]store.AuditRow, 500)
	for i := range rows {
		rows[i] = store.AuditRow{At: time.Now(), Subject: "alice", Body: make([]byte, 300)}
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(rows) {
		if err := s.AppendAudit(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
	}
}
