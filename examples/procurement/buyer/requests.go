package buyer

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"
	"path/filepath"

	"handoff.example/handoff/agent"

	_ "modernc.org/sqlite" // the driver
)

//go:embed schema.sql
var schema string

// requests are the buyer's own: what is to be bought, and how far that is.
type requests struct{ db *sql.DB }

type request struct {
	Number    string `json:"number"`
	Task      string `json:"task"`
	SKU       string `json:"sku"`
	Units     int    `json:"units"`
	Warehouse string `json:"warehouse"`
	Status    string `json:"status"`
	Incoterm  string `json:"incoterm,omitzero"`
	UnitPrice int    `json:"unitPrice,omitzero"`
	LeadDays  int    `json:"leadTimeDays,omitzero"`
}

// quote is what the supplier offers.
type quote struct {
	Incoterm  string `json:"incoterm"`
	UnitPrice int    `json:"unitPrice"`
	LeadDays  int    `json:"leadTimeDays"`
}

// errTaken is why a request cannot be made.
var errTaken = errors.New("that number is another task's already")

// openRequests opens the file and fills one that is new.
func openRequests(ctx context.Context, file string) (*requests, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open requests: %w", err)
	}
	r := &requests{db}
	err = r.change(ctx, func(tx *sql.Tx) error {
		var tables int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil || tables > 0 {
			return err
		}
		_, err := tx.ExecContext(ctx, schema)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fill requests: %w", err), db.Close())
	}
	return r, nil
}

func (r *requests) change(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// begin writes a request down for its task. A turn that runs again after a crash
// finds the request that it has made.
func (r *requests) begin(ctx context.Context, q request) error {
	_, err := r.db.ExecContext(ctx, `INSERT INTO request (number, task, sku, units, warehouse) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		q.Number, q.Task, q.SKU, q.Units, q.Warehouse)
	if err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	kept, err := r.find(ctx, "number", q.Number)
	if errors.Is(err, sql.ErrNoRows) || err == nil && kept.Task != q.Task {
		return errTaken
	}
	return err
}

// forget takes a request back that came to nothing.
func (r *requests) forget(ctx context.Context, number string) error {
	if _, err := r.db.ExecContext(ctx, `DELETE FROM request WHERE number = ? AND status = 'asking'`, number); err != nil {
		return fmt.Errorf("forget request: %w", err)
	}
	return nil
}

// find returns the request with that number or task.
func (r *requests) find(ctx context.Context, column, value string) (q request, err error) {
	err = r.db.QueryRowContext(ctx, `
		SELECT number, task, sku, units, warehouse, status, coalesce(incoterm, ''), coalesce(unit_price, 0), coalesce(lead_days, 0)
		FROM request WHERE CASE ? WHEN 'task' THEN task ELSE number END = ?`, column, value).
		Scan(&q.Number, &q.Task, &q.SKU, &q.Units, &q.Warehouse, &q.Status, &q.Incoterm, &q.UnitPrice, &q.LeadDays)
	if err != nil {
		return q, fmt.Errorf("read request: %w", err)
	}
	return q, nil
}

// price puts a quote on the request.
func (r *requests) price(ctx context.Context, number string, q quote, by *agent.Outcome) error {
	return r.record(ctx, number, by, `UPDATE request SET incoterm = ?2, unit_price = ?3, lead_days = ?4 WHERE number = ?1`,
		q.Incoterm, q.UnitPrice, q.LeadDays)
}

// status puts on the request how far it is, and the delegation that is why, if one is.
func (r *requests) status(ctx context.Context, number, status string, by *agent.Outcome) error {
	return r.record(ctx, number, by, `UPDATE request SET status = ?2 WHERE number = ?1`, status)
}

func (r *requests) record(ctx context.Context, number string, by *agent.Outcome, update string, args ...any) error {
	err := r.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, update, append([]any{number}, args...)...); err != nil {
			return err
		}
		if by == nil || by.Delegation == "" { // it was refused
			return nil
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO delegation VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			by.Delegation, number, by.To, by.State.String(), by.Text())
		return err
	})
	if err != nil {
		return fmt.Errorf("change request: %w", err)
	}
	return nil
}
