package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// streamCases are those with streams, whole and cut ones.
var streamCases = []testCase{
	{"stream a task", "stream", streamTask},
	{"stream many chunks", "stream", streamBurst},
	{"stream a message", "stream message", streamMessage},
	{"stream a question", "stream answer", streamQuestion},
	{"answer a question and wait", "stream answer", answerAndWait},
	{"subscribe to a running task", "subscribe", subscribeRunning},
	{"resume a stream that was cut", "subscribe", resumeCut},
	{"wait for a task whose stream was cut", "recover", waitThroughCut},
	{"poll a task whose stream was cut", "recover get", pollAfterCut},
	{"cancel a task that streams", "stream cancel", cancelStreaming},
}

// restartCases are those in which the agent ends.
var restartCases = []testCase{
	{"answer after the agent was started again", "restart", answerAfterRestart},
}

func streamTask(ctx context.Context, s *session) error {
	stream, err := s.stream(ctx, client.NewMessage(a2a.Text("slow 1")))
	if err != nil {
		return err
	}
	var seen client.Accumulator
	artifacts := 0
	if err := drain(stream, func(e *a2a.StreamResponse) error {
		if e.ArtifactUpdate != nil {
			artifacts++
		}
		return seen.Add(e)
	}); err != nil {
		return err
	}
	if artifacts < 2 {
		return fmt.Errorf("the stream had %d events of an artifact", artifacts)
	}
	if err := check(seen.Task, a2a.StateCompleted, chunks(10)); err != nil {
		return err
	}
	return s.sent(1)
}

func streamBurst(ctx context.Context, s *session) error {
	stream, err := s.stream(ctx, client.NewMessage(a2a.Text("burst 50")))
	if err != nil {
		return err
	}
	var seen client.Accumulator
	if err := drain(stream, seen.Add); err != nil {
		return err
	}
	return check(seen.Task, a2a.StateCompleted, chunks(50))
}

func streamMessage(ctx context.Context, s *session) error {
	stream, err := s.stream(ctx, client.NewMessage(a2a.Text("message hello")))
	if err != nil {
		return err
	}
	var seen client.Accumulator
	if err := drain(stream, seen.Add); err != nil {
		return err
	}
	if seen.Message == nil || seen.Message.Text() != "hello" {
		return errors.New("the stream had no message")
	}
	return nil
}

func streamQuestion(ctx context.Context, s *session) error {
	var seen client.Accumulator
	for i, m := range []*a2a.Message{client.NewMessage(a2a.Text("ask")), nil} {
		if i == 1 {
			m = client.FollowUp(seen.Task, a2a.Text("an answer"))
		}
		stream, err := s.stream(ctx, m)
		if err != nil {
			return err
		}
		want := []a2a.TaskState{a2a.StateInputRequired, a2a.StateCompleted}[i]
		for stream.State() != want {
			e, err := stream.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("turn %d: %w", i+1, err)
			}
			if err := seen.Add(e); err != nil {
				return err
			}
		}
		stream.Close()
		if err := check(seen.Task, want, ""); err != nil {
			return fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	return check(seen.Task, a2a.StateCompleted, "an answer")
}

// answerAndWait leaves it to the client to find out when the second turn is over.
func answerAndWait(ctx context.Context, s *session) error {
	task, err := s.send(ctx, client.NewMessage(a2a.Text("ask")))
	if err != nil {
		return err
	}
	answer, err := s.SendAndWait(ctx, &a2a.SendMessageRequest{Message: client.FollowUp(task, a2a.Text("an answer"))}, client.WaitOptions{})
	if err != nil {
		return err
	}
	if err := check(answer.Task, a2a.StateCompleted, "an answer"); err != nil {
		return err
	}
	return s.sent(2)
}

func subscribeRunning(ctx context.Context, s *session) error {
	task, err := s.begin(ctx, "slow 1")
	if err != nil {
		return err
	}
	stream, err := s.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: task.ID})
	if err != nil {
		return err
	}
	return s.follow(ctx, stream, new(client.Accumulator), 10)
}

// follow reads a subscription to the end of a task that makes n chunks.
func (s *session) follow(ctx context.Context, stream *client.Stream, seen *client.Accumulator, n int) error {
	old := s.agent.peer.version == "0.3"
	first := true
	err := drain(stream, func(e *a2a.StreamResponse) error {
		if first && e.Task == nil && !old {
			return errors.New("the first event is not the task (A2A §3.1.6)")
		}
		first = false
		return seen.Add(e)
	})
	if old && errors.Is(err, client.ErrStreamCut) {
		// It sometimes ends a subscription before it has told of the end.
		seen.Task, err = s.Wait(ctx, stream.TaskID(), client.WaitOptions{Poll: true})
	}
	if err != nil {
		return err
	}
	if err := check(seen.Task, a2a.StateCompleted, ""); err != nil {
		return err
	}
	if old {
		return nil // each of its streams stores what it sees, over what the others store
	}
	// Some agents tell again what the first event had already: what the task has in
	// the end is what they say when they are asked.
	task, err := s.GetTask(ctx, &a2a.GetTaskRequest{ID: stream.TaskID()})
	if err != nil {
		return err
	}
	return check(task, a2a.StateCompleted, chunks(n))
}

// cut starts a task that streams for two seconds, and cuts the stream after the
// second chunk. It returns the stream, which knows that it was cut, and what came.
func (s *session) cut(ctx context.Context) (*client.Stream, *client.Accumulator, error) {
	stream, err := s.stream(ctx, client.NewMessage(a2a.Text("slow 2")))
	if err != nil {
		return nil, nil, err
	}
	seen := new(client.Accumulator)
	artifacts := 0
	for {
		e, err := stream.Next()
		switch {
		case artifacts >= 2 && errors.Is(err, client.ErrStreamCut):
			return stream, seen, nil
		case err != nil:
			return nil, nil, fmt.Errorf("the stream that is cut after %d chunks: %w", artifacts, err)
		}
		if err := seen.Add(e); err != nil {
			return nil, nil, err
		}
		if e.ArtifactUpdate != nil {
			if artifacts++; artifacts == 2 {
				s.proxy.cut()
			}
		}
	}
}

func resumeCut(ctx context.Context, s *session) error {
	stream, seen, err := s.cut(ctx)
	if err != nil {
		return err
	}
	next, err := stream.Resume(ctx)
	if err != nil {
		return err
	}
	if err := s.follow(ctx, next, seen, 20); err != nil {
		return err
	}
	return s.sent(1)
}

// waitThroughCut leaves it to the client to subscribe again or to poll.
func waitThroughCut(ctx context.Context, s *session) error {
	var once sync.Once
	answer, err := s.SendAndWait(ctx, &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("slow 2"))}, client.WaitOptions{
		OnEvent: func(e *a2a.StreamResponse) {
			if e.ArtifactUpdate != nil {
				once.Do(s.proxy.cut)
			}
		},
	})
	if err != nil {
		return err
	}
	want := chunks(20)
	if s.agent.peer.version == "0.3" {
		want = "" // as in follow
	}
	if err := check(answer.Task, a2a.StateCompleted, want); err != nil {
		return err
	}
	return s.sent(1)
}

func pollAfterCut(ctx context.Context, s *session) error {
	stream, _, err := s.cut(ctx)
	if err != nil {
		return err
	}
	task, err := s.Wait(ctx, stream.TaskID(), client.WaitOptions{Poll: true})
	if err != nil {
		return err
	}
	if err := check(task, a2a.StateCompleted, chunks(20)); err != nil {
		return err
	}
	return s.sent(1)
}

func cancelStreaming(ctx context.Context, s *session) error {
	brief, err := s.With(func(o *client.Options) { o.IdleTimeout = 10 * time.Second })
	if err != nil {
		return err
	}
	stream, err := brief.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("slow 20"))})
	if err != nil {
		return err
	}
	canceled := false
	if err := drain(stream, func(e *a2a.StreamResponse) error {
		if e.ArtifactUpdate == nil || canceled {
			return nil
		}
		canceled = true
		_, err := s.CancelTask(ctx, &a2a.CancelTaskRequest{ID: e.ArtifactUpdate.TaskID})
		return err
	}); err != nil {
		return err
	}
	if stream.State() != a2a.StateCanceled {
		return fmt.Errorf("the stream ended in state %s", stream.State())
	}
	return nil
}

func answerAfterRestart(ctx context.Context, s *session) error {
	task, err := s.send(ctx, client.NewMessage(a2a.Text("ask")))
	if err != nil {
		return err
	}
	s.agent.kill()
	s.proxy.cut()
	_, err = s.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID})
	if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindConnect {
		return fmt.Errorf("the error while the agent is away is %w", err)
	}
	if err := s.agent.start(); err != nil {
		return err
	}
	kept, err := s.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID})
	if err != nil {
		return err
	}
	if err := check(kept, a2a.StateInputRequired, ""); err != nil {
		return err
	}
	next, err := s.send(ctx, client.FollowUp(task, a2a.Text("an answer")))
	if err != nil {
		return err
	}
	if next.ID != task.ID {
		return fmt.Errorf("the answer belongs to task %s, want %s", next.ID, task.ID)
	}
	if err := check(next, a2a.StateCompleted, "an answer"); err != nil {
		return err
	}
	return s.sent(2)
}

func (s *session) stream(ctx context.Context, m *a2a.Message) (*client.Stream, error) {
	return s.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: m})
}

// drain reads a stream to its end.
func drain(stream *client.Stream, observe func(*a2a.StreamResponse) error) error {
	for e, err := range stream.All() {
		if err == nil {
			err = observe(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
