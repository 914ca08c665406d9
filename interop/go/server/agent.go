package main

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// agent does what the first word of a message says.
type agent struct{}

// Execute makes the events of one turn.
func (agent) Execute(ctx context.Context, turn *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		command, argument, rest := read(turn.Message)
		if command == "message" {
			parts := append(a2a.ContentParts{a2a.NewTextPart(argument)}, rest...)
			yield(a2a.NewMessageForTask(a2a.MessageRoleAgent, turn, parts...), nil)
			return
		}
		emit := func(e a2a.Event) bool { return yield(e, nil) }
		if turn.StoredTask == nil {
			if !emit(a2a.NewSubmittedTask(turn, turn.Message)) {
				return
			}
		} else {
			command = "echo"
			argument = text(turn.Message)
		}
		if !emit(a2a.NewStatusUpdateEvent(turn, a2a.TaskStateWorking, nil)) {
			return
		}
		state, said := work(ctx, turn, emit, command, argument, rest)
		emit(a2a.NewStatusUpdateEvent(turn, state, said))
	}
}

// Cancel ends a task.
func (agent) Cancel(_ context.Context, turn *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(turn, a2a.TaskStateCanceled, nil), nil)
	}
}

// work does what a command says and returns the state that the turn ends in.
func work(ctx context.Context, turn *a2asrv.ExecutorContext, emit func(a2a.Event) bool, command, argument string, rest a2a.ContentParts) (a2a.TaskState, *a2a.Message) {
	say := func(text string) *a2a.Message {
		return a2a.NewMessageForTask(a2a.MessageRoleAgent, turn, a2a.NewTextPart(text))
	}
	switch command {
	case "ask":
		return a2a.TaskStateInputRequired, say("What is it?")
	case "auth":
		return a2a.TaskStateAuthRequired, say("Who are you?")
	case "fail":
		return a2a.TaskStateFailed, say("failed on request")
	case "never":
		<-ctx.Done()
		return a2a.TaskStateCanceled, nil
	case "slow":
		seconds, _ := strconv.Atoi(argument)
		chunks(ctx, turn, emit, 10*seconds, 100*time.Millisecond)
	case "burst":
		n, _ := strconv.Atoi(argument)
		chunks(ctx, turn, emit, n, 0)
	default:
		artifact := a2a.NewArtifactEvent(turn, append(a2a.ContentParts{a2a.NewTextPart(argument)}, rest...)...)
		artifact.LastChunk = true
		emit(artifact)
	}
	return a2a.TaskStateCompleted, nil
}

// chunks makes an artifact of n chunks, one every interval.
func chunks(ctx context.Context, turn *a2asrv.ExecutorContext, emit func(a2a.Event) bool, n int, interval time.Duration) {
	var id a2a.ArtifactID
	for i := range n {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		chunk := a2a.NewTextPart("chunk " + strconv.Itoa(i+1) + "\n")
		event := a2a.NewArtifactEvent(turn, chunk)
		if i > 0 {
			event = a2a.NewArtifactUpdateEvent(turn, id, chunk)
		}
		id, event.LastChunk = event.Artifact.ID, i == n-1
		if !emit(event) {
			return
		}
	}
}

// read returns the command of a message, its argument, and the parts behind the
// first one.
func read(m *a2a.Message) (command, argument string, rest a2a.ContentParts) {
	first := text(m)
	if len(m.Parts) > 1 {
		rest = m.Parts[1:]
	}
	switch command, argument, _ = strings.Cut(first, " "); command {
	case "echo", "message", "ask", "auth", "slow", "burst", "fail", "never":
		return command, argument, rest
	}
	return "echo", first, rest
}

func text(m *a2a.Message) string {
	if len(m.Parts) == 0 {
		return ""
	}
	return m.Parts[0].Text()
}
