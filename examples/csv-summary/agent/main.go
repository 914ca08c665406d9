// Command agent is a program that an exec agent runs for each turn: it reads the
// turn from standard input and prints steps, one a line. It answers a message
// that has a CSV file with a statistical summary of the file's columns.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		// The last line of standard error is the reason of the failed task.
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	input, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read turn: %w", err)
	}
	turn, err := agent.ParseTurn(input)
	if err != nil {
		return err
	}
	emit := func(s agent.Step) error {
		_, err := out.Write(append(s.AppendJSON(nil), '\n'))
		return err
	}
	file, found := attachment(turn.Messages)
	if !found {
		return emit(agent.Step{Ask: &agent.Ask{Content: *agent.Say("Please attach the CSV file.")}})
	}
	if err := emit(agent.Step{Working: agent.Say("Reading " + file.Filename)}); err != nil {
		return err
	}
	s, err := summarize(bytes.NewReader(file.Raw))
	if err != nil {
		return emit(agent.Step{Reject: agent.Say(fmt.Sprintf("%s is not a CSV file that can be read: %v", file.Filename, err))})
	}
	data, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode summary: %w", err)
	}
	text, object := a2a.Text(s.markdown(file.Filename)), a2a.Data(data)
	text.MediaType, object.MediaType = "text/markdown", "application/json"
	return errors.Join(
		emit(agent.Step{Artifact: &agent.Artifact{Name: "summary", Parts: []a2a.Part{text, object}, Last: true}}),
		emit(agent.Step{Complete: agent.Say(fmt.Sprintf("%d rows, %d columns", s.Rows, len(s.Columns)))}),
	)
}

// attachment returns the newest file that may be a CSV file.
func attachment(messages []a2a.Message) (file a2a.Part, found bool) {
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Kind == a2a.PartRaw && isCSV(p) {
				file, found = p, true
			}
		}
	}
	if file.Filename == "" {
		file.Filename = "the file"
	}
	return file, found
}

func isCSV(p a2a.Part) bool {
	mediaType, _, _ := strings.Cut(strings.ToLower(p.MediaType), ";")
	return strings.TrimSpace(mediaType) == "text/csv" || strings.HasSuffix(strings.ToLower(p.Filename), ".csv")
}
