package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// operation is a row of a table.
type operation struct{ id, name string }

// operations are the rows of the table, and their names in the results.
var operations = []operation{
	{"card", "agent card, from its address (A2A §8)"},
	{"signed", "signature of the card (§8.4)"},
	{"extended", "GetExtendedAgentCard (§3.1.11)"},
	{"send", "SendMessage, blocking (§3.1.1)"},
	{"immediate", "SendMessage, immediate (§3.2.2)"},
	{"message", "a message as the answer"},
	{"answer", "ask and answer (§3.4)"},
	{"stream", "SendStreamingMessage (§3.1.2)"},
	{"subscribe", "SubscribeToTask, after a cut too (§3.1.6)"},
	{"get", "GetTask (§3.1.3)"},
	{"list", "ListTasks (§3.1.4)"},
	{"cancel", "CancelTask (§3.1.5)"},
	{"push-create", "CreateTaskPushNotificationConfig (§3.1.7)"},
	{"push-get", "GetTaskPushNotificationConfig (§3.1.8)"},
	{"push-list", "ListTaskPushNotificationConfigs (§3.1.9)"},
	{"push-delete", "DeleteTaskPushNotificationConfig (§3.1.10)"},
	{"webhook", "events at a webhook (§4.3.3)"},
	{"parts", "parts of every kind, there and back (§4.1.6)"},
	{"errors", "errors as the client's own (§5.4)"},
}

func name(id string) string {
	for _, o := range slices.Concat(operations, ofAgents) {
		if o.id == id {
			return o.name
		}
	}
	return ""
}

var short = map[string]string{"JSONRPC": "JSON-RPC", "HTTP+JSON": "HTTP+JSON", "GRPC": "gRPC"}

// document puts tables into the document, between the marks of that name, or
// compares them with those that are there.
func document(path, name, tables string, write bool) error {
	begin := "<!-- " + name + ": written by make -C interop table -->\n"
	end := "<!-- end of " + name + " -->\n"
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(file), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for %s", path, name)
	}
	switch {
	case old == tables:
		fmt.Printf("The %s of docs/interop.md are up to date.\n", name)
		return nil
	case write:
		return os.WriteFile(path, []byte(before+begin+tables+end+after), 0o644)
	default:
		return fmt.Errorf("the %s of docs/interop.md are out of date; make -C interop table writes them:\n%s", name, tables)
	}
}

// render writes the tables. A client that shows nothing of an operation that it
// does not lack is an error.
func render(suites []suite, all []result) (string, error) {
	var b strings.Builder
	b.WriteString("\n| client | version | cases | passed | not offered |\n| --- | --- | --- | --- | --- |\n")
	for _, s := range suites {
		n := map[string]int{}
		for _, r := range all {
			if r.SDK == s.sdk {
				n[r.Result]++
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", s.title, s.version, n["pass"]+n["not offered"], n["pass"], n["not offered"])
	}
	b.WriteString("\n| operation |")
	line := "| --- |"
	for _, s := range suites {
		for _, binding := range s.bindings {
			fmt.Fprintf(&b, " %s %s |", s.title, short[binding])
			line += " --- |"
		}
	}
	fmt.Fprintf(&b, "\n%s\n", line)
	for _, o := range operations {
		fmt.Fprintf(&b, "| %s |", o.name)
		for _, s := range suites {
			for _, binding := range s.bindings {
				cell, err := s.cell(o.id, binding, all)
				if err != nil {
					return "", err
				}
				fmt.Fprintf(&b, " %s |", cell)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| client | binding | what it cannot do |\n| --- | --- | --- |\n")
	for _, s := range suites {
		for _, l := range s.limits(all) {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", s.title, l.binding, l.what)
		}
	}
	b.WriteString("\n")
	return b.String(), nil
}

// cell says how many cases have shown an operation on a binding.
func (s suite) cell(operation, binding string, all []result) (string, error) {
	passed, not, limited := 0, 0, false
	for _, r := range all {
		if r.SDK != s.sdk || r.Binding != binding || !slices.Contains(r.Operations, operation) {
			continue
		}
		if r.Result == "pass" {
			passed++
		} else {
			not++
		}
		limited = limited || r.Limit != ""
	}
	_, lacks := s.lacks[operation]
	switch {
	case lacks && passed+not > 0:
		return "", fmt.Errorf("%s shows %q, which it is said to lack", s.title, operation)
	case lacks:
		return "cannot", nil
	case passed > 0 && limited:
		return fmt.Sprintf("%d *", passed), nil
	case passed > 0:
		return fmt.Sprint(passed), nil
	case not > 0:
		return "not offered", nil
	default:
		return "", fmt.Errorf("no case of %s shows %q over %s", s.title, operation, binding)
	}
}

// limitation is what a client cannot do on some bindings.
type limitation struct{ what, binding string }

func (s suite) limits(all []result) []limitation {
	found := s.shown(all)
	for operation, what := range s.lacks {
		for _, binding := range s.bindings {
			found.add(name(operation)+": "+what, binding)
		}
	}
	return found.list()
}

// shown returns the limits that cases of an SDK have shown.
func (s suite) shown(all []result) limitations {
	found := limitations{}
	for _, r := range all {
		if r.SDK == s.sdk && r.Limit != "" {
			found.add(r.Limit, r.Binding)
		}
	}
	return found
}

// limitations has the bindings of each limit.
type limitations map[string]map[string]bool

func (l limitations) add(what, binding string) {
	if l[what] == nil {
		l[what] = map[string]bool{}
	}
	l[what][binding] = true
}

// list returns the limits in the order of their texts.
func (l limitations) list() []limitation {
	var list []limitation
	for _, what := range slices.Sorted(maps.Keys(l)) {
		var names []string
		for _, binding := range bindings {
			if l[what][binding] {
				names = append(names, short[binding])
			}
		}
		where := strings.Join(names, ", ")
		if len(names) == len(bindings) {
			where = "all"
		}
		list = append(list, limitation{what, where})
	}
	return list
}
