package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// newTools counts calls of tool servers.
func newTools() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "handoff", Name: "mcp_call_seconds", Help: "How long calls of tool servers took, by what came of them.",
		Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600},
	}, []string{"server", "tool", "outcome"})
}

// ToolCall records a call of a tool, a prompt or a resource. The tool is one that
// the server lists.
func (m *Metrics) ToolCall(server, tool, outcome string, took time.Duration) {
	m.tools.WithLabelValues(server, tool, outcome).Observe(took.Seconds())
}
