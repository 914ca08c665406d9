package main

import (
	"errors"
	"fmt"
	"io"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// sink takes the events of a task as they come.
type sink interface {
	event(e *a2a.StreamResponse) error
	// end is called when no more events follow.
	end(seen *client.Accumulator) error
}

// newSink returns what shows a stream: lines of JSON or documents of YAML, a
// live view where a person watches, and fields and blocks otherwise.
func (s *session) newSink() sink {
	switch {
	case s.output != formatText:
		return objectSink{s.app}
	case s.isTerminal && !s.flags.verbose:
		return newLiveSink(s.app)
	}
	return &textSink{view: s.newView()}
}

// objectSink writes every event as an object of the protocol.
type objectSink struct{ *app }

func (o objectSink) event(e *a2a.StreamResponse) error { return o.writeObject(e, true) }

func (o objectSink) end(*client.Accumulator) error { return nil }

// textSink writes every event as fields and blocks.
type textSink struct {
	*view
	identified bool // the last event told task, context and state
}

func (t *textSink) event(e *a2a.StreamResponse) error {
	t.identified = e.ArtifactUpdate == nil
	t.view.event(e)
	return t.err
}

// end restates what the next command needs (a2a-cli §11.2).
func (t *textSink) end(seen *client.Accumulator) error {
	if task := seen.Task; task != nil && !t.identified {
		t.identity(task.ID, task.ContextID, task.Status.State)
	}
	return t.err
}

// maxResumes is how often a stream is opened again that brings nothing.
const maxResumes = 3

// follow hands the events of a stream to a sink until the task is over or waits
// for its client. A task that waits for an authorization gets it from somebody
// else, so that its stream stays open where the agent lets it (A2A §7.6): it is
// left with authorized only. A stream that is cut is resumed, and the task is
// polled when it cannot be (a2a-cli §9.3). It returns what was seen, also with
// an error.
func (s *session) follow(stream *client.Stream, out sink, authorized bool) (*client.Accumulator, error) {
	seen := new(client.Accumulator)
	idle := 0
	said := false // that the task waits for an authorization
	defer func() { stream.Close() }()
	if live, ok := out.(*liveSink); ok {
		defer live.endLine()
	}
	for {
		e, err := stream.Next()
		switch {
		case err == nil:
			idle = 0
			if err := seen.Add(e); err != nil {
				return seen, err
			}
			if err := out.event(e); err != nil {
				return seen, err
			}
			if !seen.Done() {
				said = false
				continue
			}
			if authorized || seen.Task == nil || seen.Task.Status.State != a2a.StateAuthRequired {
				return seen, out.end(seen)
			}
			if !said {
				said = true
				s.authorizationNote(out)
			}
			continue
		case err == io.EOF && seen.Done():
			return seen, out.end(seen) // the agent does not keep it open
		case s.ctx.Err() != nil || stream.TaskID() == "":
			return seen, err
		case err != io.EOF && !errors.Is(err, client.ErrStreamCut):
			return seen, err
		}
		if idle++; idle <= maxResumes && s.client.Streams() {
			if next, err := stream.Resume(s.ctx); err == nil {
				s.warn("the stream was cut and goes on")
				stream = next
				continue
			}
		}
		return seen, s.pollOn(stream.TaskID(), seen, out)
	}
}

// authorizationNote says what a command that stays open waits for.
func (s *session) authorizationNote(out sink) {
	if live, ok := out.(*liveSink); ok {
		live.endLine()
	}
	s.warn("the task waits for an authorization, and this command waits with it; %s", operatorAdvice)
}

// operatorAdvice says who authorizes a task.
const operatorAdvice = "on a node of yours, see it with: handoff admin grant, and settle it with: handoff admin grant ID approve"

// pollOn goes on with polls where a stream cannot.
func (s *session) pollOn(taskID string, seen *client.Accumulator, out sink) error {
	if s.log != nil {
		s.log.printf("no stream for task %s; polling every %s", taskID, s.flags.interval)
	}
	var failed error
	_, err := s.client.Wait(s.ctx, taskID, client.WaitOptions{
		Poll: true, Interval: s.flags.interval,
		OnEvent: func(e *a2a.StreamResponse) {
			if somethingNew(seen.Task, e.Task) && failed == nil {
				failed = out.event(e)
			}
			if err := seen.Add(e); err != nil && failed == nil {
				failed = err
			}
		},
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	return out.end(seen)
}

// somethingNew reports whether a poll found something new to show.
func somethingNew(before, now *a2a.Task) bool {
	if before == nil || now == nil || before.Status.State != now.Status.State || len(before.Artifacts) != len(now.Artifacts) {
		return true
	}
	for i := range now.Artifacts {
		if len(now.Artifacts[i].Parts) != len(before.Artifacts[i].Parts) {
			return true
		}
	}
	return !now.Status.Timestamp.Equal(before.Status.Timestamp)
}

// stopped makes a failure of an error after which the task goes on, and says
// how to follow it.
func (s *session) stopped(err error, taskID string) error {
	err = s.failure(err)
	f, ok := errors.AsType[*failure](err)
	if !ok || taskID == "" || f.Code != codeInterrupted && f.Code != codeTimeout && f.Code != codeUnreachable {
		return err
	}
	return f.hint("Task %s goes on; follow it with: %s", taskID, s.target.nextCommand(s.flags, "task", "get", quoteShell(taskID), "--wait"))
}

// outcome says what became of a task where that is not success, and how to go
// on (a2a-cli §8.2, §11.6). The error is the exit code, with --exit-state.
func (s *session) outcome(t *a2a.Task, exitState bool) error {
	status := exitOK
	switch state := t.Status.State; {
	case state == a2a.StateInputRequired:
		s.warn("the task waits for your input")
		s.resume(s.target.nextCommand(s.flags, "send", "--task-id", quoteShell(t.ID)) + ` "<reply>"`)
		status = exitWaiting
	case state == a2a.StateAuthRequired:
		s.warn("the task waits for an authorization; %s", operatorAdvice)
		next := []string{"task", "subscribe", quoteShell(t.ID)}
		if !s.client.Streams() {
			next = []string{"task", "get", quoteShell(t.ID)}
		}
		s.resume(s.target.nextCommand(s.flags, next...))
		status = exitWaiting
	case state.Terminal() && state != a2a.StateCompleted:
		s.warn("the task ended as %s", stateText(state))
		status = exitNotDone
	}
	if exitState && status != exitOK {
		return exitStatus(status)
	}
	return nil
}

// resume tells the command that goes on: a field of text, and beside the output
// in other formats.
func (s *session) resume(command string) {
	if s.output == formatText {
		p := &printer{w: s.stdout}
		p.field("Resume", command)
		return
	}
	s.note("Resume: %s", command)
}

// showTask writes a task: as text, or in the object that wrap makes of it.
func (s *session) showTask(t *a2a.Task, object appender, streamed bool) error {
	if s.output != formatText {
		return s.writeObject(object, streamed)
	}
	v := s.newView()
	v.task(t)
	return v.err
}

// wait polls or follows a task until it is over or waits for its client.
func (s *session) wait(taskID string, poll bool, history *int) (*a2a.Task, error) {
	task, err := s.client.Wait(s.ctx, taskID, client.WaitOptions{
		Poll: poll, Interval: s.flags.interval, HistoryLength: history,
	})
	if err != nil {
		return nil, s.stopped(err, taskID)
	}
	if task == nil {
		return nil, fmt.Errorf("wait for task %s: the agent told nothing of it", taskID)
	}
	return task, nil
}

// silentSink shows nothing.
type silentSink struct{}

func (silentSink) event(*a2a.StreamResponse) error { return nil }

func (silentSink) end(*client.Accumulator) error { return nil }
