package bridge

import (
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/mcp"
)

// view is a task as MCP has it (TSK-07, GWY A2A bridge).
func (c *Calls) view(ctx context.Context, r *engine.Record) *mcp.Task {
	t := &mcp.Task{
		ID: r.Row.ID, Created: r.Row.Created, Updated: r.Row.StatusAt, TTL: c.ttl(), Poll: c.poll(),
		Status: mcp.TaskWorking, StatusMessage: saidBy(r.Task),
	}
	if strings.HasPrefix(r.Row.Agent, AgentPrefix) {
		c.viewCall(ctx, t, r)
	} else {
		viewTask(t, r.Task)
	}
	return t
}

// saidBy returns what the status of a task says in words.
func saidBy(t *a2a.Task) string {
	if t.Status.Message == nil {
		return ""
	}
	return short(textsOf(t.Status.Message.Parts), maxShown)
}

func textsOf(parts []a2a.Part) string {
	var texts []string
	for i := range parts {
		if parts[i].Kind == a2a.PartText {
			texts = append(texts, parts[i].Text)
		}
	}
	return strings.Join(texts, "\n")
}

// viewCall adds what is particular to a kept call.
func (c *Calls) viewCall(ctx context.Context, t *mcp.Task, r *engine.Record) {
	if k, err := decodeKept(engine.MetadataOf(&r.Row)); err == nil && k.TTL > 0 {
		t.TTL = k.ttl()
	}
	var metadata jsontext.Value
	if m := r.Task.Status.Message; m != nil {
		metadata = jsontext.Value(m.Metadata)
	}
	switch r.Task.Status.State {
	case a2a.StateInputRequired:
		if requests := valueOf(metadata, metaInputs); requests != nil {
			t.Status, t.InputRequests = mcp.TaskInputRequired, c.unanswered(ctx, r, requests)
		}
	case a2a.StateAuthRequired:
		t.StatusMessage = "The call waits for an approval"
	case a2a.StateCompleted:
		for i := range r.Task.Artifacts {
			if a := &r.Task.Artifacts[i]; a.ArtifactID == resultID && len(a.Parts) > 0 {
				t.Result = jsontext.Value(a.Parts[0].Data)
			}
		}
		if t.Status = mcp.TaskCompleted; t.Result == nil {
			t.Status, t.Error = mcp.TaskFailed, errorObject(mcp.CodeInternal, "The result of the call is not there")
		}
	case a2a.StateFailed, a2a.StateRejected:
		t.Status, t.Error = mcp.TaskFailed, valueOf(metadata, metaError)
		switch {
		case valueOf(metadata, metaCancelled) != nil:
			t.Status = mcp.TaskCancelled
		case t.Error == nil: // by the node itself, which does not know what the server has done
			t.Error = errorObject(mcp.CodeOutcomeUnknown, t.StatusMessage)
		}
	case a2a.StateCanceled:
		t.Status = mcp.TaskCancelled
	}
}

func errorObject(code int, message string) jsontext.Value {
	if message == "" {
		message = "The call has failed"
	}
	e := mcp.Errorf(code, "%s", message)
	text := mcp.AppendError(nil, nil, e)
	return valueOf(jsontext.Value(text), "error")
}

// viewTask is the task of an agent.
func viewTask(t *mcp.Task, task *a2a.Task) {
	client := asks(task.ID)
	switch task.Status.State {
	case a2a.StateInputRequired:
		if !client.ElicitForm {
			break // it is answered by answer_task, or in the inbox
		}
		q := questionFor(task)
		t.Status, t.InputRequests = mcp.TaskInputRequired, object([]member{{q.key, q.request()}})
	case a2a.StateAuthRequired:
		if url := authorizeURL(task); url != "" && client.ElicitURL {
			t.Status, t.InputRequests = mcp.TaskInputRequired, object([]member{{keyOf(task), urlRequest(task, url)}})
		}
	case a2a.StateCompleted, a2a.StateFailed, a2a.StateRejected:
		// Only errors of JSON-RPC are failures of the call (TSK-08).
		t.Status, t.Result = mcp.TaskCompleted, resultOf(task)
	case a2a.StateCanceled:
		t.Status = mcp.TaskCancelled
	}
}

// authorizeURL is where a person goes to authorize what a task asks for, "" when
// the agent has not said.
func authorizeURL(t *a2a.Task) string {
	if t.Status.Message == nil {
		return ""
	}
	if r, err := a2a.GrantRequestOf(t.Status.Message.Metadata); err == nil && r != nil {
		return r.URL
	}
	return ""
}

// schemaIn returns the schema of the answer to a question, nil when it has none.
func schemaIn(parts []a2a.Part) jsontext.Value {
	for i := range parts {
		if parts[i].Kind == a2a.PartData && parts[i].MediaType == agent.SchemaMediaType {
			return jsontext.Value(parts[i].Data)
		}
	}
	return nil
}

// pollAfter is how long a client that gets a handle is told to wait.
const pollAfter = 5 * time.Second
