package main

import (
	"context"
	"fmt"
	"time"

	"handoff.example/handoff/internal/store/postgres"
)

// benchRemoval counts what it costs to remove tasks whose time is over.
func benchRemoval(ctx context.Context, d *database, n int) (row, error) {
	schema, url := d.schema()
	nodes, err := setup{nodes: 1, store: url}.start(ctx)
	if err != nil {
		return row{}, err
	}
	_, err = rateAt(ctx, nodes.urls, connections, "echo hello", "TASK_STATE_COMPLETED", n)
	nodes.stop()
	if err != nil {
		return row{}, err
	}
	if _, err := d.conn.Exec(ctx, "UPDATE "+schema+".tasks SET expires = 1"); err != nil {
		return row{}, err
	}
	if _, err := d.relations(ctx, schema); err != nil { // vacuums
		return row{}, err
	}
	st, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		return row{}, err
	}
	defer st.Close()
	if err := d.forget(ctx); err != nil {
		return row{}, err
	}
	before, err := d.written(ctx)
	if err != nil {
		return row{}, err
	}
	used, err := d.cpu()
	if err != nil {
		return row{}, err
	}
	began := time.Now()
	removed, err := st.Expire(ctx, n)
	if err != nil {
		return row{}, err
	}
	took := time.Since(began).Seconds()
	if removed != n {
		return row{}, fmt.Errorf("%d of %d tasks were removed", removed, n)
	}
	removal, err := d.written(ctx)
	if err != nil {
		return row{}, err
	}
	usedAfter, err := d.cpu()
	if err != nil {
		return row{}, err
	}
	if _, err := d.relations(ctx, schema); err != nil {
		return row{}, err
	}
	vacuumed, err := d.written(ctx)
	tasks := float64(n)
	return row{
		Name: "removal of a task whose time is over", Nodes: true,
		Handoff: fmt.Sprintf("%.0f bytes of WAL, and %.0f of the vacuum that follows", (removal-before)/tasks, (vacuumed-removal)/tasks),
		Comment: fmt.Sprintf("%d tasks by one node that does nothing else: %.0f tasks/s, %.0f µs of CPU in PostgreSQL for a task.", n, tasks/took, (usedAfter-used)/tasks*1e6),
	}, err
}

// written returns how many bytes of WAL the server has written.
func (d *database) written(ctx context.Context) (bytes float64, err error) {
	err = d.conn.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8").Scan(&bytes)
	return bytes, err
}
