package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"handoff.example/handoff/internal/form"
)

func newInboxAnswerCommand(a *app) *cobra.Command {
	var text, data string
	cmd := adminCommand(a, "answer ID", "Answer a question", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		body := map[string]any{}
		if data != "" {
			value, err := a.readAnswer(data)
			if err != nil {
				return err
			}
			body["data"] = value
		}
		if text != "" {
			body["text"] = text
		}
		if len(body) == 0 {
			if !a.asksPeople() {
				return usagef("there is no answer").hint("Give it with --text TEXT or --data FILE; on a terminal, it is asked for")
			}
			asked, err := a.askItem(ctx, node, args[0])
			if err != nil {
				return err
			}
			body = asked
		}
		return a.onItem(ctx, node, "POST", args[0], "/answer", body)
	})
	cmd.Long = `Answer a question, in words or, where the question has a JSON Schema, with JSON that
fits it. On a terminal, without --text and --data, the fields of the schema are asked
for one after the other. The first answer counts.`
	cmd.Example = `  handoff inbox answer ID
  handoff inbox answer ID --text "the blue one"
  handoff inbox answer ID --data '{"incoterm": "DAP"}'
  handoff inbox answer ID --data '"DAP"'
  handoff inbox answer ID --data answer.json`
	cmd.Flags().StringVar(&text, "text", "", "the answer in words")
	cmd.Flags().StringVar(&data, "data", "", "the answer as JSON: itself, a file of it, or - for standard input")
	return cmd
}

// readAnswer reads the JSON of an answer.
func (a *app) readAnswer(from string) (jsontext.Value, error) {
	return a.readData(from, form.MaxAnswer)
}

// readData reads JSON that --data gives: itself, a file of it, or - for standard
// input. What is not a file may be a secret with a slip in it, and is not
// repeated.
func (a *app) readData(from string, most int) (jsontext.Value, error) {
	var in io.Reader
	switch {
	case jsontext.Value(from).IsValid():
		in = strings.NewReader(from)
	case from == "-":
		in = a.stdin
	case strings.HasPrefix(from, "{") || strings.HasPrefix(from, "[") || strings.HasPrefix(from, `"`):
		return nil, usagef("--data is not JSON")
	default:
		f, err := os.Open(from)
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		if err != nil {
			return nil, usagef("--data is neither JSON nor a file that can be read: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	switch {
	case err != nil:
		return nil, usagef("--data cannot be read: %w", err)
	case len(data) > most:
		return nil, usagef("--data has more than %d bytes", most)
	case !jsontext.Value(data).IsValid():
		return nil, usagef("--data is not JSON")
	}
	return data, nil
}

// askItem asks the person at the terminal what an item asks.
func (a *app) askItem(ctx context.Context, node *nodeAPI, id string) (map[string]any, error) {
	var d inboxDetail
	if _, err := node.get(ctx, "GET", "/inbox/"+url.PathEscape(id), nil, &d); err != nil {
		return nil, err
	}
	q := &questioner{in: bufio.NewReader(a.stdin), out: &printer{w: a.stderr}}
	q.out.field("Question", d.Item.Text)
	if d.Item.Schema != nil {
		if f, err := form.New(d.Item.Schema); err == nil {
			value, err := q.fill(f)
			if err != nil {
				return nil, err
			}
			return map[string]any{"data": value}, nil
		}
		q.out.write("The form of the question cannot be used; answer in words.\n")
	}
	text, err := q.ask("Answer")
	if err != nil || text == "" {
		return nil, failf(codeInterrupted, "nothing was answered")
	}
	return map[string]any{"text": text}, nil
}

// questioner asks a person on a terminal.
type questioner struct {
	in  *bufio.Reader
	out *printer
}

// errNothing says that the person has ended the input.
var errNothing = failf(codeInterrupted, "nothing was answered")

// ask asks for one line.
func (q *questioner) ask(prompt string) (string, error) {
	q.out.write(oneLine(prompt) + ": ")
	line, err := q.in.ReadString('\n')
	if err != nil && (line == "" || !errors.Is(err, io.EOF)) {
		return "", errNothing
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// fill asks for the fields of a form, and again for those that do not fit.
func (q *questioner) fill(f *form.Form) (jsontext.Value, error) {
	if f.Description != "" {
		q.out.write(oneLine(f.Description) + "\n")
	}
	written := make([][]string, len(f.Fields))
	for i := range f.Fields {
		if err := q.field(&f.Fields[i], &written[i]); err != nil {
			return nil, err
		}
	}
	for {
		value, err := f.Build(written)
		e, ok := errors.AsType[*form.FieldError](err)
		if !ok {
			return value, err
		}
		q.out.write(oneLine(e.Error()) + "\n")
		name, _, _ := strings.Cut(e.Field, ".")
		name = strings.TrimSuffix(name, "[]")
		i := slices.IndexFunc(f.Fields, func(field form.Field) bool { return field.Name == name })
		if i < 0 {
			return nil, usagef("%w", err).hint("Give the whole answer with --data FILE")
		}
		if err := q.field(&f.Fields[i], &written[i]); err != nil {
			return nil, err
		}
	}
}

// field asks for one field until what is written can be one.
func (q *questioner) field(field *form.Field, written *[]string) error {
	if field.Description != "" {
		q.out.write("  " + oneLine(field.Description) + "\n")
	}
	for {
		texts, err := q.texts(field)
		if err != nil {
			return err
		}
		value, err := field.Read(texts)
		switch {
		case err != nil:
			q.out.write(oneLine(err.Error()) + "\n")
		case value == nil && field.Required:
			q.out.write("This has to be answered.\n")
		default:
			*written = texts
			return nil
		}
	}
}

// texts asks for what is written in a field: of a list, lines up to an empty one.
func (q *questioner) texts(field *form.Field) ([]string, error) {
	prompt := field.Label()
	if prompt == "" {
		prompt = "Answer"
	}
	var notes []string
	if len(field.Options) > 0 {
		notes = append(notes, field.Choices())
	} else if kind := kindText(field); kind != "" {
		notes = append(notes, kind)
	}
	if !field.Required {
		notes = append(notes, "optional")
	}
	if field.Default != "" {
		notes = append(notes, "default "+strings.ReplaceAll(field.Default, "\n", ", "))
	}
	if len(notes) > 0 {
		prompt += " (" + strings.Join(notes, "; ") + ")"
	}
	first, err := q.ask(prompt)
	if err != nil {
		return nil, err
	}
	if first == "" {
		if field.Kind == form.List {
			return strings.Split(field.Default, "\n"), nil
		}
		return []string{field.Default}, nil
	}
	texts := []string{first}
	for field.Kind == form.List {
		more, err := q.ask("  and")
		if err != nil || more == "" {
			break
		}
		texts = append(texts, more)
	}
	return texts, nil
}

// kindText tells people what to write in a field.
func kindText(f *form.Field) string {
	switch kind := f.Kind; kind {
	case form.Number:
		return "a number"
	case form.Integer:
		return "a whole number"
	case form.Boolean:
		return "yes or no"
	case form.Date:
		return "a date such as 2027-01-31"
	case form.DateTime:
		return "a time such as 2027-01-31T12:00:00Z"
	case form.List:
		return "one a line, an empty line ends"
	case form.JSON:
		return "JSON"
	}
	return ""
}
