package auth

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// LimitPasswords is the name of the limit on wrong passwords, under
// a2a.MetadataLimit.
const LimitPasswords = "passwords"

// How often one address may show a wrong password: so many at once, and then one
// in so much time.
const (
	wrongAtOnce  = 10
	wrongEvery   = 6 * time.Second
	limitedPeers = 10_000
)

// failures counts what goes wrong by the address that it comes from, and holds
// who guesses back. It is safe for concurrent use.
type failures struct {
	now    func() time.Time
	atOnce int

	mu     sync.Mutex
	peers  map[string]*rate.Limiter
	trying map[string]int // tries whose outcome is not known yet
}

func newFailures() *failures {
	return &failures{now: time.Now, atOnce: wrongAtOnce, peers: map[string]*rate.Limiter{}, trying: map[string]int{}}
}

// Peer returns what a client is counted by: its address, or its network of 64
// bits, in which it can have any address that it likes.
func Peer(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Is4() {
		return address
	}
	prefix, _ := a.Prefix(64) // of an address that has as many bits
	return prefix.String()
}

// begin lets a client try, or returns for how long it has to wait before it is
// listened to. A try counts as a failure until it has ended, so that many at once
// are no more than one after the other.
func (f *failures) begin(address string) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	peer, tokens := Peer(address), float64(f.atOnce)
	if limiter := f.peers[peer]; limiter != nil {
		tokens = limiter.TokensAt(f.now())
	}
	tokens -= float64(f.trying[peer])
	if tokens < 1 {
		return time.Duration((1 - tokens) * float64(wrongEvery))
	}
	f.trying[peer]++
	return 0
}

// end notes what came of a try.
func (f *failures) end(address string, wrong bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, peer := f.now(), Peer(address)
	if f.trying[peer]--; f.trying[peer] <= 0 {
		delete(f.trying, peer)
	}
	if !wrong {
		return
	}
	limiter := f.peers[peer]
	if limiter == nil {
		if len(f.peers) >= limitedPeers {
			f.forget(now)
		}
		limiter = rate.NewLimiter(rate.Every(wrongEvery), f.atOnce)
		f.peers[peer] = limiter
	}
	limiter.AllowN(now, 1)
}

// forget drops the clients that may do anything again, and any others until a
// tenth of the room is free, so that it is seldom called.
func (f *failures) forget(now time.Time) {
	for peer, limiter := range f.peers {
		if limiter.TokensAt(now) >= float64(f.atOnce) {
			delete(f.peers, peer)
		}
	}
	for peer := range f.peers {
		if len(f.peers) <= limitedPeers*9/10 {
			return
		}
		delete(f.peers, peer)
	}
}
