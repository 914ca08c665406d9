package api_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/api"
)

func TestWhoSeesWhichTasks(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.send("desk", "", "alice", "one")
	n.send("desk", "", "bob", "two")
	n.send("dock", "acme", "carol", "three")
	n.send("desk", "", "", "four")
	for _, test := range []struct {
		caller string
		owners []string
	}{
		{"viewer//alice", []string{"alice"}},
		{"caller//bob", []string{"bob"}},
		{"caller/acme/carol", []string{"carol"}},
		{"caller//carol", nil},
		{"operator/acme/op", []string{"carol"}},
		{"operator//op", []string{"", "alice", "bob", "carol"}},
		{"admin//root", []string{"", "alice", "bob", "carol"}},
	} {
		list := n.call("GET", "/tasks", test.caller, "").list()
		var owners []string
		for _, task := range list.Tasks {
			owners = append(owners, task.Owner)
		}
		slices.Sort(owners)
		if diff := cmp.Diff(test.owners, owners); diff != "" || list.TotalSize != len(test.owners) {
			t.Errorf("%s, total %d: %s", test.caller, list.TotalSize, diff)
		}
	}
	// Anonymous callers are one owner: elsewhere they have to know a context.
	if e := n.call("GET", "/tasks", "caller//", "").failure(http.StatusBadRequest); !strings.Contains(e.Error.Message, "context") {
		t.Error(e.Error.Message)
	}
	n.call("GET", "/grants", "caller//", "").failure(http.StatusForbidden)
}

func TestListFiltersAndPages(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for _, text := range []string{"a", "b", "c", "ask d", "ask e"} {
		n.send("desk", "", "alice", text)
	}
	other := n.send("dock", "acme", "carol", "f")
	count := func(query string) int {
		t.Helper()
		return len(n.call("GET", "/tasks?"+query, "operator//op", "").list().Tasks)
	}
	for query, want := range map[string]int{
		"": 6, "agent=desk": 5, "agent=none": 0, "state=input-required": 2, "state=TASK_STATE_COMPLETED": 4, "state=working": 0,
		"context=" + other.ContextID: 1, "agent=desk&state=completed": 3, "after=2999-01-01T00:00:00Z": 0, "after=2020-01-01T00:00:00%2B02:00": 6,
	} {
		if got := count(query); got != want {
			t.Errorf("%s: %d tasks, want %d", query, got, want)
		}
	}
	seen, token := 0, ""
	for {
		page := n.call("GET", "/tasks?page_size=4&page_token="+token, "operator//op", "").list()
		seen += len(page.Tasks)
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if seen != 6 {
		t.Errorf("%d tasks on all pages", seen)
	}
	for _, query := range []string{"page_size=0", "page_size=101", "page_size=x", "page_token=x", "state=asleep", "after=yesterday", "colour=red", "agent=a&agent=b"} {
		n.call("GET", "/tasks?"+query, "operator//op", "").failure(http.StatusBadRequest)
	}
	first := n.call("GET", "/tasks?page_size=1&artifacts&history=5&agent=dock", "operator//op", "").list().Tasks[0]
	if len(first.Task.Artifacts) != 1 || len(first.Task.History) != 1 {
		t.Errorf("%+v", first)
	}
}

func TestTaskOfSomebodyElseDoesNotExist(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	task := n.send("desk", "", "alice", "ask").ID
	for _, path := range []string{"GET /tasks/%", "GET /tasks/%/events", "POST /tasks/%:cancel", "POST /tasks/%:retry"} {
		method, path, _ := strings.Cut(path, " ")
		foreign := n.call(method, strings.ReplaceAll(path, "%", task), "caller//bob", "").failure(http.StatusNotFound)
		unknown := n.call(method, strings.ReplaceAll(path, "%", "nothing"), "caller//bob", "").failure(http.StatusNotFound)
		if diff := cmp.Diff(unknown, foreign); diff != "" {
			t.Errorf("%s %s: %s", method, path, diff)
		}
	}
	if got := n.call("GET", "/tasks/"+task, "caller//alice", "").task(); got.Task.Status.State != a2a.StateInputRequired || got.Events == 0 {
		t.Errorf("%+v", got)
	}
}

func TestCancelRetryDelete(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	task := n.send("desk", "", "alice", "hold").ID
	n.call("DELETE", "/tasks/"+task, "operator//op", "").failure(http.StatusBadRequest)
	n.call("POST", "/tasks/"+task+":retry", "operator//op", "{}").failure(http.StatusBadRequest)
	n.call("POST", "/tasks/"+task+":cancel", "viewer//alice", "{}").failure(http.StatusForbidden)
	if got := n.call("POST", "/tasks/"+task+":cancel", "operator//op", "{}").task(); got.Task.Status.State != a2a.StateCanceled || got.Running {
		t.Errorf("%+v", got)
	}
	n.call("POST", "/tasks/"+task+":cancel", "operator//op", "").want(http.StatusOK)
	events := string(n.call("GET", "/tasks/"+task+"/events", "operator//op", "").want(http.StatusOK).body)
	if !strings.Contains(events, `"canceledBy":"operator"`) {
		t.Error(events)
	}
	again := n.call("POST", "/tasks/"+task+":retry", "operator//op", "{}").task()
	if again.Owner != "alice" || again.Task.ID == task || !slices.Equal(again.Task.History[0].ReferenceTaskIDs, []string{task}) {
		t.Errorf("%+v", again)
	}
	n.call("DELETE", "/tasks/"+task, "caller//alice", "").failure(http.StatusForbidden)
	n.call("DELETE", "/tasks/"+task, "operator//op", "").want(http.StatusNoContent)
	n.call("GET", "/tasks/"+task, "operator//op", "").failure(http.StatusNotFound)
}

func TestGrants(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.send("desk", "", "alice", "pay 1")
	n.send("desk", "", "alice", "pay 2")
	n.send("dock", "acme", "carol", "pay 3")
	var list struct {
		Grants []struct{ ID, Task, Operation, Text string }
	}
	n.call("GET", "/grants", "caller/acme/carol", "").want(http.StatusOK).decode(&list)
	if len(list.Grants) != 1 {
		t.Fatalf("%+v", list)
	}
	n.call("GET", "/grants", "operator//op", "").want(http.StatusOK).decode(&list)
	if len(list.Grants) != 3 || list.Grants[0].Operation != "pay" || list.Grants[0].Text != "Pay 5 EUR?" {
		t.Fatalf("%+v", list)
	}
	path := "/grants/" + list.Grants[0].ID
	if e := n.call("POST", path, "caller//alice", `{"decision":"approve"}`).failure(http.StatusForbidden); !strings.Contains(e.Error.Message, "operator") {
		t.Errorf("does not name the role: %s", e.Error.Message)
	}
	for _, body := range []string{``, `{}`, `{"decision":"maybe"}`, `{"decision":1}`, `{"decision":"approve","extra":1}`, `[`, `{"decision":"deny","data":1}`, `{"decision":"deny","note":"` + strings.Repeat("x", 5000) + `"}`} {
		n.call("POST", path, "operator//op", body).failure(http.StatusBadRequest)
	}
	n.call("POST", path, "operator/acme/op", `{"decision":"approve"}`).failure(http.StatusNotFound)
	n.call("POST", "/grants/nothing", "operator//op", `{"decision":"approve"}`).failure(http.StatusNotFound)
	n.call("POST", path, "operator//op", `{"decision":"approve","note":"fine ","data":{"token":"s3cret"}}`).task()
	n.call("POST", path, "operator//op", `{"decision":"deny"}`).failure(http.StatusBadRequest)
	events := n.call("GET", "/tasks/"+list.Grants[0].Task+"/events?follow", "operator//op", "").want(http.StatusOK).body
	if !strings.Contains(string(events), `granted: fine {\"token\":\"s3cret\"}`) {
		t.Errorf("%s", events)
	}
	denied := n.call("POST", "/grants/"+list.Grants[1].ID, "operator//op", `{"decision":"deny"}`).task().Task.ID
	n.call("GET", "/tasks/"+denied+"/events?follow", "operator//op", "").want(http.StatusOK)
	if got := n.call("GET", "/tasks/"+denied, "operator//op", "").task(); got.Task.Status.State != a2a.StateRejected {
		t.Errorf("%+v", got)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	task := n.send("desk", "", "alice", "hello").ID
	lines := strings.Split(strings.TrimSpace(string(n.call("GET", "/tasks/"+task+"/events", "viewer//alice", "").want(http.StatusOK).body)), "\n")
	for i, prefix := range []string{`{"seq":1,"kind":"message","event":{"message":{`, `{"seq":2,"kind":"status","event":{"statusUpdate":{`} {
		if !strings.HasPrefix(lines[i], prefix) {
			t.Errorf("%s", lines[i])
		}
	}
	rest := n.call("GET", "/tasks/"+task+"/events?after=2", "viewer//alice", "").want(http.StatusOK).body
	if got := strings.Join(lines[2:], "\n") + "\n"; got != string(rest) {
		t.Errorf("%s\nwant %s", rest, got)
	}
	for _, query := range []string{"after=99", "after=-1", "after=x", "follow=maybe"} {
		n.call("GET", "/tasks/"+task+"/events?"+query, "viewer//alice", "").failure(http.StatusBadRequest)
	}
}

func TestFollowedEventsComeAsTheyHappen(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	task := n.send("desk", "", "alice", "hold").ID
	r, _ := http.NewRequestWithContext(t.Context(), "GET", n.server.URL+api.Prefix+"/tasks/"+task+"/events?follow", nil)
	r.Header.Set("X-Caller", "operator//op")
	response, err := n.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Error(got)
	}
	lines := bufio.NewScanner(response.Body)
	var ids []string
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			ids = append(ids, id)
		}
		if strings.Contains(lines.Text(), "holding") { // the turn has begun, and the stream has said so
			n.call("POST", "/tasks/"+task+":cancel", "operator//op", "{}").want(http.StatusOK)
		}
	}
	if lines.Err() != nil || len(ids) != 5 || ids[4] != "5" { // message, SUBMITTED, WORKING, WORKING, CANCELED
		t.Errorf("%v: %v", lines.Err(), ids)
	}
	last := n.call("GET", "/tasks/"+task+"/events?follow", "operator//op", "", "Last-Event-ID", "4").want(http.StatusOK).body
	if !strings.HasPrefix(string(last), "id: 5\n") {
		t.Errorf("%s", last)
	}
}

func TestFollowEndsWithTheNode(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	task := n.send("desk", "", "alice", "ask").ID
	r, _ := http.NewRequestWithContext(t.Context(), "GET", n.server.URL+api.Prefix+"/tasks/"+task+"/events?follow", nil)
	r.Header.Set("X-Caller", "operator//op")
	response, err := n.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	n.engine.Drain(context.Background())
	lines := bufio.NewScanner(response.Body)
	last := ""
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if !strings.Contains(last, "stopping") {
		t.Errorf("ended with %q", last)
	}
	n.call("GET", "/tasks/"+task+"/events?follow", "operator//op", "").failure(http.StatusServiceUnavailable)
}

func TestStateChangingRequestsAreSafeFromWebPages(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	task := n.send("desk", "", "alice", "ask").ID
	path := "/tasks/" + task + ":cancel"
	for _, headers := range [][]string{
		{"Content-Type", "text/plain"},
		{"Content-Type", "application/x-www-form-urlencoded"},
		{"Content-Type", "multipart/form-data; boundary=x"},
		{"Content-Type", ""},
	} {
		n.call("POST", path, "operator//op", "{}", headers...).failure(http.StatusUnsupportedMediaType)
	}
	for _, headers := range [][]string{
		{"Origin", "https://evil.example"},
		{"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.agents.example.com"},
	} {
		n.call("POST", path, "operator//op", "{}", headers...).failure(http.StatusForbidden)
		n.call("DELETE", "/tasks/"+task, "operator//op", "{}", headers...).failure(http.StatusForbidden)
	}
	if got := n.call("GET", "/tasks/"+task, "operator//op", "").task(); got.Task.Status.State != a2a.StateInputRequired {
		t.Fatal("the task was changed")
	}
	n.call("POST", path, "operator//op", "{}", "Origin", n.server.URL).want(http.StatusOK)
	n.call("POST", path, "operator//op", "{}", "Origin", "https://agents.example.com", "Content-Type", "application/json; charset=utf-8").want(http.StatusOK)
}

func TestRoles(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for _, test := range []struct {
		method, path, body string
		least              string
	}{
		{"GET", "/config", "", "operator"},
		{"GET", "/status", "", "operator"},
		{"GET", "/nodes", "", "operator"},
		{"GET", "/metrics", "", "operator"},
		{"POST", "/reload", "{}", "admin"},
		{"POST", "/backup", `{"file":"/nowhere/x"}`, "admin"},
	} {
		roles := []string{"viewer", "caller", "operator", "admin"}
		for i, role := range roles {
			got := n.call(test.method, test.path, role+"//x", test.body)
			if i < slices.Index(roles, test.least) {
				if e := got.failure(http.StatusForbidden); !strings.Contains(e.Error.Message, test.least) {
					t.Errorf("%s does not name the role: %s", test.path, e.Error.Message)
				}
			} else if got.status == http.StatusForbidden {
				t.Errorf("%s may not call %s", role, test.path)
			}
		}
		n.call(test.method, test.path, "admin/acme/x", test.body).failure(http.StatusForbidden)
		if got := n.call(test.method, test.path, "", test.body).want(http.StatusUnauthorized); got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%v", got.header)
		}
	}
	n.call("GET", "/openapi.json", "", "").want(http.StatusOK)
}

func TestAgents(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.send("gone", "", "alice", "x")
	type published struct {
		ID, Card, Address string
		Retired           bool
		Tenants           []string
	}
	desk := published{ID: "desk", Address: "https://agents.example.com/agents/desk/", Card: "https://agents.example.com/agents/desk/.well-known/agent-card.json"}
	dock := published{ID: "dock", Address: "https://agents.example.com/agents/dock/", Card: "https://agents.example.com/agents/dock/.well-known/agent-card.json"}
	forOperator := dock
	forOperator.Tenants = []string{"acme"}
	ofAcme := published{ID: "dock", Address: "https://agents.example.com/agents/dock/t/acme/", Card: "https://agents.example.com/agents/dock/t/acme/.well-known/agent-card.json"}
	for caller, want := range map[string][]published{
		"caller//alice":      {desk, dock},
		"caller/acme/carol":  {desk, ofAcme},
		"operator/acme/op":   {desk, ofAcme},
		"caller/other/carol": {desk},
		"operator//op":       {desk, forOperator, {ID: "gone", Retired: true}},
	} {
		var got struct{ Agents []published }
		n.call("GET", "/agents", caller, "").want(http.StatusOK).decode(&got)
		if diff := cmp.Diff(want, got.Agents); diff != "" {
			t.Errorf("%s: %s", caller, diff)
		}
	}
}

func TestConfigHidesSecrets(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	body := string(n.call("GET", "/config", "operator//op", "").want(http.StatusOK).body)
	if strings.Contains(body, "0123456789abcdef") || !strings.Contains(body, `{"path":"secret_key","value":"***"`) {
		t.Error(body)
	}
	if !strings.Contains(body, `{"path":"agents.desk.name","value":"Desk","origin":":5"}`) {
		t.Error(body)
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	if e := n.call("POST", "/reload", "admin//root", "{}").failure(http.StatusBadRequest); !strings.Contains(e.Error.Message, "listen can only be changed by a restart") {
		t.Error(e.Error.Message)
	}
	n.reload = func() ([]config.Change, error) {
		_, err := config.Parse([]byte("agents:\n  a: {}\nlistn: x"), "")
		return nil, err
	}
	if e := n.call("POST", "/reload", "admin//root", "{}").failure(http.StatusBadRequest); !strings.Contains(e.Error.Message, ":3:1: ") || !strings.Contains(string(n.call("POST", "/reload", "admin//root", "{}").body), `"field":"agents.a.name"`) {
		t.Error(e.Error.Message)
	}
	n.reload = func() ([]config.Change, error) {
		return []config.Change{{Path: "agents.desk.name", Old: "Desk", New: "Front desk"}}, nil
	}
	if got := string(n.call("POST", "/reload", "admin//root", "").want(http.StatusOK).body); got != `{"changes":[{"path":"agents.desk.name","old":"Desk","new":"Front desk"}]}` {
		t.Error(got)
	}
	n.reload = func() ([]config.Change, error) { return nil, errors.New("x") }
	n.call("POST", "/reload", "admin//root", `{"file":"other.yaml"}`).failure(http.StatusBadRequest)
}

func TestBackup(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	file := filepath.Join(t.TempDir(), "copy.db")
	n.call("POST", "/backup", "admin//root", `{"file":"`+file+`"}`).want(http.StatusOK)
	if info, err := os.Stat(file); err != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if e := n.call("POST", "/backup", "admin//root", `{"file":"`+file+`"}`).failure(http.StatusBadRequest); !strings.Contains(e.Error.Message, "exists") {
		t.Error(e.Error.Message)
	}
	n.call("POST", "/backup", "admin//root", `{"file":"/no/such/directory/x"}`).failure(http.StatusBadRequest)
	for _, file := range []string{"", "relative.db", `/a\u0000b`} {
		n.call("POST", "/backup", "admin//root", `{"file":"`+file+`"}`).failure(http.StatusBadRequest)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for _, path := range []string{"", "/", "/nothing", "/tasks/", "/tasks/a/b", "/tasks/a/events/b"} {
		n.call("GET", path, "operator//op", "").failure(http.StatusNotFound)
	}
	for path, allow := range map[string]string{
		"/tasks": "GET, HEAD, OPTIONS", "/tasks/a": "DELETE, GET, HEAD, OPTIONS", "/tasks/a:cancel": "POST, OPTIONS", "/reload": "POST, OPTIONS",
	} {
		if got := n.call("PUT", path, "operator//op", "{}").want(http.StatusMethodNotAllowed).header.Get("Allow"); got != allow {
			t.Errorf("%s: %s", path, got)
		}
		n.call("OPTIONS", path, "", "").want(http.StatusNoContent)
	}
	if got := n.call("HEAD", "/tasks", "operator//op", "").want(http.StatusOK); len(got.body) != 0 {
		t.Errorf("%s", got.body)
	}
}

func TestBodyIsBounded(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	big := `{"decision":"deny","note":"` + strings.Repeat("x", 300<<10) + `"}`
	n.call("POST", "/grants/x", "operator//op", big).failure(http.StatusRequestEntityTooLarge)
	n.call("GET", "/tasks/"+strings.Repeat("x", 1000), "operator//op", "").failure(http.StatusNotFound)
}
