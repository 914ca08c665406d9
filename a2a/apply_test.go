package a2a

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApply(t *testing.T) {
	t.Parallel()
	events := []string{
		`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED"},"artifacts":[{"artifactId":"a","parts":[{"text":"0"}]}],"history":[{"messageId":"m0","role":"ROLE_USER","parts":[{"text":"hi"}]}]}}`,
		`{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING","message":{"messageId":"m1","role":"ROLE_AGENT","parts":[{"text":"on it"}]}}}}`,
		`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"1"}]},"append":true}}`,
		`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"b","name":"old","parts":[{"text":"x"}]},"append":true}}`,
		`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"b","name":"new","description":"d","parts":[{"text":"y"}],"metadata":{"k":1},"extensions":["e"]},"append":true,"lastChunk":true}}`,
		`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"2"}]}}}`,
		`{"message":{"messageId":"m2","role":"ROLE_AGENT","parts":[{"text":"ignored"}]}}`,
		`{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`,
	}
	want := `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[` +
		`{"artifactId":"a","parts":[{"text":"2"}]},` +
		`{"artifactId":"b","name":"new","description":"d","parts":[{"text":"x"},{"text":"y"}],"metadata":{"k":1},"extensions":["e"]}],` +
		`"history":[{"messageId":"m0","role":"ROLE_USER","parts":[{"text":"hi"}]},{"messageId":"m1","role":"ROLE_AGENT","parts":[{"text":"on it"}]}]}`
	var task Task
	for _, text := range events {
		task.Apply(mustUnmarshal[StreamResponse](t, text))
	}
	if diff := cmp.Diff(want, string(task.AppendJSON(nil))); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
}

// TestApplyLeavesEvents checks that two readers can apply the same events.
func TestApplyLeavesEvents(t *testing.T) {
	t.Parallel()
	start := &StreamResponse{Task: &Task{
		ID:        "t",
		Status:    TaskStatus{Message: &Message{MessageID: "m"}},
		Artifacts: []Artifact{{ArtifactID: "a", Parts: make([]Part, 1, 8)}},
		History:   make([]Message, 1, 8),
	}}
	chunk := &StreamResponse{ArtifactUpdate: &TaskArtifactUpdateEvent{
		Artifact: Artifact{ArtifactID: "b", Parts: make([]Part, 1, 8)}, Append: true,
	}}
	more := func(text, id string) *StreamResponse {
		return &StreamResponse{ArtifactUpdate: &TaskArtifactUpdateEvent{
			Artifact: Artifact{ArtifactID: id, Name: text, Parts: []Part{Text(text)}}, Append: true,
		}}
	}
	before := string(start.AppendJSON(nil)) + string(chunk.AppendJSON(nil))
	read := func(text string) *Task {
		var task Task
		for _, e := range []*StreamResponse{start, chunk, more(text, "a"), more(text, "b"), {StatusUpdate: &TaskStatusUpdateEvent{}}} {
			task.Apply(e)
		}
		return &task
	}
	one := read("one")
	first := string(one.AppendJSON(nil))
	read("two")
	if diff := cmp.Diff(first, string(one.AppendJSON(nil))); diff != "" {
		t.Errorf("the other reader changed the task (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before, string(start.AppendJSON(nil))+string(chunk.AppendJSON(nil))); diff != "" {
		t.Errorf("the events changed (-before +after):\n%s", diff)
	}
}
