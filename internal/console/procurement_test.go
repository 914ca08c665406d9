package console_test

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	handoff "handoff.example/handoff"
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
    default_input_modes: ["*/*"]
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

// link returns where the first link or button with a text leads.
func (s *shown) link(text string) string {
	s.t.Helper()
	root, err := html.Parse(strings.NewReader(s.body))
	if err != nil {
		s.t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.DataAtom != atom.A || n.FirstChild == nil || strings.TrimSpace(n.FirstChild.Data) != text {
			continue
		}
		for _, a := range n.Attr {
			if a.Key == "href" {
				return a.Val
			}
		}
	}
	s.t.Fatalf("the page has no link %q:\n%s", text, s.main())
	return ""
}

// child returns the id of the task that a task has delegated.
func (p *person) child(parent string) string {
	p.f.t.Helper()
	var list struct {
		Delegations []struct{ ID, Parent string } `json:"delegations"`
	}
	p.api("GET", "/delegations?root="+parent, nil, &list)
	for _, d := range list.Delegations {
		if d.Parent == parent {
			return d.ID
		}
	}
	p.f.t.Fatalf("the task %s has delegated nothing", parent)
	return ""
}

// answer answers what a task asks, and returns when it is over.
func (p *person) answer(task, text string) {
	p.f.t.Helper()
	var list struct {
		Items []struct{ ID, Task string } `json:"items"`
	}
	p.api("GET", "/inbox", nil, &list)
	if len(list.Items) != 1 {
		p.f.t.Fatalf("%d items wait: %+v", len(list.Items), list.Items)
	}
	p.api("POST", "/inbox/"+list.Items[0].ID+"/answer", map[string]string{"text": text}, nil)
	p.over(task)
}

// over returns when a task is over. It follows its events, which end with it.
func (p *person) over(task string) {
	p.f.t.Helper()
	s := p.do("GET", "/api/v1/tasks/"+task+"/events?follow=true", "", "")
	if s.status != 200 {
		p.f.t.Fatalf("following %s answers %d: %s", task, s.status, s.body)
	}
}
