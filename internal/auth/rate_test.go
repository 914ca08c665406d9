package auth

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
)

// fixed is always the same caller.
type fixed struct{ p *Principal }

func (f fixed) Authenticate(*http.Request) (Principal, error) { return *f.p, nil }

// meterAt returns a meter and what sets its clock forward.
func meterAt() (*Meter, func(time.Duration)) {
	m := NewMeter()
	now := time.UnixMilli(1_700_000_000_000)
	m.now = func() time.Time { return now }
	return m, func(d time.Duration) { now = now.Add(d) }
}

func TestLimitedCallers(t *testing.T) {
	t.Parallel()
	m, pass := meterAt()
	who := Principal{}
	l := m.Limit(fixed{&who}, Rates{All: Rate{PerSecond: 2, Burst: 3}, Roles: map[Role]Rate{RoleOperator: {}, RoleViewer: {PerSecond: 1, Burst: 1}}})
	calls := func(p Principal, n int) (allowed int, wait time.Duration) {
		who = p
		for range n {
			_, err := l.Authenticate(httptest.NewRequest("GET", "/", nil))
			if err == nil {
				allowed++
				continue
			}
			e, ok := errors.AsType[*a2a.Error](err)
			if !ok || e.Code != a2a.CodeResourceExhausted || e.Metadata[a2a.MetadataLimit] != LimitRequests {
				t.Fatalf("refused with %v", err)
			}
			wait = e.RetryAfter
		}
		return allowed, wait
	}
	ann := Principal{Subject: "ann", Role: RoleCaller}
	for _, test := range []struct {
		name string
		p    Principal
		want int
	}{
		{"ann", ann, 3},
		{"ann with another address", Principal{Subject: "ann", Role: RoleCaller, Address: "192.0.2.9"}, 0},
		{"ann of a tenant", Principal{Subject: "ann", Tenant: "acme", Role: RoleCaller}, 3},
		{"a viewer", Principal{Subject: "eve", Role: RoleViewer}, 1},
		{"an operator", Principal{Subject: "op", Role: RoleOperator}, 9},
		{"somebody", Principal{Role: RoleCaller, Address: "192.0.2.1"}, 3},
		{"somebody else", Principal{Role: RoleCaller, Address: "192.0.2.2"}, 3},
		{"somebody in a network", Principal{Role: RoleCaller, Address: "2001:db8::1"}, 3},
		{"a neighbour", Principal{Role: RoleCaller, Address: "2001:db8::ffff"}, 0},
		{"somebody on this machine", Principal{Role: RoleCaller, Address: "127.0.0.1", Local: true}, 9},
	} {
		if got, _ := calls(test.p, 9); got != test.want {
			t.Errorf("%s may call %d times, want %d", test.name, got, test.want)
		}
	}
	_, wait := calls(ann, 1)
	if wait <= 0 || wait > 500*time.Millisecond {
		t.Errorf("ann has to wait for %v, want half a second", wait)
	}
	if pass(wait + time.Millisecond); true {
		if got, _ := calls(ann, 2); got != 1 {
			t.Errorf("ann may call %d times after that, want once", got)
		}
	}
	l = m.Limit(fixed{&who}, Rates{All: Rate{PerSecond: 100, Burst: 50}}) // a reload
	if got, _ := calls(ann, 3); got != 0 {
		t.Errorf("a reload has given ann %d calls at once", got)
	}
	pass(time.Second)
	if got, _ := calls(ann, 99); got != 50 {
		t.Errorf("ann may call %d times by the new limit, want 50", got)
	}
}

func TestMeterForgets(t *testing.T) {
	t.Parallel()
	m, pass := meterAt()
	limit := Rate{PerSecond: 1, Burst: 1}
	for i := range 3 * meteredAtFirst {
		m.take(meteredCaller{subject: fmt.Sprint(i)}, limit)
	}
	if n := len(m.callers); n != 3*meteredAtFirst {
		t.Errorf("%d callers are known, want all that are not idle", n)
	}
	pass(2 * time.Second)
	for i := range 2 * meteredAtFirst {
		m.take(meteredCaller{subject: fmt.Sprint("late", i)}, limit)
	}
	if n := len(m.callers); n > 3*meteredAtFirst {
		t.Errorf("%d callers are known, and idle ones among them", n)
	}
	for i := range meteredCallers + 2*meteredAtFirst {
		m.take(meteredCaller{address: fmt.Sprint(i)}, limit)
	}
	if n := len(m.callers); n > meteredCallers {
		t.Errorf("%d callers are known, more than the bound", n)
	}
}
