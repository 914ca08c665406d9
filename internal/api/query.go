package api

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
)

// query reads the parameters of a request, and collects what is wrong with them.
type query struct {
	values     url.Values
	violations []a2a.Violation
}

// query returns the parameters, which are among those names.
func (c *call) query(names ...string) *query {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.bad("", "the query is not well-formed")
	}
	for name, list := range values {
		known := false
		for _, n := range names {
			known = known || n == name
		}
		switch {
		case !known:
			q.bad(clip(name, 100), "is not known here; there are "+strings.Join(names, ", "))
		case len(list) > 1:
			q.bad(name, "is given more than once")
		case len(list[0]) > a2a.MaxTokenLength:
			q.bad(name, "is too long")
		}
	}
	return q
}

func (q *query) bad(field, description string) {
	const most = 20
	if len(q.violations) < most {
		q.violations = append(q.violations, a2a.Violation{Field: field, Description: description})
	}
}

func (q *query) err() error {
	if len(q.violations) == 0 {
		return nil
	}
	return a2a.InvalidFields(q.violations)
}

// number reads a whole number within bounds.
func (q *query) number(name string, absent, least, most int64) int64 {
	text := q.values.Get(name)
	if text == "" {
		return absent
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		q.bad(name, "is not a number from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
		return absent
	}
	return n
}

// flag reads a boolean; a name without a value is true.
func (q *query) flag(name string) bool {
	if !q.values.Has(name) {
		return false
	}
	switch q.values.Get(name) {
	case "", "true", "1":
		return true
	case "false", "0":
		return false
	}
	q.bad(name, "is neither true nor false")
	return false
}

func (q *query) time(name string) time.Time {
	text := q.values.Get(name)
	if text == "" {
		return time.Time{}
	}
	// A plus that was not escaped has become a space.
	t, err := time.Parse(time.RFC3339, strings.ReplaceAll(text, " ", "+"))
	if err != nil {
		q.bad(name, "is not a time such as 2026-01-31T12:00:00Z")
	}
	return t
}

// state reads the name of a state: working or TASK_STATE_WORKING.
func (q *query) state(name string) a2a.TaskState {
	text := q.values.Get(name)
	if text == "" {
		return a2a.StateUnspecified
	}
	if state, ok := ParseState(text); ok {
		return state
	}
	q.bad(name, "is not a task state, such as working or input-required")
	return a2a.StateUnspecified
}

// states reads the names of states with commas between them.
func (q *query) states(name string) (list []a2a.TaskState) {
	text := q.values.Get(name)
	if text == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, ",") {
		state, ok := ParseState(strings.TrimSpace(one))
		if !ok {
			q.bad(name, "has something that is not a task state, such as working or input-required")
			return nil
		}
		list = append(list, state)
	}
	return list
}

// duration reads a length of time, such as 90m or 2d; 0 when it is not given.
func (q *query) duration(name string) time.Duration {
	text := q.values.Get(name)
	if text == "" {
		return 0
	}
	var d config.Duration
	if d.UnmarshalText([]byte(text)) != nil || d <= 0 {
		q.bad(name, "is not a duration such as 90m, 48h or 2d")
		return 0
	}
	return d.Std()
}

// ParseState returns the state of its name on the wire or of its short name,
// such as input-required.
func ParseState(text string) (a2a.TaskState, bool) {
	name := strings.ToUpper(strings.ReplaceAll(text, "-", "_"))
	state, ok := a2a.ParseTaskState("TASK_STATE_" + strings.TrimPrefix(name, "TASK_STATE_"))
	return state, ok && state != a2a.StateUnspecified
}
