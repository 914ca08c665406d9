package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/inbox"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const order = `{"type":"object","required":["qty"],"properties":{"qty":{"type":"integer","minimum":1},"fast":{"type":"boolean"},
 "colors":{"type":"array","items":{"enum":["red","blue"]}},"lines":{"type":"array","items":{"type":"string"}},"day":{"type":"string","format":"date"}}}`

// run is the agent of the tests: it asks what the first word says, and then says
// what it was answered.
func run(_ context.Context, t *agent.Turn) error {
	switch {
	case t.Grant != nil && t.Grant.Approved:
		return t.Artifact(a2a.Text("granted " + t.Grant.Operation + ": " + t.Grant.Note + string(t.Grant.Data)))
	case t.Grant != nil:
		return t.Reject("denied: " + t.Grant.Note)
	case t.Text() == "form":
		return t.Ask("How many? <b>&", a2a.JSON(order))
	case t.Text() == "hostile":
		return t.Ask("?", a2a.JSON(`{"type":"object","properties":{"a":{"$ref":"#"}}}`))
	case t.Text() == "ask":
		return t.Ask("What?", nil)
	case t.Text() == "pay":
		return t.Authorize("Pay 5 EUR?", "pay 5")
	}
	var said []string
	for _, m := range t.Messages {
		for i := range m.Parts {
			if p := &m.Parts[i]; p.Kind == a2a.PartData {
				said = append(said, "data "+string(p.Data))
			} else {
				said = append(said, "text "+p.Text)
			}
		}
	}
	return t.Artifact(a2a.Text(strings.Join(said, ", ")))
}

type sealer struct{}

func (sealer) Seal(b []byte) ([]byte, error) { return append([]byte("sealed::"), b...), nil }
func (sealer) Open(b []byte) ([]byte, error) { return bytes.TrimPrefix(b, []byte("sealed::")), nil }

// fixture is an inbox on a real engine and store, with a clock of its own.
type fixture struct {
	*inbox.Service
	t        *testing.T
	store    *sqlite.Store
	engine   *engine.Engine
	specs    map[string]*engine.Spec
	settings inbox.Settings
	keys     [][]byte
	deciders map[store.InboxKind]inbox.Decider
	audit    *audit.Log
	ahead    atomic.Int64 // of the clock
	looked   int          // looks that answers have set off
}

func (f *fixture) now() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) }

func (f *fixture) wait(d time.Duration) { f.ahead.Add(int64(d)) }

func (f *fixture) restart(client *http.Client) {
	f.Service = inbox.New(inbox.Options{
		Store: f.store, Scope: all, Engine: f.engine, Agents: func(id string) *engine.Spec { return f.specs[id] },
		Settings: func() inbox.Settings { return f.settings }, Deciders: f.deciders, Looked: f.look, Keys: f.keys, Client: client,
		Base: func() string { return "https://agents.example.com" }, Now: f.now, Version: "1", Audit: f.audit, Address: func(*http.Request) string { return "192.0.2.7" }, Logger: slog.New(slog.DiscardHandler),
	})
}

// look is what an answer to a stuck item sets off.
func (f *fixture) look(_ context.Context, item *store.InboxItem) (string, func(context.Context) error, error) {
	return "It is looked at " + item.Agent + ".", func(context.Context) error {
		f.looked++
		return nil
	}, nil
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, keys: [][]byte{[]byte("key")}, deciders: map[store.InboxKind]inbox.Decider{}}
	var err error
	if f.store, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tasks.db"), sqlite.Options{Now: f.now}); err != nil {
		t.Fatal(err)
	}
	f.audit = audit.New(f.store, slog.New(slog.DiscardHandler))
	f.audit.Set(audit.Settings{Level: audit.Changes})
	f.specs = map[string]*engine.Spec{"desk": {ID: "desk", Run: agent.Func(run), FirstStepWait: time.Second, Claims: time.Hour, Retention: time.Hour}}
	f.engine = engine.New(engine.Config{
		Store: f.store, Node: store.Node{Name: "test/1"}, Logger: slog.New(slog.DiscardHandler), Sealer: sealer{},
		Agents:  func(id string) *engine.Spec { return f.specs[id] },
		ItemDue: func(i *store.InboxItem) (time.Time, []store.Job) { return f.Schedule(i) },
	})
	f.restart(nil)
	if err := f.engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // no grace
		if err := errors.Join(f.engine.Stop(ctx), f.store.Close()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// stall lets ann's task ask something, and returns its item.
func (f *fixture) stall(text string) *store.InboxItem {
	f.t.Helper()
	response, err := f.engine.Send(f.t.Context(), &engine.Request{
		Spec: f.specs["desk"], Scope: store.ForOwner("acme", "ann"), Caller: agent.Caller{Tenant: "acme", Subject: "ann"}, Authenticated: true,
		Message: &a2a.Message{MessageID: time.Now().String(), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text(text)}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	page, err := f.store.InboxItems(f.t.Context(), store.ForAll(), store.InboxQuery{Task: response.Task.ID, PageSize: 9})
	if err != nil || len(page.Items) != 1 {
		f.t.Fatalf("%d items of a task in the state %v, %v", len(page.Items), response.Task.Status.State, err)
	}
	return &page.Items[0]
}

// put puts an item into the inbox that belongs to no task.
func (f *fixture) put(item *store.InboxItem) *store.InboxItem {
	f.t.Helper()
	due, jobs := f.Schedule(item)
	item.Due = due
	if err := f.store.Commit(f.t.Context(), &store.Change{Item: item, Jobs: jobs}); err != nil {
		f.t.Fatal(err)
	}
	return item
}

// item returns an item as it is now.
func (f *fixture) item(id string) *store.InboxItem {
	f.t.Helper()
	item, err := f.store.InboxItem(f.t.Context(), store.ForAll(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return item
}

// said waits until the task of an item is over, and returns what its agent said
// last.
func (f *fixture) said(item *store.InboxItem) string {
	f.t.Helper()
	w, err := f.engine.Subscribe(f.t.Context(), store.ForAll(), nil, item.Task, "")
	if err == nil {
		defer w.Close()
		for {
			if _, err := w.Next(f.t.Context()); err != nil {
				break
			}
		}
	}
	record, err := f.engine.Record(f.t.Context(), store.ForAll(), item.Task, store.Want{Artifacts: true})
	if err != nil || !record.Task.Status.State.Terminal() {
		f.t.Fatalf("the task: %+v, %v", record, err)
	}
	if m := record.Task.Status.Message; m != nil {
		return m.Text()
	}
	return record.Task.Artifacts[0].Parts[0].Text
}
