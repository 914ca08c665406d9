package backend

import (
	"bytes"
	"fmt"

	"handoff.example/handoff/agent"
)

// lines is an io.Writer that hands on one line after the other, without its end.
// A line is valid only during the call.
type lines struct {
	line func([]byte) error
	buf  []byte // a line that has not ended yet
}

// Write splits p. Its error is that of line, or that a line is too long.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			if len(l.buf)+len(p) > agent.MaxStepBytes {
				return 0, invalidStep(fmt.Errorf("a line has more than %d bytes", agent.MaxStepBytes), l.buf)
			}
			l.buf = append(l.buf, p...)
			return n, nil
		}
		line := p[:end]
		if len(l.buf) > 0 {
			line = append(l.buf, line...)
			l.buf = line[:0]
		}
		p = p[end+1:]
		if err := l.line(bytes.TrimSuffix(line, []byte{'\r'})); err != nil {
			return 0, err
		}
	}
}

// finish hands on a last line that has no end.
func (l *lines) finish() error {
	if len(l.buf) == 0 {
		return nil
	}
	line := l.buf
	l.buf = nil
	return l.line(bytes.TrimSuffix(line, []byte{'\r'}))
}
