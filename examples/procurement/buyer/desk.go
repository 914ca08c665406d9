package buyer

import (
	"database/sql"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff"
	"handoff.example/handoff/examples/procurement/toolclient"
)

// Desk shows orders: GET /orders/PO-2026-0184. The request is the buyer's own, the
// order is the ERP system's, and the work that goes on for it is found in the node by
// the order's number.
func (b *Buyer) Desk(node *handoff.Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{number}", func(w http.ResponseWriter, r *http.Request) {
		q, err := b.requests.find(r.Context(), "number", r.PathValue("number"))
		if errors.Is(err, sql.ErrNoRows) {
			http.NotFound(w, r)
			return
		}
		shown := map[string]any{"request": q}
		if work, werr := node.Delegation(r.Context(), q.Number); werr == nil {
			task, terr := work.Task(r.Context())
			if err = errors.Join(err, terr); terr == nil {
				state := map[string]any{"delegation": work.ID(), "state": task.Status.State.String()}
				if task.Status.Message != nil {
					state["says"] = task.Status.Message.Text()
				}
				shown["lastWork"] = state
			}
		}
		var o order
		var refused *toolclient.RefusedError
		switch oerr := b.tools.Call(r.Context(), "get_order_status", "", map[string]any{"number": q.Number}, &o); {
		case oerr == nil:
			shown["order"] = o
		case !errors.As(oerr, &refused): // there is none yet
			err = errors.Join(err, oerr)
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
