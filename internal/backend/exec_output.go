package backend

import (
	"bytes"
	"sync"
	"time"
	"unicode/utf8"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// output is the standard output of a program: steps, one a line, or text.
type output struct {
	steps  emitter
	split  lines
	text   bool
	chunks int
	part   []byte // of a character that is not complete yet
	failed func(error)
	ended  chan struct{} // closed by the step that ends the turn
	once   sync.Once
	err    error // that stopped the output; read after the process has ended
}

func newOutput(t *agent.Turn, text bool, failed func(error)) *output {
	o := &output{text: text, failed: failed, ended: make(chan struct{})}
	o.steps.turn = t
	o.split.line = func(line []byte) error { return emitLine(line, &o.steps) }
	return o
}

// Write emits what p completes. After the turn has ended everything is taken and
// dropped, so that the program can finish.
func (o *output) Write(p []byte) (int, error) {
	if o.steps.done.Load() {
		return len(p), nil
	}
	if err := o.write(p); err != nil {
		o.err = err
		o.failed(err)
		return 0, err
	}
	if o.steps.done.Load() {
		o.once.Do(func() { close(o.ended) })
	}
	return len(p), nil
}

func (o *output) write(p []byte) error {
	if o.text {
		return o.writeText(p)
	}
	_, err := o.split.Write(p)
	return err
}

// finish emits what is left when the program has ended well.
func (o *output) finish() {
	if o.err != nil {
		return
	}
	if o.text {
		o.err = o.chunk(o.part)
	} else {
		o.err = o.split.finish()
	}
}

// lingering calls f when the program has not ended that long after the step that
// ended its turn. The returned function stops that.
func (o *output) lingering(after time.Duration, f func()) (stop func()) {
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		select {
		case <-over:
			return
		case <-o.ended:
		}
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-over:
		case <-timer.C:
			f()
		}
	})
	return func() {
		close(over)
		running.Wait()
	}
}

// maxChunk bounds the text of one chunk.
const maxChunk = 64 << 10

// writeText emits what was read as a chunk, up to the last complete character.
func (o *output) writeText(p []byte) error {
	if len(o.part) > 0 {
		p = append(o.part, p...)
		o.part = nil
	}
	for len(p) > 0 {
		n := completeText(p[:min(len(p), maxChunk)])
		if n == 0 {
			break
		}
		if err := o.chunk(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	o.part = bytes.Clone(p)
	return nil
}

// completeText returns how many bytes of p precede a character of which p has
// only the beginning.
func completeText(p []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		if tail := p[len(p)-back:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return len(p) - back
			}
			break
		}
	}
	return len(p)
}

func (o *output) chunk(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	first := o.chunks == 0
	o.chunks++
	return o.steps.emit(agent.Step{Artifact: &agent.Artifact{
		Parts:  []a2a.Part{a2a.Text(string(bytes.ToValidUTF8(text, []byte("\uFFFD"))))},
		Append: !first,
	}})
}

// diagnostics is the standard error of a program. It keeps the last line.
type diagnostics struct {
	log   func(line string)
	line  []byte
	last  string
	count int
}

// Bounds of what a program's standard error costs.
const (
	maxLogLine  = 4 << 10
	maxLogLines = 10_000 // of one turn; the last line is kept beyond
)

// Write never fails, so that a program is not stopped by what it says.
func (d *diagnostics) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, found := bytes.Cut(p, []byte{'\n'})
		d.line = append(d.line, line[:min(len(line), maxLogLine-len(d.line))]...)
		if !found {
			return n, nil
		}
		d.finish()
		p = rest
	}
}

// finish ends the current line.
func (d *diagnostics) finish() {
	text := plainText(string(d.line))
	d.line = d.line[:0]
	if text == "" {
		return
	}
	d.last = text
	if d.count++; d.count <= maxLogLines {
		d.log(text)
	}
}
