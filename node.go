package handoff

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/api"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/backend"
	"handoff.example/handoff/internal/bridge"
	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/changes"
	"handoff.example/handoff/internal/chat"
	"handoff.example/handoff/internal/console"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/inbox"
	"handoff.example/handoff/internal/job"
	"handoff.example/handoff/internal/ledger"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/peer"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/telemetry"
	"handoff.example/handoff/internal/upstream"
	"handoff.example/handoff/internal/wire"
)

// Node holds agents and their tasks. It is an http.Handler that serves the
// agents below /agents/, the node's API below /api/v1/, and its health.
type Node struct {
	log       *slog.Logger
	opts      Options
	socket    net.Listener // the admin socket; nil until it is open, or where there is none
	file      string       // the configuration file; "" when there is none
	outbound  *http.Client
	callbacks *backend.Callbacks
	store     store.Store
	kept      *changes.Store // the same
	changes   changes.Feed   // of what changes through it
	bus       bus.Bus        // nil for a store of this node alone
	engine    *engine.Engine
	heard     *ear
	apiKeys   *auth.Keys
	sessions  *auth.Sessions // of people with a browser
	sealer    *auth.Sealer   // nil without a secret key
	meter     *auth.Meter
	streams   *wire.Streams
	visitors  *chat.Meters // of the chat pages
	audit     *audit.Log
	peers     *peers          // the other nodes of the store
	catalog   *peer.Directory // the agents elsewhere that work is handed to
	ledger    *ledger.Ledger  // of the work that was handed to them
	seals     *resealer       // nil without a secret key
	jobs      *job.Runner
	webhooks  *push.Service
	inbox     *inbox.Service
	gateway   *gateway // of tool servers
	skills    *toolSkills
	metrics   *telemetry.Metrics
	tracing   *telemetry.Tracing
	size      func(context.Context) (int64, error) // of the store in bytes; nil: not known
	handler   atomic.Pointer[http.Handler]
	address   atomic.Pointer[string] // of the public listener

	current atomic.Pointer[agents]

	mu       sync.Mutex // over what follows, and over reloads
	base     *config.Config
	own      map[string]goAgent
	starting sync.Once
	startErr error
	started  atomic.Bool
	chain    *auth.Chain     // of the configuration in effect; nil before, and with an Authenticator of the program
	wires    []*wire.Handler // one for each configuration that was in effect
	temp     string          // a directory of the node's own, removed at the end
}

// New opens the store of a configuration and builds its agents. The node does
// nothing until it is started, or until its first request; before that, Handle
// adds agents. Shut it down to close the store.
func New(c *Config, opts Options) (*Node, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	opts.Logger = slog.New(auth.RedactLogs(opts.Logger.Handler()))
	n := &Node{log: opts.Logger, opts: opts, file: c.File(), base: c, own: map[string]goAgent{}, metrics: telemetry.NewMetrics(), heard: &ear{}}
	n.peers, n.skills = newPeers(n), newToolSkills(n)
	if err := n.assemble(c); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *Node) assemble(c *config.Config) error {
	guard := netguard.New(netguard.Policy{Allow: c.Outbound.Allow})
	n.outbound = guard.Configured(netguard.Options{HeaderTimeout: 10 * time.Minute})
	keys, err := keysOf(c)
	if err != nil {
		return err
	}
	n.callbacks = backend.NewCallbacks(func() string { return n.ownURL() + "/callbacks" }, keys.callback, keys.older...)
	built, err := n.newAgents(c, nil, nil)
	if err != nil {
		return err
	}
	n.current.Store(built)
	if err := n.openStore(c); err != nil {
		return err
	}
	if err := n.openBus(c); err != nil {
		return err
	}
	if n.tracing, err = telemetry.NewTracing(context.Background(), traceConfig(c, n.opts.Version)); err != nil {
		return err
	}
	if err := n.openCatalog(c, guard, keys.sealer); err != nil {
		return err
	}
	cfg := engine.Config{
		Store: n.store, Logger: n.log, Node: n.self(c), Lease: c.Lease.Std(), Observer: n.metrics, Tracer: n.tracing.Tracer,
		Agents: n.spec,
		Turns:  c.Limits.Turns, Queue: c.Limits.Queue, QueueShare: queueShare(&c.Limits),
		CallerLimits: n.callerLimits,
		Delegations:  n.delegationLimits,
		OwnAgent:     n.ownAgent,
		JobsDue:      func(at time.Time) { n.jobs.Due(at) },
		ItemDue:      func(i *store.InboxItem) (time.Time, []store.Job) { return n.inbox.Schedule(i) },
	}
	if keys.sealer != nil {
		cfg.Sealer = keys.sealer
	}
	if n.bus != nil { // a store that others share, and that can be away
		cfg.Bus, cfg.Patience = n.bus, turnPatience
	}
	n.engine = engine.New(cfg)
	n.heard.engine.Store(n.engine)
	n.callbacks.Elsewhere = n.engine.Elsewhere
	if keys.sealer != nil {
		n.seals = newResealer(n, keys.sealer)
	}
	handlers := map[string]job.Handler{}
	for _, kind := range engine.JobKinds() {
		handlers[kind] = n.engine.DoJob
	}
	n.jobs = job.NewRunner(n.store, handlers, n.log)
	n.jobs.Observe(n.metrics.JobDone)
	if n.ledger, err = n.newLedger(guard, keys.sealer); err != nil {
		return err
	}
	n.handleDelegations(n.jobs)
	if n.webhooks, err = n.newWebhooks(c, guard, keys.sealer); err != nil {
		return err
	}
	n.jobs.Long(store.JobPush, n.webhooks.Do)
	if n.gateway, err = n.newGateway(c, guard, &keys); err != nil {
		return err
	}
	n.jobs.Long(bridge.JobRecall, n.gateway.calls.Recall)
	n.apiKeys = auth.NewKeys(n.store, n.log)
	n.openSessions(keys.sealer)
	n.meter, n.streams, n.audit = auth.NewMeter(), wire.NewStreams(), audit.New(n.store, n.log)
	n.visitors = chat.NewMeters()
	n.inbox = n.newInbox(c, guard, map[store.InboxKind]inbox.Decider{store.InboxCard: n.decideCard})
	n.jobs.Long(store.JobInbox, n.inbox.Remind)
	n.watch()
	return n.setHandler(c)
}

// keys are what is derived from the secret key; all nil without one.
type keys struct {
	sealer         *auth.Sealer
	cursor         []byte // signs cursors of lists
	callback       []byte
	older          [][]byte // that callback was before
	fingerprint    []byte   // tells secrets apart without telling them
	oldFingerprint []byte   // of all old keys, in any order; nil without any
}

// keysOf derives from the secret key, and from those that it was before, what
// seals, what signs and what compares.
func keysOf(c *config.Config) (k keys, err error) {
	if c.SecretKey.IsZero() {
		return k, nil
	}
	k.callback, k.fingerprint, k.cursor = derive(c.SecretKey, "callback"), derive(c.SecretKey, "fingerprint"), derive(c.SecretKey, "cursor")
	var opening, fingerprints [][]byte
	for _, old := range c.OldSecretKeys {
		k.older = append(k.older, derive(old, "callback"))
		opening = append(opening, derive(old, "seal"))
		fingerprints = append(fingerprints, derive(old, "fingerprint"))
	}
	if len(fingerprints) > 0 {
		slices.SortFunc(fingerprints, bytes.Compare)
		k.oldFingerprint = bytes.Join(fingerprints, nil)
	}
	k.sealer, err = auth.NewSealer(derive(c.SecretKey, "seal"), opening...)
	return k, err
}

// derive returns the key for a purpose that is made of a secret one.
func derive(secret config.Secret, purpose string) []byte {
	key, err := hkdf.Key(sha256.New, []byte(secret.Reveal()), nil, "handoff "+purpose, auth.KeySize)
	if err != nil {
		panic(err) // of a constant length that is allowed
	}
	return key
}

// turnPatience is how long a turn waits for a database that is away, such as for
// another server to take it over. For a file that cannot be written waiting is no
// help.
const turnPatience = time.Minute

func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// Handle adds an agent that is written in Go. Call it before the node is
// started, so that interrupted tasks of the agent find it.
func (n *Node) Handle(id string, c Card, f func(ctx context.Context, t *Turn) error) error {
	return n.HandleAgent(id, c, agent.Func(f))
}

// HandleAgent is Handle for an Agent.
func (n *Node) HandleAgent(id string, c Card, a Agent) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	own := maps.Clone(n.own)
	own[id] = goAgent{card: &c, agent: a}
	built, err := n.newAgents(n.base, own, n.current.Load())
	if err != nil {
		return err
	}
	n.own = own
	n.current.Store(built)
	return nil
}

// Start recovers the tasks that an earlier process has left, and lets the node
// accept messages. Requests start the node too; Start does it at once and says
// what went wrong.
func (n *Node) Start(ctx context.Context) error {
	n.starting.Do(func() {
		if n.startErr = n.engine.Start(ctx); n.startErr == nil {
			n.jobs.Start()
			n.audit.Start()
			n.peers.start()
			n.skills.start()
			n.seals.start()
			n.started.Store(true)
			epoch, _ := n.engine.Epoch()
			n.log.Info("The node has joined its store", "store", n.Config().StoreName(), "bus", n.busName(), "node", nodeName(), "epoch", epoch)
		}
	})
	return n.startErr
}

// ServeHTTP serves a request.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !n.started.Load() {
		if err := n.Start(context.WithoutCancel(r.Context())); err != nil {
			n.log.Error("The node could not be started", "error", err)
			http.Error(w, "The node could not be started", http.StatusServiceUnavailable)
			return
		}
	}
	(*n.handler.Load()).ServeHTTP(w, r)
}

// Drain ends the streams, hands running turns over or waits for them until ctx
// ends, and takes no more messages. Readiness is refused from its beginning.
func (n *Node) Drain(ctx context.Context) {
	n.jobs.Pause()
	n.engine.Drain(ctx)
}

// Shutdown drains the node and closes its store.
func (n *Node) Shutdown(ctx context.Context) error {
	n.peers.stop()
	n.skills.stop()
	n.seals.stop()
	n.jobs.Stop()
	err := errors.Join(n.engine.Stop(ctx), n.gateway.close(ctx))
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.wires {
		w.Wait()
	}
	if n.socket != nil {
		_ = n.socket.Close() // a server that has served it has closed it already
	}
	return errors.Join(err, n.audit.Stop(ctx), n.close())
}

// close frees what New has opened.
func (n *Node) close() error {
	var errs []error
	if n.webhooks != nil {
		n.webhooks.Close()
	}
	if n.catalog != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		errs = append(errs, n.catalog.Close(ctx))
	}
	if n.tracing != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		errs = append(errs, n.tracing.Stop(ctx))
	}
	if n.bus != nil {
		errs = append(errs, n.bus.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	if n.temp != "" {
		errs = append(errs, os.RemoveAll(n.temp))
	}
	return errors.Join(errs...)
}

// Grant settles a grant request (A2A §7.6) and so lets its task go on.
func (n *Node) Grant(ctx context.Context, d *Decision) error {
	_, err := n.engine.Decide(ctx, auth.Reach(&Principal{Role: RoleAdmin}), d)
	return err
}

// Reload reads the configuration file again and puts it into effect without
// dropping a request: running turns keep the agents that they began with. It
// returns what has changed. A file that is wrong, or that changes what needs a
// restart, changes nothing.
func (n *Node) Reload() ([]config.Change, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == "" {
		return nil, errors.New("the node has no configuration file to load again")
	}
	c, err := config.Load(n.file, n.base.Overrides()...)
	if err != nil {
		return nil, err
	}
	changes := config.Diff(n.base, c)
	for _, change := range changes {
		if change.Restart {
			return nil, fmt.Errorf("%s can only be changed by a restart; nothing was changed", change.Path)
		}
	}
	before := n.current.Load()
	built, err := n.newAgents(c, n.own, before)
	if err != nil {
		return nil, err
	}
	peers, err := n.catalog.Prepare(c)
	if err != nil {
		return nil, err
	}
	if err := n.gateway.reload(c); err != nil {
		return nil, err
	}
	if err := n.setHandler(c); err != nil {
		return nil, err
	}
	n.catalog.Use(peers)
	n.base = c
	n.current.Store(built)
	n.gateway.reloaded()
	n.skills.look()
	for _, change := range changes {
		n.log.Info("The configuration has changed", "change", change.String())
	}
	n.logCards(before.config, built.config)
	n.peers.changed()
	return changes, nil
}

// logCards says what a reload has changed in the cards that clients see.
func (n *Node) logCards(before, after *config.Config) {
	for _, id := range after.AgentIDs() {
		old := before.Agents[id]
		if old == nil {
			continue
		}
		base := n.URL()
		for _, change := range card.Diff(card.For(before, id, base, ""), card.For(after, id, base, "")) {
			n.log.Info("An agent's card has changed", "agent", id, "change", change.String())
		}
	}
}

// Config returns the configuration in force, with the Go agents among its
// agents. It must not be changed.
func (n *Node) Config() *Config { return n.current.Load().config }

// URL returns where the node is reached, without a slash at its end: its public
// URL, or else where it listens on this machine.
func (n *Node) URL() string { return n.urlOf(n.Config()) }

func (n *Node) urlOf(c *config.Config) string {
	if c.PublicURL != "" {
		return strings.TrimSuffix(c.PublicURL, "/")
	}
	address := c.Listen
	if at := n.address.Load(); at != nil {
		address = *at
	}
	scheme := "http://"
	if c.TLS != nil {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return scheme + address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}

// setHandler puts what a configuration says about requests into effect.
// Requests under way keep what they began with.
func (n *Node) setHandler(c *config.Config) error {
	callers, err := n.newCallers(c)
	if err != nil {
		return err
	}
	n.audit.Set(auditSettings(&c.Audit))
	served, err := n.newHandler(c, callers)
	if err != nil {
		return err
	}
	handler := strict(c, served)
	n.handler.Store(&handler)
	return nil
}

// newWire returns what serves the protocol, to the callers that an Authenticator
// knows.
func (n *Node) newWire(c *config.Config, callers auth.Authenticator, challenger auth.Challenger) *wire.Handler {
	h := wire.NewHandler(wire.Options{
		Engine: n.engine, Webhooks: n.webhooks, Agents: func() *wire.Set { return n.current.Load().set },
		Auth: callers, Challenger: challenger, Logger: n.log, Tracer: n.tracing.Tracer, Observe: n.metrics.Request, Limited: n.metrics.Limited, Audit: n.audit,
		CORS:      wire.CORS{Origins: c.CORS.Origins, Headers: c.CORS.Headers, MaxAge: c.CORS.MaxAge.Std()},
		BodyBytes: int64(c.Limits.Body), BodyTimeout: c.Limits.BodyTimeout.Std(),
		Depth: c.Limits.JSONDepth, Streams: c.Limits.Streams, OpenStreams: n.streams,
	})
	n.wires = append(n.wires, h)
	return h
}

// newHandler puts together what the node serves.
func (n *Node) newHandler(c *config.Config, credentials auth.Authenticator) (http.Handler, error) {
	challenger, _ := credentials.(auth.Challenger)
	authenticator := n.meter.Limit(credentials, requestRates(&c.Limits))
	people := n.meter.Limit(n.sessions.Authenticator(credentials, browser(c)), requestRates(&c.Limits))
	pages, err := n.newConsole(c, people, credentials)
	if err != nil {
		return nil, err
	}
	agentsHandler := n.newWire(c, authenticator, challenger)
	tools := n.gateway.serve(c, authenticator, trusts(c))
	nodeAPI := n.apiHandler(people)
	receiver := n.ledger.Receiver()
	talk := n.newChat(c, people)
	// No ServeMux: it would redirect unclean paths, which no client expects.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/healthz":
			n.serveHealth(w, r)
		case path == "/readyz":
			n.serveReady(w, r)
		case strings.HasPrefix(path, "/api/v1/"):
			nodeAPI.ServeHTTP(w, r)
		case strings.HasPrefix(path+"/", console.Prefix):
			pages.ServeHTTP(w, r)
		case isMCP(path) && n.Config().MCPEnabled():
			tools.ServeHTTP(w, r)
		case strings.HasPrefix(path, chat.Prefix):
			talk.ServeHTTP(w, r)
		case strings.HasPrefix(path, inbox.Prefix):
			n.inbox.ServeHTTP(w, r)
		case strings.HasPrefix(path, "/callbacks/"):
			n.callbacks.ServeHTTP(w, r)
		case path == peer.LoginPath || path == peer.CallbackPath:
			n.catalog.ServeHTTP(w, r)
		case strings.HasPrefix(path, upstream.LoginPrefix):
			n.gateway.login.ServeHTTP(w, r)
		case strings.HasPrefix(path, ledger.ReceiverPath):
			receiver.ServeHTTP(w, r)
		case path == config.JWKSPath && n.current.Load().jwks != nil:
			n.current.Load().jwks.ServeHTTP(w, r)
		case isResource(path) && len(c.Callers.OIDC) > 0:
			resource(n.Config(), path).Serve(w, r, card.BaseURL(r, c.PublicURL, c.TrustedPrefixes()))
		case path == "/" && n.Config().Console.Enabled && asksForPage(r):
			http.Redirect(w, r, strings.TrimPrefix(console.Prefix, "/"), http.StatusSeeOther) // relative: a proxy may publish the node below a path
		default:
			agentsHandler.ServeHTTP(w, r)
		}
	}), nil
}

// asksForPage reports whether a browser asks for something to show.
func asksForPage(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// apiHandler returns the node's API for callers that the authenticator knows.
func (n *Node) apiHandler(a auth.Authenticator) http.Handler { return n.apiHandlerFor(a, n.log) }

func (n *Node) apiHandlerFor(a auth.Authenticator, log *slog.Logger) http.Handler {
	return api.New(api.Options{
		Engine: n.engine, Delegator: delegator{n}, Delegations: n.store, Webhooks: n.webhooks, Inbox: n.inbox, Auth: a, Logger: log, Version: n.opts.Version,
		Config: func() *config.Config { return n.current.Load().config },
		Reload: n.Reload, Backup: n.store.Backup, Metrics: n.metrics.Handler(), Base: n.URL, Nodes: n.store.Nodes, Bus: n.busState, Keys: n.apiKeys, Peers: n.catalog, Tools: n.gateway.directory,
		Audit: n.audit, Limited: n.metrics.Limited, Seals: n.seals.state,
		Store: n.store, Changes: &n.changes, Gateway: func() http.Handler { return n.gateway.inside.Load() },
		Card: func(id, tenant, base string) ([]byte, bool, error) {
			document, ok, err := n.current.Load().publisher.Document(id, tenant, base)
			return document.Body(), ok, err
		},
		ConsoleLink: func(ctx context.Context) (string, time.Time, error) { return n.ConsoleLink(ctx, "") },
	})
}

func (n *Node) serveHealth(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("ok\n"))
}

// serveReady says whether requests should be sent to this node.
func (n *Node) serveReady(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	switch {
	case n.engine.Draining():
		w.Header().Set("Retry-After", "1")
		http.Error(w, "stopping", http.StatusServiceUnavailable)
	case n.store.Ping(ctx) != nil:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the task store is not available", http.StatusServiceUnavailable)
	default:
		_, _ = w.Write([]byte("ready\n"))
	}
}
