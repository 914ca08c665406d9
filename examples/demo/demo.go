// Package demo plays the purchase of the procurement example on the terminal, with all
// of its parts in one process: `handoff demo`.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Options say how the story is played.
type Options struct {
	Out   io.Writer
	Color bool
	// Width is how many columns the terminal has; 0: nobody knows.
	Width int
	// In is where somebody can answer on the terminal; nil: nobody can.
	In io.Reader
	// Port is where the company's node listens; 0: one that is free.
	Port int
	// Dir keeps the data, and is made when it is not there. "": a directory that is
	// removed at the end.
	Dir string
	// Break kills the system twice on the way, and starts it again.
	Break bool
	// Interactive leaves the answers to whoever watches.
	Interactive bool
	// Exit ends with the story. Without it the system runs on until ctx ends.
	Exit bool
	// Pace is how long the people of the story think.
	Pace    time.Duration
	Version string
	// Model plans the purchase in place of the plan that is fixed.
	Model *Model
	// Child returns a program that calls RunChild.
	Child func(dir string, hold bool) *exec.Cmd
}

// Run plays the story, and fails when it does not go as it should: an *AddressError
// says that a port is taken.
func Run(ctx context.Context, o Options) (err error) {
	dir, err := directory(&o)
	if err != nil {
		return err
	}
	if o.Dir == "" {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	p, open, err := settle(ctx, dir, o.Port)
	if err != nil {
		return err
	}
	p.Model = o.Model
	if err := p.write(); err != nil {
		closeAll(open)
		return err
	}
	s := &story{o: &o, screen: newScreen(&o), place: p, record: newRecord(p)}
	defer func() {
		s.record.http.CloseIdleConnections()
		if s.machine != nil {
			err = errors.Join(err, s.machine.close())
		}
	}()
	if o.Break {
		closeAll(open)
		err = s.startChild(ctx, false)
	} else {
		in := &system{place: p, version: o.Version}
		if err = in.start(open); err == nil {
			s.machine = in
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(s.play(ctx), s.screen.err)
}

// directory returns the directory of the data.
func directory(o *Options) (string, error) {
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "handoff-demo")
		if err != nil {
			return "", fmt.Errorf("make directory: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(o.Dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("make directory: %w", err)
	}
	return dir, nil
}
