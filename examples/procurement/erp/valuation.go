package erp

import (
	"context"
	"database/sql"
	"fmt"
)

// Valuation is what the stock was worth at the end of a month, at average cost.
type Valuation struct {
	Period   string `json:"period"`
	Articles int    `json:"articles"`
	Units    int    `json:"units"`
	Value    int    `json:"value"`
	Currency string `json:"currency"`
	Begun    int    `json:"begun"` // how often it was begun, or gone on with
}

// Value values the stock at the end of a month, one article after the other, and
// calls step after each that is written down; what step returns ends it. It may be
// ended at any moment, also by kill -9: the next call goes on where it was. A call
// after the end returns what is there, as long as nothing has come or gone since.
func (s *System) Value(ctx context.Context, period string, step func(done, of int) error) (Valuation, error) {
	v := Valuation{Period: period, Currency: "IDR"}
	id, finished, err := s.beginValuation(ctx, &v)
	if err == nil && !finished {
		err = s.goOn(ctx, id, period, step)
	}
	if err == nil {
		err = s.db.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(units), 0), coalesce(sum(value), 0) FROM valued WHERE valuation = ?`, id).
			Scan(&v.Articles, &v.Units, &v.Value)
	}
	if err != nil {
		return v, fmt.Errorf("value the stock of %s: %w", period, err)
	}
	return v, nil
}

// beginValuation finds the valuation of what has moved until now, or begins one.
func (s *System) beginValuation(ctx context.Context, v *Valuation) (id int64, finished bool, err error) {
	err = s.change(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `
			INSERT INTO valuation (period, movement) SELECT ?1, coalesce(max(id), 0) FROM movement WHERE period <= ?1
			ON CONFLICT DO UPDATE SET begun = begun + 1 - finished RETURNING id, finished, begun`, v.Period).Scan(&id, &finished, &v.Begun)
	})
	return id, finished, err
}

func (s *System) goOn(ctx context.Context, id int64, period string, step func(done, of int) error) error {
	for {
		var done, of int
		err := s.change(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `
				INSERT INTO valued
				SELECT ?1, m.sku, sum(m.units), sum(m.units) * sum(max(m.units, 0) * m.unit_cost) / max(sum(max(m.units, 0)), 1)
				FROM movement m JOIN valuation v ON v.id = ?1
				WHERE m.period <= ?2 AND m.id <= v.movement AND m.sku > coalesce((SELECT max(sku) FROM valued WHERE valuation = ?1), '')
				GROUP BY m.sku ORDER BY m.sku LIMIT 1`, id, period); err != nil {
				return err
			}
			err := tx.QueryRowContext(ctx, `
				SELECT (SELECT count(*) FROM valued WHERE valuation = ?1),
				       (SELECT count(DISTINCT m.sku) FROM movement m JOIN valuation v ON v.id = ?1 WHERE m.period <= ?2 AND m.id <= v.movement)`,
				id, period).Scan(&done, &of)
			if err == nil && done == of {
				_, err = tx.ExecContext(ctx, `UPDATE valuation SET finished = 1 WHERE id = ?`, id)
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := step(done, of); err != nil {
			return err
		}
		if done == of {
			return nil
		}
	}
}
