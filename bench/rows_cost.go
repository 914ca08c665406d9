package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// kind is a kind of task whose cost is counted.
type kind struct {
	name  string
	agent string
	text  string
	part  int // of the tasks of the scale, one in so many
}

var kinds = []kind{
	{"whole in one commit", "bench", "echo hello", 1},
	{"the same of a caller whose messages are recognized when they come again", "claimed", "echo hello", 1},
	{"with pauses, so that it takes three commits", "bench", "spread hello", 4},
}

// claimed is an agent that claims each message, as those of authenticated
// callers are.
const claimed = `
  claimed:
    name: Claimed
    description: Recognizes messages that come again.
    version: 1.0.0
    idempotency: on
    skills: [{id: bench, name: Bench, description: Measures., tags: [bench]}]
    run:
      script:
        - when: {text: "^echo (.*)"}
          do: [{artifact: {parts: [{text: "{{.Match 1}}"}]}}]
`

// benchCost counts what a task costs the database.
func benchCost(ctx context.Context, s scale) ([]row, error) {
	d, err := startDatabase(ctx, true)
	if err != nil {
		return nil, err
	}
	defer d.stop()
	var rows []row
	for _, k := range kinds {
		r, err := k.count(ctx, d, s.costTasks/k.part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		rows = append(rows, r)
	}
	removal, err := benchRemoval(ctx, d, s.costTasks)
	if err != nil {
		return nil, fmt.Errorf("removal: %w", err)
	}
	trips, err := benchTrips(ctx, d, s.costTasks/4)
	if err != nil {
		return nil, err
	}
	alone, err := benchAlone(ctx, d, s.costTasks/20)
	if err != nil {
		return nil, err
	}
	return append(rows, removal, trips, alone), nil
}

// counters are what the database has counted so far.
type counters struct {
	transactions, walBytes, walImages, walSyncs, walSyncTime float64
}

// reporting is after what time at the latest a process of the server that has
// nothing to do adds what it has counted.
const reporting = 11 * time.Second

// read reads the counters of the server.
func (d *database) read(ctx context.Context) (c counters, err error) {
	time.Sleep(reporting)
	_, err = d.conn.Exec(ctx, "SELECT pg_stat_clear_snapshot()")
	if err != nil {
		return c, err
	}
	err = d.conn.QueryRow(ctx, `SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8,
 (pg_current_wal_insert_lsn() - '0/0')::float8, wal_fpi::float8, wal_sync::float8, wal_sync_time::float8 / 1000 FROM pg_stat_wal`).
		Scan(&c.transactions, &c.walBytes, &c.walImages, &c.walSyncs, &c.walSyncTime)
	return c, err
}

func (c counters) minus(b counters) counters {
	return counters{
		c.transactions - b.transactions, c.walBytes - b.walBytes, c.walImages - b.walImages, c.walSyncs - b.walSyncs, c.walSyncTime - b.walSyncTime,
	}
}

// statement is one kind of statement.
type statement struct {
	text  string
	calls float64
	time  float64 // seconds, of all calls
}

// statements returns what was called since they were last forgotten. Only those
// of nodes count. BEGIN and COMMIT are not among them when they are prepared:
// the extension of PostgreSQL up to 15 does not see those.
func (d *database) statements(ctx context.Context) (list []statement, err error) {
	if !d.counts {
		return nil, nil
	}
	rows, err := d.conn.Query(ctx, `SELECT query, sum(calls)::float8, sum(total_exec_time)::float8 / 1000 FROM pg_stat_statements
 WHERE query NOT LIKE '%pg_stat_%' AND query NOT LIKE '%pg_class%' AND query NOT LIKE '%CHECKPOINT%' AND query NOT LIKE 'VACUUM%' GROUP BY query ORDER BY 2 DESC`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s statement
		if err := rows.Scan(&s.text, &s.calls, &s.time); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// forget begins to count anew, after a checkpoint.
func (d *database) forget(ctx context.Context) error {
	if _, err := d.conn.Exec(ctx, "CHECKPOINT"); err != nil || !d.counts {
		return err
	}
	_, err := d.conn.Exec(ctx, "SELECT pg_stat_statements_reset()")
	return err
}

// relation is a table or an index.
type relation struct {
	name, table string
	rows, bytes float64
}

// relations returns the sizes of tables and indexes, after a vacuum.
func (d *database) relations(ctx context.Context, schema string) ([]relation, error) {
	tables, err := d.conn.Query(ctx, "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r' ORDER BY relname", schema)
	if err != nil {
		return nil, err
	}
	var names []string
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, schema+"."+name)
	}
	if tables.Close(); tables.Err() != nil {
		return nil, tables.Err()
	}
	if _, err := d.conn.Exec(ctx, "VACUUM (ANALYZE) "+strings.Join(names, ", ")); err != nil {
		return nil, err
	}
	rows, err := d.conn.Query(ctx, `SELECT c.relname, coalesce(t.relname, ''), c.reltuples::float8,
 (CASE WHEN t.relname IS NULL THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END)::float8
 FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid
 WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'i') ORDER BY coalesce(t.relname, c.relname), c.relkind DESC, c.relname`, schema)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []relation
	for rows.Next() {
		var r relation
		if err := rows.Scan(&r.name, &r.table, &r.rows, &r.bytes); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// count counts what n tasks cost.
func (k kind) count(ctx context.Context, d *database, n int) (row, error) {
	schema, url := d.schema()
	nodes, err := setup{nodes: 1, store: url, more: claimed}.start(ctx)
	if err != nil {
		return row{}, err
	}
	defer nodes.stop()
	at := strings.Replace(nodes.urls[0], "/agents/bench/", "/agents/"+k.agent+"/", 1)
	send := func(n int) error {
		_, err := rate(ctx, at, k.text, "TASK_STATE_COMPLETED", n)
		return err
	}
	if err := send(n / 10); err != nil {
		return row{}, err
	}
	if err := d.forget(ctx); err != nil {
		return row{}, err
	}
	sizes, err := d.relations(ctx, schema)
	if err != nil {
		return row{}, err
	}
	before, err := d.read(ctx)
	if err != nil {
		return row{}, err
	}
	commitsBefore, err := commits(nodes)
	if err != nil {
		return row{}, err
	}
	if err := send(n); err != nil {
		return row{}, err
	}
	after, err := d.read(ctx)
	if err != nil {
		return row{}, err
	}
	commitsAfter, err := commits(nodes)
	if err != nil {
		return row{}, err
	}
	statements, err := d.statements(ctx)
	if err != nil {
		return row{}, err
	}
	sizesAfter, err := d.relations(ctx, schema)
	if err != nil {
		return row{}, err
	}
	spent, tasks := after.minus(before), float64(n)
	batches := commitsAfter - commitsBefore
	calls := 2 * batches // BEGIN and COMMIT
	for _, s := range statements {
		calls += s.calls
	}
	disk := 0.0
	for i, r := range sizesAfter {
		if !strings.HasSuffix(r.name+r.table, "_deltas") { // their space is used again
			disk += r.bytes - sizes[i].bytes
		}
	}
	r := row{
		Name: "cost of a task " + k.name, Nodes: true,
		Handoff: fmt.Sprintf("%.2f statements, %.2f transactions, %.0f bytes of WAL, %.0f bytes on disk", calls/tasks, spent.transactions/tasks, spent.walBytes/tasks, disk/tasks),
		Comment: fmt.Sprintf("%d tasks on one node with LISTEN/NOTIFY, %d connections: %.1f tasks in a commit of %.1f statements; %.2f fsyncs of the WAL for a task, and %.2f images of whole pages after the checkpoint before.",
			n, connections, tasks/batches, calls/batches, spent.walSyncs/tasks, spent.walImages/tasks),
		Detail: sizeTable(sizes, sizesAfter, tasks) + "\n" + callTable(statements, tasks),
	}
	if !d.counts {
		_, r.Handoff, _ = strings.Cut(r.Handoff, "statements, ")
		r.Comment = strings.Replace(r.Comment, fmt.Sprintf(" of %.1f statements", calls/batches), "", 1)
	}
	return r, nil
}

// sizeTable says how much each table and each index has grown for a task.
func sizeTable(before, after []relation, tasks float64) string {
	var m strings.Builder
	m.WriteString("| table or index | rows for a task | bytes for a task |\n| --- | --- | --- |\n")
	for i, r := range after {
		grown := (r.bytes - before[i].bytes) / tasks
		switch {
		case grown < 0.5:
		case r.table == "":
			fmt.Fprintf(&m, "| `%s` | %.2f | %.0f |\n", r.name, (r.rows-before[i].rows)/tasks, grown)
		default:
			fmt.Fprintf(&m, "| index `%s` |  | %.0f |\n", r.name, grown)
		}
	}
	return m.String()
}

// callTable says which statements a task takes.
func callTable(list []statement, tasks float64) string {
	var m strings.Builder
	m.WriteString("| statement | for a task | time of the server |\n| --- | --- | --- |\n")
	for _, s := range list {
		if s.calls < tasks/100 {
			continue
		}
		text := strings.Join(strings.Fields(s.text), " ")
		if len(text) > 80 {
			text = text[:50] + " … " + text[len(text)-26:]
		}
		fmt.Fprintf(&m, "| `%s` | %.3f | %.0f µs |\n", strings.ReplaceAll(text, "|", "\\|"), s.calls/tasks, s.time/tasks*1e6)
	}
	return m.String()
}

// benchTrips counts the round trips of a commit.
func benchTrips(ctx context.Context, d *database, n int) (row, error) {
	bus, err := startNATS(ctx)
	if err != nil {
		return row{}, err
	}
	defer bus.stop()
	p, err := startProxy(d.folder())
	if err != nil {
		return row{}, err
	}
	defer p.stop()
	_, url := d.schema()
	nodes, err := setup{nodes: 1, store: p.through(url, d.folder()), bus: bus.address}.start(ctx)
	if err != nil {
		return row{}, err
	}
	defer nodes.stop()
	if err := nodes.warm(ctx); err != nil {
		return row{}, err
	}
	before, err := commits(nodes)
	if err != nil {
		return row{}, err
	}
	trips, asked, answered := p.trips.Load(), p.asked.Load(), p.answered.Load()
	if _, err := rateAt(ctx, nodes.urls, connections, "echo hello", "TASK_STATE_COMPLETED", n); err != nil {
		return row{}, err
	}
	trips, asked, answered = p.trips.Load()-trips, p.asked.Load()-asked, p.answered.Load()-answered
	after, err := commits(nodes)
	if err != nil {
		return row{}, err
	}
	return row{
		Name: "round trips to the database for a commit", Nodes: true,
		Handoff: fmt.Sprintf("%.2f; %.0f bytes to the database for a task, %.0f back", float64(trips)/(after-before), float64(asked)/float64(n), float64(answered)/float64(n)),
		Comment: fmt.Sprintf("Counted between the node and the server, %.1f tasks in a commit, hints over NATS.", float64(n)/(after-before)),
	}, nil
}

// benchAlone measures a task that nothing else runs beside, where its time goes,
// and the same on SQLite.
func benchAlone(ctx context.Context, d *database, n int) (row, error) {
	_, url := d.schema()
	nodes, err := setup{nodes: 1, store: url}.start(ctx)
	if err != nil {
		return row{}, err
	}
	defer nodes.stop()
	file, err := setup{nodes: 1}.start(ctx)
	if err != nil {
		return row{}, err
	}
	defer file.stop()
	for _, c := range []*cluster{nodes, file} {
		if err := c.warm(ctx); err != nil {
			return row{}, err
		}
	}
	if err := d.forget(ctx); err != nil {
		return row{}, err
	}
	before, err := d.read(ctx)
	if err != nil {
		return row{}, err
	}
	times, err := alone(ctx, nodes.urls[0], "echo hello", n)
	if err != nil {
		return row{}, err
	}
	after, err := d.read(ctx)
	if err != nil {
		return row{}, err
	}
	statements, err := d.statements(ctx)
	if err != nil {
		return row{}, err
	}
	messages, err := alone(ctx, nodes.urls[0], "message hello", n)
	if err != nil {
		return row{}, err
	}
	beside, err := alone(ctx, file.urls[0], "echo hello", n)
	if err != nil {
		return row{}, err
	}
	inServer := 0.0
	for _, s := range statements {
		if !strings.Contains(s.text, "pg_notify") {
			inServer += s.time
		}
	}
	spent := after.minus(before)
	median, base := percentile(times, 0.5), percentile(beside, 0.5)
	return row{
		Name: "one task alone, until its answer", Nodes: true, Ratio: median / base,
		Handoff: fmt.Sprintf("p50 %.2f, p99 %.2f ms", median, percentile(times, 0.99)),
		Peer:    fmt.Sprintf("p50 %.2f, p99 %.2f ms", base, percentile(beside, 0.99)),
		Comment: fmt.Sprintf("One connection, %d tasks. Of the mean of %.2f ms, statements take %.2f ms, and fsyncs of the WAL %.2f ms (%.1f of them for a task); a message that writes nothing takes %.2f ms through the same node.",
			n, mean(times), inServer/float64(n)*1000, spent.walSyncTime/float64(n)*1000, spent.walSyncs/float64(n), percentile(messages, 0.5)),
		Detail: callTable(statements, float64(n)),
	}, nil
}

// alone sends messages one after the other and returns how many milliseconds
// each took.
func alone(ctx context.Context, url, text string, n int) ([]float64, error) {
	client := newClient(1)
	defer client.CloseIdleConnections()
	var times []float64
	for range n {
		request := body("SendMessage", text, "")
		began := time.Now()
		if _, err := call(ctx, client, url, request, "hello"); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began).Seconds()*1000)
	}
	return times, nil
}
