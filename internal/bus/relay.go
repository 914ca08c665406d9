package bus

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxWaiting is how many tasks may have a hint that waits, to be sent or to be
	// heard.
	maxWaiting = 1 << 15
	// keptWaiting is up to how many of them an emptied map is used again.
	keptWaiting = 1 << 10

	closeTimeout = time.Second     // for what waits when the bus is closed
	sendTimeout  = 5 * time.Second // after that a server is taken for dead
	restorePause = time.Second     // between two calls of Restored
)

// link is the way to the server of a bus.
type link interface {
	// limit is how many bytes a message may have, at least headerSize+maxHint.
	limit() int
	// send hands messages to the server and returns when it has them all. Without
	// messages it only sees to it that it could. It is called by one goroutine.
	send(ctx context.Context, messages [][]byte) error
	// server is where the server is: host:port.
	server() string
	// close ends the link after the last send. Nothing is received any more when
	// it returns.
	close()
}

// errAway is that of a send without a connection.
var errAway = errors.New("no server is connected")

// direction is one of the two ways of a link.
type direction int

const (
	incoming direction = iota
	outgoing
)

// relay is the part that all buses share: it gathers hints in both directions.
type relay struct {
	kind string
	opts Options
	self sender
	log  *reporter
	link link

	ctx     context.Context // until the last send
	cancel  context.CancelFunc
	closing chan struct{}
	once    sync.Once
	sending sync.WaitGroup // sendLoop
	hearing sync.WaitGroup // hearLoop

	out   waiting
	retry chan struct{} // the server may be back
	in    waiting

	sent, heard, dropped, malformed atomic.Uint64

	mu    sync.Mutex
	up    [2]bool // by direction
	since time.Time
}

func newRelay(kind string, o Options, log *reporter) *relay {
	r := &relay{
		kind: kind, opts: o, self: newSender(), log: log,
		closing: make(chan struct{}),
		out:     newWaiting(),
		in:      newWaiting(),
		retry:   make(chan struct{}, 1),
		since:   time.Now(),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// start begins to carry hints.
func (r *relay) start(l link) {
	r.link = l
	r.sending.Go(r.sendLoop)
	r.hearing.Go(r.hearLoop)
	r.out.ring() // to connect before the first hint
}

// Publish implements Bus.
func (r *relay) Publish(h Hint) {
	if !h.valid() || !r.out.add(h) {
		r.dropped.Add(1)
	}
}

// Close implements Bus.
func (r *relay) Close() error {
	r.once.Do(func() {
		r.out.close()
		close(r.closing)
		late := time.AfterFunc(closeTimeout, r.cancel)
		r.sending.Wait()
		late.Stop()
		r.cancel()
		r.link.close()
		r.hearing.Wait()
	})
	return nil
}

// State implements Reporter.
func (r *relay) State() State {
	s := State{
		Kind: r.kind, Server: r.link.server(),
		Sent: r.sent.Load(), Heard: r.heard.Load(), Dropped: r.dropped.Load(), Malformed: r.malformed.Load(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Connected, s.Since = r.up[incoming] && r.up[outgoing], r.since
	return s
}

// mark notes that a direction works, or does not.
func (r *relay) mark(d direction, up bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.up[incoming] && r.up[outgoing]
	r.up[d] = up
	if after := r.up[incoming] && r.up[outgoing]; after != before {
		r.since = time.Now()
	}
}

// back says that the server may have come back, so that what waits is tried at
// once.
func (r *relay) back() {
	select {
	case r.retry <- struct{}{}:
	default:
	}
}

// sendLoop sends what is published. While one batch is under way the next is
// gathered.
func (r *relay) sendLoop() {
	var e encoder
	var spare map[string]int64
	var pause backoff
	for {
		select {
		case <-r.out.bell:
		case <-r.closing:
			if batch, lost := r.out.take(nil); len(batch) > 0 || lost {
				if err := r.sendBatch(r.ctx, &e, batch, lost); err != nil {
					r.dropped.Add(uint64(len(batch)))
				}
			}
			return
		}
		began := time.Now()
		batch, lost := r.out.take(spare)
		ctx, cancel := context.WithTimeout(r.ctx, sendTimeout)
		err := r.sendBatch(ctx, &e, batch, lost)
		cancel()
		var rest time.Duration
		var retry chan struct{}
		if err == nil {
			pause.reset()
			rest = r.opts.Window - time.Since(began)
		} else {
			r.dropped.Add(uint64(r.out.putBack(batch, lost)))
			r.out.ring()
			rest, retry = pause.next(), r.retry
		}
		if spare = nil; len(batch) <= keptWaiting {
			clear(batch)
			spare = batch
		}
		r.rest(rest, retry)
	}
}

// sendBatch sends hints.
func (r *relay) sendBatch(ctx context.Context, e *encoder, batch map[string]int64, lost bool) error {
	if err := r.link.send(ctx, e.encode(r.self, batch, lost, r.link.limit())); err != nil {
		r.mark(outgoing, false)
		if !errors.Is(err, errAway) { // is told by the link
			r.log.seldom("hints cannot be sent", err, "server", r.link.server())
		}
		return err
	}
	r.mark(outgoing, true)
	r.sent.Add(uint64(len(batch)))
	return nil
}

// rest waits for a while, for a sign that it need not, or for the end.
func (r *relay) rest(d time.Duration, enough <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-enough:
	case <-r.closing:
	}
}

// receive takes a message from the server.
func (r *relay) receive(payload []byte) {
	m, err := decode(payload)
	if err != nil {
		r.refuse(err)
		return
	}
	if m.from == r.self {
		return
	}
	if m.lost {
		r.in.lose()
	}
	r.heard.Add(uint64(len(m.hints)))
	if n := r.in.addAll(m.hints); n > 0 {
		r.dropped.Add(uint64(n))
	}
}

// refuse counts a message that cannot be read.
func (r *relay) refuse(err error) {
	n := r.malformed.Add(1)
	r.log.seldom("message on the bus cannot be read", err, "malformed", n)
}

// restore has Restored called.
func (r *relay) restore() { r.in.lose() }

// hearLoop tells the owner what was received.
func (r *relay) hearLoop() {
	var spare map[string]int64
	var last time.Time
	var due <-chan time.Time
	for {
		var lost bool
		select {
		case <-r.closing:
			return
		case <-due:
			due, lost = nil, true
		case <-r.in.bell:
			var batch map[string]int64
			batch, lost = r.in.take(spare)
			if len(batch) > 0 {
				hints := make([]Hint, 0, len(batch))
				for task, seq := range batch {
					hints = append(hints, Hint{Task: task, Seq: seq})
				}
				r.opts.Heard(hints)
			}
			if spare = nil; len(batch) <= keptWaiting {
				clear(batch)
				spare = batch
			}
		}
		if !lost || due != nil {
			continue
		}
		if wait := restorePause - time.Since(last); !last.IsZero() && wait > 0 {
			due = time.After(wait)
			continue
		}
		last = time.Now()
		r.opts.Restored()
	}
}
