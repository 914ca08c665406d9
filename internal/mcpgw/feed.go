package mcpgw

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// How long a server is left alone that ends its subscription, and one that has none.
const (
	leastPause = time.Second
	mostPause  = time.Minute
	longPause  = 10 * time.Minute
	soonOver   = 5 * time.Second // after which nothing is missed that was never told
)

// listens fan out what servers tell: the gateway has one subscription at each, for
// all of its clients (SUB-09).
type listens struct {
	of      atomic.Pointer[Handler] // the newest
	closing chan struct{}
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu    sync.Mutex
	feeds map[feedKey]*feed
	subs  map[*subscriber]map[*feed]bool
	count map[string]int // of subscribers, by caller
	last  int            // number of requests
}

// feedKey names a subscription at a server: for the node, or for one caller where
// the server keeps callers apart.
type feedKey struct{ server, caller string }

// feed is the subscription at a server.
type feed struct {
	key    feedKey
	server upstream.Server
	caller *auth.Principal // nil: the node
	wake   chan struct{}
	subs   map[*subscriber][]string // which resources they want, as the server has them
}

// personal is a server whose sessions, processes or credentials are those of one
// caller, so that it has to be listened to for each.
type personal interface{ Personal() bool }

func newListens(h *Handler) *listens {
	l := &listens{
		closing: make(chan struct{}), feeds: map[feedKey]*feed{}, subs: map[*subscriber]map[*feed]bool{}, count: map[string]int{},
	}
	l.of.Store(h)
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// close ends the streams of clients, with a response, and those of servers.
func (l *listens) close() {
	l.mu.Lock()
	select {
	case <-l.closing:
	default:
		close(l.closing)
	}
	l.stop()
	l.mu.Unlock()
	l.work.Wait()
}

// add begins to tell a subscriber of changes, until it leaves.
func (l *listens) add(sub *subscriber) (leave func(), err error) {
	caller := callerOf(sub.view.Caller)
	var servers []upstream.Server
	if len(sub.kinds) > 0 {
		servers = l.of.Load().opts.Catalog.Servers(sub.view)
	}
	targets := l.find(sub, sub.uris)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, unavailable(errClosing)
	}
	if l.count[caller] >= maxStreams {
		return nil, &mcp.Error{Code: mcp.CodeRateLimited, Message: "Too many streams are open", RetryAfter: 5}
	}
	l.count[caller]++
	l.subs[sub] = map[*feed]bool{}
	for _, server := range servers {
		l.join(sub, server)
	}
	l.place(sub, targets)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.count[caller]--; l.count[caller] == 0 {
			delete(l.count, caller)
		}
		for f := range l.subs[sub] {
			delete(f.subs, sub)
			f.hint()
		}
		delete(l.subs, sub)
	}, nil
}

// join makes a subscriber one of a server's feed. The lock is held.
func (l *listens) join(sub *subscriber, server upstream.Server) *feed {
	key := feedKey{server: server.Name()}
	var caller *auth.Principal
	if p, ok := server.(personal); ok && p.Personal() {
		caller = sub.view.Caller
		key.caller = callerOf(caller)
	}
	f := l.feeds[key]
	if f == nil {
		f = &feed{key: key, server: server, caller: caller, wake: make(chan struct{}, 1), subs: map[*subscriber][]string{}}
		l.feeds[key] = f
		l.work.Go(func() { l.run(f) })
	}
	f.server = server
	if _, ok := f.subs[sub]; !ok {
		f.subs[sub] = nil
		l.subs[sub][f] = true
	}
	f.hint()
	return f
}

// find returns what the resources of a subscriber stand for. Those that it may not
// know of any more are left out.
func (l *listens) find(sub *subscriber, uris []string) []*Target {
	var targets []*Target
	for _, uri := range uris {
		t, err := l.of.Load().opts.Catalog.Find(l.ctx, sub.view, mcp.MethodSubscribe, uri)
		if err == nil && t.Server != nil {
			targets = append(targets, t)
		}
	}
	return targets
}

// place has the feeds of servers ask for resources of a subscriber. The lock is
// held.
func (l *listens) place(sub *subscriber, targets []*Target) {
	wanted := map[*feed][]string{}
	for _, t := range targets {
		f := l.join(sub, t.Server)
		wanted[f] = append(wanted[f], t.Name)
	}
	for f := range l.subs[sub] {
		if !slices.Equal(f.subs[sub], wanted[f]) {
			f.subs[sub] = wanted[f]
			f.hint()
		}
	}
}

// setResources changes which resources a subscriber hears of.
func (l *listens) setResources(sub *subscriber, uris []string) {
	sub.mu.Lock()
	same := slices.Equal(sub.uris, uris)
	sub.uris = slices.Clone(uris)
	sub.mu.Unlock()
	if same {
		return
	}
	targets := l.find(sub, uris)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subs[sub] != nil && l.ctx.Err() == nil {
		l.place(sub, targets)
	}
}

// Changed tells all clients that their lists have changed, as after another
// configuration.
func (h *Handler) Changed() {
	l := h.listens
	l.mu.Lock()
	defer l.mu.Unlock()
	for sub := range l.subs {
		for _, kind := range changeKinds {
			if sub.wants(kind.method) {
				sub.add(pending{method: kind.method})
			}
		}
	}
}

func (f *feed) hint() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// wanted returns the filter that has what all subscribers want. A feed that nobody
// wants is taken out.
func (l *listens) wanted(f *feed) (params jsontext.Value, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(f.subs) == 0 {
		delete(l.feeds, f.key)
		return nil, false
	}
	var uris []string
	for _, some := range f.subs {
		uris = append(uris, some...)
	}
	slices.Sort(uris)
	filter := struct {
		Tools     bool     `json:"toolsListChanged"`
		Prompts   bool     `json:"promptsListChanged"`
		Resources bool     `json:"resourcesListChanged"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}{true, true, true, slices.Compact(uris)}
	params, err := json.Marshal(map[string]any{"notifications": filter}, jsontext.AllowInvalidUTF8(true))
	return params, err == nil
}

// reader reads a subscription at a server.
type reader struct {
	wants  string
	since  time.Time
	cancel context.CancelFunc
	begun  chan struct{} // closed when the server has acknowledged
	ended  chan error
}

// run keeps the subscription at a server as its subscribers want it.
func (l *listens) run(f *feed) {
	var now, older *reader // older is read on until now has begun, so that nothing is missed
	drop := func(r **reader) {
		if *r != nil {
			(*r).cancel()
			<-(*r).ended
			*r = nil
		}
	}
	defer func() {
		drop(&older)
		drop(&now)
	}()
	pause := leastPause
	var retry <-chan time.Time
	for {
		params, ok := l.wanted(f)
		if !ok || l.ctx.Err() != nil {
			return
		}
		if retry == nil && (now == nil || now.wants != string(params)) {
			drop(&older)
			older, now = now, l.read(f, params)
		}
		var begun chan struct{}
		var ended chan error
		if now != nil {
			begun, ended = now.begun, now.ended
		}
		if older == nil {
			begun = nil
		}
		select {
		case <-l.ctx.Done():
		case <-f.wake:
		case <-retry:
			retry = nil
		case <-begun:
			drop(&older)
		case err := <-ended:
			now.ended <- nil // for who drops it
			wasUp, lasted := isClosed(now.begun), time.Since(now.since)
			drop(&older)
			drop(&now)
			if lasted > mostPause {
				pause = leastPause
			}
			wait := pause + rand.N(pause) // CCH-05
			pause = min(2*pause, mostPause)
			e, refused := errors.AsType[*mcp.Error](err)
			switch {
			case refused && (e.Code == mcp.CodeMethodNotFound || e.Code == mcp.CodeInvalidParams), err == nil && lasted < soonOver:
				wait = longPause // it has no changes to tell
			case wasUp:
				l.missed(f)
			}
			l.of.Load().opts.Logger.Debug("A server tells of no changes for now", slog.String("server", f.key.server), slog.Any("error", err), slog.Duration("pause", wait))
			retry = time.After(wait)
		}
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// read begins a subscription at a server.
func (l *listens) read(f *feed, params jsontext.Value) *reader {
	ctx, cancel := context.WithCancel(l.ctx)
	r := &reader{wants: string(params), since: time.Now(), cancel: cancel, begun: make(chan struct{}), ended: make(chan error, 2)}
	l.mu.Lock()
	l.last++
	id := jsontext.Value(strconv.Itoa(l.last))
	server := f.server
	l.mu.Unlock()
	m := mcp.NewRequest(id, mcp.MethodListen, params, mcp.Meta{Client: l.of.Load().server})
	l.work.Go(func() {
		defer cancel()
		r.ended <- l.follow(ctx, f, server, m, r)
	})
	return r
}

// follow reads what a server tells.
func (l *listens) follow(ctx context.Context, f *feed, server upstream.Server, m *mcp.Message, r *reader) error {
	answer, err := server.Do(ctx, &upstream.Request{Message: m, Caller: f.caller})
	if err != nil {
		return err
	}
	defer answer.Close()
	for {
		n, err := answer.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n.IsResponse():
			if e := n.Error(); e != nil {
				return e
			}
		case n.Method == mcp.NotifyAcknowledged:
			if !isClosed(r.begun) {
				close(r.begun)
			}
		case n.Method == mcp.NotifyResource:
			l.tell(f, n.Method, n.ParamString("uri"))
		case n.Method == mcp.NotifyTools, n.Method == mcp.NotifyPrompts, n.Method == mcp.NotifyResources:
			l.tell(f, n.Method, "")
		}
	}
}

// missed tells of all lists, since nobody knows what has changed in between.
func (l *listens) missed(f *feed) {
	for _, kind := range changeKinds {
		l.tell(f, kind.method, "")
	}
}

// tell fans out what a server has told, to who wants it and may know it (SUB-09).
func (l *listens) tell(f *feed, method, uri string) {
	l.of.Load().opts.Catalog.Changed(f.key.server, method)
	l.mu.Lock()
	subs := make([]*subscriber, 0, len(f.subs))
	for sub := range f.subs {
		subs = append(subs, sub)
	}
	l.mu.Unlock()
	for _, sub := range subs {
		if method != mcp.NotifyResource && !sub.wants(method) {
			continue
		}
		exposed, ok := l.of.Load().opts.Catalog.May(sub.view, f.key.server, method, uri)
		if !ok {
			continue
		}
		p := pending{method: method}
		if method == mcp.NotifyResource {
			if exposed == "" || !sub.wantsResource(exposed) {
				continue
			}
			p.key = exposed
			p.params = append(mustQuote([]byte(`{"uri":`), exposed), '}')
		}
		sub.add(p)
	}
}
