//go:build unix

package main

import (
	"fmt"
	"strings"
)

// nodeHead begins the configuration of a node of the chain.
const nodeHead = `# written by the chaos test
listen: %s
public_url: http://%s
store: sqlite:store.db
secret_key: 0123456789abcdef0123456789abcdef
callers: {anonymous: loopback}
limits: {streams: 0}
retention: {tasks: 0s}
`

// card is the required part of an agent.
const cardOf = `
    name: %[1]s
    description: Trades.
    version: 1.0.0
    skills: [{id: trade, name: Trade, description: Trades., tags: [test]}]
    idempotency: on
    grants: caller
`

// handingOn is the script of an agent that hands on what it gets.
const handingOn = `        - when: {outcome: completed}
          do: [{complete: '{{.Outcome}}'}]
        - when: {outcome: over}
          do: [{fail: '{{.Outcome}}'}]
        - do: [{delegate: {to: %s, message: '{{.Text}}'}}]
`

// firstNode is the configuration of the node that delegates: to each agent of the
// partner, in each way, and to the next node of the chain.
func firstNode(partner, next string) string {
	var b strings.Builder
	b.WriteString("delegation: {max_tasks: 1000}\npeers:\n")
	for _, s := range shops() {
		fmt.Fprintf(&b, "  %s:\n    card: http://%s/%s/.well-known/agent-card.json\n", s.name, partner, s.name)
		if s.dedupes {
			b.WriteString("    deduplicates: true\n")
		} else {
			b.WriteString("    deduplicates: false\n")
		}
		b.WriteString("    quiet: 2s\n    stuck: 3s\n    poll: {min: 200ms, max: 3s}\n    connect_timeout: 2s\n    answer_timeout: 3s\n")
	}
	fmt.Fprintf(&b, "  next:\n    card: http://%s/agents/middle/\n    deduplicates: true\n    quiet: 5s\n    poll: {min: 200ms, max: 3s}\n    connect_timeout: 2s\n    answer_timeout: 5s\n", next)
	b.WriteString("agents:\n  root:" + fmt.Sprintf(cardOf, "Root") + "    run:\n      script:\n" + fmt.Sprintf(handingOn, "next"))
	for _, s := range shops() {
		b.WriteString("  relay-" + s.name + ":" + fmt.Sprintf(cardOf, "Relay") + "    run: {relay: " + s.name + "}\n")
		b.WriteString("  step-" + s.name + ":" + fmt.Sprintf(cardOf, "Step") + "    run:\n      script:\n" + fmt.Sprintf(handingOn, s.name))
	}
	return strings.ReplaceAll(b.String(), "ref: '', ", "")
}

// middleNode is the configuration of the node in the middle of the chain.
func middleNode(next string) string {
	return fmt.Sprintf("peers:\n  next:\n    card: http://%s/agents/leaf/\n    deduplicates: true\n    quiet: 5s\n    poll: {min: 200ms, max: 3s}\n    connect_timeout: 2s\n    answer_timeout: 5s\n", next) +
		"agents:\n  middle:" + fmt.Sprintf(cardOf, "Middle") + "    run:\n      script:\n" +
		strings.ReplaceAll(fmt.Sprintf(handingOn, "next"), "ref: '', ", "")
}

// lastNode is the configuration of the node at the end of the chain, which asks
// and wants approvals.
var lastNode = "agents:\n  leaf:" + fmt.Sprintf(cardOf, "Leaf") + `    run:
      script:
        - when: {grant: approve}
          do: [{complete: done}]
        - when: {grant: deny}
          do: [{fail: denied}]
        - when: {text: '^as many as in order (\d+) if approved$'}
          do: [{authorize: 'May order {{.Match 1}} be charged?', operation: order}]
        - when: {text: '^as many as in order (\d+)$'}
          do: [{complete: done}]
        - when: {text: '^order (\d+) done after'}
          do:
            - artifact: {id: goods, parts: [{text: 'goods of order {{.Match 1}}'}]}
            - ask: 'How many for order {{.Match 1}}?'
        - when: {text: '^order (\d+) done at once'}
          do:
            - artifact: {id: goods, parts: [{text: 'goods of order {{.Match 1}}'}]}
            - complete: done
        - when: {text: '^order (\d+) done in a while'}
          do:
            - repeat: {times: 10, every: 50ms, do: [{working: '{{.I}}'}]}
            - artifact: {id: goods, parts: [{text: 'goods of order {{.Match 1}}'}]}
            - complete: done
        - do: [{fail: out of stock}]
`
