package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/internal/api"
	"handoff.example/handoff/internal/bus"
)

// following is somebody who follows changes.
type following struct {
	n    *node
	body *http.Response
}

type changeBody struct {
	Topics []string
	Tasks  []string
	More   bool
	Inbox  bool
}

func (n *node) follow(caller, query string) *following {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	n.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.server.URL+api.Prefix+"/changes"+query, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("X-Caller", caller)
	response, err := n.server.Client().Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		n.t.Fatalf("following: %s, %s", response.Status, response.Header.Get("Content-Type"))
	}
	f := &following{n, response}
	if first := f.read(); !strings.Contains(first, "event: ready\n") {
		n.t.Fatalf("the first event is %q", first)
	}
	return f
}

func (f *following) read() string {
	f.n.t.Helper()
	event, err := readEvent(f.body.Body)
	if err != nil {
		f.n.t.Fatalf("%v after %q", err, event)
	}
	return string(event)
}

// next returns the next change.
func (f *following) next() *changeBody {
	f.n.t.Helper()
	event := f.read()
	data, ok := strings.CutPrefix(event, "event: change\ndata: ")
	var c changeBody
	if err := json.Unmarshal([]byte(data), &c, json.MatchCaseInsensitiveNames(true)); !ok || err != nil {
		f.n.t.Fatalf("%v: %q", err, event)
	}
	return &c
}

// until reads changes until one names a task.
func (f *following) until(task string) (topics []string) {
	f.n.t.Helper()
	for {
		c := f.next()
		topics = append(topics, c.Topics...)
		if slices.Contains(c.Tasks, task) {
			return topics
		}
	}
}

func TestChangesAreToldToWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	alice, everybody, acme := n.follow("viewer//alice", ""), n.follow("operator//op", ""), n.follow("operator/acme/op", "")
	bobs := n.send("desk", "acme", "bob", "hello").ID
	everybody.until(bobs)
	acme.until(bobs)
	asked := n.send("desk", "", "alice", "ask").ID
	// It is the first that alice hears of.
	if c := alice.next(); !slices.Equal(c.Tasks, []string{asked}) || !slices.Contains(c.Topics, "inbox") || slices.Contains(c.Topics, "delegations") {
		t.Errorf("alice hears %+v", c)
	}
	// An item that is assigned changes no task.
	n.call("POST", "/inbox/"+n.items("operator//op", "")["ask"]+"/assign", "operator//op", `{"assignee":"eve"}`).want(http.StatusOK)
	for c := alice.next(); ; c = alice.next() {
		if slices.Equal(c.Topics, []string{"inbox"}) && len(c.Tasks) == 0 {
			break
		}
	}
	// Other nodes say no more than that a task has changed, and that is looked up.
	n.changes.Hints([]bus.Hint{{Task: bobs, Seq: 9}, {Task: asked, Seq: 9}, {Task: "nothing", Seq: 1}})
	if c := alice.next(); !slices.Equal(c.Tasks, []string{asked}) || !slices.Contains(c.Topics, "tasks") {
		t.Errorf("after hints alice hears %+v", c)
	}
	n.changes.Missed()
	if c := alice.next(); !slices.Equal(c.Topics, []string{"all"}) {
		t.Errorf("after something was missed alice hears %+v", c)
	}
	n.call("GET", "/changes", "viewer//", "").want(http.StatusForbidden)
}

func TestChangesOfOneTree(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	root := n.send("desk", "", "alice", "ask").ID
	f := n.follow("operator//op", "?task="+root)
	n.send("desk", "", "alice", "ask other")
	n.send("desk", "", "alice", "ask")
	n.call("POST", "/tasks/"+root+":cancel", "operator//op", "").want(http.StatusOK)
	if c := f.next(); !slices.Equal(c.Tasks, []string{root}) {
		t.Errorf("of one tree: %+v", c)
	}
	// Who asks for it hears of the inbox beyond the tree too, and of nothing else there.
	counts := n.follow("operator//op", "?inbox=true&task="+root)
	n.send("desk", "", "alice", "ask once more")
	if c := counts.next(); !c.Inbox || len(c.Topics) > 0 || len(c.Tasks) > 0 {
		t.Errorf("of the inbox beyond one tree: %+v", c)
	}
	n.call("GET", "/changes?task=nothing", "operator//op", "").want(http.StatusNotFound)
	n.call("GET", "/changes?task="+root, "viewer//bob", "").want(http.StatusNotFound)
}

func TestManyChangesAreOneEvent(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	f := n.follow("operator//op", "")
	first := n.send("desk", "", "alice", "hello").ID
	f.until(first)
	for i := range 120 {
		n.send("desk", "", "alice", fmt.Sprint("hello ", i))
	}
	began := time.Now()
	seen := map[string]bool{}
	for more := false; !more && len(seen) < 120; {
		c := f.next()
		for _, id := range c.Tasks {
			seen[id] = true
		}
		more = c.More
		if len(c.Tasks) > 100 {
			t.Fatalf("%d tasks in one event", len(c.Tasks))
		}
	}
	if took := time.Since(began); len(seen) < 100 && took < time.Second {
		t.Errorf("%d tasks in %v", len(seen), took)
	}
}

func TestMe(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for caller, want := range map[string]string{
		"viewer//alice":    `{"subject":"alice","tenant":"","issuer":"test","role":"viewer","local":false,"anonymous":false,"how":"other","sees":"own"}`,
		"operator/acme/op": `"sees":"tenant"}`,
		"admin//root":      `"sees":"all"}`,
		"viewer//":         `"anonymous":true,"how":"anonymous"`,
	} {
		if got := n.call("GET", "/me", caller, "").want(http.StatusOK); !strings.Contains(string(got.body), want) {
			t.Errorf("%s is %s, want %s", caller, got.body, want)
		}
	}
}

// One caller does not take the places of all who follow something.
func TestCallersShareThePlacesOfThoseWhoFollow(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for range 32 {
		n.follow("viewer//alice", "")
	}
	n.call("GET", "/changes", "viewer//alice", "").failure(http.StatusTooManyRequests)
	last := n.follow("viewer//bob", "")
	n.follow("admin//root", "")
	last.body.Body.Close()
}
