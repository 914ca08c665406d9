// Package engine is the life of a task: it accepts messages, runs turns, turns
// their steps into committed events, lets watchers follow, cancels, waits and
// recovers. Nothing is visible before it is committed.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// Spec is what the engine has to know of an agent. It is immutable: a turn
// keeps the one that it began with.
type Spec struct {
	ID     string
	Run    agent.Agent
	Skills []a2a.AgentSkill
	// SkillScopes are the scopes that callers need for a skill, by its id. Turns
	// are only told of skills that their caller may use.
	SkillScopes map[string][]string
	// ExtendedSkills are the ids of the skills that only callers with a
	// credential may use.
	ExtendedSkills []string

	// Peer is the name of the peer to which the agent hands everything on; "" for
	// one that works itself. Each task of such an agent is a delegation and has a
	// row of its own, which Ledger gives to its turns.
	Peer string
	// Deadline is how long a task that was delegated to the agent may take when
	// nobody says; zero: for ever.
	Deadline time.Duration
	// NoLineage says that what messages tell of their lineage is not read.
	NoLineage bool
	// Recall is the kind of the job that is made when a task of the agent is ended
	// from outside, for what is left to do elsewhere; "": none.
	Recall string
	// CallerGrants says that a caller may decide on grant requests of its tasks
	// by a message. Otherwise that is for operators.
	CallerGrants bool

	Answers     Answers
	Idempotency Idempotency
	OnInterrupt OnInterrupt
	// FirstStepWait is how long a new task may stay invisible while the agent
	// decides between a task and a message.
	FirstStepWait time.Duration
	Limits        Limits
	// Retention is how long a terminal task is kept; zero: for ever.
	Retention time.Duration
	// Claims is how long a repeated message is recognized.
	Claims time.Duration
	// History is how many messages are returned when the client does not say.
	History int
}

// Limits bound the work of an agent; zero is no limit.
type Limits struct {
	Inactivity    time.Duration // of a turn without a step
	Total         time.Duration // of a turn
	MaxWait       time.Duration // of a task for a time
	Steps         int           // of a turn
	ArtifactBytes int64         // of a turn
	StateBytes    int           // of a task's private state
	Unread        int           // messages that wait for a turn
	Concurrent    int           // turns of the agent at once on this node
	Open          int           // tasks of one caller with this agent that are not terminal
	Parked        int           // tasks of one caller with this agent that wait for the caller
}

// Answers says what an agent may answer with.
type Answers uint8

// What an agent may answer with.
const (
	AnswersEither Answers = iota
	AnswersTask
	AnswersMessage
)

// Idempotency says for whom a repeated message is recognized.
type Idempotency uint8

// For whom a repeated message is recognized: authenticated callers,
// everybody, nobody.
const (
	IdempotencyAuto Idempotency = iota
	IdempotencyOn
	IdempotencyOff
)

// OnInterrupt says what becomes of a turn whose node died.
type OnInterrupt uint8

// What becomes of a turn whose node died. Fail is the default, since a side
// effect done twice is worse than a failure.
const (
	InterruptFail OnInterrupt = iota
	InterruptResume
)

// Observer is told what happens, for metrics. Its methods have to be quick.
type Observer interface {
	TaskCreated(agent string)
	StateChanged(agent, state string)
	TurnStarted(agent string, attempt int)
	TurnEnded(agent string, took time.Duration)
	Steps(agent string, n int)
	Duplicate(agent string)
	Watchers(delta int)
	// TaskEnded is told how long a task took from its first message to its end.
	TaskEnded(agent, state string, took time.Duration)
	// TurnLimited is told that a limit has ended a turn: total, inactivity, steps,
	// state, artifacts or wait.
	TurnLimited(agent, limit string)
	// TurnInterrupted is told what became of a turn that a dead process had left.
	TurnInterrupted(agent string, resumed bool)
	// LeaseLost is told that another process has taken the place of this node.
	LeaseLost()
}

// Sealer encrypts what has to be kept but not read, such as the data of a
// grant.
type Sealer interface {
	Seal(plain []byte) ([]byte, error)
	Open(sealed []byte) ([]byte, error)
}

// Config is what an engine runs on.
type Config struct {
	Store  store.Store
	Agents func(id string) *Spec // nil for an agent that does not exist (any more)
	Logger *slog.Logger          // nil: slog.Default()
	// Node is this node as the store and other nodes know it.
	Node store.Node
	// Bus brings hints to the other nodes of the store, and theirs come in by
	// Heard; nil when the store is this node's alone.
	Bus Bus
	// Patience is how long a turn that cannot be committed waits for a store
	// that is away; 0: not at all, the turn ends.
	Patience time.Duration
	// Lease is how long this node counts as alive without a sign of life;
	// 0: 10 s.
	Lease time.Duration
	// Turns is how many turns run at once; 0: 4096. Queue is how many more
	// may wait; 0: 65536.
	Turns int
	Queue int
	// QueueShare is how many of those that wait may be of one tenant, or of one
	// caller that has none; 0: all.
	QueueShare int
	// CallerLimits returns what each caller may have going on with all agents.
	// Nil: as much as it likes.
	CallerLimits func() CallerLimits
	// Sealer is nil when grants cannot carry data.
	Sealer   Sealer
	Observer Observer     // nil: nobody
	Tracer   trace.Tracer // nil: no traces
	// Delegations bounds the trees of tasks that agents make by delegating. Nil:
	// DefaultDelegationLimits.
	Delegations func() DelegationLimits
	// OwnAgent returns the id of the agent of this node that a peer turns out to be,
	// "" for one elsewhere. Nil: all are elsewhere.
	OwnAgent func(peer string) string
	// ItemDue says when an item of the inbox is due, and which jobs go with it.
	// Nil: never, and none.
	ItemDue func(*store.InboxItem) (due time.Time, jobs []store.Job)
	// JobsDue is called after a commit that made a job, with its time.
	JobsDue func(time.Time)
}

// Engine runs tasks. Create it with New, then Start it; Stop it before its
// store is closed.
type Engine struct {
	cfg   Config
	store store.Store
	log   *slog.Logger
	hub   hub

	news *news  // of other nodes
	away outage // of the store

	epoch int64
	self  string    // id of the store, for lineages
	since time.Time // of the epoch
	slots *slots    // one for each turn that runs

	mu       sync.Mutex
	runs     map[string]*run // by task id, visible ones
	claims   map[claimKey]*run
	quotas   map[string]*slots // of agents with a limit of their own
	waiting  int               // runs without a slot
	parties  map[string]int    // the same, by party
	creating map[creator]int   // tasks that are being made, of callers with a limit
	orphans  map[string]bool   // tasks to recover, see orphan
	// sealed are interrupted tasks that wait for a key, with when they are tried
	// again. The recovery alone has them.
	sealed   map[string]time.Time
	parks    parkings
	draining bool
	closing  bool // the grace period is over

	drained  chan struct{} // closed when the engine takes nothing more
	closed   chan struct{} // closed when closing
	stopped  chan struct{} // closed when no turn runs any more
	lost     chan struct{} // closed when another process has taken the node's place
	drain    sync.Once
	turns    sync.WaitGroup
	senders  sync.WaitGroup // blocking calls
	services sync.WaitGroup
	stop     context.CancelFunc
}

// New returns an engine that is not started yet.
func New(cfg Config) *Engine {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Lease == 0 {
		cfg.Lease = 10 * time.Second
	}
	if cfg.Turns == 0 {
		cfg.Turns = 4096
	}
	if cfg.Queue == 0 {
		cfg.Queue = 65536
	}
	if cfg.QueueShare == 0 {
		cfg.QueueShare = cfg.Queue
	}
	if cfg.CallerLimits == nil {
		cfg.CallerLimits = func() CallerLimits { return CallerLimits{} }
	}
	if cfg.Delegations == nil {
		cfg.Delegations = func() DelegationLimits { return DefaultDelegationLimits }
	}
	if cfg.ItemDue == nil {
		cfg.ItemDue = func(*store.InboxItem) (time.Time, []store.Job) { return time.Time{}, nil }
	}
	if cfg.Observer == nil {
		cfg.Observer = nobody{}
	}
	if cfg.JobsDue == nil {
		cfg.JobsDue = func(time.Time) {}
	}
	return &Engine{
		cfg:      cfg,
		store:    waking{cfg.Store, cfg.JobsDue},
		log:      cfg.Logger,
		slots:    newSlots(cfg.Turns),
		runs:     map[string]*run{},
		claims:   map[claimKey]*run{},
		quotas:   map[string]*slots{},
		parties:  map[string]int{},
		creating: map[creator]int{},
		orphans:  map[string]bool{},
		sealed:   map[string]time.Time{},
		news:     newNews(),
		drained:  make(chan struct{}),
		closed:   make(chan struct{}),
		stopped:  make(chan struct{}),
		lost:     make(chan struct{}),
	}
}

// Start enters the node into the store, keeps its lease alive, recovers what
// dead nodes left behind, and removes what has expired. It returns when the
// engine can accept messages.
func (e *Engine) Start(ctx context.Context) error {
	epoch, err := e.store.Join(ctx, e.cfg.Node, e.cfg.Lease)
	if err != nil {
		return fmt.Errorf("join node: %w", err)
	}
	e.epoch, e.since = epoch, time.Now()
	if e.self, err = e.store.Cluster(ctx); err != nil {
		return fmt.Errorf("identify store: %w", err)
	}
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.service(ctx, e.cfg.Lease/3, e.renew)
	e.service(ctx, e.cfg.Lease/10, e.recover)
	e.service(ctx, sweep, e.expire)
	if e.cfg.Bus != nil {
		e.services.Go(func() { e.listen(ctx) })
	}
	return nil
}

// sweep is how often what has expired is removed. It is not found any more from
// the moment on that it expires.
const sweep = 5 * time.Second

// service calls f at once and then at every interval until ctx ends.
func (e *Engine) service(ctx context.Context, every time.Duration, f func(context.Context)) {
	e.services.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			f(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
}

func (e *Engine) renew(ctx context.Context) {
	started := time.Now()
	err := e.store.Renew(ctx, e.epoch, e.cfg.Lease)
	if ctx.Err() != nil {
		return
	}
	began, ended := e.away.renewal(started, e.cfg.Lease, err == nil)
	switch {
	case errors.Is(err, store.ErrConflict):
		e.giveUp(ctx)
	case err != nil && began:
		e.log.ErrorContext(ctx, "The task store is away: messages are refused, and turns wait for it", "error", err)
	case ended > 0:
		e.log.InfoContext(ctx, "The task store is back", "away", ended.Round(time.Millisecond))
	}
}

// giveUp ends the work of a node that the store does not know any more: another
// process has taken its place. Whatever it still wrote would be refused.
func (e *Engine) giveUp(ctx context.Context) {
	e.mu.Lock()
	first := !e.draining
	e.draining = true
	e.mu.Unlock()
	if !first {
		return
	}
	e.log.ErrorContext(ctx, "Another process has taken over the store; this node stops", "epoch", e.epoch)
	e.cfg.Observer.LeaseLost()
	close(e.drained)
	for _, r := range e.active() {
		r.halt(agent.ErrTakenOver)
	}
	close(e.lost)
}

// Lost is closed when another process has taken the place of this node, which
// then does nothing more and has to be stopped.
func (e *Engine) Lost() <-chan struct{} { return e.lost }

func (e *Engine) expire(ctx context.Context) {
	const batch = 500
	for ctx.Err() == nil {
		n, err := e.store.Expire(ctx, batch)
		if err != nil {
			if ctx.Err() == nil {
				e.log.WarnContext(ctx, "Expired tasks could not be removed", "error", err)
			}
			return
		}
		if n < batch {
			return
		}
	}
}

// Load is what a node has to do now.
type Load struct {
	Running, Waiting int  // turns
	Away             bool // the store cannot be reached
}

// Load returns what the node has to do now.
func (e *Engine) Load() Load {
	l := Load{Running: e.slots.taken(), Away: e.away.failed()}
	e.mu.Lock()
	defer e.mu.Unlock()
	l.Waiting = e.waiting
	return l
}

// Draining reports whether the engine has begun to stop.
func (e *Engine) Draining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// Stopping returns a channel that is closed when the engine takes nothing more.
func (e *Engine) Stopping() <-chan struct{} { return e.drained }

// Drain stops taking messages, ends the streams, hands over the turns that can
// be resumed, and waits for the others until ctx ends. Blocking calls are
// answered when their turn is over.
func (e *Engine) Drain(ctx context.Context) {
	e.mu.Lock()
	first := !e.draining
	e.draining = true
	e.mu.Unlock()
	if first {
		close(e.drained)
	}
	e.drain.Do(func() {
		defer close(e.stopped)
		e.wait(ctx)
	})
}

// unwinding is how long a turn that was told to stop may take to return. An
// agent that takes longer is left behind: its task is failed by then, and
// nothing that it still does has an effect.
const unwinding = 2 * time.Second

func (e *Engine) wait(ctx context.Context) {
	for _, r := range e.active() {
		if r.resumable() {
			r.halt(agent.ErrHandedOver)
		}
	}
	done := make(chan struct{})
	go func() {
		e.turns.Wait()
		close(done)
	}()
	select {
	case <-done:
		e.waitForSenders(ctx)
		return
	case <-ctx.Done():
	}
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	close(e.closed)
	for _, r := range e.active() {
		r.halt(agent.ErrStopping)
	}
	select {
	case <-done:
	case <-time.After(unwinding):
		for _, r := range e.active() {
			e.log.Error("An agent did not return when it was told to stop; it is left behind", "task", r.id, "agent", r.spec.ID)
		}
	}
}

// waitForSenders waits until blocking calls are answered whose tasks other nodes
// have taken over.
func (e *Engine) waitForSenders(ctx context.Context) {
	if e.cfg.Bus == nil {
		return // nobody takes over before this node has left
	}
	answered := make(chan struct{})
	go func() {
		e.senders.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	}
}

// Stop drains and then leaves the store.
func (e *Engine) Stop(ctx context.Context) error {
	e.Drain(ctx)
	if e.stop == nil {
		return nil
	}
	e.stop()
	e.services.Wait()
	if err := e.store.Leave(context.WithoutCancel(ctx), e.epoch); err != nil {
		return fmt.Errorf("leave node: %w", err)
	}
	return nil
}

// active returns the runs under way.
func (e *Engine) active() []*run {
	e.mu.Lock()
	defer e.mu.Unlock()
	runs := make([]*run, 0, len(e.runs))
	for _, r := range e.runs {
		runs = append(runs, r)
	}
	return runs
}

func (e *Engine) run(id string) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[id]
}

// ErrDraining ends the streams of a node that is stopping.
var ErrDraining = errors.New("the node is stopping; reconnect")

var errDraining = &a2a.Error{
	Code:       a2a.CodeUnavailable,
	Message:    "This node is stopping; send the request again",
	RetryAfter: time.Second,
	Err:        ErrDraining,
}

// errLeft answers a blocking call whose task goes on after the node has stopped.
func errLeft(task string) error {
	return &a2a.Error{
		Code:       a2a.CodeUnavailable,
		Message:    "This node is stopping; the task goes on, get it or subscribe to it",
		RetryAfter: time.Second,
		Metadata:   map[string]string{"taskId": task},
		Err:        ErrDraining,
	}
}

// IsAway reports whether a request failed because the store is away, which the
// engine logs once and not for every request.
func IsAway(err error) bool { return errors.Is(err, store.ErrUnavailable) }

// Unavailable turns an error of the store that says that it is away into one of
// the protocol, as every method of the engine does. Others stay as they are.
func Unavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return unavailable(err)
	}
	return err
}

// unavailable turns an error of the store into one of the protocol.
func unavailable(err error) error {
	if _, ok := errors.AsType[*a2a.Error](err); ok || err == nil ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &a2a.Error{
		Code:       a2a.CodeUnavailable,
		Message:    "The task store is not available; send the request again",
		RetryAfter: time.Second,
		Err:        err,
	}
}

type nobody struct{}

func (nobody) TaskCreated(string)              {}
func (nobody) StateChanged(string, string)     {}
func (nobody) TurnStarted(string, int)         {}
func (nobody) TurnEnded(string, time.Duration) {}
func (nobody) Steps(string, int)               {}
func (nobody) Duplicate(string)                {}
func (nobody) Watchers(int)                    {}

func (nobody) TaskEnded(string, string, time.Duration) {}
func (nobody) TurnLimited(string, string)              {}
func (nobody) TurnInterrupted(string, bool)            {}
func (nobody) LeaseLost()                              {}
