package llm

import (
	"slices"

	"handoff.example/handoff/a2a"
)

// maxEarlier bounds what is told of one earlier message or answer, in bytes.
const maxEarlier = 8 << 10

// remember begins the conversation with what was said and answered in earlier tasks of
// the context. A task is over with its answer, so that the next message is that of
// another one.
func (w *work) remember() {
	if w.conf.Earlier == 0 || w.opts.Earlier == nil {
		return
	}
	tasks, err := w.opts.Earlier(w.ctx, w.turn, w.conf.Earlier+1) // this one may be among them
	if err != nil {
		w.log.WarnContext(w.ctx, "The earlier tasks of a context could not be read", "task", w.turn.TaskID, "error", err)
		return
	}
	room := w.conf.Limits.Context * 2 // bytes: about half of what the model is given
	var blocks [][]message
	for i := range tasks {
		t := &tasks[i]
		if t.ID == w.turn.TaskID || t.Status.State != a2a.StateCompleted || len(blocks) == w.conf.Earlier {
			continue
		}
		block := toldOf(t)
		for j := range block {
			room -= block[j].size()
		}
		if room < 0 {
			break
		}
		blocks = append(blocks, block)
	}
	for _, block := range slices.Backward(blocks) {
		w.state.Conversation = append(w.state.Conversation, block...)
	}
}

// toldOf is what was said and answered in a task.
func toldOf(t *a2a.Task) []message {
	var block []message
	for i := range t.History {
		if m := &t.History[i]; m.Role == a2a.RoleUser {
			block = append(block, message{Role: roleUser, Text: bounded(textOf(m.Parts), maxEarlier)})
		}
	}
	answer := ""
	for i := range t.Artifacts {
		if t.Artifacts[i].ArtifactID == answerID {
			answer = textOf(t.Artifacts[i].Parts)
		}
	}
	if len(block) == 0 || answer == "" {
		return nil
	}
	return append(block, message{Role: roleAssistant, Text: bounded(answer, maxEarlier)})
}
