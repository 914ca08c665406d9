package telemetry

import (
	"strings"
	"time"
)

// readings are the metrics that are asked for with each scrape.
type readings struct {
	build, nodes                              reading
	tasks, oldest, stale, delegations         reading
	running, waiting, away                    reading
	inboxOpen, inboxOverdue, inboxOldest      reading
	webhooksWaiting, webhooksOldest, webhooks reading
	busConnected, busHints                    reading
	auditLost                                 reading
	jobsLate                                  reading
	storeBytes                                reading
	serverUp                                  reading
}

func (m *Metrics) newReadings() readings {
	return readings{
		build:           m.reading(Gauge, "build_info", "1, with the version of the program.", "version"),
		nodes:           m.reading(Gauge, "nodes", "Nodes of the store that are alive, and those that have died and not come back.", "alive"),
		tasks:           m.reading(Gauge, "tasks", "Tasks in a state now.", "agent", "state"),
		oldest:          m.reading(Gauge, "oldest_task_seconds", "How long the task that has been in a state the longest has been in it.", "agent", "state"),
		stale:           m.reading(Gauge, "stale_tasks", "Tasks that are WORKING and to which nothing has happened for longer than stale_after.", "agent"),
		delegations:     m.reading(Gauge, "delegations", "Tasks that were handed to a peer, by their state now.", "peer", "state"),
		running:         m.reading(Gauge, "turns_running", "Turns that run on this node now."),
		waiting:         m.reading(Gauge, "turns_waiting", "Turns that wait for a free worker of this node."),
		away:            m.reading(Gauge, "store_away", "1 while the store cannot be reached: messages are refused, and turns wait."),
		inboxOpen:       m.reading(Gauge, "inbox_open_items", "Items of the inbox that nobody has settled, by their kind.", "kind"),
		inboxOverdue:    m.reading(Gauge, "inbox_overdue_items", "Open items of the inbox that are past their due time, by their kind.", "kind"),
		inboxOldest:     m.reading(Gauge, "inbox_oldest_seconds", "For how long the open item of a kind that is due first has been there.", "kind"),
		webhooksWaiting: m.reading(Gauge, "webhooks_waiting", "Webhooks whose receiver has failed and that are tried again."),
		webhooksOldest:  m.reading(Gauge, "webhooks_oldest_seconds", "For how long the webhook that has been waiting the longest has been."),
		webhooks:        m.reading(Gauge, "webhooks_dead", "Webhooks that were given up, and that an operator has to look at."),
		busConnected:    m.reading(Gauge, "bus_connected", "1 when hints of other nodes come, 0 when the store is asked instead; only with PostgreSQL."),
		busHints:        m.reading(Counter, "bus_hints_total", "Hints between nodes: sent, heard or dropped; only with PostgreSQL.", "what"),
		auditLost:       m.reading(Counter, "audit_entries_lost_total", "Entries of the audit log that were given up because the store was away for too long."),
		jobsLate:        m.reading(Gauge, "jobs_late_seconds", "How late the work is that was put off and is due first; 0 when none is late."),
		storeBytes:      m.reading(Gauge, "store_bytes", "How large the store is."),
		serverUp:        m.reading(Gauge, "mcp_server_up", "1 when the tool server has answered its last request, or got none; 0 when it is away, or its circuit is open.", "server"),
	}
}

// WatchBuild reports the version of the program.
func (m *Metrics) WatchBuild(version string) {
	m.watch(func(e emit) { e(m.sample.build, 1, version) }, m.sample.build)
}

// Nodes are how many nodes a store has.
type Nodes struct{ Alive, Dead int }

// WatchNodes reports, with every scrape, what nodes returns; ok is false when it is
// not known.
func (m *Metrics) WatchNodes(nodes func() (n Nodes, ok bool)) {
	m.watch(func(e emit) {
		if n, ok := nodes(); ok {
			e(m.sample.nodes, float64(n.Alive), "true")
			e(m.sample.nodes, float64(n.Dead), "false")
		}
	}, m.sample.nodes)
}

// Stock is how many tasks of an agent are in a state now.
type Stock struct {
	Agent, State string
	Count        int
	Oldest       time.Time // zero when it does not matter
	Stale        int       // of them, those that have not moved for too long
}

// WatchStock reports, with every scrape, what stock returns: how many tasks are
// in each state and how old the oldest is. Agents whose name begins with peer are
// those of delegations.
func (m *Metrics) WatchStock(peer string, stock func() []Stock) {
	s := &m.sample
	m.watch(func(e emit) {
		list := stock()
		now := time.Now()
		for _, of := range list {
			e(s.tasks, float64(of.Count), of.Agent, of.State)
			if !of.Oldest.IsZero() {
				e(s.oldest, now.Sub(of.Oldest).Seconds(), of.Agent, of.State)
			}
			if of.State == "TASK_STATE_WORKING" {
				e(s.stale, float64(of.Stale), of.Agent)
			}
			if name, ok := strings.CutPrefix(of.Agent, peer); ok {
				e(s.delegations, float64(of.Count), name, of.State)
			}
		}
	}, s.tasks, s.oldest, s.stale, s.delegations)
}

// Load is what a node has to do now.
type Load struct {
	Running, Waiting int  // turns
	Away             bool // the store is
}

// WatchLoad reports, with every scrape, what load returns.
func (m *Metrics) WatchLoad(load func() Load) {
	s := &m.sample
	m.watch(func(e emit) {
		l := load()
		e(s.running, float64(l.Running))
		e(s.waiting, float64(l.Waiting))
		e(s.away, number(l.Away))
	}, s.running, s.waiting, s.away)
}

// Items are the open items of the inbox of a kind.
type Items struct {
	Kind          string
	Open, Overdue int
	Oldest        time.Time // when the one that is due first was made; zero: there is none
}

// WatchInbox reports, with every scrape, what items returns; nil for what could not
// be counted.
func (m *Metrics) WatchInbox(items func() []Items) {
	s := &m.sample
	m.watch(func(e emit) {
		for _, i := range items() {
			e(s.inboxOpen, float64(i.Open), i.Kind)
			e(s.inboxOverdue, float64(i.Overdue), i.Kind)
			oldest := 0.0
			if !i.Oldest.IsZero() {
				oldest = time.Since(i.Oldest).Seconds()
			}
			e(s.inboxOldest, oldest, i.Kind)
		}
	}, s.inboxOpen, s.inboxOverdue, s.inboxOldest)
}

// Webhooks are those that are behind.
type Webhooks struct {
	Waiting int       // that are tried again
	Oldest  time.Time // since when the first of them has failed; zero: none
	Dead    int       // that were given up
}

// WatchWebhooks reports, with every scrape, what state returns; ok is false when
// it is not known.
func (m *Metrics) WatchWebhooks(state func() (w Webhooks, ok bool)) {
	s := &m.sample
	m.watch(func(e emit) {
		w, ok := state()
		if !ok {
			return
		}
		oldest := 0.0
		if !w.Oldest.IsZero() {
			oldest = time.Since(w.Oldest).Seconds()
		}
		e(s.webhooksWaiting, float64(w.Waiting))
		e(s.webhooksOldest, oldest)
		e(s.webhooks, float64(w.Dead))
	}, s.webhooksWaiting, s.webhooksOldest, s.webhooks)
}

// Bus is how the bus to the other nodes is. The numbers count from the start of
// the node.
type Bus struct {
	Connected            bool
	Sent, Heard, Dropped uint64
}

// WatchBus reports, with every scrape, what state returns.
func (m *Metrics) WatchBus(state func() Bus) {
	m.watch(func(e emit) {
		b := state()
		e(m.sample.busConnected, number(b.Connected))
		e(m.sample.busHints, float64(b.Sent), "sent")
		e(m.sample.busHints, float64(b.Heard), "heard")
		e(m.sample.busHints, float64(b.Dropped), "dropped")
	}, m.sample.busConnected, m.sample.busHints)
}

// WatchAudit reports how many entries of the audit log were lost.
func (m *Metrics) WatchAudit(lost func() int64) {
	m.watch(func(e emit) { e(m.sample.auditLost, float64(lost())) }, m.sample.auditLost)
}

// WatchJobs reports, with every scrape, when the work is due that is due first; zero
// when there is none, ok is false when it is not known.
func (m *Metrics) WatchJobs(next func() (due time.Time, ok bool)) {
	m.watch(func(e emit) {
		due, ok := next()
		switch {
		case !ok:
		case due.IsZero():
			e(m.sample.jobsLate, 0)
		default:
			e(m.sample.jobsLate, max(time.Since(due).Seconds(), 0))
		}
	}, m.sample.jobsLate)
}

// WatchStoreSize reports, with every scrape, how many bytes the store has; ok is
// false when it is not known.
func (m *Metrics) WatchStoreSize(size func() (bytes int64, ok bool)) {
	m.watch(func(e emit) {
		if n, ok := size(); ok {
			e(m.sample.storeBytes, float64(n))
		}
	}, m.sample.storeBytes)
}

// WatchServers reports, with every scrape, which tool servers are up.
func (m *Metrics) WatchServers(up func() map[string]bool) {
	m.watch(func(e emit) {
		for server, is := range up() {
			e(m.sample.serverUp, number(is), server)
		}
	}, m.sample.serverUp)
}
