package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/store/storetest"
)

// TestPlans sees that no query reads a whole table or sorts it, but for those
// that are meant to.
func TestPlans(t *testing.T) {
	t.Parallel()
	s := openFile(t, filepath.Join(t.TempDir(), "handoff.db"), sqlite.Options{Readers: 1})
	storetest.Tour(t, s)
	scopes := []store.Scope{store.ForOwner("", "ann"), store.ForTenant(""), store.ForAll()}
	for _, scope := range scopes {
		for _, agent := range []string{"", "echo"} {
			for _, context := range []string{"", "c"} {
				for _, state := range []a2a.TaskState{0, a2a.StateWorking} {
					for _, after := range []time.Time{{}, time.UnixMilli(1)} {
						q := store.ListQuery{Agent: agent, Context: context, State: state, After: after, PageSize: 1}
						if _, err := s.List(t.Context(), scope, q); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}
	}
	plans, err := s.Plans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(plans) < 50 {
		t.Errorf("only %d queries were seen", len(plans))
	}
	for query, plan := range plans {
		for step := range strings.SplitSeq(plan, "\n") {
			scans := strings.HasPrefix(step, "SCAN ") || strings.Contains(step, "TEMP B-TREE")
			if scans && !meant[step] && !strings.Contains(query, "AND 0") && !strings.Contains(query, "WHERE 0") {
				t.Errorf("%s\nhas the step %s\n\n%s", query, step, plan)
			}
		}
	}
}

// meant are the steps that read a whole table or index on purpose, besides
// queries in the scope of nobody, which read nothing.
var meant = map[string]bool{
	"SCAN clock":                     true, // one row
	"SCAN nodes":                     true, // one row
	"SCAN schema_info":               true, // one row
	"SCAN api_keys":                  true, // a list of few
	"SCAN purge":                     true, // empty most of the time
	"SCAN r":                         true, // lists and claims of operators
	"SCAN o":                         true, // statistics
	"USE TEMP B-TREE FOR GROUP BY":   true, // statistics
	"SCAN w":                         true, // in order, up to a limit
	"SCAN d":                         true, // in order, up to a limit
	"SCAN peers":                     true, // a list of few
	"SCAN g USING INDEX grants_open": true, // in order, up to a limit
	"SCAN jobs USING COVERING INDEX jobs_due": true, // in order, up to a limit
}
