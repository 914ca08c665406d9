package llm

import (
	"fmt"
	"math"
	"strconv"
)

// limitError says which limit has ended a task, and which key of the configuration
// has it.
type limitError struct{ key, text string }

func (e *limitError) Error() string { return e.text }

// reached is the error of a limit, in words and by its key.
func (m *model) reached(what, key string) error {
	full := m.key + ".limits." + key
	return &limitError{key: full, text: "The task has reached its limit of " + what + " (" + full + ")."}
}

func over(used, limit int) bool { return limit > 0 && used >= limit }

// mayStep checks what every step counts against.
func (w *work) mayStep() error {
	if l := w.conf.Limits.Steps; over(w.state.Spent.Steps, l) {
		return w.reached(fmt.Sprintf("%d steps", l), "steps")
	}
	return nil
}

// mayAsk checks whether the model may be asked once more.
func (w *work) mayAsk() error {
	limits, s := &w.conf.Limits, &w.state.Spent
	switch {
	case over(s.ModelCalls, limits.ModelCalls):
		return w.reached(fmt.Sprintf("%d calls of the model", limits.ModelCalls), "model_calls")
	case limits.Tokens > 0 && s.Input+s.Output >= int64(limits.Tokens):
		return w.reached(fmt.Sprintf("%d tokens", limits.Tokens), "tokens")
	case limits.Cost > 0 && s.Cost >= billionths(limits.Cost):
		return w.reached(strconv.FormatFloat(limits.Cost, 'f', -1, 64)+" "+w.conf.Price.Currency, "cost")
	}
	return w.mayStep()
}

func billionths(amount float64) int64 { return int64(math.Round(amount * 1e9)) }

// mayCall checks whether the first of the calls may be made, and counts it.
func (w *work) mayCall(p *pending) error {
	if p.Begun {
		return nil
	}
	if err := w.mayStep(); err != nil {
		return err
	}
	limits, s := &w.conf.Limits, &w.state.Spent
	switch p.Kind {
	case kindTool:
		if over(s.ToolCalls, limits.ToolCalls) {
			return w.reached(fmt.Sprintf("%d calls of tools", limits.ToolCalls), "tool_calls")
		}
		s.ToolCalls++
	case kindDelegate:
		if over(s.Delegations, limits.Delegations) {
			return w.reached(fmt.Sprintf("%d delegations", limits.Delegations), "delegations")
		}
		s.Delegations++
	}
	s.Steps++
	p.Begun = true
	return nil
}

// count adds what an answer has cost.
func (w *work) count(u usage) (cost int64) {
	s, price := &w.state.Spent, &w.conf.Price
	cached := price.Input
	if price.CachedInput != nil {
		cached = *price.CachedInput
	}
	// A price for a million is a thousandth of that in billionths for one.
	cost = int64(math.Ceil(float64(u.input-u.cached)*price.Input*1e3 + float64(u.cached)*cached*1e3 + float64(u.output)*price.Output*1e3))
	s.Input += u.input
	s.Output += u.output
	s.Cost += cost
	w.used(u, cost)
	return cost
}

// perByte is how many tokens a byte is taken for until the model has told.
const perByte = 0.25

// tokens is about how many tokens so many bytes are.
func (w *work) tokens(bytes int) int {
	scale := w.state.Scale
	if scale == 0 {
		scale = perByte
	}
	return int(float64(bytes) * scale)
}

// size is about how many bytes the model is given.
func (w *work) size() int {
	n := len(w.system()) + w.offered().bytes
	for i := range w.state.Conversation {
		n += w.state.Conversation[i].size()
	}
	return n
}

// size is about how many bytes a message is, with what stands around it.
func (m *message) size() int {
	n := len(m.Text) + 16 + imageSize*len(m.Images)
	for _, c := range m.Calls {
		n += len(c.Name) + len(c.Arguments) + 16
	}
	return n
}

// keepWhole is how long results are that are not worth leaving out, in bytes.
const keepWhole = 256

// trim leaves out the oldest result of a tool that is still there, and reports
// whether there was one. That of the last answer's calls stay.
func (w *work) trim() bool {
	c := w.state.Conversation
	last := len(c)
	for last > 0 && c[last-1].Role != roleAssistant {
		last--
	}
	for i := range c[:last] {
		m := &c[i]
		if m.Role == roleTool && !m.Short && len(m.Text) > keepWhole {
			m.Text, m.Short = fmt.Sprintf("[This result, of %d bytes, was left out for want of room. Call again if you need it, where that does no harm.]", len(m.Text)), true
			return true
		}
	}
	return false
}

// fit makes the conversation fit into what the model may be given.
func (w *work) fit() error {
	limit := w.conf.Limits.Context
	for w.tokens(w.size()) > limit {
		if !w.trim() {
			key := w.key + ".limits.context"
			return &limitError{key: key, text: fmt.Sprintf("The conversation has grown to about %d tokens, and the model is given at most %d (%s).", w.tokens(w.size()), limit, key)}
		}
	}
	return nil
}
