package api

import (
	"strconv"
	"sync"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
)

// errFollows refuses one more that follows something.
var errFollows = &a2a.Error{
	Code: a2a.CodeResourceExhausted, RetryAfter: 5 * time.Second,
	Message:  "Too many logs are being followed; the limit is " + strconv.Itoa(maxFollows) + ". Close one, or ask now and then instead",
	Metadata: map[string]string{a2a.MetadataLimit: "follows"},
}

// errFollowsEach refuses one more to a caller who follows many things.
var errFollowsEach = &a2a.Error{
	Code: a2a.CodeResourceExhausted, RetryAfter: 5 * time.Second,
	Message:  "You follow too many logs at once; the limit for each caller is " + strconv.Itoa(maxFollowsEach) + ". Close one, or ask now and then instead",
	Metadata: map[string]string{a2a.MetadataLimit: "follows"},
}

// places are those of callers who follow something: so many in all, and for each
// caller who is no admin.
type places struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// follow takes a place.
func (p *places) follow(caller *auth.Principal) (release func(), err error) {
	who := caller.Tenant + "\x00" + caller.Subject
	if !caller.Named() {
		who = auth.Peer(caller.Address)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case caller.Role < auth.RoleAdmin && p.of[who] >= maxFollowsEach:
		return nil, errFollowsEach
	case p.all >= maxFollows:
		return nil, errFollows
	}
	p.all++
	p.of[who]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.of[who]--; p.of[who] == 0 {
			delete(p.of, who)
		}
	}, nil
}
