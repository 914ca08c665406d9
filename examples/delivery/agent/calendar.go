package main

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

//go:embed schema.sql
var schema string

// calendar is the ERP system: orders, docks and who has booked them.
type calendar struct{ db *sql.DB }

// What a calendar refuses.
var (
	errUnknownOrder = errors.New("the purchase order is not known")
	errTaken        = errors.New("the dock is taken at that time")
	errBooked       = errors.New("the purchase order has a booking already")
)

type order struct {
	number, supplier, warehouse, status, readyOn string
}

// offer is the earliest time at which docks are free.
type offer struct {
	day, hours string
	docks      []int
}

type booking struct {
	id            int64
	warehouse     string
	dock          int
	day, hours    string
	tailLift      bool
	purchaseOrder string
	task          string
}

// openCalendar opens the file and fills one that is new. Several turns use the
// file at the same time, which a WAL would not survive: its first two users race
// for the change of the mode, and no timeout applies to that.
func openCalendar(ctx context.Context, file string) (*calendar, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open calendar: %w", err)
	}
	c := &calendar{db: db}
	err = c.change(ctx, func(tx *sql.Tx) error {
		var tables int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = 'booking'`).Scan(&tables); err != nil || tables > 0 {
			return err
		}
		_, err := tx.ExecContext(ctx, schema)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fill calendar: %w", err), db.Close())
	}
	return c, nil
}

func (c *calendar) close() error { return c.db.Close() }

func (c *calendar) change(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (c *calendar) order(ctx context.Context, number string) (order, error) {
	var o order
	err := c.db.QueryRowContext(ctx, `SELECT number, supplier, warehouse, status, ready_on FROM purchase_order WHERE number = ?`, number).
		Scan(&o.number, &o.supplier, &o.warehouse, &o.status, &o.readyOn)
	if errors.Is(err, sql.ErrNoRows) {
		return o, errUnknownOrder
	}
	if err != nil {
		return o, fmt.Errorf("read purchase order: %w", err)
	}
	return o, nil
}

// keepTask writes on the order which task works for it, and how far it is.
func (c *calendar) keepTask(ctx context.Context, order, task, taskContext, state string) error {
	_, err := c.db.ExecContext(ctx, `UPDATE purchase_order SET task_id = ?, context_id = ?, task_state = ? WHERE number = ?`,
		task, taskContext, state, order)
	if err != nil {
		return fmt.Errorf("keep task on purchase order: %w", err)
	}
	return nil
}

// earliest returns the first time from a day on at which a dock is free, or one
// that takes trucks with a tail lift. It has no docks when there is none.
func (c *calendar) earliest(ctx context.Context, warehouse, from string, tailLift bool) (o offer, err error) {
	rows, err := c.db.QueryContext(ctx, `
		SELECT s.day, s.hours, d.number
		FROM slot s JOIN dock d ON d.warehouse = s.warehouse
		LEFT JOIN booking b ON b.warehouse = s.warehouse AND b.day = s.day AND b.hours = s.hours AND b.dock = d.number
		WHERE s.warehouse = ? AND s.day >= ? AND d.tail_lift >= ? AND b.id IS NULL
		ORDER BY s.day, s.hours, d.number`, warehouse, from, tailLift)
	if err != nil {
		return o, fmt.Errorf("look for free docks: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var day, hours string
		var dock int
		if err := rows.Scan(&day, &hours, &dock); err != nil {
			return o, fmt.Errorf("look for free docks: %w", err)
		}
		if len(o.docks) > 0 && (day != o.day || hours != o.hours) {
			break
		}
		o.day, o.hours, o.docks = day, hours, append(o.docks, dock)
	}
	return o, rows.Err()
}

// book reserves a dock. The unique constraints of the table refuse a dock that
// is taken and an order that has a booking, however many turns book at once.
func (c *calendar) book(ctx context.Context, b *booking, taskContext string) error {
	return c.change(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `
			INSERT INTO booking (warehouse, dock, day, hours, tail_lift, purchase_order, task_id) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			b.warehouse, b.dock, b.day, b.hours, b.tailLift, b.purchaseOrder, b.task)
		if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
			var booked int
			if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM booking WHERE purchase_order = ?`, b.purchaseOrder).Scan(&booked); err != nil {
				return fmt.Errorf("look for booking: %w", err)
			}
			if booked > 0 {
				return errBooked
			}
			return errTaken
		}
		if err != nil {
			return fmt.Errorf("book dock: %w", err)
		}
		if b.id, err = result.LastInsertId(); err != nil {
			return fmt.Errorf("book dock: %w", err)
		}
		_, err = tx.ExecContext(ctx, `UPDATE purchase_order SET task_id = ?, context_id = ?, task_state = 'COMPLETED' WHERE number = ?`,
			b.task, taskContext, b.purchaseOrder)
		if err != nil {
			return fmt.Errorf("keep task on purchase order: %w", err)
		}
		return nil
	})
}

// bookingOf returns the booking of a task, or of an order when task is "".
func (c *calendar) bookingOf(ctx context.Context, task, order string) (b booking, found bool, err error) {
	err = c.db.QueryRowContext(ctx, `
		SELECT id, warehouse, dock, day, hours, tail_lift, purchase_order, coalesce(task_id, '')
		FROM booking WHERE task_id = ? OR ? = '' AND purchase_order = ?`, task, task, order).
		Scan(&b.id, &b.warehouse, &b.dock, &b.day, &b.hours, &b.tailLift, &b.purchaseOrder, &b.task)
	if errors.Is(err, sql.ErrNoRows) {
		return b, false, nil
	}
	if err != nil {
		return b, false, fmt.Errorf("look for booking: %w", err)
	}
	return b, true, nil
}
