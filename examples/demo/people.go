package demo

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
)

// people are who watch, and may answer on the terminal.
type people struct{ lines chan string } // nil: there is none

func newPeople(in io.Reader) *people {
	if in == nil {
		return &people{}
	}
	p := &people{make(chan string)}
	go func() { // it ends with its input, or the process
		for lines := bufio.NewScanner(in); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	return p
}

// terminal reports whether there is one to answer on.
func (p *people) terminal() bool { return p.lines != nil }

// pressedEnter reports whether somebody has typed a line.
func (p *people) pressedEnter() bool {
	select {
	case <-p.lines:
		return true
	default:
		return false
	}
}

// said returns the answer that somebody has typed, as the API takes it; nil: none yet.
func (p *people) said(i *item) any {
	select {
	case text := <-p.lines:
		text = strings.TrimSpace(text)
		switch {
		case text == "":
			return nil
		case i.Kind == "question":
			return answer(i, text)
		}
		word, note, _ := strings.Cut(text, " ")
		decision := "deny"
		if strings.HasPrefix(strings.ToLower(word), "y") {
			decision = "approve"
		}
		return map[string]any{"decision": decision, "note": strings.TrimSpace(note)}
	default:
		return nil
	}
}

// answer is a choice of the form that a question has, or words.
func answer(i *item, text string) any {
	for name, choices := range i.choices() {
		for _, choice := range choices {
			if strings.EqualFold(choice, text) {
				return map[string]any{"data": map[string]string{name: choice}}
			}
		}
	}
	return map[string]any{"text": text}
}

// choices are the values of each field that has some.
func (i *item) choices() map[string][]string {
	var form struct {
		Properties map[string]struct {
			Enum []string `json:"enum"`
		} `json:"properties"`
	}
	if json.Unmarshal(i.Schema, &form) != nil {
		return nil
	}
	all := map[string][]string{}
	for name, p := range form.Properties {
		all[name] = p.Enum
	}
	return all
}

// form says what can be typed.
func (i *item) form() string {
	for _, choices := range i.choices() {
		return strings.Join(choices, " or ")
	}
	if i.Kind == "question" {
		return "an answer"
	}
	return "yes or no, and why"
}

// refused says that an answer was not taken.
func (s *screen) refused(err error) {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	s.pair("not taken", "%s", err.Error())
}
