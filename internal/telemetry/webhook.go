package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pushes count what is sent to webhooks.
type pushes struct {
	delivered *prometheus.HistogramVec
	failed    *prometheus.CounterVec
	inFlight  prometheus.Gauge
}

func newPushes() pushes {
	const ns = "handoff"
	return pushes{
		delivered: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Name: "webhook_delivery_seconds", Help: "How long it took to deliver an event to a webhook that took it.",
			Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 15, 60},
		}, []string{"agent"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Name: "webhook_failures_total",
			Help: "Attempts to deliver an event to a webhook that failed: retry is tried again, dead was given up, gone removed the webhook.",
		}, []string{"agent", "outcome"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Name: "webhooks_in_flight", Help: "Webhooks that events are being sent to now.",
		}),
	}
}

// PushDelivered records an event that a webhook took.
func (m *Metrics) PushDelivered(agent string, took time.Duration) {
	m.pushes.delivered.WithLabelValues(agent).Observe(took.Seconds())
}

// PushFailed counts an attempt that failed.
func (m *Metrics) PushFailed(agent, outcome string) {
	m.pushes.failed.WithLabelValues(agent, outcome).Inc()
}

// PushInFlight adds to the number of webhooks that events are sent to.
func (m *Metrics) PushInFlight(delta int) { m.pushes.inFlight.Add(float64(delta)) }

// Webhooks are those that are behind.
type Webhooks struct {
	Waiting int       // that are tried again
	Oldest  time.Time // since when the first of them has failed; zero: none
	Dead    int       // that were given up
}

// WatchWebhooks reports, with every scrape, what state returns; ok is false when
// it is not known.
func (m *Metrics) WatchWebhooks(state func() (w Webhooks, ok bool)) {
	m.registry.MustRegister(&webhookCollector{state: state})
}

var (
	webhooksWaiting = prometheus.NewDesc("handoff_webhooks_waiting", "Webhooks whose receiver has failed and that are tried again.", nil, nil)
	webhooksOldest  = prometheus.NewDesc("handoff_webhooks_oldest_seconds", "For how long the webhook that has been waiting the longest has been.", nil, nil)
	webhooksDead    = prometheus.NewDesc("handoff_webhooks_dead", "Webhooks that were given up, and that an operator has to look at.", nil, nil)
)

type webhookCollector struct{ state func() (Webhooks, bool) }

// Describe sends the descriptions of the metrics.
func (c *webhookCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- webhooksWaiting
	ch <- webhooksOldest
	ch <- webhooksDead
}

// Collect sends the metrics.
func (c *webhookCollector) Collect(ch chan<- prometheus.Metric) {
	s, ok := c.state()
	if !ok {
		return
	}
	oldest := 0.0
	if !s.Oldest.IsZero() {
		oldest = time.Since(s.Oldest).Seconds()
	}
	ch <- prometheus.MustNewConstMetric(webhooksWaiting, prometheus.GaugeValue, float64(s.Waiting))
	ch <- prometheus.MustNewConstMetric(webhooksOldest, prometheus.GaugeValue, oldest)
	ch <- prometheus.MustNewConstMetric(webhooksDead, prometheus.GaugeValue, float64(s.Dead))
}
