package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// longest is the longest wait after something failed.
const longest = 24 * time.Hour

// seenEvery is how often the row is told that the peer is alive while a stream
// is followed.
const seenEvery = 15 * time.Second

// mendedEvery is how often it is looked whether somebody has mended what hinders a
// delegation.
const mendedEvery = 15 * time.Second

// work is one turn of a delegation.
type work struct {
	l    *Ledger
	t    *agent.Turn
	book engine.Ledger
	d    *store.Delegation
	link Link

	shelf  shelf
	loaded bool // the shelf has what the task has
	// resumed says that the stream is not the one that the message went out with.
	resumed bool
	said    string // digest of the status that was told last
	over    bool   // the step that ends the turn was emitted
	asked   bool   // it was looked at what the task has said last
	saved   time.Time
	// savedState is the state of the peer's task that the row has.
	savedState a2a.TaskState
	hasten     bool // a decision was made: the peer may go on soon

	mem, noted memory // private state, as it is and as it was written
	counted    bool   // the artifacts of the answer that is taken over are counted
	cut        *redactor
	cutSecret  bool // cut knows what the peer has to present
}

// run is one turn of a delegation to a peer.
func (l *Ledger) run(ctx context.Context, peer string, t *agent.Turn) error {
	book, ok := engine.LedgerOf(ctx)
	if !ok {
		return errors.New("the turn is not that of a delegation")
	}
	d, err := book.Delegation(ctx)
	if err != nil {
		return l.failed(ctx, t, fmt.Errorf("read delegation: %w", err))
	}
	w := &work{l: l, t: t, book: book, d: d, said: statusPart(d.RemoteDigest)}
	w.d.Peer = peer
	if t.State != nil && json.Unmarshal(t.State, &w.mem) != nil {
		w.mem = memory{}
	}
	w.noted = w.mem
	err = w.run(ctx)
	if limit, ok := errors.AsType[*ReceivedError](err); ok && !w.over {
		err = w.exceeded(ctx, limit)
	}
	if err != nil && !w.over {
		return l.failed(ctx, t, err)
	}
	return nil
}

// failed ends a turn that could not go on for a reason of our own, such as a
// store that is away. The delegation is not over for that: it is tried again.
func (l *Ledger) failed(ctx context.Context, t *agent.Turn, err error) error {
	if ctx.Err() != nil || errors.Is(err, agent.ErrEnded) || errors.Is(err, store.ErrConflict) {
		return nil // the engine knows why
	}
	if text, ok := agent.Public(err); ok {
		return t.Fail(text)
	}
	l.log.WarnContext(ctx, "A turn of a delegation could not go on, and is tried again", "task", t.TaskID, "error", err)
	return t.Emit(waitFor(l.backoff(3)))
}

func (w *work) run(ctx context.Context) error {
	if w.hasRefused() {
		return w.endUndone(ctx, "taken", w.mem.Refused)
	}
	if err := w.open(ctx); err != nil {
		return w.unreachable(ctx, err)
	}
	pending, err := w.waiting(ctx)
	if err != nil {
		return err
	}
	if w.replied() {
		return w.reply(ctx)
	}
	truth := w.t.Cause != agent.CauseMessage || w.t.Attempt > 1
	if w.uncertain() {
		found, err := w.look(ctx)
		switch {
		case ended(ctx, err):
			return err
		case found:
			if pending, err = w.waiting(ctx); err != nil {
				return err
			}
			truth = true
		case !w.link.Deduplicates:
			return w.unknown(ctx, err)
		}
	}
	done, err := w.decide(ctx)
	if err != nil || w.over || done {
		return err
	}
	for i := range pending {
		w.address(ctx, &pending[i])
		if gone, err := w.forgotten(ctx, &pending[i]); err != nil || gone {
			return err
		}
		more, err := w.deliver(ctx, &pending[i], i == len(pending)-1)
		if err != nil || w.over || !more {
			return err
		}
		truth = false
	}
	return w.follow(ctx, truth)
}

// open finds how to speak to the peer.
func (w *work) open(ctx context.Context) error {
	link, err := w.l.opts.Peers.Open(ctx, w.d.Peer, User{Tenant: w.d.Tenant, Subject: w.d.Owner})
	if err != nil {
		if link != nil {
			w.link.Stuck = link.Stuck
		}
		return err
	}
	if w.link, err = prepared(link); err != nil {
		return &PeerError{Peer: w.d.Peer, Err: err}
	}
	w.cut = nil
	w.shelf = shelf{limit: w.link.ArtifactBytes, known: map[string]*received{}}
	i := w.link.Client.Interface()
	w.d.Interface = fmt.Sprintf("%s %s %s", i.ProtocolBinding, i.ProtocolVersion, i.URL)
	w.d.CardDigest = w.link.CardDigest
	return nil
}

// redactor cuts what is secret out of what the peer says.
func (w *work) redactor() *redactor {
	if secret := w.d.Secret != nil; w.cut == nil || secret != w.cutSecret {
		w.cut, w.cutSecret = w.l.redactor(&w.link, w.d), secret
	}
	return w.cut
}

func (w *work) card() *a2a.AgentCard { return w.link.Client.Card() }

// canStream reports whether the peer streams, and may.
func (w *work) canStream() bool { return w.link.Stream && w.link.Client.Streams() }

// uncertain reports whether a message is under way of which nobody knows whether
// it has arrived.
func (w *work) uncertain() bool {
	return w.d.Message != "" && (w.d.Send == store.SendSending || w.d.Send == store.SendUnknown)
}

// backoff returns how long to wait before the nth try.
func (l *Ledger) backoff(n int) time.Duration {
	return jitter(min(l.opts.Backoff<<min(max(n-1, 0), 20), l.opts.MaxBackoff))
}

// jitter returns a time up to a fifth shorter or longer.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// parked waits for a push or a poll.
func parked() agent.Step { return agent.Step{Wait: &agent.Wait{Callback: true}} }

func waitFor(d time.Duration) agent.Step {
	return agent.Step{Wait: &agent.Wait{For: min(max(d, time.Millisecond), longest), Callback: true}}
}

// heard says that the peer has answered.
func (w *work) heard(ctx context.Context) {
	if w.d.Attempts >= stuckTries {
		w.l.unstick(ctx, w.d)
	}
	w.d.Seen, w.d.Attempts, w.d.Error = time.Now(), 0, ""
	if w.d.RemoteTask != "" {
		w.l.seen.add(sightOf(w.d), sightKept)
	}
}

// sightKept is for how long it is believed that the peer has a task that it has
// told of.
const sightKept = time.Second

// sightOf is the key under which it is remembered that the peer has its task.
func sightOf(d *store.Delegation) string { return "sight " + d.Task + " " + d.RemoteTask }

// forgotten looks whether the peer still has the task that a message is for, since
// some make a new one of an answer to a task that they have forgotten. It ends the
// turn of a task that is not there.
func (w *work) forgotten(ctx context.Context, o *outgoing) (bool, error) {
	if o.message.TaskID == "" || w.l.seen.has(sightOf(w.d)) {
		return false, nil
	}
	_, err := w.get(ctx)
	if isAnswer(err) && errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
		return true, w.silent(ctx, err)
	}
	return false, nil // what is wrong with it shows when the message is sent
}

// trouble says that a call has failed, and tells our user once of each kind of
// trouble.
func (w *work) trouble(err error) error {
	text := w.redactor().explain(clocked(err, &w.link))
	w.d.Attempts++
	if w.d.Error == text {
		return nil
	}
	w.d.Error = text
	return w.emit(agent.Step{Working: agent.Say(w.waited() + text + ".")})
}

// waited begins the texts that say why nothing comes of the peer.
func (w *work) waited() string { return "The peer " + w.d.Peer + " is waited for: " }

// save makes the row durable, after everything that was emitted before it.
func (w *work) save(ctx context.Context, item *store.InboxItem, jobs ...store.Job) error {
	if err := w.t.Flush(); err != nil {
		return err
	}
	if err := w.book.Save(ctx, w.d, engine.With{Jobs: jobs, Item: item}); err != nil {
		return err
	}
	w.saved, w.savedState = time.Now(), w.d.RemoteState
	for i := range jobs {
		w.l.opts.Due(jobs[i].Due)
	}
	return nil
}

// unreachable ends a turn in which the peer could not be spoken to.
func (w *work) unreachable(ctx context.Context, err error) error {
	if ended(ctx, err) {
		return err
	}
	w.observe(0, err)
	if lasting(err) && w.d.RemoteTask == "" && !w.uncertain() {
		w.d.Channel = store.ChannelNone
		return w.endUndone(ctx, "sent", w.redactor().explain(err))
	}
	return w.later(ctx, err)
}

// later ends a turn that failed for now.
func (w *work) later(ctx context.Context, err error) error {
	if err := w.trouble(err); err != nil {
		return err
	}
	var item *store.InboxItem
	var ierr error
	people := forPeople(err)
	if people {
		w.d.Attempts = max(w.d.Attempts, stuckTries)
		item, ierr = w.l.stuck(ctx, w.d, atOnce)
	} else {
		item, ierr = w.stuck(ctx)
	}
	if ierr != nil {
		return ierr
	}
	if err := w.save(ctx, item); err != nil {
		return err
	}
	wait := max(w.l.backoff(w.d.Attempts), asked(err))
	if people {
		wait = min(wait, mendedEvery) // once it is mended, it goes on by itself
	}
	return w.end(ctx, waitFor(wait))
}

// unknown ends a turn that does not know whether the peer has got a message. It
// is not sent again.
func (w *work) unknown(ctx context.Context, err error) error {
	w.d.Send = store.SendUnknown
	if err == nil {
		err = errors.New("it is not known whether the peer has got the message, and it is not sent twice")
	}
	return w.later(ctx, w.doubt(err))
}

// doubt puts what went wrong with the send of a message before why it is still
// not known what became of it, with the call that said so.
func (w *work) doubt(err error) error {
	text := w.redactor().explain(clocked(err, &w.link))
	if _, ok := errors.AsType[*a2a.Error](err); ok {
		text = w.looksBy() + ": " + text
	}
	if w.mem.Cause != "" && w.mem.CauseOf == w.d.Message {
		text = w.mem.Cause + ", and " + text
	}
	return &doubtError{text: text, err: err}
}

// looksBy is the operation by which a message is looked for.
func (w *work) looksBy() string {
	if w.d.RemoteTask != "" && !w.d.RemoteState.Terminal() {
		return "GetTask"
	}
	return "ListTasks"
}

// inDoubt says why it is not known whether a message has arrived, and keeps that.
func (w *work) inDoubt(err error) error {
	w.d.Send = store.SendUnknown
	if err := w.trouble(err); err != nil {
		return err
	}
	w.mem.CauseOf, w.mem.Cause = w.d.Message, w.d.Error
	return w.remember()
}

// stuck returns the item for the inbox when the peer has been silent for too
// long, once.
func (w *work) stuck(ctx context.Context) (*store.InboxItem, error) {
	return w.l.stuck(ctx, w.d, w.link.Stuck)
}

// end emits the step that ends the turn.
func (w *work) end(ctx context.Context, s agent.Step) error {
	if err := w.emit(s); err != nil {
		return err
	}
	w.over = true
	if s.Terminal() && w.d.Attempts >= stuckTries {
		w.l.unstick(ctx, w.d)
	}
	return nil
}

// emit emits a step. What a peer says need not be something that a step can
// hold; then the step says so.
func (w *work) emit(s agent.Step) error {
	if err := w.note(&s); err != nil {
		return err
	}
	err := w.t.Emit(s)
	switch {
	case err == nil, errors.Is(err, agent.ErrEnded), errors.Is(err, agent.ErrMessageFirst):
		return err
	case s.Validate() == nil && !tooDeep(err):
		return err
	}
	text := "What the peer " + w.d.Peer + " sent cannot be taken over: " + w.redactor().explain(err)
	switch {
	case s.Working != nil:
		s.Working = agent.Say(text)
	case s.Artifact != nil:
		s.Artifact = &agent.Artifact{ID: clip(s.Artifact.ID, a2a.MaxIDLength), Parts: []a2a.Part{a2a.Text(text)}, Last: true}
	case s.Ask != nil:
		s.Ask = &agent.Ask{Content: *agent.Say(text)}
	case s.Authorize != nil:
		s.Authorize = &agent.Authorize{Content: *agent.Say(text)}
	case s.Complete != nil:
		s.Complete = agent.Say(text)
	case s.Fail != nil:
		s.Fail = agent.Say(text)
	case s.Reject != nil:
		s.Reject = agent.Say(text)
	}
	return w.t.Emit(s)
}

// tooDeep reports whether a step was refused for what it holds, and not for a
// limit or the end of the turn.
func tooDeep(err error) bool {
	return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, agent.ErrCanceled) && !errors.Is(err, agent.ErrTakenOver) &&
		!errors.Is(err, agent.ErrHandedOver) && !errors.Is(err, agent.ErrStopping)
}

func clip(text string, n int) string {
	if len(text) > n {
		return text[:n]
	}
	return text
}

// observe tells the catalog of peers how a call went.
func (w *work) observe(took time.Duration, err error) {
	w.l.opts.Peers.Observe(context.Background(), w.d.Peer, Observation{Interface: w.d.Interface, Took: took, Err: w.redactor().err(err)})
}

// memory is the private state of a delegation: a decision that the peer has not
// got yet, or what it has answered or refused.
type memory struct {
	Turn     int    `json:"turn,omitzero"`
	Approved bool   `json:"approved,omitzero"`
	Note     string `json:"note,omitzero"`
	// Reply is the message that the peer has answered with.
	Reply a2a.JSON `json:"reply,omitempty"`
	// Cause is why it is not known whether the message CauseOf has arrived.
	CauseOf string `json:"causeOf,omitzero"`
	Cause   string `json:"cause,omitzero"`
	// Refused is why the peer has not taken the message RefusedOf.
	RefusedOf string `json:"refusedOf,omitzero"`
	Refused   string `json:"refused,omitzero"`
	// Events and Bytes are what was taken over from the peer.
	Events int64 `json:"events,omitzero"`
	Bytes  int64 `json:"bytes,omitzero"`
}

// decide brings the decision on a grant request to the peer, when there is one
// that it has not got. It reports whether the turn is done with.
func (w *work) decide(ctx context.Context) (done bool, err error) {
	m := &w.mem
	if w.t.Cause == agent.CauseGrant && w.t.Grant != nil {
		m.Turn, m.Approved, m.Note = w.t.Number, w.t.Grant.Approved, w.t.Grant.Note
	}
	if m.Turn == 0 || w.d.RemoteTask == "" || slices.ContainsFunc(w.t.Messages, func(m a2a.Message) bool { return decides(&m) }) {
		return false, nil // a message brings it
	}
	id := decisionID(w.d.Task, m.Turn)
	if w.d.Message == id && w.d.Send == store.SendAccepted {
		return false, w.decided()
	}
	w.hasten = true
	if !declares(w.card(), a2a.GrantExtension) {
		return false, w.tellWhere(ctx)
	}
	if w.t.Cause == agent.CauseGrant {
		if err := w.remember(); err != nil {
			return false, err
		}
	}
	task, err := w.get(ctx)
	if err != nil {
		return true, w.silent(ctx, err)
	}
	if task.Status.State != a2a.StateAuthRequired { // it has gone on without
		if w.d.Message == id {
			w.d.Send = store.SendAccepted
		}
		return false, w.decided()
	}
	o := w.decision(m)
	more, err := w.deliver(ctx, &o, true)
	if err != nil || w.over || !more {
		return true, err
	}
	return false, w.decided()
}

// decided forgets a decision that the peer has, or does not need any more.
func (w *work) decided() error {
	w.mem.Turn, w.mem.Approved, w.mem.Note = 0, false, ""
	return w.remember()
}

// tellWhere says where a decision has to be made that the peer does not take
// from us.
func (w *work) tellWhere(ctx context.Context) error {
	if w.t.Cause != agent.CauseGrant {
		return nil
	}
	at := ""
	if task, err := w.get(ctx); err == nil && task.Status.State == a2a.StateAuthRequired {
		at = requestOf(w.redactor().message(task.Status.Message)).url
	}
	return w.emit(agent.Step{Working: agent.Say(w.elsewhere(at))})
}

// elsewhere says where a decision has to be made that the peer does not take from
// us.
func (w *work) elsewhere(at string) string {
	text := "The peer " + w.d.Peer + " takes no decisions from here. Its task goes on when the decision is made there"
	if at != "" {
		text += ": " + at
	}
	return text + "."
}
