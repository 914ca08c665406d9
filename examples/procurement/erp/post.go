package erp

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// PostOrder makes an order binding, in the name of a person.
func (s *System) PostOrder(ctx context.Context, number, by string) (Order, error) {
	err := s.change(ctx, func(tx *sql.Tx) error {
		return post(ctx, tx, `UPDATE purchase_order SET status = 'posted', posted_by = ?2 WHERE number = ?1 AND status = 'draft'`, number, by)
	})
	o, gone := s.Order(ctx, number)
	if gone != nil {
		return o, gone
	}
	if err != nil {
		return o, fmt.Errorf("post order %s: %w", number, err)
	}
	return o, nil
}

// PostReceipt takes what has arrived into stock, in the name of a person.
func (s *System) PostReceipt(ctx context.Context, number, period, by string) (Receipt, error) {
	r := Receipt{Number: number}
	err := s.change(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, `SELECT purchase_order, units FROM goods_receipt WHERE number = ?`, number).Scan(&r.PurchaseOrder, &r.Units); err != nil {
			return unknown(err, "receipt "+number)
		}
		if err := post(ctx, tx, `UPDATE goods_receipt SET status = 'posted', posted_by = ?2 WHERE number = ?1 AND status = 'draft'`, number, by); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO movement (sku, warehouse, period, units, unit_cost, document)
			SELECT sku, warehouse, ?, ?, unit_price, ? FROM purchase_order WHERE number = ?`, period, r.Units, number, r.PurchaseOrder)
		return err
	})
	if err != nil {
		return r, fmt.Errorf("post receipt %s: %w", number, err)
	}
	r.Status, r.PostedBy = "posted", by
	return r, nil
}

func post(ctx context.Context, tx *sql.Tx, statement, number, by string) error {
	result, err := tx.ExecContext(ctx, statement, number, by)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrPosted)
	}
	return nil
}
