package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
)

// sealedTables are the places of sealed values, by their kind. Which selects
// what comes after a value, and update replaces one.
var sealedTables = [...]struct {
	count, which, update string
	after                func(v *store.Sealed) []any // the last arguments of which
	key                  func(v *store.Sealed) []any // the last arguments of update
}{
	store.SealedGrant: {
		count:  "SELECT substring(data FOR $1), count(*) FROM grants WHERE data IS NOT NULL GROUP BY 1",
		which:  "SELECT id, 0::bigint, ''::bytea, data FROM grants WHERE substring(data FOR $1) = $2 AND id > $4 ORDER BY id LIMIT $3",
		update: "UPDATE grants SET data = $1 WHERE data = $2 AND id = $3",
		after:  sealedGrant, key: sealedGrant,
	},
	store.SealedWebhook: {
		count:  "SELECT substring(secrets FOR $1), count(*) FROM webhooks WHERE secrets IS NOT NULL GROUP BY 1",
		which:  "SELECT ''::bytea, task, id, secrets FROM webhooks WHERE substring(secrets FOR $1) = $2 AND (task, id) > ($4, $5) ORDER BY task, id LIMIT $3",
		update: "UPDATE webhooks SET secrets = $1 WHERE secrets = $2 AND task = $3 AND id = $4",
		after:  sealedWebhook, key: sealedWebhook,
	},
	store.SealedDelegation: {
		count:  "SELECT substring(secret FOR $1), count(*) FROM delegations WHERE secret IS NOT NULL GROUP BY 1",
		which:  "SELECT ''::bytea, task, ''::bytea, secret FROM delegations WHERE secret IS NOT NULL AND substring(secret FOR $1) = $2 AND task > $4 ORDER BY task LIMIT $3",
		update: "UPDATE delegations SET secret = $1 WHERE secret = $2 AND task = $3",
		after:  sealedDelegation, key: sealedDelegation,
	},
	store.SealedPeer: {
		count:  "SELECT substring(added FOR $1), count(*) FROM peers WHERE added IS NOT NULL GROUP BY 1",
		which:  "SELECT name, 0::bigint, ''::bytea, added FROM peers WHERE substring(added FOR $1) = $2 AND name > $4 ORDER BY name LIMIT $3",
		update: "UPDATE peers SET added = $1, version = version + 1 WHERE added = $2 AND name = $3",
		after:  sealedPeer, key: sealedPeer,
	},
	store.SealedTokens: {
		count:  "SELECT substring(tokens FOR $1), count(*) FROM peers WHERE tokens IS NOT NULL GROUP BY 1",
		which:  "SELECT name, 0::bigint, ''::bytea, tokens FROM peers WHERE substring(tokens FOR $1) = $2 AND name > $4 ORDER BY name LIMIT $3",
		update: "UPDATE peers SET tokens = $1, version = version + 1 WHERE tokens = $2 AND name = $3",
		after:  sealedPeer, key: sealedPeer,
	},
	store.SealedDoc: {
		count:  "SELECT substring(secret FOR $1), count(*) FROM docs WHERE secret IS NOT NULL GROUP BY 1",
		which:  "SELECT space, 0::bigint, key, secret FROM docs WHERE secret IS NOT NULL AND substring(secret FOR $1) = $2 AND (space, key) > ($4, $5) ORDER BY space, key LIMIT $3",
		update: "UPDATE docs SET secret = $1, version = version + 1 WHERE secret = $2 AND space = $3 AND key = $4",
		after:  sealedDoc, key: sealedDoc,
	},
}

func sealedGrant(v *store.Sealed) []any      { return []any{[]byte(v.Grant)} }
func sealedWebhook(v *store.Sealed) []any    { return []any{v.Task, []byte(v.Webhook)} }
func sealedDelegation(v *store.Sealed) []any { return []any{v.Task} }
func sealedPeer(v *store.Sealed) []any       { return []any{[]byte(v.Peer)} }
func sealedDoc(v *store.Sealed) []any        { return []any{[]byte(v.Space), []byte(v.Doc)} }

// SealKeys counts sealed values by the ids of their keys.
func (s *Store) SealKeys(ctx context.Context) (counts map[string]int, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		counts = map[string]int{}
		for i := range sealedTables {
			rows, err := c.Query(ctx, sealedTables[i].count, int32(store.SealKeySize))
			if err != nil {
				return err
			}
			var key []byte
			var count int
			if _, err = pgx.ForEachRow(rows, []any{&key, &count}, func() error {
				counts[string(key)] += count
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return counts, err
}

// SealedWith returns values that were sealed with a key, in the order of their
// kinds.
func (s *Store) SealedWith(ctx context.Context, key string, after *store.Sealed, limit int) (list []store.Sealed, err error) {
	first := after.Kind()
	if after == nil {
		after = &store.Sealed{}
	}
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		list = nil
		from := after
		for kind := first; int(kind) < len(sealedTables) && !full(list, limit); kind++ {
			table := &sealedTables[kind]
			args := append([]any{int32(store.SealKeySize), []byte(key), store.MaxSealed - len(list)}, table.after(from)...)
			if list, err = collectSealed(list, limit, kind)(c.Query(ctx, table.which, args...)); err != nil {
				return err
			}
			from = &store.Sealed{}
		}
		return nil
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
func collectSealed(list []store.Sealed, limit int, kind store.SealedKind) func(pgx.Rows, error) ([]store.Sealed, error) {
	return func(rows pgx.Rows, err error) ([]store.Sealed, error) {
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for !full(list, limit) && rows.Next() {
			var v store.Sealed
			var name, within []byte
			if err := rows.Scan(&name, &v.Task, &within, &v.Value); err != nil {
				return nil, err
			}
			switch kind {
			case store.SealedGrant:
				v.Grant = string(name)
			case store.SealedWebhook:
				v.Webhook = string(within)
			case store.SealedDoc:
				v.Space, v.Doc = string(name), string(within)
			case store.SealedPeer, store.SealedTokens:
				v.Peer, v.Tokens = string(name), kind == store.SealedTokens
			}
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
			v := &list[i]
			table := &sealedTables[v.Kind()]
			q.Queue(table.update, append([]any{v.Next, v.Value}, table.key(v)...)...)
		}
		return tx.SendBatch(ctx, &q).Close()
	})
}
