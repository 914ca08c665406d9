package form

import (
	_ "embed"
	"net/url"
	"strconv"
	"strings"
)

// Fields is a template for html/template that defines "fields": the elements of a
// form, made of []Input. What is written in them is read with Written.
//
//go:embed fields.html
var Fields string

// Input is a field as an element of a page, with what is written in it.
type Input struct {
	Field
	ID       string // of the element, and its name in what the page sends
	Hint     string
	Type     string // of an input element
	Step     string
	Value    string
	Selected map[string]bool // by label
	Problem  string
}

// Inputs makes the elements of a form. Written is what is in them, nil for what the
// schema says; problem is what is wrong with one of them, nil for nothing.
func (f *Form) Inputs(written [][]string, problem *FieldError) []Input {
	list := make([]Input, len(f.Fields))
	for i := range f.Fields {
		field := &f.Fields[i]
		in := Input{Field: *field, ID: "f" + strconv.Itoa(i), Type: "text", Value: field.Default, Selected: map[string]bool{}}
		if written != nil {
			in.Value = strings.Join(written[i], "\n")
		}
		if problem.In(field) {
			in.Problem = problem.Reason
		}
		for line := range strings.SplitSeq(in.Value, "\n") {
			in.Selected[line] = true
		}
		switch field.Kind {
		case Number, Integer:
			in.Type, in.Step = "number", "any"
			if field.Kind == Integer {
				in.Step = "1"
			}
		case Date:
			in.Type = "date"
		case DateTime:
			in.Hint = "A time such as 2026-01-31T12:00:00Z"
		case List:
			in.Hint = "One in a line"
		case JSON:
			in.Hint = "JSON"
		}
		list[i] = in
	}
	return list
}

// In reports whether an error is about a field. That of nil is about none.
func (e *FieldError) In(f *Field) bool {
	if e == nil {
		return false
	}
	name, _, _ := strings.Cut(e.Field, ".")
	return f.Name == strings.TrimSuffix(name, "[]")
}

// Written returns what was written in the elements of a form that a page has sent.
func (f *Form) Written(values url.Values) [][]string {
	written := make([][]string, len(f.Fields))
	for i := range f.Fields {
		given := values["f"+strconv.Itoa(i)]
		if field := &f.Fields[i]; field.Kind == List && field.Items != Choice {
			for _, text := range given {
				for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
					if strings.TrimSpace(line) != "" {
						written[i] = append(written[i], line)
					}
				}
			}
			continue
		}
		written[i] = given
	}
	return written
}

// Untouched reports whether nothing was written in a form but what it came with.
func (f *Form) Untouched(written [][]string) bool {
	for i := range f.Fields {
		if text := strings.Join(written[i], "\n"); text != "" && text != f.Fields[i].Default {
			return false
		}
	}
	return true
}
