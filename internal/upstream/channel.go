package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

// channel is the one connection to a modern process, which all requests share. They
// have ids and progress tokens of its own there (BAS-02, CAN-04).
type channel struct {
	t       *target
	process *running
	tools   toolbox
	noise   int // lines in a row that are no messages; only who receives uses it

	mu      sync.Mutex
	last    int64
	pending map[int64]*pending
	err     error // why there are no more requests
}

// pending is a request that waits for its answer.
type pending struct {
	id     int64
	method string
	logs   bool // it has asked for log messages
	queue  *queue
}

func newChannel(t *target) *channel { return &channel{t: t, pending: map[int64]*pending{}} }

// begin takes the process on.
func (c *channel) begin(r *running) {
	c.process = r
	go func() {
		<-r.gone
		c.end(r.why())
	}()
}

// end gives all requests up that wait.
func (c *channel) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	why := c.t.lost(err)
	if e, ok := errors.AsType[*Error](err); ok {
		why = e
	}
	for _, p := range c.pending {
		p.queue.fail(why)
	}
}

func (c *channel) dead() bool { return c.process.dead() }

func (c *channel) stop(ctx context.Context) { c.process.stop(ctx) }

// enter makes a request one that waits.
func (c *channel) enter(m *mcp.Message) (*pending, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.t.unavailable(c.err)
	}
	c.last++
	p := &pending{id: c.last, method: m.Method, logs: m.MetaValue(mcp.MetaLogLevel) != nil, queue: newQueue(c.t.resultBytes)}
	c.pending[p.id] = p
	return p, nil
}

// leave forgets a request.
func (c *channel) leave(p *pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, p.id)
}

// find returns the request with an id of ours.
func (c *channel) find(id jsontext.Value) *pending {
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending[n]
}

// onlyLogger returns the request that log messages must be of, because no other
// waits: they do not say which they belong to, and may not be seen by others.
func (c *channel) onlyLogger() *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found *pending
	for _, p := range c.pending {
		if p.method == mcp.MethodListen {
			continue
		}
		if found != nil || !p.logs {
			return nil
		}
		found = p
	}
	return found
}

// receive takes a line of the process.
func (c *channel) receive(line []byte) error {
	m, err := c.t.scanLine(line, &c.noise)
	if m == nil {
		return err
	}
	var to *pending
	switch {
	case m.IsResponse():
		if to = c.find(m.ID); to != nil { // a late answer has nobody (CAN-02)
			c.leave(to) // it is answered, and no log message can be of it any more
		}
	case !m.IsNotification():
		c.t.log.Warn("an MCP server sends requests, which it must not", "method", clip(m.Method, 100)) // STD-03
	case m.MetaValue(mcp.MetaSubscription) != nil:
		to = c.find(m.MetaValue(mcp.MetaSubscription)) // STD-04
	case m.Method == mcp.NotifyProgress:
		to = c.find(m.Param(mcp.MetaProgress))
	case m.Method == mcp.NotifyMessage:
		to = c.onlyLogger()
	}
	if to != nil {
		to.queue.push(m)
	}
	return nil
}

// scanLine reads a line of a process. What is no message is passed over, unless
// there is no end of it.
func (t *target) scanLine(line []byte, noise *int) (*mcp.Message, error) {
	if len(line) == 0 {
		return nil, nil
	}
	m, err := mcp.Scan(append([]byte(nil), line...), mcp.Limits{})
	if err == nil {
		*noise = 0
		return m, nil
	}
	*noise++
	t.log.Warn("an MCP server writes what is not a message", "line", clip(t.hide(printable(line)), 200), "error", err) // STD-01
	if *noise > maxNoise {
		return nil, t.badAnswer(fmt.Errorf("its output is not one of MCP: %w", err))
	}
	return nil, nil
}

// do sends a request.
func (c *channel) do(ctx context.Context, r *Request) (*channelAnswer, error) {
	p, err := c.enter(r.Message)
	if err != nil {
		return nil, err
	}
	id := jsontext.Value(strconv.FormatInt(p.id, 10))
	m := r.Message.WithID(id)
	if m.MetaString(mcp.MetaVersion) != mcp.Modern {
		m = m.WithMeta(mcp.MetaVersion, []byte(`"`+mcp.Modern+`"`))
	}
	token := m.MetaValue(mcp.MetaProgress)
	if token != nil {
		m = m.WithMeta(mcp.MetaProgress, id)
	}
	call, end := context.WithCancelCause(ctx)
	a := &channelAnswer{c: c, p: p, ctx: ctx, call: call, end: end, request: r.Message, token: token, patience: c.t.waitFor(r, end)}
	if err := c.process.send(call, m.Body); err != nil {
		if errors.Is(err, ErrOutcomeUnknown) {
			err = c.t.why(ctx, call, err)
		}
		a.Close()
		return nil, err
	}
	a.sent = true
	return a, nil
}

// channelAnswer is the answer of a process.
type channelAnswer struct {
	c        *channel
	p        *pending
	ctx      context.Context
	call     context.Context
	end      context.CancelCauseFunc
	request  *mcp.Message
	token    jsontext.Value // of the client
	patience *patience
	sent     bool
	over     bool
	some     bool // something has come
	closed   bool
	release  func() // nil: nothing to release
	again    func() (*channelAnswer, error)
	next     *channelAnswer // that has taken over
}

// Next returns the next message.
func (a *channelAnswer) Next() (*mcp.Message, error) {
	if a.next != nil {
		return a.next.Next()
	}
	if a.over {
		return nil, io.EOF
	}
	m, err := a.p.queue.pop(a.call)
	if err != nil {
		err = a.c.t.why(a.ctx, a.call, err)
		if !a.some && a.again != nil && a.call.Err() == nil && errors.Is(err, ErrOutcomeUnknown) {
			// The process was lost; what only reads may be asked again (STD-06).
			next, failed := a.again()
			if failed == nil {
				a.next = next
				return next.Next()
			}
		}
		return nil, err
	}
	a.some = true
	if m.IsNotification() {
		return a.notification(m), nil
	}
	a.over = true
	a.patience.stop()
	m = m.WithID(a.request.ID)
	if m.MetaValue(mcp.MetaSubscription) != nil {
		m = m.WithMeta(mcp.MetaSubscription, a.request.ID)
	}
	return a.c.t.checked(a.request, m, &a.c.tools)
}

// notification puts the client's own marks into a notification (SUB-04).
func (a *channelAnswer) notification(m *mcp.Message) *mcp.Message {
	if a.request.Method == mcp.MethodListen {
		a.patience.stop()
	}
	if m.MetaValue(mcp.MetaSubscription) != nil {
		m = m.WithMeta(mcp.MetaSubscription, a.request.ID)
	}
	if m.Method == mcp.NotifyProgress {
		a.patience.progress()
		m = m.WithParam(mcp.MetaProgress, a.token)
	}
	return m
}

// Close gives the request up if it is not over (CAN-01).
func (a *channelAnswer) Close() error {
	if a.closed {
		return nil
	}
	a.closed = true
	if a.next != nil {
		a.next.Close()
	}
	a.patience.stop()
	a.c.leave(a.p)
	if a.sent && !a.over && !a.c.dead() {
		a.c.cancel(a.p.id)
	}
	a.end(nil)
	if a.release != nil {
		a.release()
	}
	return nil
}

// cancel tells the process that nobody waits for a request any more.
func (c *channel) cancel(id int64) {
	if _, err := c.process.post(cancelled(id)); err != nil {
		c.t.log.Debug("cannot cancel a request", "error", err)
	}
}

// cancelled is the notification that gives a request up.
func cancelled(id int64) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"` + mcp.NotifyCancelled + `","params":{"requestId":` + strconv.FormatInt(id, 10) + `}}`)
}
