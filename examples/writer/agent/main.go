// Command agent is a program that an exec agent runs for each turn: it reads the
// turn from standard input and prints steps, one a line. It takes a text, a PDF
// file and a data part, asks once for whom it writes, and streams a summary, a
// paragraph a chunk. The sentences are those of the paper; a model would write
// its own in their place.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"

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

// readers is the schema of the answer to the agent's one question.
const readers = `{"type":"object","properties":{"readers":{"type":"string","title":"Readers","examples":["customers"]}},"required":["readers"]}`

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
	request := requestOf(append(turn.History, turn.Messages...))
	switch {
	case request.paper == nil:
		return emit(agent.Step{Ask: &agent.Ask{Content: *agent.Say("Please attach the paper as a PDF file.")}})
	case request.paragraphs < 1 || request.paragraphs > maxParagraphs:
		return emit(agent.Step{Reject: agent.Say(fmt.Sprintf("targetLength is from 1 to %d paragraphs.", maxParagraphs))})
	case turn.Number == 1:
		return errors.Join(
			emit(agent.Step{Working: agent.Say("Reading " + request.name)}),
			emit(agent.Step{Ask: &agent.Ask{Content: *agent.Say("For which readers is the summary?"), Schema: a2a.JSON(readers)}}),
		)
	}
	sentences := sentencesOf(textOf(request.paper))
	if len(sentences) == 0 {
		return emit(agent.Step{Reject: agent.Say(request.name + " has no text that can be read.")})
	}
	if err := emit(agent.Step{Working: agent.Say("Writing for " + answerOf(turn.Messages))}); err != nil {
		return err
	}
	paragraphs := paragraphsOf(sentences, request.paragraphs)
	for i, text := range paragraphs {
		part := a2a.Text(text + "\n\n")
		part.MediaType = "text/markdown"
		chunk := &agent.Artifact{ID: "summary", Name: "summary", Parts: []a2a.Part{part}, Append: i > 0, Last: i == len(paragraphs)-1}
		if err := emit(agent.Step{Artifact: chunk}); err != nil {
			return err
		}
	}
	return emit(agent.Step{Complete: &agent.Content{}})
}

const (
	defaultParagraphs = 3
	maxParagraphs     = 20
)

// request is what the messages of a task ask for.
type request struct {
	paper      []byte
	name       string
	paragraphs int
}

var length = regexp.MustCompile(`^\s*(\d{1,4}) paragraphs?\s*$`)

func requestOf(messages []a2a.Message) request {
	r := request{paragraphs: defaultParagraphs}
	for _, m := range messages {
		for _, p := range m.Parts {
			switch {
			case m.Role != a2a.RoleUser:
			case p.Kind == a2a.PartRaw && p.MediaType == "application/pdf":
				r.paper, r.name = p.Raw, p.Filename
			case p.Kind == a2a.PartData:
				var options struct {
					TargetLength string `json:"targetLength"`
				}
				if err := json.Unmarshal(p.Data, &options); err != nil || options.TargetLength == "" {
					continue
				}
				r.paragraphs = 0
				if match := length.FindStringSubmatch(options.TargetLength); match != nil {
					r.paragraphs, _ = strconv.Atoi(match[1])
				}
			}
		}
	}
	if r.name == "" {
		r.name = "the paper"
	}
	return r
}

// answerOf returns whom the newest message names, in the form or in words.
func answerOf(messages []a2a.Message) string {
	answer := "everybody"
	for _, m := range messages {
		if text := m.Text(); text != "" {
			answer = text
		}
		for _, p := range m.Parts {
			var form struct {
				Readers string `json:"readers"`
			}
			if p.Kind == a2a.PartData && json.Unmarshal(p.Data, &form) == nil && form.Readers != "" {
				answer = form.Readers
			}
		}
	}
	return answer
}
