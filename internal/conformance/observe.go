package conformance

import (
	"fmt"
	"slices"
)

// topic is something that every answer shows, and not a request of its own.
type topic string

const (
	envelope    topic = "jsonrpc.envelope"
	contentType topic = "content.type"
	mediaA2A    topic = "content.a2a"
	details     topic = "error.details"
	errorInfo   topic = "error.info"

	required   topic = "object.required"
	types      topic = "object.types"
	names      topic = "object.names"
	enums      topic = "object.enums"
	timestamps topic = "object.timestamps"
	millis     topic = "object.milliseconds"
	nulls      topic = "object.null"
	legacy     topic = "object.legacy"
	oneOf      topic = "object.one-of"
)

// maxProblems bounds what is kept of a topic.
const maxProblems = 4

// observed gathers what the answers of an interface show.
type observed struct {
	problems map[topic][]string
	seen     map[topic]bool
}

func newObserved() *observed {
	return &observed{problems: map[topic][]string{}, seen: map[topic]bool{}}
}

// add notes a problem.
func (o *observed) add(t topic, format string, args ...any) {
	o.saw(t)
	text := shorten(fmt.Sprintf(format, args...), maxQuote/2)
	if kept := o.problems[t]; len(kept) < maxProblems && !slices.Contains(kept, text) {
		o.problems[t] = append(kept, text)
	}
}

// saw notes that there was something to look at.
func (o *observed) saw(t topic) { o.seen[t] = true }
