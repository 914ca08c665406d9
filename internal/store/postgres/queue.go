package postgres

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/internal/store"
)

const maxBatchBytes = 8 << 20

// op is one change that waits to be committed.
type op struct {
	change *store.Change
	size   int
	err    error
	done   chan struct{}
}

func newOp(c *store.Change) *op { return &op{change: c, done: make(chan struct{}, 1)} }

var ops = sync.Pool{New: func() any { return newOp(nil) }}

// queue hands changes to the committers.
type queue struct {
	limit   int
	observe func(int, time.Duration)

	closing sync.RWMutex // held for reading while something is put in
	closed  bool
	waiting chan *op
	ended   chan struct{} // closed with the queue

	connected atomic.Int32 // committers that have a connection

	running sync.WaitGroup
}

func newQueue(config *pgx.ConnConfig, opts *Options, wrote func()) *queue {
	q := &queue{
		limit:   opts.Batch,
		observe: opts.Observe,
		waiting: make(chan *op, opts.Batch),
		ended:   make(chan struct{}),
	}
	realms := &realmIDs{}
	for range opts.Committers {
		c := &committer{config: config, queue: q, realms: realms, resolve: opts.Resolve, wrote: wrote}
		q.running.Go(c.loop)
	}
	return q
}

// Commit makes a change durable, together with those that wait at the same
// time. See the package about a connection that breaks meanwhile.
func (s *Store) Commit(ctx context.Context, c *store.Change) error {
	size := 0
	for i := range c.Events {
		size += len(c.Events[i].Body)
	}
	leave, err := s.gate.enter()
	if err != nil {
		return err
	}
	o := ops.Get().(*op)
	o.change, o.size = c, size
	if err := s.queue.put(ctx, o); err != nil {
		leave(context.Canceled)
		return err
	}
	<-o.done
	err = o.err
	leave(err)
	o.change, o.err, o.size = nil, nil, 0
	ops.Put(o)
	return err
}

func (q *queue) put(ctx context.Context, o *op) error {
	q.closing.RLock()
	defer q.closing.RUnlock()
	if q.closed {
		return errClosed
	}
	if ctx.Err() != nil {
		return unavailable(context.Cause(ctx))
	}
	select {
	case q.waiting <- o:
		return nil
	case <-ctx.Done():
		return unavailable(context.Cause(ctx))
	}
}

// stop refuses new changes and waits for those under way.
func (q *queue) stop() {
	q.closing.Lock()
	q.closed = true
	close(q.waiting)
	close(q.ended)
	q.closing.Unlock()
	q.running.Wait()
}

func (q *queue) isClosed() bool {
	select {
	case <-q.ended:
		return true
	default:
		return false
	}
}

// gather adds what waits to a batch, within its bounds.
func (q *queue) gather(batch []*op) []*op {
	size := batch[0].size
	seen := 0
	for len(batch) < q.limit && size < maxBatchBytes {
		select {
		case o, ok := <-q.waiting:
			if !ok {
				return batch
			}
			batch = append(batch, o)
			size += o.size
		default:
			if seen == len(batch) {
				return batch
			}
			// Those that the last commit woke are about to bring their next
			// change: let them, as long as any comes.
			seen = len(batch)
			runtime.Gosched()
		}
	}
	return batch
}

// refuse answers what waits with an error.
func (q *queue) refuse(err error) {
	for {
		select {
		case o, ok := <-q.waiting:
			if !ok {
				return
			}
			o.err = err
			o.done <- struct{}{}
		default:
			return
		}
	}
}
