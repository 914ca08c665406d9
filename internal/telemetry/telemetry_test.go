package telemetry

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// busy returns metrics of which each has a value.
func busy() *Metrics {
	m := NewMetrics()
	m.TaskCreated("echo")
	m.StateChanged("echo", "TASK_STATE_COMPLETED")
	m.TaskEnded("echo", "TASK_STATE_COMPLETED", 90*time.Second)
	m.TurnStarted("echo", 1)
	m.TurnStarted("echo", 2)
	m.TurnEnded("echo", 30*time.Millisecond)
	m.TurnLimited("echo", "inactivity")
	m.TurnInterrupted("echo", true)
	m.TurnInterrupted("echo", false)
	m.Steps("echo", 3)
	m.Duplicate("echo")
	m.Watchers(2)
	m.Watchers(-1)
	m.LeaseLost()
	m.Request("SendMessage", "OK", time.Millisecond)
	m.Limited("passwords")
	m.Commit(13, 2*time.Millisecond)
	m.PushDelivered("echo", time.Millisecond)
	m.PushFailed("echo", "retry")
	m.PushInFlight(1)
	m.JobDone("wake", false, time.Millisecond)
	m.JobDone("wake", true, time.Millisecond)
	m.PeerCall("supplier", "ok", time.Second)
	m.ToolCall("erp", "get_stock", "OK", time.Millisecond)
	m.ModelCall("planner", "small", "ok", time.Second)
	m.ModelUsed("planner", "small", 100, 20, 0.5)
	m.ModelUsed("planner", "small", -1, -1, -1)
	m.ModelBudget("planner", "tokens")
	m.WatchBuild("v1.2.3")
	m.WatchNodes(func() (Nodes, bool) { return Nodes{Alive: 3, Dead: 1}, true })
	m.WatchStock("peer:", func() []Stock {
		return []Stock{
			{Agent: "echo", State: "TASK_STATE_WORKING", Count: 4, Oldest: time.Now().Add(-time.Hour), Stale: 3},
			{Agent: "echo", State: "TASK_STATE_COMPLETED", Count: 9},
			{Agent: "peer:supplier", State: "TASK_STATE_INPUT_REQUIRED", Count: 2},
		}
	})
	m.WatchLoad(func() Load { return Load{Running: 5, Waiting: 6, Away: true} })
	m.WatchInbox(func() []Items {
		return []Items{{Kind: "question", Open: 2, Overdue: 1, Oldest: time.Now().Add(-time.Hour)}, {Kind: "stuck"}}
	})
	m.WatchWebhooks(func() (Webhooks, bool) {
		return Webhooks{Waiting: 1, Oldest: time.Now().Add(-time.Hour), Dead: 2}, true
	})
	m.WatchBus(func() Bus { return Bus{Connected: true, Sent: 7, Heard: 6, Dropped: 5} })
	m.WatchAudit(func() int64 { return 8 })
	m.WatchJobs(func() (time.Time, bool) { return time.Now().Add(-time.Hour), true })
	m.WatchStoreSize(func() (int64, bool) { return 4096, true })
	m.WatchServers(func() map[string]bool { return map[string]bool{"erp": true, "books": false} })
	return m
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	text := scrape(t, busy())
	for _, want := range []string{
		`handoff_tasks_created_total{agent="echo"} 1`,
		`handoff_task_states_total{agent="echo",state="TASK_STATE_COMPLETED"} 1`,
		`handoff_task_seconds_sum{agent="echo",state="TASK_STATE_COMPLETED"} 90`,
		`handoff_turns_total{agent="echo"} 2`,
		`handoff_turn_attempts_total{agent="echo"} 1`,
		`handoff_turn_seconds_count{agent="echo"} 1`,
		`handoff_turn_limits_total{agent="echo",limit="inactivity"} 1`,
		`handoff_interrupted_turns_total{agent="echo",outcome="resumed"} 1`,
		`handoff_interrupted_turns_total{agent="echo",outcome="failed"} 1`,
		`handoff_steps_total{agent="echo"} 3`,
		`handoff_duplicates_total{agent="echo"} 1`,
		`handoff_watchers 1`,
		`handoff_leases_lost_total 1`,
		`handoff_request_seconds_count{code="OK",operation="SendMessage"} 1`,
		`handoff_store_commit_seconds_count 1`,
		`handoff_store_commit_changes_sum 13`,
		`handoff_job_seconds_count{kind="wake",outcome="failed"} 1`,
		`handoff_peer_call_seconds_sum{outcome="ok",peer="supplier"} 1`,
		`handoff_mcp_call_seconds_count{outcome="OK",server="erp",tool="get_stock"} 1`,
		`handoff_model_tokens_total{agent="planner",kind="input",model="small"} 100`,
		`handoff_model_tokens_total{agent="planner",kind="output",model="small"} 20`,
		`handoff_model_cost_total{agent="planner",model="small"} 0.5`,
		`handoff_model_budgets_reached_total{agent="planner",budget="tokens"} 1`,
		`handoff_build_info{version="v1.2.3"} 1`,
		`handoff_nodes{alive="true"} 3`,
		`handoff_nodes{alive="false"} 1`,
		`handoff_tasks{agent="echo",state="TASK_STATE_WORKING"} 4`,
		`handoff_tasks{agent="echo",state="TASK_STATE_COMPLETED"} 9`,
		`handoff_stale_tasks{agent="echo"} 3`,
		`handoff_delegations{peer="supplier",state="TASK_STATE_INPUT_REQUIRED"} 2`,
		`handoff_turns_running 5`,
		`handoff_turns_waiting 6`,
		`handoff_store_away 1`,
		`handoff_inbox_open_items{kind="question"} 2`,
		`handoff_inbox_open_items{kind="stuck"} 0`,
		`handoff_inbox_overdue_items{kind="question"} 1`,
		`handoff_inbox_oldest_seconds{kind="question"} 36`,
		`handoff_inbox_oldest_seconds{kind="stuck"} 0`,
		`handoff_webhooks_dead 2`,
		`handoff_bus_connected 1`,
		`handoff_bus_hints_total{what="sent"} 7`,
		`handoff_bus_hints_total{what="heard"} 6`,
		`handoff_bus_hints_total{what="dropped"} 5`,
		`handoff_audit_entries_lost_total 8`,
		`handoff_jobs_late_seconds 36`,
		`handoff_store_bytes 4096`,
		`handoff_mcp_server_up{server="erp"} 1`,
		`handoff_mcp_server_up{server="books"} 0`,
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

// The definitions are all metrics that there are, as they are.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	m := busy()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Definition{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), prefix) {
			continue
		}
		d := Definition{Name: f.GetName(), Kind: Kind(strings.ToLower(f.GetType().String())), Help: f.GetHelp()}
		for _, l := range f.GetMetric()[0].GetLabel() {
			d.Labels = append(d.Labels, l.GetName())
		}
		got[d.Name] = d
	}
	want := map[string]Definition{}
	for _, d := range m.Definitions() {
		d.Labels = slices.Clone(d.Labels)
		slices.Sort(d.Labels)
		if len(d.Labels) == 0 {
			d.Labels = nil
		}
		want[d.Name] = d
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
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
