package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"handoff.example/handoff/a2a"
)

// seen is a span that the collector has received.
type seen struct {
	*otlp.Span
	service string
}

func (s *seen) id() string     { return string(s.SpanId) }
func (s *seen) trace() string  { return string(s.TraceId) }
func (s *seen) String() string { return s.service + ": " + s.Name }

func (s *seen) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return cmp.Or(a.Value.GetStringValue(), fmt.Sprint(a.Value.GetIntValue()))
		}
	}
	return ""
}

// receiver takes traces as an OpenTelemetry collector does, with OTLP over HTTP.
type receiver struct {
	mu    sync.Mutex
	spans map[string]*seen // by id
	news  chan struct{}
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &collector.ExportTraceServiceRequest{}
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, request) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.ResourceSpans {
		service := ""
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans[string(s.SpanId)] = &seen{s, service}
			}
		}
	}
	select {
	case c.news <- struct{}{}:
	default:
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
	_, _ = w.Write(answer)
}

// all returns what there is, in the order in which it began.
func (c *receiver) all() []*seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*seen
	for _, s := range c.spans {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *seen) int { return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) })
	return list
}

// until waits for a span.
func (c *receiver) until(ctx context.Context, what string, is func(*seen) bool) error {
	for {
		if slices.ContainsFunc(c.all(), is) {
			return nil
		}
		select {
		case <-c.news:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
}

// paths returns each span as the way from the root of its trace to it, with what it
// links to.
func paths(list []*seen) (of map[string]*seen, text string) {
	byID, of := map[string]*seen{}, map[string]*seen{}
	name := func(s *seen) string {
		if turn := s.attribute("handoff.turn"); turn != "" {
			return s.service + ":" + s.Name + " " + turn
		}
		return s.service + ":" + s.Name
	}
	for _, s := range list {
		byID[s.id()] = s
	}
	var lines []string
	for _, s := range list {
		way := name(s)
		for up := s; len(up.ParentSpanId) > 0; {
			parent := byID[string(up.ParentSpanId)]
			if parent == nil {
				way = "? > " + way
				break
			}
			up, way = parent, name(parent)+" > "+way
		}
		var links []string
		for _, l := range s.Links {
			to := "?"
			if other := byID[string(l.SpanId)]; other != nil {
				to = name(other)
			}
			links = append(links, l.Attributes[0].Value.GetStringValue()+" "+to)
		}
		slices.Sort(links)
		if len(links) > 0 {
			way += " [" + strings.Join(links, ", ") + "]"
		}
		of[way] = s
		lines = append(lines, way)
	}
	return of, strings.Join(lines, "\n")
}

// The purchase is one trace over four nodes and the gateway's tools: who asked whom,
// who waited, and for how long, also when the buyer is killed in between.
func TestTheStoryIsOneTrace(t *testing.T) {
	c := founded(t)
	spans := &receiver{spans: map[string]*seen{}, news: make(chan struct{}, 1)}
	server := httptest.NewServer(spans)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	for _, node := range []string{buyer, supplier, finance, gateway} {
		name := c.file(files[node])
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, fmt.Appendf(text, "telemetry: {otlp: {endpoint: %q, service_name: %s}}\n", server.URL, node), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	var text strings.Builder
	s := newStory(&text, c)
	step := func(what string, err error) {
		t.Helper()
		if err != nil {
			var b strings.Builder
			for _, s := range spans.all() {
				fmt.Fprintln(&b, s)
			}
			t.Fatalf("%s: %v\n%s\n%s", what, err, &text, &b)
		}
	}
	step("open", c.open(ctx))
	step("order", s.order(ctx))
	step("the question", s.expect(ctx, a2a.StateInputRequired))
	step("the turn that asked", spans.until(ctx, "the turn of the supplier", func(s *seen) bool {
		return s.Name == "invoke_agent peer:supplier"
	}))
	s.say("", "kill -9 %d: %s", c.kill(buyer), buyer)
	step("start", c.start(ctx, buyer))
	step("answer", s.settle(ctx, buyer, "answer", "--data", `{"incoterm":"delivered"}`))
	step("the request", s.expect(ctx, a2a.StateAuthRequired))
	step("approve", s.settle(ctx, buyer, "approve", "--note", "within the budget"))
	step("the call", s.waits(ctx, gateway))
	step("approve the call", s.settle(ctx, gateway, "approve", "--note", "we need them"))
	step("the end", s.expect(ctx, a2a.StateCompleted))
	step("the last span", spans.until(ctx, "the last turn", func(s *seen) bool {
		return s.Name == "invoke_agent procurement" && s.attribute("a2a.task.state") == "TASK_STATE_COMPLETED"
	}))
	for _, last := range []string{"invoke_agent supplier", "invoke_agent finance", "tools/call draft_order"} {
		step(last, spans.until(ctx, last, func(s *seen) bool { return s.Name == last && s.attribute("handoff.turn") != "1" }))
	}

	// Whoever looked at the task of the buyer, from outside, has begun a trace.
	list := slices.DeleteFunc(spans.all(), func(s *seen) bool {
		looks := s.Name == "A2A SubscribeToTask" || s.Name == "A2A GetTask"
		return looks && s.service == buyer && s.Kind == otlp.Span_SPAN_KIND_SERVER && len(s.ParentSpanId) == 0
	})
	of, ways := paths(list)
	for _, s := range list {
		if s.trace() != list[0].trace() {
			t.Errorf("%s is in another trace", s)
		}
		text := fmt.Sprint(s.Attributes, s.Events, s.Status)
		for _, secret := range append(slices.Concat(c.keys[buyer], c.keys[finance]), "units of", "delivered", "within the budget", "hk_") {
			if _, value, ok := strings.Cut(secret, "="); ok {
				secret = value
			}
			if strings.Contains(text, secret) {
				t.Errorf("%s says %q: %s", s, secret, text)
			}
		}
	}
	const (
		root    = "buyer:A2A SendMessage"
		turn    = root + " > buyer:invoke_agent procurement "
		sell    = turn + "1 > buyer:invoke_agent peer:supplier "
		sold    = sell + "1 > buyer:A2A SendStreamingMessage > supplier:A2A SendStreamingMessage > supplier:"
		pay     = turn + "2 > buyer:invoke_agent peer:finance "
		paid    = pay + "1 > buyer:A2A SendStreamingMessage > finance:A2A SendStreamingMessage > finance:"
		draft   = turn + "3 > gateway:tools/call draft_order > gateway:"
		answers = "answer supplier:A2A SendStreamingMessage, "
	)
	for _, want := range []string{
		root,
		turn + "1",
		turn + "1 > gateway:tools/call get_stock_level > gateway:tools/call get_stock_level",
		sell + "1",
		sold + "invoke_agent supplier 1",
		sold + "wait input 1 [" + answers + "turn supplier:invoke_agent supplier 1]",
		sold + "invoke_agent supplier 2 [" + answers + "turn supplier:invoke_agent supplier 1, wait supplier:wait input 1]",
		turn + "1 > buyer:wait input 1 [turn buyer:invoke_agent peer:supplier 1]",
		sell + "2 [turn buyer:invoke_agent peer:supplier 1, wait buyer:wait input 1]",
		sell + "2 > buyer:A2A SendStreamingMessage > supplier:A2A SendStreamingMessage [turn supplier:invoke_agent supplier 1]",
		root + " > buyer:wait delegation 1 [turn buyer:invoke_agent procurement 1]",
		turn + "2 [turn buyer:invoke_agent procurement 1, wait buyer:wait delegation 1]",
		pay + "1",
		paid + "invoke_agent finance 1",
		turn + "3 [turn buyer:invoke_agent procurement 2, wait buyer:wait delegation 2]",
		draft + "tools/call draft_order",
		draft + "invoke_agent mcp:erp-draft 1",
		draft + "wait authorization 1 [turn gateway:invoke_agent mcp:erp-draft 1]",
		draft + "invoke_agent mcp:erp-draft 2 [turn gateway:invoke_agent mcp:erp-draft 1, wait gateway:wait authorization 1]",
	} {
		if of[want] == nil {
			t.Errorf("there is no %s", want)
		}
	}
	if t.Failed() {
		t.Log("\n" + ways)
	}
}
