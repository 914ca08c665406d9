package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

type searchBody struct {
	Tasks []struct {
		taskBody
		Ref, Peer, Root, Parent string
		Waits                   *struct{ Kind, Who, Task string } `json:"waits_for"`
	}
	NextPageToken string `json:"next_page_token"`
	TotalSize     *int   `json:"total_size"`
	Search        *struct {
		Scanned  int
		Complete bool
	}
}

// search reads all pages of a search and returns the ids that are found.
func (n *node) search(caller, query string) []string {
	n.t.Helper()
	ids := []string{}
	for token := ""; ; {
		var body searchBody
		n.call("GET", "/tasks?"+query+"&page_token="+url.QueryEscape(token), caller, "").want(http.StatusOK).decode(&body)
		if body.TotalSize != nil || body.Search == nil {
			n.t.Fatalf("%s is no search: %+v", query, body)
		}
		for i := range body.Tasks {
			ids = append(ids, body.Tasks[i].Task.ID)
		}
		if body.Search.Complete == (body.NextPageToken != "") {
			n.t.Errorf("%s is complete: %v, and goes on at %q", query, body.Search.Complete, body.NextPageToken)
		}
		if token = body.NextPageToken; token == "" {
			return ids
		}
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	began := time.Now().Add(-time.Second)
	hello := n.send("desk", "", "alice", "Hello Grüße").ID
	asked := n.send("desk", "", "alice", "ask").ID
	failed := n.send("desk", "", "alice", "fail").ID
	bobs := n.send("desk", "", "bob", "grüsse an alle").ID
	acmes := n.send("dock", "acme", "eve", "Hello").ID
	n.call("POST", "/delegations", "operator//alice", `{"to":"supplier","message":"ask 400 units","ref":"PO-1"}`).want(http.StatusOK)
	var delegations struct{ Delegations []struct{ ID string } }
	n.call("GET", "/delegations?ref=PO-1", "operator//alice", "").decode(&delegations)
	order := delegations.Delegations[0].ID
	context := n.call("GET", "/tasks/"+asked, "operator//op", "").task().Task.ContextID
	for _, test := range []struct {
		caller, query string
		want          []string
	}{
		{"viewer//alice", "q=HELLO", []string{hello}},
		{"operator//op", "q=HELLO", []string{acmes, hello}},
		{"operator//op", "q=gr%C3%BC", []string{bobs, hello}},
		{"operator//op", "q=said+hello", []string{acmes, hello}}, // an artifact
		{"operator//op", "q=" + hello, []string{hello}},
		{"operator//op", "q=po-1", []string{order}},
		{"operator//op", "q=what%3F", []string{order, asked}}, // a status
		{"operator//op", "q=messageId", nil},
		{"operator//op", "q=400&state=working", nil},
		{"operator//op", "state=failed,input-required", []string{order, failed, asked}},
		{"operator/acme/op", "state=completed,failed", []string{acmes}},
		{"operator//op", "owner=bob", []string{bobs}},
		{"viewer//alice", "owner=bob", nil},
		{"operator//op", "ref=PO-1", []string{order}},
		{"operator/acme/op", "ref=PO-1", nil},
		{"operator//op", "peer=supplier&state=input-required", []string{order}},
		{"operator//op", "peer=supplier&state=completed", nil},
		{"operator//op", "root=" + order, []string{order}},
		{"operator//op", "root=" + hello, []string{hello}},
		{"viewer//bob", "root=" + hello, nil},
		{"operator//op", "stalled=1h", nil},
		{"operator//op", "stalled=1ms&agent=desk", []string{asked}},
		{"operator//op", "max_age=1h&agent=desk", []string{bobs, failed, asked, hello}},
		{"operator//op", "min_age=1h", nil},
		{"operator//op", "since=" + began.UTC().Format(time.RFC3339) + "&until=2099-01-01T00:00:00Z&context=" + context, []string{asked}},
		{"operator//op", "until=" + began.UTC().Format(time.RFC3339), nil},
	} {
		if test.want == nil {
			test.want = []string{}
		}
		for _, size := range []string{"", "&page_size=1"} {
			if got := n.search(test.caller, test.query+size); !slices.Equal(got, test.want) {
				t.Errorf("%s finds with %s%s: %v, want %v", test.caller, test.query, size, got, test.want)
			}
		}
	}
	for _, query := range []string{"q=x", "stalled=soon", "max_age=-1h", "state=working,tired", "q=hello&page_token=abc", "ref=PO-1&page_token=abc"} {
		n.call("GET", "/tasks?"+query, "operator//op", "").failure(http.StatusBadRequest)
	}
	var page searchBody
	n.call("GET", "/tasks?max_age=1h&page_size=1", "operator//op", "").want(http.StatusOK).decode(&page)
	n.call("GET", "/tasks?max_age=2h&page_size=1&page_token="+page.NextPageToken, "operator//op", "").failure(http.StatusBadRequest)
	n.call("GET", "/tasks?q=hello", "viewer//", "").failure(http.StatusBadRequest) // anonymous callers name a context
}

func TestASearchLooksAtSoManyTasksAndGoesOn(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	first := n.send("desk", "", "alice", "needle").ID
	for i := range 1100 {
		n.send("desk", "", "alice", fmt.Sprint("hay ", i))
	}
	var page searchBody
	n.call("GET", "/tasks?q=needle", "viewer//alice", "").want(http.StatusOK).decode(&page)
	if len(page.Tasks) != 0 || page.Search.Complete || page.Search.Scanned > 1000 || page.NextPageToken == "" {
		t.Errorf("the first page: %+v", page)
	}
	if got := n.search("viewer//alice", "q=needle"); !slices.Equal(got, []string{first}) {
		t.Errorf("found %v", got)
	}
}

func TestAListSaysWhatTasksWaitFor(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.send("desk", "", "alice", "ask")
	n.send("desk", "", "alice", "hello")
	n.send("desk", "", "bob", "pay")
	n.call("POST", "/delegations", "operator//alice", `{"to":"supplier","message":"pay","ref":"PO-1"}`).want(http.StatusOK)
	var page searchBody
	n.call("GET", "/tasks", "viewer//alice", "").want(http.StatusOK).decode(&page)
	if page.TotalSize == nil || *page.TotalSize != 3 || page.Search != nil {
		t.Errorf("a list is no search: %+v", page)
	}
	got := map[string]string{}
	for _, task := range page.Tasks {
		says := "nothing"
		if w := task.Waits; w != nil {
			says = w.Kind + " of " + w.Who
		}
		got[task.Task.Status.State.String()] = strings.TrimSpace(says + " " + task.Ref + task.Peer)
	}
	want := map[string]string{
		"TASK_STATE_INPUT_REQUIRED": "answer of alice", "TASK_STATE_COMPLETED": "nothing",
		"TASK_STATE_AUTH_REQUIRED": "grant of alice PO-1supplier",
	}
	for state, says := range want {
		if got[state] != says {
			t.Errorf("%s waits for %s, want %s", state, got[state], says)
		}
	}
}

type bulkBody struct {
	Done, Failed int
	Results      []struct {
		ID, State, Task string
		OK              bool
		Error           *struct{ Status, Message string }
	}
}

func TestManyTasksAtOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	open, done, bobs := n.send("desk", "", "alice", "ask").ID, n.send("desk", "", "alice", "hello").ID, n.send("desk", "", "bob", "ask").ID
	bulk := func(verb, caller string, ids ...string) *bulkBody {
		t.Helper()
		var body bulkBody
		n.call("POST", "/tasks:"+verb, caller, `{"ids":["`+strings.Join(ids, `","`)+`"]}`).want(http.StatusOK).decode(&body)
		if len(body.Results) != len(ids) || body.Done+body.Failed != len(ids) {
			t.Fatalf("%s: %+v", verb, body)
		}
		return &body
	}
	got := bulk("cancel", "caller//alice", open, done, bobs, open)
	if r := got.Results[0]; !r.OK || r.State != "TASK_STATE_CANCELED" || r.Task != "" || r.ID != open {
		t.Errorf("an open task: %+v", r)
	}
	if r := got.Results[1]; r.OK || r.Error == nil || r.Error.Message == "" {
		t.Errorf("a task that is over: %+v", r)
	}
	if r := got.Results[2]; r.OK || r.Error.Status != "NOT_FOUND" {
		t.Errorf("a task of somebody else: %+v", r)
	}
	if r := got.Results[3]; r.OK || !strings.Contains(r.Error.Message, "twice") {
		t.Errorf("a task that is named twice: %+v", r)
	}
	if state := n.call("GET", "/tasks/"+bobs, "operator//op", "").task().Task.Status.State; state.Terminal() {
		t.Errorf("the task of somebody else is %v", state)
	}
	got = bulk("retry", "caller//alice", done, bobs)
	if r := got.Results[0]; !r.OK || r.Task == "" || r.Task == done {
		t.Errorf("a task that is done again: %+v", r)
	}
	got = bulk("delete", "operator//op", done, bobs)
	if got.Done != 1 || !got.Results[0].OK || got.Results[1].OK {
		t.Errorf("removed: %+v", got)
	}
	n.call("GET", "/tasks/"+done, "operator//op", "").failure(http.StatusNotFound)
	n.call("POST", "/tasks:delete", "caller//alice", `{"ids":["x"]}`).failure(http.StatusForbidden)
	n.call("POST", "/tasks:cancel", "viewer//alice", `{"ids":["x"]}`).failure(http.StatusForbidden)
	for _, body := range []string{`{}`, `{"ids":[]}`, `{"ids":[` + strings.Repeat(`"x",`, 200) + `"x"]}`, `{"ids":"x"}`} {
		n.call("POST", "/tasks:cancel", "caller//alice", body).failure(http.StatusBadRequest)
	}
	// Each of them is in the audit log, as if it was the only one.
	var log struct {
		Entries []struct{ Operation, Task, Subject, Result string }
	}
	n.call("GET", "/audit?task="+open, "admin//root", "").want(http.StatusOK).decode(&log)
	found := false
	for _, e := range log.Entries {
		found = found || e.Operation == "POST /tasks/{id}:cancel" && e.Subject == "alice" && e.Result == "OK"
	}
	if !found {
		t.Errorf("the audit log has %+v", log.Entries)
	}
}
