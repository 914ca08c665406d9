package wire

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
)

// query is the query of a request. It collects what is wrong with the parameters
// that are asked for; those that nobody asks for are ignored.
type query struct {
	values     url.Values
	violations []a2a.Violation
}

func parseQuery(raw string) *query {
	q := &query{}
	if raw == "" {
		return q
	}
	var err error
	if q.values, err = url.ParseQuery(raw); err != nil {
		q.bad("", "the query is not well-formed: "+clip(err.Error(), 200))
	}
	return q
}

func (q *query) bad(field, description string) {
	q.violations = append(q.violations, a2a.Violation{Field: field, Description: description})
}

// err returns one error that names every parameter that is wrong, or nil.
func (q *query) err() error {
	if len(q.violations) == 0 {
		return nil
	}
	return a2a.InvalidFields(q.violations)
}

// value returns a parameter by its name or its name in snake_case.
func (q *query) value(name, snake string) (string, bool) {
	values := q.values[name]
	if snake != "" {
		values = append(values[:len(values):len(values)], q.values[snake]...)
	}
	switch len(values) {
	case 0:
		return "", false
	case 1:
		return values[0], true
	}
	q.bad(name, "is given more than once")
	return "", false
}

func (q *query) text(name, snake string) string {
	text, _ := q.value(name, snake)
	return text
}

func (q *query) integer(name, snake string) *int {
	text, ok := q.value(name, snake)
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		q.bad(name, strconv.Quote(clip(text, 64))+" is not a number")
		return nil
	}
	i := int(n)
	return &i
}

func (q *query) boolean(name, snake string) bool {
	text, ok := q.value(name, snake)
	if ok && text != "true" && text != "false" {
		q.bad(name, strconv.Quote(clip(text, 64))+" is neither true nor false")
	}
	return text == "true"
}

func (q *query) state(name string) a2a.TaskState {
	text, ok := q.value(name, "")
	if !ok {
		return a2a.StateUnspecified
	}
	if state, ok := a2a.ParseTaskState(text); ok {
		return state
	}
	if n, err := strconv.ParseInt(text, 10, 8); err == nil && n >= 0 && n <= int64(a2a.StateAuthRequired) {
		return a2a.TaskState(n)
	}
	q.bad(name, strconv.Quote(clip(text, 64))+" is not a task state")
	return a2a.StateUnspecified
}

func (q *query) time(name, snake string) time.Time {
	text, ok := q.value(name, snake)
	if !ok {
		return time.Time{}
	}
	// A plus that was not escaped has become a space.
	t, err := time.Parse(time.RFC3339, strings.ReplaceAll(text, " ", "+"))
	if err != nil {
		q.bad(name, strconv.Quote(clip(text, 64))+" is not a time such as 2026-01-31T12:00:00Z")
	}
	return t
}

// list reads the parameters of ListTasks (A2A §3.1.4).
func (q *query) list(r *a2a.ListTasksRequest) error {
	*r = a2a.ListTasksRequest{
		Tenant:               q.text("tenant", ""),
		ContextID:            q.text("contextId", "context_id"),
		Status:               q.state("status"),
		PageSize:             q.integer("pageSize", "page_size"),
		PageToken:            q.text("pageToken", "page_token"),
		HistoryLength:        q.integer("historyLength", "history_length"),
		StatusTimestampAfter: q.time("statusTimestampAfter", "status_timestamp_after"),
		IncludeArtifacts:     q.boolean("includeArtifacts", "include_artifacts"),
	}
	return q.err()
}
