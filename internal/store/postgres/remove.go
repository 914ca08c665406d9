package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// What one transaction removes at most, so that it is short.
const (
	removeTasks  = 256
	removeEvents = 8192
)

// Delete removes a terminal task with all that belongs to it. When it answers
// store.ErrUnavailable, the task may be gone: the next try tells.
func (s *Store) Delete(ctx context.Context, scope store.Scope, id string) error {
	err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		t, err := find(ctx, tx, scope, id, " FOR UPDATE OF t")
		if err != nil {
			return err
		}
		if !t.State.Terminal() {
			return store.ErrConflict
		}
		return remove(ctx, tx, []*record.Row{t})
	})
	if err != nil {
		return err
	}
	s.fold.wake()
	return s.purge(ctx)
}

// remove removes tasks with all that belongs to them, but for long lists of
// events, which it leaves to purge. Claims stay until their own time is over: a
// message that is sent again must not start anew.
func remove(ctx context.Context, tx pgx.Tx, tasks []*record.Row) error {
	var keys, short, long []int64
	var ids []string
	var counts counts
	events := int64(0)
	for _, t := range tasks {
		keys, ids = append(keys, t.Key), append(ids, t.ID)
		if events += t.Seq; events > removeEvents {
			long = append(long, t.Key)
		} else {
			short = append(short, t.Key)
		}
		counts.add(t.Realm, t.Context, t.State, -1)
	}
	var q pgx.Batch
	q.Queue("DELETE FROM events WHERE task = ANY($1::bigint[])", short)
	if len(long) > 0 {
		q.Queue("INSERT INTO purge (task) SELECT * FROM unnest($1::bigint[])", long)
	}
	for _, query := range []string{
		"DELETE FROM private WHERE task = ANY($1::bigint[])",
		"DELETE FROM results WHERE task = ANY($1::bigint[])",
		"DELETE FROM tasks WHERE key = ANY($1::bigint[])",
	} {
		q.Queue(query, keys)
	}
	for _, query := range []string{
		"DELETE FROM grants WHERE task = ANY($1::bytea[])",
		"DELETE FROM jobs WHERE task = ANY($1::bytea[])",
		"DELETE FROM inbox_history h USING inbox i WHERE i.task = ANY($1::bytea[]) AND h.item = i.id",
		"DELETE FROM inbox WHERE task = ANY($1::bytea[])",
	} {
		q.Queue(query, bytesOf(ids))
	}
	q.Queue("DELETE FROM delegations WHERE task = ANY($1::bigint[])", keys)
	q.Queue("DELETE FROM webhooks WHERE task = ANY($1::bigint[])", keys)
	counts.write(&q)
	return tx.SendBatch(ctx, &q).Close()
}

// purge removes what is left of tasks that were removed, also by nodes that
// have died since.
func (s *Store) purge(ctx context.Context) error {
	for {
		more := false
		err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			var task int64
			err := tx.QueryRow(ctx, "SELECT task FROM purge ORDER BY task LIMIT 1 FOR UPDATE SKIP LOCKED").Scan(&task)
			if errors.Is(err, pgx.ErrNoRows) {
				more = false
				return nil
			}
			if err != nil {
				return err
			}
			more = true
			tag, err := tx.Exec(ctx, `DELETE FROM events WHERE task = $1 AND seq = ANY(ARRAY(
  SELECT seq FROM events WHERE task = $1 ORDER BY seq LIMIT $2))`, task, removeEvents)
			if err == nil && tag.RowsAffected() < removeEvents {
				_, err = tx.Exec(ctx, "DELETE FROM purge WHERE task = $1", task)
			}
			return err
		})
		if err != nil || !more {
			return err
		}
	}
}

// Expire removes terminal tasks, claims and documents whose time is over, in transactions
// of bounded size. Several nodes may do it at once. It folds the totals too.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	tasks, err := portions(limit, func(n int) (int, error) { return s.expireTasks(ctx, n) })
	if err != nil {
		return tasks, err
	}
	if err := s.purge(ctx); err != nil {
		return tasks, err
	}
	claims, err := portions(limit, func(n int) (int, error) { return s.expireClaims(ctx, n) })
	if err != nil {
		return tasks + claims, err
	}
	docs, err := portions(limit, func(n int) (int, error) { return s.expireDocs(ctx, n) })
	if err == nil {
		err = s.foldTotals(ctx)
	}
	return tasks + claims + docs, err
}

// portions calls some until there are none, or limit is reached.
func portions(limit int, some func(n int) (int, error)) (total int, err error) {
	for total < limit {
		n, err := some(min(limit-total, removeTasks))
		if err != nil || n == 0 {
			return total, err
		}
		total += n
	}
	return total, nil
}

func (s *Store) expireTasks(ctx context.Context, limit int) (n int, err error) {
	err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		due, err := collectTasks(tx.Query(ctx, "SELECT "+taskColumns+` FROM tasks t JOIN realms r ON r.id = t.realm
 WHERE t.expires > 0 AND t.expires <= `+nowSQL+` AND t.state IN (3, 4, 5, 7) ORDER BY t.expires LIMIT $1 FOR UPDATE OF t SKIP LOCKED`, limit))
		if err != nil {
			return err
		}
		n = len(due)
		if n == 0 {
			return nil
		}
		return remove(ctx, tx, due)
	})
	return n, err
}

func (s *Store) expireClaims(ctx context.Context, limit int) (n int, err error) {
	err = s.try(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		tag, err := c.Exec(ctx, `WITH due AS MATERIALIZED (
  SELECT realm, key FROM claims WHERE expires > 0 AND expires <= `+nowSQL+` ORDER BY expires LIMIT $1 FOR UPDATE SKIP LOCKED
) DELETE FROM claims c USING due d WHERE c.realm = d.realm AND c.key = d.key`, limit)
		n = int(tag.RowsAffected())
		return err
	})
	return n, unavailable(err)
}
