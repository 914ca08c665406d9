package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"handoff.example/handoff/a2a"
)

// trips is a way to a node that answers as a test says.
type trips func(*http.Request) (*http.Response, error)

func (f trips) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A node that is away for less than a minute does not end what waits for it.
func TestWatchGoesOnWhenTheNodeIsBack(t *testing.T) {
	t.Parallel()
	event := func(seq, state string) string {
		return `data: {"seq":` + seq + `,"event":{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_` + state + `"}}}}` + "\n\n"
	}
	for _, tt := range []struct {
		name   string
		away   time.Duration
		answer string // while it is away; "": none
		ends   bool
	}{
		{"restart", 4 * time.Second, "", true},
		{"behind a proxy", 30 * time.Second, `{"error":{"code":503,"status":"UNAVAILABLE","message":"away"}}`, true},
		{"for good", 24 * time.Hour, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, calls := time.Now(), 0
				answer := func(status int, body string) *http.Response {
					return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
				}
				node := &nodeAPI{name: "x.sock", base: "http://node", local: true, http: &http.Client{Transport: trips(func(r *http.Request) (*http.Response, error) {
					calls++
					switch {
					case calls == 1:
						return answer(200, event("1", "WORKING")), nil
					case time.Since(began) > tt.away:
						if !strings.Contains(r.URL.RawQuery, "after=1") {
							t.Errorf("it begins again: %s", r.URL)
						}
						return answer(200, event("2", "COMPLETED")), nil
					case tt.answer != "":
						return answer(503, tt.answer), nil
					}
					return nil, syscall.ECONNREFUSED
				})}}
				var errs strings.Builder
				a, events := &app{stderr: &errs}, 0
				err := a.watchTask(t.Context(), node, "t", func(*a2a.StreamResponse) (bool, error) { events++; return false, nil })
				if (err == nil) != tt.ends || tt.ends && events != 2 {
					t.Errorf("%d events: %v", events, err)
				}
				if strings.Count(errs.String(), "x.sock does not answer") != 1 {
					t.Errorf("it says %q", errs.String())
				}
				if took := time.Since(began); took > 75*time.Second || !tt.ends && (took < 30*time.Second || !errors.Is(err, syscall.ECONNREFUSED)) {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

func TestADelegationIsNamedByItsRef(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ref   string
		again bool
		want  string
	}{{"", false, "id-1"}, {"4711", false, "4711"}, {"order 1", false, "'order 1'"}, {"-x", false, "id-1"}, {"4711", true, "id-1"}} {
		c := &sendCommand{}
		c.delegation.ref, c.delegation.again = tt.ref, tt.again
		if got := c.handle("id-1"); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}
