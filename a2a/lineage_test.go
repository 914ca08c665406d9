package a2a_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
)

func TestLineage(t *testing.T) {
	t.Parallel()
	want := &a2a.Lineage{Root: "r", Parent: "p", Depth: 2, Path: []string{"a", "b"}, Deadline: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	metadata := a2a.WithMember(a2a.JSON(`{"skillId":"x","big":12345678901234567890}`), a2a.LineageExtension, want.AppendJSON(nil))
	got, err := a2a.LineageOf(metadata)
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("%+v, %v in %s", got, err, metadata)
	}
	if !strings.Contains(string(metadata), `"big":12345678901234567890`) || !strings.Contains(string(metadata), `"skillId":"x"`) {
		t.Errorf("metadata %s", metadata)
	}
	for _, none := range []string{"", "{}", `{"lineage":{}}`, `{"` + a2a.LineageExtension + `":null}`} {
		if got, err := a2a.LineageOf(a2a.JSON(none)); got != nil || err != nil {
			t.Errorf("%s: %+v, %v", none, got, err)
		}
	}
	for _, bad := range []string{
		`1`, `[]`, `{"depth":-1}`, `{"depth":"1"}`, `{"depth":1e9}`, `{"path":"a"}`, `{"deadline":"soon"}`,
		`{"path":[` + strings.Repeat(`"x",`, 100) + `"x"]}`, `{"root":"` + strings.Repeat("x", 2000) + `"}`, `{"path":["` + strings.Repeat("x", 3000) + `"]}`,
	} {
		if got, err := a2a.LineageOf(a2a.WithMember(nil, a2a.LineageExtension, a2a.JSON(bad))); a2a.CodeOf(err) != a2a.CodeInvalidParams {
			t.Errorf("%.60s: %+v, %v", bad, got, err)
		}
	}
}

func TestGrantMetadata(t *testing.T) {
	t.Parallel()
	asked := &a2a.GrantRequest{ID: "g", Operation: "pay", URL: "https://x.example/", Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	got, err := a2a.GrantRequestOf(a2a.WithMember(a2a.JSON(`{"grant":"g"}`), a2a.GrantExtension, asked.AppendJSON(nil)))
	if err != nil || !cmp.Equal(asked, got) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := a2a.GrantRequestOf(a2a.JSON(`{"grant":"g"}`)); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, want := range []a2a.GrantDecision{{Approved: true}, {Note: "no \"money\""}} {
		got, err := a2a.GrantDecisionOf(a2a.WithMember(nil, a2a.GrantExtension, want.AppendJSON(nil)))
		if err != nil || !cmp.Equal(&want, got) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, bad := range []string{`{}`, `{"decision":"yes"}`, `{"decision":true}`, `[]`, `{"decision":"deny","note":"` + strings.Repeat("x", 5000) + `"}`} {
		if got, err := a2a.GrantDecisionOf(a2a.WithMember(nil, a2a.GrantExtension, a2a.JSON(bad))); a2a.CodeOf(err) != a2a.CodeInvalidParams {
			t.Errorf("%.60s: %+v, %v", bad, got, err)
		}
	}
}

func TestWithMember(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ metadata, want string }{
		{"", `{"k":1}`},
		{`{}`, `{"k":1}`},
		{`{"k":2}`, `{"k":1}`},
		{`{"b":1.0,"a":{"z":1,"y":2}}`, `{"a":{"z":1,"y":2},"b":1.0,"k":1}`},
		{`[1]`, `{"k":1}`},
	} {
		if got := a2a.WithMember(a2a.JSON(tt.metadata), "k", a2a.JSON(`1`)); string(got) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.metadata, got, tt.want)
		}
	}
}
