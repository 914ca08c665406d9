package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
)

// Counter counts with a bound over all nodes. store.Docs is one.
type Counter interface {
	Spend(ctx context.Context, space, key string, amount, limit int64, until time.Time) (int64, error)
}

// SpaceBudget is the space of the store that budgets are counted in.
const SpaceBudget = "mcp.budget"

// Bounds of a guard.
const (
	meteredAtMost  = 100_000
	meteredAtFirst = 1_000 // before idle ones are looked for
)

// Guard counts calls: how often, how many at once and how much on a day. Rates and
// calls at once are those of this node. It is safe for concurrent use.
type Guard struct {
	counter Counter
	now     func() time.Time

	mu      sync.Mutex
	meters  map[metered]*rate.Limiter
	sweepAt int
	running map[Subject]int
}

// metered is who calls what.
type metered struct {
	tenant, subject, address string
	on                       Subject
}

// NewGuard returns a guard that has counted nothing. A nil now is time.Now.
func NewGuard(counter Counter, now func() time.Time) *Guard {
	if now == nil {
		now = time.Now
	}
	return &Guard{counter: counter, now: now, meters: map[metered]*rate.Limiter{}, sweepAt: meteredAtFirst, running: map[Subject]int{}}
}

// bare is what calls are counted by: it is the same tool in every set.
func (s Subject) bare() Subject {
	s.Set, s.Also = "", ""
	return s
}

// Admit takes a place for a call before its body is read. Release gives it back,
// once.
func (g *Guard) Admit(caller *auth.Principal, d *Decision) (release func(), err error) {
	if d.Denied {
		return nil, d.Reject()
	}
	if d.Rate == nil && d.Concurrency == 0 {
		return func() {}, nil
	}
	on := d.On.bare()
	g.mu.Lock()
	defer g.mu.Unlock()
	if d.Concurrency > 0 && g.running[on] >= d.Concurrency {
		return nil, &mcp.Error{Code: mcp.CodeRateLimited, Message: "Too many calls of this at once; try again later", RetryAfter: 1}
	}
	if d.Rate != nil {
		if wait := g.take(caller, d, on); wait > 0 {
			return nil, &mcp.Error{Code: mcp.CodeRateLimited, Message: "Too many calls of this; try again later", RetryAfter: max(1, int((wait+time.Second-1)/time.Second))}
		}
	}
	if d.Concurrency == 0 {
		return func() {}, nil
	}
	g.running[on]++
	var once sync.Once
	return func() {
		once.Do(func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.running[on]--; g.running[on] <= 0 {
				delete(g.running, on)
			}
		})
	}, nil
}

// take counts a call, or returns how long it is too early.
func (g *Guard) take(caller *auth.Principal, d *Decision, on Subject) time.Duration {
	who := metered{tenant: caller.Tenant, subject: caller.Subject, on: on}
	if caller.Anonymous() {
		who = metered{address: auth.Peer(caller.Address), on: on}
	}
	now, limit, burst := g.now(), rate.Limit(d.Rate.PerSecond), max(d.Rate.Burst, 1)
	limiter := g.meters[who]
	switch {
	case limiter == nil:
		if len(g.meters) >= g.sweepAt {
			g.forget(now)
		}
		limiter = rate.NewLimiter(limit, burst)
		g.meters[who] = limiter
	case limiter.Limit() != limit || limiter.Burst() != burst: // the configuration has changed
		limiter.SetLimitAt(now, limit)
		limiter.SetBurstAt(now, burst)
	}
	if limiter.AllowN(now, 1) {
		return 0
	}
	return max(time.Duration((1-limiter.TokensAt(now))/d.Rate.PerSecond*float64(time.Second)), time.Millisecond)
}

// forget drops meters that are as if they were new. When too many remain, some of
// them begin anew.
func (g *Guard) forget(now time.Time) {
	for who, limiter := range g.meters {
		if limiter.TokensAt(now) >= float64(limiter.Burst()) {
			delete(g.meters, who)
		}
	}
	for who := range g.meters {
		if len(g.meters) <= meteredAtMost*9/10 {
			break
		}
		delete(g.meters, who)
	}
	g.sweepAt = min(max(2*len(g.meters), meteredAtFirst), meteredAtMost)
}

// spent is one amount that is taken of a counter.
type spent struct {
	key    string
	amount int64
	limit  int64
	what   string // that is spent, for people
}

// Spend takes what a call costs of the budget of its caller for the day. It refuses
// with an *mcp.Error when there is not as much left. A call that is sent again with
// its idempotency key has paid.
func (g *Guard) Spend(ctx context.Context, caller *auth.Principal, d *Decision, o *Outcome) error {
	b := d.Budget
	if b == nil {
		return nil
	}
	var list []spent
	if o.Key != "" {
		list = append(list, spent{g.budgetKey(caller, d, "key "+o.Key), 1, 1, ""})
	}
	if b.Calls > 0 {
		list = append(list, spent{g.budgetKey(caller, d, "calls"), 1, b.Calls, fmt.Sprintf("%d calls", b.Calls)})
	}
	if b.Sum != nil && o.Amount > 0 {
		limit, err := units(b.Sum.Max)
		if err != nil {
			return err
		}
		list = append(list, spent{g.budgetKey(caller, d, "sum "+b.Sum.Argument), o.Amount, limit, fmt.Sprintf("%s comes to more than %v", b.Sum.Argument, b.Sum.Max)})
	}
	now := g.now().UTC()
	until := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.UTC)
	for i, one := range list {
		_, err := g.counter.Spend(ctx, SpaceBudget, one.key, one.amount, one.limit, until)
		if err == nil {
			continue
		}
		exceeded := errors.Is(err, store.ErrExceeded)
		if exceeded && one.what == "" {
			return nil // the same call
		}
		// The call is not made: what was taken goes back.
		for _, taken := range list[:i] {
			_, back := g.counter.Spend(ctx, SpaceBudget, taken.key, -taken.amount, taken.limit, until)
			err = errors.Join(err, back)
		}
		if exceeded {
			return &mcp.Error{
				Code: mcp.CodeBudget, Message: fmt.Sprintf("The budget of the day is spent: %s. It begins again at %s", one.what, until.Format(time.RFC3339)),
				RetryAfter: int(until.Sub(now)/time.Second) + 1, Err: err,
			}
		}
		return fmt.Errorf("count what %s costs: %w", d.On.Name, err)
	}
	return nil
}

// budgetKey is what is counted by: the caller, the tool and what of it.
func (g *Guard) budgetKey(caller *auth.Principal, d *Decision, what string) string {
	h := sha256.New()
	for _, part := range []string{caller.Tenant, caller.Subject, d.On.Server, string(d.On.Kind), d.On.Name, what} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return d.On.Server + "/" + hex.EncodeToString(h.Sum(nil))
}
