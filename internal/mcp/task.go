package mcp

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// States of a task (ext-tasks §Tasks).
const (
	TaskWorking       = "working"
	TaskInputRequired = "input_required"
	TaskCompleted     = "completed"
	TaskFailed        = "failed"
	TaskCancelled     = "cancelled"
)

// Task is a task of the tasks extension.
type Task struct {
	ID            string
	Status        string
	StatusMessage string
	Created       time.Time
	Updated       time.Time
	TTL           time.Duration // from Created; 0: without end
	Poll          time.Duration // 0: not said

	InputRequests jsontext.Value // with TaskInputRequired, by key
	Result        jsontext.Value // with TaskCompleted: what the call has returned
	Error         jsontext.Value // with TaskFailed: the error object
}

// Terminal reports whether the task is over.
func (t *Task) Terminal() bool {
	return t.Status == TaskCompleted || t.Status == TaskFailed || t.Status == TaskCancelled
}

// AppendJSON appends the task as a result of that type: "task" for the answer to
// tools/call, which has no details, "complete" for tasks/get, and "" for the params
// of a notification (TSK-04, TSK-07, TSK-17).
func (t *Task) AppendJSON(dst []byte, resultType string) []byte {
	dst = append(dst, '{')
	if resultType != "" {
		dst = append(append(append(dst, `"resultType":"`...), resultType...), `",`...)
	}
	dst = appendString(append(dst, `"taskId":`...), t.ID)
	dst = appendString(append(dst, `,"status":`...), t.Status)
	if t.StatusMessage != "" {
		dst = appendString(append(dst, `,"statusMessage":`...), t.StatusMessage)
	}
	dst = appendTime(append(dst, `,"createdAt":`...), t.Created)
	dst = appendTime(append(dst, `,"lastUpdatedAt":`...), t.Updated)
	dst = append(dst, `,"ttlMs":`...)
	if t.TTL == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, t.TTL.Milliseconds(), 10)
	}
	if t.Poll > 0 {
		dst = strconv.AppendInt(append(dst, `,"pollIntervalMs":`...), t.Poll.Milliseconds(), 10)
	}
	if resultType != ResultTask {
		for _, part := range []struct {
			status, name string
			value        jsontext.Value
		}{
			{TaskInputRequired, "inputRequests", t.InputRequests},
			{TaskCompleted, "result", t.Result},
			{TaskFailed, "error", t.Error},
		} {
			if part.status == t.Status && part.value != nil {
				dst = append(append(dst, `,"`+part.name+`":`...), part.value...)
			}
		}
	}
	return append(dst, '}')
}

func appendTime(dst []byte, at time.Time) []byte {
	dst = append(dst, '"')
	dst = at.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	return append(dst, '"')
}

// AppendEvent appends a message as a server-sent event. Its bytes stay as they
// are; one that has line breaks goes over several lines.
func AppendEvent(dst []byte, body []byte) []byte {
	dst = append(dst, "event: message\ndata: "...)
	for _, c := range body {
		switch c {
		case '\n':
			dst = append(dst, "\ndata: "...)
		case '\r': // space between tokens, since a string cannot have it
			dst = append(dst, ' ')
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, "\n\n"...)
}
