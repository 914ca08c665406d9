package a2ago

import (
	"fmt"
	"slices"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// executorContext is what the executor is told of a turn.
func executorContext(t *agent.Turn) (*a2asrv.ExecutorContext, error) {
	exec := &a2asrv.ExecutorContext{
		TaskID: sdk.TaskID(t.TaskID), ContextID: t.ContextID, Tenant: t.Caller.Tenant,
		User:          userOf(t.Caller),
		ServiceParams: a2asrv.NewServiceParams(map[string][]string{a2a.HeaderExtensions: t.Extensions, a2a.HeaderVersion: {string(sdk.Version)}}),
	}
	if t.Number > 1 || t.Attempt > 1 {
		var err error
		if exec.StoredTask, err = storedTask(t); err != nil {
			return nil, err
		}
	}
	switch {
	case len(t.Messages) > 0:
		var err error
		exec.Message, err = messageToSDK(&t.Messages[len(t.Messages)-1])
		return exec, err
	case exec.StoredTask != nil: // a grant or a time
		for _, m := range slices.Backward(exec.StoredTask.History) {
			if m.Role == sdk.MessageRoleUser {
				exec.Message = m
				break
			}
		}
	}
	return exec, nil
}

func userOf(c agent.Caller) *a2asrv.User {
	if c.Subject == "" {
		return &a2asrv.User{}
	}
	return a2asrv.NewAuthenticatedUser(c.Subject, map[string]any{"issuer": c.Issuer, "tenant": c.Tenant, "scopes": c.Scopes})
}

// storedTask is the task as it was before the turn, with the new messages in its
// history.
func storedTask(t *agent.Turn) (*sdk.Task, error) {
	task := &sdk.Task{ID: sdk.TaskID(t.TaskID), ContextID: t.ContextID, Status: sdk.TaskStatus{State: sdk.TaskStateWorking}}
	switch {
	case t.Attempt > 1:
	case t.Cause == agent.CauseMessage:
		task.Status.State = sdk.TaskStateInputRequired
	case t.Cause == agent.CauseGrant:
		task.Status.State = sdk.TaskStateAuthRequired
	}
	history, err := t.History()
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	for i := range t.Messages {
		known := slices.ContainsFunc(history, func(m a2a.Message) bool { return m.MessageID == t.Messages[i].MessageID })
		if !known {
			history = append(history, t.Messages[i])
		}
	}
	for i := range history {
		m, err := messageToSDK(&history[i])
		if err != nil {
			return nil, err
		}
		task.History = append(task.History, m)
	}
	artifacts, err := t.Artifacts()
	if err != nil {
		return nil, fmt.Errorf("read artifacts: %w", err)
	}
	for i := range artifacts {
		a, err := artifactToSDK(&artifacts[i])
		if err != nil {
			return nil, err
		}
		task.Artifacts = append(task.Artifacts, a)
	}
	return task, nil
}

// taskOf is the task with which an execution begins.
func taskOf(t *agent.Turn, exec *a2asrv.ExecutorContext) *sdk.Task {
	if exec.StoredTask != nil {
		return new(*exec.StoredTask)
	}
	return &sdk.Task{ID: sdk.TaskID(t.TaskID), ContextID: t.ContextID, Status: sdk.TaskStatus{State: sdk.TaskStateWorking}, History: []*sdk.Message{exec.Message}}
}

func messageToSDK(m *a2a.Message) (*sdk.Message, error) {
	parts, err := partsToSDK(m.Parts)
	if err != nil {
		return nil, err
	}
	metadata, err := objectToSDK(m.Metadata)
	if err != nil {
		return nil, err
	}
	out := &sdk.Message{
		ID: m.MessageID, ContextID: m.ContextID, TaskID: sdk.TaskID(m.TaskID),
		Extensions: m.Extensions, Metadata: metadata, Parts: parts, Role: roleToSDK(m.Role),
	}
	for _, id := range m.ReferenceTaskIDs {
		out.ReferenceTasks = append(out.ReferenceTasks, sdk.TaskID(id))
	}
	return out, nil
}

func roleToSDK(r a2a.Role) sdk.MessageRole {
	switch r {
	case a2a.RoleUser:
		return sdk.MessageRoleUser
	case a2a.RoleAgent:
		return sdk.MessageRoleAgent
	}
	return sdk.MessageRoleUnspecified
}

func artifactToSDK(a *a2a.Artifact) (*sdk.Artifact, error) {
	parts, err := partsToSDK(a.Parts)
	if err != nil {
		return nil, err
	}
	metadata, err := objectToSDK(a.Metadata)
	return &sdk.Artifact{
		ID: sdk.ArtifactID(a.ArtifactID), Name: a.Name, Description: a.Description,
		Extensions: a.Extensions, Parts: parts, Metadata: metadata,
	}, err
}

func partsToSDK(parts []a2a.Part) (sdk.ContentParts, error) {
	out := make(sdk.ContentParts, len(parts))
	for i := range parts {
		p := &parts[i]
		metadata, err := objectToSDK(p.Metadata)
		if err != nil {
			return nil, err
		}
		out[i] = &sdk.Part{Filename: p.Filename, MediaType: p.MediaType, Metadata: metadata}
		switch p.Kind {
		case a2a.PartText:
			out[i].Content = sdk.Text(p.Text)
		case a2a.PartRaw:
			out[i].Content = sdk.Raw(p.Raw)
		case a2a.PartURL:
			out[i].Content = sdk.URL(p.URL)
		case a2a.PartData:
			var value any
			if err := json.Unmarshal(p.Data, &value); err != nil {
				return nil, fmt.Errorf("read data of part %d: %w", i, err)
			}
			out[i].Content = sdk.Data{Value: value}
		}
	}
	return out, nil
}

func partsToOurs(parts sdk.ContentParts) ([]a2a.Part, error) {
	out := make([]a2a.Part, len(parts))
	for i, p := range parts {
		if p == nil {
			return nil, fmt.Errorf("part %d is nil", i)
		}
		switch content := p.Content.(type) {
		case sdk.Text:
			out[i] = a2a.Text(string(content))
		case sdk.Raw:
			out[i] = a2a.Raw(content, "", "")
		case sdk.URL:
			out[i] = a2a.URL(string(content), "", "")
		case sdk.Data:
			value, err := toJSON(content.Value)
			if err != nil {
				return nil, fmt.Errorf("data of part %d: %w", i, err)
			}
			out[i] = a2a.Data(value)
		default:
			return nil, fmt.Errorf("part %d has no content", i)
		}
		out[i].MediaType, out[i].Filename = p.MediaType, p.Filename
		var err error
		if out[i].Metadata, err = objectToOurs(p.Metadata); err != nil {
			return nil, fmt.Errorf("metadata of part %d: %w", i, err)
		}
	}
	return out, nil
}

func objectToSDK(object a2a.JSON) (map[string]any, error) {
	if len(object) == 0 {
		return nil, nil
	}
	var m map[string]any
	if err := json.Unmarshal(object, &m); err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	return m, nil
}

func objectToOurs(m map[string]any) (a2a.JSON, error) {
	if len(m) == 0 {
		return nil, nil
	}
	return toJSON(m)
}

// toJSON encodes a value of an executor. What is not UTF-8 in it is replaced.
func toJSON(value any) (a2a.JSON, error) {
	return json.Marshal(value, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}
