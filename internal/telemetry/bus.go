package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Bus is how the bus to the other nodes is. The numbers count from the start of
// the node.
type Bus struct {
	Connected            bool
	Sent, Heard, Dropped uint64
}

// WatchBus reports, with every scrape, what state returns.
func (m *Metrics) WatchBus(state func() Bus) { m.registry.MustRegister(&busCollector{state: state}) }

var (
	busConnected = prometheus.NewDesc("handoff_bus_connected", "1 when hints of other nodes come, 0 when the store is asked instead.", nil, nil)
	busHints     = prometheus.NewDesc("handoff_bus_hints_total", "Hints between nodes: sent, heard or dropped.", []string{"what"}, nil)
)

type busCollector struct{ state func() Bus }

// Describe sends the descriptions of the metrics.
func (c *busCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- busConnected
	ch <- busHints
}

// Collect sends the metrics.
func (c *busCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.state()
	connected := 0.0
	if s.Connected {
		connected = 1
	}
	ch <- prometheus.MustNewConstMetric(busConnected, prometheus.GaugeValue, connected)
	for what, n := range map[string]uint64{"sent": s.Sent, "heard": s.Heard, "dropped": s.Dropped} {
		ch <- prometheus.MustNewConstMetric(busHints, prometheus.CounterValue, float64(n), what)
	}
}
