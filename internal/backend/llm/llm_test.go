package llm_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
)

// A task from the beginning to its end: a call of a tool, work handed on, a question,
// an answer.
func TestATask(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		b := newBench(t, open(t), "", func(r *modelRequest) reply {
			switch len(r.results()) {
			case 0:
				return reply{text: "I look at the stock.", calls: []call{{"c1", "erp_stock", `{"sku":"BRG-0042"}`}}}
			case 1:
				return reply{calls: []call{{"c2", "ask_helper", `{"message":"400 units","skill":"quote","ref":"PO-1"}`}}}
			case 2:
				return reply{calls: []call{{"c3", "ask_user", `{"question":"Which Incoterm?","form":{"type":"object","properties":{"term":{"type":"string","enum":["DAP","EXW"]}},"required":["term"]}}`}}}
			}
			return reply{text: "Ordered as " + r.last().text()}
		})
		got := b.send("", "Buy 400 of BRG-0042")
		if got.Status.State != a2a.StateInputRequired || said(got) != "Which Incoterm?" {
			t.Fatalf("got %s", got.AppendJSON(nil))
		}
		if p := got.Status.Message.Parts; len(p) != 2 || !strings.Contains(string(p[1].Data), "EXW") {
			t.Errorf("the question has no form: %s", got.AppendJSON(nil))
		}
		got = b.send(got.ID, "DAP")
		if got.Status.State != a2a.StateCompleted || answerOf(got) != "Ordered as DAP" {
			t.Fatalf("got %s", got.AppendJSON(nil))
		}
		asked := b.model.asked()
		if len(asked) != 4 {
			t.Fatalf("the model was asked %d times", len(asked))
		}
		want := []string{`stock of {"sku":"BRG-0042"}`, "The agent has completed the work.\n[artifact-1.1]\nquote for 400 units", "DAP"}
		if diff := cmp.Diff(want, asked[3].results()); diff != "" {
			t.Error(diff)
		}
		if asked[0].Authorization != "Bearer "+secretKey || asked[0].Model != "m-1" {
			t.Errorf("asked with %q for %q", asked[0].Authorization, asked[0].Model)
		}
		if system := asked[0].Messages[0]; system.Role != "system" || !strings.HasPrefix(system.text(), "You buy.") {
			t.Errorf("it was told %q", system.text())
		}
		var names []string
		for _, tool := range asked[0].Tools {
			names = append(names, tool.Function.Name)
		}
		if got := strings.Join(names, " "); got != "ask_user ask_helper erp_stock erp_order_make erp_bad erp_error erp_ask erp_task erp_denied erp_approve erp_held erp_large" {
			t.Errorf("it was offered %s", got)
		}
		full := b.get(got.ID)
		models, tools := reports(full, "handoff.example/model-call"), reports(full, "handoff.example/tool-call")
		if len(models) != 4 || len(tools) != 1 {
			t.Fatalf("%d and %d calls are told of: %s", len(models), len(tools), full.AppendJSON(nil))
		}
		last := models[3]
		// 60 at 2, 40 at 1 and 10 at 10 for a million.
		if last["cost"] != 0.00026 || last["input_tokens"] != 100.0 || last["output_tokens"] != 10.0 || last["currency"] != "USD" || last["outcome"] != "ok" {
			t.Errorf("got %v", last)
		}
		if total := last["total"].(map[string]any); total["cost"] != 0.00104 || total["model_calls"] != 4.0 || total["tool_calls"] != 1.0 || total["delegations"] != 1.0 || total["steps"] != 7.0 {
			t.Errorf("in all %v", total)
		}
		if tools[0]["server"] != "erp" || tools[0]["tool"] != "stock" || tools[0]["outcome"] != "ok" {
			t.Errorf("got %v", tools[0])
		}
	})
}
