package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// Bounds of what one page of a search looks at.
const (
	searchRows   = 5_000           // rows of tasks
	searchRead   = 1_000           // tasks whose text is read
	searchTime   = 2 * time.Second // after which the page ends
	searchBatch  = 500
	searchEvents = 5_000     // of a task with more, the artifacts are not read
	searchText   = 256 << 10 // bytes of one text
	minSearch    = 2         // characters
)

// search looks for tasks by what lists have no index of. It goes through the
// tasks in the order of their status, newest first, a bounded piece for each
// page; or, by reference, peer or root, through the delegations that have it.
type search struct {
	*call
	list   *store.ListQuery
	states store.StateSet
	owner  string
	since  time.Time
	until  time.Time

	text            string // in lower case
	ref, peer, root string
	stalled         time.Duration
	madeAfter       time.Time
	madeBefore      time.Time

	digest  []byte // of the filters, for page tokens
	began   time.Time
	read    int // tasks whose text was read
	answer  *taskList
	already map[string]bool // tasks that are on the page
}

// searchOf returns the search that the parameters ask for, nil when a list does.
func (c *call) searchOf(q *query, states []a2a.TaskState, list *store.ListQuery) *search {
	now := time.Now()
	s := &search{
		call: c, list: list, states: store.States(states...), owner: q.values.Get("owner"), since: q.time("since"), until: q.time("until"),
		text: strings.ToLower(q.values.Get("q")), ref: q.values.Get("ref"), peer: q.values.Get("peer"), root: q.values.Get("root"),
		stalled: q.duration("stalled"), began: now, already: map[string]bool{},
	}
	if q.values.Has("q") && len([]rune(s.text)) < minSearch {
		q.bad("q", "has to have at least "+strconv.Itoa(minSearch)+" characters")
	}
	if d := q.duration("min_age"); d > 0 {
		s.madeBefore = now.Add(-d)
	}
	if d := q.duration("max_age"); d > 0 {
		s.madeAfter = now.Add(-d)
	}
	if list.After.After(s.since) {
		s.since = list.After
	}
	plain := []string{"agent", "context", "after"}
	if len(states) < 2 {
		plain = append(plain, "state")
	}
	searched := false
	sum := sha256.New()
	for _, name := range filters {
		searched = searched || q.values.Get(name) != "" && !slices.Contains(plain, name)
		sum.Write([]byte(name + "=" + q.values.Get(name) + "\n"))
	}
	if !searched {
		return nil
	}
	s.digest = sum.Sum(nil)[:8]
	return s
}

// token returns where a search goes on.
func (s *search) token(kind byte, at string) string {
	return base64.RawURLEncoding.EncodeToString(append(append(slices.Clone(s.digest), kind), at...))
}

func (s *search) openToken(kind byte) (at string, err error) {
	if s.list.Cursor == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s.list.Cursor)
	if err != nil || len(b) <= len(s.digest) || !bytes.Equal(b[:len(s.digest)], s.digest) || b[len(s.digest)] != kind {
		return "", a2a.Invalid("page_token", "is not one that this query returned")
	}
	return string(b[len(s.digest)+1:]), nil
}

// page returns a page of what is found.
func (s *search) page() (any, error) {
	s.answer = &taskList{Tasks: []*task{}, PageSize: s.list.PageSize, Search: &searched{}}
	err := error(nil)
	if s.ref != "" || s.peer != "" || s.root != "" {
		err = s.delegated()
	} else {
		err = s.all()
	}
	if err != nil {
		return nil, err
	}
	return s.answer, nil
}

// over reports whether the page has looked at enough.
func (s *search) over() bool {
	return s.answer.Search.Scanned >= searchRows || s.read >= searchRead || time.Since(s.began) > searchTime
}

// all goes through the tasks in the order of their status.
func (s *search) all() error {
	at, err := s.openToken('s')
	if err != nil {
		return err
	}
	q := store.ScanQuery{Agent: s.list.Agent, Owner: s.owner, Context: s.list.Context, States: s.states, Since: s.since, Until: s.until}
	if at != "" {
		if q.After, err = strconv.ParseInt(at, 10, 64); err != nil || q.After <= 0 {
			return a2a.Invalid("page_token", "is not one that this query returned")
		}
	}
	if s.madeAfter.After(q.Since) {
		q.Since = s.madeAfter // no status is older than its task
	}
	if s.stalled > 0 {
		if q.States == 0 {
			q.States = store.Live
		}
		if before := s.began.Add(-s.stalled); q.Until.IsZero() || before.Before(q.Until) {
			q.Until = before
		}
	}
	for {
		q.Limit = min(searchBatch, max(1, searchRows-s.answer.Search.Scanned))
		page, err := s.h.opts.Store.Scan(s.context(), s.reach(), q)
		if err != nil {
			return err
		}
		s.answer.Search.Scanned += page.Looked
		for i := range page.Tasks {
			row := &page.Tasks[i]
			if err := s.take(row); err != nil {
				return err
			}
			if full := len(s.answer.Tasks) >= s.list.PageSize; full || s.read >= searchRead || time.Since(s.began) > searchTime {
				s.answer.Search.Scanned -= len(page.Tasks) - i - 1
				s.answer.Search.BackTo = row.StatusAt.UTC()
				s.answer.NextPageToken = s.token('s', strconv.FormatInt(page.Positions[i], 10))
				return nil
			}
		}
		if page.Next == 0 {
			s.answer.Search.Complete = true
			return nil
		}
		q.After = page.Next
		if s.over() {
			s.answer.Search.BackTo = page.Reached.UTC()
			s.answer.NextPageToken = s.token('s', strconv.FormatInt(page.Next, 10))
			return nil
		}
	}
}

// delegated goes through the delegations with a reference, to a peer, or in a
// tree. With a reference or in a tree, the tasks at the root are found too.
func (s *search) delegated() error {
	at, err := s.openToken('d')
	if err != nil {
		return err
	}
	if s.h.opts.Delegations == nil {
		s.answer.Search.Complete = true
		return nil
	}
	if s.root != "" && at == "" {
		if err := s.takeAll([]string{s.root}); err != nil {
			return err
		}
	}
	q := store.DelegationQuery{Ref: s.ref, Peer: s.peer, Root: s.root, PageSize: s.list.PageSize, Cursor: at}
	for {
		page, err := s.h.opts.Delegations.Delegations(s.context(), s.reach(), q)
		if errors.Is(err, store.ErrBadCursor) {
			return a2a.Invalid("page_token", "is not one that this query returned")
		}
		if err != nil {
			return err
		}
		var ids []string
		for i := range page.Items {
			d := &page.Items[i]
			if ids = append(ids, d.Task); s.ref != "" && s.peer == "" && d.Root != d.Task {
				ids = append(ids, d.Root)
			}
		}
		if err := s.takeAll(ids); err != nil {
			return err
		}
		switch {
		case page.Next == "":
			s.answer.Search.Complete = true
			return nil
		case len(s.answer.Tasks) > 0 || s.over():
			s.answer.NextPageToken = s.token('d', page.Next)
			return nil
		}
		q.Cursor = page.Next
	}
}

// takeAll looks at tasks by their ids, in that order.
func (s *search) takeAll(ids []string) error {
	ids = slices.DeleteFunc(ids, func(id string) bool {
		seen := s.already[id]
		s.already[id] = true
		return seen || len(id) > a2a.MaxIDLength
	})
	rows, err := s.h.opts.Store.Tasks(s.context(), s.reach(), ids)
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b store.Task) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	s.answer.Search.Scanned += len(rows)
	for i := range rows {
		if err := s.take(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// take puts a task on the page if it is one that is looked for.
func (s *search) take(row *store.Task) error {
	asked := store.ScanQuery{Agent: s.list.Agent, Owner: s.owner, Context: s.list.Context, States: s.states}
	switch {
	case !asked.Has(row),
		!s.since.IsZero() && row.StatusAt.Before(s.since), !s.until.IsZero() && !row.StatusAt.Before(s.until),
		!s.madeAfter.IsZero() && row.Created.Before(s.madeAfter), !s.madeBefore.IsZero() && row.Created.After(s.madeBefore):
		return nil
	}
	var d *store.Delegation
	if s.stalled > 0 {
		if row.State.Terminal() || row.StatusAt.After(s.began.Add(-s.stalled)) {
			return nil
		}
		var err error
		if d, err = s.delegationBeside(row); err != nil {
			return err
		}
		if w, err := s.waitOf(row, d, nil); err != nil || w == nil {
			return err
		}
	}
	want := s.list.Want
	if s.text != "" {
		found, err := s.matches(row)
		if err != nil || !found {
			return err
		}
	}
	record, err := s.h.opts.Engine.Record(s.context(), s.reach(), row.ID, want)
	if a2a.CodeOf(err) == a2a.CodeTaskNotFound {
		return nil // it has gone meanwhile
	}
	if err != nil {
		return err
	}
	if !want.Artifacts {
		record.Task.Artifacts = nil
	}
	t, err := s.fullTaskOf(record)
	if err == nil {
		s.answer.Tasks = append(s.answer.Tasks, t)
	}
	return err
}

// matches reports whether the text is in a task.
func (s *search) matches(row *store.Task) (bool, error) {
	if s.has(row.ID) || s.has(row.Context) {
		return true, nil
	}
	if row.Delegated {
		d, err := s.delegationBeside(row)
		if err != nil {
			return false, err
		}
		if d != nil && (s.has(d.Ref) || s.has(d.RemoteTask)) {
			return true, nil
		}
	}
	s.read++
	record, err := s.h.opts.Engine.Record(s.context(), s.reach(), row.ID, store.Want{Messages: 1000, Artifacts: row.Seq <= searchEvents})
	switch {
	case a2a.CodeOf(err) == a2a.CodeTaskNotFound:
		return false, nil
	case engine.IsAway(err) || s.context().Err() != nil:
		return false, err
	case err != nil:
		return false, nil // one task that cannot be read hides no other
	}
	t := record.Task
	if t.Status.Message != nil && s.inParts(t.Status.Message.Parts) {
		return true, nil
	}
	for i := range t.History {
		if s.inParts(t.History[i].Parts) {
			return true, nil
		}
	}
	for i := range t.Artifacts {
		a := &t.Artifacts[i]
		if s.has(a.Name) || s.has(a.Description) || s.inParts(a.Parts) {
			return true, nil
		}
	}
	return false, nil
}

func (s *search) inParts(parts []a2a.Part) bool {
	for i := range parts {
		p := &parts[i]
		if s.has(p.Text) || s.has(p.Filename) || s.has(p.URL) || p.Kind == a2a.PartData && s.has(string(p.Data[:min(len(p.Data), searchText)])) {
			return true
		}
	}
	return false
}

// has reports whether the text that is looked for is in another, however it is
// written.
func (s *search) has(text string) bool {
	if len(text) > searchText {
		text = text[:searchText]
	}
	return text != "" && strings.Contains(strings.ToLower(text), s.text)
}
