package ledger

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates of the receiver: pushes of one delegation, and wrong addresses that come
// from one host.
const (
	pushRate  = 20
	pushBurst = 100
	failRate  = 2
	failBurst = 30
)

// maxKept bounds what is remembered of requests.
const maxKept = 50_000

// recent remembers keys for a time. It is bounded: when it is full, those that
// end first are forgotten.
type recent struct {
	mu   sync.Mutex
	ends map[string]time.Time
}

func newRecent() *recent { return &recent{ends: map[string]time.Time{}} }

// has reports whether a key is remembered.
func (r *recent) has(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.ends[key])
}

// add remembers a key, and reports whether it was not remembered before.
func (r *recent) add(key string, keep time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Before(r.ends[key]) {
		return false
	}
	if len(r.ends) >= maxKept {
		r.forget(now)
	}
	r.ends[key] = now.Add(keep)
	return true
}

// forget drops what is over, and some more when that is not enough.
func (r *recent) forget(now time.Time) {
	for key, end := range r.ends {
		if !now.Before(end) {
			delete(r.ends, key)
		}
	}
	for key := range r.ends {
		if len(r.ends) < maxKept*9/10 {
			return
		}
		delete(r.ends, key)
	}
}

// meter bounds how often something happens by key.
type meter struct {
	mu   sync.Mutex
	keys map[string]*rate.Limiter
}

func newMeter() *meter { return &meter{keys: map[string]*rate.Limiter{}} }

func (m *meter) of(key string, perSecond rate.Limit, burst int) *rate.Limiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.keys[key]
	if l == nil {
		if len(m.keys) >= maxKept {
			for k, other := range m.keys {
				if other.Tokens() >= float64(other.Burst()) {
					delete(m.keys, k)
				}
			}
			if len(m.keys) >= maxKept {
				clear(m.keys)
			}
		}
		l = rate.NewLimiter(perSecond, burst)
		m.keys[key] = l
	}
	return l
}

// allow counts one more, and reports whether that is within the rate.
func (m *meter) allow(key string, perSecond rate.Limit, burst int) bool {
	return m.of(key, perSecond, burst).Allow()
}

// would reports whether one more is within the rate.
func (m *meter) would(key string, perSecond rate.Limit, burst int) bool {
	return m.of(key, perSecond, burst).Tokens() >= 1
}
