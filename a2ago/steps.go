package a2ago

import (
	"fmt"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"handoff.example/handoff/agent"
)

// steps are what an event comes to.
func (x *execution) steps(event sdk.Event) ([]agent.Step, error) {
	switch e := event.(type) {
	case *sdk.Message:
		x.message = e
		content, err := contentOf(e)
		return []agent.Step{{Message: content}}, err
	case *sdk.Task:
		return x.taskSteps(e)
	case *sdk.TaskStatusUpdateEvent:
		x.task.Status = e.Status
		return statusSteps(e.Status)
	case *sdk.TaskArtifactUpdateEvent:
		if e.Artifact == nil {
			return nil, fmt.Errorf("an artifact event has no artifact")
		}
		step, err := artifactStep(e.Artifact, e.Append, e.LastChunk)
		return []agent.Step{step}, err
	}
	return nil, fmt.Errorf("%T is no event that is known", event)
}

// taskSteps are those of a snapshot: its artifacts as a whole, and its status.
func (x *execution) taskSteps(t *sdk.Task) ([]agent.Step, error) {
	x.task = t
	var steps []agent.Step
	for _, a := range t.Artifacts {
		step, err := artifactStep(a, false, true)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	last, err := statusSteps(t.Status)
	return append(steps, last...), err
}

func statusSteps(s sdk.TaskStatus) ([]agent.Step, error) {
	content, err := contentOf(s.Message)
	if err != nil {
		return nil, err
	}
	var step agent.Step
	switch s.State {
	case sdk.TaskStateSubmitted:
		return nil, nil
	case sdk.TaskStateWorking:
		step.Working = content
	case sdk.TaskStateInputRequired:
		step.Ask = &agent.Ask{Content: *content}
	case sdk.TaskStateAuthRequired:
		step.Authorize = &agent.Authorize{Content: *content}
	case sdk.TaskStateCompleted:
		step.Complete = content
	case sdk.TaskStateRejected:
		step.Reject = content
	case sdk.TaskStateFailed:
		step.Fail = content
	case sdk.TaskStateCanceled:
		if len(content.Parts) == 0 {
			content = agent.Say("The agent has canceled the task.")
		}
		step.Fail = content
	default:
		return nil, fmt.Errorf("%q is no state of a task", s.State)
	}
	return []agent.Step{step}, nil
}

func artifactStep(a *sdk.Artifact, appends, last bool) (agent.Step, error) {
	parts, err := partsToOurs(a.Parts)
	if err != nil {
		return agent.Step{}, err
	}
	metadata, err := objectToOurs(a.Metadata)
	return agent.Step{Artifact: &agent.Artifact{
		ID: string(a.ID), Name: a.Name, Description: a.Description,
		Parts: parts, Append: appends, Last: last, Metadata: metadata,
	}}, err
}

// contentOf is what a message says; nil says nothing.
func contentOf(m *sdk.Message) (*agent.Content, error) {
	if m == nil {
		return &agent.Content{}, nil
	}
	parts, err := partsToOurs(m.Parts)
	if err != nil {
		return nil, err
	}
	metadata, err := objectToOurs(m.Metadata)
	return &agent.Content{Parts: parts, Metadata: metadata}, err
}
