package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

// store keeps what was heard and has to be said. Each row of it is one thing to do.
type store struct{ db *sql.DB }

const schema = `
CREATE TABLE IF NOT EXISTS heard (
	n INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,      -- of the messenger, which sends it until we have it
	conversation TEXT NOT NULL,
	words TEXT NOT NULL,
	sent INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS heard_open ON heard (n) WHERE sent = 0;
CREATE TABLE IF NOT EXISTS conversations (
	id TEXT PRIMARY KEY,          -- of the messenger
	context TEXT NOT NULL DEFAULT '',
	task TEXT NOT NULL DEFAULT '',  -- the newest
	over INTEGER NOT NULL DEFAULT 1, -- that task needs no more answers
	field TEXT NOT NULL DEFAULT '', -- of the answer that the question wants
	choices TEXT NOT NULL DEFAULT '' -- of it, a JSON array
);
CREATE TABLE IF NOT EXISTS said (
	n INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,      -- of the agent's event, which it sends until we have it
	conversation TEXT NOT NULL,
	words TEXT NOT NULL,
	told INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS said_open ON said (n) WHERE told = 0;
CREATE TABLE IF NOT EXISTS pieces (
	task TEXT NOT NULL, artifact TEXT NOT NULL, words TEXT NOT NULL,
	PRIMARY KEY (task, artifact)
);`

func openStore(ctx context.Context, file string) (*store, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), db.Close())
	}
	return &store{db}, nil
}

// hear keeps a message of the messenger; one that is known changes nothing.
func (s *store) hear(ctx context.Context, id, conversation, words string) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO heard (id, conversation, words) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, id, conversation, words)
	return err
}

// heard is a message for the agent, and where its conversation stands.
type heard struct {
	id, conversation, words     string
	context, task, field, wants string
	over                        bool
}

// next returns the oldest message that the agent does not have, nil for none.
func (s *store) next(ctx context.Context) (*heard, error) {
	h := &heard{}
	err := s.db.QueryRowContext(ctx, `
		SELECT h.id, h.conversation, h.words, coalesce(c.context, ''), coalesce(c.task, ''), coalesce(c.field, ''), coalesce(c.choices, ''), coalesce(c.over, 1)
		FROM heard h LEFT JOIN conversations c ON c.id = h.conversation WHERE h.sent = 0 ORDER BY h.n LIMIT 1`,
	).Scan(&h.id, &h.conversation, &h.words, &h.context, &h.task, &h.field, &h.wants, &h.over)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return h, err
}

// sent notes that the agent has a message, and what came of it.
func (s *store) sent(ctx context.Context, h *heard, contextID, task, reply string) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		// The events of the task may have been faster: they know whether it is over.
		_, err := tx.ExecContext(ctx, `
			INSERT INTO conversations (id, context, task, over) VALUES (?1, ?2, ?3, ?4)
			ON CONFLICT DO UPDATE SET context = ?2, over = CASE WHEN task = ?3 THEN over ELSE ?4 END, task = ?3`,
			h.conversation, contextID, task, task == "")
		if err == nil && reply != "" {
			_, err = tx.ExecContext(ctx, `INSERT INTO said (id, conversation, words) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, "reply/"+h.id, h.conversation, reply)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE heard SET sent = 1 WHERE id = ?`, h.id)
		}
		return err
	})
}

// event is what an event of the agent says.
type event struct {
	id, conversation, context, task string
	words                           string // to tell
	artifact, piece                 string // to keep until the artifact is whole
	begins, whole                   bool   // the artifact
	status, over                    bool
	field, choices                  string // of a question
}

// say keeps what the agent has said; an event that is known changes nothing.
func (s *store) say(ctx context.Context, e *event) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		words := e.words
		if e.artifact != "" {
			if e.begins {
				if _, err := tx.ExecContext(ctx, `DELETE FROM pieces WHERE task = ? AND artifact = ?`, e.task, e.artifact); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO pieces (task, artifact, words) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET words = words || ?3`, e.task, e.artifact, e.piece)
			if err != nil {
				return err
			}
		}
		if e.whole || e.status {
			rows, err := tx.QueryContext(ctx, `DELETE FROM pieces WHERE task = ?1 AND (?2 = '' OR artifact = ?2) RETURNING words`, e.task, e.artifact)
			if err != nil {
				return err
			}
			written := ""
			for rows.Next() {
				var piece string
				if err := rows.Scan(&piece); err != nil {
					return errors.Join(err, rows.Close())
				}
				written += piece + "\n"
			}
			if err := rows.Err(); err != nil {
				return err
			}
			words = written + words
		}
		result, err := tx.ExecContext(ctx, `INSERT INTO said (id, conversation, words, told) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, e.id, e.conversation, words, words == "")
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errKnown)
		}
		if !e.status {
			return nil
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO conversations (id, context, task, over, field, choices) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
			ON CONFLICT DO UPDATE SET context = ?2, task = ?3, over = ?4, field = ?5, choices = ?6`,
			e.conversation, e.context, e.task, e.over, e.field, e.choices)
		return err
	})
}

// errKnown says that an event was here before. What it would have changed is undone.
var errKnown = errors.New("the event is known")

// said is something for the messenger.
type said struct{ id, conversation, words string }

// nextSaid returns the oldest thing that the messenger does not have, nil for none.
func (s *store) nextSaid(ctx context.Context) (*said, error) {
	w := &said{}
	err := s.db.QueryRowContext(ctx, `SELECT id, conversation, words FROM said WHERE told = 0 ORDER BY n LIMIT 1`).Scan(&w.id, &w.conversation, &w.words)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return w, err
}

func (s *store) told(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE said SET told = 1 WHERE id = ?`, id)
	return err
}

func (s *store) change(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
