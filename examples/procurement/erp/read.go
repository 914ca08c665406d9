package erp

import (
	"context"
	"fmt"
)

// Stock is how much of an article lies in a warehouse.
type Stock struct {
	SKU       string `json:"sku"`
	Warehouse string `json:"warehouse"`
	City      string `json:"city"`
	Units     int    `json:"units"`
}

// Price is what an article costs.
type Price struct {
	SKU      string `json:"sku"`
	Name     string `json:"name"`
	Price    int    `json:"price"`
	Currency string `json:"currency"`
}

// Order is a purchase order.
type Order struct {
	Number       string `json:"number"`
	SKU          string `json:"sku"`
	Units        int    `json:"units"`
	Warehouse    string `json:"warehouse"`
	Incoterm     string `json:"incoterm"`
	UnitPrice    int    `json:"unitPrice"`
	Total        int    `json:"total"`
	LeadTimeDays int    `json:"leadTimeDays"`
	Status       string `json:"status,omitempty"` // draft or posted
	PostedBy     string `json:"postedBy,omitempty"`
}

// Stock returns how much of an article lies in a warehouse.
func (s *System) Stock(ctx context.Context, sku, warehouse string) (st Stock, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT a.sku, w.code, w.city, coalesce((SELECT sum(units) FROM movement WHERE sku = a.sku AND warehouse = w.code), 0)
		FROM article a, warehouse w WHERE a.sku = ? AND w.code = ?`, sku, warehouse).
		Scan(&st.SKU, &st.Warehouse, &st.City, &st.Units)
	if err != nil {
		return st, unknown(err, "stock of "+sku+" in "+warehouse)
	}
	return st, nil
}

// Stocks returns what lies in a warehouse, by article.
func (s *System) Stocks(ctx context.Context, warehouse string) ([]Stock, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT m.sku, w.code, w.city, sum(m.units) FROM movement m JOIN warehouse w ON w.code = m.warehouse
		WHERE w.code = ? GROUP BY m.sku ORDER BY m.sku`, warehouse)
	if err != nil {
		return nil, fmt.Errorf("read stock: %w", err)
	}
	defer rows.Close()
	var all []Stock
	for rows.Next() {
		var st Stock
		if err := rows.Scan(&st.SKU, &st.Warehouse, &st.City, &st.Units); err != nil {
			return nil, fmt.Errorf("read stock: %w", err)
		}
		all = append(all, st)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read stock: %w", err)
	}
	return all, nil
}

// Price returns what a unit of an article was bought for last.
func (s *System) Price(ctx context.Context, sku string) (Price, error) {
	p := Price{Currency: "IDR"}
	if err := s.db.QueryRowContext(ctx, `SELECT sku, name, price FROM article WHERE sku = ?`, sku).Scan(&p.SKU, &p.Name, &p.Price); err != nil {
		return p, unknown(err, "article "+sku)
	}
	return p, nil
}

// Prices returns all articles.
func (s *System) Prices(ctx context.Context) ([]Price, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT sku, name, price FROM article ORDER BY sku`)
	if err != nil {
		return nil, fmt.Errorf("read articles: %w", err)
	}
	defer rows.Close()
	var all []Price
	for rows.Next() {
		p := Price{Currency: "IDR"}
		if err := rows.Scan(&p.SKU, &p.Name, &p.Price); err != nil {
			return nil, fmt.Errorf("read articles: %w", err)
		}
		all = append(all, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read articles: %w", err)
	}
	return all, nil
}

// Order returns a purchase order.
func (s *System) Order(ctx context.Context, number string) (o Order, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT number, sku, units, warehouse, incoterm, unit_price, total, lead_days, status, coalesce(posted_by, '')
		FROM purchase_order WHERE number = ?`, number).
		Scan(&o.Number, &o.SKU, &o.Units, &o.Warehouse, &o.Incoterm, &o.UnitPrice, &o.Total, &o.LeadTimeDays, &o.Status, &o.PostedBy)
	if err != nil {
		return o, unknown(err, "order "+number)
	}
	return o, nil
}
