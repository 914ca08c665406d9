package console

import (
	"net/url"
	"slices"
	"strings"
)

// taskFilter says which tasks a list shows. It stands in the address of the page,
// so that a list can be kept and sent to others.
type taskFilter struct {
	Text    string // in ids, references, messages and artifacts
	Ref     string
	States  []string // TASK_STATE_…; none: all
	Agent   string
	Peer    string
	Owner   string
	Context string
	Root    string
	MinAge  string // durations such as 10m and 2d
	MaxAge  string
	Stalled string
	Page    string // the token of the page
}

// taskStates are the states in the order in which a task goes through them.
var taskStates = []string{
	"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED",
	"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED",
}

// taskFilterOf reads a filter from the query of a page. States may be written
// short, such as working, several times or with commas between.
func taskFilterOf(q url.Values) taskFilter {
	word := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	f := taskFilter{
		Text: word("q"), Ref: word("ref"), Agent: word("agent"), Peer: word("peer"), Owner: word("owner"), Context: word("context"), Root: word("root"),
		MinAge: word("min_age"), MaxAge: word("max_age"), Stalled: word("stalled"), Page: q.Get("page_token"),
	}
	for _, value := range q["state"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(name), "-", "_")); name == "" {
				continue
			}
			if !strings.HasPrefix(name, "TASK_STATE_") {
				name = "TASK_STATE_" + name
			}
			if slices.Contains(taskStates, name) && !slices.Contains(f.States, name) {
				f.States = append(f.States, name)
			}
		}
	}
	return f
}

// values is the filter as the page has it in its address, without the page's
// token.
func (f *taskFilter) values() url.Values {
	q := valuesOf(
		"q", f.Text, "ref", f.Ref, "agent", f.Agent, "peer", f.Peer, "owner", f.Owner, "context", f.Context, "root", f.Root,
		"min_age", f.MinAge, "max_age", f.MaxAge, "stalled", f.Stalled,
	)
	for _, state := range f.States {
		q.Add("state", strings.ToLower(strings.TrimPrefix(state, "TASK_STATE_")))
	}
	return q
}

// api is the query with which the API lists the tasks.
func (f *taskFilter) api() url.Values {
	q := f.values()
	q.Del("state")
	if len(f.States) > 0 {
		q.Set("state", strings.Join(f.States, ","))
	}
	if f.Page != "" {
		q.Set("page_token", f.Page)
	}
	return q
}

// Set reports whether the filter leaves anything out.
func (f *taskFilter) Set() bool { return len(f.values()) > 0 }

// Has reports whether a state is asked for.
func (f *taskFilter) Has(state string) bool { return slices.Contains(f.States, state) }

// Path is the page with this filter.
func (f *taskFilter) Path() string {
	q := f.values()
	if f.Page != "" {
		q.Set("page_token", f.Page)
	}
	return address("/console/tasks", q)
}

// Without is the page without one condition.
func (f *taskFilter) Without(name string) string {
	q := f.values()
	q.Del(name)
	return address("/console/tasks", q)
}

// option is an entry of a select.
type option struct {
	Value, Word string
	Selected    bool
}

// ages are the lengths of time that a filter offers, and the one that it has.
func ages(current string) []option {
	list := []option{{"", "any", current == ""}}
	known := current == ""
	for _, o := range [][2]string{
		{"1m", "1 minute"}, {"10m", "10 minutes"}, {"1h", "1 hour"}, {"6h", "6 hours"}, {"1d", "1 day"}, {"7d", "7 days"}, {"30d", "30 days"},
	} {
		list = append(list, option{o[0], o[1], o[0] == current})
		known = known || o[0] == current
	}
	if !known {
		list = append(list, option{current, current, true})
	}
	return list
}
