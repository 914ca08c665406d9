package erp

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
)

// IdempotencyKey is the member of a call's _meta that has its idempotency key.
const IdempotencyKey = "handoff.example/idempotencyKey"

// Receipt is a goods receipt: what has arrived of an order.
type Receipt struct {
	Number        string `json:"number"`
	PurchaseOrder string `json:"purchaseOrder"`
	Units         int    `json:"units"`
	Status        string `json:"status,omitempty"` // draft or posted
	PostedBy      string `json:"postedBy,omitempty"`
}

// DraftOrder makes a purchase order that people still have to post. A call with a
// key that was used returns what the first has made.
func (s *System) DraftOrder(ctx context.Context, key string, o Order) (Order, error) {
	o.Status, o.PostedBy = "draft", ""
	return once(ctx, s, "draft_order", key, o, func(tx *sql.Tx) error {
		if o.Units <= 0 || o.UnitPrice <= 0 || o.Total != o.Units*o.UnitPrice { // the total decides who is asked
			return ErrTotal
		}
		var known bool
		err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM article, warehouse WHERE sku = ? AND code = ?)`, o.SKU, o.Warehouse).Scan(&known)
		if err == nil && !known {
			return fmt.Errorf("article %s or warehouse %s: %w", o.SKU, o.Warehouse, ErrUnknown)
		}
		if err != nil {
			return err
		}
		return insert(ctx, tx, `
			INSERT INTO purchase_order (number, sku, units, warehouse, incoterm, unit_price, total, lead_days)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			o.Number, o.SKU, o.Units, o.Warehouse, o.Incoterm, o.UnitPrice, o.Total, o.LeadTimeDays)
	})
}

// DraftReceipt writes down what has arrived of an order, as a draft. A key counts as
// for DraftOrder.
func (s *System) DraftReceipt(ctx context.Context, key string, r Receipt) (Receipt, error) {
	r.Status, r.PostedBy = "draft", ""
	return once(ctx, s, "draft_receipt", key, r, func(tx *sql.Tx) error {
		var ordered int
		if err := tx.QueryRowContext(ctx, `SELECT units FROM purchase_order WHERE number = ?`, r.PurchaseOrder).Scan(&ordered); err != nil {
			return unknown(err, "order "+r.PurchaseOrder)
		}
		return insert(ctx, tx, `INSERT INTO goods_receipt (number, purchase_order, units) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			r.Number, r.PurchaseOrder, r.Units)
	})
}

func insert(ctx context.Context, tx *sql.Tx, statement string, values ...any) error {
	result, err := tx.ExecContext(ctx, statement, values...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrExists)
	}
	return nil
}

// once makes a document in the transaction that notes the call, so that whichever
// process dies, both are there or none is.
func once[T any](ctx context.Context, s *System, tool, key string, document T, write func(tx *sql.Tx) error) (T, error) {
	var none T
	if key == "" {
		return none, ErrNoKey
	}
	wanted, err := json.Marshal(document, json.Deterministic(true))
	if err != nil {
		return none, fmt.Errorf("write %s: %w", tool, err)
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		var before, answer string
		err := tx.QueryRowContext(ctx, `SELECT arguments, answer FROM made WHERE tool = ? AND key = ?`, tool, key).Scan(&before, &answer)
		switch {
		case err == nil && before != string(wanted):
			return ErrOtherKey
		case err == nil:
			return json.Unmarshal([]byte(answer), &document)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if err := write(tx); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO made VALUES (?, ?, ?, ?)`, tool, key, string(wanted), string(wanted))
		return err
	})
	if err != nil {
		return none, fmt.Errorf("%s: %w", tool, err)
	}
	return document, nil
}
