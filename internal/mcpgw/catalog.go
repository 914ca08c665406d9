package mcpgw

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw/policy"
	"handoff.example/handoff/internal/upstream"
)

// AgentsServer is the name of the server whose tools are agents and peers.
const AgentsServer = "agents"

// handleTools are the tools for clients that know no tasks. They are called the
// same at every endpoint, and so are those that ask agents.
var handleTools = []string{"check_task", "answer_task", "cancel_task"}

// Settings are what a directory works with until the next reload.
type Settings struct {
	Config *config.MCP
	Policy *policy.Policy
	// Servers are those of the configuration and the one that is agents and peers
	// (AgentsServer), by name.
	Servers map[string]upstream.Server
}

// DirectoryOptions are what a Directory works with.
type DirectoryOptions struct {
	Guard *policy.Guard
	// Definitions holds changed definitions back; nil: none are.
	Definitions *Definitions
	// State returns how the connection to a server is; nil: nobody knows.
	State func(server string) (upstream.State, bool)
	// Key signs cursors (PAG-03). Nodes that share it take each other's; nil: one of
	// this process.
	Key    []byte
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.Default()
}

// Directory is the Catalog of the servers of a configuration. It is safe for
// concurrent use.
type Directory struct {
	opts DirectoryOptions
	now  func() time.Time
	log  *slog.Logger
	// current is replaced as a whole by a reload.
	current atomic.Pointer[shelf]
	// changes counts the changes of what is known of servers.
	changes atomic.Uint64
}

var _ Catalog = (*Directory)(nil)

// shelf is what is known under one configuration.
type shelf struct {
	Settings
	names   []string // of the servers in order
	sources map[string]*source
	// handled says that calls may be answered with handles, so that every endpoint has
	// the tools for them.
	handled bool

	mu    sync.Mutex
	views map[viewKey]*keptView
}

// keptView is a view with how long it is known to be what a call would see: as long as
// nothing changes, and until then.
type keptView struct {
	*view
	changes uint64
	until   time.Time
}

// NewDirectory returns a directory without servers.
func NewDirectory(opts DirectoryOptions) *Directory {
	d := &Directory{opts: opts, now: opts.Now, log: opts.Logger}
	if d.now == nil {
		d.now = time.Now
	}
	if d.log == nil {
		d.log = slog.Default()
	}
	if d.opts.Key == nil {
		d.opts.Key = []byte(rand.Text())
	}
	d.current.Store(&shelf{Settings: Settings{Config: &config.MCP{}, Policy: &policy.Policy{}}})
	return d
}

// Use takes the settings of a configuration. What is known of servers that are the
// same stays known.
func (d *Directory) Use(s Settings) {
	old := d.current.Load()
	next := &shelf{Settings: s, names: slices.Sorted(maps.Keys(s.Servers)), sources: map[string]*source{}, views: map[viewKey]*keptView{}}
	next.handled = next.handles()
	for name, server := range s.Servers {
		if was := old.sources[name]; was != nil && was.server == server && sameLists(was.config, s.Config.Servers[name]) {
			next.sources[name] = was
			continue
		}
		next.sources[name] = newSource(d, server, s.Config.Servers[name], time.Duration(s.Config.ListTTL))
	}
	d.current.Store(next)
}

// sameLists reports whether what a server lists counts on under another
// configuration.
func sameLists(a, b *config.MCPServer) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Changed == b.Changed && a.Sharing == b.Sharing && reflect.DeepEqual(a.Auth.OAuth, b.Auth.OAuth)
}

// Known reports whether the endpoint is there for the caller.
func (d *Directory) Known(v View) bool {
	s := d.current.Load()
	switch e := v.Endpoint; {
	case e.Server != "" && e.Set != "":
		return false
	case e.Server != "":
		return s.shown(e.Server)
	case e.Set != "":
		return s.Policy.HasSet(e.Set, v.Caller)
	}
	return true
}

// shown reports whether a server has an endpoint of its own: agents have none when
// none are exposed.
func (s *shelf) shown(name string) bool {
	return s.sources[name] != nil && (name != AgentsServer || s.Config.Agents.Any())
}

// Servers returns the servers of the endpoint, by name.
func (d *Directory) Servers(v View) []upstream.Server {
	s := d.current.Load()
	var list []upstream.Server
	for _, src := range s.of(v.Endpoint) {
		list = append(list, src.server)
	}
	return list
}

// of returns the sources of an endpoint in order.
func (s *shelf) of(e Endpoint) []*source {
	var list []*source
	for _, name := range s.names {
		asked := e.Server == "" || e.Server == name
		if name == AgentsServer {
			asked = asked && s.Config.Agents.Any() || s.handled
		}
		if asked {
			list = append(list, s.sources[name])
		}
	}
	return list
}

// handles reports whether calls may be answered with handles.
func (s *shelf) handles() bool {
	has := func(p *config.MCPPolicy) bool {
		return p != nil && (p.HandleAfter > 0 || p.Approve.On() || len(p.ApproveIf) > 0)
	}
	for _, c := range s.Config.Servers {
		if has(c.Default) {
			return true
		}
		for _, p := range c.Tools {
			if has(p) {
				return true
			}
		}
	}
	for i := range s.Config.Rules {
		if has(&s.Config.Rules[i].Policy) {
			return true
		}
	}
	return false
}

// Find returns what a name stands for. What is hidden is in no view, so that it is
// looked for like what is not there, and not found (GWY-01).
func (d *Directory) Find(ctx context.Context, v View, method, name string) (*Target, error) {
	s := d.current.Load()
	group, ok := groupOf(method)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")
	}
	if group == groupTools {
		if local := d.localTool(s, v, name); local != nil {
			return local, nil
		}
	}
	shown := d.view(ctx, s, v, group, asKnown)
	t := d.target(s, shown, v, method, name)
	if t == nil && shown.due(d.now()) {
		// It may have come since (CCH-06).
		shown = d.view(ctx, s, v, group, asFresh)
		t = d.target(s, shown, v, method, name)
	}
	switch {
	case t != nil:
		return t, nil
	case shown.blind:
		if t := d.guessed(s, shown, v, method, name); t != nil {
			return t, nil
		}
		if s.mayBe(shown, method, name) {
			return nil, &mcp.Error{Code: mcp.CodeUnavailable, Message: "A server cannot be reached, and what it has is not known; try again later", RetryAfter: 5}
		}
	}
	return nil, unknown(method, name)
}

// mayBe reports whether a name may be of a server whose list is not known: one that
// the configuration does not leave out by what it lists.
func (s *shelf) mayBe(shown *view, method, name string) bool {
	for _, snap := range shown.snaps {
		c := s.Config.Servers[snap.server]
		if snap.known || c == nil {
			continue
		}
		var listed config.MCPTools
		switch method {
		case mcp.MethodCallTool:
			listed = c.Tools
		case mcp.MethodGetPrompt:
			listed = c.Prompts
		default:
			listed = c.Resources
		}
		if listed == nil {
			return true
		}
		for pattern, p := range listed {
			bare := strings.TrimPrefix(name, snap.server+".")
			if bare == pattern || p != nil && p.Name == bare || strings.Contains(pattern, "*") {
				return true
			}
		}
	}
	return false
}

// guessed returns the tool or prompt of that name of a server whose list is not
// known, as when it asks the caller to log in: the call is what lets it. Only what
// policy shows by its name is guessed, and nothing that is held back.
func (d *Directory) guessed(s *shelf, shown *view, v View, method, name string) *Target {
	kind := listTools
	switch method {
	case mcp.MethodCallTool:
	case mcp.MethodGetPrompt:
		kind = listPrompts
	default:
		return nil
	}
	for _, snap := range shown.snaps {
		tool, prefixed := strings.CutPrefix(name, snap.server+".")
		if v.Endpoint.Server != "" {
			tool = name
		}
		c := s.Config.Servers[snap.server]
		if snap.known || c == nil || v.Endpoint.Server == "" && !prefixed || badName(kind, tool) != "" || kind == listTools && c.Changed == config.MCPChangedHold {
			continue
		}
		renamed, listed := "", map[listKind]config.MCPTools{listTools: c.Tools, listPrompts: c.Prompts}[kind]
		for original, p := range listed {
			if p != nil && p.Name == tool {
				renamed = original
			}
		}
		if renamed != "" {
			tool = renamed
		} else if p := listed[tool]; p != nil && p.Name != "" {
			continue // it is called something else here
		}
		decision := s.Policy.Decide(v.Caller, policy.Subject{Server: snap.server, Kind: kindOf(kind), Name: tool, Set: v.Endpoint.Set})
		if decision.Hidden {
			continue
		}
		it := &item{entry: &entry{kind: kind, name: tool}, server: snap.server, exposed: name, decision: decision}
		return &Target{Server: s.sources[snap.server].server, Name: tool, Exposed: name, Rules: &rules{dir: d, caller: v.Caller, item: it}}
	}
	return nil
}

// unknown is the error of what is not there, and of what is hidden.
func unknown(method, name string) *mcp.Error {
	name = clean(name, maxTitle, false)
	switch method {
	case mcp.MethodCallTool:
		return mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", name)
	case mcp.MethodGetPrompt:
		return mcp.Errorf(mcp.CodeInvalidParams, "Unknown prompt: %s", name)
	case mcp.MethodComplete:
		return mcp.Errorf(mcp.CodeInvalidParams, "Unknown reference: %s", name)
	}
	e := mcp.Errorf(mcp.CodeInvalidParams, "Resource not found: %s", name)
	e.Data = appendMembers(nil, "uri", quote(name))
	return e
}

// target returns what a name stands for in a view; nil: nothing.
func (d *Directory) target(s *shelf, shown *view, v View, method, name string) *Target {
	it := shown.find(method, name)
	if it == nil && (method == mcp.MethodReadResource || method == mcp.MethodSubscribe || method == mcp.MethodUnsubscribe) {
		it = d.covered(s, shown, v, name)
	}
	if it == nil {
		return nil
	}
	both := &struct { // which are made for every call
		Target
		rules
	}{
		Target{Server: s.sources[it.server].server, Name: it.name, Exposed: it.exposed},
		rules{dir: d, caller: v.Caller, item: it},
	}
	both.Rules = &both.rules
	if it.kind == listTools || it.kind == listPrompts {
		both.Definition, both.Params = it.text, it.params
	}
	return &both.Target
}

// May reports whether the caller may hear of a change. What it may not read it
// does not hear of either (SUB-09).
func (d *Directory) May(v View, server, notification, uri string) (string, bool) {
	s := d.current.Load()
	if s.sources[server] == nil || v.Endpoint.Server != "" && v.Endpoint.Server != server || !d.Known(v) {
		return "", false
	}
	var kind policy.Kind
	switch notification {
	case mcp.NotifyTools:
		kind = policy.Tools
	case mcp.NotifyPrompts:
		kind = policy.Prompts
	case mcp.NotifyResources:
		kind = policy.Resources
	case mcp.NotifyResource:
		it := d.known(s, v, groupResources)
		if it == nil {
			return "", false
		}
		t := d.target(s, it, v, mcp.MethodReadResource, uri)
		return uri, t != nil && t.Server.Name() == server
	default:
		return "", false
	}
	return "", s.Policy.ShowsAny(server, kind) && (v.Endpoint.Set == "" || s.Policy.SetHas(v.Endpoint.Set, server, kind))
}

// Changed makes what is known of a list of a server stale (CCH-08).
func (d *Directory) Changed(server, notification string) {
	src := d.current.Load().sources[server]
	if src == nil {
		return
	}
	switch notification {
	case mcp.NotifyTools:
		src.stale(listTools)
	case mcp.NotifyPrompts:
		src.stale(listPrompts)
	case mcp.NotifyResources:
		src.stale(listResources, listTemplates)
	}
}

// viewKey is what views are kept by: callers of one class see the same, unless a
// server has told one of them something of its own.
type viewKey struct {
	endpoint Endpoint
	group    group
	class    string
	caller   string // "": for all of the class
}

// maxViews is how many views are kept.
const maxViews = 2_000

// want says how fresh what is known has to be.
type want int

const (
	asKnown want = iota // whatever is known; the stale is fetched in the background
	asFresh             // fetched where it is stale
)

// callerKey tells callers apart, for what servers tell one of them only (CCH-07).
func callerKey(p *auth.Principal) string {
	var b strings.Builder
	for _, part := range []string{p.Tenant, p.Issuer, p.Subject, p.Key, p.Role.String(), strings.Join(p.Scopes, " ")} {
		b.WriteString(strconv.Itoa(len(part)))
		b.WriteByte(':')
		b.WriteString(part)
	}
	return b.String()
}

// view returns what a caller sees of a group at an endpoint.
func (d *Directory) view(ctx context.Context, s *shelf, v View, g group, w want) *view {
	key := viewKey{endpoint: v.Endpoint, group: g, class: s.Policy.Class(v.Caller)}
	changes := d.changes.Load()
	if w == asKnown {
		if kept := s.kept(key, v.Caller); kept != nil && kept.changes == changes && d.now().Before(kept.until) {
			return kept.view
		}
	}
	snaps, private, until := d.snapshots(ctx, s, v, g, w)
	s.mu.Lock()
	if private {
		delete(s.views, key) // of the time when the class saw the same
		key.caller = callerKey(v.Caller)
	}
	kept := s.views[key]
	s.mu.Unlock()
	seen := &keptView{changes: changes, until: until}
	if kept != nil && slices.Equal(kept.snaps, snaps) {
		seen.view = kept.view
	} else {
		seen.view = d.build(s, v, g, snaps)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.views[key] == nil && len(s.views) >= maxViews {
		clear(s.views)
	}
	s.views[key] = seen
	return seen.view
}

// kept returns the view that was made last for a class of callers, or else for one of
// it; nil: none was.
func (s *shelf) kept(key viewKey, caller *auth.Principal) *keptView {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept := s.views[key]; kept != nil {
		return kept
	}
	key.caller = callerKey(caller)
	return s.views[key]
}

// known returns the view that was made last, without fetching; nil: none was.
func (d *Directory) known(s *shelf, v View, g group) *view {
	if kept := s.kept(viewKey{endpoint: v.Endpoint, group: g, class: s.Policy.Class(v.Caller)}, v.Caller); kept != nil {
		return kept.view
	}
	return nil
}

// snapshots returns what the servers of an endpoint have, all at the same time, and
// until when calls would get the same if nothing changes.
func (d *Directory) snapshots(ctx context.Context, s *shelf, v View, g group, w want) (snaps []*snapshot, private bool, until time.Time) {
	sources := s.of(v.Endpoint)
	kinds := g.kinds()
	snaps = make([]*snapshot, len(sources)*len(kinds))
	missing := false
	until = d.now().Add(maxTTL)
	for i, src := range sources {
		for j, kind := range kinds {
			known, lasts := src.peek(kind, v.Caller, w)
			snaps[i*len(kinds)+j] = known
			missing = missing || known == nil
			if lasts.Before(until) {
				until = lasts
			}
		}
	}
	if missing {
		fetch(ctx, sources, kinds, v.Caller, w, snaps)
	}
	for _, snap := range snaps {
		private = private || snap.private
	}
	return snaps, private, until
}

// fetch gets what is missing of the snapshots.
func fetch(ctx context.Context, sources []*source, kinds []listKind, caller *auth.Principal, w want, snaps []*snapshot) {
	var wait sync.WaitGroup
	for at := range snaps {
		if snaps[at] == nil {
			src, kind := sources[at/len(kinds)], kinds[at%len(kinds)]
			wait.Go(func() { snaps[at] = src.get(ctx, kind, caller, w) })
		}
	}
	wait.Wait()
}

// byPriority orders servers by who is asked first.
func (s *shelf) byPriority(a, b string) int {
	return cmp.Or(cmp.Compare(s.priority(b), s.priority(a)), cmp.Compare(a, b))
}

func (s *shelf) priority(server string) int {
	if c := s.Config.Servers[server]; c != nil {
		return c.Priority
	}
	return 0
}
