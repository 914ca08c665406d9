//go:build postgres

package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

// ownServer starts a server for one test, which may do with it what it likes.
func ownServer(t *testing.T, fsync bool) *postgrestest.Server {
	t.Helper()
	s, err := postgrestest.New(fsync)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestConnectionCut cuts the connection of a commit at every point, before,
// within and behind each piece that passes. The commit succeeds, once.
func TestConnectionCut(t *testing.T) {
	t.Parallel()
	s := ownServer(t, false)
	for _, toServer := range []bool{true, false} {
		for piece := 1; piece <= 3; piece++ {
			for _, part := range []string{"none", "half", "all"} {
				t.Run(fmt.Sprintf("to server %v, piece %d, %s", toServer, piece, part), func(t *testing.T) {
					t.Parallel()
					schema := newSchema(t)
					p := newProxy(t, s)
					node := openAt(t, p.dsn(s, schema), postgres.Options{Committers: 1})
					direct := openAt(t, withSchema(s.DSN(), schema), postgres.Options{})
					c := working("t")
					for _, c := range []*store.Change{c, {Task: 0}} {
						if err := node.Commit(t.Context(), c); err != nil {
							t.Fatal(err)
						}
					}
					// All statements are prepared by then.
					more := func() *store.Change {
						return &store.Change{Task: c.Insert.Key, Events: []store.Event{artifactBody("a")}}
					}
					if err := node.Commit(t.Context(), more()); err != nil {
						t.Fatal(err)
					}
					seen, cut := 0, false
					p.watch(func(direction bool, bytes []byte) (int, bool) {
						if direction == toServer {
							seen++
						}
						if cut || direction != toServer || seen != piece {
							return len(bytes), false
						}
						cut = true
						return map[string]int{"none": 0, "half": len(bytes) / 2, "all": len(bytes)}[part], true
					})
					if err := node.Commit(t.Context(), more()); err != nil {
						t.Error(err)
					}
					events, err := direct.Events(t.Context(), c.Insert.Key, 0, 1<<20)
					if err != nil || len(events) != 3 {
						t.Errorf("%d events, want 3, %v", len(events), err)
					}
					if !cut && piece <= 2 {
						t.Error("nothing was cut")
					}
				})
			}
		}
	}
}

// TestAnswerLost loses the answer to a commit that was made, while the server
// cannot be reached for some time: the change is acknowledged when it can.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	s := ownServer(t, false)
	schema := newSchema(t)
	p := newProxy(t, s)
	node := openAt(t, p.dsn(s, schema), postgres.Options{Committers: 1})
	if err := node.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost := make(chan struct{})
	away := false
	p.watch(func(toServer bool, piece []byte) (int, bool) {
		if !toServer && bytes.Contains(piece, []byte("COMMIT\x00")) && !away {
			away = true
			close(lost)
		}
		if away {
			return 0, true
		}
		return len(piece), false
	})
	done := make(chan error, 1)
	c := working("t")
	go func() { done <- node.Commit(t.Context(), c) }()
	<-lost
	// Whoever comes meanwhile is told at once that the store is away, and not
	// kept until it is back.
	if err := node.Commit(t.Context(), working("u")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a commit while the store is away: %v", err)
	}
	select {
	case err := <-done:
		t.Fatalf("the commit ended before its outcome was known: %v", err)
	default:
	}
	p.watch(nil)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	row, err := node.Task(t.Context(), store.ForAll(), "t")
	if err != nil || row.Key != c.Insert.Key {
		t.Errorf("task %+v, %v; want the key %d", row, err, c.Insert.Key)
	}
	if _, err := node.Task(t.Context(), store.ForAll(), "u"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("task of the commit that failed: %v", err)
	}
}

// TestOutcomeUnknown keeps the server away for longer than the outcome of a
// commit is looked for.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	s := ownServer(t, false)
	p := newProxy(t, s)
	node := openAt(t, p.dsn(s, newSchema(t)), postgres.Options{Committers: 1, Resolve: 50 * time.Millisecond})
	if err := node.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	away := false
	p.watch(func(toServer bool, piece []byte) (int, bool) {
		away = away || !toServer && bytes.Contains(piece, []byte("COMMIT\x00"))
		if away {
			return 0, true
		}
		return len(piece), false
	})
	err := node.Commit(t.Context(), working("t"))
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, store.ErrUnknown) {
		t.Errorf("commit: %v", err)
	}
}

// TestFrozenNode stops a node in the middle of a commit. Another one takes its
// task over without waiting for it, and what the first one says when it wakes
// up is refused.
func TestFrozenNode(t *testing.T) {
	t.Parallel()
	s := ownServer(t, false)
	schema := newSchema(t)
	p := newProxy(t, s)
	second := openAt(t, withSchema(s.DSN(), schema), postgres.Options{Committers: 1}) // makes the tables, which may take a while
	first := openAt(t, postgrestest.With(p.dsn(s, schema), "idle_in_transaction_session_timeout", "200"), postgres.Options{Committers: 1})
	c := working("t")
	c.Insert.Lease = 1
	if err := first.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	pieces := 0
	frozen := make(chan struct{})
	p.watch(func(toServer bool, piece []byte) (int, bool) {
		if toServer {
			if pieces++; pieces == 2 { // the locks are taken, the writes are on the way
				p.freeze()
				close(frozen)
			}
		}
		return len(piece), false
	})
	done := make(chan error, 1)
	go func() {
		done <- first.Commit(t.Context(), &store.Change{Task: c.Insert.Key, Guard: store.Guard{Lease: ptr(int64(1))}, Events: []store.Event{statusBody(a2a.StateWorking)}})
	}()
	<-frozen
	if err := second.Commit(t.Context(), &store.Change{Task: c.Insert.Key, Guard: store.Guard{Lease: ptr(int64(1))}, Set: store.Set{Lease: ptr(int64(2))}}); err != nil {
		t.Errorf("taking the task over: %v", err)
	}
	p.watch(nil)
	p.thaw()
	if err := <-done; !errors.Is(err, store.ErrConflict) {
		t.Errorf("the late commit: %v, want a conflict", err)
	}
}

// TestServerCrashes kills the server under load, and starts it again. Every
// commit that was acknowledged is there, and none that failed.
func TestServerCrashes(t *testing.T) {
	t.Parallel()
	s := ownServer(t, true)
	dsn := withSchema(s.DSN(), newSchema(t))
	nodes := []*postgres.Store{openAt(t, dsn, postgres.Options{}), openAt(t, dsn, postgres.Options{})}
	counter := working("counter")
	if err := nodes[0].Commit(t.Context(), counter); err != nil {
		t.Fatal(err)
	}
	var acknowledged, failed sync.Map
	var done atomic.Bool
	var successes, counted atomic.Int64
	progress := make(chan struct{}, 1)
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			for i := 0; !done.Load(); i++ {
				id := fmt.Sprintf("t-%d-%d", w, i)
				err := nodes[w%2].Commit(t.Context(), working(id))
				if err == nil {
					err = nodes[(w+1)%2].Commit(t.Context(), &store.Change{Task: counter.Insert.Key, Events: []store.Event{artifactBody(id)}})
					acknowledged.Store(id, true)
					if err == nil {
						counted.Add(1)
					}
					successes.Add(1)
					select {
					case progress <- struct{}{}:
					default:
					}
				} else {
					failed.Store(id, true)
				}
				if err != nil && (!errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown)) {
					t.Errorf("commit: %v", err)
				}
			}
		})
	}
	reach := func(n int64) {
		for until := successes.Load() + n; successes.Load() < until; {
			<-progress
		}
	}
	for _, mode := range []string{"immediate", "fast", "immediate"} {
		reach(200)
		if err := errors.Join(s.Stop(mode), s.Start()); err != nil {
			t.Fatal(err)
		}
	}
	reach(200)
	done.Store(true)
	writers.Wait()
	here := map[string]bool{}
	for _, id := range listAll(t, nodes[0], store.ListQuery{PageSize: 500}) {
		here[id] = true
	}
	n := 0
	acknowledged.Range(func(id, _ any) bool {
		n++
		if !here[id.(string)] {
			t.Errorf("task %s was acknowledged and is lost", id)
		}
		return true
	})
	failed.Range(func(id, _ any) bool {
		if here[id.(string)] {
			t.Errorf("task %s failed and is there", id)
		}
		return true
	})
	if n != len(here)-1 {
		t.Errorf("%d tasks were acknowledged, %d are there", n, len(here)-1)
	}
	row, err := nodes[1].Task(t.Context(), store.ForAll(), "counter")
	if err != nil || row.Seq != 1+counted.Load() {
		t.Errorf("the counter is at %+v, want %d, %v", row, 1+counted.Load(), err)
	}
}

// TestReadsSurviveRestart reads after the server was started anew, with
// connections that do not know of it.
func TestReadsSurviveRestart(t *testing.T) {
	t.Parallel()
	s := ownServer(t, false)
	node := openAt(t, withSchema(s.DSN(), newSchema(t)), postgres.Options{Readers: 4})
	if err := node.Commit(t.Context(), working("t")); err != nil {
		t.Fatal(err)
	}
	read := func() {
		if _, err := node.List(t.Context(), store.ForAll(), store.ListQuery{PageSize: 5}); err != nil {
			t.Errorf("list: %v", err)
		}
	}
	each(32, 8, func(int) { read() })
	if err := s.Stop("fast"); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"commit": node.Commit(t.Context(), working("u")),
		"ping":   node.Ping(t.Context()),
		"delete": node.Delete(t.Context(), store.ForAll(), "t"),
		"read":   func() error { _, err := node.Task(t.Context(), store.ForAll(), "t"); return err }(),
		"jobs":   func() error { _, err := node.Jobs(t.Context(), 1, time.Minute); return err }(),
		"expire": func() error { _, err := node.Expire(t.Context(), 1); return err }(),
	} {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s while the server is away: %v", what, err)
		}
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	read()
	if err := node.Commit(t.Context(), working("v")); err != nil {
		t.Errorf("commit: %v", err)
	}
}

// TestServerErrors makes the server refuse what is written, once or always.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, code string
		times      int
		want       error
	}{
		{"serialization failure", "40001", 3, nil},
		{"deadlock", "40P01", 3, nil},
		{"row of another node", "23505", 2, nil},
		{"no end of deadlocks", "40P01", 1000, store.ErrUnavailable},
		{"row that exists", "23505", 1000, store.ErrConflict},
		{"disk full", "53100", 1, store.ErrUnavailable},
		{"lock held for long", "55P03", 1, store.ErrUnavailable},
		{"canceled", "57014", 1, store.ErrUnavailable},
		{"read-only", "25006", 1, store.ErrUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dsn := withSchema(sharedDSN, newSchema(t))
			s := openAt(t, dsn, postgres.Options{})
			if err := s.Commit(t.Context(), working("before")); err != nil {
				t.Fatal(err)
			}
			execute(t, dsn,
				"CREATE SEQUENCE refusals",
				fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF nextval('refusals') <= %d THEN RAISE EXCEPTION 'refused' USING ERRCODE = '%s'; END IF;
  RETURN NEW;
END $$`, test.times, test.code),
				"CREATE TRIGGER refuse BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse()")
			c := working("t")
			c.Claim = &store.Claim{Owner: "ann", Agent: "echo", Key: "k", Task: "t"}
			if err := s.Commit(t.Context(), c); !errors.Is(err, test.want) {
				t.Errorf("commit: %v, want %v", err, test.want)
			}
			_, err := s.Task(t.Context(), store.ForAll(), "t")
			_, claimErr := s.Claim(t.Context(), store.ForAll(), "echo", "k")
			if (err == nil) != (test.want == nil) || (claimErr == nil) != (test.want == nil) {
				t.Errorf("task: %v, claim: %v", err, claimErr)
			}
			execute(t, dsn, "DROP TRIGGER refuse ON events")
			if err := s.Commit(t.Context(), working("after")); err != nil {
				t.Errorf("commit afterwards: %v", err)
			}
		})
	}
}

// TestForgottenConnection commits over a connection whose row was removed, as
// that of one that was idle for long is.
func TestForgottenConnection(t *testing.T) {
	t.Parallel()
	dsn := withSchema(sharedDSN, newSchema(t))
	s := openAt(t, dsn, postgres.Options{Committers: 1})
	if err := s.Commit(t.Context(), working("t")); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, "UPDATE committers SET used = 1")
	if _, err := s.Join(t.Context(), store.Node{Name: "n"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if n := number(t, dsn, "SELECT count(*) FROM committers"); n != 0 {
		t.Errorf("%d connections are remembered", n)
	}
	if err := s.Commit(t.Context(), working("u")); err != nil {
		t.Error(err)
	}
}

// TestPingEnds asks a store that does not answer.
func TestPingEnds(t *testing.T) {
	t.Parallel()
	s := ownServer(t, false)
	p := newProxy(t, s)
	node := openAt(t, p.dsn(s, newSchema(t)), postgres.Options{Committers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	p.watch(func(_ bool, piece []byte) (int, bool) {
		p.freeze()
		cancel()
		return len(piece), false
	})
	if err := node.Ping(ctx); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("ping: %v", err)
	}
	p.watch(nil)
	p.thaw()
	if err := node.Ping(t.Context()); err != nil {
		t.Errorf("ping later: %v", err)
	}
}

// TestDatabaseWasAway keeps the database away for longer than the leases of its
// nodes: none of them is dead before it had a whole lease to renew in. A node
// that has left is, at once.
func TestDatabaseWasAway(t *testing.T) {
	t.Parallel()
	s := ownServer(t, true)
	dsn := withSchema(s.DSN(), newSchema(t))
	node := openAt(t, dsn, postgres.Options{})
	epochs := map[string]int64{}
	for name, lease := range map[string]time.Duration{"long": time.Hour, "short": time.Millisecond, "left": time.Hour} {
		epoch, err := node.Join(t.Context(), store.Node{Name: name}, lease)
		if err != nil {
			t.Fatal(err)
		}
		epochs[name] = epoch
		c := working(name)
		c.Insert.Lease = epoch
		c.Claim = &store.Claim{Owner: "ann", Agent: "echo", Key: name, Lease: epoch}
		if err := node.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := node.Leave(t.Context(), epochs["left"]); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Stop("immediate"), s.Start()); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, "UPDATE nodes SET expires = 1") // the database was away for so long

	check := func(when string, dead ...string) {
		t.Helper()
		rows, err := node.Orphans(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		var orphans []string
		for _, row := range rows {
			orphans = append(orphans, row.ID)
		}
		slices.Sort(orphans)
		if !slices.Equal(orphans, dead) {
			t.Errorf("%s: orphans %v, want %v", when, orphans, dead)
		}
		nodes, err := node.Nodes(t.Context())
		if err != nil || len(nodes) != 2 {
			t.Fatalf("%s: nodes %+v, %v", when, nodes, err)
		}
		for _, n := range nodes {
			if n.Alive == slices.Contains(dead, n.Name) {
				t.Errorf("%s: alive is %v of %s", when, n.Alive, n.Name)
			}
		}
		for name := range epochs {
			// With a claim of the same batch in which it would be replaced.
			again := &store.Change{Claim: &store.Claim{Owner: "ann", Agent: "echo", Key: name, Lease: epochs[name], Expires: time.UnixMilli(1)}}
			err := node.Commit(t.Context(), again)
			_, stands := errors.AsType[*store.DuplicateError](err)
			if stands == slices.Contains(dead, name) {
				t.Errorf("%s: claim of %s: %v", when, name, err)
			}
		}
	}
	check("after the restart", "left", "short")
	execute(t, dsn, "UPDATE nodes SET lease = 0") // it has passed since
	execute(t, dsn, "UPDATE claims SET expires = 0")
	check("a lease later", "left", "long", "short")

	// Whoever comes back is alive again.
	if err := node.Renew(t.Context(), epochs["long"], time.Hour); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, "UPDATE claims SET expires = 0")
	check("after it was renewed", "left", "short")
}

// TestFewConnections lets a node work with the connections that it gets, though it
// would like more.
func TestFewConnections(t *testing.T) {
	t.Parallel()
	s := ownServer(t, false)
	execute(t, s.DSN(), "CREATE ROLE few LOGIN CONNECTION LIMIT 3", "CREATE SCHEMA few AUTHORIZATION few")
	node := openAt(t, withSchema(postgrestest.With(s.DSN(), "user", "few"), "few"), postgres.Options{Readers: 8})
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			for i := range 20 {
				id := fmt.Sprintf("t-%d-%d", w, i)
				if err := node.Commit(t.Context(), working(id)); err != nil {
					t.Errorf("commit: %v", err)
					return
				}
				if _, err := node.Task(t.Context(), store.ForAll(), id); err != nil {
					t.Errorf("read: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
}

// TestTimeGoesBack sees to it that a node stops whose number a database that went
// back in time has given to another.
func TestTimeGoesBack(t *testing.T) {
	t.Parallel()
	dsn := withSchema(sharedDSN, newSchema(t))
	node := openAt(t, dsn, postgres.Options{})
	epoch, err := node.Join(t.Context(), store.Node{Name: "a"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Renew(t.Context(), epoch, time.Hour); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, "DELETE FROM nodes", fmt.Sprintf("SELECT setval('epochs', %d, false)", epoch))
	other := openAt(t, dsn, postgres.Options{})
	if again, err := other.Join(t.Context(), store.Node{Name: "b"}, time.Hour); err != nil || again != epoch {
		t.Fatalf("epoch %d, %v", again, err)
	}
	if err := node.Renew(t.Context(), epoch, time.Hour); !errors.Is(err, store.ErrConflict) {
		t.Errorf("renewal of a number that is another node's: %v", err)
	}
	if err := other.Renew(t.Context(), epoch, time.Hour); err != nil {
		t.Error(err)
	}
}
