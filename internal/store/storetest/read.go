package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

func testHistory(t *testing.T, s store.Store) {
	row := insert(t, s, task("t", a2a.StateWorking), message("m1"), status("submitted"), saying("w1"))
	check := func(n int, want ...string) {
		t.Helper()
		got := []string{}
		for _, e := range read(t, s, "t", store.Want{Messages: n}).Messages {
			_, text, _ := strings.Cut(string(e.Body), `","text":"`)
			if e.Kind == store.KindMessage {
				_, text, _ = strings.Cut(string(e.Body), `":"`)
			}
			got = append(got, strings.TrimSuffix(text, `"}`))
		}
		if !slices.Equal(got, want) {
			t.Errorf("newest %d: got %q, want %q", n, got, want)
		}
	}
	check(9, "m1") // what the current status says is not history yet
	commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{artifact("a"), message("m2")}})
	check(9, "m1", "m2")
	commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{status("silent")}})
	check(9, "m1", "w1", "m2")
	commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{saying("w2"), saying("w3"), message("m3")}})
	check(9, "m1", "w1", "m2", "w2", "m3")
	check(3, "m2", "w2", "m3")
	check(1, "m3")
	check(0)
}

// testReadAsItWas compares what is read of a task, now and as it was after each
// of its events, with what the events say.
func testReadAsItWas(t *testing.T, s store.Store) {
	tasks := 0
	rapid.Check(t, func(rt *rapid.T) {
		tasks++
		id := name("t", tasks)
		kinds := rapid.IntRange(0, 3)
		events := func(label string, least int) []store.Event {
			var out []store.Event
			for i, kind := range rapid.SliceOfN(kinds, least, 5).Draw(rt, label) {
				text := fmt.Sprint(label, i)
				switch kind {
				case 0:
					out = append(out, status(text))
				case 1:
					out = append(out, saying(text))
				case 2:
					out = append(out, artifact(text))
				case 3:
					out = append(out, message(text))
				}
			}
			return out
		}
		first := append([]store.Event{status("first")}, events("first", 0)...)
		c := &store.Change{Insert: task(id, a2a.StateWorking), Events: first}
		if err := s.Commit(t.Context(), c); err != nil {
			rt.Fatal(err)
		}
		all := c.Events
		for n := range rapid.IntRange(0, 8).Draw(rt, "changes") {
			c := &store.Change{Task: c.Insert.Key, Events: events(fmt.Sprint("change", n, "-"), 1)}
			if err := s.Commit(t.Context(), c); err != nil {
				rt.Fatal(err)
			}
			all = append(all, c.Events...)
		}
		limit := rapid.IntRange(0, 6).Draw(rt, "messages")
		for upTo := range len(all) + 1 {
			got, err := s.Read(t.Context(), ann, id, store.Want{Messages: limit, Artifacts: true, UpTo: int64(upTo)})
			if err != nil {
				rt.Fatal(err)
			}
			until := upTo
			if upTo == 0 {
				until = len(all)
			}
			want := asItWas(all[:until], limit)
			want.Task = got.Task
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("up to %d of %d (-want +got):\n%s", upTo, len(all), diff)
			}
			if got.Seq != int64(len(all)) {
				rt.Fatalf("the row is at %d, want it to stay the current one, at %d", got.Seq, len(all))
			}
		}
	})
}

// asItWas returns what a task is made of after those events.
func asItWas(events []store.Event, limit int) *store.Item {
	item := &store.Item{}
	for _, e := range events {
		e.Stamp = 0
		switch e.Kind {
		case store.KindStatus:
			if item.Status.Says {
				item.Messages = append(item.Messages, item.Status)
			}
			item.Status = e
		case store.KindMessage:
			item.Messages = append(item.Messages, e)
		case store.KindArtifact:
			item.Artifacts = append(item.Artifacts, e)
		}
	}
	slices.SortFunc(item.Messages, func(a, b store.Event) int { return int(a.Seq - b.Seq) })
	item.Messages = item.Messages[max(0, len(item.Messages)-limit):]
	if len(item.Messages) == 0 {
		item.Messages = nil
	}
	return item
}

// testReadWhileWriting reads a task while it changes: every read is of one
// moment.
func testReadWhileWriting(t *testing.T, s store.Store) {
	row := insert(t, s, task("t", a2a.StateWorking))
	var done atomic.Bool
	atOnce(3, func(i int) {
		if i > 0 {
			for !done.Load() {
				item, err := s.Read(t.Context(), ann, "t", store.Want{Messages: 1000, Artifacts: true})
				if err != nil {
					t.Error(err)
					return
				}
				if n := int64(len(item.Artifacts)); item.Seq != 1+3*n || item.Status.Seq != item.Seq || item.Messages != nil && int64(len(item.Messages)) != n {
					t.Errorf("row at %d, %d artifacts, %d messages, status %d", item.Seq, n, len(item.Messages), item.Status.Seq)
				}
			}
			return
		}
		defer done.Store(true)
		for range 60 {
			commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{artifact("a"), message("m"), status("s")}})
		}
	})
}

// testMarks sees that events say when and under which turn they were committed.
func testMarks(t *testing.T, s store.Store) {
	first := commit(t, s, &store.Change{Insert: task("t", a2a.StateWorking), Events: []store.Event{message("1"), status("2")}})
	key := first.Insert.Key
	waits := commit(t, s, &store.Change{Task: key, Set: store.Set{Wait: ptr(store.WaitChild), Attempt: ptr(3)}, Events: []store.Event{artifact("3")}})
	next := commit(t, s, &store.Change{Task: key, Set: store.Set{Wait: ptr(store.WaitNone), Turn: ptr(2), Attempt: ptr(1)}, Events: []store.Event{status("4")}})
	want := []store.Mark{
		store.NewMark(first.At, 1, 1, store.WaitNone),
		store.NewMark(first.At, 1, 1, store.WaitNone),
		store.NewMark(waits.At, 1, 3, store.WaitChild),
		store.NewMark(next.At, 2, 1, store.WaitNone),
	}
	got, err := s.Events(t.Context(), key, 0, 1<<20)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d events, %v", len(got), err)
	}
	for i := range got {
		if m := got[i].Mark; m != want[i] {
			t.Errorf("the mark of event %d is %v, turn %d, attempt %d, wait %d", i+1, m.At(), m.Turn(), m.Attempt(), m.Wait())
		}
	}
}

func testEvents(t *testing.T, s store.Store) {
	row := insert(t, s, task("t", a2a.StateWorking), status("1"), artifact("2"), message("3"))
	other := insert(t, s, task("u", a2a.StateWorking), status("other"))
	all := commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{status("4"), saying("5")}}).Events
	all = append(all, commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{artifact("6")}}).Events...)

	for after := range int64(7) {
		got, err := s.Events(t.Context(), row.Key, after, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != int(6-after) {
			t.Errorf("after %d: %d events", after, len(got))
		}
		for i, e := range got {
			if e.Seq != after+int64(i)+1 {
				t.Errorf("after %d: event %d has number %d", after, i, e.Seq)
			}
			if e.Seq > 3 {
				if want := all[e.Seq-4]; string(e.Body) != string(want.Body) || e.Kind != want.Kind || e.Says != want.Says {
					t.Errorf("event %d is %+v, want %+v", e.Seq, e, want)
				}
			}
		}
	}
	size := len(all[0].Body)
	for limit := range 3 * size {
		var seen []int64
		for after := int64(0); after < 6; {
			got, err := s.Events(t.Context(), row.Key, after, limit)
			if err != nil || len(got) == 0 || got[0].Seq != after+1 {
				t.Fatalf("limit %d after %d: %v, %v", limit, after, got, err)
			}
			total := 0
			for _, e := range got {
				seen = append(seen, e.Seq)
				total += len(e.Body)
			}
			if total > limit+size {
				t.Errorf("limit %d: got %d bytes", limit, total)
			}
			after = got[len(got)-1].Seq
		}
		if !slices.Equal(seen, []int64{1, 2, 3, 4, 5, 6}) {
			t.Errorf("limit %d: saw %v", limit, seen)
		}
	}
	for _, after := range []int64{6, 1 << 40} {
		if got, err := s.Events(t.Context(), row.Key, after, 1<<20); len(got) > 0 || err != nil {
			t.Errorf("after %d: %v, %v", after, bodies(got), err)
		}
	}
	if got, err := s.Events(t.Context(), other.Key+100, 0, 1<<20); len(got) > 0 || err != nil {
		t.Errorf("of no task: %v, %v", bodies(got), err)
	}
}

func testMessages(t *testing.T, s store.Store) {
	row := insert(t, s, task("t", a2a.StateWorking), message("1"), saying("x"), message("2"))
	commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{saying("y"), artifact("z")}})
	for n := 3; n <= 6; n++ {
		commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{saying("w"), message(fmt.Sprint(n))}})
	}
	for from := int64(1); from <= 8; from++ {
		got, err := s.Messages(t.Context(), row.Key, from)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{}
		for n := from; n <= 6; n++ {
			want = append(want, fmt.Sprintf(`{"message":"%d"}`, n))
		}
		if diff := cmp.Diff(want, bodies(got)); diff != "" {
			t.Errorf("from %d:\n%s", from, diff)
		}
	}
}

func testLargeBodies(t *testing.T, s store.Store) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 9<<20/16)
	c := &store.Change{Insert: task("t", a2a.StateCompleted), Events: []store.Event{
		status("s"), {Kind: store.KindArtifact, Body: big}, {Kind: store.KindArtifact, Body: big[:9<<20-1]}, {Kind: store.KindMessage, Body: big[7:]},
	}}
	commit(t, s, c)
	item := read(t, s, "t", store.Want{Messages: 2, Artifacts: true})
	if len(item.Artifacts) != 2 || !bytes.Equal(item.Artifacts[0].Body, big) || !bytes.Equal(item.Artifacts[1].Body, big[:9<<20-1]) {
		t.Error("artifacts differ")
	}
	if len(item.Messages) != 1 || !bytes.Equal(item.Messages[0].Body, big[7:]) {
		t.Error("message differs")
	}
	got, err := s.Events(t.Context(), c.Insert.Key, 1, 1<<10)
	if err != nil || len(got) != 1 || !bytes.Equal(got[0].Body, big) {
		t.Errorf("%d events, %v", len(got), err)
	}
	commit(t, s, &store.Change{Task: c.Insert.Key, State: big, Result: &store.Result{Key: "r", Value: big}})
	if v, err := s.Private(t.Context(), c.Insert.Key); err != nil || !bytes.Equal(v, big) {
		t.Errorf("private state differs, %v", err)
	}
	if v, err := s.Result(t.Context(), c.Insert.Key, "r"); err != nil || !bytes.Equal(v, big) {
		t.Errorf("result differs, %v", err)
	}
}

func testUnicode(t *testing.T, s store.Store) {
	const text = "NUL \x00, ünïcödé, 漢字, 🤝, \u202e, '\"\\%_?; DROP TABLE tasks"
	row := task("t-"+strings.ReplaceAll(text, "\x00", ""), a2a.StateWorking)
	row.Tenant, row.Owner, row.Agent, row.Context = "茶", "o'ne 🤝", "ägent", "контекст"
	scope := store.ForOwner(row.Tenant, row.Owner)
	insert(t, s, row, status("s"), message(text), artifact(text))
	commit(t, s, &store.Change{
		Task: row.Key, State: a2a.JSON(text), Result: &store.Result{Key: "ключ", Value: a2a.JSON(text)},
		Grant: &store.Grant{ID: "g", Task: row.ID, Text: text, Operation: "операция", URL: "https://x/?a=1&b=ü", Created: time.UnixMilli(1).UTC()},
	})
	commit(t, s, &store.Change{Decide: &store.Grant{ID: "g", Note: text, Data: []byte(text), By: "ann"}})
	item, err := s.Read(t.Context(), scope, row.ID, store.Want{Messages: 1, Artifacts: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := bodies(append(item.Messages, item.Artifacts...)); !slices.Equal(got, []string{`{"message":"` + text + `"}`, `{"artifact":"` + text + `"}`}) {
		t.Errorf("events: %q", got)
	}
	if v, err := s.Private(t.Context(), row.Key); err != nil || string(v) != text {
		t.Errorf("private state: %q, %v", v, err)
	}
	if v, err := s.Result(t.Context(), row.Key, "ключ"); err != nil || string(v) != text {
		t.Errorf("result: %q, %v", v, err)
	}
	g, err := s.Grant(t.Context(), scope, "g")
	if err != nil {
		t.Fatal(err)
	}
	if g.Text != text || g.Note != text || string(g.Data) != text || g.Operation != "операция" {
		t.Errorf("grant: %+v", g)
	}
	page, err := s.List(t.Context(), scope, store.ListQuery{Agent: "ägent", Context: "контекст", PageSize: 1})
	if err != nil || len(page.Items) != 1 || page.Total != 1 {
		t.Errorf("list: %+v, %v", page, err)
	}
}

// testManyChunks writes an artifact of ten thousand chunks and reads it again.
func testManyChunks(t *testing.T, s store.Store) {
	const changes, each = 100, 100
	row := insert(t, s, task("t", a2a.StateWorking))
	for i := range changes {
		c := &store.Change{Task: row.Key}
		for n := range each {
			c.Events = append(c.Events, artifact(fmt.Sprintf("chunk %05d of forty bytes", i*each+n)))
		}
		commit(t, s, c)
	}
	item := read(t, s, "t", store.Want{Artifacts: true})
	if len(item.Artifacts) != changes*each {
		t.Fatalf("%d chunks", len(item.Artifacts))
	}
	for i, e := range item.Artifacts {
		if want := fmt.Sprintf(`{"artifact":"chunk %05d of forty bytes"}`, i); string(e.Body) != want || e.Seq != int64(i+2) {
			t.Fatalf("chunk %d is %d: %s", i, e.Seq, e.Body)
		}
	}
}

// testManyTurns has a conversation of two thousand messages and reads its end.
func testManyTurns(t *testing.T, s store.Store) {
	const turns = 1000
	row := insert(t, s, task("t", a2a.StateWorking))
	var events []store.Event
	for i := range turns {
		events = append(events, message(fmt.Sprint("question ", i)), saying(fmt.Sprint("answer ", i)))
		if len(events) == 50 {
			commit(t, s, &store.Change{Task: row.Key, Events: events})
			events = nil
		}
	}
	item := read(t, s, "t", store.Want{Messages: 3})
	got := bodies(item.Messages)
	if len(got) != 3 || !strings.Contains(got[0], "question 998") || !strings.Contains(got[1], "answer 998") || !strings.Contains(got[2], "question 999") {
		t.Errorf("newest three: %q", got)
	}
	if item.Messages[2].Kind != store.KindMessage || !strings.Contains(string(item.Status.Body), "answer 999") {
		t.Errorf("status %s", item.Status.Body)
	}
	if item = read(t, s, "t", store.Want{Messages: 1 << 20}); len(item.Messages) != 2*turns-1 {
		t.Errorf("the history has %d entries", len(item.Messages))
	}
}

func testTasks(t *testing.T, s store.Store) {
	var ids []string
	want := map[string]store.Task{}
	for i := range 21 {
		row := task(name("t", i), a2a.StateWorking)
		if i%3 == 0 {
			row.Owner = "ben"
		}
		insert(t, s, row)
		ids = append(ids, row.ID, name("none", i))
		if i%3 != 0 {
			kept, err := s.Task(t.Context(), node, row.ID)
			if err != nil {
				t.Fatal(err)
			}
			want[row.ID] = *kept
		}
	}
	find := func(scope store.Scope, ids ...string) map[string]store.Task {
		t.Helper()
		rows, err := s.Tasks(t.Context(), scope, ids)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]store.Task{}
		for _, row := range rows {
			found[row.ID] = row
		}
		if len(found) != len(rows) {
			t.Errorf("a task comes twice among %d", len(rows))
		}
		return found
	}
	if diff := cmp.Diff(want, find(ann, ids...)); diff != "" {
		t.Errorf("tasks of ann (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		name  string
		scope store.Scope
		ids   []string
		want  int
	}{
		{"all", node, ids, 21},
		{"tenant", store.ForTenant("acme"), ids, 21},
		{"another tenant", store.ForTenant("other"), ids, 0},
		{"nobody", store.Scope{}, ids, 0},
		{"none", node, nil, 0},
		{"one", node, ids[:1], 1},
		{"twice", node, []string{ids[0], ids[0], ids[2]}, 2},
		{"as many as may be", node, slices.Repeat(ids[:2], store.MaxTasks/2), 1},
	} {
		if got := find(tt.scope, tt.ids...); len(got) != tt.want {
			t.Errorf("%s: %d tasks, want %d", tt.name, len(got), tt.want)
		}
	}
	_, err := s.Tasks(t.Context(), node, make([]string, store.MaxTasks+1))
	wantError(t, "more tasks than a call may ask for", err, store.ErrTooMany)
}
