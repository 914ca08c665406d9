package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"time"

	"handoff.example/handoff/a2a"
)

// Limits of WaitOptions that hold where it names none.
const (
	DefaultInterval    = time.Second
	DefaultMaxInterval = 30 * time.Second
	DefaultMaxFailures = 10
)

// answerTime is how long an agent may be silent after it has begun the stream of
// an answer with the task as it was before that.
const answerTime = 5 * time.Second

// maxRetryAfter bounds how long a peer may have us wait for the next try.
const maxRetryAfter = 10 * time.Minute

// WaitOptions say how to wait for a task. The zero value is ready to use.
type WaitOptions struct {
	// Poll asks for the task again and again, also where it could be
	// subscribed to.
	Poll bool
	// Interval is the time between two polls at first; it grows by half with
	// each, up to MaxInterval. The defaults are DefaultInterval and
	// DefaultMaxInterval. A peer's Retry-After is obeyed up to ten minutes.
	Interval    time.Duration
	MaxInterval time.Duration
	// MaxFailures is how many calls in a row may fail before Wait gives up: 0
	// is DefaultMaxFailures, negative is no limit. Errors that another try
	// cannot mend end it at once.
	MaxFailures int
	// HistoryLength is that of GetTask.
	HistoryLength *int
	// OnEvent is called with every event, and with a Task for every poll.
	OnEvent func(*a2a.StreamResponse)
}

// Wait returns the task when it is in a terminal or interrupted state. It
// subscribes when the card declares streaming, and polls otherwise or when the
// stream fails. After a subscription that brought chunks and no event ids it asks
// for the task once more: some agents tell chunks twice. It sends no message. With
// an error it returns the task as it was last seen, or nil.
func (c *Client) Wait(ctx context.Context, taskID string, opts WaitOptions) (*a2a.Task, error) {
	w := c.newWaiter(taskID, opts)
	return w.run(ctx, c.Streams() && !opts.Poll)
}

// SendAndWait sends a message and waits as Wait does when the answer is a task
// that is neither over nor interrupted. The interrupted task that some agents begin
// the stream of an answer with is none, unless nothing else comes for a few seconds.
// It sends once and never again: when the send itself fails, nobody knows what
// became of it.
func (c *Client) SendAndWait(ctx context.Context, req *a2a.SendMessageRequest, opts WaitOptions) (*a2a.SendMessageResponse, error) {
	if opts.Poll || !c.Streams() {
		answer, err := c.SendMessage(ctx, req)
		if err != nil || answer.Task == nil || settled(answer.Task) {
			return answer, err
		}
		w := c.newWaiter(answer.Task.ID, opts)
		w.seen.Task = answer.Task
		task, err := w.run(ctx, false)
		return &a2a.SendMessageResponse{Task: task}, err
	}
	stream, err := c.SendStreamingMessage(ctx, req)
	if err != nil {
		return nil, err
	}
	w := c.newWaiter("", opts)
	err = w.follow(stream, req.Message != nil && req.Message.TaskID != "")
	switch {
	case w.seen.Message != nil:
		return &a2a.SendMessageResponse{Message: w.seen.Message}, nil
	case w.seen.Task == nil:
		return nil, err
	case err != nil && !lost(err):
		return &a2a.SendMessageResponse{Task: w.seen.Task}, err
	case err == nil:
		return &a2a.SendMessageResponse{Task: w.seen.Task}, nil
	}
	w.taskID = w.seen.Task.ID
	task, err := w.run(ctx, true)
	return &a2a.SendMessageResponse{Task: task}, err
}

func settled(t *a2a.Task) bool { return t.Status.State.Terminal() || t.Status.State.Interrupted() }

// lost reports whether a stream failed in a way that leaves the task to be
// asked about by other means.
func lost(err error) bool { return errors.Is(err, ErrStreamCut) || transient(err) }

// waiter waits for one task.
type waiter struct {
	client   *Client
	taskID   string
	opts     WaitOptions
	seen     Accumulator
	cursor   string // id of the last event
	delay    time.Duration
	retry    time.Duration // what the last stream asked for
	failures int           // calls in a row that failed
	doubtful bool          // a chunk may be there twice
}

func (c *Client) newWaiter(taskID string, opts WaitOptions) *waiter {
	if opts.Interval <= 0 {
		opts.Interval = DefaultInterval
	}
	if opts.MaxInterval <= 0 {
		opts.MaxInterval = DefaultMaxInterval
	}
	if opts.MaxFailures == 0 {
		opts.MaxFailures = DefaultMaxFailures
	}
	return &waiter{client: c, taskID: taskID, opts: opts, delay: opts.Interval, seen: Accumulator{MaxBytes: c.opts.MaxTask}}
}

// run waits. A subscription that said something before it failed is tried
// again after the next poll; one that did not is not.
func (w *waiter) run(ctx context.Context, subscribe bool) (*a2a.Task, error) {
	for {
		if subscribe {
			before := w.cursor
			events, err := w.subscribe(ctx)
			if err == nil {
				w.confirm(ctx)
				return w.seen.Task, nil
			}
			if ctx.Err() != nil {
				return w.seen.Task, err
			}
			subscribe = events > 0
			if w.cursor != before {
				w.delay = w.opts.Interval
			}
		}
		done, err := w.poll(ctx)
		if done || err != nil {
			return w.seen.Task, err
		}
	}
}

// subscribe follows the task until it is settled and returns how many events
// came.
func (w *waiter) subscribe(ctx context.Context) (int, error) {
	stream, err := w.client.SubscribeAfter(ctx, &a2a.SubscribeToTaskRequest{ID: w.taskID}, w.cursor)
	if err != nil {
		return 0, err
	}
	before := w.seen.events
	err = w.follow(stream, false)
	w.doubtful = w.seen.appended && stream.LastEventID() == ""
	return w.seen.events - before, err
}

// confirm asks once more for a task that is settled when chunks of it came by a
// subscription whose events have no ids: some agents tell again what its first
// event had already. The answer counts unless it takes the state back.
func (w *waiter) confirm(ctx context.Context) {
	if !w.doubtful || w.seen.Task == nil {
		return
	}
	task, err := w.client.GetTask(ctx, &a2a.GetTaskRequest{ID: w.taskID, HistoryLength: w.opts.HistoryLength})
	if err == nil && task.Status.State == w.seen.Task.Status.State {
		_ = w.see(&a2a.StreamResponse{Task: task}) // or what was told stays
	}
}

// follow reads the stream until the task is settled, which is not an error, or
// a message came. Some agents begin the stream of an answer with the task that
// has asked: that is no outcome, unless nothing else comes (A2A §3.1.2).
func (w *waiter) follow(stream *Stream, answers bool) error {
	defer stream.Close()
	stale := false
	silence := time.AfterFunc(time.Hour, func() { stream.Close() })
	silence.Stop()
	defer silence.Stop()
	e := new(a2a.StreamResponse)
	for first := true; ; first = false {
		var err error
		if w.opts.OnEvent == nil {
			err = stream.Read(e)
		} else {
			e, err = stream.Next() // what a caller sees is the caller's
		}
		silence.Stop()
		w.retry = min(stream.RetryDelay(), maxRetryAfter)
		if err == io.EOF || errors.Is(err, net.ErrClosed) {
			if w.seen.Done() {
				return nil
			}
			return &StreamCutError{TaskID: stream.TaskID(), LastEventID: stream.LastEventID()}
		}
		if err != nil {
			return err
		}
		if err := w.see(e); err != nil {
			return err
		}
		w.cursor = stream.LastEventID()
		if e.ArtifactUpdate == nil {
			stale = answers && first && e.Task != nil && e.Task.Status.State.Interrupted()
		}
		switch {
		case stale:
			silence.Reset(answerTime)
		case w.seen.Done():
			return nil
		}
	}
}

func (w *waiter) see(e *a2a.StreamResponse) error {
	if err := w.seen.Add(e); err != nil {
		return w.client.fail("Wait", err)
	}
	if w.opts.OnEvent != nil {
		w.opts.OnEvent(e)
	}
	return nil
}

// poll asks for the task once, and waits when it is not settled. The error is
// one that ends the waiting.
func (w *waiter) poll(ctx context.Context) (done bool, err error) {
	task, err := w.client.GetTask(ctx, &a2a.GetTaskRequest{ID: w.taskID, HistoryLength: w.opts.HistoryLength})
	pause := max(w.pause(), w.retry)
	w.retry = 0
	if err != nil {
		w.failures++
		if ctx.Err() != nil || !transient(err) {
			return false, err
		}
		if w.opts.MaxFailures > 0 && w.failures >= w.opts.MaxFailures {
			return false, fmt.Errorf("give up after %d failures: %w", w.failures, err)
		}
		pause = max(pause, min(waitAsked(err), maxRetryAfter))
	} else {
		w.failures = 0
		if err := w.see(&a2a.StreamResponse{Task: task}); err != nil {
			return false, err
		}
		if settled(task) {
			return true, nil
		}
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		kind, cause := classify(ctx, ctx.Err())
		return false, &TransportError{Kind: kind, Op: "Wait", URL: w.client.route().address, Sent: true, Err: cause}
	}
}

// pause returns the time to the next poll: up to a fifth more or less than the
// delay, so that many clients do not ask at the same moment.
func (w *waiter) pause() time.Duration {
	d := w.delay
	w.delay = min(w.delay+w.delay/2, w.opts.MaxInterval)
	return time.Duration(float64(d) * (0.8 + 0.4*mathrand.Float64()))
}

// NewMessage returns a message of the user with a fresh id.
func NewMessage(parts ...a2a.Part) *a2a.Message {
	return &a2a.Message{MessageID: rand.Text(), Role: a2a.RoleUser, Parts: parts}
}

// FollowUp returns the next message of the conversation that t belongs to (A2A
// §3.4.3). It continues a task that is not over; after one that is, it starts a
// new task in the same context that refers to it.
func FollowUp(t *a2a.Task, parts ...a2a.Part) *a2a.Message {
	m := NewMessage(parts...)
	m.ContextID = t.ContextID
	if t.Status.State.Terminal() {
		m.ReferenceTaskIDs = []string{t.ID}
	} else {
		m.TaskID = t.ID
	}
	return m
}
