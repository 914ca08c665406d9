package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	handoff "handoff.example/handoff"
)

// openItem returns the id of the only open item of the inbox.
func (p *person) openItem() string {
	p.f.t.Helper()
	var list struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	p.api(http.MethodGet, "/inbox", nil, &list)
	if len(list.Items) != 1 {
		p.f.t.Fatalf("the inbox has %d items", len(list.Items))
	}
	return list.Items[0].ID
}

func TestAQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mara := f.as("caller", "mara", "")
	mara.send("quote", "ask")
	mara.get("/console/inbox").ok().says("Which Incoterm?", "Question", "1 item waits")
	item := "/console/inbox/" + mara.openItem()
	mara.get(item).ok().says("asks a question", "Which Incoterm?", "mara").lacks("Approve")
	if got := mara.post(item, url.Values{"do": {"answer"}}); got.status != http.StatusUnprocessableEntity {
		t.Errorf("an empty answer: %d", got.status)
	}
	mara.follow(item, url.Values{"do": {"answer"}, "text": {"delivered"}}).ok().says("The answer is sent")
	mara.get(item).ok().says("This was answered", "mara", "delivered").lacks(`value="answer"`)
	mara.get("/console/inbox").says("Nothing waits for anybody")
	mara.get("/console/inbox?settled=true").says("answered")
}

func TestAnApprovalIsForOperators(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mara := f.as("caller", "mara", "")
	mara.send("quote", "auth")
	item := "/console/inbox/" + mara.openItem()
	mara.get(item).ok().says("May I post the order?", "An operator decides").lacks(`value="approve"`)
	if got := mara.post(item, url.Values{"do": {"approve"}}); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a caller approves: %d", got.status)
	}
	f.as("caller", "vera", "").get("/console/inbox").says("Nothing waits")
	ann := f.as("operator", "ann", "")
	ann.follow(item, url.Values{"do": {"assign"}, "assignee": {"ann"}}).says("It is for ann now")
	ann.get("/console/inbox?assignee=ann").says("May I post the order?")
	ann.follow(item, url.Values{"do": {"due"}, "in": {"4h"}}).says("The due date is set")
	ann.post(item, url.Values{"do": {"link"}}).has("/inbox/")
	ann.follow(item, url.Values{"do": {"approve"}, "note": {"within the budget"}}).says("Approved")
	ann.get(item).says("This was approved", "ann", "within the budget", "assigned", "linked")
	// The second one is told who was first.
	late := ann.post(item, url.Values{"do": {"deny"}})
	if late.status != http.StatusUnprocessableEntity {
		t.Errorf("a second decision: %d", late.status)
	}
	late.says("ann")
}

const formAgent = `
store: sqlite:tasks.db
secret_key: "0123456789abcdef0123456789abcdef"
callers: {keys: true}
agents:
  quote:
    name: Quote agent
    description: Quotes prices.
    version: 1.0.0
    skills: [{id: quote, name: Quote, description: Quotes a price., tags: [procurement], examples: ["400 units of BRG-0042"]}]
    run:
      script:
        - when: {turn: 1}
          do:
            - ask: Where to?
              schema: {type: object, required: [incoterm, qty], properties: {incoterm: {type: string, enum: [FOB, DAP], title: Incoterm}, qty: {type: integer, title: Quantity, maximum: 500}}}
        - do: [{complete: done}]
`

func TestAFormIsCheckedFieldByField(t *testing.T) {
	t.Parallel()
	f := startFixture(t, formAgent, handoff.Options{})
	f.as("caller", "mara", "").send("quote", "hello")
	item := "/console/inbox/" + f.admin.openItem()
	f.admin.get(item).ok().has(`<option>FOB</option>`, `type="number"`).says("Incoterm (required)")
	got := f.admin.post(item, url.Values{"do": {"answer"}, "f0": {"DAP"}, "f1": {"501"}})
	if got.status != http.StatusUnprocessableEntity {
		t.Fatalf("status %d", got.status)
	}
	got.has(`aria-invalid="true"`, `value="501"`, `<option selected>DAP</option>`).says("is greater than 500")
	f.admin.follow(item, url.Values{"do": {"answer"}, "f0": {"DAP"}, "f1": {"400"}}).ok().says("The answer is sent")
}

// stockServer is a tool server that tells the stock of an article.
func stockServer(t *testing.T) string {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "erp", Version: "1"}, nil)
	type asked struct {
		SKU string `json:"sku" jsonschema:"the article"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "get_stock", Description: "Tells the stock of an article. <script>alert(1)</script>"}, func(_ context.Context, _ *mcp.CallToolRequest, q asked) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "20 of " + q.SKU}}}, nil, nil
	})
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestAToolIsCalledWithItsForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `mcp: {servers: {erp: {url: "`+stockServer(t)+`", tools: {get_stock: {role: caller}}}}}`)
	f.admin.get("/console/tools").ok().says("get_stock", "Allowed").lacks("<script>alert")
	tool := "/console/tools/erp/get_stock"
	f.admin.get(tool).ok().says("sku (required)", "the article", "Policy").lacks("<script>alert")
	f.admin.post(tool, url.Values{"f0": {"BRG-0042"}}).ok().says("What came of the call", "20 of BRG-0042")
	f.admin.post(tool, url.Values{"arguments": {`{"sku": "BRG-0043"}`}}).ok().says("20 of BRG-0043")
	if got := f.admin.post(tool, url.Values{"arguments": {"[]"}}); got.status != http.StatusUnprocessableEntity {
		t.Errorf("arguments that are none: %d", got.status)
	}
	f.admin.get(tool + "?as=&role=none").ok().says("An anonymous caller")
	if got := f.as("caller", "mara", "").post(tool, url.Values{"f0": {"x"}}); got.status != http.StatusForbidden {
		t.Errorf("a caller calls a tool in the console: %d", got.status)
	}
}

func TestPeersAreSeenByOperators(t *testing.T) {
	t.Parallel()
	far := startFixture(t, configuration, handoff.Options{})
	key, _ := far.newKey("caller", "us", "")
	f := newFixture(t, `peers: {supplier: {card: "`+far.server.URL+`/agents/quote/", auth: {bearer: "`+key+`"}}}`)
	f.as("caller", "mara", "").get("/console/agents").ok().lacks("supplier")
	f.admin.get("/console/agents").ok().says("supplier")
	peer := "/console/peers/supplier"
	f.admin.post(peer, url.Values{"do": {"check"}}).ok().says("What was tried just now", "Good")
	f.admin.get(peer).ok().says("Quote agent", "any card passes", "Up").lacks(key)
	f.admin.follow(peer, url.Values{"do": {"pin"}}).says("pinned to it")
	f.admin.follow(peer, url.Values{"do": {"unpin"}}).says("Any card")
	f.admin.follow(peer, url.Values{"do": {"delegate"}, "ref": {"PO-2026-0184"}, "text": {"ask"}}).ok().says("The work is handed on")
	f.admin.post(peer, url.Values{"do": {"delegate"}, "text": {" "}}).says("Write a message.")
}

func TestAgentsAreTried(t *testing.T) {
	t.Parallel()
	f := startFixture(t, formAgent, handoff.Options{})
	f.admin.get("/console/agents").ok().says("Quote agent", "Quotes prices.")
	f.admin.get("/console/agents/quote").ok().says("Try it", "Quotes a price.", "400 units of BRG-0042", "JSONRPC")
	f.admin.follow("/console/agents/quote", url.Values{"text": {"hello"}}).ok().says("The message is sent", "Where to?")
	f.as("viewer", "vera", "").get("/console/agents/quote").ok().lacks("Try it")
	if got := f.as("viewer", "vic", "").post("/console/agents/quote", url.Values{"text": {"hello"}}); got.status != http.StatusUnprocessableEntity && got.status != http.StatusForbidden {
		t.Errorf("a viewer sends: %d", got.status)
	}
	if got := f.admin.get("/console/agents/nobody"); got.status != http.StatusNotFound {
		t.Errorf("an unknown agent: %d", got.status)
	}
}

func TestToolsWebhooksAndAuditAreShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.admin.get("/console/tools").ok().says("no tool servers")
	f.admin.get("/console/webhooks").ok().says("Nobody has asked")
	f.admin.get("/console/audit").ok().says("Audit")
	for _, path := range []string{"/console/tools", "/console/audit"} {
		if got := f.as("caller", "mara", "").get(path); got.status != http.StatusForbidden {
			t.Errorf("a caller sees %s: %d", path, got.status)
		}
	}
}

// Messages that fill the memory of a page hide nothing: they are cut.
func TestLargeMessagesHideNoTasks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mara := f.as("caller", "mara", "")
	task := mara.send("quote", "ask")
	for range 6 {
		mara.send("quote", strings.Repeat("w", 6_500_000))
	}
	f.admin.get("/console/tasks").ok().says("Which Incoterm?", "7 tasks")
	f.admin.get("/console/tasks/" + task.ID).ok().says("Which Incoterm?")
}

func TestEverybodyIsToldWhoseWorkHeSees(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.admin.get("/console/").has("sees everything")
	f.as("operator", "ann", "acme").get("/console/").has("sees all of acme")
	f.as("caller", "mara", "").get("/console/").has("sees only what is yours")
	if got := f.nobody().get("/", "Accept", "text/html"); got.status != http.StatusSeeOther || got.header.Get("Location") != "/console/" {
		t.Errorf("the root leads to %d %s", got.status, got.header.Get("Location"))
	}
	if got := f.nobody().get("/", "Accept", "application/json"); got.status != http.StatusNotFound {
		t.Errorf("the root answers a program with %d", got.status)
	}
}
