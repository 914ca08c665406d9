package main

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"

	"handoff.example/handoff/agent"

	_ "modernc.org/sqlite" // the driver
)

//go:embed schema.sql
var schema string

// erp is the ERP system. An order is a draft in the end: people post it, and
// nothing here does.
type erp struct{ db *sql.DB }

type order struct {
	Number    string `json:"number"`
	Task      string `json:"task"`
	SKU       string `json:"sku"`
	Units     int    `json:"units"`
	Warehouse string `json:"warehouse"`
	Status    string `json:"status"`
	Incoterm  string `json:"incoterm,omitzero"`
	UnitPrice int    `json:"unitPrice,omitzero"`
	Amount    int    `json:"amount,omitzero"`
	LeadDays  int    `json:"leadTimeDays,omitzero"`
}

// quote is what the supplier offers.
type quote struct {
	Incoterm  string `json:"incoterm"`
	UnitPrice int    `json:"unitPrice"`
	LeadDays  int    `json:"leadTimeDays"`
}

// errRefused is why an order cannot be made.
var errRefused = errors.New("the article is not known, or there is such an order already")

// openERP opens the file and fills one that is new.
func openERP(ctx context.Context, file string) (*erp, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open ERP: %w", err)
	}
	e := &erp{db}
	err = e.change(ctx, func(tx *sql.Tx) error {
		var tables int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil || tables > 0 {
			return err
		}
		_, err := tx.ExecContext(ctx, schema)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fill ERP: %w", err), db.Close())
	}
	return e, nil
}

func (e *erp) change(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// begin writes an order down for its task. A turn that runs again after a crash
// finds the order that it has made.
func (e *erp) begin(ctx context.Context, o order) error {
	err := e.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO purchase_order (number, task, sku, units, warehouse)
			SELECT ?, ?, sku, ?, ? FROM article WHERE sku = ? ON CONFLICT DO NOTHING`,
			o.Number, o.Task, o.Units, o.Warehouse, o.SKU)
		return err
	})
	if err != nil {
		return fmt.Errorf("write order: %w", err)
	}
	switch kept, err := e.order(ctx, "number", o.Number); {
	case errors.Is(err, sql.ErrNoRows), err == nil && kept.Task != o.Task:
		return errRefused
	default:
		return err
	}
}

// order returns the order with that number or task.
func (e *erp) order(ctx context.Context, column, value string) (o order, err error) {
	err = e.db.QueryRowContext(ctx, `
		SELECT number, task, sku, units, warehouse, status, coalesce(incoterm, ''), coalesce(unit_price, 0), coalesce(amount, 0), coalesce(lead_days, 0)
		FROM purchase_order WHERE CASE ? WHEN 'task' THEN task ELSE number END = ?`, column, value).
		Scan(&o.Number, &o.Task, &o.SKU, &o.Units, &o.Warehouse, &o.Status, &o.Incoterm, &o.UnitPrice, &o.Amount, &o.LeadDays)
	if err != nil {
		return o, fmt.Errorf("read order: %w", err)
	}
	return o, nil
}

// price puts a quote on the order.
func (e *erp) price(ctx context.Context, o order, q quote, by *agent.Outcome) error {
	return e.record(ctx, o, by, `UPDATE purchase_order SET incoterm = ?2, unit_price = ?3, amount = ?3 * units, lead_days = ?4 WHERE number = ?1`,
		q.Incoterm, q.UnitPrice, q.LeadDays)
}

// status puts on the order how far it is.
func (e *erp) status(ctx context.Context, o order, status string, by *agent.Outcome) error {
	return e.record(ctx, o, by, `UPDATE purchase_order SET status = ?2 WHERE number = ?1 AND status <> 'posted'`, status)
}

// record changes an order, and puts on it the delegation that is why.
func (e *erp) record(ctx context.Context, o order, by *agent.Outcome, update string, args ...any) error {
	err := e.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, update, append([]any{o.Number}, args...)...); err != nil {
			return err
		}
		if by.Delegation == "" { // it was refused
			return nil
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO delegation VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			by.Delegation, o.Number, by.To, by.State.String(), by.Text())
		return err
	})
	if err != nil {
		return fmt.Errorf("change order: %w", err)
	}
	return nil
}
