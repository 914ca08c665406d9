package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/process"
)

// program is a server that is a program, which speaks on its standard input and
// output.
type program struct {
	*target
	command  command
	sharing  config.MCPSharing
	era      *eraMemory
	modern   *pool[*channel]
	sessions *pool[*session]
	old      *legacyServer
	tools    toolbox // of legacy processes
	restart  backoff
}

// inherited are the environment variables that a program gets from the node.
var inherited = []string{"PATH", "HOME", "LANG", "TMPDIR"}

func (s *Servers) makeProgram(t *target, c *config.MCPServer, listTTL time.Duration) (speaker, error) {
	dir, err := filepath.Abs(s.opts.Path("."))
	if err != nil {
		return nil, fmt.Errorf("find directory: %w", err)
	}
	base := dir
	if c.Dir != "" {
		if dir = c.Dir; !filepath.IsAbs(dir) {
			dir = filepath.Join(base, dir)
		}
	}
	p := &program{
		target: t, sharing: c.Sharing, era: newEra(string(c.Revision)),
		modern: newPool[*channel](t, c.Processes, c.Idle.Std()), sessions: newPool[*session](t, c.Processes, c.Idle.Std()),
		restart: backoff{now: t.now},
		command: command{path: c.Command[0], args: c.Command[1:], dir: dir, env: process.Environment(inherited...)},
	}
	p.old = &legacyServer{
		target: t, held: newHolds(t, s.relay), tools: &p.tools, ttl: listTTL, private: c.Sharing == config.MCPSharingPrincipal, hub: newHub(), open: p.sessions,
	}
	if path := p.command.path; filepath.Base(path) != path && !filepath.IsAbs(path) {
		p.command.path = filepath.Join(base, path)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		value := c.Env[name].Reveal()
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("env: %q cannot be an environment variable", name)
		}
		p.command.env = append(p.command.env, name+"="+value)
	}
	return p, nil
}

// do sends a request to the process that it belongs to.
func (p *program) do(ctx context.Context, r *Request) (Answer, error) {
	revision, err := p.era.once(ctx, func() (string, error) { return p.detect(ctx) })
	if err != nil {
		return nil, p.asError(err)
	}
	r = withTrace(r)
	if !mcp.IsModern(revision) {
		return p.legacy(ctx, r)
	}
	p.health.speaks(revision)
	return p.modernDo(ctx, r, false)
}

// withTrace has the message of a request name the trace that it is a part of, since
// a process gets no headers (OBS-02; SEP-414).
func withTrace(r *Request) *Request {
	parent := r.Header.Get("Traceparent")
	if parent == "" || r.Message.MetaValue(mcp.MetaTraceparent) != nil {
		return r
	}
	quoted, err := jsontext.AppendQuote(nil, parent)
	if err != nil {
		return r // it is no text, and so no trace
	}
	traced := *r
	traced.Message = r.Message.WithMeta(mcp.MetaTraceparent, quoted)
	return &traced
}

func (t *target) asError(err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return t.unavailable(err)
}

// modernDo sends a request to a modern process. One that ends before it has read the
// request is started again, once.
func (p *program) modernDo(ctx context.Context, r *Request, again bool) (Answer, error) {
	key := ""
	if p.sharing == config.MCPSharingPrincipal {
		key = callerKey(r.Caller)
	}
	slot, err := p.modern.get(ctx, key, p.openChannel)
	if err != nil {
		return nil, p.asError(err)
	}
	answer, err := slot.conn.do(ctx, r)
	if err != nil {
		slot.release()
		if !again && errors.Is(err, ErrUnavailable) && slot.conn.dead() && ctx.Err() == nil {
			return p.modernDo(ctx, r, true)
		}
		return nil, err
	}
	answer.release = slot.release
	if !again && idempotent(r.Message.Method) && r.Message.Method != mcp.MethodListen {
		answer.again = func() (*channelAnswer, error) {
			next, err := p.modernDo(ctx, r, true)
			if err != nil {
				return nil, err
			}
			return next.(*channelAnswer), nil
		}
	}
	return answer, nil
}

func (p *program) openChannel(ctx context.Context) (*channel, error) {
	if err := p.restart.wait(ctx); err != nil {
		return nil, p.unavailable(err)
	}
	c := newChannel(p.target)
	running, err := p.target.start(&p.command, c.receive)
	if err != nil {
		p.restart.failed(0)
		return nil, err
	}
	c.begin(running)
	go p.watch(running)
	return c, nil
}

// watch has a process that ends by itself be started again after a while only.
func (p *program) watch(r *running) {
	<-r.gone
	if !errors.Is(r.why(), errStopped) {
		p.log.Warn("an MCP server has ended", "pid", r.cmd.Process.Pid, "error", r.why())
		p.restart.failed(p.now().Sub(r.started))
	}
}

// detect asks a process what it is. One that does not answer as a modern server does
// is a legacy one, and is started anew for its handshake (VER-07).
func (p *program) detect(ctx context.Context) (string, error) {
	c, err := p.openChannel(ctx)
	if err != nil {
		return "", err
	}
	supported, ok := p.probe(ctx, c)
	if !ok {
		p.stopSoon(c)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return mcp.Legacy, nil
	}
	revision, err := p.choose(supported)
	if err != nil || !mcp.IsModern(revision) || p.sharing == config.MCPSharingPrincipal || !p.modern.put("", c) {
		p.stopSoon(c)
	}
	return revision, err
}

// stopSoon stops a process that is not needed, without waiting for it.
func (p *program) stopSoon(c *channel) {
	p.modern.work.Go(func() { c.stop(context.Background()) })
}

// probe asks with server/discover, which legacy servers may leave unanswered (G11).
func (p *program) probe(ctx context.Context, c *channel) (supported []string, ok bool) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.connect, &tooLong{p.connect})
	defer cancel()
	ask := mcp.NewRequest(jsontext.Value("0"), mcp.MethodDiscover, nil, mcp.Meta{Client: clientInfo})
	answer, err := c.do(ctx, &Request{Message: ask})
	if err != nil {
		return nil, false
	}
	m, err := lastOf(answer)
	if err != nil {
		return nil, false
	}
	return revisionOf(m)
}

func (p *program) close(ctx context.Context) {
	p.old.held.close()
	var both sync.WaitGroup
	both.Go(func() { p.modern.close(ctx) })
	both.Go(func() { p.sessions.close(ctx) })
	both.Wait()
}

func (p *program) describe(s *State) {
	s.Transport = "stdio"
	p.modern.each(func(key string, c *channel, users int) {
		s.Processes = append(s.Processes, processOf(key, c.process, users))
	})
	p.sessions.each(func(key string, c *session, users int) {
		if link, ok := c.link.(*processLink); ok {
			s.Processes = append(s.Processes, processOf(key, link.process, users))
		}
	})
	slices.SortFunc(s.Processes, func(a, b Process) int { return a.PID - b.PID })
}

func processOf(key string, r *running, users int) Process {
	who, _, _ := strings.Cut(key, "\x00{")
	return Process{PID: r.cmd.Process.Pid, Caller: strings.ReplaceAll(who, "\x00", " "), Started: r.started, Calls: users}
}

// backoff is how long a program that does not stay is left alone.
type backoff struct {
	now func() time.Time

	mu    sync.Mutex
	pause time.Duration
	until time.Time
}

const (
	firstPause = 250 * time.Millisecond
	mostPause  = 30 * time.Second
	longLife   = time.Minute // after which a program counts as one that stays
)

// failed counts that a program has ended which has lived for a time.
func (b *backoff) failed(lived time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case lived >= longLife:
		b.pause = 0 // the next is started at once
	case b.pause == 0:
		b.pause = firstPause
	default:
		b.pause = min(2*b.pause, mostPause)
	}
	b.until = b.now().Add(b.pause)
}

// wait waits until the program may be started.
func (b *backoff) wait(ctx context.Context) error {
	b.mu.Lock()
	left := b.until.Sub(b.now())
	b.mu.Unlock()
	if left <= 0 {
		return nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errors.New("it has ended too often, and is started again later")
	}
}
