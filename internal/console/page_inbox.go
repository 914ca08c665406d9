package console

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/content"
	"handoff.example/handoff/internal/form"
)

var inboxPages = []page{
	{path: "inbox", nav: "inbox", title: "Inbox", role: auth.RoleViewer, get: showInbox},
	{path: "inbox/{id}", nav: "inbox", title: "Item", role: auth.RoleViewer, get: showItem, post: changeItem},
}

// item is something that waits for a person, as the API has it.
type item struct {
	ID        string         `json:"id"`
	Kind      string         `json:"kind"`
	Task      string         `json:"task"`
	Tenant    string         `json:"tenant"`
	Owner     string         `json:"owner"`
	Agent     string         `json:"agent"`
	Peer      bool           `json:"peer"`
	Ref       string         `json:"ref"`
	Text      string         `json:"text"`
	Schema    jsontext.Value `json:"schema"`
	URL       string         `json:"url"`
	Operation string         `json:"operation"`
	Created   time.Time      `json:"created"`
	Due       time.Time      `json:"due"`
	Overdue   bool           `json:"overdue"`
	Assignee  string         `json:"assignee"`
	Reminded  int            `json:"reminded"`
	Settled   time.Time      `json:"settled"`
	By        string         `json:"by"`
	Decision  string         `json:"decision"`
	Words     string         `json:"words"`
}

// Asks says what an item of the kind asks for.
func (i *item) Asks() string {
	switch i.Kind {
	case "question":
		return "asks a question"
	case "grant":
		return "asks for an approval"
	case "call":
		return "asks for the approval of a tool call"
	case "card":
		return "has changed and waits for an approval"
	case "login":
		return "asks for a login"
	case "stuck":
		return "is silent"
	}
	return "waits"
}

// Word is what an item of the kind is called in a list.
func (i *item) Word() string { return kindWord(i.Kind) }

// kindWord is what items of a kind are called.
func kindWord(kind string) string {
	if word, ok := kindWords[kind]; ok {
		return word
	}
	return kind
}

var kindWords = map[string]string{
	"question": "Question", "grant": "Approval", "call": "Tool call", "card": "Changed", "login": "Login", "stuck": "Stuck",
}

// Decides reports whether the item is approved or denied.
func (i *item) Decides() bool { return i.Kind == "grant" || i.Kind == "call" || i.Kind == "card" }

// Open reports whether nobody has settled it.
func (i *item) Open() bool { return i.Settled.IsZero() }

// Out is the address to which a person goes, if it is one of the web.
func (i *item) Out() string {
	u, err := url.Parse(i.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return ""
	}
	return i.URL
}

// inboxList is what the page of the inbox shows.
type inboxList struct {
	Items    []item `json:"items"`
	Total    int    `json:"total_size"`
	Next     string `json:"next_page_token"`
	Kinds    []string
	Kind     string
	Assignee string
	Settled  bool
	Mine     bool
	Pager    pager
}

func showInbox(v *view) error {
	given := v.query()
	d := &inboxList{Kinds: []string{"question", "grant", "call", "stuck", "card", "login"}, Kind: given.Get("kind"), Assignee: given.Get("assignee"), Settled: given.Get("settled") == "true"}
	d.Mine = d.Assignee != "" && d.Assignee == v.Principal.Subject
	filter := valuesOf("kind", d.Kind, "assignee", d.Assignee)
	if d.Settled {
		filter.Set("settled", "true")
	}
	ask := maps.Clone(filter)
	ask.Set("page_size", "50")
	if token := given.Get("page_token"); token != "" {
		ask.Set("page_token", token)
	}
	if err := v.get(address("/inbox", ask), d); err != nil {
		return err
	}
	d.Pager = v.pager(Prefix+"inbox", filter, "page_token", d.Next)
	return v.render("inbox", d)
}

// inboxEntry is one line of the history of an item.
type inboxEntry struct {
	At    time.Time `json:"at"`
	By    string    `json:"by"`
	What  string    `json:"what"`
	Words string    `json:"words"`
}

// itemDetail is what the page of an item shows.
type itemDetail struct {
	Item         item          `json:"item"`
	Messages     []a2a.Message `json:"conversation"`
	History      []inboxEntry  `json:"history"`
	Conversation []said
	Said         *shownParts `json:"-"`
	Form         *form.Form
	Fields       []form.Input
	Text, Note   string
	Problem      string
	Link         string
	Expires      time.Time
	MayAnswer    bool
	MayDecide    bool
	MayManage    bool
}

func (v *view) item() (*itemDetail, error) {
	d := &itemDetail{}
	if err := v.get("/inbox/"+url.PathEscape(v.param("id"))+"?part_bytes="+shownBytes, d); err != nil {
		return nil, err
	}
	i := &d.Item
	v.title = content.Visible(i.Agent) + " " + i.Asks()
	who := i.Agent
	if i.Task != "" {
		// What a peer asks below is an item of the task above, whose agent has spoken.
		var t shownTask
		if err := v.get("/tasks/"+url.PathEscape(i.Task)+"?history=0&part_bytes=1", &t); err == nil {
			who = t.Who()
		} else if !isNotFound(err) {
			return nil, err
		}
	}
	d.Said = v.shownParts(Prefix+"inbox/"+url.PathEscape(i.ID), "said")
	d.Conversation = talk(d.Messages, i.Task, who, i.Owner, d.Said)
	slices.Reverse(d.History)
	d.MayAnswer = i.Open() && !i.Decides() && v.may(auth.RoleCaller)
	d.MayDecide = i.Open() && i.Decides() && v.may(auth.RoleOperator)
	d.MayManage = i.Open() && v.may(auth.RoleOperator)
	if d.MayAnswer && i.Schema != nil {
		// A schema that makes no form is answered in words.
		if f, err := form.New(i.Schema); err == nil {
			d.Form, d.Fields = f, f.Inputs(nil, nil)
		}
	}
	return d, nil
}

func showItem(v *view) error {
	d, err := v.item()
	if err != nil {
		return err
	}
	return v.render("inbox_item", d)
}

// changeItem does what a form of the page says.
func changeItem(v *view) error {
	d, err := v.item()
	if err != nil {
		return err
	}
	api, here := "/inbox/"+url.PathEscape(d.Item.ID), Prefix+"inbox/"+url.PathEscape(d.Item.ID)
	done := ""
	switch v.form.Get("do") {
	case "answer":
		return v.answerItem(d)
	case "approve", "deny":
		d.Note = strings.TrimSpace(v.form.Get("note"))
		body := map[string]string{"decision": v.form.Get("do")}
		if d.Note != "" {
			body["note"] = d.Note
		}
		if err := v.post(api+"/decision", body, nil); err != nil {
			return v.refusedItem(d, err)
		}
		if done = "Approved. This is for the one operation that was asked for."; v.form.Get("do") == "deny" {
			done = "Denied."
		}
		here = Prefix + "inbox"
	case "assign":
		whom := strings.TrimSpace(v.form.Get("assignee"))
		if err := v.post(api+"/assign", map[string]string{"assignee": whom}, nil); err != nil {
			return v.refusedItem(d, err)
		}
		if done = "It is for " + whom + " now."; whom == "" {
			done = "It is for nobody in particular now."
		}
	case "due":
		body := map[string]any{}
		if in, err := time.ParseDuration(v.form.Get("in")); err == nil {
			body["due"] = time.Now().Add(in).UTC().Truncate(time.Second)
		}
		if err := v.post(api+"/due", body, nil); err != nil {
			return v.refusedItem(d, err)
		}
		done = "The due date is set."
	case "link":
		var link struct {
			URL     string    `json:"url"`
			Expires time.Time `json:"expires"`
		}
		if err := v.post(api+"/link", map[string]string{}, &link); err != nil {
			return v.refusedItem(d, err)
		}
		d.Link, d.Expires = link.URL, link.Expires
		return v.render("inbox_item", d)
	default:
		d.Problem, v.status = "The form does not say what to do.", http.StatusBadRequest
		return v.render("inbox_item", d)
	}
	return v.redirect(here, done)
}

// answerItem answers a question with a form, with words, or with both.
func (v *view) answerItem(d *itemDetail) error {
	d.Text = strings.TrimSpace(v.form.Get("text"))
	body := map[string]any{}
	if d.Text != "" {
		body["text"] = d.Text
	}
	if d.Form != nil {
		written := d.Form.Written(v.form)
		data, err := d.Form.Build(written)
		wrong, _ := errors.AsType[*form.FieldError](err)
		switch {
		case err == nil:
			body["data"] = data
		case d.Text != "" && d.Form.Untouched(written): // words alone
		default:
			d.Fields, d.Problem, v.status = d.Form.Inputs(written, wrong), err.Error(), http.StatusUnprocessableEntity
			return v.render("inbox_item", d)
		}
		d.Fields = d.Form.Inputs(written, nil)
	}
	if len(body) == 0 {
		d.Problem, v.status = "Write an answer.", http.StatusUnprocessableEntity
		return v.render("inbox_item", d)
	}
	if err := v.post("/inbox/"+url.PathEscape(d.Item.ID)+"/answer", body, nil); err != nil {
		return v.refusedItem(d, err)
	}
	if d.Item.Task == "" {
		return v.redirect(Prefix+"inbox", "It is put away.")
	}
	return v.redirect(Prefix+"tasks/"+url.PathEscape(d.Item.Task), "The answer is sent. The task goes on.")
}

// refusedItem shows the page with what was refused. When somebody else was faster,
// the item says who.
func (v *view) refusedItem(d *itemDetail, err error) error {
	if now, nerr := v.item(); nerr == nil && !now.Item.Open() {
		d = now
	}
	return v.again("inbox_item", d, &d.Problem, err)
}
