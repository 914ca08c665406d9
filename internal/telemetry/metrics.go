// Package telemetry counts and traces what a node does. It knows nothing of the
// other packages: they declare what they want to be told, and it happens to
// listen.
package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the counters of a node, in the Prometheus format.
type Metrics struct {
	registry *prometheus.Registry

	tasks      *prometheus.CounterVec
	states     *prometheus.CounterVec
	turns      *prometheus.CounterVec
	attempts   *prometheus.CounterVec
	turnTime   *prometheus.HistogramVec
	steps      *prometheus.CounterVec
	duplicates *prometheus.CounterVec
	watchers   prometheus.Gauge
	requests   *prometheus.HistogramVec
	limited    *prometheus.CounterVec
	commitTime prometheus.Histogram
	commitSize prometheus.Histogram
	tools      *prometheus.HistogramVec
	pushes     pushes
}

// NewMetrics returns metrics that count from zero.
func NewMetrics() *Metrics {
	const ns = "handoff"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		pushes:     newPushes(),
		tools:      newTools(),
		tasks:      counter("tasks_created_total", "Tasks that were created.", "agent"),
		states:     counter("task_states_total", "Times that a task got into a state.", "agent", "state"),
		turns:      counter("turns_total", "Turns that were started.", "agent"),
		attempts:   counter("turn_attempts_total", "Turns that were started again after an interruption.", "agent"),
		steps:      counter("steps_total", "Steps that were committed.", "agent"),
		duplicates: counter("duplicates_total", "Repeated messages that were answered with the first one's outcome.", "agent"),
		limited:    counter("limited_total", "Requests that a limit has refused.", "limit"),
		turnTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Name: "turn_seconds", Help: "How long turns took.",
			Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600, 3600},
		}, []string{"agent"}),
		watchers: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Name: "watchers", Help: "Streams and blocking calls that follow a task.",
		}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Name: "request_seconds", Help: "How long requests took, streams included.",
			Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600},
		}, []string{"operation", "code"}),
		commitTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Name: "store_commit_seconds", Help: "How long a transaction of the store took.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, 1, 5},
		}),
		commitSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Name: "store_commit_changes", Help: "Changes that a transaction of the store committed.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256},
		}),
	}
	m.registry.MustRegister(m.tasks, m.states, m.turns, m.attempts, m.steps, m.duplicates, m.limited, m.turnTime,
		m.watchers, m.requests, m.commitTime, m.commitSize, m.tools, m.pushes.delivered, m.pushes.failed, m.pushes.inFlight,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// TaskCreated counts a task.
func (m *Metrics) TaskCreated(agent string) { m.tasks.WithLabelValues(agent).Inc() }

// StateChanged counts a change of a task's state.
func (m *Metrics) StateChanged(agent, state string) { m.states.WithLabelValues(agent, state).Inc() }

// TurnStarted counts a turn, and an attempt when it is not the first.
func (m *Metrics) TurnStarted(agent string, attempt int) {
	m.turns.WithLabelValues(agent).Inc()
	if attempt > 1 {
		m.attempts.WithLabelValues(agent).Inc()
	}
}

// TurnEnded records how long a turn took.
func (m *Metrics) TurnEnded(agent string, took time.Duration) {
	m.turnTime.WithLabelValues(agent).Observe(took.Seconds())
}

// Steps counts committed steps.
func (m *Metrics) Steps(agent string, n int) { m.steps.WithLabelValues(agent).Add(float64(n)) }

// Duplicate counts a repeated message.
func (m *Metrics) Duplicate(agent string) { m.duplicates.WithLabelValues(agent).Inc() }

// Watchers adds to the number of watchers.
func (m *Metrics) Watchers(delta int) { m.watchers.Add(float64(delta)) }

// Request records how long a request took and how it ended.
func (m *Metrics) Request(operation, code string, took time.Duration) {
	m.requests.WithLabelValues(operation, code).Observe(took.Seconds())
}

// Limited counts a request that a limit has refused.
func (m *Metrics) Limited(limit string) { m.limited.WithLabelValues(limit).Inc() }

// WatchAudit reports how many entries of the audit log were lost.
func (m *Metrics) WatchAudit(lost func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: "handoff", Name: "audit_entries_lost_total", Help: "Entries of the audit log that were given up because the store was away for too long.",
	}, func() float64 { return float64(lost()) }))
}

// Commit records a transaction of the store.
func (m *Metrics) Commit(changes int, took time.Duration) {
	m.commitTime.Observe(took.Seconds())
	m.commitSize.Observe(float64(changes))
}

// Stock is how many tasks of an agent are in a state now.
type Stock struct {
	Agent, State string
	Count        int
	Oldest       time.Time // zero when it does not matter
	Stale        int       // of them, those that have not moved for too long
}

// WatchStock reports, with every scrape, what stock returns: how many tasks are
// in each state and how old the oldest is.
func (m *Metrics) WatchStock(stock func() []Stock) {
	m.registry.MustRegister(&stockCollector{stock: stock})
}

// WatchInbox reports, with every scrape, how many items of each kind are open in the
// inbox; nil for what could not be counted.
func (m *Metrics) WatchInbox(open func() map[string]int) {
	m.registry.MustRegister(&inboxCollector{open})
}

var inboxOpen = prometheus.NewDesc("handoff_inbox_open_items", "Items of the inbox that nobody has settled, by their kind.", []string{"kind"}, nil)

type inboxCollector struct{ open func() map[string]int }

// Describe sends the description of the metric.
func (c *inboxCollector) Describe(ch chan<- *prometheus.Desc) { ch <- inboxOpen }

// Collect sends the metric.
func (c *inboxCollector) Collect(ch chan<- prometheus.Metric) {
	for kind, n := range c.open() {
		ch <- prometheus.MustNewConstMetric(inboxOpen, prometheus.GaugeValue, float64(n), kind)
	}
}

var (
	stockCount = prometheus.NewDesc("handoff_tasks", "Tasks in a state now.", []string{"agent", "state"}, nil)
	stockAge   = prometheus.NewDesc("handoff_oldest_task_seconds",
		"How long the task that has been in a state the longest has been in it.", []string{"agent", "state"}, nil)
	stockStale = prometheus.NewDesc("handoff_stale_tasks",
		"Tasks that are WORKING and to which nothing has happened for longer than stale_after.", []string{"agent"}, nil)
)

type stockCollector struct{ stock func() []Stock }

// Describe sends the descriptions of the metrics.
func (c *stockCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- stockCount
	ch <- stockAge
	ch <- stockStale
}

// Collect sends the metrics.
func (c *stockCollector) Collect(ch chan<- prometheus.Metric) {
	stock := c.stock()
	now := time.Now()
	for _, s := range stock {
		ch <- prometheus.MustNewConstMetric(stockCount, prometheus.GaugeValue, float64(s.Count), s.Agent, s.State)
		if !s.Oldest.IsZero() {
			ch <- prometheus.MustNewConstMetric(stockAge, prometheus.GaugeValue, now.Sub(s.Oldest).Seconds(), s.Agent, s.State)
		}
		if s.State == "TASK_STATE_WORKING" {
			ch <- prometheus.MustNewConstMetric(stockStale, prometheus.GaugeValue, float64(s.Stale), s.Agent)
		}
	}
}
