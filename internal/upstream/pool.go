package upstream

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// connection is a process or a session of a server.
type connection interface {
	dead() bool
	stop(ctx context.Context)
}

// pool keeps the connections of one server by whose they are: each is opened on
// first use, at most so many at once, and closed when nobody has used it for a
// while.
type pool[C connection] struct {
	t    *target
	most int
	idle time.Duration

	mu     sync.Mutex
	slots  map[string]*slot[C]
	closed bool
	work   sync.WaitGroup // connections that are being closed
}

// slot is a place in a pool.
type slot[C connection] struct {
	pool  *pool[C]
	key   string
	ready chan struct{} // closed once conn or err is there
	conn  C
	err   error
	users int
	used  time.Time
	timer *time.Timer
}

func newPool[C connection](t *target, most int, idle time.Duration) *pool[C] {
	return &pool[C]{t: t, most: most, idle: idle, slots: map[string]*slot[C]{}}
}

// get returns a connection, which open makes where there is none. Who gets it
// calls release.
func (p *pool[C]) get(ctx context.Context, key string, open func(context.Context) (C, error)) (*slot[C], error) {
	for {
		s, mine, err := p.take(key)
		if err != nil {
			return nil, err
		}
		if mine {
			p.work.Go(func() { p.open(context.WithoutCancel(ctx), s, open) })
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			s.release()
			return nil, context.Cause(ctx)
		}
		switch {
		case s.err != nil:
			err := s.err
			s.release()
			return nil, err
		case s.conn.dead():
			p.drop(s)
			s.release()
			continue
		}
		return s, nil
	}
}

// open fills a slot.
func (p *pool[C]) open(ctx context.Context, s *slot[C], open func(context.Context) (C, error)) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*p.t.connect, &tooLong{2 * p.t.connect})
	defer cancel()
	s.conn, s.err = open(ctx)
	if s.err != nil {
		p.drop(s)
	}
	close(s.ready)
}

// take returns the slot of a key, and whether it has to be filled.
func (p *pool[C]) take(key string) (s *slot[C], mine bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false, p.t.unavailable(fmt.Errorf("it is being closed"))
	}
	if s = p.slots[key]; s != nil {
		s.users++
		if s.timer != nil {
			s.timer.Stop()
		}
		return s, false, nil
	}
	if len(p.slots) >= p.most && !p.evict() {
		return nil, false, p.t.refused("all of its programs or sessions are in use", fmt.Errorf("%d are", p.most))
	}
	s = &slot[C]{pool: p, key: key, ready: make(chan struct{}), users: 1}
	p.slots[key] = s
	return s, true, nil
}

// evict closes the connection that nobody has used for the longest time.
func (p *pool[C]) evict() bool {
	var oldest *slot[C]
	for _, s := range p.slots {
		if s.users == 0 && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	p.remove(oldest)
	return true
}

// remove takes out a slot that nobody uses, and closes its connection.
func (p *pool[C]) remove(s *slot[C]) {
	delete(p.slots, s.key)
	if s.timer != nil {
		s.timer.Stop()
	}
	p.work.Go(func() {
		<-s.ready
		if s.err == nil {
			s.conn.stop(context.Background())
		}
	})
}

// put gives a connection a slot that was opened beside the pool. It reports whether
// there was room.
func (p *pool[C]) put(key string, conn C) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.slots[key] != nil || len(p.slots) >= p.most && !p.evict() {
		return false
	}
	s := &slot[C]{pool: p, key: key, ready: make(chan struct{}), users: 1, conn: conn}
	close(s.ready)
	p.slots[key] = s
	p.letGo(s)
	return true
}

// drop takes out a slot whose connection is gone.
func (p *pool[C]) drop(s *slot[C]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots[s.key] == s {
		delete(p.slots, s.key)
	}
}

// release says that a connection is no longer used by who got it.
func (s *slot[C]) release() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.letGo(s)
}

func (p *pool[C]) letGo(s *slot[C]) {
	s.users--
	if s.users > 0 || p.slots[s.key] != s || p.closed {
		return
	}
	s.used = p.t.now()
	if s.timer != nil {
		s.timer.Reset(p.idle)
		return
	}
	s.timer = time.AfterFunc(p.idle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.users == 0 && p.slots[s.key] == s {
			p.remove(s)
		}
	})
}

// count returns how many connections there are.
func (p *pool[C]) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.slots)
}

// each calls a function for each connection that is open.
func (p *pool[C]) each(do func(key string, conn C, users int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, s := range p.slots {
		select {
		case <-s.ready:
			if s.err == nil {
				do(key, s.conn, s.users)
			}
		default:
		}
	}
}

// close closes all connections. Those that are in use are given until the end of
// the context.
func (p *pool[C]) close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	all := p.slots
	p.slots = map[string]*slot[C]{}
	for _, s := range all {
		if s.timer != nil {
			s.timer.Stop()
		}
		p.work.Go(func() {
			<-s.ready
			if s.err == nil {
				s.conn.stop(ctx)
			}
		})
	}
	p.mu.Unlock()
	p.work.Wait()
}
