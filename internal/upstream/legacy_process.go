package upstream

import (
	"context"
	"errors"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mcp"
)

// processLink carries a session over the standard streams of a process.
type processLink struct {
	s       *session
	process *running
	noise   int // only who receives uses it
}

func (l *processLink) call(c *legacyCall, body []byte) error { return l.process.send(c.life, body) }

func (l *processLink) tell(_ context.Context, body []byte) error {
	_, err := l.process.post(body)
	return err
}

// listen has nothing to do: everything comes on the one channel.
func (l *processLink) listen() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (l *processLink) dead() bool { return l.process.dead() }

func (l *processLink) stop(ctx context.Context) { l.process.stop(ctx) }

func (l *processLink) receive(line []byte) error {
	m, err := l.s.t.scanLine(line, &l.noise)
	if m != nil {
		l.s.receive(m, nil)
	}
	return err
}

// sessionKey returns whose session a request needs, and what its client can be
// asked. Callers share a session only where the operator says so: it holds state,
// and what its server asks may be meant for any of them (STD-09).
func sessionKey(sharing config.MCPSharing, r *Request) (who, key string, caps mcp.Capabilities) {
	if sharing == config.MCPSharingShared {
		return "", "", mcp.Capabilities{}
	}
	caps = carried(r.Message.Capabilities())
	if !takesInput(r.Message.Method) {
		caps = mcp.Capabilities{}
	}
	who = callerKey(r.Caller)
	return who, who + "\x00" + string(caps.AppendJSON(nil)), caps
}

// legacy sends a request to the legacy process that it belongs to.
func (p *program) legacy(ctx context.Context, r *Request) (Answer, error) {
	l := p.old
	if takesInput(r.Message.Method) && r.Message.Param("requestState") != nil {
		return l.resume(ctx, r)
	}
	who, key, caps := sessionKey(p.sharing, r)
	for again := false; ; again = true {
		slot, err := p.sessions.get(ctx, key, func(ctx context.Context) (*session, error) { return p.openSession(ctx, who, caps) })
		if err != nil {
			return nil, p.sessionError(err)
		}
		answer, err := l.do(ctx, slot.conn, r, slot.release)
		if err == nil {
			return answer, nil
		}
		slot.release()
		if again || !errors.Is(err, ErrUnavailable) || !slot.conn.dead() || ctx.Err() != nil {
			return nil, err
		}
	}
}

// sessionError is the error of a session that did not begin.
func (t *target) sessionError(err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return t.refused("it does not begin a session", e)
	}
	return t.unavailable(err)
}

// openSession starts a process and begins a session with it.
func (p *program) openSession(ctx context.Context, who string, caps mcp.Capabilities) (*session, error) {
	if err := p.restart.wait(ctx); err != nil {
		return nil, p.unavailable(err)
	}
	s := newSession(p.old, who, caps)
	link := &processLink{s: s}
	s.link = link
	running, err := p.target.start(&p.command, link.receive)
	if err != nil {
		p.restart.failed(0)
		return nil, err
	}
	link.process = running
	go func() {
		<-running.gone
		s.fail(running.why())
	}()
	go p.watch(running)
	if err := s.initialize(ctx, legacyRevision(p.era)); err != nil {
		s.stop(context.WithoutCancel(ctx))
		return nil, err
	}
	return s, nil
}

// legacyRevision returns the revision to ask a legacy server for.
func legacyRevision(m *eraMemory) string {
	if known := m.known(); known != "" && !mcp.IsModern(known) {
		return known
	}
	return mcp.Legacy
}
