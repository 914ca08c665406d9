package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// metaIdempotency is the key in the metadata of a message under which a peer
// finds a key that is the same whenever the message is sent.
const metaIdempotency = "idempotencyKey"

// messageID returns the id with which the nth message of a task is sent,
// whichever attempt sends it.
func messageID(task string, n int64) string {
	return derived(task, "message", strconv.FormatInt(n, 10))
}

// decisionID returns the id of the message that brings the decision after a turn.
func decisionID(task string, turn int) string {
	return derived(task, "decision", strconv.Itoa(turn))
}

func derived(task, kind, which string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("handoff:"+kind+":"+task+":"+which)).String()
}

// outgoing is a message for the peer.
type outgoing struct {
	number   int64 // of it among the messages of the task; 0: a decision
	id       string
	message  a2a.Message // as it is sent
	original string      // id of the message as it came to us
}

// waiting returns the messages of the task that were not sent, and the one that
// is under way, oldest first.
func (w *work) waiting(ctx context.Context) ([]outgoing, error) {
	from := w.d.Number + 1
	if w.d.Number > 0 && w.d.Send != store.SendAccepted && w.d.Message == messageID(w.d.Task, w.d.Number) {
		from = w.d.Number
	}
	return w.l.messages(ctx, w.d, from)
}

// messages returns the messages of a task from the nth on, as they came to us.
func (l *Ledger) messages(ctx context.Context, d *store.Delegation, from int64) ([]outgoing, error) {
	events, err := l.opts.Store.Messages(ctx, d.TaskKey, from)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	list := make([]outgoing, len(events))
	for i := range events {
		list[i].number, list[i].id = from+int64(i), messageID(d.Task, from+int64(i))
		if err := a2a.Unmarshal(events[i].Body, &list[i].message); err != nil {
			return nil, fmt.Errorf("read message %d: %w", list[i].number, err)
		}
		list[i].original = list[i].message.MessageID
	}
	return list, nil
}

// address makes a message of our user one for the peer: with ids that the peer
// knows.
func (w *work) address(ctx context.Context, o *outgoing) {
	w.l.address(ctx, w.d, w.card(), w.book.Lineage(), o)
}

func (l *Ledger) address(ctx context.Context, d *store.Delegation, card *a2a.AgentCard, lineage *a2a.Lineage, o *outgoing) {
	m := &o.message
	m.MessageID, m.Role = o.id, a2a.RoleUser
	references := m.ReferenceTaskIDs
	m.TaskID, m.ContextID, m.ReferenceTaskIDs, m.Extensions = "", "", nil, nil
	switch {
	case d.RemoteTask != "" && !d.RemoteState.Terminal():
		m.TaskID, m.ContextID = d.RemoteTask, d.RemoteContext
	case d.RemoteTask != "":
		m.ContextID, m.ReferenceTaskIDs = d.RemoteContext, []string{d.RemoteTask}
	default:
		m.ContextID, m.ReferenceTaskIDs = l.conversation(ctx, d, references)
	}
	decision := member(m.Metadata, a2a.GrantExtension)
	carries := decides(m) && declares(card, a2a.GrantExtension)
	m.Metadata = metadata(card, lineage, m.Metadata, o.id)
	if carries {
		m.Metadata = withMember(m.Metadata, a2a.GrantExtension, decision)
		m.Extensions = append(m.Extensions, a2a.GrantExtension)
	}
	if lineage := member(m.Metadata, a2a.LineageExtension); lineage != nil {
		m.Extensions = append(m.Extensions, a2a.LineageExtension)
	}
}

// metadata returns the metadata of a message to the peer: what our user said,
// our key, and the lineage where the peer knows of it.
func metadata(card *a2a.AgentCard, lineage *a2a.Lineage, of a2a.JSON, id string) a2a.JSON {
	out := without(of, a2a.LineageExtension, a2a.GrantExtension)
	out = withMember(out, metaIdempotency, quoted("handoff:"+id))
	if declares(card, a2a.LineageExtension) {
		out = withMember(out, a2a.LineageExtension, lineage.AppendJSON(nil))
	}
	return out
}

// conversation returns the context that the peer has given to the conversation
// before, and the ids of its tasks that are referred to: those of earlier
// delegations of the same owner to the same peer.
func (l *Ledger) conversation(ctx context.Context, of *store.Delegation, references []string) (contextID string, tasks []string) {
	earlier := func(task string) *store.Delegation {
		d, err := l.opts.Store.Delegation(ctx, l.opts.Scope, task)
		if err != nil || d.Peer != of.Peer || d.Owner != of.Owner || d.Tenant != of.Tenant || d.RemoteTask == "" {
			return nil
		}
		return d
	}
	for _, id := range references {
		if d := earlier(id); d != nil {
			contextID, tasks = d.RemoteContext, append(tasks, d.RemoteTask)
		}
	}
	if contextID != "" {
		return contextID, tasks
	}
	const most = 20
	page, err := l.opts.Store.List(ctx, l.opts.Scope, store.ListQuery{Agent: of.Agent, Context: of.Context, PageSize: most})
	if err != nil {
		return "", tasks // a new conversation, then
	}
	for i := range page.Items {
		if id := page.Items[i].ID; id != of.Task {
			if d := earlier(id); d != nil && d.RemoteContext != "" {
				if !slices.Contains(tasks, d.RemoteTask) && d.State.Terminal() {
					tasks = append(tasks, d.RemoteTask)
				}
				return d.RemoteContext, tasks
			}
		}
	}
	return "", tasks
}

// configuration says how a message is to be answered.
func (w *work) configuration(push *a2a.TaskPushNotificationConfig) *a2a.SendMessageConfiguration {
	none := 0
	return &a2a.SendMessageConfiguration{
		AcceptedOutputModes: w.t.Accept, ReturnImmediately: true, HistoryLength: &none,
		TaskPushNotificationConfig: push,
	}
}

// decision returns the message that brings the decision after a turn to a peer
// that takes decisions. The data of a grant stays here: it never travels in band.
func (w *work) decision(m *memory) outgoing {
	text := "Denied."
	if m.Approved {
		text = "Approved."
	}
	if m.Note != "" {
		text += " " + m.Note
	}
	o := outgoing{id: decisionID(w.d.Task, m.Turn)}
	o.message = a2a.Message{
		MessageID: o.id, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text(text)},
		TaskID: w.d.RemoteTask, ContextID: w.d.RemoteContext, Extensions: []string{a2a.GrantExtension},
	}
	d := a2a.GrantDecision{Approved: m.Approved, Note: m.Note}
	o.message.Metadata = withMember(metadata(w.card(), w.book.Lineage(), nil, o.id), a2a.GrantExtension, d.AppendJSON(nil))
	return o
}

// decides reports whether a message carries a decision.
func decides(m *a2a.Message) bool {
	d, err := a2a.GrantDecisionOf(m.Metadata)
	return err == nil && d != nil
}

func declares(card *a2a.AgentCard, uri string) bool {
	return slices.ContainsFunc(card.Capabilities.Extensions, func(e a2a.AgentExtension) bool { return e.URI == uri })
}

func declared(capability *bool) bool { return capability != nil && *capability }

// without returns an object without some members, nil when nothing is left.
func without(object a2a.JSON, names ...string) a2a.JSON {
	var members map[string]a2a.JSON
	if object == nil || json.Unmarshal(object, &members) != nil {
		return nil
	}
	for _, name := range names {
		delete(members, name)
	}
	if len(members) == 0 {
		return nil
	}
	out, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return nil
	}
	return out
}

func quoted(text string) a2a.JSON {
	out, err := json.Marshal(text)
	if err != nil {
		return a2a.JSON(`""`)
	}
	return out
}

// since is from when on a task of the peer can be the one of a delegation.
func since(d *store.Delegation) time.Time { return d.Created.Add(-10 * time.Minute) }
