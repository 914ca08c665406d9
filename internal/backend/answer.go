package backend

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"sync/atomic"

	"handoff.example/handoff/agent"
)

// emitter hands the steps of a program or a web service to a turn. What comes
// after the step that ended the turn is dropped.
type emitter struct {
	turn  *agent.Turn
	count int
	done  atomic.Bool // a step ended the turn
}

func (e *emitter) emit(s agent.Step) error {
	if e.done.Load() {
		return nil
	}
	// Said beforehand, since the context may end before Emit returns.
	e.done.Store(s.Ends())
	if err := e.turn.Emit(s); err != nil {
		e.done.Store(false)
		return err
	}
	e.count++
	return nil
}

// stepError says that something which should be a step is none. Its text is for
// the client. It is no protocol error, so that the task fails and is not refused.
type stepError struct{ text string }

func (e *stepError) Error() string { return "Invalid agent response: " + e.text }

func invalidStep(reason error, quoted []byte) error {
	return &stepError{fmt.Sprintf("%v in %s", reason, plainText(string(quoted[:min(len(quoted), 4*maxShown)])))}
}

// public makes the text of a stepError visible to the client and leaves other
// errors alone.
func public(err error) error {
	if s, ok := errors.AsType[*stepError](err); ok {
		return agent.Errorf("%w", s)
	}
	return err
}

// The forms in which a web service answers with steps.
const (
	formJSON   = "application/json"
	formLines  = "application/x-ndjson"
	formEvents = "text/event-stream"
)

// formOf returns the form that a content type names, or "".
func formOf(contentType string) string {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	switch kind {
	case formJSON:
		return formJSON
	case formLines, "application/jsonl", "application/ndjson", "application/jsonlines", "application/x-jsonlines":
		return formLines
	case formEvents:
		return formEvents
	}
	if strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json") {
		return formJSON
	}
	return ""
}

// readSteps reads the steps of a body in one of the forms and emits each as it
// comes. It stops reading after a step that ends the turn.
func readSteps(form string, body io.Reader, e *emitter) error {
	if form == formJSON {
		return readJSON(body, e)
	}
	split := &lines{}
	var events eventReader
	finish := split.finish
	if form == formLines {
		split.line = func(line []byte) error { return emitLine(line, e) }
	} else {
		events.data = func(data []byte) error { return emitSteps(data, e) }
		split.line = events.line
		finish = func() error { return errors.Join(split.finish(), events.finish()) }
	}
	buf := make([]byte, 32<<10)
	for !e.done.Load() {
		n, err := body.Read(buf)
		if _, bad := split.Write(buf[:n]); bad != nil {
			return bad
		}
		if errors.Is(err, io.EOF) {
			return finish()
		}
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
	}
	return nil
}

func readJSON(body io.Reader, e *emitter) error {
	data, err := io.ReadAll(io.LimitReader(body, agent.MaxStepBytes+1))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if len(data) > agent.MaxStepBytes {
		return invalidStep(fmt.Errorf("the answer has more than %d bytes", agent.MaxStepBytes), data)
	}
	return emitSteps(data, e)
}

// emitSteps emits one step or an array of them, all or, when one is none, none.
func emitSteps(data []byte, e *emitter) error {
	if e.done.Load() || len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	steps, err := agent.ParseSteps(data)
	if err != nil {
		return invalidStep(err, data)
	}
	for _, s := range steps {
		if err := e.emit(s); err != nil {
			return err
		}
	}
	return nil
}

// emitLine emits the step of one line. An empty line is none.
func emitLine(line []byte, e *emitter) error {
	if e.done.Load() || len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	s, err := agent.ParseStep(line)
	if err != nil {
		return invalidStep(err, line)
	}
	return e.emit(s)
}

// eventReader puts the data of server-sent events together, line by line. The
// names and ids of events mean nothing here.
type eventReader struct {
	data    func([]byte) error
	buf     []byte
	started bool
}

var byteOrderMark = []byte("\uFEFF")

func (r *eventReader) line(line []byte) error {
	if !r.started {
		line = bytes.TrimPrefix(line, byteOrderMark)
		r.started = true
	}
	if len(line) == 0 {
		return r.finish()
	}
	value, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return nil // a comment, or a field that carries no step
	}
	value = bytes.TrimPrefix(value, []byte{' '})
	if len(r.buf)+len(value) > agent.MaxStepBytes {
		return invalidStep(fmt.Errorf("an event has more than %d bytes", agent.MaxStepBytes), r.buf)
	}
	if len(r.buf) > 0 {
		r.buf = append(r.buf, '\n')
	}
	r.buf = append(r.buf, value...)
	return nil
}

// finish hands on the event that has been read.
func (r *eventReader) finish() error {
	data := r.buf
	r.buf = r.buf[:0]
	if len(data) == 0 {
		return nil
	}
	return r.data(data)
}
