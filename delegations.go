package handoff

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/api"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/bridge"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/job"
	"handoff.example/handoff/internal/ledger"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/peer"
	"handoff.example/handoff/internal/store"
)

// newLedger returns what hands work to peers.
func (n *Node) newLedger(guard *netguard.Guard, sealer *auth.Sealer) (*ledger.Ledger, error) {
	if sealer == nil && n.base.StorePath() == ":memory:" {
		// What is kept ends with the process, and so may its key.
		var err error
		if sealer, err = auth.NewSealer(auth.GenerateKey()); err != nil {
			return nil, err
		}
	}
	opts := ledger.Options{
		Store: n.store, Scope: auth.Reach(&Principal{Role: RoleAdmin}), Engine: n.engine, Peers: &links{n.catalog, n.metrics.PeerCall},
		ItemDue: func(i *store.InboxItem) (time.Time, []store.Job) { return n.inbox.Schedule(i) },
		BaseURL: n.reachable, Due: n.jobs.Due, Logger: n.log, PushBytes: int64(n.base.Limits.Body),
		Keys: guard.Configured(netguard.Options{Timeout: 10 * time.Second, MaxRedirects: -1}),
	}
	if sealer != nil {
		opts.Sealer = sealer
	}
	return ledger.New(opts), nil
}

// reachable returns the URL at which others reach the node, "" when nobody has
// said: then they are not asked to push.
func (n *Node) reachable() string {
	if n.Config().PublicURL == "" {
		return ""
	}
	return n.URL()
}

// handleDelegations adds the jobs of the ledger. They bound themselves: a peer
// that does not answer holds up nobody else.
func (n *Node) handleDelegations(runner *job.Runner) {
	runner.Long(ledger.JobPoll, func(ctx context.Context, j *store.Job) error { return n.ledger.Poll(ctx, j) })
	runner.Long(store.JobRecall, func(ctx context.Context, j *store.Job) error {
		return n.ledger.Recall(n.engine.Traced(ctx, j.Task), j)
	})
}

// toPeer returns the agent that hands everything to a peer.
func (n *Node) toPeer(name string) agent.Agent {
	return agent.Func(func(ctx context.Context, t *agent.Turn) error { return n.ledger.Agent(name).Run(ctx, t) })
}

// spec returns what the engine has to know of an agent: one of the
// configuration, or one that stands for a peer.
func (n *Node) spec(id string) *engine.Spec {
	if server, ok := strings.CutPrefix(id, bridge.AgentPrefix); ok && n.gateway != nil {
		return n.gateway.calls.Spec(server)
	}
	name, ok := strings.CutPrefix(id, engine.PeerPrefix)
	if !ok {
		return n.current.Load().specs[id]
	}
	return n.peerSpec(name)
}

// peerSpec returns what the engine has to know of the agent that stands for a
// peer, nil when there is no such peer.
func (n *Node) peerSpec(name string) *engine.Spec {
	c := n.Config()
	of := c.Peers[name]
	if of == nil && n.catalog != nil {
		p, err := n.catalog.Get(name)
		if err != nil {
			return nil
		}
		of = p.Config
	}
	if of == nil {
		return nil
	}
	spec := &engine.Spec{
		ID: engine.PeerPrefix + name, Peer: name, Run: n.toPeer(name), Answers: engine.AnswersTask,
		OnInterrupt: engine.InterruptResume, Deadline: of.Deadline.Std(),
		Retention: c.Retention.Tasks.Std(), Claims: c.Retention.Claims.Std(), History: 100,
	}
	// Everything else of the limits is the peer's own.
	spec.Limits.Unread = 1000
	return spec
}

// links is the catalog of peers as the ledger sees it.
type links struct {
	catalog *peer.Directory
	observe func(peer, outcome string, took time.Duration)
}

// Open returns how a peer is spoken to.
func (l *links) Open(ctx context.Context, name string, user ledger.User) (*ledger.Link, error) {
	c, p, err := l.catalog.Client(ctx, name, peer.User(user))
	if err != nil {
		_, unknown := errors.AsType[*peer.UnknownError](err)
		_, field := errors.AsType[*peer.FieldError](err)
		if unknown || field {
			return nil, &ledger.PeerError{Peer: name, Err: err}
		}
		_, held := errors.AsType[*peer.HeldError](err)
		_, credentials := errors.AsType[*peer.CredentialsError](err)
		if held || credentials {
			return nil, &ledger.SetupError{Peer: name, Err: err}
		}
		if known, gerr := l.catalog.Get(name); gerr == nil {
			return &ledger.Link{Stuck: known.Config.Stuck.Std()}, err
		}
		return nil, err
	}
	of := p.Config
	link := &ledger.Link{
		Client: c, Quiet: of.Quiet.Std(), PollMin: of.Poll.Min.Std(), PollMax: of.Poll.Max.Std(),
		Connect: of.ConnectTimeout.Std(), Answer: of.AnswerTimeout.Std(), ArtifactBytes: int64(of.ArtifactBytes), Stuck: of.Stuck.Std(),
		ReceivedBytes: int64(of.ReceivedBytes), ReceivedEvents: int64(of.ReceivedEvents), Redact: p.Redact,
		CardDigest: p.Digest, Keys: keyOrigins(of, c.Interface().URL),
	}
	link.Deduplicates, _ = p.Deduplicates()
	for _, channel := range of.Channels {
		switch channel {
		case config.PeerStream:
			link.Stream = true
		case config.PeerPush:
			link.Push = true
		case config.PeerPolls:
			link.Poll = true
		}
	}
	return link, nil
}

// keyOrigins are where a peer may have the keys that it signs with: where its
// interface is, and where the operator says that it is.
func keyOrigins(of *config.Peer, address string) []string {
	origins := append([]string{address}, of.Origins...)
	if ref := of.Card.Ref(); strings.HasPrefix(ref, "http") {
		origins = append(origins, ref)
	}
	if of.URL != "" {
		origins = append(origins, of.URL)
	}
	return origins
}

// Observe keeps how a call of a peer went.
func (l *links) Observe(ctx context.Context, name string, o ledger.Observation) {
	seen := peer.Observation{Interface: o.Interface, Latency: o.Took, Err: o.Err, Deduplicates: o.Deduplicates}
	if o.Err == nil {
		if words := strings.Fields(o.Interface); len(words) == 3 {
			seen.Version = words[1]
		}
	}
	if o.Took > 0 || o.Err != nil {
		l.observe(name, outcomeOfCall(o.Err), o.Took)
	}
	l.catalog.Observe(ctx, name, seen)
}

func newMessageID() string { return rand.Text() }

// withSkill names a skill in the metadata of a message.
func withSkill(metadata a2a.JSON, id string) (a2a.JSON, error) {
	members := map[string]a2a.JSON{}
	if metadata != nil {
		if err := json.Unmarshal(metadata, &members); err != nil {
			return nil, a2a.Invalid("message.metadata", "is not an object")
		}
	}
	name, err := json.Marshal(id)
	if err != nil {
		return nil, a2a.Invalid("skill", "is not a text")
	}
	members["skillId"] = name
	return json.Marshal(members, json.Deterministic(true))
}

// delegator is the node as its API hands on work.
type delegator struct{ node *Node }

// Delegate makes a delegation.
func (d delegator) Delegate(ctx context.Context, by *Principal, of *api.Delegation) (string, error) {
	return d.node.delegate(ctx, by, &Delegation{
		To: of.To, Message: of.Message, Ref: of.Ref, Again: of.Again, Deadline: of.Deadline, Skill: of.Skill,
	})
}

// Send sends a message to the agent of a delegation.
func (d delegator) Send(ctx context.Context, by *Principal, id string, m *a2a.Message) error {
	return d.node.sendTo(ctx, by, id, m)
}

// Find finds a delegation.
func (d delegator) Find(ctx context.Context, by *Principal, idOrRef string) (string, error) {
	return d.node.findDelegation(ctx, by, idOrRef)
}

// Look lets a delegation look at its agent now.
func (d delegator) Look(ctx context.Context, id string) error {
	return engine.Unavailable(d.node.ledger.Look(ctx, id))
}
