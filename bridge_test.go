package handoff_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// The supplier's quote agent as examples/supplier has it, for a client of MCP that
// has never heard of A2A.
const supplierOverMCP = `
store: sqlite:tasks.db
secret_key: "0123456789abcdef0123456789abcdef"
callers: {anonymous: loopback}
mcp: {agents: [supplier], wait: 2s, poll: 100ms}
agents:
  supplier:
    name: Supplier Quote Agent
    description: Quotes price and lead time for bulk orders
    version: 2.0.0
    skills: [{id: bulk-quote, name: Bulk order quote, description: Negotiates a quote for 100+ units, tags: [quote]}]
    run:
      script:
        - when: {text: '(?i)\b(\d{3,}) units of ([A-Z]+-\d+)'}
          do:
            - working: Asking the plant for {{.Match 2}}
            - artifact: {name: quote, parts: [{data: {sku: "{{.Match 2}}", units: "{{.Match 1}}", unitPrice: 118000, currency: IDR, leadTimeDays: 14}}]}
        - do:
            - ask: How many units of which article? From 100 on, such as 400 units of BRG-0042.
`

// revisions are what the official Go client speaks here.
var revisions = []string{"2026-07-28", "2025-11-25", "2025-06-18"}

// connectMCP connects the official Go client.
func connectMCP(t *testing.T, url, revision string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	transport := &http.Transport{}
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: transport}, DisableStandaloneSSE: true,
	}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		transport.CloseIdleConnections()
	})
	return session
}

func callTool(t *testing.T, s *mcp.ClientSession, name string, arguments map[string]any) (*mcp.CallToolResult, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	return result, string(structured)
}

func textOf(r *mcp.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}

const quoted = `{"currency":"IDR","leadTimeDays":14,"sku":"BRG-0042","unitPrice":118000,"units":"400"}`

// A client of MCP that has never heard of A2A drives the supplier's agent through
// its question to its artifact: the question is an elicitation.
func TestMCPClientDrivesAnAgentThroughItsQuestion(t *testing.T) {
	t.Parallel()
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			_, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), supplierOverMCP), handoff.Options{})
			asked := make(chan string, 10)
			session := connectMCP(t, server.URL+"/mcp", revision, &mcp.ClientOptions{
				Capabilities: &mcp.ClientCapabilities{},
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked <- r.Params.Message
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "400 units of BRG-0042"}}, nil
				},
			})
			result, structured := callTool(t, session, "supplier.bulk-quote", map[string]any{"message": "I need bearings"})
			if result.IsError || structured != quoted {
				t.Errorf("got %s: %s", structured, textOf(result))
			}
			if len(asked) != 1 || !strings.Contains(<-asked, "How many units") {
				t.Errorf("asked %d more times", len(asked))
			}
		})
	}
}

// Row 127: one that cannot be asked gets a handle, and answers with a tool.
func TestMCPClientWithoutFormsAnswersWithATool(t *testing.T) {
	t.Parallel()
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			_, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), supplierOverMCP), handoff.Options{})
			session := connectMCP(t, server.URL+"/mcp", revision, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
			result, _ := callTool(t, session, "ask_agent", map[string]any{"agent": "supplier", "message": "I need bearings"})
			handle, _ := result.StructuredContent.(map[string]any)["taskId"].(string)
			if handle == "" || !strings.Contains(textOf(result), "How many units") {
				t.Fatalf("got %s", textOf(result))
			}
			if result, structured := callTool(t, session, "answer_task", map[string]any{"taskId": handle, "answer": "400 units of BRG-0042"}); structured != quoted {
				t.Errorf("got %s: %s", structured, textOf(result))
			}
			if result, structured := callTool(t, session, "check_task", map[string]any{"taskId": handle}); structured != quoted {
				t.Errorf("got %s: %s", structured, textOf(result))
			}
		})
	}
}

// toolServer is a server of the official Go SDK.
func toolServer(t *testing.T) (url string, calls chan string) {
	t.Helper()
	calls = make(chan string, 10)
	type stock struct {
		SKU   string `json:"sku"`
		Plant string `json:"plant"`
	}
	type found struct {
		SKU   string `json:"sku"`
		Units int    `json:"units"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "erp", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "stock", Description: "Says what is in stock"}, func(_ context.Context, _ *mcp.CallToolRequest, in stock) (*mcp.CallToolResult, *found, error) {
		calls <- in.SKU + "@" + in.Plant
		return nil, &found{SKU: in.SKU, Units: 7}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "post", Description: "Posts an invoice"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		calls <- "post"
		return nil, nil, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, calls
}

// Tools of a server are the skills of an agent of A2A, by the policy of the gateway.
func TestToolsAreTheSkillsOfAnAgent(t *testing.T) {
	t.Parallel()
	url, calls := toolServer(t)
	_, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), `
store: sqlite:tasks.db
secret_key: "0123456789abcdef0123456789abcdef"
callers: {anonymous: loopback}
mcp: {servers: {erp: {url: "`+url+`", tools: [stock]}}}
agents:
  warehouse:
    name: Warehouse
    description: Knows what is in stock
    version: 1.0.0
    skills: []
    run: {mcp: erp}
`), handoff.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// The card has the tools as soon as they are known, and what is hidden never.
	for {
		card, err := client.Discover(ctx, server.URL+"/agents/warehouse/", client.Options{HTTPClient: server.Client()})
		if err != nil {
			t.Fatal(err)
		}
		if len(card.Skills) == 1 && card.Skills[0].ID == "stock" {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the skills are %+v", card.Skills)
		}
		time.Sleep(10 * time.Millisecond) // the lists are read in the background
	}
	c := dial(t, server.URL+"/agents/warehouse/", client.Options{})
	asked := send(t, c, &a2a.Message{MessageID: "1", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Data(a2a.JSON(`{"sku":"BRG-0042"}`))}})
	if asked.Status.State != a2a.StateInputRequired || !strings.Contains(asked.Status.Message.Text(), "plant") {
		t.Fatalf("got %s", asked.AppendJSON(nil))
	}
	done := send(t, c, &a2a.Message{MessageID: "2", TaskID: asked.ID, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("Bandung")}})
	if done.Status.State != a2a.StateCompleted || len(done.Artifacts) != 1 || string(done.Artifacts[0].Parts[0].Data) != `{"sku":"BRG-0042","units":7}` {
		t.Errorf("got %s", done.AppendJSON(nil))
	}
	if got := <-calls; got != "BRG-0042@Bandung" || len(calls) != 0 {
		t.Errorf("called with %s, and %d more", got, len(calls))
	}
}

// GWY-03, GWY-04: a call that policy holds waits in the inbox, and is made once when
// a person has approved it. The client asks again under the same key.
func TestACallWaitsForAnApproval(t *testing.T) {
	t.Parallel()
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			url, calls := toolServer(t)
			node, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), `
store: sqlite:tasks.db
secret_key: "0123456789abcdef0123456789abcdef"
callers: {anonymous: loopback}
mcp:
  wait: 1s
  servers:
    erp: {url: "`+url+`", tools: {stock: {approve: "Stock is counted by hand", idempotency: accepted}}}
`), handoff.Options{})
			session := connectMCP(t, server.URL+"/mcp", revision, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			params := &mcp.CallToolParams{
				Name: "stock", Arguments: map[string]any{"sku": "BRG-0042", "plant": "Bandung"},
				Meta: mcp.Meta{"handoff.example/idempotencyKey": "k-1"},
			}
			if _, err := session.CallTool(ctx, params); err == nil || !strings.Contains(err.Error(), "has not decided yet") || len(calls) != 0 {
				t.Fatalf("got %v, and %d calls", err, len(calls))
			}
			items, err := node.Inbox().List(ctx, handoff.InboxQuery{Kind: "call"})
			if err != nil || len(items) != 1 || !strings.Contains(items[0].Text, "counted by hand") || !strings.Contains(items[0].Text, "Bandung") {
				t.Fatalf("the inbox has %+v, %v", items, err)
			}
			if err := node.Inbox().Approve(ctx, items[0].ID, "boss", "fine"); err != nil {
				t.Fatal(err)
			}
			result, err := session.CallTool(ctx, params)
			if err != nil || result.IsError {
				t.Fatalf("got %+v, %v", result, err)
			}
			if got := <-calls; got != "BRG-0042@Bandung" || len(calls) != 0 {
				t.Errorf("called with %s, and %d more", got, len(calls))
			}
			other := *params
			other.Arguments = map[string]any{"sku": "BRG-0042", "plant": "Jakarta"}
			if _, err := session.CallTool(ctx, &other); err == nil || !strings.Contains(err.Error(), "other arguments") {
				t.Errorf("another call under the key: %v", err)
			}
		})
	}
}
