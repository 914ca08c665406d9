//go:build postgres

package postgres_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/storetest"
)

// statements collects what is sent to the server, each text once.
type statements struct {
	mu   sync.Mutex
	args map[string][]any
}

func (s *statements) see(sql string, args []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.args[sql]; !known {
		s.args[sql] = args
	}
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.see(data.SQL, data.Args)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	s.see(data.SQL, data.Args)
}

func (*statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// useAll makes a store send every statement that it knows.
func useAll(t *testing.T, s store.Store) {
	t.Helper()
	var ids []string
	for i := range store.MaxTasks {
		ids = append(ids, fmt.Sprint("filler", i*50))
	}
	if rows, err := s.Tasks(t.Context(), store.ForAll(), ids); err != nil || len(rows) != len(ids)-1 {
		t.Errorf("%d tasks, %v", len(rows), err)
	}
	storetest.Tour(t, s)
	scopes := []store.Scope{store.ForOwner("", "ann"), store.ForTenant(""), store.ForTenant("many"), store.ForAll()}
	for _, scope := range scopes {
		for _, agent := range []string{"", "echo"} {
			for _, context := range []string{"", "c"} {
				for _, state := range []a2a.TaskState{0, a2a.StateWorking} {
					for _, after := range []time.Time{{}, time.Now().Add(-time.Minute)} {
						q := store.ListQuery{Agent: agent, Context: context, State: state, After: after, PageSize: 1, Want: store.Want{Messages: 5, Artifacts: true}}
						page, err := s.List(t.Context(), scope, q)
						if err != nil {
							t.Fatal(err)
						}
						// The next page reads what has moved meanwhile.
						if err := s.Commit(t.Context(), working(fmt.Sprintf("%v%v%v%v%v", scope, agent, context, state, after))); err != nil {
							t.Fatal(err)
						}
						if q.Cursor = page.Next; q.Cursor != "" {
							if _, err := s.List(t.Context(), scope, q); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			}
		}
	}
}

// fillEverything fills all tables with so many rows that a plan which reads
// one of them whole is seen to be bad, and lets the server count them.
func fillEverything(t *testing.T, dsn string) {
	t.Helper()
	execute(t, dsn,
		`INSERT INTO realms (tenant, owner, agent) SELECT CASE WHEN i % 2 = 0 THEN '' ELSE 'many'::bytea END, ('owner' || i)::bytea, 'echo' FROM generate_series(1, 5000) i`,
		`INSERT INTO tasks SELECT 1000000 + i, (1600000000000 + i)::bigint << 20, CASE WHEN i % 1000 = 0 THEN 5 ELSE 0 END, 1, CASE WHEN i % 10 = 0 THEN 4000000000000 ELSE 0 END,
 (SELECT min(id) FROM realms) + i % 2000, 4, 4, 4, 4, 1, 1, 0, 1, 1, 0, CASE WHEN i % 50 = 0 THEN 2 ELSE 3 END, 0, ('filler' || i)::bytea, ('context' || i / 3)::bytea, 'meta' FROM generate_series(1, 60000) i`,
		`INSERT INTO events SELECT 1000000 + i / 2, 1, 4 * (1 + i % 2), 0, 0, 0, '\x0103616263'::bytea FROM generate_series(1, 120000) i`,
		`INSERT INTO totals SELECT (SELECT min(id) FROM realms) + i / 2, 2 + i % 2, 5 FROM generate_series(0, 3999) i`,
		`INSERT INTO context_totals SELECT (SELECT min(id) FROM realms) + i % 2000, 3, 1, ('context' || i)::bytea FROM generate_series(1, 30000) i`,
		`INSERT INTO total_deltas SELECT (SELECT min(id) FROM realms) + i % 2000, 3, 1 FROM generate_series(1, 5000) i`,
		`INSERT INTO context_deltas SELECT (SELECT min(id) FROM realms) + i % 2000, 3, 1, ('context' || i)::bytea FROM generate_series(1, 20000) i`,
		`INSERT INTO private SELECT 1000000 + i, 'state' FROM generate_series(1, 20000) i`,
		`INSERT INTO results SELECT 1000000 + i, 'key', 'value' FROM generate_series(1, 20000) i`,
		`INSERT INTO claims SELECT 1, 4000000000000, (SELECT min(id) FROM realms) + i % 2000, ('key' || i)::bytea, 'hash', 'filler', NULL FROM generate_series(1, 40000) i`,
		`INSERT INTO grants SELECT 1, i, 0, i % 10, 0, ('filler' || i)::bytea, ('filler' || i)::bytea, 'o', 't', 'u', '', NULL, '' FROM generate_series(1, 20000) i`,
		`INSERT INTO jobs SELECT 1000000 + i, 4000000000000 + i, 1, 0, 'kind', ('filler' || i)::bytea, 'key' FROM generate_series(1, 20000) i`,
		`INSERT INTO webhooks SELECT 1000000 + i, i, 0, 0, 1, 0, 0, 'id', 'https://hooks.example', '', NULL, '' FROM generate_series(1, 20000) i`,
		`INSERT INTO audit (at, subject, task, body) SELECT 1600000000000 + i::bigint * 60000, ('owner' || i % 100)::bytea, CASE WHEN i % 3 = 0 THEN ''::bytea ELSE ('filler' || i)::bytea END, '{"operation":"SendMessage"}' FROM generate_series(1, 40000) i`,
		`INSERT INTO delegations SELECT 1000000 + i, CASE WHEN i % 2 = 0 THEN '' ELSE 'many'::bytea END, ('owner' || i % 2000)::bytea, ('peer' || i % 50)::bytea, ('ref' || i)::bytea, 0,
 i % 10, ('filler' || i / 3)::bytea, ('filler' || i / 3)::bytea, 1, 1, 'asked', 0, '', 1, 1, '', '', 0, '', 0, 0, 0, '', '', '', NULL, NULL, '', 0 FROM generate_series(1, 30000) i`,
		`INSERT INTO inbox SELECT 1000000 + i, ('item' || i)::bytea, 1600000000000 + i, CASE WHEN i % 10 = 0 THEN 0 ELSE 1 END, 1 + i % 3, ('filler' || i)::bytea, CASE WHEN i % 2 = 0 THEN '' ELSE 'many'::bytea END,
 ('owner' || i % 2000)::bytea, 1, '', 'echo', 0, '', 'text', NULL, '', '', i, i % 2 * 1600000000000, CASE WHEN i % 4 = 0 THEN '' ELSE ('owner' || i % 500)::bytea END, 0, i, '', '', '' FROM generate_series(1, 30000) i`,
		`INSERT INTO inbox_history SELECT 1000000 + i, ('item' || i / 2)::bytea, i, '', 'created', '' FROM generate_series(1, 60000) i`,
		`INSERT INTO docs SELECT ('space' || i % 10)::bytea, ('key' || i)::bytea, 1, 4000000000000 + i, ('tenant' || i % 100)::bytea, ('owner' || i % 2000)::bytea, 'body', CASE WHEN i % 5 = 0 THEN ('key' || i || 'secret')::bytea END FROM generate_series(1, 30000) i`,
		`INSERT INTO counters SELECT ('space' || i % 10)::bytea, ('key' || i)::bytea, 1, 4000000000000 + i FROM generate_series(1, 30000) i`,
		`INSERT INTO purge SELECT 5000000 + i FROM generate_series(1, 300) i`,
		`INSERT INTO nodes SELECT 1000000 + i, 4000000000000, 'node' FROM generate_series(1, 3000) i`,
		`INSERT INTO committers SELECT ('id' || i)::bytea, 1, 4000000000000 FROM generate_series(1, 3000) i`,
		"VACUUM ANALYZE",
	)
}

var scanned = regexp.MustCompile(`Seq Scan on (\w+)`)

// meant says whether a statement reads a table whole on purpose.
func meant(table, sql string) bool {
	switch table {
	case "pg_database", "schema_info", "revisions", "task_keys":
		return true // one row, or a row for each database
	case "nodes":
		return strings.HasPrefix(sql, "DELETE") || strings.HasSuffix(sql, "FROM nodes n ORDER BY n.epoch") // joining, and those who want them all
	case "api_keys", "peers":
		return true // a few rows, which are in the one page that any index would lead to
	case "committers":
		return true // a few rows for each node
	case "purge":
		return true // empty most of the time
	case "total_deltas", "context_deltas":
		// Folding takes all of them; statistics and the total of all tasks too.
		return strings.Contains(sql, "WITH gone") || strings.Contains(sql, "WITH counted") || !strings.Contains(sql, "realm")
	case "totals":
		return strings.Contains(sql, "WITH counted") || !strings.Contains(sql, "realm")
	case "realms":
		// What operators list, and those who see many owners; statistics.
		return !strings.Contains(sql, "r.owner =")
	}
	return false
}

// TestPlans sees that no statement reads a whole table, with the settings that
// a server has by itself: those of our connections only matter while a table
// has no statistics.
func TestPlans(t *testing.T) {
	t.Parallel()
	dsn := withSchema(sharedDSN, newSchema(t))
	seen := &statements{args: map[string][]any{}}
	s, err := postgres.OpenTraced(t.Context(), dsn, postgres.Options{}, seen)
	if err != nil {
		t.Fatal(err)
	}
	fillEverything(t, dsn)
	useAll(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	plans := 0
	for sql, args := range seen.args {
		verb, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(sql)), " ")
		if !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}, verb) || strings.Contains(sql, "goose") || strings.Contains(sql, "pg_tables") {
			continue
		}
		plans++
		// With the arguments, and as it is planned for any arguments.
		for _, plan := range []string{explain(t, conn, "EXPLAIN "+sql, args...), explainGeneric(t, conn, sql, len(args))} {
			for _, match := range scanned.FindAllStringSubmatch(plan, -1) {
				if !meant(match[1], sql) {
					t.Errorf("%s\nreads the whole of %s\n\n%s", sql, match[1], plan)
				}
			}
			if ordered := strings.Contains(sql, "AS s(state)"); ordered && !strings.Contains(plan, "tasks_state") && !strings.Contains(plan, "tasks_context") {
				t.Errorf("%s\ndoes not read the tasks of a state in order\n\n%s", sql, plan)
			}
		}
	}
	if plans < 60 {
		t.Errorf("only %d statements were seen", plans)
	}
}

func explainGeneric(t *testing.T, conn *pgx.Conn, sql string, args int) string {
	t.Helper()
	for _, statement := range []string{"SET plan_cache_mode = force_generic_plan", "DEALLOCATE ALL", "PREPARE p AS " + sql} {
		if _, err := conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	list := ""
	if args > 0 {
		list = "(" + strings.TrimSuffix(strings.Repeat("NULL,", args), ",") + ")"
	}
	return explain(t, conn, "EXPLAIN EXECUTE p"+list)
}

func explain(t *testing.T, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}
