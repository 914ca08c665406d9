package wire_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/wire"
)

func TestRow66_UnfilteredList(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		n.sent(b, send("echo x"))
		n.sent(b, send("ask", object{"contextId": "c-1"}))
		n.sent(b, send("fail"))
		if got := n.list(b, object{}); len(got.Tasks) != 3 || got.TotalSize != 3 {
			t.Errorf("%d of %d tasks", len(got.Tasks), got.TotalSize)
		}
		for _, c := range []struct {
			params object
			want   int
		}{
			{object{"status": "TASK_STATE_COMPLETED"}, 1},
			{object{"status": "TASK_STATE_WORKING"}, 0},
			{object{"status": 6}, 1},
			{object{"status": "TASK_STATE_UNSPECIFIED"}, 3},
			{object{"contextId": "c-1"}, 1},
			{object{"context_id": "c-1"}, 1},
			{object{"contextId": "c-2"}, 0},
		} {
			if got := n.list(b, c.params); len(got.Tasks) != c.want || got.TotalSize != c.want {
				t.Errorf("%v: %d of %d tasks", c.params, len(got.Tasks), got.TotalSize)
			}
		}
	})
}

func TestRow67_EmptyListAndBadPages(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		if got, want := string(n.ok(b, "ListTasks", object{})), `{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for field, params := range map[string][]object{
			"pageToken": {{"pageToken": "junk"}, {"pageToken": "AAAA"}},
			"pageSize":  {{"pageSize": 0}, {"pageSize": 101}, {"pageSize": -1}},
		} {
			for _, p := range params {
				a := n.call(b, "ListTasks", p)
				a.isError(t, a2a.CodeInvalidParams)
				if !a.field(field) {
					t.Errorf("%v: %s", p, a.Body)
				}
			}
		}
	})
}

func TestRow67_Pages(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		var want []string
		for range 5 {
			want = append([]string{n.sent(b, send("echo x")).ID}, want...)
		}
		var got []string
		for token := ""; ; {
			params := object{"pageSize": 2}
			if token != "" {
				params["pageToken"] = token
			}
			page := n.list(b, params)
			for i := range page.Tasks {
				got = append(got, page.Tasks[i].ID)
			}
			if token = page.NextPageToken; token == "" {
				break
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestRow68And71_ListItems(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		id := n.sent(b, send("echo x")).ID
		var list struct{ Tasks []map[string]json.RawMessage }
		read := func(params object) map[string]json.RawMessage {
			if err := json.Unmarshal(n.ok(b, "ListTasks", params), &list); err != nil {
				t.Fatal(err)
			}
			return list.Tasks[0]
		}
		item := read(object{})
		if string(item["id"]) != `"`+id+`"` {
			t.Errorf("id %s", item["id"])
		}
		if item["artifacts"] != nil {
			t.Errorf("artifacts: %s", item["artifacts"])
		}
		if item := read(object{"includeArtifacts": true}); !bytes.Contains(item["artifacts"], []byte(`"text":"x"`)) {
			t.Errorf("artifacts: %s", item["artifacts"])
		}
		n.sent(b, send("ask"))
		if item := read(object{"includeArtifacts": true}); string(item["artifacts"]) != "[]" {
			t.Errorf("artifacts of a task without: %s", item["artifacts"])
		}
	})
}

func TestRow70_StatusTimestampAfter(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		task := n.sent(b, send("echo x"))
		at := task.Status.Timestamp
		for when, want := range map[string]int{
			"2026-01-01T00:00:00Z":                                            1,
			at.UTC().Format("2006-01-02T15:04:05.000Z"):                       1, // inclusive
			at.Add(time.Millisecond).UTC().Format("2006-01-02T15:04:05.000Z"): 0,
			at.In(time.FixedZone("", 3600)).Format(time.RFC3339Nano):          1,
		} {
			if got := n.list(b, object{"statusTimestampAfter": when}).TotalSize; got != want {
				t.Errorf("%s: %d tasks, want %d", when, got, want)
			}
		}
		for _, bad := range []any{"123", "yesterday", ""} {
			a := n.call(b, "ListTasks", object{"statusTimestampAfter": bad})
			a.isError(t, a2a.CodeInvalidParams)
			if !a.field("statusTimestampAfter") {
				t.Errorf("%v: %s", bad, a.Body)
			}
		}
	})
}

func TestRow71_BadQueryParameters(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	for query, field := range map[string]string{
		"pageSize=abc": "pageSize", "pageSize=-1": "pageSize", "page_size=x": "pageSize", "pageSize=": "pageSize",
		"historyLength=abc": "historyLength", "historyLength=-1": "historyLength", "historyLength=99999999999": "historyLength",
		"status=BOGUS": "status", "status=completed": "status", "status=9": "status",
		"includeArtifacts=yes": "includeArtifacts", "statusTimestampAfter=123": "statusTimestampAfter",
		"pageSize=1&pageSize=2": "pageSize", "pageSize=1&page_size=1": "pageSize", "contextId=a&contextId=b": "contextId",
	} {
		a := n.do(rest, n.request(rest, "ListTasks", object{}, func(r *http.Request) { r.URL.RawQuery = query }))
		a.isError(t, a2a.CodeInvalidParams)
		if !a.field(field) || !bytes.Contains(a.Body, []byte(`"status":"INVALID_ARGUMENT"`)) {
			t.Errorf("%s: %s", query, a.Body)
		}
	}
	n.do(rest, n.request(rest, "ListTasks", object{}, func(r *http.Request) { r.URL.RawQuery = "a;b=%zz" })).isError(t, a2a.CodeInvalidParams)
	id := n.sent(rest, send("echo x")).ID
	for _, query := range []string{"historyLength=1", "history_length=1", "historyLength=1&utm=x", url.Values{"A2A-Version": {"1.0"}}.Encode()} {
		n.ok(rest, "GetTask", object{"id": id}, func(r *http.Request) { r.URL.RawQuery = query })
	}
	a := n.call(rest, "GetTask", object{"id": id}, func(r *http.Request) { r.URL.RawQuery = "historyLength=x" })
	a.isError(t, a2a.CodeInvalidParams)
}

// TestAnonymousListNeedsContext checks the fourth rule of the design: anonymous
// callers share an owner, and must not see each other's tasks.
func TestAnonymousListNeedsContext(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{options: func(o *wire.Options) {
			o.Auth = testCallers{&auth.Anonymous{Policy: auth.PolicyEverywhere}}
		}})
		n.sent(b, send("echo x", object{"contextId": "secret"}))
		far := header("X-Forwarded-For", "203.0.113.7")
		a := n.call(b, "ListTasks", object{}, far)
		a.isError(t, a2a.CodeInvalidParams)
		if !a.field("contextId") {
			t.Errorf("%s", a.Body)
		}
		if got := n.list(b, object{"contextId": "secret"}, far).TotalSize; got != 1 {
			t.Errorf("%d tasks in the context", got)
		}
		n.list(b, object{})
		n.list(b, object{}, far, as("/alice"))
	})
}
