package main

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// sendNext sends the agent the next message that somebody has written. It has the id
// that the messenger gave it: sent again, it is the same message to the agent too.
func (f *surface) sendNext(ctx context.Context) (done bool, err error) {
	next, err := f.store.next(ctx)
	if next == nil || err != nil {
		return true, err
	}
	if strings.TrimSpace(next.words) == "/new" {
		return false, f.sentAnd(ctx, next, "", "", "We begin anew.")
	}
	message := &a2a.Message{MessageID: next.id, ContextID: next.context, Role: a2a.RoleUser, Parts: partsOf(next)}
	if next.over && next.task != "" {
		message.ReferenceTaskIDs = []string{next.task}
	} else {
		message.TaskID = next.task
	}
	answer, err := f.agent.SendMessage(ctx, &a2a.SendMessageRequest{
		Message: message,
		Configuration: &a2a.SendMessageConfiguration{
			ReturnImmediately: true, // what comes of it is pushed
			TaskPushNotificationConfig: &a2a.TaskPushNotificationConfig{
				ID: "messenger", URL: f.public + "/agent/" + url.PathEscape(next.conversation), Token: f.tokenOf(next.conversation),
			},
		},
	})
	if e, ok := errors.AsType[*a2a.Error](err); ok && e.Code != a2a.CodeUnavailable && e.Code != a2a.CodeResourceExhausted && e.Code != a2a.CodeInternal {
		// It will be refused as often as it is sent.
		return false, f.sentAnd(ctx, next, next.context, "", "That did not work: "+e.Message)
	}
	if err != nil {
		return false, fmt.Errorf("send message: %w", err)
	}
	if answer.Message != nil {
		return false, f.sentAnd(ctx, next, answer.Message.ContextID, "", textOf(answer.Message.Parts))
	}
	return false, f.sentAnd(ctx, next, answer.Task.ContextID, answer.Task.ID, "")
}

func (f *surface) sentAnd(ctx context.Context, h *heard, contextID, task, reply string) error {
	if err := f.store.sent(ctx, h, contextID, task, reply); err != nil {
		return err
	}
	wake(f.back)
	return nil
}

// partsOf returns what a message says. The number of a choice is that choice.
func partsOf(h *heard) []a2a.Part {
	text := strings.TrimSpace(h.words)
	var choices []jsontext.Value
	if h.wants == "" || json.Unmarshal([]byte(h.wants), &choices) != nil {
		return []a2a.Part{a2a.Text(text)}
	}
	for i, choice := range choices {
		if text != strconv.Itoa(i+1) && !strings.EqualFold(text, plain(choice)) {
			continue
		}
		data := a2a.JSON(choice)
		if h.field != "" {
			name, err := jsontext.AppendQuote([]byte{'{'}, h.field)
			if err != nil {
				break
			}
			data = append(append(append(name, ':'), choice...), '}')
		}
		part := a2a.Data(data)
		part.MediaType = "application/json"
		return []a2a.Part{part, a2a.Text(plain(choice))}
	}
	return []a2a.Part{a2a.Text(text)}
}

// tokenOf is the token with which the agent tells of a conversation: one for each, so
// that nobody who has seen one tells of another.
func (f *surface) tokenOf(conversation string) string {
	mac := hmac.New(sha256.New, f.secret)
	mac.Write([]byte("agent\x00" + conversation))
	return hex.EncodeToString(mac.Sum(nil))
}

// maxEvent bounds an event of the agent.
const maxEvent = 4 << 20

// answered takes an event of the agent. They come in order, and each until it is
// kept.
func (f *surface) answered(w http.ResponseWriter, r *http.Request) {
	conversation := r.PathValue("conversation")
	if !hmac.Equal([]byte(r.Header.Get("A2A-Notification-Token")), []byte(f.tokenOf(conversation))) {
		http.Error(w, "the token is wrong", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvent))
	if err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	var response a2a.StreamResponse
	if err := a2a.Unmarshal(body, &response); err != nil {
		http.Error(w, "not an event", http.StatusBadRequest)
		return
	}
	e := eventOf(&response)
	e.id, e.conversation = r.Header.Get("X-A2A-Event-ID"), conversation
	if e.id == "" || e.task == "" {
		return // nothing for people
	}
	if err := f.store.say(r.Context(), e); err != nil && !errors.Is(err, errKnown) {
		slog.Error("An event could not be kept", "error", err)
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	wake(f.back)
}

// eventOf reads what an event says to people.
func eventOf(r *a2a.StreamResponse) *event {
	switch {
	case r.ArtifactUpdate != nil:
		u := r.ArtifactUpdate
		return &event{
			task: u.TaskID, context: u.ContextID, artifact: u.Artifact.ArtifactID, piece: textOf(u.Artifact.Parts), begins: !u.Append, whole: u.LastChunk,
		}
	case r.StatusUpdate != nil:
		u := r.StatusUpdate
		e := &event{task: u.TaskID, context: u.ContextID, status: true, over: u.Status.State.Terminal()}
		if m := u.Status.Message; m != nil {
			e.words = textOf(m.Parts)
			if u.Status.State == a2a.StateInputRequired {
				e.field, e.choices = choicesOf(m.Parts, &e.words)
			}
		}
		switch u.Status.State {
		case a2a.StateFailed, a2a.StateRejected:
			e.words = "That did not work: " + cmp.Or(e.words, "no reason was given.")
		case a2a.StateCanceled:
			e.words = cmp.Or(e.words, "That was canceled.")
		case a2a.StateAuthRequired:
			e.words = strings.TrimSpace(e.words + "\nIt waits for an approval, and goes on by itself.")
		}
		return e
	}
	return &event{}
}

// choicesOf adds the choices of a question to its words, numbered, when its schema has
// one field of few values. All other questions are answered in words.
func choicesOf(parts []a2a.Part, words *string) (field, choices string) {
	var schema struct {
		Enum       []jsontext.Value `json:"enum"`
		Type       string           `json:"type"`
		Properties map[string]struct {
			Enum []jsontext.Value `json:"enum"`
			Type string           `json:"type"`
		} `json:"properties"`
	}
	for i := range parts {
		if parts[i].MediaType == "application/schema+json" && json.Unmarshal(parts[i].Data, &schema) != nil {
			return "", ""
		}
	}
	values, kind := schema.Enum, schema.Type
	if len(schema.Properties) == 1 {
		for name, property := range schema.Properties {
			field, values, kind = name, property.Enum, property.Type
		}
	}
	if kind == "boolean" {
		values = []jsontext.Value{jsontext.Value("true"), jsontext.Value("false")}
	}
	const few = 20
	if len(values) == 0 || len(values) > few || len(schema.Properties) > 1 {
		return "", ""
	}
	for i, value := range values {
		*words += fmt.Sprintf("\n%d. %s", i+1, plain(value))
	}
	list, err := json.Marshal(values)
	if err != nil {
		return "", ""
	}
	return field, string(list)
}

// plain writes a value for people.
func plain(value jsontext.Value) string {
	switch string(value) {
	case "true":
		return "Yes"
	case "false":
		return "No"
	}
	if text, err := jsontext.AppendUnquote(nil, value); value.Kind() == '"' && err == nil {
		return string(text)
	}
	return string(value)
}

// textOf returns what parts say in words.
func textOf(parts []a2a.Part) string {
	var b strings.Builder
	for i := range parts {
		switch part := &parts[i]; part.Kind {
		case a2a.PartText:
			b.WriteString(part.Text)
		case a2a.PartURL:
			b.WriteString(part.URL)
		case a2a.PartRaw:
			b.WriteString("[a file: " + cmp.Or(part.Filename, part.MediaType) + "]")
		}
	}
	return b.String()
}
