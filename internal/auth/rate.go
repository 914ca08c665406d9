package auth

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"handoff.example/handoff/a2a"
)

// LimitRequests is the name of the limit on requests, under a2a.MetadataLimit.
const LimitRequests = "requests"

// Rate is how often a caller may call: so many requests a second, and so many at
// once. The zero Rate is no limit.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Rates are the limits of requests.
type Rates struct {
	All   Rate          // of each caller
	Roles map[Role]Rate // of callers with a role, in place of All
}

// of returns the limit of a caller. Callers on this machine have none.
func (r *Rates) of(p *Principal) Rate {
	if limit, ok := r.Roles[p.Role]; ok {
		return limit
	}
	if p.Local {
		return Rate{}
	}
	return r.All
}

// Limited is an Authenticator that lets no caller call more often than it may:
// one with credentials by its tenant and subject, an anonymous one by its
// address. It counts on this node alone.
type Limited struct {
	Authenticator
	meter *Meter
	rates Rates
}

var _ Authenticator = (*Limited)(nil)

// Limit returns an authenticator that counts with a meter, which outlives it.
func (m *Meter) Limit(a Authenticator, rates Rates) *Limited { return &Limited{a, m, rates} }

// Authenticate returns the caller, unless it calls too often.
func (l *Limited) Authenticate(r *http.Request) (Principal, error) {
	p, err := l.Authenticator.Authenticate(r)
	if err != nil {
		return p, err
	}
	limit := l.rates.of(&p)
	if limit.PerSecond <= 0 {
		return p, nil
	}
	if wait := l.meter.take(callerOf(&p), limit); wait > 0 {
		return Principal{Address: p.Address}, &a2a.Error{
			Code: a2a.CodeResourceExhausted, Message: "Too many requests; try again later", RetryAfter: wait,
			Metadata: map[string]string{a2a.MetadataLimit: LimitRequests},
		}
	}
	return p, nil
}

// meteredCaller is what a caller is counted by.
type meteredCaller struct{ tenant, subject, address string }

func callerOf(p *Principal) meteredCaller {
	if p.Anonymous() {
		return meteredCaller{address: Peer(p.Address)}
	}
	return meteredCaller{tenant: p.Tenant, subject: p.Subject}
}

// Bounds of a meter.
const (
	meteredCallers = 100_000
	meteredAtFirst = 1_000 // before idle ones are looked for
)

// Meter counts the requests of callers, and forgets callers that are idle. It is
// safe for concurrent use.
type Meter struct {
	now func() time.Time

	mu      sync.Mutex
	callers map[meteredCaller]*rate.Limiter
	sweepAt int
}

// NewMeter returns a meter that has counted nothing.
func NewMeter() *Meter {
	return &Meter{now: time.Now, callers: map[meteredCaller]*rate.Limiter{}, sweepAt: meteredAtFirst}
}

// Take counts a request of a caller, or returns how long it is too early. A limit
// of zero is none.
func (m *Meter) Take(p *Principal, limit Rate) time.Duration {
	if limit.PerSecond <= 0 {
		return 0
	}
	return m.take(callerOf(p), limit)
}

// take counts a request, or returns how long it is too early.
func (m *Meter) take(c meteredCaller, limit Rate) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, burst := m.now(), max(limit.Burst, 1)
	limiter := m.callers[c]
	switch {
	case limiter == nil:
		if len(m.callers) >= m.sweepAt {
			m.forget(now)
		}
		limiter = rate.NewLimiter(rate.Limit(limit.PerSecond), burst)
		m.callers[c] = limiter
	case float64(limiter.Limit()) != limit.PerSecond || limiter.Burst() != burst: // the configuration has changed
		limiter.SetLimitAt(now, rate.Limit(limit.PerSecond))
		limiter.SetBurstAt(now, burst)
	}
	if limiter.AllowN(now, 1) {
		return 0
	}
	return max(time.Duration((1-limiter.TokensAt(now))/limit.PerSecond*float64(time.Second)), time.Millisecond)
}

// forget drops the callers that may call as often again as those that never did.
// When too many remain, some of them begin anew: a tenth of the room, so that it
// is seldom called.
func (m *Meter) forget(now time.Time) {
	for c, limiter := range m.callers {
		if limiter.TokensAt(now) >= float64(limiter.Burst()) {
			delete(m.callers, c)
		}
	}
	for c := range m.callers {
		if len(m.callers) <= meteredCallers*9/10 {
			break
		}
		delete(m.callers, c)
	}
	m.sweepAt = min(max(2*len(m.callers), meteredAtFirst), meteredCallers)
}
