package demo

import (
	"context"
	"fmt"
	"time"
)

// startChild starts a process with the system.
func (s *story) startChild(ctx context.Context, hold bool) error {
	c, err := startChild(ctx, s.o.Child(s.place.dir, hold))
	if err != nil {
		return err
	}
	s.machine = c
	return nil
}

// breakInTheWait kills the system while its question waits for an answer.
func (s *story) breakInTheWait(ctx context.Context, o *order) error {
	if !s.o.Break {
		return nil
	}
	if err := s.again(ctx, "Everything is dead: the agents, the gateway, the tools.", true); err != nil {
		return err
	}
	if err := s.look(ctx, o, sections); err != nil {
		return err
	}
	if len(o.open) != 1 {
		return fmt.Errorf("%d items are in the inbox after the kill, not the one of before", len(o.open))
	}
	s.crash("kept", "The question is still in the inbox: %s", o.open[0].Text)
	return nil
}

// heard kills the system when it has made an order and nobody has heard of that.
func (s *story) heard(ctx context.Context, o *order) error {
	c, ok := s.machine.(*child)
	if !ok {
		return nil
	}
	select {
	case r, open := <-c.reports:
		if !open {
			return fmt.Errorf("process %d, which runs the system, has ended", c.cmd.Process.Pid)
		}
		if !r.Drafted {
			return nil
		}
	default:
		return nil
	}
	for len(o.waiting) > 0 {
		if err := s.look(ctx, o, sections); err != nil {
			return err
		}
	}
	if err := s.again(ctx, "The order is written, and the agent that has asked for it will not hear so.", false); err != nil {
		return err
	}
	made, err := s.inERP(ctx, o.number)
	if err != nil {
		return err
	}
	s.crash("kept", "%s is a %s in the ERP system. The agent asks again, with the same key", made.Number, made.Status)
	return nil
}

// again kills the system and starts it anew.
func (s *story) again(ctx context.Context, what string, hold bool) error {
	c, ok := s.machine.(*child)
	if !ok {
		return nil
	}
	if err := sleep(ctx, s.o.Pace/2); err != nil {
		return err
	}
	if err := c.kill(); err != nil {
		return err
	}
	s.record.http.CloseIdleConnections()
	s.crash("kill -9", "process %d. %s", c.cmd.Process.Pid, what)
	if err := sleep(ctx, s.o.Pace); err != nil {
		return err
	}
	began := time.Now()
	if err := s.startChild(ctx, hold); err != nil {
		return err
	}
	s.crash("started", "process %d, in %s. It goes on by what it finds in its files", s.machine.(*child).cmd.Process.Pid, span(time.Since(began)))
	return nil
}

// crash tells a line of what was done to the system.
func (s *story) crash(what, format string, args ...any) {
	s.screen.tell(s.began, &line{at: time.Now(), who: "the demo", color: red, what: what, text: fmt.Sprintf(format, args...)})
}
