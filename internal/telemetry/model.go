package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// models count what agents ask of models.
type models struct {
	calls   *prometheus.HistogramVec
	tokens  *prometheus.CounterVec
	cost    *prometheus.CounterVec
	budgets *prometheus.CounterVec
}

func (m *Metrics) newModels() models {
	return models{
		calls:   m.histogram("model_call_seconds", "How long calls of models took until the last of their answer, by what came of them.", calls, "agent", "model", "outcome"),
		tokens:  m.counter("model_tokens_total", "Tokens that models have counted, by their kind: input or output.", "agent", "model", "kind"),
		cost:    m.counter("model_cost_total", "What calls of models have cost by the prices of the configuration, in its currency.", "agent", "model"),
		budgets: m.counter("model_budgets_reached_total", "Tasks that a limit of their agent's model has ended, by its key: steps, model_calls, tool_calls, delegations, tokens, cost, context, artifact_bytes or mistakes.", "agent", "budget"),
	}
}

// ModelCall records a call of a model: ok, cut, busy, failed or empty. The model is
// that of the configuration.
func (m *Metrics) ModelCall(agent, model, outcome string, took time.Duration) {
	m.models.calls.WithLabelValues(agent, model, outcome).Observe(took.Seconds())
}

// ModelUsed counts the tokens of a call and its cost. Negative numbers, which a model
// may answer, count nothing.
func (m *Metrics) ModelUsed(agent, model string, input, output int64, cost float64) {
	m.models.tokens.WithLabelValues(agent, model, "input").Add(float64(max(input, 0)))
	m.models.tokens.WithLabelValues(agent, model, "output").Add(float64(max(output, 0)))
	if cost > 0 {
		m.models.cost.WithLabelValues(agent, model).Add(cost)
	}
}

// ModelBudget counts a task that a limit has ended.
func (m *Metrics) ModelBudget(agent, budget string) {
	m.models.budgets.WithLabelValues(agent, budget).Inc()
}
