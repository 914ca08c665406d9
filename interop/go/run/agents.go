package main

import (
	"fmt"
	"slices"
	"strings"
)

// ofAgents are the rows of the table of agents, and their names in the results.
var ofAgents = []operation{
	{"card", "agent card, from its address (A2A §8)"},
	{"extended", "GetExtendedAgentCard (§3.1.11)"},
	{"send", "SendMessage, blocking (§3.1.1)"},
	{"immediate", "SendMessage, immediate (§3.2.2)"},
	{"message", "a message as the answer"},
	{"answer", "ask and answer (§3.4)"},
	{"auth", "authorization in the task (§7.6), answered by a message"},
	{"stream", "SendStreamingMessage (§3.1.2)"},
	{"subscribe", "SubscribeToTask, after a cut too (§3.1.6)"},
	{"recover", "a stream that was cut, to its end with one message"},
	{"get", "GetTask (§3.1.3)"},
	{"list", "ListTasks (§3.1.4)"},
	{"cancel", "CancelTask (§3.1.5)"},
	{"push-create", "CreateTaskPushNotificationConfig (§3.1.7)"},
	{"push-get", "GetTaskPushNotificationConfig (§3.1.8)"},
	{"push-list", "ListTaskPushNotificationConfigs (§3.1.9)"},
	{"push-delete", "DeleteTaskPushNotificationConfig (§3.1.10)"},
	{"webhook", "events at a webhook (§4.3.3)"},
	{"parts", "parts of every kind, there and back (§4.1.6)"},
	{"errors", "errors of the protocol (§5.4)"},
	{"restart", "the agent killed and started again in between"},
	{"ledger-send", "ledger: work handed to it, to its end"},
	{"ledger-cut", "ledger: a stream cut in the middle and recovered, with one message"},
	{"ledger-answer", "ledger: a question answered from the inbox, in the same task"},
	{"ledger-cancel", "ledger: a cancel reaches it"},
	{"ledger-push", "ledger: news by push alone"},
	{"ledger-restart", "ledger: the agent killed and started again in between"},
	{"ledger-kill", "ledger: the node killed (kill -9) and started again in between, with one message"},
}

// renderAgents writes the tables of our client and their agents.
func renderAgents(suites []suite, all []result) (string, error) {
	var b strings.Builder
	b.WriteString("\n| agent | version | cases | passed | cannot |\n| --- | --- | --- | --- | --- |\n")
	heads, line := "| operation |", "| --- |"
	for _, s := range suites {
		n := map[string]int{}
		for _, r := range all {
			if r.SDK == s.sdk {
				n[r.Result]++
			}
		}
		if len(n) == 0 {
			continue // it has no agent here
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", s.title, s.version, n["pass"]+n["cannot"], n["pass"], n["cannot"])
		for _, binding := range bindings {
			if talks(s, binding, all) {
				heads += fmt.Sprintf(" %s %s |", s.title, short[binding])
				line += " --- |"
			}
		}
	}
	fmt.Fprintf(&b, "\n%s\n%s\n", heads, line)
	for _, o := range ofAgents {
		fmt.Fprintf(&b, "| %s |", o.name)
		for _, s := range suites {
			for _, binding := range bindings {
				if !talks(s, binding, all) {
					continue
				}
				cell, err := s.ofAgent(o.id, binding, all)
				if err != nil {
					return "", err
				}
				fmt.Fprintf(&b, " %s |", cell)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| agent | binding | what it cannot do |\n| --- | --- | --- |\n")
	for _, s := range suites {
		for _, l := range s.shown(all).list() {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", s.title, l.binding, l.what)
		}
	}
	b.WriteString("\n")
	return b.String(), nil
}

// talks reports whether an agent was talked to over a binding.
func talks(s suite, binding string, all []result) bool {
	return slices.ContainsFunc(all, func(r result) bool { return r.SDK == s.sdk && r.Binding == binding })
}

// ofAgent says how many cases have shown an operation of an agent.
func (s suite) ofAgent(operation, binding string, all []result) (string, error) {
	passed, cannot := 0, 0
	for _, r := range all {
		if r.SDK != s.sdk || r.Binding != binding || !slices.Contains(r.Operations, operation) {
			continue
		}
		if r.Result == "cannot" {
			cannot++
		} else {
			passed++
		}
	}
	switch {
	case passed > 0 && cannot > 0:
		return fmt.Sprintf("%d *", passed), nil
	case passed > 0:
		return fmt.Sprint(passed), nil
	case cannot > 0:
		return "cannot", nil
	default:
		return "", fmt.Errorf("no case shows %q of an agent of %s over %s", operation, s.title, binding)
	}
}
