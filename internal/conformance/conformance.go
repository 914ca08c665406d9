// Package conformance exercises a live agent and reports what it does right and
// wrong, each with the paragraph of the specification.
//
// It speaks the wire itself, with requests that no client would send. An agent
// may be hostile: every answer, stream and run is bounded in time and bytes, and
// what is quoted of an answer is short and free of the caller's secrets. Without
// a text to send nothing is changed at the agent.
package conformance

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/card"
)

// Limits that hold where Options name none.
const (
	DefaultCallTimeout = 15 * time.Second
	DefaultTaskTimeout = time.Minute
	DefaultTotal       = 10 * time.Minute
	DefaultWebhook     = "https://example.com/handoff-conformance"
)

// Bounds of what one agent can make a run take in.
const (
	maxInterfaces = 8
	maxAnswer     = 1 << 20 // bytes of an answer
	maxStream     = 4 << 20 // bytes of a stream
	maxEvents     = 2_000
	maxQuote      = 300 // characters quoted of a request or an answer
	maxRetries    = 3
	maxPause      = 10 * time.Second // that an agent may ask for
	maxSilent     = 3                // answers that may fail to come before an interface is given up
)

// Options say which agent is exercised, and how.
type Options struct {
	// Reference names the agent, as client.Discover takes it.
	Reference string
	// Card is the card itself, where the caller has it; Reference only names it then.
	Card []byte
	// Adjust returns the card whose interfaces are exercised, in the place of the one
	// that was found; nil takes that.
	Adjust func(*a2a.AgentCard) *a2a.AgentCard
	// Client says how the card is found and how requests authenticate. Its
	// HTTPClient, Credentials, Headers and Extensions go with every request;
	// Transports, where there are any, are the bindings that are exercised.
	Client client.Options
	// TLS is the configuration of gRPC connections; nil is the default one.
	TLS *tls.Config
	// Text is sent to the agent in messages, so that tasks, streams and webhooks
	// can be exercised. Without it nothing is sent that could begin a task.
	Text string
	// Webhook is the URL that webhook configurations name; "" is DefaultWebhook.
	// They are made for tasks that are over.
	Webhook string
	// Verifier verifies the card's signatures; nil takes the keys that the card
	// names at its own origin.
	Verifier *card.Verifier

	// CallTimeout bounds an exchange, TaskTimeout how long a task is waited for,
	// Total the whole run; 0 is the default.
	CallTimeout, TaskTimeout, Total time.Duration

	// Hide removes secrets from a text that is quoted; nil changes nothing.
	Hide func(string) string
	// Found is told the card before requests go out; it may be nil.
	Found func(*a2a.AgentCard)
}

func (o Options) withDefaults() Options {
	if o.CallTimeout <= 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.TaskTimeout <= 0 {
		o.TaskTimeout = DefaultTaskTimeout
	}
	if o.Total <= 0 {
		o.Total = DefaultTotal
	}
	if o.Webhook == "" {
		o.Webhook = DefaultWebhook
	}
	if o.Hide == nil {
		o.Hide = func(text string) string { return text }
	}
	if o.Client.HTTPClient == nil {
		o.Client.HTTPClient = http.DefaultClient
	}
	return o
}

// run is a run on one agent.
type run struct {
	opts    Options
	report  *Report
	cardURL *url.URL // nil when the card is a file, or given
	raw     []byte   // the card as it came
	card    *a2a.AgentCard
	first   *probe // the first interface with a task, for the others to look at
}

// Run exercises an agent. Its error says that no card was found, as
// client.Discover does; everything else is in the report.
func Run(ctx context.Context, opts Options) (*Report, error) {
	r := &run{opts: opts.withDefaults(), report: &Report{Agent: opts.Reference, Complete: true, Sends: opts.Text != ""}}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Total)
	defer cancel()
	found, err := r.discover(ctx)
	if err != nil {
		return nil, fmt.Errorf("find card: %w", err)
	}
	r.checkCard(ctx, found)
	if r.card != nil {
		if r.opts.Adjust != nil {
			r.card = r.opts.Adjust(r.card)
		}
		if r.opts.Found != nil {
			r.opts.Found(r.card)
		}
		for _, i := range r.interfaces() {
			r.exercise(ctx, i)
		}
	}
	if ctx.Err() != nil {
		r.report.Complete = false
	}
	r.report.count()
	return r.report, nil
}
