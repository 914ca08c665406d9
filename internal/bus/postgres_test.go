//go:build postgres

package bus_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

func init() { after = append(after, postgrestest.Close) }

// startPostgres starts a node.
func startPostgres(t testing.TB, cluster, dsn string) *node {
	t.Helper()
	return startNode(t, cluster, func(ctx context.Context, o bus.Options) (bus.Bus, error) {
		return bus.Postgres(ctx, dsn, o)
	})
}

// execute runs a statement on a connection of its own, and returns the number
// that it answers.
func execute(t testing.TB, dsn, statement string, args ...any) (n int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), statement, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPostgresReachesTheOthers(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	cluster := uuid.NewString()
	a, b, c := startPostgres(t, cluster, dsn), startPostgres(t, cluster, dsn), startPostgres(t, cluster, dsn)
	// An id that cannot be part of a name as it is.
	other, second := startPostgres(t, `"; '`+cluster, dsn), startPostgres(t, `"; '`+cluster, dsn)

	h := bus.Hint{Task: uuid.NewString(), Seq: 7}
	a.Publish(h)
	b.hears(t, h)
	c.hears(t, h)
	back := bus.Hint{Task: "not a UUID, größer", Seq: 1}
	b.Publish(back)
	a.hears(t, back)
	c.hears(t, back)
	second.Publish(bus.Hint{Task: "two", Seq: 2})
	other.hears(t, bus.Hint{Task: "two", Seq: 2})

	next := bus.Hint{Task: "next", Seq: 1}
	a.Publish(next)
	b.hears(t, next) // so that the first is counted

	state := a.State()
	if state.Kind != "postgres" || !strings.HasSuffix(state.Server, ":5432") || !state.Connected ||
		state.Sent == 0 || state.Sent > 2 || state.Heard != 1 || state.Dropped != 0 || state.Malformed != 0 {
		t.Errorf("state %+v", state)
	}
	for _, n := range []*node{a, b, c, other, second} {
		if len(n.restored) != 0 {
			t.Error("restored without a loss")
		}
	}
}

func TestPostgresCarriesManyHintsInFewPayloads(t *testing.T) {
	t.Parallel()
	dsn, cluster := postgrestest.DSN(t), uuid.NewString()
	construct := func(ctx context.Context, o bus.Options) (bus.Bus, error) {
		o.Window = time.Second / 4
		return bus.Postgres(ctx, dsn, o)
	}
	a, b := startNode(t, cluster, construct), startNode(t, cluster, construct)
	observer, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer observer.Close(t.Context())
	if _, err := observer.Exec(t.Context(), `LISTEN "handoff_hints_`+cluster+`"`); err != nil {
		t.Fatal(err)
	}
	const tasks, hints = 1000, 5000
	ids := make([]string, tasks)
	want := map[string]int64{}
	for i := range ids {
		ids[i] = uuid.NewString()
		if i%10 == 0 { // ids of the greatest length
			ids[i] = strings.Repeat("x", 250) + fmt.Sprintf("%06d", i)
		}
	}
	a.Publish(bus.Hint{Task: "first", Seq: 1}) // goes at once; the window begins
	b.hears(t, bus.Hint{Task: "first", Seq: 1})
	for i := range hints {
		h := bus.Hint{Task: ids[i%tasks], Seq: int64(i)}
		a.Publish(h)
		want[h.Task] = h.Seq
	}
	late := time.After(patience)
	for got := map[string]int64{}; len(want) > 0; {
		select {
		case h := <-b.heard:
			if h.Seq < got[h.Task] {
				t.Errorf("%v after %d", h, got[h.Task])
			}
			if got[h.Task] = h.Seq; want[h.Task] == h.Seq {
				delete(want, h.Task)
			}
		case <-late:
			t.Fatalf("%d tasks are not heard of: %+v", len(want), b.State())
		}
	}
	a.Publish(bus.Hint{Task: "last", Seq: 1})
	b.hears(t, bus.Hint{Task: "last", Seq: 1})
	if state := a.State(); state.Sent > 2*tasks+2 || state.Dropped != 0 {
		t.Errorf("not coalesced: %+v", state)
	}
	payloads := int(b.State().Heard) // at least one hint in each
	count := 0
	for ctx := t.Context(); ; count++ {
		n, err := observer.WaitForNotification(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(n.Payload) >= 8000 {
			t.Errorf("payload of %d bytes", len(n.Payload))
		}
		if len(n.Payload) < 100 && count > 1 {
			break // the last
		}
	}
	if count > payloads/50 {
		t.Errorf("%d payloads for %d hints", count, payloads)
	}
}

func TestPostgresConnectionIsKilled(t *testing.T) {
	t.Parallel()
	dsn, cluster := postgrestest.DSN(t), uuid.NewString()
	// Found again by its name: others are on the server too.
	name := "bus_" + cluster[:8]
	a, b := startPostgres(t, cluster, postgrestest.With(dsn, "application_name", name+"a")), startPostgres(t, cluster, postgrestest.With(dsn, "application_name", name+"b"))
	seq := int64(0)
	reaches := func(from, to *node) {
		t.Helper()
		seq++
		from.Publish(bus.Hint{Task: "t", Seq: seq})
		to.hears(t, bus.Hint{Task: "t", Seq: seq})
	}
	reaches(a, b)
	reaches(b, a)
	for round := range 2 {
		if n := execute(t, dsn, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1", name+"b"); n != 2 {
			t.Errorf("round %d: %d connections killed, want that which listens and that which sends", round, n)
		}
		b.isRestored(t)
		reaches(a, b)
		reaches(b, a) // after a first attempt on the connection that was killed
		reaches(b, a) // the one before is counted now
		if state := b.State(); !state.Connected || state.Dropped != 0 {
			t.Errorf("state %+v", state)
		}
	}
	if len(a.restored) != 0 {
		t.Error("the other node is restored too")
	}
}

func TestPostgresAsksASilentConnection(t *testing.T) {
	t.Parallel()
	dsn, cluster := postgrestest.DSN(t), uuid.NewString()
	name := "bus_" + cluster
	a := startPostgres(t, cluster, dsn)
	b := startNode(t, cluster, func(ctx context.Context, o bus.Options) (bus.Bus, error) {
		return bus.NewPostgres(ctx, postgrestest.With(dsn, "application_name", name), 5*time.Millisecond, o)
	})
	last := int64(-1)
	for asked := 0; asked < 3; { // until the server has got three questions
		n := execute(t, dsn, "SELECT coalesce(max(extract(epoch FROM query_start) * 1e6)::bigint, 0) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE '%ping%'", name)
		if n > last && n > 0 {
			asked++
			last = n
		}
	}
	for seq := range int64(100) {
		a.Publish(bus.Hint{Task: "t", Seq: seq})
		b.hears(t, bus.Hint{Task: "t", Seq: seq})
	}
	if len(b.restored) != 0 || !b.State().Connected {
		t.Errorf("the connection did not last: %+v\n%s", b.State(), b.log)
	}
}

func TestPostgresServerComesBack(t *testing.T) {
	t.Parallel()
	s, err := postgrestest.New(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	a := startPostgres(t, "c", s.DSN())
	if err := s.Stop("fast"); err != nil {
		t.Fatal(err)
	}
	a.log.says(t, "is lost")
	a.Publish(bus.Hint{Task: "waits", Seq: 1})
	// A node that starts meanwhile works without its bus.
	b := startPostgres(t, "c", s.DSN())
	b.log.says(t, "cannot be reached")
	if a.State().Connected || b.State().Connected {
		t.Errorf("connected without a server: %+v %+v", a.State(), b.State())
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	a.isRestored(t)
	b.isRestored(t)
	b.Publish(bus.Hint{Task: "goes", Seq: 1})
	a.hears(t, bus.Hint{Task: "goes", Seq: 1})
}

func TestPostgresIgnoresWhatItCannotRead(t *testing.T) {
	t.Parallel()
	dsn, cluster := postgrestest.DSN(t), uuid.NewString()
	a, b := startPostgres(t, cluster, dsn), startPostgres(t, cluster, dsn)
	for _, payload := range []string{"", "rubbish!", "AQ", strings.Repeat("A", 7000)} {
		execute(t, dsn, "SELECT count(pg_notify($1, $2)::text)", "handoff_hints_"+cluster, payload)
	}
	a.Publish(bus.Hint{Task: "t", Seq: 1})
	b.hears(t, bus.Hint{Task: "t", Seq: 1})
	if state := b.State(); state.Malformed != 4 || state.Heard != 1 {
		t.Errorf("state %+v", state)
	}
}

// silentServer accepts connections and says nothing.
func silentServer(t *testing.T) (address string, accepted *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	accepted = &atomic.Int64{}
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			defer c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String(), accepted
}

func TestPostgresTellsNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, dsn := range map[string]string{
		"empty port":      "postgres://u:" + secret + "@h:x/db",
		"bad escape":      "postgres://u:%zz" + secret + "@h/db",
		"bad mode":        "postgres://u:" + secret + "@h/db?sslmode=" + secret,
		"keywords":        "host=h password=" + secret + " port=x",
		"password and no": "user=u password='" + secret,
	} {
		b, err := bus.Postgres(t.Context(), dsn, bus.Options{Cluster: "c"})
		if err == nil {
			b.Close()
			t.Errorf("%s: no error", name)
			continue
		}
		if strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "postgres://USER:PASSWORD@HOST") {
			t.Errorf("%s: error %q", name, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	n := startPostgres(t, "c", "postgres://u:"+secret+"@"+l.Addr().String()+"/db?pool_max_conns=7")
	n.log.says(t, "cannot be reached")
	n.log.says(t, "cannot be sent")
	n.log.hidesAll(t, secret)
	if state := fmt.Sprintf("%+v", n.State()); strings.Contains(state, secret) || !strings.Contains(state, l.Addr().String()) {
		t.Errorf("state %s", state)
	}
	if _, err := bus.Postgres(t.Context(), postgrestest.DSN(t), bus.Options{}); err == nil {
		t.Error("no error without a cluster")
	}
}

// A server that accepts connections and says nothing holds up neither the start
// for longer than its context, nor the end.
func TestPostgresClosesBesideASilentServer(t *testing.T) {
	t.Parallel()
	address, accepted := silentServer(t)
	n := startNode(t, "c", func(ctx context.Context, o bus.Options) (bus.Bus, error) {
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		return bus.Postgres(ctx, "postgres://u:p@"+address+"/db?sslmode=disable", o)
	})
	n.Publish(bus.Hint{Task: "t", Seq: 1})
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if state := n.State(); state.Connected || state.Dropped != 1 || accepted.Load() == 0 {
		t.Errorf("state %+v, %d connections", state, accepted.Load())
	}
}

func BenchmarkPostgres(b *testing.B) {
	dsn, cluster := postgrestest.DSN(b), uuid.NewString()
	from, to := startPostgres(b, cluster, dsn), startPostgres(b, cluster, dsn)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		h := bus.Hint{Task: "018f2a6e-7c1a-7abc-8def-0123456789ab", Seq: int64(i)}
		from.Publish(h)
		to.hears(b, h)
	}
}
