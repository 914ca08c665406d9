package telemetry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is what a metric measures with.
type Kind string

// The kinds of metrics, as Prometheus names them.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Definition says what a metric is.
type Definition struct {
	Name   string
	Kind   Kind
	Help   string
	Labels []string
}

const prefix = "handoff_"

// Definitions are all metrics of a node that have a name of its own, by name. Those
// of the Go runtime and of the process come beside them.
func (m *Metrics) Definitions() []Definition { return slices.Clone(m.definitions) }

// define adds a metric to the definitions.
func (m *Metrics) define(kind Kind, name, help string, labels []string) string {
	name = prefix + name
	at, taken := slices.BinarySearchFunc(m.definitions, name, func(d Definition, name string) int { return strings.Compare(d.Name, name) })
	if taken {
		panic("the metric " + name + " is defined twice")
	}
	m.definitions = slices.Insert(m.definitions, at, Definition{Name: name, Kind: kind, Help: help, Labels: labels})
	return name
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.define(Counter, name, help, labels), Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: m.define(Gauge, name, help, nil), Help: help})
	m.registry.MustRegister(g)
	return g
}

// Buckets of histograms, in seconds.
var (
	quick = []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, 1, 5}
	calls = []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600}
	turns = []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600, 3600}
	lives = []float64{.1, 1, 10, 60, 600, 3600, 4 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600, 30 * 24 * 3600}
	sends = []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 15, 60}
)

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.define(Histogram, name, help, labels), Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}

// reading is a metric that is asked for with each scrape.
type reading struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (m *Metrics) reading(kind Kind, name, help string, labels ...string) reading {
	r := reading{desc: prometheus.NewDesc(m.define(kind, name, help, labels), help, labels, nil), kind: prometheus.GaugeValue}
	if kind == Counter {
		r.kind = prometheus.CounterValue
	}
	return r
}

// emit takes a value of a metric, with those of its labels.
type emit func(r reading, value float64, labels ...string)

// sampler asks for the values of metrics with each scrape.
type sampler struct {
	readings []reading
	sample   func(emit)
}

// watch has the values of metrics come from a function.
func (m *Metrics) watch(sample func(emit), readings ...reading) {
	m.registry.MustRegister(&sampler{readings, sample})
}

// Describe sends the descriptions of the metrics.
func (s *sampler) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range s.readings {
		ch <- r.desc
	}
}

// Collect sends the metrics.
func (s *sampler) Collect(ch chan<- prometheus.Metric) {
	s.sample(func(r reading, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(r.desc, r.kind, value, labels...)
	})
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
