package wire

import (
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// OldPush returns what the receiver of a webhook that was set in 0.3 is sent: the
// task as JSON-RPC has it (A2A 0.3 §9.5), or as the dialect before has it when the
// client has named the task.
func OldPush(task *a2a.Task) []byte {
	if alias, ok := strings.CutPrefix(task.ContextID, aliasPrefix); ok {
		f := oldForm{rpc: true, dialect: v03.TasksSend, task: alias}
		return f.appendTask(nil, task)
	}
	body, _ := v03.RPC.Append(nil, task)
	return body
}
