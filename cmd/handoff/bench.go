package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// Bounds of a load.
const (
	maxConnections = 10_000
	maxRequests    = 100_000_000
	maxLoad        = 24 * time.Hour
)

// load is what bench puts on an agent.
type load struct {
	flags       clientFlags
	connections int
	requests    int
	duration    time.Duration
	message     string
	stream      bool
}

func newBenchCommand(a *app) *cobra.Command {
	l := &load{}
	cmd := &cobra.Command{
		Use: "bench [AGENT]", Short: "Put load on an agent and measure it",
		Long: `Put load on an agent and measure it: every connection sends a message, waits for
the task to end or to ask, and sends the next, each as a task of its own. Use it
on agents of yours.`,
		Example:           "  handoff bench echo -c 32 -d 10s\n  handoff bench https://agents.example.com/agents/echo/ -n 1000 --stream -o json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirstAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			named := ""
			if len(args) == 1 {
				named = args[0]
			}
			return a.bench(cmd.Context(), cmd, l, named)
		},
	}
	fs := cmd.Flags()
	fs.IntVarP(&l.connections, "connections", "c", 8, "requests at once")
	fs.IntVarP(&l.requests, "requests", "n", 0, "requests in all (default: as many as there is time for)")
	fs.DurationVarP(&l.duration, "duration", "d", 10*time.Second, "how long; with -n at most that long")
	fs.StringVarP(&l.message, "message", "m", "hello", "the text of the message")
	fs.BoolVar(&l.stream, "stream", false, "stream the answers")
	l.flags.register(a, cmd)
	return cmd
}

func (l *load) check(cmd *cobra.Command) error {
	switch {
	case l.connections < 1 || l.connections > maxConnections:
		return usagef("-c %d is not from 1 to %d", l.connections, maxConnections)
	case l.requests < 0 || l.requests > maxRequests:
		return usagef("-n %d is not from 1 to %d", l.requests, maxRequests)
	case l.duration <= 0 || l.duration > maxLoad:
		return usagef("-d %s is not from 1ns to %s", l.duration, maxLoad)
	}
	if l.requests > 0 && !cmd.Flags().Changed("duration") {
		l.duration = maxLoad
	}
	return nil
}

// measured is what came of a load, for programs. Times are in milliseconds.
type measured struct {
	Agent       string         `json:"agent"`
	Connections int            `json:"connections"`
	Stream      bool           `json:"stream"`
	Requests    int            `json:"requests"`
	Seconds     float64        `json:"seconds"`
	Rate        float64        `json:"tasks_per_second"`
	P50         float64        `json:"p50_ms"`
	P90         float64        `json:"p90_ms"`
	P99         float64        `json:"p99_ms"`
	Max         float64        `json:"max_ms"`
	States      map[string]int `json:"states"` // what the tasks came to; MESSAGE for an answer without a task
	Errors      map[string]int `json:"errors"`
}

// bench puts the load on, and tells what came of it.
func (a *app) bench(ctx context.Context, cmd *cobra.Command, l *load, named string) error {
	if err := l.check(cmd); err != nil {
		return err
	}
	s, end, err := a.open(ctx, &l.flags, named)
	if err != nil {
		return err
	}
	defer end()
	// A connection each; the default keeps two.
	if transport, ok := s.http.Transport.(*http.Transport); ok {
		transport.MaxIdleConnsPerHost, transport.MaxIdleConns = l.connections, 0
	}
	m := l.put(s.ctx, s.client)
	m.Agent = s.card.Name
	if err := a.tellLoad(m); err != nil {
		return err
	}
	if m.Requests == 0 && len(m.Errors) > 0 {
		return exitStatus(exitFailure)
	}
	return nil
}

// put sends messages until the time is over or all are sent.
func (l *load) put(ctx context.Context, c *client.Client) *measured {
	timed, cancel := context.WithTimeout(ctx, l.duration)
	defer cancel()
	var sent atomic.Int64
	var all sync.WaitGroup
	results := make([]tally, l.connections)
	began := time.Now()
	for i := range results {
		all.Go(func() {
			t := &results[i]
			t.states, t.errors = map[string]int{}, map[string]int{}
			for timed.Err() == nil {
				if n := sent.Add(1); l.requests > 0 && n > int64(l.requests) {
					return
				}
				t.add(timed, l, c)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	m := &measured{Connections: l.connections, Stream: l.stream, Seconds: took.Seconds(), States: map[string]int{}, Errors: map[string]int{}}
	var times []time.Duration
	for i := range results {
		times = append(times, results[i].times...)
		for state, n := range results[i].states {
			m.States[state] += n
		}
		for text, n := range results[i].errors {
			m.Errors[text] += n
		}
	}
	slices.Sort(times)
	m.Requests = len(times)
	m.Rate = float64(m.Requests) / took.Seconds()
	m.P50, m.P90, m.P99, m.Max = percentile(times, .5), percentile(times, .9), percentile(times, .99), percentile(times, 1)
	return m
}

// tally is what one connection has measured.
type tally struct {
	times  []time.Duration
	states map[string]int
	errors map[string]int
}

// maxErrorKinds bounds how many errors are told apart.
const maxErrorKinds = 20

// add sends one message and notes what came of it.
func (t *tally) add(ctx context.Context, l *load, c *client.Client) {
	began := time.Now()
	state, err := l.send(ctx, c)
	took := time.Since(began)
	switch {
	case err == nil:
		t.times = append(t.times, took)
		t.states[state]++
	case ctx.Err() != nil: // the time is over, and not the agent to blame
	default:
		text := errorKind(err)
		if _, known := t.errors[text]; !known && len(t.errors) >= maxErrorKinds {
			text = "others"
		}
		t.errors[text]++
		// An agent that is not there is not asked as fast as one can.
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// errorKind names an error without what differs from request to request.
func errorKind(err error) string {
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return e.Code.String()
	}
	if e, ok := errors.AsType[*client.TransportError](err); ok {
		return string(e.Kind)
	}
	if errors.Is(err, client.ErrStreamCut) {
		return "stream cut"
	}
	return oneLine(err.Error())
}

// send sends one message and waits for what becomes of it.
func (l *load) send(ctx context.Context, c *client.Client) (state string, err error) {
	request := &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text(l.message))}
	if !l.stream {
		response, err := c.SendMessage(ctx, request)
		if err != nil {
			return "", err
		}
		return outcomeText(response.Task), nil
	}
	stream, err := c.SendStreamingMessage(ctx, request)
	if err != nil {
		return "", err
	}
	var outcome client.Accumulator
	for event, err := range stream.All() {
		if err != nil {
			return "", err
		}
		if err := outcome.Add(event); err != nil {
			return "", err
		}
	}
	return outcomeText(outcome.Task), nil
}

// outcomeText names what became of a message.
func outcomeText(t *a2a.Task) string {
	if t == nil {
		return "MESSAGE"
	}
	return stateText(t.Status.State)
}

// percentile returns a part of sorted times, in milliseconds.
func percentile(times []time.Duration, part float64) float64 {
	if len(times) == 0 {
		return 0
	}
	at := int(math.Ceil(part*float64(len(times)))) - 1
	return float64(times[max(at, 0)].Microseconds()) / 1000
}

func (a *app) tellLoad(m *measured) error {
	if a.output != formatText {
		return a.writeValue(m)
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
	p := printer{w: a.stdout}
	p.field("Agent", m.Agent)
	p.field("Load", fmt.Sprintf("%s, %s s", plural(m.Connections, "connection"), number(m.Seconds)))
	p.field("Requests", strconv.Itoa(m.Requests))
	p.field("Tasks/s", number(m.Rate))
	p.field("p50", number(m.P50)+" ms")
	p.field("p90", number(m.P90)+" ms")
	p.field("p99", number(m.P99)+" ms")
	p.field("Slowest", number(m.Max)+" ms")
	for _, state := range slices.Sorted(maps.Keys(m.States)) {
		p.field(state, strconv.Itoa(m.States[state]))
	}
	failed := 0
	for _, text := range slices.SortedFunc(maps.Keys(m.Errors), func(x, y string) int { return cmp.Compare(m.Errors[y], m.Errors[x]) }) {
		failed += m.Errors[text]
		p.field("Error "+text, strconv.Itoa(m.Errors[text]))
	}
	p.field("Errors", strconv.Itoa(failed))
	return p.err
}
