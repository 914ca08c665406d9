package main

import (
	"database/sql"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// desk shows orders: GET /orders/PO-2026-0184. The order is the ERP system's, and
// the work that goes on for it is found in the node by the order's number.
func (b *buyer) desk() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{number}", func(w http.ResponseWriter, r *http.Request) {
		o, err := b.erp.order(r.Context(), "number", r.PathValue("number"))
		if errors.Is(err, sql.ErrNoRows) {
			http.NotFound(w, r)
			return
		}
		shown := map[string]any{"order": o}
		if work, werr := b.node.Delegation(r.Context(), o.Number); werr == nil {
			task, terr := work.Task(r.Context())
			if err = errors.Join(err, terr); terr == nil {
				state := map[string]any{"delegation": work.ID(), "state": task.Status.State.String()}
				if task.Status.Message != nil {
					state["says"] = task.Status.Message.Text()
				}
				shown["lastWork"] = state
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.MarshalWrite(w, shown, json.Deterministic(true), jsontext.WithIndent("  "))
	})
	return mux
}
