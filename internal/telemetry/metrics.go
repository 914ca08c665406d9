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

// Metrics are the counters of a node, in the Prometheus format. Values of labels are
// names of the configuration, of states, codes and kinds: there are never more of
// them because of what callers send.
type Metrics struct {
	registry    *prometheus.Registry
	definitions []Definition

	tasks       *prometheus.CounterVec
	states      *prometheus.CounterVec
	lives       *prometheus.HistogramVec
	turns       *prometheus.CounterVec
	attempts    *prometheus.CounterVec
	turnTime    *prometheus.HistogramVec
	turnLimits  *prometheus.CounterVec
	interrupted *prometheus.CounterVec
	steps       *prometheus.CounterVec
	duplicates  *prometheus.CounterVec
	watchers    prometheus.Gauge
	leases      *prometheus.CounterVec

	requests *prometheus.HistogramVec
	limited  *prometheus.CounterVec

	commitTime *prometheus.HistogramVec
	commitSize *prometheus.HistogramVec

	delivered *prometheus.HistogramVec
	failed    *prometheus.CounterVec
	inFlight  prometheus.Gauge

	jobs   *prometheus.HistogramVec
	peers  *prometheus.HistogramVec
	tools  *prometheus.HistogramVec
	models models
	sample readings
}

// NewMetrics returns metrics that count from zero.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.tasks = m.counter("tasks_created_total", "Tasks that were created.", "agent")
	m.states = m.counter("task_states_total", "Times that a task got into a state.", "agent", "state")
	m.lives = m.histogram("task_seconds", "How long tasks took from their first message to their end, waits included.", lives, "agent", "state")
	m.turns = m.counter("turns_total", "Turns that were started.", "agent")
	m.attempts = m.counter("turn_attempts_total", "Turns that were started again after an interruption.", "agent")
	m.turnTime = m.histogram("turn_seconds", "How long turns took.", turns, "agent")
	m.turnLimits = m.counter("turn_limits_total", "Turns that a limit of their agent has ended: total and inactivity are times, steps, state and artifacts sizes, wait is a wait that was too long.", "agent", "limit")
	m.interrupted = m.counter("interrupted_turns_total", "Turns that a dead process had left, by what became of them: resumed or failed.", "agent", "outcome")
	m.steps = m.counter("steps_total", "Steps that were committed.", "agent")
	m.duplicates = m.counter("duplicates_total", "Repeated messages that were answered with the first one's outcome.", "agent")
	m.watchers = m.gauge("watchers", "Streams and blocking calls that follow a task.")
	m.leases = m.counter("leases_lost_total", "Times that another process has taken the place of this node in the store.")
	m.leases.WithLabelValues()

	m.requests = m.histogram("request_seconds", "How long requests of A2A took, streams included.", calls, "operation", "code")
	m.limited = m.counter("limited_total", "Requests that a limit has refused.", "limit")

	m.commitTime = m.histogram("store_commit_seconds", "How long a transaction of the store took.", quick)
	m.commitSize = m.histogram("store_commit_changes", "Changes that a transaction of the store committed.", []float64{1, 2, 4, 8, 16, 32, 64, 128, 256})

	m.delivered = m.histogram("webhook_delivery_seconds", "How long it took to deliver an event to a webhook that took it.", sends, "agent")
	m.failed = m.counter("webhook_failures_total", "Attempts to deliver an event to a webhook that failed: retry is tried again, dead was given up, gone removed the webhook.", "agent", "outcome")
	m.inFlight = m.gauge("webhooks_in_flight", "Webhooks that events are being sent to now.")

	m.jobs = m.histogram("job_seconds", "How long work took that was put off, by its kind and outcome: done, or failed and tried again.", calls, "kind", "outcome")
	m.peers = m.histogram("peer_call_seconds", "How long calls of peers took until they answered, by what came of them: ok, refused by the peer, or why there was no answer.", calls, "peer", "outcome")
	m.tools = m.histogram("mcp_call_seconds", "How long calls of tool servers took, by what came of them.", calls, "server", "tool", "outcome")
	m.models = m.newModels()
	m.sample = m.newReadings()
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
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

// TaskEnded records how long a task took until it was terminal.
func (m *Metrics) TaskEnded(agent, state string, took time.Duration) {
	m.lives.WithLabelValues(agent, state).Observe(took.Seconds())
}

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

// TurnLimited counts a turn that a limit has ended.
func (m *Metrics) TurnLimited(agent, limit string) { m.turnLimits.WithLabelValues(agent, limit).Inc() }

// TurnInterrupted counts a turn that a dead process had left, and whether it goes on
// or has failed.
func (m *Metrics) TurnInterrupted(agent string, resumed bool) {
	outcome := "failed"
	if resumed {
		outcome = "resumed"
	}
	m.interrupted.WithLabelValues(agent, outcome).Inc()
}

// Steps counts committed steps.
func (m *Metrics) Steps(agent string, n int) { m.steps.WithLabelValues(agent).Add(float64(n)) }

// Duplicate counts a repeated message.
func (m *Metrics) Duplicate(agent string) { m.duplicates.WithLabelValues(agent).Inc() }

// Watchers adds to the number of watchers.
func (m *Metrics) Watchers(delta int) { m.watchers.Add(float64(delta)) }

// LeaseLost says that another process has taken the place of the node.
func (m *Metrics) LeaseLost() { m.leases.WithLabelValues().Inc() }

// Request records how long a request took and how it ended.
func (m *Metrics) Request(operation, code string, took time.Duration) {
	m.requests.WithLabelValues(operation, code).Observe(took.Seconds())
}

// Limited counts a request that a limit has refused.
func (m *Metrics) Limited(limit string) { m.limited.WithLabelValues(limit).Inc() }

// Commit records a transaction of the store.
func (m *Metrics) Commit(changes int, took time.Duration) {
	m.commitTime.WithLabelValues().Observe(took.Seconds())
	m.commitSize.WithLabelValues().Observe(float64(changes))
}

// PushDelivered records an event that a webhook took.
func (m *Metrics) PushDelivered(agent string, took time.Duration) {
	m.delivered.WithLabelValues(agent).Observe(took.Seconds())
}

// PushFailed counts an attempt that failed.
func (m *Metrics) PushFailed(agent, outcome string) { m.failed.WithLabelValues(agent, outcome).Inc() }

// PushInFlight adds to the number of webhooks that events are sent to.
func (m *Metrics) PushInFlight(delta int) { m.inFlight.Add(float64(delta)) }

// JobDone records how long a job took, and whether it has to be done again.
func (m *Metrics) JobDone(kind string, failed bool, took time.Duration) {
	outcome := "done"
	if failed {
		outcome = "failed"
	}
	m.jobs.WithLabelValues(kind, outcome).Observe(took.Seconds())
}

// PeerCall records a call of a peer.
func (m *Metrics) PeerCall(peer, outcome string, took time.Duration) {
	m.peers.WithLabelValues(peer, outcome).Observe(took.Seconds())
}

// ToolCall records a call of a tool, a prompt or a resource. The tool is one that
// the server lists.
func (m *Metrics) ToolCall(server, tool, outcome string, took time.Duration) {
	m.tools.WithLabelValues(server, tool, outcome).Observe(took.Seconds())
}
