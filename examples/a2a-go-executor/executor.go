package main

import (
	"context"
	"iter"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// translator is an agent as people write it for a2a-go; nothing in it knows of
// the node that runs it. It spells words in the NATO alphabet, a chunk each, and
// asks when there is nothing to spell.
type translator struct{}

var _ a2asrv.AgentExecutor = translator{}

// Execute answers a message.
func (translator) Execute(_ context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if exec.StoredTask == nil && !yield(a2a.NewSubmittedTask(exec, exec.Message), nil) {
			return
		}
		words := spell(exec.Message)
		if len(words) == 0 {
			question := a2a.NewMessageForTask(a2a.MessageRoleAgent, exec, a2a.NewTextPart("What shall I spell?"))
			yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateInputRequired, question), nil)
			return
		}
		if !yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateWorking, nil), nil) {
			return
		}
		var artifact a2a.ArtifactID
		for _, word := range words {
			event := a2a.NewArtifactUpdateEvent(exec, artifact, a2a.NewTextPart(word+" "))
			if artifact == "" {
				event = a2a.NewArtifactEvent(exec, a2a.NewTextPart(word+" "))
				artifact = event.Artifact.ID
			}
			if !yield(event, nil) {
				return
			}
		}
		yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateCompleted, nil), nil)
	}
}

// Cancel has nothing to clean up.
func (translator) Cancel(_ context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateCanceled, nil), nil)
	}
}

var alphabet = strings.Fields(`Alfa Bravo Charlie Delta Echo Foxtrot Golf Hotel India Juliett Kilo Lima Mike
	November Oscar Papa Quebec Romeo Sierra Tango Uniform Victor Whiskey Xray Yankee Zulu`)

func spell(m *a2a.Message) []string {
	var words []string
	for _, part := range m.Parts {
		for _, letter := range strings.ToUpper(part.Text()) {
			if letter >= 'A' && letter <= 'Z' {
				words = append(words, alphabet[letter-'A'])
			}
		}
	}
	return words
}
