package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
)

// SealKeys counts sealed values by the ids of their keys.
func (s *Store) SealKeys(ctx context.Context) (counts map[string]int, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		counts = map[string]int{}
		rows, err := c.Query(ctx, `SELECT substring(data FOR $1), count(*) FROM grants WHERE data IS NOT NULL GROUP BY 1
 UNION ALL SELECT substring(secrets FOR $1), count(*) FROM webhooks WHERE secrets IS NOT NULL GROUP BY 1`, int32(store.SealKeySize))
		if err != nil {
			return err
		}
		var key []byte
		var count int
		_, err = pgx.ForEachRow(rows, []any{&key, &count}, func() error {
			counts[string(key)] += count
			return nil
		})
		return err
	})
	return counts, err
}

// SealedWith returns values that were sealed with a key: those of grants first.
func (s *Store) SealedWith(ctx context.Context, key string, after *store.Sealed, limit int) (list []store.Sealed, err error) {
	if after == nil {
		after = &store.Sealed{}
	}
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		list = nil
		if after.Webhook == "" {
			list, err = collectSealed(list, limit)(c.Query(ctx, "SELECT id, 0::bigint, ''::bytea, data FROM grants WHERE id > $1 AND substring(data FOR $2) = $3 ORDER BY id LIMIT $4",
				[]byte(after.Grant), int32(store.SealKeySize), []byte(key), store.MaxSealed))
			if err != nil || full(list, limit) {
				return err
			}
		}
		list, err = collectSealed(list, limit)(c.Query(ctx, "SELECT ''::bytea, task, id, secrets FROM webhooks WHERE (task, id) > ($1, $2) AND substring(secrets FOR $3) = $4 ORDER BY task, id LIMIT $5",
			after.Task, []byte(after.Webhook), int32(store.SealKeySize), []byte(key), store.MaxSealed-len(list)))
		return err
	})
	return list, err
}

// full reports whether a list of sealed values is as long as it may be.
func full(list []store.Sealed, limit int) bool {
	for i := range list {
		limit -= len(list[i].Value)
	}
	return limit < 0 || len(list) >= store.MaxSealed
}

// collectSealed returns what adds rows to a list until that is full.
func collectSealed(list []store.Sealed, limit int) func(pgx.Rows, error) ([]store.Sealed, error) {
	return func(rows pgx.Rows, err error) ([]store.Sealed, error) {
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for !full(list, limit) && rows.Next() {
			var v store.Sealed
			var grant, webhook []byte
			if err := rows.Scan(&grant, &v.Task, &webhook, &v.Value); err != nil {
				return nil, err
			}
			v.Grant, v.Webhook = string(grant), string(webhook)
			list = append(list, v)
		}
		rows.Close()
		return list, rows.Err()
	}
}

// Reseal puts Next in the place of each value that is still the same.
func (s *Store) Reseal(ctx context.Context, list []store.Sealed) error {
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var q pgx.Batch
		for i := range list {
			if v := &list[i]; v.Webhook == "" {
				q.Queue("UPDATE grants SET data = $1 WHERE id = $2 AND data = $3", v.Next, []byte(v.Grant), v.Value)
			} else {
				q.Queue("UPDATE webhooks SET secrets = $1 WHERE task = $2 AND id = $3 AND secrets = $4", v.Next, v.Task, []byte(v.Webhook), v.Value)
			}
		}
		return tx.SendBatch(ctx, &q).Close()
	})
}
