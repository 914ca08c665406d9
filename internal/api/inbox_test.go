package api_test

import (
	"net/http"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/inbox"
)

type inboxBody struct {
	Items         []inbox.Item
	NextPageToken string `json:"next_page_token"`
	TotalSize     int    `json:"total_size"`
}

func (n *node) inbox(caller, query string) *inboxBody {
	n.t.Helper()
	var body inboxBody
	n.call("GET", "/inbox"+query, caller, "").want(http.StatusOK).decode(&body)
	return &body
}

// items returns the ids of the open items by the first message of their tasks.
func (n *node) items(caller, query string) map[string]string {
	n.t.Helper()
	ids := map[string]string{}
	for _, i := range n.inbox(caller, query).Items {
		task := n.call("GET", "/tasks/"+i.Task, "admin//root", "").task()
		ids[task.Task.History[0].Text()] = i.ID
	}
	return ids
}

type detailBody struct {
	Item         inbox.Item
	Conversation []a2a.Message
	History      []inbox.Entry
}

func (a *answer) detail() *detailBody {
	a.t.Helper()
	var body detailBody
	a.want(http.StatusOK).decode(&body)
	return &body
}

// TestInbox answers a question from the inbox, and sees who may.
func TestInbox(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	task := n.send("desk", "acme", "alice", "form").ID
	n.send("dock", "other", "carl", "ask")
	for caller, total := range map[string]int{
		"viewer/acme/alice": 1, "caller/acme/alice": 1, "caller/acme/bob": 0, "operator/acme/op": 1, "operator/other/op": 1, "operator//op": 2, "viewer/acme/op": 0,
	} {
		if list := n.inbox(caller, ""); len(list.Items) != total || list.TotalSize != total {
			t.Errorf("%s sees %d items of %d, want %d", caller, len(list.Items), list.TotalSize, total)
		}
	}
	n.call("GET", "/inbox", "caller//", "").failure(http.StatusForbidden)
	n.call("GET", "/inbox?kind=x&page_size=0", "operator//op", "").failure(http.StatusBadRequest)
	n.call("GET", "/inbox?page_token=x", "operator//op", "").failure(http.StatusBadRequest)
	id := n.items("operator/acme/op", "")["form"]
	path := "/inbox/" + id
	d := n.call("GET", path, "caller/acme/alice", "").detail()
	if d.Item.Kind != "question" || d.Item.Text != "How many?" || d.Item.Task != task || len(d.Conversation) != 2 || len(d.History) != 1 {
		t.Errorf("the item: %+v", d)
	}
	for _, caller := range []string{"caller/acme/bob", "operator/other/op"} {
		n.call("GET", path, caller, "").failure(http.StatusNotFound)
		n.call("POST", path+"/answer", caller, `{"text":"5"}`).failure(http.StatusNotFound)
	}
	n.call("POST", path+"/answer", "viewer/acme/alice", `{"text":"5"}`).failure(http.StatusForbidden)
	n.call("POST", path+"/assign", "caller/acme/alice", `{"assignee":"bob"}`).failure(http.StatusForbidden)
	if d := n.call("POST", path+"/assign", "operator/acme/op", `{"assignee":"bob"}`).detail(); d.Item.Assignee != "bob" {
		t.Errorf("assigned: %+v", d.Item)
	}
	if list := n.inbox("operator/acme/op", "?assignee=bob"); len(list.Items) != 1 {
		t.Errorf("bob has %+v", list.Items)
	}
	for body, field := range map[string]string{`{"data":{}}`: "data.qty", `{"data":{"qty":"5"}}`: "data.qty", `{}`: "text", `{"data":7}`: "data"} {
		refused := n.call("POST", path+"/answer", "operator/acme/op", body)
		refused.failure(http.StatusBadRequest)
		if !strings.Contains(string(refused.body), `"`+field+`"`) {
			t.Errorf("%s: %s", body, refused.body)
		}
	}
	d = n.call("POST", path+"/answer", "operator/acme/op", `{"data":{"qty":5}}`).detail()
	if d.Item.Settled.IsZero() || d.Item.By != "op" || d.Item.Decision != "answered" || d.Item.Words != "qty: 5" {
		t.Errorf("answered: %+v", d.Item)
	}
	late := n.call("POST", path+"/answer", "caller/acme/alice", `{"text":"6"}`)
	if late.failure(http.StatusBadRequest); !strings.Contains(string(late.body), "settled already (answered), by op") {
		t.Errorf("a second answer: %s", late.body)
	}
	if list := n.inbox("caller/acme/alice", "?settled"); len(list.Items) != 1 {
		t.Errorf("settled: %+v", list.Items)
	}
}

// TestInboxDecision decides on a grant request by its item and by its own id: it
// is one request.
func TestInboxDecision(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.send("desk", "acme", "alice", "pay")
	item := n.inbox("operator/acme/op", "?kind=grant").Items[0]
	if item.Operation != "pay" || item.Grant == "" {
		t.Errorf("the item: %+v", item)
	}
	path := "/inbox/" + item.ID
	n.call("POST", path+"/decision", "caller/acme/alice", `{"decision":"approve"}`).failure(http.StatusForbidden)
	n.call("POST", path+"/answer", "operator/acme/op", `{"text":"yes"}`).failure(http.StatusBadRequest)
	n.call("POST", path+"/decision", "operator/acme/op", `{"decision":"maybe"}`).failure(http.StatusBadRequest)
	n.call("POST", path+"/decision", "operator/acme/op", `{"decision":"deny","data":1}`).failure(http.StatusBadRequest)
	d := n.call("POST", path+"/decision", "operator/acme/op", `{"decision":"approve","note":"fine","data":{"token":"t"}}`).detail()
	if d.Item.Decision != "approved" || d.Item.Words != "fine" || d.Item.By != "op" || strings.Contains(d.Item.Words, "token") {
		t.Errorf("decided: %+v", d.Item)
	}
	n.call("POST", "/grants/"+item.Grant, "operator/acme/op", `{"decision":"deny"}`).failure(http.StatusBadRequest)

	n.send("desk", "acme", "alice", "pay again")
	item = n.inbox("operator/acme/op", "").Items[0]
	n.call("POST", "/grants/"+item.Grant, "operator/acme/op", `{"decision":"deny"}`).task()
	if d := n.call("GET", "/inbox/"+item.ID, "operator/acme/op", "").detail(); d.Item.Decision != "denied" {
		t.Errorf("by its own id: %+v", d.Item)
	}
}
