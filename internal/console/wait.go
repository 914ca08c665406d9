package console

import "time"

// waitsFor says for whom or what a task waits.
type waitsFor struct {
	Kind  string    `json:"kind"` // answer, grant, task, peer, callback, time or worker
	Who   string    `json:"who"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Text  string    `json:"text"`
	Task  string    `json:"task"`
	Item  string    `json:"item"`
}

// What says what is waited for, without who.
func (w *waitsFor) What() string { return waitedFor(w.Kind, "") }

// Whom names who or what is waited for.
func (w *waitsFor) Whom() string { return waitedFor(w.Kind, w.Who) }

// Person reports whether it is up to a person.
func (w *waitsFor) Person() bool { return w.Kind == "answer" || w.Kind == "grant" }

// waitedFor names who or what a wait of a kind is for.
func waitedFor(kind, who string) string {
	if who != "" {
		return who
	}
	switch kind {
	case "answer":
		return "an answer"
	case "grant":
		return "an approval"
	case "task":
		return "another agent"
	case "peer":
		return "a peer"
	case "callback":
		return "a callback"
	case "time":
		return "its time"
	case "worker":
		return "a free worker"
	}
	return kind
}
