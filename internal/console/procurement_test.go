package console_test

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// procurement is a node whose buyer hands the question of credit to finance, who
// asks for a cost centre. It does what the first word of a message says.
const procurement = `
store: sqlite:tasks.db
secret_key: "0123456789abcdef0123456789abcdef"
callers: {keys: true}
agents:
  buyer:
    name: Buyer
    description: Buys.
    version: 1.0.0
    answers: task
    skills: [{id: buy, name: Buy, description: Buys., tags: [procurement]}]
    run:
      script:
        - when: {outcome: completed}
          do: [{artifact: {name: Approval, parts: outcome}}]
        - when: {outcome: over}
          do: [{fail: "There is no credit"}]
        - when: {text: "^buy (PO-[0-9-]+)"}
          do:
            - artifact: {name: stock.json, parts: [{data: {sku: BRG-0042, stock: 12}}]}
            - delegate: {to: finance, ref: "{{.Match 1}}", message: "Credit for {{.Match 1}}"}
        - when: {text: "^hold"}
          do: [{wait: {for: 1h}}]
        - when: {text: "^fail"}
          do: [{fail: "The supplier did not answer"}]
        - when: {text: "^echo"}
          do: [{artifact: {name: "<b>Echo</b>", parts: rest}}]
        - do: [{complete: "{{.Text}}"}]
  finance:
    name: Finance
    description: Approves.
    version: 1.0.0
    answers: task
    skills: [{id: credit, name: Credit, description: Approves credit., tags: [procurement]}]
    run:
      script:
        - when: {text: "^Credit"}
          do: [{ask: "Which cost centre?"}]
        - do: [{complete: "Approved for {{.Text}}"}]
`

func newProcurement(t *testing.T) *fixture {
	t.Helper()
	return startFixture(t, procurement, handoff.Options{})
}

// sendParts sends a message of several parts.
func (p *person) sendParts(agent string, parts ...a2a.Part) *a2a.Task {
	p.f.t.Helper()
	c, err := client.Dial(p.f.t.Context(), p.f.server.URL+"/agents/"+agent+"/", client.Options{HTTPClient: p.keyed()})
	if err != nil {
		p.f.t.Fatal(err)
	}
	response, err := c.SendMessage(p.f.t.Context(), &a2a.SendMessageRequest{Message: client.NewMessage(parts...)})
	if err != nil {
		p.f.t.Fatal(err)
	}
	return response.Task
}

// harmlessPage fails the test if a page holds something that runs, or that its
// policy would refuse.
func (s *shown) harmlessPage() *shown {
	s.t.Helper()
	body := &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body}
	nodes, err := html.ParseFragment(strings.NewReader(s.main()), body)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, root := range nodes {
		body.AppendChild(root)
	}
	for n := range body.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script", "style", "object", "embed", "base", "link", "meta":
			s.t.Errorf("the page has a <%s>", n.Data)
		}
		for _, a := range n.Attr {
			value := strings.ToLower(strings.TrimSpace(a.Val))
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.HasPrefix(value, "javascript:") || strings.HasPrefix(value, "data:text/html") {
				s.t.Errorf("the page has <%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
	}
	return s
}
