package sqlite

import (
	"context"

	"handoff.example/handoff/a2a"
)

// realm is one agent of one owner.
type realm struct{ tenant, owner, agent string }

// realmID returns the number of a realm, and makes one when it is new.
func (w *writer) realmID(r realm) (int64, error) {
	if id, ok := w.realms[r]; ok {
		return id, nil
	}
	id, err := w.conn.number(context.Background(), "SELECT id FROM realms WHERE tenant=? AND owner=? AND agent=?", r.tenant, r.owner, r.agent)
	if err != nil {
		return 0, err
	}
	if id == 0 {
		w.clock.realm++
		id = w.clock.realm
		if _, err := w.conn.run("INSERT INTO realms (id, tenant, owner, agent) VALUES (?,?,?,?)", id, r.tenant, r.owner, r.agent); err != nil {
			return 0, err
		}
	}
	if len(w.realms) >= maxCachedIDs {
		clear(w.realms)
	}
	w.realms[r] = id
	return id, nil
}

// counts gathers how the totals change in a transaction.
type counts struct {
	totals   map[totalKey]int64
	contexts map[contextKey]int64
}

type totalKey struct {
	realm int64
	state a2a.TaskState
}

type contextKey struct {
	totalKey
	context string
}

func (c *counts) clear() {
	c.totals = map[totalKey]int64{}
	c.contexts = map[contextKey]int64{}
}

// add counts n more tasks.
func (c *counts) add(realm int64, context string, state a2a.TaskState, n int64) {
	key := totalKey{realm, state}
	c.totals[key] += n
	c.contexts[contextKey{key, context}] += n
}

// flush writes the totals.
func (c *counts) flush(db *conn) error {
	for key, n := range c.totals {
		if n == 0 {
			continue
		}
		if _, err := db.run("INSERT INTO totals (realm, state, n) VALUES (?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n", key.realm, int64(key.state), n); err != nil {
			return err
		}
		if n < 0 {
			if _, err := db.run("DELETE FROM totals WHERE realm=? AND state=? AND n=0", key.realm, int64(key.state)); err != nil {
				return err
			}
		}
	}
	for key, n := range c.contexts {
		if n == 0 {
			continue
		}
		if _, err := db.run("INSERT INTO context_totals (realm, context, state, n) VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n", key.realm, key.context, int64(key.state), n); err != nil {
			return err
		}
		if n < 0 {
			if _, err := db.run("DELETE FROM context_totals WHERE realm=? AND context=? AND state=? AND n=0", key.realm, key.context, int64(key.state)); err != nil {
				return err
			}
		}
	}
	clear(c.totals)
	clear(c.contexts)
	return nil
}
