package main

import (
	"context"
	"fmt"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store/postgres"
)

// benchListPostgres is benchList on PostgreSQL.
func benchListPostgres(ctx context.Context, s scale) (row, error) {
	d, err := startDatabase(ctx, false)
	if err != nil {
		return row{}, err
	}
	defer d.stop()
	var p99, p50 [2]float64
	filling := 0.0
	for i, n := range []int{min(10_000, s.tasks), s.tasks} {
		schema, url := d.schema()
		st, err := postgres.Open(ctx, url, postgres.Options{})
		if err != nil {
			return row{}, err
		}
		began := time.Now()
		err = fillStore(ctx, st, n, a2a.StateCompleted, 512)
		filling = float64(n) / time.Since(began).Seconds()
		if err == nil {
			_, err = st.Expire(ctx, 1) // folds the totals
		}
		if closed := st.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return row{}, err
		}
		if _, err := d.relations(ctx, schema); err != nil { // vacuums
			return row{}, err
		}
		nodes, err := setup{nodes: 1, store: url}.start(ctx)
		if err != nil {
			return row{}, err
		}
		_, err = listTimes(ctx, nodes.urls[0]) // what is read for the first time comes from the disk
		var times []float64
		if err == nil {
			times, err = listTimes(ctx, nodes.urls[0])
		}
		nodes.stop()
		if err != nil {
			return row{}, err
		}
		p99[i], p50[i] = percentile(times, 0.99), percentile(times, 0.5)
	}
	r := listRow(s, p99)
	r.Nodes = true
	r.Comment = fmt.Sprintf("Measured through a node, after a vacuum; p50 %.1f ms, and %.1f ms with 10,000 tasks. The tasks were written at %.0f/s, 512 at a time, straight into the store.", p50[1], p50[0], filling)
	return r, nil
}
