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
	var p99 [2]float64
	filling := 0.0
	for i, n := range []int{min(10_000, s.tasks), s.tasks} {
		_, url := d.schema()
		st, err := postgres.Open(ctx, url, postgres.Options{})
		if err != nil {
			return row{}, err
		}
		began := time.Now()
		err = fillStore(ctx, st, n, a2a.StateCompleted, 512)
		filling = float64(n) / time.Since(began).Seconds()
		if closed := st.Close(); err == nil {
			err = closed
		}
		if err != nil {
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
		p99[i] = percentile(times, 0.99)
	}
	r := listRow(s, p99)
	r.Nodes = true
	r.Comment = fmt.Sprintf("Measured through a node, without vacuum after the tasks were written (%.0f tasks/s, 512 at a time, straight into the store).", filling)
	return r, nil
}
