package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/inbox"
	"handoff.example/handoff/internal/store"
)

var all = store.ForAll()

func (f *fixture) answer(id, text, data string) error {
	a := &inbox.Answer{Item: id, Text: text, By: "op"}
	if data != "" {
		a.Data = a2a.JSON(data)
	}
	return f.Answer(f.t.Context(), all, a)
}

// wantCode fails the test unless the error has that code and says that.
func wantCode(t *testing.T, what string, err error, code a2a.Code, says string) {
	t.Helper()
	if err == nil || a2a.CodeOf(err) != code {
		t.Errorf("%s: %v, want %v", what, err, code)
		return
	}
	e, _ := errors.AsType[*a2a.Error](err)
	if !strings.Contains(fmt.Sprintf("%s %+v", e.Message, e), says) {
		t.Errorf("%s: %+v, want it to say %q", what, e, says)
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	item := f.stall("form")
	for data, field := range map[string]string{`{}`: "data.qty", `{"qty":0}`: "data.qty", `{"qty":1,"colors":["green"]}`: "data.colors[]", `{"qty":1,"day":"x"}`: "data.day", `[]`: "data"} {
		wantCode(t, data, f.answer(item.ID, "", data), a2a.CodeInvalidParams, field)
	}
	wantCode(t, "nothing", f.answer(item.ID, "", ""), a2a.CodeInvalidParams, "text")
	wantCode(t, "too much", f.answer(item.ID, strings.Repeat("x", 1<<17), ""), a2a.CodeInvalidParams, "text")
	wantCode(t, "no item", f.answer("none", "x", ""), a2a.CodeTaskNotFound, "")
	wantCode(t, "a decision", f.Decide(t.Context(), all, &inbox.Decision{Item: item.ID, Approved: true}), a2a.CodeUnsupportedOperation, "answer")
	if err := f.answer(item.ID, "", `{"qty":5,"fast":true}`); err != nil {
		t.Fatal(err)
	}
	if got := f.said(item); got != `data {"qty":5,"fast":true}, text qty: 5
fast: true` {
		t.Errorf("the agent heard %s", got)
	}
	wantCode(t, "again", f.answer(item.ID, "x", ""), a2a.CodeUnsupportedOperation, "settled already (answered), by op")

	words := f.stall("form") // a form can be answered in words
	if err := f.answer(words.ID, "a few", ""); err != nil {
		t.Fatal(err)
	}
	if got := f.said(words); got != "text a few" {
		t.Errorf("the agent heard %s", got)
	}

	hostile := f.stall("hostile")
	wantCode(t, "a schema that cannot be used", f.answer(hostile.ID, "", `{}`), a2a.CodeUnsupportedOperation, "Answer with text")
	if err := f.answer(hostile.ID, "x", ""); err != nil {
		t.Error(err)
	}

	gone := f.stall("ask")
	delete(f.specs, "desk")
	wantCode(t, "an agent that is gone", f.answer(gone.ID, "x", ""), a2a.CodeUnsupportedOperation, "does not exist")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	item := f.stall("pay")
	wantCode(t, "an answer", f.answer(item.ID, "yes", ""), a2a.CodeUnsupportedOperation, "decision")
	wantCode(t, "data with a denial", f.Decide(t.Context(), all, &inbox.Decision{Item: item.ID, Data: a2a.JSON("1")}), a2a.CodeInvalidParams, "data")
	if err := f.Decide(t.Context(), all, &inbox.Decision{Item: item.ID, Approved: true, Note: "fine", Data: a2a.JSON(`{"token":"t"}`), By: "op"}); err != nil {
		t.Fatal(err)
	}
	if got := f.said(item); got != `granted pay 5: fine{"token":"t"}` {
		t.Errorf("the agent heard %s", got)
	}
	d, err := f.Show(t.Context(), all, item.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d.Item.Decision != "approved" || d.Item.By != "op" || d.Item.Words != "fine" || len(d.Conversation) < 2 {
		t.Errorf("shown: %+v", d.Item)
	}
	var lines []string
	for _, e := range d.History {
		lines = append(lines, e.By+" "+e.What+" "+e.Words)
	}
	if diff := cmp.Diff([]string{"desk created ", "op approved fine"}, lines); diff != "" {
		t.Error(diff)
	}
	wantCode(t, "again", f.Decide(t.Context(), all, &inbox.Decision{Item: item.ID}), a2a.CodeUnsupportedOperation, "by op")
}

// TestDeciders decides on what is no grant request.
func TestDeciders(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var decided []string
	f.deciders[store.InboxCard] = func(_ context.Context, item *store.InboxItem, approved bool) error {
		if item.ID == "broken" {
			return a2a.Errorf(a2a.CodeUnavailable, "not now")
		}
		decided = append(decided, fmt.Sprint(item.ID, approved))
		return nil
	}
	for _, id := range []string{"a", "b", "broken"} {
		f.put(&store.InboxItem{ID: id, Kind: store.InboxCard, Agent: "bank", Peer: true})
	}
	f.put(&store.InboxItem{ID: "stuck", Kind: store.InboxStuck, Agent: "bank", Due: time.Now().Add(-time.Minute)})
	wantCode(t, "an answer", f.answer("a", "x", ""), a2a.CodeUnsupportedOperation, "decision")
	for id, approved := range map[string]bool{"a": true, "b": false} {
		if err := f.Decide(t.Context(), all, &inbox.Decision{Item: id, Approved: approved, Note: "n", By: "op"}); err != nil {
			t.Fatal(err)
		}
		if i := f.item(id); i.By != "op" || i.Words != "n" || (i.Decision == "approved") != approved {
			t.Errorf("%s: %+v", id, i)
		}
	}
	if len(decided) != 2 {
		t.Errorf("decided: %v", decided)
	}
	wantCode(t, "what fails", f.Decide(t.Context(), all, &inbox.Decision{Item: "broken", Approved: true}), a2a.CodeUnavailable, "not now")
	if i := f.item("broken"); !i.Settled.IsZero() {
		t.Errorf("what failed is settled: %+v", i)
	}
	counts, err := f.Counts(t.Context())
	if err != nil || len(counts) != 6 {
		t.Errorf("counted: %v, %v", counts, err)
	}
	for _, c := range counts {
		want := 0
		if c.Kind == "stuck" || c.Kind == "card" {
			want = 1
		}
		overdue := 0
		if c.Kind == "stuck" {
			overdue = 1
		}
		if c.Open != want || c.Overdue != overdue || c.Oldest.IsZero() != (want == 0) {
			t.Errorf("counted: %+v", c)
		}
	}
	if err := f.answer("stuck", "looked after it", ""); err != nil {
		t.Fatal(err)
	}
	if d, err := f.Show(t.Context(), all, "stuck"); err != nil || len(d.History) != 3 || d.History[1].What != "looked" || d.History[1].Words != "It is looked at bank." || f.looked != 1 {
		t.Errorf("the history: %+v, %v, %d looks", d, err, f.looked)
	}
	if i := f.item("stuck"); i.Decision != "answered" || i.Words != "looked after it" {
		t.Errorf("what was stuck: %+v", i)
	}
}

// TestFirstAnswerWins answers from many sides at once: the agent hears one.
func TestFirstAnswerWins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	item := f.stall("ask")
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() {
			errs[i] = f.Answer(t.Context(), all, &inbox.Answer{Item: item.ID, Text: fmt.Sprint(i), By: fmt.Sprint("by", i)})
		})
	}
	group.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won < 0:
			won = i
		case err == nil:
			t.Errorf("%d and %d have answered", won, i)
		default:
			wantCode(t, "a late answer", err, a2a.CodeUnsupportedOperation, "")
		}
	}
	if got := f.said(item); got != fmt.Sprint("text ", won) {
		t.Errorf("the agent heard %q, %d has won", got, won)
	}
	if i := f.item(item.ID); i.By != fmt.Sprint("by", won) {
		t.Errorf("settled by %s", i.By)
	}
}

func TestAssignAndDue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.settings.Due = time.Hour
	item := f.stall("ask")
	if left := item.Due.Sub(item.Created); left != time.Hour {
		t.Errorf("due after %v", left)
	}
	if err := f.Assign(t.Context(), all, item.ID, "bob", "op"); err != nil {
		t.Fatal(err)
	}
	due := f.now().Add(-time.Minute).UTC().Truncate(time.Second)
	if err := f.SetDue(t.Context(), all, item.ID, due, "op"); err != nil {
		t.Fatal(err)
	}
	page, err := f.List(t.Context(), store.ForTenant("acme"), store.InboxQuery{Assignee: "bob", PageSize: 1})
	if err != nil || len(page.Items) != 1 || !page.Items[0].Due.Equal(due) || !f.View(&page.Items[0]).Overdue {
		t.Errorf("listed: %+v, %v", page, err)
	}
	_, err = f.List(t.Context(), all, store.InboxQuery{PageSize: 1, Cursor: "x"})
	wantCode(t, "a bad token", err, a2a.CodeInvalidParams, "page_token")
	wantCode(t, "a long name", f.Assign(t.Context(), all, item.ID, strings.Repeat("x", 1000), "op"), a2a.CodeInvalidParams, "assignee")
	other := store.ForTenant("other")
	wantCode(t, "a stranger", f.Assign(t.Context(), other, item.ID, "x", "op"), a2a.CodeTaskNotFound, "")
	wantCode(t, "a stranger", f.SetDue(t.Context(), other, item.ID, due, "op"), a2a.CodeTaskNotFound, "")
	if err := f.SetDue(t.Context(), all, item.ID, time.Time{}, "op"); err != nil || !f.item(item.ID).Due.IsZero() {
		t.Errorf("without a due date: %v", err)
	}
	if err := f.answer(item.ID, "x", ""); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "a settled item", f.Assign(t.Context(), all, item.ID, "x", "op"), a2a.CodeUnsupportedOperation, "by op")
}
