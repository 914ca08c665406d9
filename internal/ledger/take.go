package ledger

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// identify checks that what a peer says is about the task that it has named, or
// takes the name down.
func (w *work) identify(task, contextID string) error {
	switch {
	case task == "":
		return &IdentityError{What: "task", Want: w.d.RemoteTask, Got: task}
	case w.d.RemoteTask != "" && task != w.d.RemoteTask && !w.renews():
		return &IdentityError{What: "task", Want: w.d.RemoteTask, Got: task}
	case w.d.RemoteContext != "" && contextID != "" && contextID != w.d.RemoteContext:
		return &IdentityError{What: "context", Want: w.d.RemoteContext, Got: contextID}
	case len(task) > a2a.MaxIDLength || len(contextID) > a2a.MaxIDLength:
		return &IdentityError{What: "task with an id that is too long", Want: w.d.RemoteTask, Got: task}
	}
	w.d.RemoteTask = task
	if contextID != "" {
		w.d.RemoteContext = contextID
	}
	return nil
}

// renews reports whether the message under way begins a new task of the peer,
// since the one before is over.
func (w *work) renews() bool { return w.uncertain() && w.d.RemoteState.Terminal() }

// snapshot takes over a task as it is at the peer.
func (w *work) snapshot(ctx context.Context, t *a2a.Task) error {
	if err := w.identify(t.ID, t.ContextID); err != nil {
		return err
	}
	if err := w.reconcile(t.Artifacts); err != nil {
		return err
	}
	digest := digestOf(t)
	if err := w.status(ctx, &t.Status, digest); err != nil || w.over {
		return err
	}
	w.d.RemoteDigest = digest
	return nil
}

// load reads the artifacts that the task has, when it may have any.
func (w *work) load() error {
	if w.loaded {
		return nil
	}
	w.loaded = true
	if w.t.Number == 1 && w.t.Attempt == 1 {
		return nil
	}
	artifacts, err := w.t.Artifacts()
	if err != nil {
		return err
	}
	w.shelf.load(artifacts)
	return nil
}

// reconcile brings the artifacts to what the peer has: those that are the same
// are passed over, the others replaced as a whole.
func (w *work) reconcile(artifacts []a2a.Artifact) error {
	if len(artifacts) == 0 {
		return nil
	}
	if err := w.load(); err != nil {
		return err
	}
	w.shelf.gap = false
	for i := range artifacts {
		a := w.redactor().artifact(&artifacts[i])
		if a.ArtifactID == "" || len(a.ArtifactID) > a2a.MaxIDLength {
			continue
		}
		if w.shelf.same(a) {
			w.t.Skip(agent.Step{Artifact: &agent.Artifact{ID: a.ArtifactID, Name: a.Name, Parts: a.Parts}})
			continue
		}
		if !w.counted {
			if err := w.receivedBytes(artifactBytes(&artifacts[i])); err != nil {
				return err
			}
		}
		if step := w.shelf.whole(a); step != nil {
			if err := w.emit(agent.Step{Artifact: step}); err != nil {
				return err
			}
		}
	}
	return nil
}

// event takes over one event of a stream.
func (w *work) event(ctx context.Context, e *a2a.StreamResponse) error {
	switch {
	case e.Task != nil:
		return w.snapshot(ctx, e.Task)
	case e.Message != nil:
		return w.end(ctx, agent.Step{Complete: w.contentOf(e.Message)})
	case e.StatusUpdate != nil:
		u := e.StatusUpdate
		if err := w.identify(u.TaskID, u.ContextID); err != nil {
			return err
		}
		if err := w.status(ctx, &u.Status, statusDigest(&u.Status)); err != nil {
			return err
		}
		w.d.RemoteDigest = statusDigest(&u.Status)
		return nil
	case e.ArtifactUpdate != nil:
		u := e.ArtifactUpdate
		if err := w.identify(u.TaskID, u.ContextID); err != nil {
			return err
		}
		if u.Artifact.ArtifactID == "" || len(u.Artifact.ArtifactID) > a2a.MaxIDLength {
			return nil
		}
		if err := w.load(); err != nil {
			return err
		}
		if w.resumed && u.Append {
			// Some peers tell again what the snapshot before it had already, and some
			// leave out what came before they had the subscription.
			w.shelf.gap = true
		}
		clean := *u
		clean.Artifact = *w.redactor().artifact(&u.Artifact)
		if step := w.shelf.chunk(&clean); step != nil {
			return w.emit(agent.Step{Artifact: step})
		}
	}
	return nil
}

// status takes over a status. One that ends the turn is saved with the digest.
func (w *work) status(ctx context.Context, s *a2a.TaskStatus, digest string) error {
	state := s.State
	w.d.RemoteState = state
	c := w.contentOf(s.Message)
	if !state.Terminal() && !state.Interrupted() {
		if d := statusDigest(s); len(c.Parts) > 0 && saidPart(d) != saidPart(w.said) {
			w.said = d
			if said, err := w.saidBefore(c); err != nil || said {
				return err
			}
			return w.emit(agent.Step{Working: c})
		}
		return nil
	}
	if w.hasten && state == a2a.StateAuthRequired && statusDigest(s) == w.said {
		return nil // it has not heard of the decision yet, and is not decided on twice
	}
	if w.shelf.gap {
		// What has come this way may not be the whole of an artifact.
		w.shelf.gap = false
		task, err := w.get(ctx)
		if err == nil {
			err = w.reconcile(task.Artifacts)
		}
		if err != nil {
			return err
		}
	}
	w.d.RemoteDigest, w.d.Channel = digest, store.ChannelNone
	var jobs []store.Job
	if state.Interrupted() {
		w.d.Channel = store.ChannelPoll
		jobs = append(jobs, w.pollJob(0, w.link.PollMax))
		if w.push(ctx) {
			w.d.Channel = store.ChannelPush
		}
	}
	if err := w.save(ctx, nil, jobs...); err != nil {
		return err
	}
	return w.end(ctx, w.ending(state, s.Message, c))
}

// saidBefore reports whether a status is what the task has said last already: the
// row need not know of it when the process before this one has died.
func (w *work) saidBefore(c *agent.Content) (bool, error) {
	if w.asked || w.t.Number == 1 && w.t.Attempt == 1 {
		return false, nil
	}
	w.asked = true
	history, err := w.t.History()
	if err != nil {
		return false, err
	}
	for _, m := range slices.Backward(history) {
		if m.Role != a2a.RoleAgent {
			return false, nil
		}
		if !strings.HasPrefix(m.Text(), w.waited()) { // that is of our own
			of := func(parts []a2a.Part) string {
				return saidPart(statusDigest(&a2a.TaskStatus{Message: &a2a.Message{Parts: parts}}))
			}
			return of(m.Parts) == of(c.Parts), nil
		}
	}
	return false, nil
}

// ending is the step that a terminal or interrupted state of the peer becomes.
func (w *work) ending(state a2a.TaskState, m *a2a.Message, c *agent.Content) agent.Step {
	switch state {
	case a2a.StateCompleted:
		return agent.Step{Complete: c}
	case a2a.StateRejected:
		return agent.Step{Reject: orSay(c, "The peer "+w.d.Peer+" rejected the task and did not say why.")}
	case a2a.StateCanceled:
		c.Parts = append([]a2a.Part{a2a.Text("The peer " + w.d.Peer + " canceled the task; nobody here has asked for that.")}, c.Parts...)
		return agent.Step{Fail: c}
	case a2a.StateInputRequired:
		ask := &agent.Ask{Content: *orSay(c, "The peer "+w.d.Peer+" asks for input and did not say what.")}
		ask.Schema, ask.Parts = splitSchema(ask.Parts)
		return agent.Step{Ask: ask}
	case a2a.StateAuthRequired:
		r := requestOf(w.redactor().message(m))
		c = orSay(c, "The peer "+w.d.Peer+" asks for an authorization and did not say for what.")
		c.Metadata = nil // the engine describes our own request
		if !declares(w.card(), a2a.GrantExtension) {
			c.Parts = append(c.Parts, a2a.Text(w.elsewhere(r.url)))
		}
		return agent.Step{Authorize: &agent.Authorize{Content: *c, Operation: r.operation, URL: r.url, Expires: r.expires}}
	}
	return agent.Step{Fail: orSay(c, "The peer "+w.d.Peer+" failed and did not say why.")}
}

func orSay(c *agent.Content, text string) *agent.Content {
	if len(c.Parts) == 0 {
		return agent.Say(text)
	}
	return c
}

// contentOf is what a message of the peer says, without what is secret.
func (w *work) contentOf(m *a2a.Message) *agent.Content { return contentOf(w.redactor().message(m)) }

// contentOf is what a message of the peer says. Parts that hold nothing are left
// out.
func contentOf(m *a2a.Message) *agent.Content {
	c := &agent.Content{}
	if m == nil {
		return c
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind < a2a.PartText || p.Kind > a2a.PartData || p.Kind == a2a.PartURL && p.URL == "" {
			continue
		}
		c.Parts = append(c.Parts, *p)
	}
	if len(c.Parts) > 0 && m.Metadata.Kind() == '{' {
		c.Metadata = m.Metadata
	}
	return c
}

// splitSchema takes the schema of the answer out of the parts of a question.
func splitSchema(parts []a2a.Part) (schema a2a.JSON, rest []a2a.Part) {
	for i := range parts {
		if p := &parts[i]; schema == nil && p.Kind == a2a.PartData && p.MediaType == agent.SchemaMediaType && p.Data.Kind() == '{' {
			schema = p.Data
			continue
		}
		rest = append(rest, parts[i])
	}
	if len(rest) == 0 {
		rest = []a2a.Part{a2a.Text("The peer asks for input of the given form.")}
	}
	return schema, rest
}

// request is a request of the peer for an authorization.
type request struct {
	operation, url string
	expires        time.Time
}

// requestOf reads the request of a message that asks for an authorization: from
// the grant extension, or as far as its parts name an address.
func requestOf(m *a2a.Message) request {
	var r request
	if m == nil {
		return r
	}
	g, err := a2a.GrantRequestOf(m.Metadata)
	if err != nil || g == nil { // in the way that is not under the extension
		g = &a2a.GrantRequest{}
		if m.Metadata.Kind() == '{' {
			_ = json.Unmarshal(m.Metadata, g) // what does not fit is left out
		}
	}
	r.operation, r.url = clip(g.Operation, a2a.MaxIDLength), webAddress(g.URL)
	if g.Expires.After(time.Now()) {
		r.expires = g.Expires
	}
	for i := range m.Parts {
		if r.url == "" && m.Parts[i].Kind == a2a.PartURL {
			r.url = webAddress(m.Parts[i].URL)
		}
	}
	return r
}

// webAddress returns an address that a person can open, "" when it is none.
func webAddress(text string) string {
	const most = 2048
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || len(text) > most || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return text
}
