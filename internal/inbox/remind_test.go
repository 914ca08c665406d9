package inbox_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/inbox"
	"handoff.example/handoff/internal/store"
)

// receiver is a webhook that refuses as long as refuse is set.
type receiver struct {
	*httptest.Server
	refuse int
	got    []string
	link   string
	header http.Header
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		var m struct {
			Event string
			Item  inbox.Item
			Link  string
		}
		if err := json.Unmarshal(body, &m); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		if r.refuse > 0 {
			r.refuse--
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		r.got = append(r.got, m.Event+" "+m.Item.Text)
		r.link, r.header = m.Link, q.Header
	}))
	t.Cleanup(func() {
		r.Client().CloseIdleConnections()
		r.Close()
	})
	return r
}

// work does the jobs of the inbox that are due.
func (f *fixture) work() (done int) {
	f.t.Helper()
	jobs, err := f.store.Jobs(f.t.Context(), 9, time.Minute)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range jobs {
		if jobs[i].Kind != store.JobInbox {
			f.t.Fatalf("job %+v", jobs[i])
		}
		if err := f.Remind(f.t.Context(), &jobs[i]); err != nil {
			f.t.Fatal(err)
		}
	}
	return len(jobs)
}

func (r *receiver) want(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.got); diff != "" {
		t.Errorf("the webhook heard (-want +got):\n%s", diff)
	}
	r.got = nil
}

func TestReminders(t *testing.T) {
	t.Parallel()
	f, r := newFixture(t), newReceiver(t)
	f.restart(r.Client())
	f.settings = inbox.Settings{
		Due: 10 * time.Hour, Remind: []time.Duration{0, 2 * time.Hour, 20 * time.Hour},
		Webhook: &inbox.Webhook{URL: r.URL, Auth: "Bearer t", Created: true, Links: true},
	}
	item := f.stall("ask")
	f.work()
	r.want(t, "created What?")
	if r.header.Get("Authorization") != "Bearer t" || r.header.Get("X-Handoff-Event-Id") != item.ID+"/1" || !strings.HasPrefix(r.link, "https://agents.example.com/inbox/"+item.ID+"?") {
		t.Errorf("headers %v, link %q", r.header, r.link)
	}
	f.wait(7 * time.Hour)
	f.work()
	r.want(t)
	f.wait(time.Hour + time.Minute)
	r.refuse = 2
	f.work()
	r.want(t)
	f.wait(time.Minute) // tried again after a while
	f.work()
	r.want(t)
	f.wait(time.Minute)
	f.work()
	r.want(t, "reminder What?")
	f.wait(2 * time.Hour)
	f.work()
	r.want(t, "overdue What?")
	if next, err := f.store.NextJob(t.Context()); err != nil || !next.IsZero() {
		t.Errorf("a job is left, at %v, %v", next, err)
	}

	// A later due date begins anew, and a missed moment counts for those before it.
	if err := f.SetDue(t.Context(), all, item.ID, f.now().Add(time.Hour), "op"); err != nil {
		t.Fatal(err)
	}
	f.wait(3 * time.Hour)
	f.work()
	r.want(t, "overdue What?")
	if i := f.item(item.ID); i.Reminded != 3 {
		t.Errorf("reminded %d times", i.Reminded)
	}

	// Nobody is reminded of what is settled.
	if err := f.SetDue(t.Context(), all, item.ID, f.now().Add(time.Hour), "op"); err != nil {
		t.Fatal(err)
	}
	if err := f.answer(item.ID, "x", ""); err != nil {
		t.Fatal(err)
	}
	f.wait(3 * time.Hour)
	if f.work() != 1 {
		t.Error("the reminder was not looked at")
	}
	r.want(t)
	if next, err := f.store.NextJob(t.Context()); err != nil || !next.IsZero() {
		t.Errorf("a job is left, at %v, %v", next, err)
	}
}

// TestRemindersGivenUp sees that a webhook which is away for good ends in the
// history.
func TestRemindersGivenUp(t *testing.T) {
	t.Parallel()
	f, r := newFixture(t), newReceiver(t)
	f.restart(r.Client())
	f.settings = inbox.Settings{Webhook: &inbox.Webhook{URL: r.URL, Created: true, Retry: time.Minute}}
	item := f.put(&store.InboxItem{ID: "i", Kind: store.InboxStuck, Created: f.now().Add(-time.Second)})
	for r.refuse = 100; r.refuse > 0 && f.item(item.ID).Reminded == 0; f.wait(time.Hour) {
		f.work()
	}
	if used := 100 - r.refuse; used < 3 || used > 10 {
		t.Errorf("tried %d times", used)
	}
	entries, err := f.store.InboxHistory(t.Context(), all, item.ID)
	if err != nil || len(entries) != 2 || !strings.Contains(entries[1].Words, "HTTP 502") {
		t.Errorf("the history: %+v, %v", entries, err)
	}
}

func TestWithoutWebhook(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.settings.Due, f.settings.Remind = time.Hour, []time.Duration{0}
	if due, jobs := f.Schedule(&store.InboxItem{Created: f.now()}); due.IsZero() || len(jobs) != 0 {
		t.Errorf("due %v, jobs %v", due, jobs)
	}
}
