package storetest

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// modelTask is what the test knows of a task.
type modelTask struct {
	row     store.Task
	moved   int  // when it got its status: the number of the change
	old     bool // there when the first page was read
	fixed   int  // moved, when the first page was read
	always  bool // has matched the query ever since
	deleted bool
	seen    int
}

// model is what the test knows of the tasks of one owner, while they change
// and are listed.
type model struct {
	t       *rapid.T
	test    *testing.T
	store   store.Store
	scope   store.Scope
	owner   string
	query   store.ListQuery
	tasks   []*modelTask
	changes int
}

// testPagesWhileChanging takes pages while tasks change, are made and are
// deleted between them. Tasks that match all the time are seen exactly once and
// in the order of the first page, others at most once, new ones never; totals
// are right.
func testPagesWhileChanging(t *testing.T, s store.Store) {
	owners := 0
	rapid.Check(t, func(rt *rapid.T) {
		owners++
		m := &model{t: rt, test: t, store: s, owner: name("owner", owners)}
		m.scope = store.ForOwner("acme", m.owner)
		if rapid.Bool().Draw(rt, "as tenant") {
			// A tenant of its own, so that the wider scope sees no other tasks.
			m.scope = store.ForTenant("tenant-of-" + m.owner)
		}
		for range rapid.IntRange(0, 12).Draw(rt, "tasks") {
			m.add()
		}
		for range rapid.IntRange(0, 6).Draw(rt, "changes before") {
			m.change()
		}
		m.query = store.ListQuery{
			Agent:    rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "agent"),
			Context:  rapid.SampledFrom([]string{"", "", "c"}).Draw(rt, "context"),
			State:    rapid.SampledFrom([]a2a.TaskState{0, 0, a2a.StateWorking, a2a.StateCompleted}).Draw(rt, "state"),
			PageSize: rapid.IntRange(1, 4).Draw(rt, "page size"),
		}
		if len(m.tasks) > 0 && rapid.Bool().Draw(rt, "after") {
			m.query.After = rapid.SampledFrom(m.tasks).Draw(rt, "after the status of").row.StatusAt
		}
		m.page()
	})
}

// page takes all pages and checks them.
func (m *model) page() {
	last := int(^uint(0) >> 1)
	for pages := 0; ; pages++ {
		if pages > 200 {
			m.t.Fatal("the list does not end")
		}
		page, err := m.store.List(m.test.Context(), m.scope, m.query)
		if err != nil {
			m.t.Fatal(err)
		}
		total := 0
		for _, task := range m.tasks {
			if pages == 0 {
				task.old, task.fixed, task.always = !task.deleted, task.moved, m.matches(task)
			}
			if m.matches(task) {
				total++
			}
		}
		if page.Total != total {
			m.t.Fatalf("total is %d, want %d", page.Total, total)
		}
		for _, item := range page.Items {
			task := m.find(item.ID)
			task.seen++
			switch {
			case task.seen > 1:
				m.t.Fatalf("task %s is seen again", item.ID)
			case !task.old:
				m.t.Fatalf("task %s is seen, which was made later", item.ID)
			case !m.matches(task):
				m.t.Fatalf("task %s is seen and does not match", item.ID)
			case task.fixed >= last:
				m.t.Fatalf("task %s is out of order", item.ID)
			case item.State != task.row.State || item.Seq != task.row.Seq || item.Status.Seq == 0:
				m.t.Fatalf("task %s is shown at %d as %v, want %d as %v", item.ID, item.Seq, item.State, task.row.Seq, task.row.State)
			}
			last = task.fixed
		}
		if page.Next == "" {
			break
		}
		m.query.Cursor = page.Next
		for range rapid.IntRange(0, 5).Draw(m.t, "changes between pages") {
			m.change()
		}
	}
	for _, task := range m.tasks {
		if task.always && task.seen != 1 {
			m.t.Fatalf("task %s matched all the time and was seen %d times", task.row.ID, task.seen)
		}
	}
}

// matches says whether a task is one of the query now.
func (m *model) matches(t *modelTask) bool {
	q := &m.query
	return !t.deleted && (q.Agent == "" || q.Agent == t.row.Agent) && (q.Context == "" || q.Context == t.row.Context) &&
		(q.State == 0 || q.State == t.row.State) && !t.row.StatusAt.Before(q.After)
}

func (m *model) find(id string) *modelTask {
	for _, t := range m.tasks {
		if t.row.ID == id {
			return t
		}
	}
	m.t.Fatalf("unknown task %s", id)
	return nil
}

// add makes a task.
func (m *model) add() {
	row := task(name(m.owner, len(m.tasks)), rapid.SampledFrom([]a2a.TaskState{a2a.StateWorking, a2a.StateCompleted}).Draw(m.t, "state"))
	row.Owner = m.owner
	if tenant, ok := m.scope.Tenant(); ok {
		row.Tenant = tenant
	}
	row.Agent = rapid.SampledFrom([]string{"a", "b"}).Draw(m.t, "agent")
	row.Context = rapid.SampledFrom([]string{"c", "d"}).Draw(m.t, "context")
	m.changes++
	if err := m.store.Commit(m.test.Context(), &store.Change{Insert: row, Events: []store.Event{status("new")}}); err != nil {
		m.t.Fatal(err)
	}
	m.tasks = append(m.tasks, &modelTask{row: *row, moved: m.changes})
}

// change changes any task, or makes one, or deletes one.
func (m *model) change() {
	if len(m.tasks) == 0 || rapid.IntRange(0, 4).Draw(m.t, "what") == 0 {
		m.add()
		return
	}
	t := rapid.SampledFrom(m.tasks).Draw(m.t, "task")
	switch {
	case t.deleted:
		return
	case t.row.State.Terminal() && rapid.Bool().Draw(m.t, "delete"):
		if err := m.store.Delete(m.test.Context(), m.scope, t.row.ID); err != nil {
			m.t.Fatal(err)
		}
		t.deleted = true
	default:
		m.commit(t)
	}
	t.always = t.always && m.matches(t)
}

// commit gives a task a status, an artifact, or a state.
func (m *model) commit(t *modelTask) {
	c := &store.Change{Task: t.row.Key}
	switch rapid.IntRange(0, 3).Draw(m.t, "change") {
	case 0:
		c.Events = []store.Event{artifact("a")}
	case 1:
		c.Events = []store.Event{status("once"), artifact("a"), status("twice")}
	default:
		state := rapid.SampledFrom([]a2a.TaskState{a2a.StateWorking, a2a.StateInputRequired, a2a.StateCompleted}).Draw(m.t, "new state")
		c.Set.State = &state
		c.Events = []store.Event{status("moved")}
	}
	m.changes++
	if err := m.store.Commit(m.test.Context(), c); err != nil {
		m.t.Fatal(err)
	}
	if c.Events[0].Kind == store.KindStatus {
		t.moved = m.changes
	}
	t.row = c.After
}

// testPagesUnderLoad takes pages while many tasks change at the same time.
// Each task that is there all the time is seen exactly once. The writers get
// so many changes a page: left alone, they would add tasks faster than a slow
// reader turns pages, and there would be no last one.
func testPagesUnderLoad(t *testing.T, s store.Store) {
	const tasks, writers = 60, 4
	const changes = 20 // a page
	const nth = 19     // every nth change is a new task
	keys := make([]int64, tasks)
	for i := range keys {
		keys[i] = insert(t, s, task(name("t", i), a2a.StateWorking)).Key
	}
	allowed := make(chan int, changes)
	atOnce(writers+1, func(i int) {
		if i > 0 {
			for n := range allowed {
				c := &store.Change{Task: keys[n*7%tasks], Events: []store.Event{status("moved")}}
				if n%nth == 0 {
					c = &store.Change{Insert: task(name("new", n), a2a.StateCompleted), Events: []store.Event{status("new")}}
				}
				if err := s.Commit(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
			return
		}
		defer close(allowed)
		n := 0
		for range 10 {
			var seen []string
			q := store.ListQuery{Agent: echo, PageSize: 7}
			for {
				for range changes {
					n++
					allowed <- n
				}
				page, err := s.List(t.Context(), ann, q)
				if err != nil {
					t.Error(err)
					return
				}
				for _, item := range page.Items {
					seen = append(seen, item.ID)
				}
				if page.Next == "" {
					break
				}
				q.Cursor = page.Next
			}
			slices.SortFunc(seen, cmp.Compare[string])
			if n := len(slices.Compact(slices.Clone(seen))); n != len(seen) {
				t.Errorf("%d tasks were seen twice", len(seen)-n)
			}
			for i := range tasks {
				if _, found := slices.BinarySearch(seen, name("t", i)); !found {
					t.Errorf("task %d was not seen", i)
				}
			}
		}
	})
}
