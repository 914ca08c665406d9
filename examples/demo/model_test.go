package demo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// steps is a model that has learned the purchase by heart: it looks at how many results
// of its calls there are, and makes the next one.
func steps(units, total int, number, warehouse, city string) []string {
	call := func(name, arguments string) string {
		quoted, _ := json.Marshal(arguments)
		return fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":%q,"arguments":%s}}]}`, name, quoted)
	}
	return []string{
		call("get_stock_level", fmt.Sprintf(`{"sku":"BRG-0042","warehouse":%q}`, warehouse)),
		call("ask_supplier", fmt.Sprintf(`{"message":"Quote %d units of BRG-0042, delivery %s","data":{"sku":"BRG-0042","units":%[1]d,"deliverTo":%[2]q},"ref":%[3]q}`, units, city, number)),
		call("ask_finance", fmt.Sprintf(`{"message":"Is there credit for %s?","data":{"purchaseOrder":%[1]q,"amount":%[2]d},"ref":%[1]q}`, number, total)),
		call("draft_order", fmt.Sprintf(`{"number":%q,"sku":"BRG-0042","units":%d,"warehouse":%q,"incoterm":"delivered","unitPrice":122500,"total":%d,"leadTimeDays":14}`, number, units, warehouse, total)),
		fmt.Sprintf(`{"content":"%s is a draft, which people have to post."}`, number),
	}
}

// model speaks the API of chat completions, and purchases.
func model(t *testing.T) *httptest.Server {
	t.Helper()
	first, second := steps(400, 49_000_000, "PO-2026-0184", "SBY", "Surabaya"), steps(150, 18_375_000, "PO-2026-0185", "SRG", "Semarang")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model    string `json:"model"`
			Messages []struct {
				Role    string `json:"role"`
				Content string `json:"content"`
			} `json:"messages"`
		}
		if err := json.UnmarshalRead(r.Body, &q); err != nil || q.Model != "purchaser" || r.URL.Path != "/v1/chat/completions" {
			http.Error(w, "what is this?", http.StatusBadRequest)
			return
		}
		plan, done := first, 0
		for _, m := range q.Messages {
			switch {
			case m.Role == "tool":
				done++
			case m.Role == "user" && strings.Contains(m.Content, "PO-2026-0185"):
				plan = second
			}
		}
		finish := "tool_calls"
		if done == len(plan)-1 {
			finish = "stop"
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", plan[done], finish)
	}))
	t.Cleanup(server.Close)
	return server
}

// A model plans the purchase, dies where it waits and where it drafts, and gets there.
func TestModel(t *testing.T) {
	t.Parallel()
	ctx, _ := bounded(t)
	out := newText()
	o := Options{
		Out: out, Exit: true, Break: true, Dir: t.TempDir(), Version: "test", Child: testChild,
		Model: &Model{URL: model(t).URL + "/v1", Name: "purchaser"},
	}
	if err := Run(ctx, o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says(t, out.String(),
		"is the model purchaser at http://127.0.0.1:", "The model calls get_stock_level.",
		"asks supplier Quote 400 units of BRG-0042, delivery Surabaya", "asks back Incoterm?", "kill -9",
		"answers incoterm: delivered", "asks finance Is there credit for PO-2026-0184?", "wants approval", "Budi approves",
		"4 The draft", "The model calls draft_order.", "kill -9", "kept PO-2026-0184 is a draft", "is done PO-2026-0184 is a draft, which people have to post.",
		"Who waited for whom", "of PO-2026-0185: Incoterm?")
}

// A model does nothing of what it is told, and asks nobody. The demo comes to its end.
func TestModelThatAsksNothing(t *testing.T) {
	t.Parallel()
	ctx, _ := bounded(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I have ordered it all.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(server.Close)
	out := newText()
	o := Options{Out: out, Exit: true, Version: "test", Child: testChild, Model: &Model{URL: server.URL + "/v1", Name: "liar"}}
	if err := Run(ctx, o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says(t, out.String(), "is done I have ordered it all.", "The purchase came to nothing", "come to its end without a question")
	if strings.Contains(out.String(), "answer the question") {
		t.Errorf("a question is told of that nobody has asked:\n%s", out)
	}
}
