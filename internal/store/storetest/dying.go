package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"handoff.example/handoff/internal/store"
)

// Dying is a store whose process ends at a commit: that one and all after it are not
// made, or made and not heard of.
type Dying struct {
	store.Store
	commits atomic.Int64
	at      atomic.Int64 // 0: never
	after   atomic.Bool
	dead    chan struct{}
	once    sync.Once
}

// ErrDead is the error of a commit that nobody makes any more.
var ErrDead = fmt.Errorf("the process has died: %w", store.ErrUnavailable)

// NewDying returns a store that commits to another until it is told to die.
func NewDying(s store.Store) *Dying { return &Dying{Store: s, dead: make(chan struct{})} }

// DieAt lets the process end at the nth commit from now; with after, that one is made.
func (d *Dying) DieAt(n int64, after bool) {
	d.after.Store(after)
	d.at.Store(d.commits.Load() + n)
}

// Kill ends the process now.
func (d *Dying) Kill() {
	d.at.Store(1)
	d.once.Do(func() { close(d.dead) })
}

// Commits returns how many there were.
func (d *Dying) Commits() int64 { return d.commits.Load() }

// Dead is closed when the process has ended.
func (d *Dying) Dead() <-chan struct{} { return d.dead }

// Died reports whether the process has come to its last commit. What that commit has
// made can be seen before the process is dead, which is waited for.
func (d *Dying) Died() bool {
	if at := d.at.Load(); at == 0 || d.commits.Load() < at {
		return false
	}
	<-d.dead
	return true
}

// Commit makes the commits of a process that lives.
func (d *Dying) Commit(ctx context.Context, c *store.Change) error {
	n, at := d.commits.Add(1), d.at.Load()
	if at == 0 || n < at {
		return d.Store.Commit(ctx, c)
	}
	if n == at && d.after.Load() {
		_ = d.Store.Commit(ctx, c)
	}
	d.once.Do(func() { close(d.dead) })
	return ErrDead
}
