package llm

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// Members of the metadata of status messages, which say what a task has done.
const (
	metaModel = "handoff.example/model-call" // a modelCall
	metaTool  = "handoff.example/tool-call"  // a toolCall
	metaLimit = "handoff.example/limit"      // a limitData
)

// modelCall is a call of the model that is over.
type modelCall struct {
	Model     string         `json:"model"`
	N         int            `json:"n"` // among those of the task, from 1
	Start     time.Time      `json:"start"`
	MS        int64          `json:"ms"`
	Outcome   string         `json:"outcome"`          // ok, cut, busy, failed
	Finish    string         `json:"finish,omitempty"` // as the model says it
	Status    int            `json:"status,omitzero"`  // of HTTP, when it has failed
	Retry     int64          `json:"retry_ms,omitzero"`
	Calls     []string       `json:"calls,omitempty"` // that it asks for
	Input     int64          `json:"input_tokens,omitzero"`
	Cached    int64          `json:"cached_tokens,omitzero"`
	Output    int64          `json:"output_tokens,omitzero"`
	Estimated bool           `json:"estimated,omitzero"` // the model has not told its tokens
	Cost      jsontext.Value `json:"cost,omitzero"`
	Currency  string         `json:"currency,omitempty"`
	Total     total          `json:"total"` // of the task
}

// toolCall is a call of a tool that is over.
type toolCall struct {
	Server   string    `json:"server,omitempty"`
	Tool     string    `json:"tool"`
	N        int       `json:"n"`
	Start    time.Time `json:"start"`
	MS       int64     `json:"ms"`
	Outcome  string    `json:"outcome"` // ok, error, refused, unknown
	Approved bool      `json:"approved,omitzero"`
	Bytes    int       `json:"bytes"` // of the result
}

// limitData says which limit has ended a task.
type limitData struct {
	Key   string `json:"key"`
	Total total  `json:"total"`
}

// metadata is an object with one member.
func metadata(name string, data any) a2a.JSON {
	text, err := json.Marshal(map[string]any{name: data}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil // of structs of ours
	}
	return text
}

// elapsed is how long something has taken, in whole milliseconds.
func elapsed(since time.Time) int64 { return time.Since(since).Milliseconds() }

// stamp is a time as events have it.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
