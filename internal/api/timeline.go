package api

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
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

// add puts an item on the timeline.
func (t *chronicler) add(m *moment) *moment {
	if len(t.out.Items) >= maxTimeline {
		t.out.Truncated = true
		return m
	}
	t.out.Items = append(t.out.Items, m)
	return m
}
