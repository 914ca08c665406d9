package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/config"
)

// TestNewAgentAsks answers the questions as a person does, with mistakes.
func TestNewAgentAsks(t *testing.T) {
	t.Parallel()
	answers := strings.Join([]string{
		"", "Quote Agent", // a name is needed
		"Not An Id", "", // the id that is offered
		"Quotes prices.",
		"2.0.0",
		"Quote a price", "", "Quotes one.", "sales, price",
		"y", "Haggle", "hag", "Haggles.", "",
		"n",
		"text/plain", "",
		"n",
		"magic", "http", "",
	}, "\n") + "\n"
	n := &newAgent{version: "1.0.0", run: "script", streaming: true, outputModes: []string{"text/plain", "application/json"}, inputModes: []string{"text/plain"}}
	var asked strings.Builder
	q := &questions{in: bufio.NewReader(strings.NewReader(answers)), out: &asked}
	if err := n.ask(q, func(string) bool { return false }); err != nil {
		t.Fatalf("%v\n%s", err, asked.String())
	}
	want := &newAgent{
		id: "quote-agent", name: "Quote Agent", description: "Quotes prices.", version: "2.0.0",
		skillIDs: []string{"quote-a-price", "hag"}, skillNames: []string{"Quote a price", "Haggle"},
		skillDescriptions: []string{"Quotes one.", "Haggles."}, skillTags: []string{"sales, price", "hag"},
		inputModes: []string{"text/plain"}, outputModes: []string{"text/plain", "application/json"},
		run: "http", url: "http://127.0.0.1:9000/turn",
	}
	if diff := cmp.Diff(want, n, cmp.AllowUnexported(newAgent{})); diff != "" {
		t.Error(diff)
	}
	if err := n.check(); err != nil {
		t.Error(err)
	}
}

func TestNewAgentAsksOnlyWhatFlagsDoNotSay(t *testing.T) {
	t.Parallel()
	n := &newAgent{id: "a", name: "A", version: "1.0.0", run: "script", skillIDs: []string{"s"}, skillDescriptions: []string{"S."}}
	var asked strings.Builder
	q := &questions{in: bufio.NewReader(strings.NewReader("Does it.\n")), out: &asked}
	if err := n.ask(q, func(flag string) bool { return flag != "description" }); err != nil {
		t.Fatal(err)
	}
	if n.description != "Does it." || asked.String() != "What is it for: " {
		t.Errorf("asked %q, got %q", asked.String(), n.description)
	}
	// Whoever goes away gets nothing.
	if err := n.ask(q, func(flag string) bool { return flag != "name" }); err == nil {
		t.Error("went on without an answer")
	}
}

// TestNewAgentIsReadBackAsItWasSaid writes texts that mean something in YAML.
func TestNewAgentIsReadBackAsItWasSaid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"no", "1.0", "a: b", "# x", `"q" 'q'`, "{{.Text}}", "- x", "é \u2028 ü", "${x", "null", "a\tb", "&a *b !c"} {
		n := &newAgent{
			id: "on", name: text, description: text, version: text, run: "script",
			skillIDs: []string{text}, skillNames: []string{text}, skillDescriptions: []string{text}, skillTags: []string{strings.ReplaceAll(text, ",", "")},
			inputModes: []string{"text/plain", "application/json", "image/png"}, outputModes: []string{"text/plain"}, streaming: true,
		}
		c, err := config.Parse([]byte(n.configuration()), t.TempDir())
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got := c.Agents["on"]
		s := got.Skills[0]
		want := strings.TrimSpace(text)
		if got.Name != text || got.Description != text || got.Version != text || s.ID != want || s.Name != want || s.Description != want || s.Tags[0] != want {
			t.Errorf("%q became %+v", text, got)
		}
		if _, err := n.inputsSchema(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
