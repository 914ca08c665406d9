package check

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// samples is a file of tests of promtool.
type samples struct {
	RuleFiles []string     `yaml:"rule_files"`
	Interval  string       `yaml:"evaluation_interval"`
	Tests     []sampleTest `yaml:"tests"`
}

type sampleTest struct {
	Name     string         `yaml:"name"`
	Interval string         `yaml:"interval"`
	Input    []sampleSeries `yaml:"input_series"`
	Checks   []sampleCheck  `yaml:"promql_expr_test"`
}

type sampleSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

type sampleCheck struct {
	Expr string        `yaml:"expr"`
	At   string        `yaml:"eval_time"`
	Want []sampleAlert `yaml:"exp_samples"`
}

type sampleAlert struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

// healthy is the name of the test in which no alert fires.
const healthy = "healthy"

func alertSamples(t *testing.T) *samples {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := &samples{}
	if err := yaml.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// promtool runs tests of rules, and returns what it says.
func promtool(t *testing.T, file string) (string, error) {
	t.Helper()
	out, err := exec.Command("promtool", "test", "rules", file).CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("promtool is needed, of the package prometheus: %v", err)
	}
	return string(out), err
}

// Alerts fire on samples that mean trouble, and on healthy ones none does.
func TestAlertsOnSamples(t *testing.T) {
	t.Parallel()
	if out, err := promtool(t, filepath.Join(dir, "alerts_test.yaml")); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// metricsOf returns the metrics that an expression looks at, through what is recorded.
func metricsOf(t *testing.T, text string, recorded map[string]string) (names []string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		t.Fatal(err)
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			if of := recorded[s.Name]; of != "" {
				names = append(names, metricsOf(t, of, recorded)...)
			} else {
				names = append(names, s.Name)
			}
		}
		return nil
	})
	return names
}

// Every alert has a test of its own, in which it is silent first, and the healthy
// samples have all that it looks at.
func TestEveryAlertHasSamples(t *testing.T) {
	t.Parallel()
	s := alertSamples(t)
	tests := map[string]*sampleTest{}
	for i := range s.Tests {
		if tests[s.Tests[i].Name] != nil {
			t.Errorf("%s is there twice", s.Tests[i].Name)
		}
		tests[s.Tests[i].Name] = &s.Tests[i]
	}
	day := tests[healthy]
	if day == nil {
		t.Fatal("there is no healthy test")
	}
	if len(day.Checks) == 0 {
		t.Error("nothing is asked of the healthy samples")
	}
	for _, c := range day.Checks {
		if c.Expr != `ALERTS{alertstate="firing"}` || len(c.Want) > 0 {
			t.Errorf("the healthy samples are asked for %s", c.Expr)
		}
	}
	var there []string
	for _, in := range day.Input {
		of, err := parser.NewParser(parser.Options{}).ParseMetric(in.Series)
		if err != nil {
			t.Fatalf("%s: %v", in.Series, err)
		}
		there = append(there, of.Get(labels.MetricName))
	}
	alerts, recorded := alertRules(t)
	for _, r := range alerts {
		for _, name := range metricsOf(t, r.Expr, recorded) {
			if !slices.Contains(there, name) {
				t.Errorf("%s looks at %s, which the healthy samples do not have", r.Alert, name)
			}
		}
		of := tests[r.Alert]
		if of == nil {
			t.Errorf("%s has no samples on which it fires", r.Alert)
			continue
		}
		delete(tests, r.Alert)
		silent, fires := false, false
		for _, c := range of.Checks {
			if c.Expr != fmt.Sprintf(`ALERTS{alertname="%s",alertstate="firing"}`, r.Alert) {
				t.Errorf("the samples of %s are asked for %s", r.Alert, c.Expr)
			}
			silent = silent || len(c.Want) == 0
			for _, w := range c.Want {
				fires = fires || w.Value == 1 && strings.Contains(w.Labels, `severity="`+r.Labels["severity"]+`"`)
			}
		}
		if !silent || !fires {
			t.Errorf("%s: silent %t, fires %t", r.Alert, silent, fires)
		}
	}
	delete(tests, healthy)
	for name := range tests {
		t.Errorf("there is no alert %s", name)
	}
}

func alertRules(t *testing.T) (alerts []rulefmt.Rule, recorded map[string]string) {
	t.Helper()
	recorded = map[string]string{}
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				recorded[r.Record] = r.Expr
			} else {
				alerts = append(alerts, r)
			}
		}
	}
	return alerts, recorded
}

// The samples are no formality: an alert that can never fire, or that always does, does
// not pass.
func TestSamplesFindABrokenAlert(t *testing.T) {
	t.Parallel()
	s := alertSamples(t)
	i := slices.IndexFunc(s.Tests, func(one sampleTest) bool { return one.Name == healthy })
	short := s.Tests[i]
	short.Checks = short.Checks[:1]
	home := t.TempDir()
	for _, broken := range []struct {
		expr string
		test func(alert string) sampleTest
	}{
		{"vector(0) > 1", func(alert string) sampleTest {
			return s.Tests[slices.IndexFunc(s.Tests, func(one sampleTest) bool { return one.Name == alert })]
		}},
		{"vector(1)", func(string) sampleTest { return short }},
	} {
		alerts, _ := alertRules(t)
		for _, r := range alerts {
			groups := rules(t)
			for g := range groups.Groups {
				for j := range groups.Groups[g].Rules {
					if groups.Groups[g].Rules[j].Alert == r.Alert {
						groups.Groups[g].Rules[j].Expr = broken.expr
						groups.Groups[g].Rules[j].Annotations = nil
					}
				}
			}
			write(t, filepath.Join(home, "rules.yaml"), groups)
			write(t, filepath.Join(home, "tests.yaml"), &samples{RuleFiles: []string{"rules.yaml"}, Interval: s.Interval, Tests: []sampleTest{broken.test(r.Alert)}})
			if out, err := promtool(t, filepath.Join(home, "tests.yaml")); err == nil || !strings.Contains(out, "FAILED") || !strings.Contains(out, "exp") {
				t.Errorf("%s is %s, and nobody sees it: %v %s", r.Alert, broken.expr, err, out)
			}
		}
	}
}

func write(t *testing.T, name string, value any) {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
