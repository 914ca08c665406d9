package changes_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/changes"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/store/storetest"
)

func open(t *testing.T, feed *changes.Feed) *changes.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tasks.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return changes.NewStore(s, feed)
}

// TestStore sees that a store that tells is a store like any other.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, func(t *testing.T) store.Store {
		feed := &changes.Feed{}
		l := feed.Listen()
		t.Cleanup(l.Close)
		return open(t, feed)
	})
}

type shared []string

func (s *shared) Publish(h bus.Hint) { *s = append(*s, h.Task) }

func status(text string) []store.Event {
	return []store.Event{{Kind: store.KindStatus, Body: []byte(`{"status":"` + text + `"}`)}}
}

func insert(t *testing.T, s store.Store, id string) *store.Task {
	t.Helper()
	row := &store.Task{ID: id, Tenant: "acme", Owner: "ann", Agent: "echo", Context: "c", State: a2a.StateWorking, Turn: 1}
	if err := s.Commit(t.Context(), &store.Change{Insert: row, Events: status("working")}); err != nil {
		t.Fatal(err)
	}
	return row
}

func take(l *changes.Listener) (found map[string]changes.Topic, topics changes.Topic, more bool) {
	list, topics, more := l.Take()
	found = map[string]changes.Topic{}
	for i := range list {
		found[list[i].Task+"/"+list[i].Item] = list[i].Topics
	}
	return found, topics, more
}

func TestWhatIsCommittedIsTold(t *testing.T) {
	t.Parallel()
	var feed changes.Feed
	var others shared
	s := open(t, &feed)
	s.Share(&others)
	insert(t, s, "before anybody listens")
	l := feed.Listen()
	defer l.Close()
	check := func(what string, want map[string]changes.Topic, wantTopics changes.Topic) {
		t.Helper()
		if len(want) > 0 || wantTopics != 0 {
			select {
			case <-l.Some():
			default:
				t.Errorf("%s: nothing is told", what)
			}
		}
		got, topics, _ := take(l)
		if diff := cmp.Diff(want, got); diff != "" || topics != wantTopics {
			t.Errorf("%s: %v %s", what, topics, diff)
		}
	}
	ctx := t.Context()
	row := insert(t, s, "t")
	check("a new task", map[string]changes.Topic{"t/": changes.Tasks}, 0)
	waits, none := a2a.StateInputRequired, int64(0)
	change := &store.Change{
		Task: row.Key, Set: store.Set{State: &waits, Lease: &none}, Events: status("asked"),
		Item: &store.InboxItem{ID: "i", Kind: store.InboxQuestion, Task: "t", Tenant: "acme", Owner: "ann"},
	}
	if err := s.Commit(ctx, change); err != nil {
		t.Fatal(err)
	}
	list, _, _ := l.Take()
	if len(list) != 1 || !list[0].In(store.ForOwner("acme", "ann")) || list[0].In(store.ForOwner("acme", "ben")) || list[0].Topics != changes.Tasks|changes.Inbox {
		t.Errorf("a question: %+v", list)
	}
	<-l.Some()
	who := "mara"
	if err := s.UpdateInbox(ctx, store.ForAll(), &store.InboxUpdate{ID: "i", Assignee: &who, Entry: store.InboxEntry{What: "assigned"}}); err != nil {
		t.Fatal(err)
	}
	check("an assignment", map[string]changes.Topic{"/i": changes.Inbox}, 0)
	if err := s.UpdateInbox(ctx, store.ForAll(), &store.InboxUpdate{ID: "none", Assignee: &who}); err == nil {
		t.Error("an item that is not there was assigned")
	}
	check("what fails", map[string]changes.Topic{}, 0)
	if err := s.Commit(ctx, &store.Change{Task: row.Key, Webhook: &store.Webhook{ID: "h", URL: "https://h.example"}}); err != nil {
		t.Fatal(err)
	}
	check("a webhook", map[string]changes.Topic{"t/": changes.Pushes}, 0)
	if err := s.DeleteWebhook(ctx, store.ForAll(), "t", "h"); err != nil {
		t.Fatal(err)
	}
	check("a webhook that is gone", map[string]changes.Topic{"t/": changes.Pushes}, 0)
	done := a2a.StateCompleted
	if err := s.Commit(ctx, &store.Change{Task: row.Key, Set: store.Set{State: &done}, Events: status("done")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, store.ForAll(), "t"); err != nil {
		t.Fatal(err)
	}
	check("a task that is gone", map[string]changes.Topic{"t/": changes.Tasks}, changes.Tasks|changes.Delegations|changes.Inbox|changes.Pushes)
	// What others would not hear of by the events of the task.
	if diff := cmp.Diff(shared{"changes:item:i", "t"}, others); diff != "" {
		t.Errorf("other nodes hear: %s", diff)
	}
	var elsewhere changes.Feed
	far := elsewhere.Listen()
	defer far.Close()
	elsewhere.Hints([]bus.Hint{{Task: "changes:item:i"}, {Task: "changes:pushes"}, {Task: "t", Seq: 4}})
	got, topics, _ := take(far)
	if diff := cmp.Diff(map[string]changes.Topic{"/i": changes.Inbox, "t/": changes.Tasks}, got); diff != "" || topics != changes.Pushes {
		t.Errorf("on another node: %v %s", topics, diff)
	}
}

func TestAListenerIsNeverFull(t *testing.T) {
	t.Parallel()
	var feed changes.Feed
	l := feed.Listen()
	for i := range changes.MaxWaiting + 5 {
		feed.Tell(changes.Change{Topics: changes.Tasks, Task: fmt.Sprint(i)})
	}
	feed.Tell(changes.Change{Topics: changes.Inbox, Task: "one more"})
	if list, topics, more := l.Take(); len(list) != changes.MaxWaiting || !more || topics != changes.Tasks|changes.Inbox {
		t.Errorf("%d changes, %v, %v", len(list), topics, more)
	}
	if list, topics, more := l.Take(); len(list) != 0 || topics != 0 || more {
		t.Errorf("the second time: %d, %v, %v", len(list), topics, more)
	}
	l.Close()
	if feed.Heard() {
		t.Error("somebody listens still")
	}
}

// A change that nobody listens to costs nothing that can be measured.
func BenchmarkTellNobody(b *testing.B) {
	var feed changes.Feed
	for b.Loop() {
		feed.Tell(changes.Change{Topics: changes.Tasks, Task: "t"})
	}
}
