package engine

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// The newest events of a watched task are kept for its watchers, up to these
// bounds. Whoever is further behind reads the store.
const (
	tailEvents = 512
	tailBytes  = 1 << 20
	readBytes  = 1 << 20 // of one read of the store
)

// hub brings committed events to the watchers of their task.
type hub struct {
	shards [64]shard
}

type shard struct {
	mu     sync.Mutex
	topics map[string]*topic
}

// topic is a task that somebody watches.
type topic struct {
	watchers int // guarded by the shard

	mu      sync.Mutex
	last    int64         // newest sequence number that was heard of
	ahead   bool          // last was heard of, and its event is not in the tail
	front   int64         // last, when it was not ahead
	absent  bool          // the task does not exist any more
	reading chan struct{} // held by the watcher that reads what was heard of
	tail    []store.Event // the newest events, without gaps, up to last
	bytes   int
	changed chan struct{} // closed at the next change
}

func (h *hub) shard(task string) *shard {
	var sum uint32
	for i := range len(task) {
		sum = sum*31 + uint32(task[i])
	}
	return &h.shards[sum%uint32(len(h.shards))]
}

// join returns the topic of a task; leave it when done.
func (h *hub) join(task string) *topic {
	s := h.shard(task)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[task]
	if t == nil {
		if s.topics == nil {
			s.topics = map[string]*topic{}
		}
		t = &topic{changed: make(chan struct{}), reading: make(chan struct{}, 1)}
		s.topics[task] = t
	}
	t.watchers++
	return t
}

func (h *hub) leave(task string, t *topic) {
	s := h.shard(task)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.watchers--; t.watchers == 0 {
		delete(s.topics, task)
	}
}

// publish tells the watchers of a task about committed events.
func (h *hub) publish(task string, events []store.Event) {
	if len(events) == 0 {
		return
	}
	if t := h.topic(task); t != nil {
		t.add(events)
	}
}

func (t *topic) add(events []store.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, last := events[0].Seq, events[len(events)-1].Seq
	if last <= t.last {
		return // overtaken by a later commit; watchers find it in the store
	}
	if first != t.last+1 {
		t.tail, t.bytes = nil, 0
	}
	t.last, t.ahead = last, false
	t.append(events)
	t.announce()
}

// append adds events to the tail, and drops the oldest when there are too many.
// t.mu is held.
func (t *topic) append(events []store.Event) {
	t.tail = append(t.tail, events...)
	for i := range events {
		t.bytes += len(events[i].Body)
	}
	drop := 0
	for len(t.tail)-drop > tailEvents || (t.bytes > tailBytes && len(t.tail)-drop > 1) {
		t.bytes -= len(t.tail[drop].Body)
		drop++
	}
	if drop > 0 {
		// A copy, so that what was dropped can be freed.
		t.tail = append(make([]store.Event, 0, len(t.tail)-drop), t.tail[drop:]...)
	}
}

// announce wakes those who wait for a change. t.mu is held.
func (t *topic) announce() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// heard says that a task has events up to a sequence number, in the store if
// not in the tail.
func (t *topic) heard(seq int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq <= t.last {
		return
	}
	if !t.ahead {
		t.front, t.ahead = t.last, true
	}
	t.last, t.tail, t.bytes = seq, nil, 0
	t.announce()
}

// shared reports whether a watcher that has seen up to seq lacks the same as the
// others, so that one of them reads it for all.
func (t *topic) shared(seq int64) (shared bool, last int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ahead && seq >= t.front, t.last
}

// fill takes events that a watcher has read of the store, so that the others who
// wait for the same need not.
func (t *topic) fill(events []store.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ahead || events[len(events)-1].Seq < t.last {
		return
	}
	t.ahead, t.last = false, events[len(events)-1].Seq
	t.append(events)
	t.announce()
}

// retract takes back what was heard of and the store does not have.
func (t *topic) retract(heard, last int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ahead && t.last == heard {
		t.last, t.ahead = last, false
	}
}

// heard tells the watchers of a task how far it has got.
func (h *hub) heard(task string, seq int64) {
	if t := h.topic(task); t != nil {
		t.heard(seq)
	}
}

// gone tells the watchers of a task that it does not exist any more.
func (h *hub) gone(task string) {
	t := h.topic(task)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.absent = true
	t.announce()
}

func (h *hub) topic(task string) *topic {
	s := h.shard(task)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topics[task]
}

// exists reports whether something was heard of the task: a new one is watched
// before it is committed.
func (t *topic) exists() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last > 0
}

func (t *topic) isAbsent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.absent
}

// tasks returns the tasks that are watched and exist.
func (h *hub) tasks() []string {
	var ids []string
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		for id, t := range s.topics {
			if t.exists() {
				ids = append(ids, id)
			}
		}
		s.mu.Unlock()
	}
	return ids
}

// after returns what is known of the events after a sequence number: the events
// themselves, or behind when they have to be read from the store, or neither
// and the channel that announces more.
func (t *topic) after(seq int64) (events []store.Event, behind bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last <= seq {
		return nil, false, t.changed
	}
	if len(t.tail) == 0 || t.tail[0].Seq > seq+1 {
		return nil, true, nil
	}
	return t.tail[seq+1-t.tail[0].Seq:], false, nil
}

// watcher follows the events of one task from a sequence number on.
type watcher struct {
	e     *Engine
	task  string
	key   int64 // of the row; 0 while the task is not committed
	topic *topic
	seq   int64           // of the last event that was returned
	cut   <-chan struct{} // ends the watching of a node that is stopping
	ready []store.Event
}

// watch follows a task until the node begins to stop. A blocking call sets cut to
// the end of the stopping: its task may well be done by then.
func (e *Engine) watch(task string) *watcher {
	e.cfg.Observer.Watchers(1)
	return &watcher{e: e, task: task, topic: e.hub.join(task), cut: e.drained}
}

// from sets the watcher to what follows an event, given the current row.
func (w *watcher) from(row *store.Task, seq int64) {
	w.key, w.seq = row.Key, seq
	w.topic.heard(row.Seq)
}

// close ends the watching; of a nil watcher too.
func (w *watcher) close() {
	if w != nil && w.topic != nil {
		w.e.hub.leave(w.task, w.topic)
		w.topic = nil
		w.e.cfg.Observer.Watchers(-1)
	}
}

// next returns the next event. The watcher can be used again after an error.
func (w *watcher) next(ctx context.Context) (*store.Event, error) {
	for len(w.ready) == 0 {
		events, behind, changed := w.topic.after(w.seq)
		switch {
		case behind:
			var err error
			if w.ready, err = w.read(ctx); err != nil {
				return nil, unavailable(err)
			}
		case events != nil:
			w.ready = events
		default:
			if w.topic.isAbsent() {
				return nil, a2a.TaskNotFound(w.task)
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-w.cut:
				return nil, ErrDraining
			}
		}
	}
	event := &w.ready[0]
	w.ready = w.ready[1:]
	w.seq = event.Seq
	return event, nil
}

// read returns the events that the tail does not have. Of the watchers that lack
// the same, one reads for all. While the store is away, they wait for it.
func (w *watcher) read(ctx context.Context) ([]store.Event, error) {
	shared, heard := w.topic.shared(w.seq)
	if shared {
		select {
		case w.topic.reading <- struct{}{}:
			defer func() { <-w.topic.reading }()
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.cut:
			return nil, ErrDraining
		}
		if events, behind, _ := w.topic.after(w.seq); !behind {
			return events, nil
		}
		_, heard = w.topic.shared(w.seq)
	}
	var events []store.Event
	err := w.e.patiently(ctx, w.cut, func() (err error) {
		events, err = w.e.store.Events(ctx, w.key, w.seq, readBytes)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(events) == 0:
		w.topic.retract(heard, w.seq)
	default:
		w.topic.fill(events)
	}
	return events, nil
}

// Frame is one element of a stream.
type Frame struct {
	// Seq is the sequence number of the event, and its SSE id; 0 for a
	// message, which has none.
	Seq int64
	// Body is a StreamResponse as JSON. It must not be modified.
	Body []byte
	// Last says that the stream ends with this frame.
	Last bool
}

// Stream delivers a task and then its events, each once and in order.
type Stream struct {
	watcher *watcher
	first   *Frame
	held    *store.Event // taken from the watcher, but not returned yet
	// until says whether the stream ends with an event of that state.
	until func(ctx context.Context, state a2a.TaskState) (bool, error)
	ended bool
}

// Next returns the next frame, and io.EOF after the last one. ErrDraining says
// that the node is stopping. When ctx ends, its error is returned, and the
// stream can be used again with another.
func (s *Stream) Next(ctx context.Context) (Frame, error) {
	if s.first != nil {
		frame := *s.first
		frame.Last = s.ended
		s.first = nil
		return frame, nil
	}
	for !s.ended {
		event := s.held
		if event == nil {
			var err error
			if event, err = s.watcher.next(ctx); err != nil {
				return Frame{}, err
			}
		}
		if event.Kind == store.KindMessage {
			continue
		}
		if event.Kind == store.KindStatus {
			// When until fails, the next call has to return this event still.
			s.held = event
			ended, err := s.until(ctx, stateOf(event.Body))
			if err != nil {
				return Frame{}, err
			}
			s.ended, s.held = ended, nil
		}
		return Frame{Seq: event.Seq, Body: event.Body, Last: s.ended}, nil
	}
	return Frame{}, io.EOF
}

// Ready reports whether Next has something to return without waiting, as far
// as is known without looking for news. It lets a binding send several frames
// at once.
func (s *Stream) Ready() bool {
	return s.first != nil || s.held != nil || s.ended ||
		slices.ContainsFunc(s.watcher.ready, func(e store.Event) bool { return e.Kind != store.KindMessage })
}

// Close frees what the stream holds. It may be called more than once.
func (s *Stream) Close() {
	if s.watcher != nil {
		s.watcher.close()
	}
}

var statusKey = []byte(`"status":{"state":"`)

// stateOf returns the state in the body of a status event, as statusBody wrote
// it: before the status come only ids, in which quotes are escaped.
func stateOf(body []byte) a2a.TaskState {
	_, rest, _ := bytes.Cut(body, statusKey)
	name, _, _ := bytes.Cut(rest, []byte{'"'})
	state, _ := a2a.ParseTaskState(string(name))
	return state
}
