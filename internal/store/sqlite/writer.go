package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

const (
	maxBatchBytes = 8 << 20
	maxCachedRows = 4096
	maxCachedIDs  = 16384
)

// op is one change, or another piece of work for the writer.
type op struct {
	change *store.Change
	do     func(w *writer, at time.Time) error
	size   int
	err    error
	done   chan struct{}
}

var ops = sync.Pool{New: func() any { return &op{done: make(chan struct{}, 1)} }}

// clock are the counters of the store; see the table of that name.
type clock struct {
	at    int64
	rev   int64
	key   int64
	realm int64
	job   int64
	epoch int64
}

// writer owns the connection that writes. All its fields but the queue belong
// to the goroutine that runs loop.
type writer struct {
	conn    *conn
	now     func() time.Time
	observe func(int, time.Duration)
	limit   int

	closing sync.RWMutex // held for reading while something is put in the queue
	closed  bool
	queue   chan *op
	stopped chan struct{}

	clock  clock // as of this transaction
	rows   map[int64]*record.Row
	realms map[realm]int64
	counts counts
	frame  []byte
}

func newWriter(c *conn, opts *Options) (*writer, error) {
	w := &writer{
		conn:    c,
		now:     opts.Now,
		observe: opts.Observe,
		limit:   opts.Batch,
		queue:   make(chan *op, opts.Batch),
		stopped: make(chan struct{}),
	}
	w.forget()
	if err := w.loadClock(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *writer) loadClock() error {
	found, err := w.conn.one(func(v values) {
		w.clock = clock{at: integer(v[0]), rev: integer(v[1]), key: integer(v[2]), realm: integer(v[3]), job: integer(v[4]), epoch: integer(v[5])}
	}, "SELECT at, rev, key, realm, job, epoch FROM clock")
	if err == nil && !found {
		err = errors.New("the store has no clock")
	}
	return err
}

// forget drops what is remembered of the tables.
func (w *writer) forget() {
	w.rows = map[int64]*record.Row{}
	w.realms = map[realm]int64{}
	w.counts.clear()
}

// Commit makes a change durable, together with those that wait at the same
// time.
func (s *Store) Commit(ctx context.Context, c *store.Change) error {
	size := 0
	for i := range c.Events {
		size += len(c.Events[i].Body)
	}
	o := ops.Get().(*op)
	o.change, o.size = c, size
	return s.writer.put(ctx, o)
}

// write runs do in a transaction of the writer. When it returns an error that
// is not of this package's kinds of refusal, what it wrote is undone.
func (s *Store) write(ctx context.Context, do func(w *writer, at time.Time) error) error {
	o := ops.Get().(*op)
	o.do = do
	return s.writer.put(ctx, o)
}

// put hands work to the writer and waits until it is committed. The end of ctx
// counts only before that.
func (w *writer) put(ctx context.Context, o *op) error {
	if err := w.enqueue(ctx, o); err != nil {
		return err
	}
	<-o.done
	err := o.err
	o.change, o.do, o.err, o.size = nil, nil, nil, 0
	ops.Put(o)
	return err
}

func (w *writer) enqueue(ctx context.Context, o *op) error {
	w.closing.RLock()
	defer w.closing.RUnlock()
	if w.closed {
		return errClosed
	}
	if ctx.Err() != nil {
		return unavailable(context.Cause(ctx))
	}
	select {
	case w.queue <- o:
		return nil
	case <-ctx.Done():
		return unavailable(context.Cause(ctx))
	}
}

// stop refuses new work and waits for what is under way.
func (w *writer) stop() {
	w.closing.Lock()
	w.closed = true
	close(w.queue)
	w.closing.Unlock()
	<-w.stopped
}

// loop commits what is in the queue until it is closed.
func (w *writer) loop() {
	defer close(w.stopped)
	batch := make([]*op, 0, w.limit)
	for first := range w.queue {
		batch = w.gather(append(batch[:0], first))
		began := time.Now()
		w.commit(batch)
		if w.observe != nil {
			w.observe(len(batch), time.Since(began))
		}
		for i, o := range batch {
			o.done <- struct{}{}
			batch[i] = nil
		}
	}
}

// gather adds what waits to a batch, within its bounds.
func (w *writer) gather(batch []*op) []*op {
	size := batch[0].size
	seen := 0
	for len(batch) < w.limit && size < maxBatchBytes {
		select {
		case o, ok := <-w.queue:
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

// commit commits a batch. When one of it spoils the transaction for all, each
// gets one of its own.
func (w *writer) commit(batch []*op) {
	err := w.transact(batch)
	if err == nil {
		return
	}
	if len(batch) > 1 && isPoison(err) {
		for i := range batch {
			w.commit(batch[i : i+1])
		}
		return
	}
	if isConstraint(err) {
		err = fmt.Errorf("%w: %w", store.ErrConflict, err)
	} else {
		err = unavailable(err)
	}
	for _, o := range batch {
		o.err = err
	}
}

// transact applies a batch in one transaction. An error says that nothing of
// it was kept.
func (w *writer) transact(batch []*op) error {
	before := w.clock
	err := w.fill(batch)
	if err != nil {
		w.clock = before
		w.forget()
		_, _ = w.conn.run("ROLLBACK") // many errors have ended it already
	}
	return err
}

func (w *writer) fill(batch []*op) error {
	if _, err := w.conn.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	w.clock.at = max(w.clock.at, w.now().UnixMilli())
	at := time.UnixMilli(w.clock.at).UTC()
	for _, o := range batch {
		o.err = nil
		var err error
		if o.change != nil {
			err = w.apply(o.change, at)
		} else {
			err = o.do(w, at)
		}
		if r, ok := errors.AsType[refusal](err); ok {
			o.err = r.error
		} else if err != nil {
			return err
		}
	}
	if err := w.counts.flush(w.conn); err != nil {
		return err
	}
	c := &w.clock
	if _, err := w.conn.run("UPDATE clock SET at=?, rev=?, key=?, realm=?, job=?, epoch=?", c.at, c.rev, c.key, c.realm, c.job, c.epoch); err != nil {
		return err
	}
	_, err := w.conn.run("COMMIT")
	return err
}

// refusal is an error that was found before anything was written.
type refusal struct{ error }
