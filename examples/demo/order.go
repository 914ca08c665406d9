package demo

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
)

// part is a part of the story.
type part int

const (
	_ part = iota
	stock
	quote
	credit
	draft
)

// order is a purchase as far as the record has been read: that of the company's node,
// which the console shows too.
type order struct {
	number string // by which everybody knows it
	by     string
	text   string
	given  time.Time
	task   string // of the agent

	state  a2a.TaskState
	answer string // that is an artifact
	open   []item // of the inbox
	work   []*work
	calls  map[string]toolCall // by their arguments and tool

	seq     int64           // of the last event of the task that was read
	logged  int64           // the last entry of the audit log that was read
	settled map[string]bool // items that were told
	parts   map[part]bool   // that were begun
	waiting []line          // that may have others before them
}

// work is what was handed on for an order.
type work struct {
	delegation

	seq     int64
	asked   time.Time
	over    time.Time
	waiting []item // of people, settled
}

// late is how much later than it happened the last of the records is written.
const late = 250 * time.Millisecond

// answering is how long the log takes at most to note a call whose answer was sent.
const answering = 50 * time.Millisecond

// look reads what is new and returns what can be told of it.
func (o *order) look(ctx context.Context, r *record) ([]line, error) {
	for _, read := range []func(context.Context, *record) error{o.lookAtTask, o.lookAtWork, o.lookAtInbox, o.lookAtTools} {
		if err := read(ctx, r); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(o.waiting, func(a, b line) int { return a.at.Compare(b.at) })
	old := time.Now().Add(-late)
	n := slices.IndexFunc(o.waiting, func(l line) bool { return l.at.After(old) })
	if n < 0 {
		n = len(o.waiting)
	}
	told := slices.Clone(o.waiting[:n])
	o.waiting = slices.Delete(o.waiting, 0, n)
	return told, nil
}

func (o *order) add(l line) {
	if l.color == "" {
		l.color = cyan
	}
	o.waiting = append(o.waiting, l)
}

func (o *order) lookAtTask(ctx context.Context, r *record) error {
	events, err := r.events(ctx, o.task, o.seq)
	if err != nil {
		return err
	}
	for _, e := range events {
		o.seq = e.Seq
		if a := e.Event.ArtifactUpdate; a != nil {
			for _, p := range a.Artifact.Parts {
				o.answer += p.Text
			}
		}
		if e.Event.StatusUpdate == nil {
			continue
		}
		status := &e.Event.StatusUpdate.Status
		o.state = status.State
		switch text := words(status); {
		case status.State == a2a.StateSubmitted:
			o.add(line{at: o.given, who: o.by, color: yellow, what: "orders", text: o.text, part: stock})
		case status.State.Terminal():
			o.add(line{at: status.Timestamp, who: agent, what: ending(status.State), text: cmp.Or(text, o.answer)})
		case status.State == a2a.StateWorking && text != "":
			o.add(found(status.Timestamp, text))
		}
	}
	return nil
}

// found is a line of what the agent says on its way. A model says which tool it calls.
func found(at time.Time, text string) line {
	l := line{at: at, who: agent, what: "finds", text: text}
	if strings.HasPrefix(text, "The model ") {
		l.what = "says"
	}
	if strings.Contains(text, "draft_order") {
		l.part = draft
	}
	return l
}

// ending is a word for the end of a task.
func ending(s a2a.TaskState) string {
	if s == a2a.StateCompleted {
		return "is done"
	}
	return strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATE_"))
}

func words(s *a2a.TaskStatus) string {
	if s.Message == nil {
		return ""
	}
	return s.Message.Text()
}

func (o *order) lookAtWork(ctx context.Context, r *record) error {
	list, err := r.delegations(ctx, o.task)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b delegation) int { return a.Created.Compare(b.Created) })
	for _, d := range list {
		i := slices.IndexFunc(o.work, func(w *work) bool { return w.ID == d.ID })
		if i < 0 {
			i = len(o.work)
			o.work = append(o.work, &work{delegation: d})
		}
		if err := o.lookAt(ctx, r, o.work[i]); err != nil {
			return err
		}
	}
	return nil
}

// lookAt reads what is new of the work of another agent.
func (o *order) lookAt(ctx context.Context, r *record, w *work) error {
	events, err := r.events(ctx, w.ID, w.seq)
	if err != nil {
		return err
	}
	for _, e := range events {
		w.seq = e.Seq
		switch m := e.Event.Message; {
		case m != nil && w.asked.IsZero():
			w.asked = w.Created
			o.add(line{at: w.Created, who: agent, what: "asks " + w.To, text: m.Text(), part: map[string]part{supplier: quote, finance: credit}[w.To]})
		case e.Event.StatusUpdate != nil:
			o.status(w, &e.Event.StatusUpdate.Status)
		}
	}
	return nil
}

func (o *order) status(w *work, s *a2a.TaskStatus) {
	l := line{at: s.Timestamp, who: w.To, text: words(s)}
	switch {
	case s.State == a2a.StateInputRequired:
		l.what = "asks back"
	case s.State == a2a.StateAuthRequired:
		l.what = "wants approval"
	case s.State == a2a.StateCompleted:
		w.over, l.what, l.after = l.at, "has answered", l.at.Sub(w.asked)
	case s.State.Terminal():
		w.over, l.what = l.at, ending(s.State)
	default:
		return
	}
	o.add(l)
}

func (o *order) lookAtInbox(ctx context.Context, r *record) (err error) {
	if o.open, err = r.inbox(ctx, o.task, false); err != nil {
		return err
	}
	done, err := r.inbox(ctx, o.task, true)
	for _, i := range done {
		if o.settled[i.ID] || i.By == "" {
			continue
		}
		o.settled[i.ID] = true
		for _, w := range o.work {
			if w.To == i.Agent {
				w.waiting = append(w.waiting, i)
			}
		}
		verb := map[string]string{"answered": "answers", "approved": "approves", "denied": "denies"}[i.Decision]
		o.add(line{at: i.Settled, who: i.By, color: yellow, what: cmp.Or(verb, i.Decision), text: i.Words, after: i.Settled.Sub(i.Created)})
	}
	return err
}

// lookAtTools reads which calls the gateway has let through. One that a person has to
// be able to trust is in the log when it begins and when it is over.
func (o *order) lookAtTools(ctx context.Context, r *record) error {
	calls, last, err := r.toolCalls(ctx, o.logged)
	if err != nil {
		return err
	}
	o.logged = last
	for _, c := range calls {
		if _, told := o.calls[c.Request]; told || !o.mine(&c) {
			continue
		}
		o.calls[c.Request] = c
		server := strings.TrimPrefix(c.Agent, "mcp:")
		l := line{at: c.At, who: agent, what: "calls a tool", text: server + ": " + c.Target}
		switch {
		case server == erpDraft:
			l.part = draft
		case c.At.Add(-answering).After(o.given): // it is logged when it is answered
			l.at = c.At.Add(-answering)
		default:
			l.at = o.given
		}
		o.add(l)
	}
	return nil
}

// mine reports whether a call is for this order: it names it, or is for its stock.
func (o *order) mine(c *toolCall) bool {
	var of struct {
		Number    string `json:"number"`
		SKU       string `json:"sku"`
		Warehouse string `json:"warehouse"`
	}
	if json.Unmarshal(c.Content, &of) != nil {
		return false
	}
	return of.Number == o.number || of.Number == "" && strings.Contains(o.text, of.SKU) && strings.Contains(o.text, of.Warehouse)
}

// begun reports whether a part of the story was begun before, and begins it.
func (o *order) begun(p part) bool {
	before := o.parts[p]
	o.parts[p] = true
	return before
}
