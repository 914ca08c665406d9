package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// SetMaxPages makes the disk full at so many pages; 0 lifts that.
func (s *Store) SetMaxPages(ctx context.Context, pages int64) error {
	if pages == 0 {
		pages = 1 << 30
	}
	return s.write(ctx, func(w *writer, _ time.Time) error {
		_, err := w.conn.number(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		return err
	})
}

// Number returns the integer that a query answers, as committed.
func (s *Store) Number(ctx context.Context, query string) (n int64, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		n, err = c.number(ctx, query)
		return err
	})
	return n, err
}

// Plans returns the plan of each query that was prepared so far.
func (s *Store) Plans(ctx context.Context) (map[string]string, error) {
	plans := map[string]string{}
	explain := func(c *conn) error {
		for query := range c.prepared {
			if _, known := plans[query]; known || strings.HasPrefix(query, "EXPLAIN") {
				continue
			}
			var steps []string
			args := slices.Repeat([]any{int64(7)}, strings.Count(query, "?"))
			if err := c.each(ctx, func(v values) bool {
				steps = append(steps, text(v[3]))
				return true
			}, "EXPLAIN QUERY PLAN "+query, args...); err != nil {
				return fmt.Errorf("%s: %w", query, err)
			}
			plans[query] = strings.Join(steps, "\n")
		}
		return nil
	}
	err := s.write(ctx, func(w *writer, _ time.Time) error { return explain(w.conn) })
	for range s.pool {
		if err == nil {
			err = s.read(ctx, explain) // the pool hands them out in turn
		}
	}
	return plans, err
}
