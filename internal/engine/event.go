package engine

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// noTime holds the place of a timestamp that the store writes.
const noTime = "0000-00-00T00:00:00.000Z"

func quote(dst []byte, s string) []byte {
	dst, err := jsontext.AppendQuote(dst, s)
	_ = err // only of invalid UTF-8, which AppendQuote has replaced
	return dst
}

// statusEvent is the event of a new status. The store writes its time.
func statusEvent(task, context string, state a2a.TaskState, message *a2a.Message, metadata a2a.JSON) store.Event {
	b := make([]byte, 0, 256)
	b = append(b, `{"statusUpdate":{"taskId":`...)
	b = quote(b, task)
	b = append(b, `,"contextId":`...)
	b = quote(b, context)
	b = append(b, ',')
	b = append(b, statusKey...)
	b = append(b, state.String()...)
	b = append(b, '"')
	if message != nil {
		b = append(b, `,"message":`...)
		b = message.AppendJSON(b)
	}
	b = append(b, `,"timestamp":"`...)
	stamp := len(b)
	b = append(b, noTime...)
	b = append(b, `"}`...)
	if metadata != nil {
		b = append(b, `,"metadata":`...)
		b = append(b, metadata...)
	}
	b = append(b, `}}`...)
	return store.Event{Kind: store.KindStatus, Body: b, Stamp: stamp, Says: message != nil}
}

func artifactEvent(u *a2a.TaskArtifactUpdateEvent) store.Event {
	response := a2a.StreamResponse{ArtifactUpdate: u}
	return store.Event{Kind: store.KindArtifact, Body: response.AppendJSON(nil)}
}

func messageEvent(m *a2a.Message) store.Event {
	return store.Event{Kind: store.KindMessage, Body: m.AppendJSON(nil)}
}

// agentMessage returns the message that content says, nil when it says nothing.
func agentMessage(task, context, id string, c *agent.Content) *a2a.Message {
	if c == nil || len(c.Parts) == 0 {
		return nil
	}
	return &a2a.Message{
		MessageID: id, ContextID: context, TaskID: task,
		Role: a2a.RoleAgent, Parts: c.Parts, Metadata: c.Metadata,
	}
}

// askContent is the content of a question with its schema as a last part.
func askContent(a *agent.Ask) *agent.Content {
	c := a.Content
	if a.Schema != nil {
		schema := a2a.Data(a.Schema)
		schema.MediaType = agent.SchemaMediaType
		c.Parts = append(c.Parts[:len(c.Parts):len(c.Parts)], schema)
	}
	return &c
}

// Keys that the engine adds to the metadata of a message that asks for a grant.
const (
	metaGrant     = "grant"
	metaOperation = "operation"
	metaURL       = "url"
	metaExpires   = "expires"
)

// authorizeContent is the content of a request for a grant, with the request in
// its metadata (A2A §7.6.1 asks for an explanation; here it is one that a
// program can read too). An agent may describe the request in its own way beside.
func authorizeContent(a *agent.Authorize, grant string) *agent.Content {
	c := a.Content
	if len(c.Parts) == 0 {
		c.Parts = []a2a.Part{a2a.Text("Authorization is required to go on.")}
	}
	request := a2a.GrantRequest{ID: grant, Operation: a.Operation, URL: a.URL}
	if !a.Expires.IsZero() {
		request.Expires = a.Expires.UTC().Truncate(time.Second)
	}
	if c.Metadata == nil {
		c.Metadata = plainRequest(&request)
	}
	c.Metadata = a2a.WithMember(c.Metadata, a2a.GrantExtension, request.AppendJSON(nil))
	return &c
}

// plainRequest is metadata that describes a request for a grant.
func plainRequest(r *a2a.GrantRequest) a2a.JSON {
	b := append([]byte{}, `{"`+metaGrant+`":`...)
	b = quote(b, r.ID)
	add := func(key, value string) {
		if value != "" {
			b = append(b, `,"`+key+`":`...)
			b = quote(b, value)
		}
	}
	add(metaOperation, r.Operation)
	add(metaURL, r.URL)
	if !r.Expires.IsZero() {
		add(metaExpires, r.Expires.Format(time.RFC3339))
	}
	return append(b, '}')
}

// grantID names the request that a turn of a task made: there is at most one.
func grantID(task string, turn int) string { return task + "-" + strconv.Itoa(turn) }
