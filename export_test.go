package handoff

import "net/http"

// MetricsOf returns what serves the metrics of a node.
func MetricsOf(n *Node) http.Handler { return n.metrics.Handler() }
