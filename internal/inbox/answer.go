package inbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/form"
	"handoff.example/handoff/internal/store"
)

// Bounds of answers, in bytes.
const (
	maxText = 64 << 10
	maxNote = 4 << 10
)

// Answer is what a person answers to a question.
type Answer struct {
	Item string // id
	Text string
	Data a2a.JSON // for the schema of the question; nil: none
	By   string   // who answers, for the record
}

// Answer answers a question. Data has to fit the schema of the question, if it
// has one; the error names the field that does not.
func (s *Service) Answer(ctx context.Context, scope store.Scope, a *Answer) error {
	item, err := s.open(ctx, scope, a.Item)
	if err != nil {
		return err
	}
	switch {
	case len(a.Text) > maxText:
		return a2a.Invalid("text", "is longer than %d bytes", maxText)
	case a.Text == "" && a.Data == nil:
		return a2a.Invalid("text", "is missing, and there is no data")
	case asksForGrant(item), item.Kind == store.InboxCall, item.Kind == store.InboxCard:
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "This asks for a decision: approve or deny it")
	}
	if a.Data != nil {
		if err := check(item, a.Data); err != nil {
			return err
		}
	}
	if item.Kind == store.InboxStuck || item.Task == "" {
		// Somebody has looked after it. The words are for the record.
		return s.putAway(ctx, scope, item, a)
	}
	return s.send(ctx, item, a)
}

// putAway settles an item that nobody else waits for. What the answer to a stuck one
// sets off is in its history, which whoever has answered is shown.
func (s *Service) putAway(ctx context.Context, scope store.Scope, item *store.InboxItem, a *Answer) error {
	var do func(context.Context) error
	if s.opts.Looked != nil && item.Kind == store.InboxStuck {
		says, then, err := s.opts.Looked(ctx, item)
		if err != nil {
			return err
		}
		do = then
		if err := s.update(ctx, scope, &store.InboxUpdate{ID: item.ID, Entry: store.InboxEntry{By: node, What: "looked", Words: says}}); err != nil {
			return err
		}
	}
	settle := &store.InboxSettle{By: a.By, Decision: "answered", Words: wordsOf(a)}
	if err := s.update(ctx, scope, &store.InboxUpdate{ID: item.ID, Settle: settle}); err != nil || do == nil {
		return err
	}
	return do(ctx)
}

// send makes a message to the task of an item.
func (s *Service) send(ctx context.Context, item *store.InboxItem, a *Answer) error {
	owner := ownerOf(item)
	row, err := s.opts.Store.Task(ctx, owner, item.Task)
	if errors.Is(err, store.ErrNotFound) {
		return a2a.TaskNotFound(item.Task)
	}
	if err != nil {
		return err
	}
	spec := s.opts.Agents(row.Agent)
	if spec == nil {
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "The agent %q of the task does not exist any more; cancel the task", row.Agent)
	}
	message := &a2a.Message{MessageID: "inbox-" + rand.Text(), ContextID: row.Context, TaskID: row.ID, Role: a2a.RoleUser}
	if a.Data != nil {
		part := a2a.Data(a.Data)
		part.MediaType = "application/json"
		message.Parts = append(message.Parts, part)
	}
	message.Parts = append(message.Parts, a2a.Text(wordsOf(a)))
	_, err = s.opts.Engine.Send(ctx, &engine.Request{
		Spec: spec, Scope: owner, Caller: agent.Caller{Tenant: row.Tenant, Subject: row.Owner}, Authenticated: row.Owner != "",
		Message: message, Config: a2a.SendMessageConfiguration{ReturnImmediately: true}, Item: item.ID, By: a.By,
	})
	return err
}

// asksForGrant reports whether an item asks for a decision on a grant request.
func asksForGrant(i *store.InboxItem) bool {
	return (i.Kind == store.InboxGrant || i.Kind == store.InboxCall) && i.Grant != ""
}

// ownerOf returns the scope of the caller whose task an item is about.
func ownerOf(i *store.InboxItem) store.Scope {
	return auth.Scope(&auth.Principal{Tenant: i.Tenant, Subject: i.Owner, Role: auth.RoleCaller})
}

// check compares data with the schema of a question.
func check(item *store.InboxItem, data a2a.JSON) error {
	if item.Schema == nil {
		if len(data) > form.MaxAnswer {
			return a2a.Invalid("data", "is larger than %d bytes", form.MaxAnswer)
		}
		return nil
	}
	f, err := form.New(item.Schema)
	if err != nil {
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "The form of the question cannot be used: %v. Answer with text", err)
	}
	return invalid(f.Check(data))
}

// invalid makes an error of the protocol of one that names a field.
func invalid(err error) error {
	e, ok := errors.AsType[*form.FieldError](err)
	if !ok {
		return err
	}
	if e.Field == "" {
		return a2a.Invalid("data", "%s", e.Reason)
	}
	return a2a.Invalid("data."+e.Field, "%s", e.Reason)
}

// wordsOf returns the text of an answer, or its data in words.
func wordsOf(a *Answer) string {
	if a.Text != "" {
		return a.Text
	}
	d := jsontext.NewDecoder(bytes.NewReader(a.Data), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '{' {
		return string(a.Data)
	}
	_, _ = d.ReadToken()
	var lines []string
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			break
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			break
		}
		text := string(value)
		if value.Kind() == '"' {
			if plain, err := jsontext.AppendUnquote(nil, value); err == nil {
				text = string(plain)
			}
		}
		lines = append(lines, name+": "+text)
	}
	if len(lines) == 0 {
		return string(a.Data)
	}
	return strings.Join(lines, "\n")
}

// Decision settles an item that asks for one.
type Decision struct {
	Item     string // id
	Approved bool
	Note     string
	Data     a2a.JSON // with an approval: what the agent needs, such as a credential; kept sealed
	By       string
}

// Decide approves or denies what an item asks for (A2A §7.6). It authorizes the
// operation of that item and nothing else.
func (s *Service) Decide(ctx context.Context, scope store.Scope, d *Decision) error {
	item, err := s.open(ctx, scope, d.Item)
	if err != nil {
		return err
	}
	switch {
	case len(d.Note) > maxNote:
		return a2a.Invalid("note", "is longer than %d bytes", maxNote)
	case d.Data != nil && !d.Approved:
		return a2a.Invalid("data", "goes with approve only")
	}
	if asksForGrant(item) {
		_, err := s.opts.Engine.Decide(ctx, scope, &engine.Decision{
			Grant: item.Grant, Approved: d.Approved, Note: d.Note, Data: d.Data, By: d.By, Item: item.ID,
		})
		return err
	}
	decide := s.opts.Deciders[item.Kind]
	switch {
	case decide == nil:
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "This asks for an answer, and not for a decision")
	case d.Data != nil:
		return a2a.Invalid("data", "is for grant requests only")
	}
	if err := decide(ctx, item, d.Approved); err != nil {
		return err
	}
	settle := &store.InboxSettle{By: d.By, Decision: "denied", Words: d.Note}
	if d.Approved {
		settle.Decision = "approved"
	}
	return s.update(ctx, scope, &store.InboxUpdate{ID: item.ID, Settle: settle})
}

// DecideGrant settles a grant request by its own id, and the item that asks for
// it, if there is one. It returns the task.
func (s *Service) DecideGrant(ctx context.Context, scope store.Scope, grant string, d *Decision) (*store.Task, error) {
	return s.opts.Engine.Decide(ctx, scope, &engine.Decision{Grant: grant, Approved: d.Approved, Note: d.Note, Data: d.Data, By: d.By})
}
