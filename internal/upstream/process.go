package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/process"
)

// command is what is started.
type command struct {
	path string
	args []string
	dir  string
	env  []string
}

// running is a process that messages go to and come from, one on a line (STD-01).
type running struct {
	t       *target
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	receive func(line []byte) error // an error ends the process
	started time.Time
	gone    chan struct{} // closed when the process has ended
	err     error         // then: why
	stopped chan struct{} // closed when it is to end
	once    sync.Once
	wake    chan struct{}

	mu      sync.Mutex
	waiting []*outgoing
	last    string // line of standard error
}

// outgoing is a line on its way to a process.
type outgoing struct {
	line    []byte
	written chan struct{} // closed when the process has it
	err     error
}

const (
	stopGrace = 5 * time.Second // for each step of the end of a process (STD-05)
	maxStderr = 8 << 10         // bytes of a line
	maxNoise  = 100             // lines of output in a row that are no messages
)

// start starts a process.
func (t *target) start(c *command, receive func(line []byte) error) (*running, error) {
	p := &running{
		t: t, receive: receive, started: t.now(), gone: make(chan struct{}), stopped: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	p.cmd = exec.Command(c.path, c.args...)
	p.cmd.Dir, p.cmd.Env = c.dir, c.env
	p.cmd.WaitDelay = stopGrace
	stdout := &lineWriter{most: t.resultBytes, line: p.read, fail: func(err error) { p.fail(t.badAnswer(err)) }}
	stderr := &lineWriter{most: maxStderr, line: p.note}
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	process.SetGroup(p.cmd)
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, t.unavailable(err)
	}
	began := make(chan error)
	go p.live(began)
	if err := <-began; err != nil {
		return nil, t.unavailable(fmt.Errorf("start program: %w", err))
	}
	t.log.Info("started an MCP server", "pid", p.cmd.Process.Pid) // SEC-06
	go p.writes()
	return p, nil
}

// live is the life of the process. It stays on one thread, with which the process
// ends.
func (p *running) live(began chan<- error) {
	defer process.EndWithNode(p.cmd)()
	if err := p.cmd.Start(); err != nil {
		p.stdin.Close()
		began <- err
		return
	}
	began <- nil
	err := p.cmd.Wait()
	process.KillGroup(p.cmd.Process) // what it has left behind
	p.mu.Lock()
	if p.err == nil {
		p.err = fmt.Errorf("the program has ended: %w", orEOF(err))
		if p.last != "" {
			p.err = fmt.Errorf("%w, after %q", p.err, p.last)
		}
	}
	p.mu.Unlock()
	close(p.gone)
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// dead reports whether the process has ended.
func (p *running) dead() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// why returns why the process has ended.
func (p *running) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// read takes a line of output.
func (p *running) read(line []byte) error {
	err := p.receive(line)
	if err != nil {
		p.fail(err)
	}
	return err
}

// fail ends the process for what it has done.
func (p *running) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.kill()
}

// note takes a line of standard error, which is no sign of an error (STD-02).
func (p *running) note(line []byte) error {
	text := p.t.hide(printable(line))
	if text == "" {
		return nil
	}
	p.t.log.Debug("MCP server wrote to standard error", "line", text)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = clip(text, 300)
	return nil
}

// printable returns a line of a program without what would confuse a terminal.
func printable(line []byte) string {
	clean := bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, bytes.ToValidUTF8(line, []byte("�")))
	return string(clean)
}

var errStopped = errors.New("the program is being stopped")

// send gives a message to the process and waits until it is written. An error that
// is not ErrOutcomeUnknown says that the process has not got it.
func (p *running) send(ctx context.Context, body []byte) error {
	o, err := p.post(body)
	if err != nil {
		return err
	}
	select {
	case <-o.written:
	case <-p.gone:
		select {
		case <-o.written:
		default:
			return p.t.unavailable(p.why())
		}
	case <-ctx.Done():
		if p.retract(o) {
			return p.t.unavailable(context.Cause(ctx))
		}
		return p.t.lost(context.Cause(ctx))
	}
	if o.err != nil {
		return p.t.unavailable(o.err)
	}
	return nil
}

// maxWaiting bounds the messages that a process has not read yet.
const maxWaiting = 10_000

// post gives a message to the process and does not wait.
func (p *running) post(body []byte) (*outgoing, error) {
	line, err := oneLine(body)
	if err != nil {
		return nil, err
	}
	o := &outgoing{line: line, written: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) >= maxWaiting {
		return nil, p.t.refused("it does not read what it is sent", nil)
	}
	p.waiting = append(p.waiting, o)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return o, nil
}

// oneLine returns a message on a line of its own.
func oneLine(body []byte) ([]byte, error) {
	line := append(make([]byte, 0, len(body)+1), body...)
	if bytes.ContainsAny(line, "\r\n") {
		value := jsontext.Value(line)
		if err := value.Compact(jsontext.AllowDuplicateNames(true)); err != nil {
			return nil, fmt.Errorf("write message on a line: %w", err)
		}
		line = value
	}
	return append(line, '\n'), nil
}

// retract takes back a message that was not begun.
func (p *running) retract(o *outgoing) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, one := range p.waiting {
		if one == o {
			p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// writes writes what was posted, in order.
func (p *running) writes() {
	for {
		p.mu.Lock()
		var o *outgoing
		if len(p.waiting) > 0 {
			o, p.waiting = p.waiting[0], p.waiting[1:]
		}
		p.mu.Unlock()
		if o != nil {
			_, o.err = p.stdin.Write(o.line)
			close(o.written)
			continue
		}
		select {
		case <-p.wake:
		case <-p.stopped:
			p.stdin.Close()
			return
		case <-p.gone:
			p.stdin.Close()
			return
		}
	}
}

// stop ends the process: its input is closed, then it is asked, then it is killed
// (STD-05). It returns when the process is gone.
func (p *running) stop(ctx context.Context) {
	p.once.Do(func() {
		p.mu.Lock()
		if p.err == nil {
			p.err = errStopped
		}
		p.mu.Unlock()
		close(p.stopped)
	})
	steps := []func(){
		func() {},
		func() {
			p.stdin.Close() //nolint:errcheck // a writer that is stuck
			process.Terminate(p.cmd.Process)
		},
		p.kill,
	}
	for _, step := range steps {
		step()
		timer := time.NewTimer(stopGrace)
		select {
		case <-p.gone:
			timer.Stop()
			return
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			p.kill()
			<-p.gone
			return
		}
	}
	<-p.gone
}

// kill ends the process and its children at once.
func (p *running) kill() {
	process.KillGroup(p.cmd.Process)
	p.cmd.Process.Kill() //nolint:errcheck // it may be gone
}

// lineWriter hands on one line after the other, without its end.
type lineWriter struct {
	most int64
	line func([]byte) error
	fail func(error) // of a line that is too long; nil: it is cut
	buf  []byte
}

// Write splits p.
func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		end := bytes.IndexByte(p, '\n')
		part := p
		if end >= 0 {
			part = p[:end]
		}
		if int64(len(w.buf)+len(part)) > w.most {
			if w.fail != nil {
				w.fail(errLine)
				return 0, errLine
			}
			part = part[:max(0, w.most-int64(len(w.buf)))]
		}
		if end < 0 || len(w.buf) > 0 {
			w.buf = append(w.buf, part...)
			part = w.buf
		}
		if end < 0 {
			return n, nil
		}
		w.buf = w.buf[:0]
		p = p[end+1:]
		if err := w.line(bytes.TrimSuffix(part, []byte{'\r'})); err != nil {
			return 0, err
		}
	}
}

var errLine = errors.New("a line of its output is too long")
