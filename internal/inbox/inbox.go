// Package inbox is what waits for a person: questions and requests for an
// authorization of tasks that have stalled, and what else needs somebody to
// decide. Items are put into the store by the commits that cause them; here they
// are listed, answered, assigned and reminded of, over whatever way the answer
// comes. The first answer wins.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// Store is where items are kept.
type Store interface {
	store.Inbox
	Commit(ctx context.Context, c *store.Change) error
	Task(ctx context.Context, scope store.Scope, id string) (*store.Task, error)
	HoldJob(ctx context.Context, id int64, attempt int, hold time.Duration) error
}

// Engine runs the tasks that items belong to.
type Engine interface {
	Send(ctx context.Context, q *engine.Request) (*a2a.SendMessageResponse, error)
	Decide(ctx context.Context, scope store.Scope, d *engine.Decision) (*store.Task, error)
	Record(ctx context.Context, scope store.Scope, id string, want store.Want) (*engine.Record, error)
}

// Settings are what the configuration says.
type Settings struct {
	Due     time.Duration   // after which an item is due; 0: never
	Remind  []time.Duration // before it is due
	Webhook *Webhook        // nil: nobody is reminded
	LinkTTL time.Duration   // how long links are good; 0: 72h
}

// Webhook is where people are reminded.
type Webhook struct {
	URL     string
	Auth    string        // value of the header Authorization; "": none
	Created bool          // new items are sent too
	Links   bool          // with a link that answers the item
	Retry   time.Duration // how long one reminder is tried; 0: 24h
}

// Decider decides on an item that is not a grant request, such as the changed
// card of a peer. It may be called more than once for one item.
type Decider func(ctx context.Context, item *store.InboxItem, approved bool) error

// Options are what a Service works with.
type Options struct {
	Store    Store
	Scope    store.Scope // of the node itself, for links and reminders
	Engine   Engine
	Agents   func(id string) *engine.Spec
	Settings func() Settings
	// Deciders are those of the kinds of items that are not grant requests.
	Deciders map[store.InboxKind]Decider
	// Looked says what an answer to an item of the kind store.InboxStuck sets off, and
	// returns what does it when the item was settled, nil for nothing. Nil: nothing is
	// done.
	Looked func(ctx context.Context, item *store.InboxItem) (says string, do func(context.Context) error, err error)
	// Keys sign links: the first one signs, the others are what it was before.
	// Without keys there are no links.
	Keys [][]byte
	// Base returns the URL at which people reach the node, without a slash at its
	// end.
	Base   func() string
	Client *http.Client // for the webhook
	// Audit records what is done by links; nil: nobody does. Address returns where
	// a request comes from, for it; nil: nobody knows.
	Audit   *audit.Log
	Address func(*http.Request) string
	Due     func(time.Time)  // told when a job will be due; nil: nobody
	Version string           // of the program, for the User-Agent
	Now     func() time.Time // nil: time.Now
	Logger  *slog.Logger     // nil: slog.Default()
}

// Service is the inbox. It is safe for concurrent use.
type Service struct {
	opts    Options
	log     *slog.Logger
	sending chan struct{} // one for each reminder that is being sent
}

// maxSending is how many reminders are sent at once.
const maxSending = 8

// New returns a service.
func New(opts Options) *Service {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Due == nil {
		opts.Due = func(time.Time) {}
	}
	if opts.Client == nil {
		opts.Client = http.DefaultClient
	}
	return &Service{opts: opts, log: opts.Logger, sending: make(chan struct{}, maxSending)}
}

// Item is an item as people see it.
type Item struct {
	ID        string         `json:"id"`
	Kind      string         `json:"kind"` // question, grant, stuck, call, card or login
	Task      string         `json:"task,omitempty"`
	Tenant    string         `json:"tenant"`
	Owner     string         `json:"owner"` // "" for anonymous callers
	Agent     string         `json:"agent"`
	Peer      bool           `json:"peer,omitzero"` // the agent is a peer
	Ref       string         `json:"ref,omitempty"`
	Text      string         `json:"text"`
	Schema    jsontext.Value `json:"schema,omitzero"`
	URL       string         `json:"url,omitempty"`
	Operation string         `json:"operation,omitempty"`
	Grant     string         `json:"grant,omitempty"`
	Created   time.Time      `json:"created"`
	Due       time.Time      `json:"due,omitzero"`
	Overdue   bool           `json:"overdue,omitzero"`
	Assignee  string         `json:"assignee,omitempty"`
	Reminded  int            `json:"reminded,omitzero"`
	Settled   time.Time      `json:"settled,omitzero"`
	By        string         `json:"by,omitempty"`
	Decision  string         `json:"decision,omitempty"`
	Words     string         `json:"words,omitempty"`
}

var kinds = [...]string{
	store.InboxQuestion: "question", store.InboxGrant: "grant", store.InboxStuck: "stuck", store.InboxCall: "call", store.InboxCard: "card",
	store.InboxLogin: "login",
}

// Kinds returns the kinds of items that there are.
func Kinds() []store.InboxKind {
	list := make([]store.InboxKind, 0, len(kinds))
	for kind, name := range kinds {
		if name != "" {
			list = append(list, store.InboxKind(kind))
		}
	}
	return list
}

// KindName returns the name of a kind of items.
func KindName(kind store.InboxKind) string {
	if kind < 1 || int(kind) >= len(kinds) {
		return "other"
	}
	return kinds[kind]
}

// ParseKind returns the kind of that name.
func ParseKind(name string) (store.InboxKind, bool) {
	for kind, known := range kinds {
		if known != "" && known == name {
			return store.InboxKind(kind), true
		}
	}
	return 0, false
}

// Count is how many open items of a kind there are.
type Count struct {
	Kind          string
	Open, Overdue int
	Oldest        time.Time // when the one that is due first was made; zero: there is none
}

// Counts counts the open items of each kind.
func (s *Service) Counts(ctx context.Context) ([]Count, error) {
	var counts []Count
	for _, kind := range Kinds() {
		q := store.InboxQuery{Kind: kind, PageSize: 1}
		page, err := s.opts.Store.InboxItems(ctx, s.opts.Scope, q)
		if err != nil {
			return nil, err
		}
		c := Count{Kind: KindName(kind), Open: page.Total}
		if len(page.Items) > 0 {
			c.Oldest = page.Items[0].Created
			q.DueBy = s.opts.Now()
			if page, err = s.opts.Store.InboxItems(ctx, s.opts.Scope, q); err != nil {
				return nil, err
			}
			c.Overdue = page.Total
		}
		counts = append(counts, c)
	}
	return counts, nil
}

// View returns an item as people see it.
func (s *Service) View(i *store.InboxItem) *Item {
	return &Item{
		ID: i.ID, Kind: KindName(i.Kind), Task: i.Task, Tenant: i.Tenant, Owner: i.Owner, Agent: i.Agent, Peer: i.Peer, Ref: i.Ref,
		Text: i.Text, Schema: jsontext.Value(i.Schema), URL: i.URL, Operation: i.Op, Grant: i.Grant, Created: i.Created, Due: i.Due,
		Overdue:  i.Settled.IsZero() && !i.Due.IsZero() && i.Due.Before(s.opts.Now()),
		Assignee: i.Assignee, Reminded: i.Reminded, Settled: i.Settled, By: i.By, Decision: i.Decision, Words: i.Words,
	}
}

// List returns a page of items, the earliest due first; of settled ones, the one
// that was settled last first.
func (s *Service) List(ctx context.Context, scope store.Scope, q store.InboxQuery) (*store.InboxPage, error) {
	page, err := s.opts.Store.InboxItems(ctx, scope, q)
	if errors.Is(err, store.ErrBadCursor) {
		return nil, a2a.Invalid("page_token", "is not the token of a page of this list")
	}
	return page, err
}

// Detail is an item with what belongs to it.
type Detail struct {
	Item         *Item          `json:"item"`
	Conversation []*a2a.Message `json:"conversation"` // of the task so far, oldest first
	History      []Entry        `json:"history"`
}

// Entry is one line of the history of an item.
type Entry struct {
	At    time.Time `json:"at"`
	By    string    `json:"by"`
	What  string    `json:"what"`
	Words string    `json:"words,omitempty"`
}

// maxConversation is how many messages of a task are shown with an item.
const maxConversation = 50

// Show returns an item with the conversation of its task and its history.
func (s *Service) Show(ctx context.Context, scope store.Scope, id string) (*Detail, error) {
	item, err := s.find(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	entries, err := s.opts.Store.InboxHistory(ctx, scope, id)
	if err != nil {
		return nil, notFound(err, id)
	}
	d := &Detail{Item: s.View(item), Conversation: []*a2a.Message{}, History: make([]Entry, len(entries))}
	for i, e := range entries {
		d.History[i] = Entry(e)
	}
	if item.Task == "" {
		return d, nil
	}
	record, err := s.opts.Engine.Record(ctx, scope, item.Task, store.Want{Messages: maxConversation})
	if a2a.CodeOf(err) == a2a.CodeTaskNotFound {
		return d, nil // it has gone meanwhile
	}
	if err != nil {
		return nil, err
	}
	for i := range record.Task.History {
		d.Conversation = append(d.Conversation, &record.Task.History[i])
	}
	if m := record.Task.Status.Message; m != nil {
		d.Conversation = append(d.Conversation, m)
	}
	return d, nil
}

// find returns an item.
func (s *Service) find(ctx context.Context, scope store.Scope, id string) (*store.InboxItem, error) {
	if len(id) > a2a.MaxIDLength {
		return nil, notFound(store.ErrNotFound, "")
	}
	item, err := s.opts.Store.InboxItem(ctx, scope, id)
	if err != nil {
		return nil, notFound(err, id)
	}
	return item, nil
}

// open returns an item that is not settled.
func (s *Service) open(ctx context.Context, scope store.Scope, id string) (*store.InboxItem, error) {
	item, err := s.find(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	if !item.Settled.IsZero() {
		return nil, settled(item)
	}
	return item, nil
}

// notFound tells that there is no such item, where that is the error.
func notFound(err error, id string) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return &a2a.Error{Code: a2a.CodeTaskNotFound, Message: "There is no such item in the inbox", Metadata: map[string]string{"itemId": id}}
}

// settled refuses what comes too late.
func settled(item *store.InboxItem) error {
	by := item.By
	if by == "" {
		by = "somebody"
	}
	return &a2a.Error{
		Code: a2a.CodeUnsupportedOperation, Message: fmt.Sprintf("This was settled already (%s), by %s", item.Decision, by),
		Metadata: map[string]string{"itemId": item.ID, "by": by, "decision": item.Decision},
	}
}

// update changes an open item and tells when it has been settled meanwhile.
func (s *Service) update(ctx context.Context, scope store.Scope, u *store.InboxUpdate) error {
	err := s.opts.Store.UpdateInbox(ctx, scope, u)
	if errors.Is(err, store.ErrConflict) {
		if item, ferr := s.find(ctx, scope, u.ID); ferr == nil {
			return settled(item)
		}
	}
	return notFound(err, u.ID)
}

// maxAssignee bounds the name of an assignee, in bytes.
const maxAssignee = 512

// Assign says who is to answer an item; "" for nobody.
func (s *Service) Assign(ctx context.Context, scope store.Scope, id, assignee, by string) error {
	if len(assignee) > maxAssignee {
		return a2a.Invalid("assignee", "is longer than %d bytes", maxAssignee)
	}
	words := assignee
	if words == "" {
		words = "nobody"
	}
	return s.update(ctx, scope, &store.InboxUpdate{ID: id, Assignee: &assignee, Entry: store.InboxEntry{By: by, What: "assigned", Words: words}})
}

// SetDue gives an item a due date, or takes it away with the zero time. Reminders
// begin anew.
func (s *Service) SetDue(ctx context.Context, scope store.Scope, id string, due time.Time, by string) error {
	item, err := s.open(ctx, scope, id)
	if err != nil {
		return err
	}
	words := "never"
	if !due.IsZero() {
		due = due.UTC().Truncate(time.Millisecond)
		words = due.Format(time.RFC3339)
	}
	item.Due = due
	settings := s.opts.Settings()
	sent := settings.sent(item, item.Created)
	if err := s.update(ctx, scope, &store.InboxUpdate{ID: id, Due: &due, Reminded: &sent, Entry: store.InboxEntry{By: by, What: "due", Words: words}}); err != nil {
		return err
	}
	item.Reminded = sent
	return s.later(ctx, &settings, item, 0)
}
