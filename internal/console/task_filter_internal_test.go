package console

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A filter that was made into an address is the same filter again.
func TestAFilterOfTasksIsItsAddress(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.Map(rapid.String(), strings.TrimSpace)
		f := taskFilter{
			Text: word.Draw(t, "q"), Ref: word.Draw(t, "ref"), Agent: word.Draw(t, "agent"), Peer: word.Draw(t, "peer"), Owner: word.Draw(t, "owner"),
			Context: word.Draw(t, "context"), Root: word.Draw(t, "root"), MinAge: word.Draw(t, "min"), MaxAge: word.Draw(t, "max"), Stalled: word.Draw(t, "stalled"),
			Page: rapid.String().Draw(t, "page"),
		}
		for _, state := range taskStates {
			if rapid.Bool().Draw(t, state) {
				f.States = append(f.States, state)
			}
		}
		u, err := url.Parse(f.Path())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, taskFilterOf(u.Query())); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestAFilterOfTasksReadsStatesAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]string{
		"state=working&state=failed":                     {"TASK_STATE_WORKING", "TASK_STATE_FAILED"},
		"state=working,failed,working":                   {"TASK_STATE_WORKING", "TASK_STATE_FAILED"},
		"state=TASK_STATE_AUTH_REQUIRED":                 {"TASK_STATE_AUTH_REQUIRED"},
		"state=input-required":                           {"TASK_STATE_INPUT_REQUIRED"},
		"state=&state=nonsense&state=%3Cscript%3E&state": nil,
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if f := taskFilterOf(q); !slices.Equal(f.States, want) {
			t.Errorf("%s: %q, want %q", query, f.States, want)
		}
	}
	f := taskFilterOf(url.Values{"state": {"working", "failed"}, "page_token": {"a"}})
	if got, want := f.api().Encode(), "page_token=a&state=TASK_STATE_WORKING%2CTASK_STATE_FAILED"; got != want {
		t.Errorf("the API is asked %s, want %s", got, want)
	}
}

// What is chosen stays chosen, even when it is none of the ages that are offered.
func TestAgesKeepWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, current := range []string{"", "1h", "36h"} {
		n := 0
		for _, o := range ages(current) {
			if o.Selected {
				n++
				if o.Value != current {
					t.Errorf("%q is chosen, want %q", o.Value, current)
				}
			}
		}
		if n != 1 {
			t.Errorf("%q: %d are chosen", current, n)
		}
	}
}
