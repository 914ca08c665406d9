package mcpgw

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// listKind is a list that servers have.
type listKind int

const (
	listTools listKind = iota
	listPrompts
	listResources
	listTemplates
	listDiscover // what the server is, as a list without items
	listKinds    // how many there are
)

var (
	listMethods = [listKinds]string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodDiscover}
	listMembers = [listKinds]string{"tools", "prompts", "resources", "resourceTemplates", ""}
)

// group is what names are looked for in.
type group int

const (
	groupTools group = iota
	groupPrompts
	groupResources
	groupReferences // prompts and resources, for completion/complete
	groupDiscover
)

func (g group) kinds() []listKind {
	switch g {
	case groupPrompts:
		return []listKind{listPrompts}
	case groupResources:
		return []listKind{listResources, listTemplates}
	case groupReferences:
		return []listKind{listPrompts, listResources, listTemplates}
	case groupDiscover:
		return []listKind{listDiscover}
	}
	return []listKind{listTools}
}

func groupOf(method string) (group, bool) {
	switch method {
	case mcp.MethodCallTool:
		return groupTools, true
	case mcp.MethodGetPrompt:
		return groupPrompts, true
	case mcp.MethodReadResource, mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		return groupResources, true
	case mcp.MethodComplete:
		return groupReferences, true
	}
	return 0, false
}

// Bounds of what a server may list, and of how it is asked.
const (
	maxItems       = 10_000
	maxListBytes   = 64 << 20
	maxPages       = 1_000
	maxTTL         = 24 * time.Hour
	fetchTime      = 10 * time.Second // at most, for who waits
	retryAfter     = 5 * time.Second  // a server that has failed
	refreshAfter   = 2 * time.Second  // of a list that calls use though it is stale
	maxPrivate     = 1_000            // callers whose lists of one server are kept
	staleTTL       = 5 * time.Second  // of a list with stale parts
	maxDescription = 16 << 10
)

// snapshot is what a server had at one time. It does not change; the same content
// at a later time has the same items.
type snapshot struct {
	server   string
	kind     listKind
	items    []*entry
	dropped  []dropped
	private  bool
	received time.Time
	expires  time.Time
	// failed says that the server could not be asked; without items and at, nothing
	// is known of it.
	failed bool
	known  bool
	// facts are what server/discover says.
	facts facts
}

// facts are what a server says of itself.
type facts struct {
	Capabilities struct {
		Tools     *struct{} `json:"tools"`
		Prompts   *struct{} `json:"prompts"`
		Resources *struct {
			Subscribe bool `json:"subscribe"`
		} `json:"resources"`
		Completions *struct{} `json:"completions"`
	} `json:"capabilities"`
	Instructions string `json:"instructions"`
}

// dropped is something that a server lists and clients do not see, with the reason.
type dropped struct{ server, name, reason string }

// source is a server with what is known of it.
type source struct {
	dir    *Directory
	server upstream.Server
	config *config.MCPServer // nil: agents
	ttl    time.Duration     // of lists of servers that say none

	mu      sync.Mutex
	shared  [listKinds]*shelved
	private map[string]*[listKinds]*shelved
	isOwn   [listKinds]bool // what it told is for one caller
}

// shelved is a list of a server, for all callers or for one.
type shelved struct {
	caller *auth.Principal // nil: for all

	mu     sync.Mutex
	snap   *snapshot // nil: it was never asked
	stale  bool      // it has told of a change
	flight chan struct{}
	retry  time.Time // it is not asked before
}

func newSource(d *Directory, server upstream.Server, c *config.MCPServer, ttl time.Duration) *source {
	s := &source{dir: d, server: server, config: c, ttl: ttl, private: map[string]*[listKinds]*shelved{}}
	own := c == nil || c.Sharing == config.MCPSharingPrincipal || c.Auth.OAuth != nil && !c.Auth.OAuth.Shared && c.Auth.OAuth.Flow != config.PeerFlowClientCredentials
	for kind := range s.isOwn {
		s.isOwn[kind] = own
	}
	return s
}

// at returns where a list is kept for a caller. What a server tells one caller is
// for that one (CCH-07).
func (s *source) at(kind listKind, caller *auth.Principal) *shelved {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isOwn[kind] {
		if s.shared[kind] == nil {
			s.shared[kind] = &shelved{}
		}
		return s.shared[kind]
	}
	key := callerKey(caller)
	all := s.private[key]
	if all == nil {
		if len(s.private) >= maxPrivate {
			for other := range s.private { // any
				delete(s.private, other)
				break
			}
		}
		all = &[listKinds]*shelved{}
		s.private[key] = all
	}
	if all[kind] == nil {
		all[kind] = &shelved{caller: caller}
	}
	return all[kind]
}

// becameOwn notes that a list is for one caller, and gives it to the one it was
// fetched for.
func (s *source) becameOwn(kind listKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isOwn[kind], s.shared[kind] = true, nil
}

// stale makes lists stale.
func (s *source) stale(kinds ...listKind) {
	s.mu.Lock()
	var all []*shelved
	for _, kind := range kinds {
		all = append(all, s.shared[kind])
		for _, own := range s.private {
			all = append(all, own[kind])
		}
	}
	s.mu.Unlock()
	for _, one := range all {
		if one != nil {
			one.mu.Lock()
			one.stale = true
			one.mu.Unlock()
		}
	}
	s.dir.changes.Add(1)
}

// fresh reports whether a list need not be fetched. The caller holds the lock.
func (l *shelved) fresh(now time.Time) bool {
	return l.snap != nil && l.snap.known && !l.snap.failed && !l.stale && now.Before(l.snap.expires)
}

// peek returns a list without waiting, or nil, and until when a call would get the
// same if nothing changes.
func (s *source) peek(kind listKind, caller *auth.Principal, w want) (snap *snapshot, until time.Time) {
	l := s.at(kind, caller)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := s.dir.now()
	switch {
	case l.snap == nil:
		return nil, now
	case l.fresh(now):
		return l.snap, l.snap.expires
	case l.flight == nil && now.Before(l.retry):
		return l.snap, l.retry
	case w != asKnown || !l.snap.known:
		return nil, now
	case l.flight == nil && now.Sub(l.snap.received) >= refreshAfter:
		s.launch(context.Background(), kind, l)
		return l.snap, now
	}
	return l.snap, l.snap.received.Add(refreshAfter)
}

// get returns a list, and fetches it where it has to.
func (s *source) get(ctx context.Context, kind listKind, caller *auth.Principal, w want) *snapshot {
	for {
		l := s.at(kind, caller)
		l.mu.Lock()
		now := s.dir.now()
		if l.fresh(now) || l.snap != nil && l.flight == nil && now.Before(l.retry) || w == asKnown && l.snap != nil && l.snap.known {
			defer l.mu.Unlock()
			return l.snap
		}
		if l.flight == nil {
			s.launch(ctx, kind, l)
		}
		flight := l.flight
		l.mu.Unlock()
		select {
		case <-flight:
		case <-ctx.Done():
			return &snapshot{server: s.server.Name(), kind: kind, failed: true, private: l.caller != nil}
		}
		l.mu.Lock()
		snap := l.snap
		l.mu.Unlock()
		if snap != nil {
			return snap
		}
		// It is for one caller only, and was fetched for nobody: again, for this one.
	}
}

// launch fetches a list, once for all who wait. The caller holds the lock.
func (s *source) launch(ctx context.Context, kind listKind, l *shelved) {
	done := make(chan struct{})
	l.flight = done
	old := l.snap
	l.stale = false
	go func() {
		// Who asked first may go away; the others still wait.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
		defer cancel()
		snap := s.fetch(ctx, kind, l.caller, old)
		l.mu.Lock()
		defer l.mu.Unlock()
		defer close(done)
		defer s.dir.changes.Add(1)
		l.flight = nil
		if snap.failed {
			l.retry = s.dir.now().Add(retryAfter)
		}
		if snap.private && l.caller == nil && !snap.failed {
			s.becameOwn(kind)
			l.snap = nil
			return
		}
		l.snap = snap
	}()
}

// fetch asks a server for a list. When that fails the old one is kept (GWY-06).
func (s *source) fetch(ctx context.Context, kind listKind, caller *auth.Principal, old *snapshot) *snapshot {
	snap, err := s.ask(ctx, kind, caller)
	if err == nil && kind == listTools && s.config != nil && s.config.Changed == config.MCPChangedHold && s.dir.opts.Definitions != nil {
		err = s.dir.opts.Definitions.hold(ctx, s.server.Name(), snap.items)
	}
	now := s.dir.now()
	if err != nil {
		s.dir.log.Warn("A tool server could not be asked for a list", "server", s.server.Name(), "method", listMethods[kind], "error", err)
		failed := snapshot{server: s.server.Name(), kind: kind, private: caller != nil}
		if old != nil {
			failed = *old
		}
		failed.failed = true
		return &failed
	}
	for _, one := range snap.dropped {
		s.dir.log.Warn("What a tool server lists is left out", "server", s.server.Name(), "name", one.name, "reason", one.reason)
	}
	snap.received, snap.known = now, true
	snap.keep(old)
	return snap
}

// keep takes the entries of an older snapshot that are the same, with what was made
// of them.
func (s *snapshot) keep(old *snapshot) {
	if old == nil {
		return
	}
	known := make(map[string]*entry, len(old.items))
	for _, e := range old.items {
		known[e.name] = e
	}
	for i, e := range s.items {
		if was := known[e.name]; was != nil && was.held == e.held && bytes.Equal(was.text, e.text) {
			s.items[i] = was
		}
	}
}

// page is what all lists have.
type page struct {
	Next  *string        `json:"nextCursor"`
	TTL   *float64       `json:"ttlMs"`
	Scope string         `json:"cacheScope"`
	Items jsontext.Value `json:"-"`
}

// ask fetches all pages of a list.
func (s *source) ask(ctx context.Context, kind listKind, caller *auth.Principal) (*snapshot, error) {
	// What was asked for one caller is for that one, whatever the server says of it.
	snap := &snapshot{server: s.server.Name(), kind: kind, private: s.config == nil || caller != nil}
	ttl, size := maxTTL, 0
	var cursor *string
	seen := map[string]bool{}
	for n := 1; ; n++ {
		m, err := s.request(ctx, kind, caller, n, cursor)
		if e, ok := errors.AsType[*mcp.Error](err); ok && e.Code == mcp.CodeMethodNotFound && n == 1 {
			snap.expires = s.dir.now().Add(s.ttl) // it has none
			return snap, nil
		}
		if err != nil {
			return nil, err
		}
		var p page
		if err := m.Decode(&p); err != nil {
			return nil, err
		}
		if p.Scope == "private" {
			snap.private = true
		}
		ttl = min(ttl, ttlOf(&p, s.ttl))
		if kind == listDiscover {
			if err := m.Decode(&snap.facts); err != nil {
				return nil, err
			}
			break
		}
		size += len(m.Body)
		if err := s.read(snap, seen, m.Param(listMembers[kind])); err != nil {
			return nil, err
		}
		if p.Next == nil || len(snap.items) >= maxItems || size >= maxListBytes || n >= maxPages || cursor != nil && *cursor == *p.Next {
			break
		}
		cursor = p.Next
	}
	snap.expires = s.dir.now().Add(ttl)
	return snap, nil
}

// ttlOf returns how long a page is fresh (CCH-04).
func ttlOf(p *page, other time.Duration) time.Duration {
	switch {
	case p.TTL == nil:
		return other
	case !(*p.TTL > 0):
		return 0
	case *p.TTL > float64(maxTTL/time.Millisecond):
		return maxTTL
	}
	return time.Duration(*p.TTL) * time.Millisecond
}

// clientInfo is how the node presents itself to servers (MET-03).
const clientInfo = `{"name":"handoff","version":"1"}`

// request sends one request of a list, and returns the response.
func (s *source) request(ctx context.Context, kind listKind, caller *auth.Principal, n int, cursor *string) (*mcp.Message, error) {
	var params jsontext.Value
	if cursor != nil {
		params = appendMembers(nil, "cursor", quote(*cursor))
	}
	id := strconv.AppendInt([]byte(`"list-`), int64(n), 10)
	request := mcp.NewRequest(append(id, '"'), listMethods[kind], params, mcp.Meta{Client: jsontext.Value(clientInfo)})
	answer, err := s.server.Do(ctx, &upstream.Request{Message: request, Caller: caller, Timeout: fetchTime})
	if err != nil {
		return nil, err
	}
	defer answer.Close() //nolint:errcheck // nothing is left to do about it
	for {
		m, err := answer.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errors.New("the server has not answered")
		case err != nil:
			return nil, err
		case !m.IsResponse():
			continue
		}
		if e := m.Error(); e != nil {
			return nil, e
		}
		if m.ResultType != mcp.ResultComplete {
			return nil, errors.New("the server has answered a list with something else")
		}
		return mcp.Scan(slices.Clone(m.Body), mcp.Limits{})
	}
}

// read adds the items of a page.
func (s *source) read(snap *snapshot, seen map[string]bool, list jsontext.Value) error {
	if list.Kind() != '[' {
		return errors.New("the server's list is no list")
	}
	var items []jsontext.Value
	if err := json.Unmarshal(list, &items); err != nil {
		return err
	}
	for _, text := range items {
		if len(snap.items) >= maxItems {
			break
		}
		e, reason := readEntry(snap.kind, text)
		switch {
		case reason != "":
			snap.dropped = append(snap.dropped, dropped{snap.server, e.name, reason})
		case seen[e.name]:
			snap.dropped = append(snap.dropped, dropped{snap.server, e.name, "it is listed twice"})
		default:
			seen[e.name] = true
			snap.items = append(snap.items, e)
		}
	}
	return nil
}
