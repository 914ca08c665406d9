package api

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/store"
)

// Bounds of a timeline.
const (
	maxTimeline   = 2_000 // items
	timelineReads = 32    // reads of events
	timelineBytes = 1 << 20
	// leastWorkerWait is how long a task has to wait for a free worker to be shown
	// so.
	leastWorkerWait = 50 * time.Millisecond
	timelineItems   = a2a.MaxPageSize // of the inbox
)

// timeline says what happened with a task, and who waited for whom.
type timeline struct {
	Task      string      `json:"task"`
	Agent     string      `json:"agent"`
	State     string      `json:"state"`
	Ref       string      `json:"ref,omitempty"`
	Root      string      `json:"root,omitempty"`
	From      time.Time   `json:"from"`
	To        time.Time   `json:"to"`
	Open      bool        `json:"open"`
	Items     []*moment   `json:"items"`
	Waits     []waitTotal `json:"waits"`
	Total     int64       `json:"total_ms"`
	Working   int64       `json:"working_ms"`
	Waiting   int64       `json:"waiting_ms"`
	Truncated bool        `json:"truncated"`
}

// moment is a span of a timeline, or a mark of it when it has no end and is not
// open.
type moment struct {
	Kind     string    `json:"kind"` // task, message, turn, step, wait, delegation, push, tool, model or audit
	Title    string    `json:"title"`
	Detail   string    `json:"detail,omitempty"`
	Who      string    `json:"who,omitempty"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end,omitzero"`
	Open     bool      `json:"open,omitzero"`
	Wait     string    `json:"wait,omitempty"` // of a wait: what for
	By       string    `json:"by,omitempty"`
	Outcome  string    `json:"outcome,omitempty"`
	State    string    `json:"state,omitempty"`
	Turn     int       `json:"turn,omitzero"`
	Attempt  int       `json:"attempt,omitzero"`
	Attempts int       `json:"attempts,omitzero"`
	Seq      int64     `json:"seq,omitzero"`
	Count    int       `json:"count,omitzero"` // of chunks that are one step
	Task     string    `json:"task,omitempty"`
	Item     string    `json:"item,omitempty"`
	Peer     bool      `json:"peer,omitzero"`
	Ref      string    `json:"ref,omitempty"`
	Cost     *cost     `json:"cost,omitzero"`
}

// cost is what a call of a model has cost.
type cost struct {
	Model    string         `json:"model,omitempty"`
	Input    int64          `json:"input_tokens,omitzero"`
	Cached   int64          `json:"cached_tokens,omitzero"`
	Output   int64          `json:"output_tokens,omitzero"`
	Amount   jsontext.Value `json:"amount,omitzero"`
	Currency string         `json:"currency,omitempty"`
	USD      jsontext.Value `json:"usd,omitzero"`
}

// waitTotal says how long a task waited for somebody in all.
type waitTotal struct {
	Kind  string `json:"kind"`
	Who   string `json:"who,omitempty"`
	Count int    `json:"count"`
	MS    int64  `json:"ms"`
	Open  bool   `json:"open,omitzero"`
}

// chronicler makes the timeline of a task.
type chronicler struct {
	*call
	row  *store.Task
	self *store.Delegation // that the task is; nil: none
	out  *timeline
	now  time.Time

	last   time.Time
	turn   *moment                  // that runs
	turns  []*moment                // all of them
	wait   *moment                  // that is open
	asked  map[int]*store.InboxItem // by the turn that has asked
	above  []*store.InboxItem       // of the root, about this task; oldest first
	marked map[int]store.Wait       // how the last event of a turn left the task
	step   *moment                  // the last artifact, for its chunks
	chunk  string                   // its id
}

// taskTimeline returns what happened with a task.
func (c *call) taskTimeline() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	row, err := c.taskRow(c.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	t := &chronicler{
		call: c, row: row, now: time.Now().UTC().Truncate(time.Millisecond), asked: map[int]*store.InboxItem{}, marked: map[int]store.Wait{},
		out: &timeline{Task: row.ID, Agent: row.Agent, State: row.State.String(), From: row.Created.UTC(), Open: !row.State.Terminal(), Items: []*moment{}, Waits: []waitTotal{}},
	}
	if t.self, err = c.delegationBeside(row); err != nil {
		return nil, err
	}
	if t.self != nil {
		t.out.Ref, t.out.Root = t.self.Ref, t.self.Root
	}
	for _, read := range []func() error{t.inbox, t.events, t.children, t.pushes, t.audited} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	t.finish()
	return t.out, nil
}

// taskRow returns the row of a task that the caller may see.
func (c *call) taskRow(id string) (*store.Task, error) {
	if len(id) > a2a.MaxIDLength {
		return nil, a2a.TaskNotFound(clip(id, a2a.MaxIDLength))
	}
	row, err := c.h.opts.Store.Task(c.context(), c.reach(), id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, a2a.TaskNotFound(id)
	}
	return row, err
}

// add puts an item on the timeline.
func (t *chronicler) add(m *moment) *moment {
	if len(t.out.Items) >= maxTimeline {
		t.out.Truncated = true
		return m
	}
	t.out.Items = append(t.out.Items, m)
	return m
}

// inbox finds who was asked by which turn, and who has answered.
func (t *chronicler) inbox() error {
	if t.h.opts.Inbox == nil || t.inboxAllowed() != nil {
		return nil
	}
	items, err := t.itemsOf(t.row.ID)
	if err != nil {
		return err
	}
	for i := range items {
		t.asked[items[i].Turn] = &items[i]
	}
	if t.self == nil || t.self.Root == "" || t.self.Root == t.row.ID {
		return nil
	}
	if items, err = t.itemsOf(t.self.Root); err != nil {
		return err
	}
	for i := range items {
		if items[i].Agent == t.self.Peer || items[i].Agent == t.row.Agent {
			t.above = append(t.above, &items[i])
		}
	}
	slices.SortFunc(t.above, func(a, b *store.InboxItem) int { return a.Created.Compare(b.Created) })
	return nil
}

// itemsOf returns the items of the inbox of a task.
func (t *chronicler) itemsOf(task string) ([]store.InboxItem, error) {
	var items []store.InboxItem
	for _, settled := range []bool{true, false} {
		page, err := t.h.opts.Inbox.List(t.context(), t.reach(), store.InboxQuery{Task: task, Settled: settled, PageSize: timelineItems})
		if err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
	}
	return items, nil
}

// item returns the item of what a turn has asked, nil when there is none. What a
// task below a root asks is an item of the root, which is made after it has asked.
func (t *chronicler) item(turn int) *store.InboxItem {
	if item := t.asked[turn]; item != nil {
		return item
	}
	i := slices.IndexFunc(t.above, func(item *store.InboxItem) bool { return !item.Created.Before(t.last) })
	if i < 0 {
		return nil
	}
	item := t.above[i]
	t.above = t.above[i+1:]
	return item
}

// events goes through the events of the task.
func (t *chronicler) events() error {
	t.last = t.out.From
	after := int64(0)
	for range timelineReads {
		events, err := t.h.opts.Store.Events(t.context(), t.row.Key, after, timelineBytes)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		for i := range events {
			t.event(&events[i])
		}
		if after = events[len(events)-1].Seq; after >= t.row.Seq || t.out.Truncated {
			break
		}
	}
	t.out.Truncated = t.out.Truncated || after < t.row.Seq
	return nil
}

func (t *chronicler) event(e *store.Event) {
	var response a2a.StreamResponse
	var message a2a.Message
	if e.Kind == store.KindMessage {
		if a2a.Unmarshal(e.Body, &message) != nil {
			return
		}
	} else if a2a.Unmarshal(e.Body, &response) != nil {
		return
	}
	at := e.Mark.At
	if s := response.StatusUpdate; at.IsZero() && s != nil {
		at = s.Status.Timestamp // of an event that is older than marks are
	}
	if at.IsZero() || at.Before(t.last) {
		at = t.last
	}
	t.last = at.UTC()
	switch {
	case e.Kind == store.KindMessage:
		t.add(&moment{Kind: "message", Title: "Message", Who: t.row.Owner, Detail: textOf(&message), Start: t.last, Seq: e.Seq})
	case response.ArtifactUpdate != nil:
		t.begin(e)
		t.artifact(e, response.ArtifactUpdate)
	case response.StatusUpdate != nil:
		t.status(e, response.StatusUpdate)
	}
}

// begin begins the turn of an event, unless it runs already.
func (t *chronicler) begin(e *store.Event) {
	turn, attempt := e.Mark.Turn, e.Mark.Attempt
	if turn == 0 {
		turn = 1
		if t.turn != nil {
			turn = t.turn.Turn
		} else if n := len(t.turns); n > 0 {
			turn = t.turns[n-1].Turn + 1
		}
	}
	defer func() { t.marked[turn] = e.Mark.Wait }()
	if t.turn != nil && t.turn.Turn == turn && (attempt <= t.turn.Attempt || attempt == 0) {
		return
	}
	t.end(t.last, "")
	if t.self != nil && t.self.Peer != "" {
		return // what a peer does is a wait
	}
	title := "Turn " + strconv.Itoa(turn)
	if attempt > 1 {
		title += ", attempt " + strconv.Itoa(attempt)
		if n := len(t.turns); n > 0 && t.turns[n-1].Turn == turn {
			t.turns[n-1].Outcome = "interrupted"
		}
	}
	t.turn = t.add(&moment{Kind: "turn", Title: title, Who: t.row.Agent, Turn: turn, Attempt: attempt, Start: t.last})
	t.turns = append(t.turns, t.turn)
}

// end ends the turn that runs.
func (t *chronicler) end(at time.Time, outcome string) {
	if t.turn != nil {
		t.turn.End = at
		if outcome != "" {
			t.turn.Outcome = outcome
		}
		t.turn = nil
	}
	t.step = nil
}

// waits begins a wait.
func (t *chronicler) waits(m *moment) {
	m.Kind, m.Start = "wait", t.last
	t.wait = t.add(m)
}

// resume ends the wait that is open.
func (t *chronicler) resume() {
	if t.wait == nil {
		return
	}
	t.wait.End = t.last
	t.wait = nil
}

func (t *chronicler) status(e *store.Event, s *a2a.TaskStatusUpdateEvent) {
	state := s.Status.State
	text := textOf(s.Status.Message)
	switch state {
	case a2a.StateSubmitted:
		t.add(&moment{Kind: "task", Title: short(state), State: state.String(), Start: t.last, Seq: e.Seq})
		if t.self == nil || t.self.Peer == "" {
			t.waits(&moment{Title: "Waits for a free worker", Wait: waitWorker})
			return
		}
		t.forPeer()
	case a2a.StateWorking:
		t.working(e, s, text)
	case a2a.StateInputRequired, a2a.StateAuthRequired:
		t.resume()
		t.begin(e)
		t.end(t.last, "asked")
		m := &moment{Title: "Waits for an answer", Wait: waitAnswer, Detail: text, Who: t.row.Owner, Seq: e.Seq, Turn: e.Mark.Turn}
		if state == a2a.StateAuthRequired {
			m.Title, m.Wait = "Waits for a decision", waitGrant
		}
		if item := t.item(e.Mark.Turn); item != nil {
			m.Item, m.By, m.Outcome = item.ID, item.By, item.Decision
			m.Who = cmp.Or(item.Assignee, m.Who)
		}
		t.waits(m)
	default:
		t.resume()
		if t.turn != nil {
			t.begin(e)
		}
		t.end(t.last, strings.ToLower(short(state)))
		t.add(&moment{Kind: "task", Title: short(state), Detail: text, State: state.String(), Start: t.last, Seq: e.Seq})
	}
}

// forPeer begins to wait for the peer of a delegation, unless the task does.
func (t *chronicler) forPeer() {
	if t.wait == nil || t.wait.Wait != waitPeer {
		t.resume()
		t.waits(&moment{Title: "Waits for " + t.self.Peer, Wait: waitPeer, Who: t.self.Peer})
	}
}

func (t *chronicler) working(e *store.Event, s *a2a.TaskStatusUpdateEvent, text string) {
	if t.self != nil && t.self.Peer != "" {
		t.forPeer()
		if text != "" {
			t.add(&moment{Kind: "step", Title: "Working", Detail: text, Who: t.self.Peer, Start: t.last, Seq: e.Seq, Turn: e.Mark.Turn})
		}
		return
	}
	t.resume()
	begun := t.turn
	t.begin(e)
	if s.Status.Message != nil && t.called(e, s.Status.Message) {
		return
	}
	if text != "" || begun == t.turn {
		t.step = nil
		t.add(&moment{Kind: "step", Title: "Working", Detail: text, Start: t.last, Seq: e.Seq, Turn: e.Mark.Turn})
	}
}

// called adds the calls of a model or of a tool that a status tells of.
func (t *chronicler) called(e *store.Event, m *a2a.Message) bool {
	if len(m.Metadata) == 0 {
		return false
	}
	var told struct {
		Model *struct {
			Model    string         `json:"model"`
			Start    time.Time      `json:"start"`
			MS       int64          `json:"ms"`
			Outcome  string         `json:"outcome"`
			Input    int64          `json:"input_tokens"`
			Cached   int64          `json:"cached_tokens"`
			Output   int64          `json:"output_tokens"`
			Cost     jsontext.Value `json:"cost"`
			Currency string         `json:"currency"`
		} `json:"handoff.example/model-call"`
		Tool *struct {
			Server  string    `json:"server"`
			Tool    string    `json:"tool"`
			Start   time.Time `json:"start"`
			MS      int64     `json:"ms"`
			Outcome string    `json:"outcome"`
		} `json:"handoff.example/tool-call"`
	}
	if json.Unmarshal(m.Metadata, &told) != nil {
		return false
	}
	const day = 24 * time.Hour
	span := func(kind, title, who, outcome string, start time.Time, ms int64) *moment {
		took := min(max(time.Duration(min(ms, day.Milliseconds()))*time.Millisecond, 0), day)
		if start.IsZero() || start.After(t.last) || t.last.Sub(start) > day {
			start = t.last.Add(-took)
		}
		start = latest(start, t.out.From) // clocks differ
		return t.add(&moment{
			Kind: kind, Title: clip(title, maxShownText), Who: clip(who, maxShownText), Outcome: clip(outcome, maxShownText), Detail: textOf(m),
			Start: start.UTC(), End: start.Add(took).UTC(), Seq: e.Seq, Turn: e.Mark.Turn,
		})
	}
	if c := told.Model; c != nil {
		s := span("model", c.Model, c.Model, c.Outcome, c.Start, c.MS)
		s.Cost = &cost{Model: clip(c.Model, maxShownText), Input: c.Input, Cached: c.Cached, Output: c.Output, Currency: clip(c.Currency, 16)}
		if c.Cost.Kind() == '0' {
			s.Cost.Amount = c.Cost
			if c.Currency == "USD" {
				s.Cost.USD = c.Cost
			}
		}
	}
	if c := told.Tool; c != nil {
		title := c.Tool
		if c.Server != "" {
			title = c.Server + "." + c.Tool
		}
		span("tool", title, c.Server, c.Outcome, c.Start, c.MS)
	}
	return told.Model != nil || told.Tool != nil
}

// artifact adds an artifact. Its chunks are one step.
func (t *chronicler) artifact(e *store.Event, u *a2a.TaskArtifactUpdateEvent) {
	if t.step != nil && u.Append && t.chunk == u.Artifact.ArtifactID {
		t.step.End = t.last
		t.step.Count++
		return
	}
	who := ""
	if t.self != nil {
		who = t.self.Peer
	}
	t.chunk = u.Artifact.ArtifactID
	t.step = t.add(&moment{
		Kind: "step", Title: "Artifact " + clip(cmp.Or(u.Artifact.Name, u.Artifact.ArtifactID), 200), Detail: clip(u.Artifact.Description, maxShownText), Who: who,
		Start: t.last, Seq: e.Seq, Turn: e.Mark.Turn, Count: 1,
	})
}

// children adds what the task has handed on, and its waits for it.
func (t *chronicler) children() error {
	if t.h.opts.Delegations == nil {
		return nil
	}
	root := t.row.ID
	if t.self != nil {
		root = t.self.Root
	}
	list, truncated, err := t.delegationsOf(root)
	if err != nil {
		return err
	}
	t.out.Truncated = t.out.Truncated || truncated
	mine := slices.DeleteFunc(list, func(d store.Delegation) bool { return d.Parent != t.row.ID })
	ids := make([]string, len(mine))
	for i := range mine {
		ids[i] = mine[i].Task
	}
	rows, err := t.h.opts.Store.Tasks(t.context(), t.reach(), ids)
	if err != nil {
		return err
	}
	byID := map[string]*store.Task{}
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	slices.Reverse(mine)
	for i := range mine {
		t.child(&mine[i], byID[mine[i].Task])
	}
	return nil
}

func (t *chronicler) child(d *store.Delegation, row *store.Task) {
	who, peer := d.Agent, d.Peer != ""
	if peer {
		who = d.Peer
	}
	m := &moment{Kind: "delegation", Title: who, Who: who, Task: d.Task, Peer: peer, Ref: d.Ref, State: d.State.String(), Start: d.Created.UTC(), Turn: d.Turn, Open: true}
	if d.Error != "" {
		m.Detail = clip(d.Error, maxShownText)
	}
	if row != nil && row.State.Terminal() {
		m.End, m.Open = row.StatusAt.UTC(), false
	}
	t.add(m)
	if !m.Open && m.End.Before(m.Start) {
		m.End = m.Start
	}
	w := *m
	w.Kind, w.Title, w.Wait, w.Detail = "wait", "Waits for "+who, waitTask, ""
	if peer {
		w.Wait = waitPeer
	}
	if !w.Open {
		w.Outcome = strings.ToLower(short(d.State))
	}
	t.add(&w)
	// The turn that delegates ends with it, and the next begins when it is over.
	for n, turn := range t.turns {
		switch {
		case turn.Turn == d.Turn && (n+1 == len(t.turns) || t.turns[n+1].Turn != turn.Turn):
			turn.End, turn.Outcome = latest(turn.Start, m.Start), "delegated"
			if t.turn == turn {
				t.turn = nil
			}
		case turn.Turn == d.Turn+1 && turn.Attempt <= 1 && !m.Open && m.End.Before(turn.Start) && turn.Outcome != "delegated":
			turn.Start = m.End
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pushes adds the webhooks of the task, as they are now.
func (t *chronicler) pushes() error {
	hooks, err := t.h.opts.Store.Webhooks(t.context(), t.reach(), t.row.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range hooks {
		h := &hooks[i]
		m := &moment{Kind: "push", Title: "Webhook " + hostOf(h.URL), Who: bareURL(h.URL), Start: h.Created.UTC(), Attempts: h.Failures}
		m.Detail = strconv.FormatInt(h.Seq, 10) + " of " + strconv.FormatInt(h.Events, 10) + " events are behind it"
		if h.Error != "" {
			m.Detail += "; last error: " + clip(h.Error, maxShownText)
		}
		switch {
		case !h.Dead.IsZero():
			m.Outcome, m.End = "given up", h.Dead.UTC()
		case h.Failures > 0:
			m.Outcome, m.Open = "retrying", true
		case h.Seq < h.Events:
			m.Outcome, m.Open = "behind", true
		case t.out.Open:
			m.Outcome, m.Open = "sent", true
		default:
			m.Outcome, m.End = "sent", latest(h.Created.UTC(), t.last)
		}
		t.add(m)
	}
	return nil
}

func hostOf(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		return u.Host
	}
	return "elsewhere"
}

// bareURL is a URL without what may be secret in it.
func bareURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return u.String()
}

// audited adds what operators did to the task, for operators of the node.
func (t *chronicler) audited() error {
	if t.h.opts.Audit == nil || t.caller.Role < auth.RoleOperator || t.caller.Tenant != "" {
		return nil
	}
	rows, err := t.h.opts.Audit.Read(t.context(), store.AuditQuery{Task: t.row.ID, Newest: true, Limit: maxAuditPage})
	if err != nil {
		return err
	}
	for i := range rows {
		var e struct {
			Time                               time.Time
			Subject, Operation, Target, Result string
		}
		if json.Unmarshal(rows[i].Body, &e, json.MatchCaseInsensitiveNames(true)) != nil || !tellsOfChange(e.Operation) {
			continue
		}
		t.add(&moment{Kind: "audit", Title: e.Operation, Detail: e.Target, Who: cmp.Or(e.Subject, "anonymous"), Start: e.Time.UTC(), Outcome: e.Result})
	}
	return nil
}

// tellsOfChange reports whether an operation is more than a look, and none of the
// messages, which are there already.
func tellsOfChange(operation string) bool {
	for _, reads := range []string{"GET ", "Get", "List", "Subscribe", "Send"} {
		if strings.HasPrefix(operation, reads) {
			return false
		}
	}
	return true
}

// short is the name of a state without what all of them begin with.
func short(s a2a.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_STATE_") }

// finish ends what is over, orders the items and adds up the waits.
func (t *chronicler) finish() {
	o := t.out
	if o.To = t.last; o.Open {
		o.To = latest(t.now, t.last)
	}
	if t.wait != nil {
		t.wait.Open = o.Open
		if !o.Open {
			t.wait.End = o.To
		}
	}
	if t.turn != nil {
		if t.turn.Open = o.Open && t.row.Lease != 0; !t.turn.Open {
			t.turn.End = t.last
		}
	}
	o.Items = slices.DeleteFunc(o.Items, func(m *moment) bool { // that hardly was one
		return m.Wait == waitWorker && !m.Open && m.End.Sub(m.Start) < leastWorkerWait
	})
	t.gaps()
	slices.SortStableFunc(o.Items, func(a, b *moment) int { return a.Start.Compare(b.Start) })
	var waits, turns []*moment
	totals := map[[2]string]*waitTotal{}
	var order []*waitTotal
	for _, m := range o.Items {
		switch m.Kind {
		case "turn":
			turns = append(turns, m)
		case "wait":
			waits = append(waits, m)
			who := m.Who
			if !m.Open { // it was for whoever has ended it
				who = cmp.Or(m.By, who)
			}
			key := [2]string{m.Wait, who}
			if totals[key] == nil {
				totals[key] = &waitTotal{Kind: m.Wait, Who: who}
				order = append(order, totals[key])
			}
			w := totals[key]
			w.Count++
			w.Open = w.Open || m.Open
			w.MS += m.until(o.To).Sub(m.Start).Milliseconds()
		}
	}
	slices.SortStableFunc(order, func(a, b *waitTotal) int { return cmp.Compare(b.MS, a.MS) })
	for _, w := range order {
		o.Waits = append(o.Waits, *w)
	}
	o.Total = o.To.Sub(o.From).Milliseconds()
	o.Waiting, o.Working = covered(waits, o.To), covered(turns, o.To)
}

// gaps adds waits for a time or a callback: between two turns with nothing else
// in between, and after the last one.
func (t *chronicler) gaps() {
	kindOf := func(w store.Wait) (kind, title string) {
		if w == store.WaitTime {
			return waitTime, "Waits for a time"
		}
		return waitCallback, "Waits to be called back"
	}
	var waits []*moment
	for _, m := range t.out.Items {
		if m.Kind == "wait" {
			waits = append(waits, m)
		}
	}
	for n, turn := range t.turns {
		if turn.Open || turn.Outcome != "" {
			continue
		}
		w, to, open := t.marked[turn.Turn], t.out.To, false
		if n+1 < len(t.turns) {
			to = t.turns[n+1].Start
		} else if open = t.out.Open && t.row.State == a2a.StateWorking && t.row.Lease == 0; !open {
			continue
		} else {
			w = t.row.Wait
		}
		taken := slices.ContainsFunc(waits, func(m *moment) bool { return m.Start.Before(to) && m.until(t.out.To).After(turn.End) })
		if taken || to.Sub(turn.End) < time.Millisecond || w == store.WaitChild {
			continue
		}
		kind, title := kindOf(w)
		m := &moment{Kind: "wait", Title: title, Wait: kind, Start: turn.End, Open: open}
		if !open {
			m.End = to
		}
		t.add(m)
	}
}

// until is when a span ends.
func (m *moment) until(now time.Time) time.Time {
	switch {
	case m.Open:
		return now
	case m.End.IsZero():
		return m.Start
	}
	return m.End
}

// covered returns how many milliseconds spans cover, which are in the order of
// their beginnings.
func covered(spans []*moment, now time.Time) (ms int64) {
	var reached time.Time
	for _, m := range spans {
		from, to := latest(m.Start, reached), m.until(now)
		if to.After(from) {
			ms += to.Sub(from).Milliseconds()
			reached = to
		}
	}
	return ms
}
