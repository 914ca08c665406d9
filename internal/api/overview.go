package api

import (
	"cmp"
	"slices"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/inbox"
	"handoff.example/handoff/internal/store"
)

// Bounds of what one overview looks at.
const (
	overviewMinutes   = 60
	overviewPassed    = 10_000 // tasks whose status is of these minutes
	overviewOpen      = 2_000  // open tasks, to find those that wait longest
	overviewWaiting   = 20
	overviewFailed    = 10
	overviewBelow     = 100   // delegations below one task, to find its reference
	overviewHandedOn  = 1_000 // open delegations
	overviewWebhooks  = 1_000 // of one tenant
	overviewScanBatch = 500
)

// overview is what there is to see at a glance.
type overview struct {
	At          time.Time        `json:"at"`
	Tasks       []stateCount     `json:"tasks"`
	Agents      []agentCount     `json:"agents"`
	Waiting     []*waitingTask   `json:"waiting"`
	Inbox       *inboxCount      `json:"inbox,omitzero"`
	Delegations []delegatedCount `json:"delegations,omitzero"`
	Rates       *rates           `json:"rates"`
	Failed      []*failedTask    `json:"failed"`
	Pushes      *pushCount       `json:"pushes,omitzero"`
	Down        []downed         `json:"down,omitzero"`
}

// stateCount counts what is in one state.
type stateCount struct {
	State  string    `json:"state"`
	Count  int       `json:"count"`
	Oldest time.Time `json:"oldest,omitzero"`
}

type agentCount struct {
	Agent  string       `json:"agent"`
	Count  int          `json:"count"`
	States []stateCount `json:"states"`
}

type waitingTask struct {
	Task     string    `json:"task"`
	Agent    string    `json:"agent"`
	State    string    `json:"state"`
	Ref      string    `json:"ref,omitempty"`
	Root     string    `json:"root,omitempty"`
	WaitsFor *waitsFor `json:"waits_for"`
}

type inboxCount struct {
	Open    int         `json:"open"`
	Overdue int         `json:"overdue"`
	Kinds   []kindCount `json:"kinds"`
}

type kindCount struct {
	Kind   string    `json:"kind"`
	Count  int       `json:"count"`
	Oldest time.Time `json:"oldest,omitzero"`
}

type delegatedCount struct {
	To     string       `json:"to"`
	Peer   bool         `json:"peer"`
	Open   int          `json:"open"`
	States []stateCount `json:"states"`
}

// rates count per minute, the oldest minute first.
type rates struct {
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	Created   []int     `json:"created"`
	Completed []int     `json:"completed"`
	Failed    []int     `json:"failed"`
}

type failedTask struct {
	Task  string    `json:"task"`
	Agent string    `json:"agent"`
	State string    `json:"state"`
	At    time.Time `json:"at"`
	Text  string    `json:"text,omitempty"`
	Ref   string    `json:"ref,omitempty"`
	Root  string    `json:"root,omitempty"`
}

type pushCount struct {
	Retrying int       `json:"retrying"`
	Dead     int       `json:"dead"`
	Oldest   time.Time `json:"oldest,omitzero"`
}

type downed struct {
	Kind  string    `json:"kind"` // peer or tools
	Name  string    `json:"name"`
	Since time.Time `json:"since,omitzero"`
	Error string    `json:"error,omitempty"`
}

// states gathers counts by state.
type states map[a2a.TaskState]*stateCount

func (s states) add(state a2a.TaskState, n int, oldest time.Time) {
	c := s[state]
	if c == nil {
		c = &stateCount{State: state.String()}
		s[state] = c
	}
	c.Count += n
	if !oldest.IsZero() && (c.Oldest.IsZero() || oldest.Before(c.Oldest)) {
		c.Oldest = oldest.UTC()
	}
}

// list returns the counts in the order of the states.
func (s states) list() []stateCount {
	list := make([]stateCount, 0, len(s))
	for state := a2a.StateSubmitted; state <= a2a.StateAuthRequired; state++ {
		if c := s[state]; c != nil {
			list = append(list, *c)
		}
	}
	return list
}

// overview returns what there is to see at a glance.
func (c *call) overview() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	if c.caller.Anonymous() && !c.caller.Local {
		return nil, a2a.Errorf(a2a.CodePermissionDenied, "Callers without credentials may not see an overview")
	}
	o := &overview{At: time.Now().UTC().Truncate(time.Millisecond)}
	for _, fill := range []func(*overview) error{
		c.countTasks, c.longestWaiting, c.countInbox, c.countDelegations, c.countRates, c.newestFailed, c.countPushes, c.listDown,
	} {
		if err := fill(o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (c *call) countTasks(o *overview) error {
	stats, err := c.h.opts.Store.Counts(c.context(), c.reach())
	if err != nil {
		return err
	}
	all, agents := states{}, map[string]states{}
	o.Agents = []agentCount{}
	for _, s := range stats {
		all.add(s.State, s.Count, s.Oldest)
		if agents[s.Agent] == nil {
			agents[s.Agent] = states{}
			o.Agents = append(o.Agents, agentCount{Agent: s.Agent})
		}
		agents[s.Agent].add(s.State, s.Count, s.Oldest)
	}
	o.Tasks = all.list()
	for i := range o.Agents {
		a := &o.Agents[i]
		a.States = agents[a.Agent].list()
		for _, s := range a.States {
			a.Count += s.Count
		}
	}
	return nil
}

// scan calls yield with the tasks of a scan until it returns false, at most with
// so many looked at.
func (c *call) scan(q store.ScanQuery, most int, yield func(*store.Task) (bool, error)) (reached time.Time, complete bool, err error) {
	for looked := 0; looked < most; {
		q.Limit = min(overviewScanBatch, most-looked)
		page, err := c.h.opts.Store.Scan(c.context(), c.reach(), q)
		if err != nil {
			return reached, false, err
		}
		looked += page.Looked
		for i := range page.Tasks {
			if on, err := yield(&page.Tasks[i]); err != nil || !on {
				return page.Tasks[i].StatusAt, false, err
			}
		}
		if page.Next == 0 {
			return page.Reached, true, nil
		}
		q.After, reached = page.Next, page.Reached
	}
	return reached, false, nil
}

// longestWaiting finds the open tasks that have waited longest for somebody.
func (c *call) longestWaiting(o *overview) error {
	o.Waiting = []*waitingTask{}
	roots := map[string]bool{} // items of the inbox that a root stands for itself
	_, _, err := c.scan(store.ScanQuery{States: store.Live, Oldest: true}, overviewOpen, func(row *store.Task) (bool, error) {
		if !row.State.Interrupted() && row.Wait == store.WaitNone && !row.Delegated {
			return true, nil
		}
		d, err := c.delegationBeside(row)
		if err != nil {
			return false, err
		}
		w, err := c.waitOf(row, d, nil)
		if err != nil || w == nil || w.Kind == waitWorker {
			return true, err
		}
		if d != nil && d.Root != row.ID && w.Item != "" {
			stands, known := roots[w.Item]
			if !known {
				if stands, err = c.standsFor(d.Root, w.Item); err != nil {
					return false, err
				}
				roots[w.Item] = stands
			}
			if stands {
				return true, nil
			}
		}
		t := &waitingTask{Task: row.ID, Agent: row.Agent, State: row.State.String(), WaitsFor: w}
		if d != nil {
			t.Ref, t.Root = d.Ref, d.Root
		} else if t.Ref, err = c.refBelow(row.ID); err != nil {
			return false, err
		}
		if w.Text == "" && row.State.Interrupted() {
			record, err := c.h.opts.Engine.Record(c.context(), c.reach(), row.ID, store.Want{})
			if err != nil && a2a.CodeOf(err) != a2a.CodeTaskNotFound {
				return false, err
			}
			if err == nil {
				w.Text = textOf(record.Task.Status.Message)
			}
		}
		o.Waiting = append(o.Waiting, t)
		return len(o.Waiting) < overviewWaiting, nil
	})
	slices.SortStableFunc(o.Waiting, func(a, b *waitingTask) int { return a.WaitsFor.Since.Compare(b.WaitsFor.Since) })
	return err
}

// standsFor reports whether a task waits itself for what an item of the inbox asks, as
// the root of a tree does when the question of a delegation has come up to it.
func (c *call) standsFor(task, item string) (bool, error) {
	rows, err := c.h.opts.Store.Tasks(c.context(), c.reach(), []string{task})
	if err != nil || len(rows) == 0 || !rows[0].State.Interrupted() {
		return false, err
	}
	w := &waitsFor{}
	err = c.asked(w, &rows[0], nil)
	return w.Item == item, err
}

// refBelow returns the first reference under which a task has handed something on, ""
// for none.
func (c *call) refBelow(root string) (ref string, err error) {
	if c.h.opts.Delegations == nil || c.mayList() != nil {
		return "", nil
	}
	// They come newest first.
	_, err = c.eachDelegation(store.DelegationQuery{Root: root}, overviewBelow, func(d *store.Delegation) {
		if d.Ref != "" {
			ref = d.Ref
		}
	})
	return ref, err
}

func (c *call) countInbox(o *overview) error {
	if c.h.opts.Inbox == nil || c.inboxAllowed() != nil {
		return nil
	}
	o.Inbox = &inboxCount{Kinds: []kindCount{}}
	for _, kind := range inbox.Kinds() {
		page, err := c.h.opts.Inbox.List(c.context(), c.reach(), store.InboxQuery{Kind: kind, PageSize: a2a.MaxPageSize})
		if err != nil {
			return err
		}
		if page.Total == 0 {
			continue
		}
		n := kindCount{Kind: inbox.KindName(kind), Count: page.Total}
		for i := range page.Items {
			if at := page.Items[i].Created; n.Oldest.IsZero() || at.Before(n.Oldest) {
				n.Oldest = at.UTC()
			}
		}
		o.Inbox.Open += n.Count
		o.Inbox.Kinds = append(o.Inbox.Kinds, n)
	}
	page, err := c.h.opts.Inbox.List(c.context(), c.reach(), store.InboxQuery{DueBy: o.At, PageSize: 1})
	if err == nil {
		o.Inbox.Overdue = page.Total
	}
	return err
}

func (c *call) countDelegations(o *overview) error {
	if c.mayList() != nil {
		return nil
	}
	type target struct {
		to   string
		peer bool
	}
	counts := map[target]states{}
	_, err := c.eachDelegation(store.DelegationQuery{Open: true}, overviewHandedOn, func(d *store.Delegation) {
		t := target{d.Agent, false}
		if d.Peer != "" {
			t = target{d.Peer, true}
		}
		if counts[t] == nil {
			counts[t] = states{}
		}
		counts[t].add(d.State, 1, d.Created)
	})
	if err != nil {
		return err
	}
	o.Delegations = []delegatedCount{}
	for t, counted := range counts {
		d := delegatedCount{To: t.to, Peer: t.peer, States: counted.list()}
		for _, s := range d.States {
			d.Open += s.Count
		}
		o.Delegations = append(o.Delegations, d)
	}
	slices.SortFunc(o.Delegations, func(a, b delegatedCount) int { return cmp.Or(cmp.Compare(b.Open, a.Open), cmp.Compare(a.To, b.To)) })
	return nil
}

// countRates counts what has begun and ended in the last minutes. Whatever was
// made in them has a status of them too.
func (c *call) countRates(o *overview) error {
	until := o.At.Truncate(time.Minute).Add(time.Minute)
	since := until.Add(-overviewMinutes * time.Minute)
	r := &rates{
		Since: since, Until: until,
		Created: make([]int, overviewMinutes), Completed: make([]int, overviewMinutes), Failed: make([]int, overviewMinutes),
	}
	count := func(list []int, at time.Time) {
		if i := int(at.Sub(since) / time.Minute); !at.Before(since) && i < len(list) {
			list[i]++
		}
	}
	reached, complete, err := c.scan(store.ScanQuery{Since: since}, overviewPassed, func(row *store.Task) (bool, error) {
		count(r.Created, row.Created)
		switch row.State {
		case a2a.StateCompleted:
			count(r.Completed, row.StatusAt)
		case a2a.StateFailed, a2a.StateRejected:
			count(r.Failed, row.StatusAt)
		}
		return true, nil
	})
	if err == nil && !complete && reached.After(since) {
		r.Since = reached.UTC()
	}
	o.Rates = r
	return err
}

// newestFailed finds the tasks that have failed last.
func (c *call) newestFailed(o *overview) error {
	o.Failed = []*failedTask{}
	_, _, err := c.scan(store.ScanQuery{States: store.States(a2a.StateFailed, a2a.StateRejected)}, overviewOpen, func(row *store.Task) (bool, error) {
		d, err := c.delegationBeside(row)
		if err != nil {
			return false, err
		}
		record, err := c.h.opts.Engine.Record(c.context(), c.reach(), row.ID, store.Want{})
		if a2a.CodeOf(err) == a2a.CodeTaskNotFound {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		f := &failedTask{Task: row.ID, Agent: row.Agent, State: row.State.String(), At: row.StatusAt.UTC(), Text: textOf(record.Task.Status.Message)}
		if d != nil {
			f.Ref, f.Root = d.Ref, d.Root
		} else if f.Ref, err = c.refBelow(row.ID); err != nil {
			return false, err
		}
		o.Failed = append(o.Failed, f)
		return len(o.Failed) < overviewFailed, nil
	})
	return err
}

func (c *call) countPushes(o *overview) error {
	if c.h.opts.Webhooks == nil || c.caller.Role < auth.RoleOperator {
		return nil
	}
	o.Pushes = &pushCount{}
	if c.caller.Tenant == "" {
		stats, err := c.h.opts.Webhooks.Stats(c.context())
		o.Pushes.Retrying, o.Pushes.Dead = stats.Retrying, stats.Dead
		if !stats.Oldest.IsZero() {
			o.Pushes.Oldest = stats.Oldest.UTC()
		}
		return err
	}
	failing, err := c.h.opts.Store.AllWebhooks(c.context(), c.reach(), store.WebhookQuery{Failing: true, Limit: overviewWebhooks})
	if err != nil {
		return err
	}
	if o.Pushes.Retrying = len(failing); len(failing) > 0 {
		o.Pushes.Oldest = failing[0].Failing.UTC()
	}
	dead, err := c.h.opts.Store.DeadWebhooks(c.context(), c.reach(), nil, overviewWebhooks)
	o.Pushes.Dead = len(dead)
	return err
}

// listDown says which peers and tool servers do not answer.
func (c *call) listDown(o *overview) error {
	if c.caller.Role < auth.RoleOperator || c.caller.Tenant != "" {
		return nil
	}
	o.Down = []downed{}
	if d := c.h.opts.Peers; d != nil {
		for _, name := range d.Names() {
			p, err := d.Get(name)
			if err == nil && p.Facts.Error != "" {
				o.Down = append(o.Down, downed{Kind: "peer", Name: name, Since: p.Facts.ErrorAt.UTC(), Error: clip(p.Facts.Error, maxShownText)})
			}
		}
	}
	if t := c.h.opts.Tools; t != nil {
		for _, r := range t.Reports() {
			if s := r.State; s != nil && !s.Up && (s.LastError != "" || r.Failing) {
				o.Down = append(o.Down, downed{Kind: "tools", Name: r.Name, Since: s.ErrorAt.UTC(), Error: clip(s.LastError, maxShownText)})
			} else if r.Failing {
				o.Down = append(o.Down, downed{Kind: "tools", Name: r.Name, Error: "Its list of tools could not be fetched"})
			}
		}
	}
	return nil
}
