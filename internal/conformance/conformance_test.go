package conformance_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// taskTimeout is how long a task may take in tests; some have no end.
const taskTimeout = 2 * time.Second

// httpClient returns a client whose connections end with the test.
func httpClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestOurNodeConforms runs everything on our own node, and finds that every
// check was passed somewhere.
func TestOurNodeConforms(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	passed := map[string]bool{}
	t.Cleanup(func() { checkAllPassed(t, passed) })
	for _, test := range []struct {
		file, text string
		on         string // the only binding; "" is every one
		extensions []string
	}{
		{file: streaming},
		{file: streaming, text: "echo hello"},
		{file: streaming, text: "never", on: overRPC},
		{file: streaming, text: "never", on: overREST},
		{file: streaming, text: "never", on: overGRPC},
		{file: streaming, text: "ask"},
		{file: streaming, text: "message hello"},
		{file: streaming, text: "latefail"},
		{file: streaming, text: "reject"},
		{file: noStreaming, text: "slow 1"},
		{file: extension, text: "echo hello"},
		{file: both},
		{file: both, text: "echo hello", on: overRPC},
		{file: both, text: "ask", on: overRPC},
		{file: both, text: "message hello", on: overRPC},
		{file: bothNoStreaming, text: "slow 1", on: overRPC},
		{file: extension, text: "echo hello", extensions: []string{"https://fixture.handoff.example/extensions/required/v1"}},
	} {
		t.Run(test.file+" "+test.text+" "+test.on, func(t *testing.T) {
			t.Parallel()
			node := startNode(t, test.file)
			url := listen(t, node)
			t.Cleanup(func() { stop(node) })
			opts := conformance.Options{
				Reference: url + agentPath, Text: test.text, TaskTimeout: taskTimeout,
				Client: client.Options{HTTPClient: httpClient(t), Extensions: test.extensions},
			}
			if test.on != "" {
				opts.Client.Transports = []string{test.on}
			}
			report, err := conformance.Run(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			if !report.OK || !report.Complete || report.Refused || report.Passed == 0 {
				t.Errorf("ok %v, complete %v, refused %v, %d passed", report.OK, report.Complete, report.Refused, report.Passed)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range report.Results {
				switch r.Outcome {
				case conformance.Pass:
					passed[r.ID] = true
				case conformance.Skip:
				default:
					t.Errorf("%s %s over %s: sent %s, seen %s", r.Outcome, r.ID, r.Interface, r.Sent, r.Seen)
				}
			}
			for _, i := range report.Interfaces {
				if !i.Exercised && test.on == "" && (i.Version != "0.3" || i.Binding == overRPC) {
					t.Errorf("%s is not exercised: %s", i.Binding, i.Reason)
				}
			}
			want := map[bool]int{false: 3, true: 6}[strings.HasPrefix(test.file, "0.3")]
			if len(report.Interfaces) != want {
				t.Errorf("%d interfaces instead of %d", len(report.Interfaces), want)
			}
		})
	}
}

// checkAllPassed finds checks that no run has passed.
func checkAllPassed(t *testing.T, passed map[string]bool) {
	// What this agent has not: TestAuthentication and TestSignature look at it.
	elsewhere := map[string]bool{
		"auth.required": true, "auth.wrong": true, "auth.challenge": true, "extended.auth": true, "extended.card": true,
		"card.signature": true, "card.encrypted": true, "capability.push": true, "push.refused": true,
		"v03.auth": true,
	}
	for _, c := range conformance.Checks() {
		if !passed[c.ID] && !elsewhere[c.ID] {
			t.Errorf("%s was passed nowhere", c.ID)
		}
	}
}
