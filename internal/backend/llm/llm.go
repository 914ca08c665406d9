// Package llm is an agent that is a model: it plans a task, calls tools through the
// gateway, hands work to other agents and asks whoever has sent the message, within
// what the task may use. Any model with the API of OpenAI's chat completions will do.
//
// The conversation is the private state of the task. So a turn that a crash has
// interrupted goes on where it was, and a wait of days costs a row. The answers of a
// model may be asked for twice; a call of a tool is made once, and where nobody knows
// whether it was made, the model is told so.
package llm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/bridge"
)

// Other is a peer or an agent that work can be handed to, as far as it is known.
type Other struct {
	Name        string
	Description string
	Skills      []a2a.AgentSkill
}

// Options is what an agent that is a model works with.
type Options struct {
	// Agent is the id of the agent.
	Agent  string
	Config *config.LLM
	// Client is that which reaches the model. It is the operator's own, so that it may
	// be at a private address.
	Client *http.Client
	// Calls returns what keeps calls of tools, and Gate is the way to those of a
	// server; "" is that to all.
	Calls func() *bridge.Calls
	Gate  func(server string) bridge.Gate
	// Other returns what is known of a peer or an agent; nil: nothing.
	Other func(name string) *Other
	// Earlier returns the newest tasks of the agent in the context of a turn, for whom it
	// works, the newest first; nil: there are none.
	Earlier func(ctx context.Context, t *agent.Turn, most int) ([]a2a.Task, error)
	// StateBytes is how large the private state of a task may be; 0: a mebibyte.
	StateBytes int
	// Version is that of the program.
	Version string
	Logger  *slog.Logger // nil: slog.Default()
	// Observer is told what is asked of the model; nil: nobody.
	Observer Observer
}

// maxStateBytes is how large a state step may be.
const maxStateBytes = 1 << 20

// model is the agent.
type model struct {
	opts   Options
	conf   *config.LLM
	key    string // of the configuration, where that of the agent begins
	client *client
	log    *slog.Logger
}

// New returns the agent that a configuration describes.
func New(opts Options) (agent.Agent, error) {
	if opts.Config == nil || opts.Client == nil {
		return nil, errors.New("a model needs a configuration and a client")
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Other == nil {
		opts.Other = func(string) *Other { return nil }
	}
	if opts.Observer == nil {
		opts.Observer = nobody{}
	}
	if opts.StateBytes <= 0 || opts.StateBytes > maxStateBytes {
		opts.StateBytes = maxStateBytes
	}
	return &model{
		opts: opts, conf: opts.Config, client: newClient(opts.Config, opts.Client), log: opts.Logger,
		key: "agents." + opts.Agent + ".run.llm",
	}, nil
}

// work is one turn.
type work struct {
	*model
	ctx   context.Context
	turn  *agent.Turn
	state *state
	offer *offer // what the model may call; nil until it is needed
	// input says that what has begun the turn is for the first of the calls.
	input bool
	// partial says that the artifact may have a part of an answer that never came to
	// its end.
	partial bool
	// unseen is how many images have come that the model does not take.
	unseen int
}

// Run goes on with a task from where its state says that it is.
func (m *model) Run(ctx context.Context, t *agent.Turn) error {
	s, err := decodeState(t.State)
	if err != nil {
		return err
	}
	w := &work{model: m, ctx: ctx, turn: t, state: s, partial: s.Asking}
	if t.Number == 1 && s.Turn == 0 {
		w.remember()
	}
	if t.Number > s.Turn {
		w.take()
	}
	if err = w.tellUnseen(); err == nil {
		err = w.run()
	}
	if limit, ok := errors.AsType[*limitError](err); ok {
		w.limited(limit)
		return w.end(limit)
	}
	return err
}

// run calls what the model has asked for, and asks it what comes next, until it has
// answered, or the turn has to end.
func (w *work) run() error {
	for {
		for len(w.state.Calls) > 0 {
			if parked, err := w.call(); parked || err != nil {
				return err
			}
		}
		w.state.Conversation = append(w.state.Conversation, w.state.Queue...)
		w.state.Queue = nil
		if w.state.answered() {
			return nil // completed, unless more messages have come in
		}
		if parked, err := w.ask(); parked || err != nil {
			return err
		}
	}
}

// take takes what has begun the turn: messages, a decision, an outcome.
func (w *work) take() {
	s, t := w.state, w.turn
	s.Turn = t.Number
	first := len(s.Calls) > 0 && s.Calls[0].Parked > 0
	messages := t.Messages
	switch {
	case !first:
	case s.Calls[0].Kind == kindAsk:
		if len(messages) > 0 {
			texts := make([]string, len(messages))
			var images []image
			for i := range messages {
				texts[i] = wordsOf(messages[i].Parts, w.conf.Vision)
				images = append(images, w.see(&messages[i])...)
			}
			w.done(strings.Join(texts, "\n\n"))
			if len(images) > 0 { // the result of a call has none
				s.Queue = append(s.Queue, message{Role: roleUser, Text: "[The images of the answer.]", Images: images})
			}
			messages = nil
		}
	case s.Calls[0].Kind == kindDelegate:
		if t.Outcome != nil {
			w.delegated(t.Outcome)
		}
	case s.Calls[0].Kind == kindTool:
		if w.input = t.Grant != nil; !w.input && bridge.Asks(s.ToolCall) {
			w.input, messages = true, nil
		}
	}
	for i := range messages {
		text := wordsOf(messages[i].Parts, w.conf.Vision)
		if t.Skill != "" && t.Number == 1 {
			text += "\n[The user asks for the skill " + clean(t.Skill, 100) + ".]"
		}
		s.Queue = append(s.Queue, message{Role: roleUser, Text: text, Images: w.see(&messages[i])})
	}
}

// tellUnseen says that images were not shown to the model.
func (w *work) tellUnseen() error {
	if w.unseen == 0 {
		return nil
	}
	text := "An image was not shown to the model"
	if w.unseen > 1 {
		text = fmt.Sprintf("%d images were not shown to the model", w.unseen)
	}
	if err := w.save(); err != nil {
		return err
	}
	return w.turn.Working(text + ", which takes none (" + w.key + ".vision).")
}

// end ends the task because a limit is reached.
func (w *work) end(limit *limitError) error {
	if err := w.save(); err != nil && w.ctx.Err() != nil {
		return err
	}
	return w.turn.Emit(agent.Step{Fail: &agent.Content{
		Parts: []a2a.Part{a2a.Text(limit.text)}, Metadata: metadata(metaLimit, limitData{Key: limit.key, Total: w.state.Spent.total(w.conf)}),
	}})
}

// save keeps the state. It is durable with the next flush, in the order in which
// everything is emitted.
func (w *work) save() error {
	text, err := w.state.encode()
	if err != nil {
		return err
	}
	for len(text) > w.opts.StateBytes*7/8 && w.trim() {
		if text, err = w.state.encode(); err != nil {
			return err
		}
	}
	if len(text) > w.opts.StateBytes {
		return &limitError{
			key:  "agents." + w.opts.Agent + ".limits.state_bytes",
			text: "The conversation has become too long to be kept: it is more than agents." + w.opts.Agent + ".limits.state_bytes allows.",
		}
	}
	return w.turn.SetState(text)
}

// saved keeps the state durably.
func (w *work) saved() error {
	if err := w.save(); err != nil {
		return err
	}
	return w.turn.Flush()
}

// say tells how the work goes on, with data for programs.
func (w *work) say(text, name string, data any) error {
	if !w.conf.ShowCalls {
		return nil
	}
	return w.turn.Emit(agent.Step{Working: &agent.Content{Parts: []a2a.Part{a2a.Text(text)}, Metadata: metadata(name, data)}})
}

// offered returns what the model may call in this turn.
func (w *work) offered() *offer {
	if w.offer == nil {
		w.offer = w.newOffer()
	}
	return w.offer
}

// pause waits, and reports false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
