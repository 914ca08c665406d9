package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"handoff.example/handoff/internal/mcp"
)

// queue holds messages for one reader. Who puts them in never waits: one slow
// reader must not stop what shares a channel with it.
type queue struct {
	most  int64 // bytes; beyond, notifications are dropped
	ready chan struct{}

	mu    sync.Mutex
	items []*mcp.Message
	bytes int64
	err   error // once the items are read
}

func newQueue(most int64) *queue { return &queue{most: most, ready: make(chan struct{}, 1)} }

var errFlood = errors.New("the server sends more than is read")

// push adds a message.
func (q *queue) push(m *mcp.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := int64(len(m.Body))
	if q.err != nil || m.IsNotification() && q.bytes+size > q.most {
		return
	}
	if len(q.items) > 100_000 {
		q.err = errFlood
	}
	q.items = append(q.items, m)
	q.bytes += size
	q.wake()
}

// fail ends the queue after what is in it.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// pop returns the next message, or why there is none.
func (q *queue) pop(ctx context.Context) (*mcp.Message, error) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			m := q.items[0]
			q.items = q.items[1:]
			q.bytes -= int64(len(m.Body))
			q.mu.Unlock()
			return m, nil
		}
		err := q.err
		q.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// withdraw takes out a request with an id.
func (q *queue) withdraw(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, m := range q.items {
		if m.Method != "" && string(m.ID) == id {
			q.items = append(q.items[:i:i], q.items[i+1:]...)
			return
		}
	}
}

// requests takes out the requests that are there, and those that come until nothing
// has come for a while.
func (q *queue) requests(quiet time.Duration) []*mcp.Message {
	var found []*mcp.Message
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for len(found) < maxQuestions {
		before := len(found)
		q.mu.Lock()
		var rest []*mcp.Message
		for _, m := range q.items {
			if m.Method != "" && m.ID != nil {
				found = append(found, m)
				q.bytes -= int64(len(m.Body))
			} else {
				rest = append(rest, m)
			}
		}
		q.items = rest
		q.mu.Unlock()
		if len(found) > before {
			timer.Reset(quiet)
		}
		select {
		case <-q.ready:
		case <-timer.C:
			q.mu.Lock()
			q.wake() // what was seen and is not a request is still there
			q.mu.Unlock()
			return found
		}
	}
	return found
}

// maxQuestions bounds what a client is asked at once.
const maxQuestions = 100
