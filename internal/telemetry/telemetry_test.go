package telemetry

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	m.TaskCreated("echo")
	m.StateChanged("echo", "TASK_STATE_COMPLETED")
	m.TurnStarted("echo", 1)
	m.TurnStarted("echo", 2)
	m.TurnEnded("echo", 30*time.Millisecond)
	m.Steps("echo", 3)
	m.Duplicate("echo")
	m.Watchers(2)
	m.Watchers(-1)
	m.Request("SendMessage", "OK", time.Millisecond)
	m.Commit(13, 2*time.Millisecond)
	m.WatchStock(func() []Stock {
		return []Stock{
			{Agent: "echo", State: "TASK_STATE_WORKING", Count: 4, Oldest: time.Now().Add(-time.Hour), Stale: 3},
			{Agent: "echo", State: "TASK_STATE_COMPLETED", Count: 9},
		}
	})
	m.WatchInbox(func() map[string]int { return map[string]int{"question": 2, "stuck": 0} })
	m.WatchBus(func() Bus { return Bus{Connected: true, Sent: 7, Heard: 6, Dropped: 5} })
	text := scrape(t, m)
	for _, want := range []string{
		`handoff_tasks_created_total{agent="echo"} 1`,
		`handoff_task_states_total{agent="echo",state="TASK_STATE_COMPLETED"} 1`,
		`handoff_turns_total{agent="echo"} 2`,
		`handoff_turn_attempts_total{agent="echo"} 1`,
		`handoff_turn_seconds_count{agent="echo"} 1`,
		`handoff_steps_total{agent="echo"} 3`,
		`handoff_duplicates_total{agent="echo"} 1`,
		`handoff_watchers 1`,
		`handoff_request_seconds_count{code="OK",operation="SendMessage"} 1`,
		`handoff_store_commit_seconds_count 1`,
		`handoff_store_commit_changes_sum 13`,
		`handoff_tasks{agent="echo",state="TASK_STATE_WORKING"} 4`,
		`handoff_tasks{agent="echo",state="TASK_STATE_COMPLETED"} 9`,
		`handoff_stale_tasks{agent="echo"} 3`,
		`handoff_inbox_open_items{kind="question"} 2`,
		`handoff_inbox_open_items{kind="stuck"} 0`,
		`handoff_bus_connected 1`,
		`handoff_bus_hints_total{what="sent"} 7`,
		`handoff_bus_hints_total{what="heard"} 6`,
		`handoff_bus_hints_total{what="dropped"} 5`,
		`handoff_oldest_task_seconds{agent="echo",state="TASK_STATE_WORKING"} 36`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, `handoff_oldest_task_seconds{agent="echo",state="TASK_STATE_COMPLETED"}`) {
		t.Error("the age of finished tasks is reported")
	}
}

func TestTracesReachACollector(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/", "/v1/traces"} {
		t.Run(path, func(t *testing.T) { reachesACollector(t, path) })
	}
}

func reachesACollector(t *testing.T, path string) {
	t.Parallel()
	got := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + r.Header.Get("X-Key") + " " + string(body)
	}))
	defer collector.Close()
	tracing, err := NewTracing(context.Background(), TraceConfig{
		Endpoint: collector.URL + path, Headers: map[string]string{"X-Key": "secret"}, Service: "node-7", Ratio: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracing.Tracer.Start(context.Background(), "turn")
	span.End()
	if err := tracing.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	text := <-got
	for _, want := range []string{"/v1/traces secret", "node-7", "turn"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

func TestNoTraces(t *testing.T) {
	t.Parallel()
	tracing, err := NewTracing(context.Background(), TraceConfig{})
	if err != nil || tracing.Tracer != nil {
		t.Errorf("got %v, %v", tracing, err)
	}
	if err := tracing.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}
