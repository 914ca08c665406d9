package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// operations are the rows of the table, and their names in the results.
var operations = []struct{ id, name string }{
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
	for _, o := range operations {
		if o.id == id {
			return o.name
		}
	}
	return ""
}

var short = map[string]string{"JSONRPC": "JSON-RPC", "HTTP+JSON": "HTTP+JSON", "GRPC": "gRPC"}

// The marks in the document between which the tables stand.
const (
	begin = "<!-- tables: written by make -C interop table -->\n"
	end   = "<!-- end of tables -->\n"
)

// document puts the tables into the document, or compares them with those that
// are there.
func document(path string, suites []suite, all []result, write bool) error {
	tables, err := render(suites, all)
	if err != nil {
		return err
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(file), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for tables", path)
	}
	switch {
	case old == tables:
		fmt.Println("The tables of docs/interop.md are up to date.")
		return nil
	case write:
		return os.WriteFile(path, []byte(before+begin+tables+end+after), 0o644)
	default:
		return errors.New("the tables of docs/interop.md are out of date; make -C interop table writes them:\n" + tables)
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
	on := map[string]map[string]bool{}
	add := func(what, binding string) {
		if on[what] == nil {
			on[what] = map[string]bool{}
		}
		on[what][binding] = true
	}
	for _, r := range all {
		if r.SDK == s.sdk && r.Limit != "" {
			add(r.Limit, r.Binding)
		}
	}
	for operation, what := range s.lacks {
		for _, binding := range s.bindings {
			add(name(operation)+": "+what, binding)
		}
	}
	var limits []limitation
	for _, what := range slices.Sorted(maps.Keys(on)) {
		var names []string
		for _, binding := range bindings {
			if on[what][binding] {
				names = append(names, short[binding])
			}
		}
		where := strings.Join(names, ", ")
		if len(names) == len(bindings) {
			where = "all"
		}
		limits = append(limits, limitation{what, where})
	}
	return limits
}
