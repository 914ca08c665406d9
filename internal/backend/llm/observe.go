package llm

import (
	"strings"
	"time"
)

// Observer is told what is asked of the model, for metrics. Its methods have to be
// quick.
type Observer interface {
	// ModelCall is told of a call and what came of it: ok, cut, busy, failed or
	// empty.
	ModelCall(agent, model, outcome string, took time.Duration)
	// ModelUsed is told of the tokens of a call and its cost, in the currency of the
	// configuration.
	ModelUsed(agent, model string, input, output int64, cost float64)
	// ModelBudget is told that a task has reached a limit, by the name of its key.
	ModelBudget(agent, limit string)
}

type nobody struct{}

func (nobody) ModelCall(string, string, string, time.Duration) {}
func (nobody) ModelUsed(string, string, int64, int64, float64) {}
func (nobody) ModelBudget(string, string)                      {}

// called tells the observer of a call.
func (w *work) called(report *modelCall) {
	w.opts.Observer.ModelCall(w.opts.Agent, w.conf.Model, report.Outcome, time.Duration(report.MS)*time.Millisecond)
}

// used tells the observer what a call has used; the cost is in billionths.
func (w *work) used(u usage, cost int64) {
	w.opts.Observer.ModelUsed(w.opts.Agent, w.conf.Model, u.input, u.output, float64(cost)/1e9)
}

// limited tells the observer which limit has ended a task.
func (w *work) limited(limit *limitError) {
	w.opts.Observer.ModelBudget(w.opts.Agent, limit.key[strings.LastIndexByte(limit.key, '.')+1:])
}
