// Package check holds the rules and the dashboard against the metrics of a node. It is
// a module of its own, since the parser of PromQL does not belong into the program.
package check

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/telemetry"
)

const dir = ".."

// query is an expression of PromQL, and where it stands.
type query struct{ at, text string }

// known are the metrics that there are, with their labels: those of the node, those that
// rules record, and those of Prometheus and of every process.
func known(t *testing.T) map[string][]string {
	t.Helper()
	of := map[string][]string{
		"up": nil, "process_resident_memory_bytes": nil,
	}
	for _, d := range telemetry.NewMetrics().Definitions() {
		if d.Kind != telemetry.Histogram {
			of[d.Name] = d.Labels
			continue
		}
		of[d.Name+"_sum"], of[d.Name+"_count"] = d.Labels, d.Labels
		of[d.Name+"_bucket"] = append([]string{"le"}, d.Labels...)
	}
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				of[r.Record] = nil
			}
		}
	}
	return of
}

func rules(t *testing.T) *rulefmt.RuleGroups {
	t.Helper()
	groups, errs := rulefmt.ParseFile(filepath.Join(dir, "rules.yaml"), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	return groups
}

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
	Grid struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	} `json:"gridPos"`
}

type dashboard struct {
	UID        string  `json:"uid"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

func board(t *testing.T) *dashboard {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	d := &dashboard{}
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Grafana puts these in before it asks Prometheus.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "6h", "$agent", ".*", "$instance", ".*")

func queries(t *testing.T) []query {
	t.Helper()
	var list []query
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			list = append(list, query{r.Record + r.Alert, r.Expr})
		}
	}
	for _, p := range board(t).Panels {
		for _, q := range p.Targets {
			list = append(list, query{"panel " + p.Title, variables.Replace(q.Expr)})
		}
	}
	return list
}

// Every expression can be read, and asks for metrics that there are, by labels that they
// have, with values that these can have.
func TestQueriesAskForWhatThereIs(t *testing.T) {
	metrics, used := known(t), map[string]bool{}
	everywhere := []string{labels.MetricName, "job", "instance"}
	for _, q := range queries(t) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(q.text)
		if err != nil {
			t.Errorf("%s: %v", q.at, err)
			continue
		}
		var all []string // labels of the metrics of the expression
		recorded := false
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			s, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			of, ok := metrics[s.Name]
			if !ok {
				t.Errorf("%s: there is no metric %s", q.at, s.Name)
				return nil
			}
			used[s.Name] = true
			recorded = recorded || strings.Contains(s.Name, ":")
			all = append(all, of...)
			for _, m := range s.LabelMatchers {
				if slices.Contains(everywhere, m.Name) {
					continue
				}
				if !slices.Contains(of, m.Name) {
					t.Errorf("%s: %s has no label %s", q.at, s.Name, m.Name)
				}
				values(t, q.at, m)
			}
			return nil
		})
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if a, ok := n.(*parser.AggregateExpr); ok {
				for _, l := range a.Grouping {
					if !recorded && !slices.Contains(all, l) && !slices.Contains(everywhere, l) {
						t.Errorf("%s: nothing has the label %s", q.at, l)
					}
				}
			}
			return nil
		})
	}
	// What nobody looks at is not worth counting, but for these.
	unused := []string{"handoff_nodes", "handoff_steps_total", "handoff_turns_total", "handoff_task_states_total", "handoff_bus_hints_total", "handoff_webhooks_in_flight", "handoff_inbox_oldest_seconds", "handoff_store_commit_changes"}
	for _, d := range telemetry.NewMetrics().Definitions() {
		if !used[d.Name] && !used[d.Name+"_bucket"] && !used[d.Name+"_count"] && !slices.Contains(unused, d.Name) && d.Name != "handoff_build_info" {
			t.Errorf("neither a rule nor a panel looks at %s", d.Name)
		}
	}
}

// sets are the values of labels that are the same for every node.
var sets = map[string][]string{
	"state":   states(),
	"outcome": {"ok", "refused", "OK", "failed", "resumed", "done", "retry", "dead", "gone"},
	"alive":   {"true", "false"},
	"kind":    {"question", "grant", "stuck", "call", "card", "login", "input", "output"},
	"limit":   {"passwords"},
	"code":    {a2a.CodeInternal.String(), a2a.CodeUnavailable.String()},
}

func states() []string {
	return []string{
		a2a.StateSubmitted.String(), a2a.StateWorking.String(), a2a.StateInputRequired.String(), a2a.StateAuthRequired.String(),
		a2a.StateCompleted.String(), a2a.StateFailed.String(), a2a.StateCanceled.String(), a2a.StateRejected.String(),
	}
}

// values checks the values that a matcher looks for.
func values(t *testing.T, at string, m *labels.Matcher) {
	t.Helper()
	set := sets[m.Name]
	if set == nil || m.Value == ".*" {
		return
	}
	for v := range strings.SplitSeq(m.Value, "|") {
		if !slices.Contains(set, v) {
			t.Errorf("%s: %s is never %q", at, m.Name, v)
		}
	}
}

// An alert says how urgent it is, what is the matter, and what to do.
func TestAlertsSayWhatToDo(t *testing.T) {
	names := map[string]bool{}
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			if names[r.Alert] || !strings.HasPrefix(r.Alert, "Handoff") {
				t.Errorf("%s is there twice, or has no name of its own", r.Alert)
			}
			names[r.Alert] = true
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: the severity is %q", r.Alert, s)
			}
			if r.Annotations["summary"] == "" || len(r.Annotations["runbook"]) < 80 {
				t.Errorf("%s does not say what to do", r.Alert)
			}
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d alerts", len(names))
	}
}

// Templates of an alert use labels that are left by its expression.
func TestAlertsNameLabelsThatTheyHave(t *testing.T) {
	label := regexp.MustCompile(`\$labels\.(\w+)`)
	recorded := map[string][]string{}
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				recorded[r.Record] = left(t, r.Expr, nil)
			}
		}
	}
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			has := left(t, r.Expr, recorded)
			for _, text := range r.Annotations {
				for _, m := range label.FindAllStringSubmatch(text, -1) {
					if !slices.Contains(has, m[1]) {
						t.Errorf("%s names the label %s, but has %v", r.Alert, m[1], has)
					}
				}
			}
		}
	}
}

// left returns the labels that an expression leaves.
func left(t *testing.T, text string, recorded map[string][]string) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		t.Fatal(err)
	}
	var of func(parser.Expr) []string
	of = func(e parser.Expr) []string {
		switch e := e.(type) {
		case *parser.AggregateExpr:
			return e.Grouping
		case *parser.BinaryExpr:
			if l := of(e.LHS); l != nil {
				return l
			}
			return of(e.RHS)
		case *parser.ParenExpr:
			return of(e.Expr)
		case *parser.SubqueryExpr:
			return of(e.Expr)
		case *parser.MatrixSelector:
			return of(e.VectorSelector)
		case *parser.Call:
			for _, a := range e.Args {
				if l := of(a); l != nil {
					return slices.DeleteFunc(slices.Clone(l), func(s string) bool { return e.Func.Name == "histogram_quantile" && s == "le" })
				}
			}
		case *parser.VectorSelector:
			if l, ok := recorded[e.Name]; ok {
				return l
			}
			return append([]string{"job", "instance"}, known(t)[e.Name]...)
		}
		return nil
	}
	return of(expr)
}

func TestTheDashboardIsWhole(t *testing.T) {
	d := board(t)
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.Grid.X+p.Grid.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d, %q, is not right", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, q := range d.Panels {
			if p.ID < q.ID && p.Grid.X < q.Grid.X+q.Grid.W && q.Grid.X < p.Grid.X+p.Grid.W && p.Grid.Y < q.Grid.Y+q.Grid.H && q.Grid.Y < p.Grid.Y+p.Grid.H {
				t.Errorf("%q is over %q", p.Title, q.Title)
			}
		}
	}
	ask := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := ask.FindStringSubmatch(v.Definition)
		of, ok := []string(nil), false
		if m != nil {
			of, ok = known(t)[m[1]]
		}
		if !ok || m[2] != "instance" && !slices.Contains(of, m[2]) {
			t.Errorf("the variable %s asks for %s", v.Name, v.Definition)
		}
	}
}

func TestTheConfigurationOfPrometheus(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(dir, "prometheus.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName string `yaml:"job_name"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.ScrapeConfigs) != 1 || c.ScrapeConfigs[0].JobName != "handoff" || len(c.RuleFiles) != 1 {
		t.Fatalf("got %+v", c)
	}
	if _, err := os.Stat(filepath.Join(dir, c.RuleFiles[0])); err != nil {
		t.Error(err)
	}
}

// A node that runs shows what the definitions say and nothing else, and everything that
// is there without work.
func TestANodeHasTheMetrics(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "handoff")
	build := exec.Command("go", "build", "-o", binary, "./cmd/handoff")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	home := t.TempDir()
	run := func(args ...string) *exec.Cmd {
		c := exec.Command(binary, args...)
		c.Dir = home
		return c
	}
	if out, err := run("init").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var said bytes.Buffer
	node := run("serve", "--listen", "127.0.0.1:0")
	node.Stderr = &said
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = node.Process.Kill()
		_ = node.Wait()
	})
	socket := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(home, "handoff.db.sock"))
	}}}
	var response *http.Response
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) { // until its socket is there
		var err error
		if response, err = socket.Get("http://node/metrics"); err == nil && response.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v: %s", err, said.String())
		}
	}
	defer response.Body.Close()
	text := expfmt.NewTextParser(model.UTF8Validation)
	families, err := text.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	list := telemetry.NewMetrics().Definitions()
	for name, f := range families {
		if !strings.HasPrefix(name, "handoff_") {
			continue
		}
		i := slices.IndexFunc(list, func(d telemetry.Definition) bool { return d.Name == name })
		if i < 0 {
			t.Errorf("the node has %s, which is not defined", name)
			continue
		}
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetName())
			}
			want := slices.Clone(list[i].Labels)
			slices.Sort(want)
			if !slices.Equal(has, want) {
				t.Errorf("%s has the labels %v, not %v", name, has, want)
			}
		}
	}
	for _, name := range []string{
		"handoff_build_info", "handoff_nodes", "handoff_turns_running", "handoff_turns_waiting", "handoff_store_away", "handoff_store_bytes", "handoff_inbox_open_items",
		"handoff_inbox_overdue_items", "handoff_webhooks_dead", "handoff_jobs_late_seconds", "handoff_audit_entries_lost_total", "handoff_leases_lost_total", "process_resident_memory_bytes",
	} {
		if families[name] == nil {
			t.Errorf("the node has no %s: %s", name, fmt.Sprint(len(families)))
		}
	}
}
