package llm

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/bridge"
	"handoff.example/handoff/internal/form"
)

// Bounds of what a model may ask for in one answer.
const (
	maxArguments = 256 << 10 // bytes of the arguments of a call
	maxCalls     = 64        // calls
	maxID        = 128       // bytes of the id of a call
	maxDepth     = 32        // levels of the arguments
	maxQuestion  = 16 << 10  // bytes of a question
	maxForm      = 32 << 10  // bytes of its form
)

// depth is how deep valid JSON nests.
func depth(value jsontext.Value) int {
	d, deepest := jsontext.NewDecoder(bytes.NewReader(value)), 0
	for {
		if _, err := d.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, d.StackDepth())
	}
}

// plan takes the calls of an answer: what each of them does, or what is wrong with it.
// The arguments that stay in the conversation are objects, since not every API takes
// back what it has sent.
func (w *work) plan(calls []function) []function {
	s := w.state
	kept := make([]function, 0, len(calls))
	for _, c := range calls {
		s.Numbered++
		fresh := func(id string) bool {
			return s.fresh(id) && !slices.ContainsFunc(kept, func(k function) bool { return k.ID == id })
		}
		if c.ID == "" || len(c.ID) > maxID || !fresh(c.ID) {
			c.ID = fmt.Sprintf("call%05d", s.Numbered)
			for !fresh(c.ID) { // the model has said such a one itself
				c.ID += "x"
			}
		}
		p := w.understand(c, len(kept))
		c.Name = freshName(c.Name, map[string]bool{"": true})
		c.Arguments = string(cmp.Or(string(p.Arguments), "{}"))
		s.Calls = append(s.Calls, p)
		kept = append(kept, c)
	}
	return kept
}

// understand finds out what a call does. What the model says is nothing but a choice
// among what it was offered.
func (w *work) understand(c function, before int) pending {
	p := pending{ID: c.ID, N: w.state.Numbered, Kind: kindMistake}
	text := strings.TrimSpace(c.Arguments)
	if text == "" {
		text = "{}"
	}
	arguments := jsontext.Value(text)
	f := w.offered().find(c.Name)
	switch {
	case before >= maxCalls:
		p.Wrong = fmt.Sprintf("These were more than %d calls at once. This one was not made.", maxCalls)
	case f == nil:
		p.Wrong = fmt.Sprintf("There is no function %q. Call one of those that you were given, or answer in words.", clean(c.Name, maxFunctionName))
	case len(text) > maxArguments:
		p.Wrong = fmt.Sprintf("The arguments are longer than %d bytes. The call was not made.", maxArguments)
	case !arguments.IsValid() || arguments.Kind() != '{':
		p.Wrong = fmt.Sprintf("The arguments are no JSON object. The call was not made. They were: %s", clean(text, 512))
	case depth(arguments) > maxDepth:
		p.Wrong = fmt.Sprintf("The arguments nest deeper than %d levels. The call was not made.", maxDepth)
	default:
		p.Kind, p.Server, p.Target, p.Arguments = f.kind, f.server, f.target, arguments
		if wrong := misfit(f, arguments); wrong != "" {
			p.Kind, p.Wrong = kindMistake, wrong
		}
	}
	return p
}

// asked are the arguments of the functions that are our own.
type asked struct {
	Message  string         `json:"message"`
	Data     jsontext.Value `json:"data"`
	Skill    string         `json:"skill"`
	Ref      string         `json:"ref"`
	Question string         `json:"question"`
	Form     jsontext.Value `json:"form"`
}

// maxRef is how long a business key may be.
const maxRef = 200

// misfit says what is wrong with the arguments of a function that is our own, "" when
// nothing is. Those of tools are for their servers.
func misfit(f *offered, arguments jsontext.Value) string {
	if f.kind == kindTool {
		return ""
	}
	var a asked
	if err := json.Unmarshal(arguments, &a); err != nil {
		return "The arguments do not fit. The call was not made: " + clean(err.Error(), 300)
	}
	switch {
	case f.kind == kindAsk && strings.TrimSpace(a.Question) == "":
		return "The question is missing. Nobody was asked."
	case f.kind == kindDelegate && strings.TrimSpace(a.Message) == "" && a.Data == nil:
		return "The message is missing. Nothing was handed on."
	case len(a.Question) > maxQuestion:
		return fmt.Sprintf("The question is longer than %d bytes. Nobody was asked.", maxQuestion)
	case a.Skill != "" && !slices.Contains(f.skills, a.Skill):
		return fmt.Sprintf("The agent has no skill %q. Nothing was handed on.", clean(a.Skill, 100))
	case len(a.Ref) > maxRef:
		return fmt.Sprintf("The ref is longer than %d bytes. Nothing was handed on.", maxRef)
	}
	return ""
}

// call goes on with the first of the calls, and reports whether it has ended the turn.
func (w *work) call() (parked bool, err error) {
	p := &w.state.Calls[0]
	if p.Kind == kindMistake {
		return false, w.mistaken(p.Wrong)
	}
	if err := w.mayCall(p); err != nil {
		return false, err
	}
	if p.Since == 0 || w.input { // what was waited for before is no part of it
		p.Since = time.Now().UnixMilli()
	}
	switch p.Kind {
	case kindAsk:
		return true, w.question(p)
	case kindDelegate:
		return w.delegate(p)
	}
	return w.tool(p)
}

// mistaken tells the model what was wrong with its call, as long as it does not go on
// so.
func (w *work) mistaken(wrong string) error {
	s := w.state
	if s.Mistakes++; s.Mistakes > w.conf.Limits.Mistakes {
		return w.reached(fmt.Sprintf("%d mistakes of the model in a row; the last was: %s", w.conf.Limits.Mistakes, wrong), "mistakes")
	}
	w.done(wrong)
	return nil
}

// question asks whoever has sent the message, and ends the turn.
func (w *work) question(p *pending) error {
	var a asked
	if err := json.Unmarshal(p.Arguments, &a); err != nil {
		return fmt.Errorf("read question: %w", err)
	}
	ask := agent.Ask{Content: *agent.Say(a.Question)}
	if a.Form != nil && len(a.Form) <= maxForm {
		if _, err := form.New(a.Form); err == nil {
			ask.Schema = a2a.JSON(a.Form)
		}
	}
	w.state.Mistakes = 0
	p.Parked = w.turn.Number
	if err := w.save(); err != nil {
		return err
	}
	return w.turn.Emit(agent.Step{Ask: &ask})
}

// delegate hands work on, and ends the turn. The task below is one however often the
// turn is run.
func (w *work) delegate(p *pending) (parked bool, err error) {
	if p.Parked > 0 && p.Parked < w.turn.Number {
		w.done("Outcome unknown: what came of the work was not told.")
		return false, w.saved()
	}
	if !w.offered().has(p) {
		return false, w.gone("The agent cannot be asked any more. Nothing was handed on.")
	}
	var a asked
	if err := json.Unmarshal(p.Arguments, &a); err != nil {
		return false, fmt.Errorf("read delegation: %w", err)
	}
	d := &agent.Delegate{To: p.Target, Ref: a.Ref, Skill: a.Skill}
	if a.Message != "" {
		d.Parts = append(d.Parts, a2a.Text(a.Message))
	}
	if a.Data != nil {
		data := a2a.Data(a2a.JSON(a.Data))
		data.MediaType = "application/json"
		d.Parts = append(d.Parts, data)
	}
	w.state.Mistakes = 0
	p.Parked = w.turn.Number
	if err := w.save(); err != nil {
		return false, err
	}
	return true, w.turn.Emit(agent.Step{Delegate: d})
}

// gone tells the model that what it has called is not offered any more: the
// configuration, or what the caller may do, has changed since.
func (w *work) gone(text string) error {
	w.done(text)
	return w.save()
}

// delegated takes what came of work that was handed on.
func (w *work) delegated(o *agent.Outcome) {
	w.done(outcomeText(o))
}

// tool goes on with a call of a tool.
func (w *work) tool(p *pending) (parked bool, err error) {
	s := w.state
	if !bridge.Made(s.ToolCall) && !w.offered().has(p) {
		return false, w.gone("The tool is not there any more. The call was not made.")
	}
	s.Mistakes = 0
	call := &bridge.InTurn{
		Calls: w.opts.Calls(), Gate: w.opts.Gate(p.Server), Version: w.opts.Version,
		Tool: p.Target, Arguments: p.Arguments, Name: "call-" + strconv.Itoa(p.N), State: s.ToolCall, Input: w.input,
		Save: func(state jsontext.Value) error {
			p.Parked, s.ToolCall = w.turn.Number, state
			return w.saved()
		},
	}
	w.input = false
	result, err := call.Do(w.ctx, w.turn)
	if err != nil || result == nil {
		return result == nil, err
	}
	text, outcome := resultText(result)
	done := toolCall{
		Server: cmp.Or(result.Server, p.Server), Tool: cmp.Or(result.Tool, p.Target), N: p.N,
		Start: stamp(time.UnixMilli(p.Since)), MS: time.Now().UnixMilli() - p.Since, Outcome: outcome, Approved: result.Approved, Bytes: len(text),
	}
	w.done(text)
	if err := w.save(); err != nil {
		return false, err
	}
	if err := w.say(said(&done), metaTool, done); err != nil {
		return false, err
	}
	return false, w.turn.Flush()
}

// said is what has come of a call, for people.
func said(c *toolCall) string {
	name := c.Tool
	if c.Server != "" {
		name = c.Server + "." + c.Tool
	}
	switch c.Outcome {
	case "ok":
		return "Called " + name + "."
	case "refused":
		return "The call of " + name + " was refused."
	case "unknown":
		return "Called " + name + "; whether the call was made is not known."
	}
	return "Called " + name + ", which has failed."
}
